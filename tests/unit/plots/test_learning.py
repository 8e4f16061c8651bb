"""Figures of learning and of checks show the numbers that were found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.learning import History, Learned, Selection
from mixts.learning.check import PriorCheck, check_prior
from mixts.learning.measures import Calibration, Surprise
from mixts.plots.learning import (
    calibration_curve,
    draw_bic,
    draw_calibration,
    draw_gains,
    draw_held_out,
    draw_history,
    draw_surprise,
    draw_usage,
    history_gains,
    surprise_points,
)
from mixts.plots.style import LOOKS, new_axes
from tests.contracts.problems import FamilyCase
from tests.statistical.held_out import held_out

EVIDENCE = np.array([-120.0, -101.0, -100.5, -100.4])
HISTORY = History(EVIDENCE, np.array([-3.0, -3.5, -3.6, -3.65]), converged=True)
OTHER = History(EVIDENCE[:3] - 4, np.full(3, -3.0), converged=True)
HELD_OUT = np.random.default_rng(0).normal(size=(4, 30)) + np.array(
    [[-6.0], [-5.0], [-4.9], [-5.1]]
)
SELECTION = Selection((1, 2, 3, 4), HELD_OUT, np.array([50.0, 41.0, 44.0, 52.0]), 2, 5)


@pytest.fixture(scope="module")
def prior() -> mixts.MixturePrior:
    return FamilyCase("gaussian").prior


@pytest.fixture(scope="module")
def check() -> PriorCheck:
    case = FamilyCase("gaussian")
    return check_prior(case.prior, held_out(case, seed=0, n_tasks=50), seed=0, n_draws=99)


def texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_gains_of_the_objective_and_of_its_parts() -> None:
    gains = history_gains(HISTORY)
    np.testing.assert_allclose(gains["log_evidence"], [0, 19, 19.5, 19.6])
    np.testing.assert_allclose(gains["log_hyperprior"], [0, -0.5, -0.6, -0.65])
    np.testing.assert_allclose(gains["objective"], gains["log_evidence"] + gains["log_hyperprior"])


def test_the_course_of_restarts() -> None:
    above, below = new_axes(), new_axes()
    draw_history(above, below, HISTORY, (HISTORY, OTHER))
    gains = history_gains(HISTORY)
    *others, whole, evidence = above.lines
    np.testing.assert_allclose(others[1].get_ydata(), OTHER.objective - HISTORY.objective[0])
    np.testing.assert_array_equal(whole.get_ydata(), gains["objective"])
    np.testing.assert_array_equal(evidence.get_ydata(), gains["log_evidence"])
    np.testing.assert_array_equal(below.lines[0].get_ydata(), gains["log_hyperprior"])
    np.testing.assert_array_equal(whole.get_xdata(), [0, 1, 2, 3])
    assert texts(above) == ["sum", "log evidence"]
    assert texts(below) == ["log hyperprior"]
    assert below.get_xlabel() == "iteration"
    unfinished = History(EVIDENCE[:2], EVIDENCE[:2], converged=False)
    draw_history(above, below, unfinished)
    assert below.get_xlabel() == "iteration (not converged)"


def test_held_out_evidence_and_bic() -> None:
    ax = new_axes()
    draw_held_out(ax, SELECTION)
    line, mark = ax.lines[1], ax.lines[-1]
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3, 4])
    np.testing.assert_array_equal(line.get_ydata(), SELECTION.mean)
    bars = np.array(ax.collections[0].get_segments())
    np.testing.assert_allclose(bars[:, 1, 1] - SELECTION.mean, SELECTION.standard_error)
    assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (2, SELECTION.mean[1])
    assert "chosen: 2" in ax.get_title(loc="left")
    ax = new_axes()
    swing = np.repeat([[0.0, -5.0], [-5.0, 0.0], [-9.0, -9.0]], 20, axis=1)
    draw_held_out(ax, Selection((1, 2, 3), swing, np.zeros(3), 1, 5, "stack"))
    assert list(ax.lines[-1].get_xdata()) == [1, 2]
    assert "joined: 1, 2" in ax.get_title(loc="left")
    ax = new_axes()
    draw_bic(ax, SELECTION)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), SELECTION.bic)
    assert ax.lines[1].get_ydata() == [41.0]
    assert "least: 2" in ax.get_title(loc="left")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "2", "3", "4"]


def test_plot_knows_what_learning_gives(prior: mixts.MixturePrior) -> None:
    assert len(mixts.plot(HISTORY).axes) == 2
    assert len(mixts.plot(SELECTION).axes) == 2
    both = Learned(prior, prior, "evidence", HISTORY, (HISTORY, OTHER), SELECTION)
    assert len(mixts.plot(both).axes) == 4
    assert len(mixts.plot(Learned(prior, prior, "evidence", HISTORY, (HISTORY,))).axes) == 2
    assert len(mixts.plot(Learned(prior, prior, "two-stage", selection=SELECTION)).axes) == 2
    with pytest.raises(errors.ParameterError, match=r"method='two-stage' .* nothing to draw"):
        mixts.plot(Learned(prior, prior, "two-stage"))
    for result, n in ((HISTORY, 2), (SELECTION, 2), (both, 4)):
        axes = new_axes().figure.subplots(2, n // 2)
        assert list(mixts.plot(result, ax=axes)) == list(np.ravel(axes))
        assert all(ax.lines for ax in np.ravel(axes))
        with pytest.raises(errors.ParameterError, match=rf"needs ax .* {n} axes, .* got 1:"):
            mixts.plot(result, new_axes())


def test_calibration_of_each_kind(check: PriorCheck) -> None:
    ax = new_axes()
    draw_calibration(ax, check)
    assert texts(ax) == ["rewards", "noise"]
    for line, one in zip(ax.lines[1:], check.calibration.values(), strict=True):
        u, deviation = calibration_curve(one)
        np.testing.assert_array_equal(line.get_xdata(), u)
        np.testing.assert_array_equal(line.get_ydata(), deviation)
        assert np.abs(deviation).max() == one.deviation
        assert (deviation[0], deviation[-1], u[0], u[-1]) == (0, 0, 0, 1)


def test_long_curves_are_thinned_but_for_the_largest_deviation() -> None:
    u = np.random.default_rng(0).random(20_000) ** 1.1
    one = Calibration("rewards", u, np.zeros(len(u), np.int64))
    x, deviation = calibration_curve(one)
    assert len(x) < 500
    assert np.abs(deviation).max() == one.deviation


def test_gains_over_other_priors(check: PriorCheck) -> None:
    ax = new_axes()
    draw_gains(ax, check)
    for row, name in enumerate(["UniTS", "TS, flat"]):
        mean, error = check.evidence.gain(name)
        low, high = ax.collections[row].get_segments()[0][:, 0]
        np.testing.assert_allclose([low, high], [mean - 2 * error, mean + 2 * error])
        assert texts(ax)[row] == f"over {name}: {mean:+.3g} ± {error:.2g}"


def test_p_values_in_order(check: PriorCheck) -> None:
    ax = new_axes()
    draw_surprise(ax, check)
    points = np.concatenate([np.asarray(part.get_offsets()) for part in ax.collections])
    found = np.sort(check.surprise.p_value)
    np.testing.assert_allclose(np.sort(points[:, 1]), found)
    np.testing.assert_allclose(np.sort(points[:, 0]), np.arange(1, 51) / 51)
    n = int((found <= 0.01).sum())
    assert ax.get_title(loc="left") == f"tasks with p ≤ 0.01: {n}, expected 0.5"
    four = np.array([-1.0, -2.0, -np.inf, 0.0])
    gone = Surprise(
        four, np.zeros(4), np.ones(4), np.array([0.4, 0.02, 0.0, 1.0]), np.zeros(4),
        np.array([2, 2, 2, 0]),
    )  # fmt: skip
    expected, shown = surprise_points(gone)
    np.testing.assert_allclose(expected, [0.25, 0.5, 0.75])
    np.testing.assert_allclose(shown, [0.01, 0.02, 0.4])


def test_components_beside_their_weights(check: PriorCheck) -> None:
    ax = new_axes()
    draw_usage(ax, check)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], check.usage.found)
    marks = np.array([segment[0, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(marks, check.usage.expected)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["calm", "odd", "wild"]
    assert all(bar.get_facecolor()[:3] != LOOKS["TS"].color for bar in ax.patches)


def test_the_figure_of_a_check(check: PriorCheck) -> None:
    figure = mixts.plot(check)
    assert len(figure.axes) == 4
    assert figure.get_size_inches().tolist() == [7.0, 4.4]
    axes = new_axes().figure.subplots(2, 2)
    drawn = mixts.plot(check, axes)
    assert drawn.tolist() == axes.ravel().tolist()
    titles = [[ax.get_title(loc="left") for ax in some] for some in (drawn, figure.axes)]
    assert titles[0] == titles[1]
    with pytest.raises(errors.ParameterError, match="a check needs ax to be a list or an array"):
        mixts.plot(check, new_axes())
