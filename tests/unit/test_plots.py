"""Figures show the numbers of the results, and say when they cannot."""

from __future__ import annotations

import builtins
import io
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.plots.style import PALETTE, spread


@pytest.fixture(scope="module")
def results() -> mixts.Results:
    prior = mixts.MixturePrior(mixts.BernoulliArms([[2.0, 1.0], [1.0, 2.0]], np.ones((2, 2))))
    agents = {"MixTS": prior, "TS": mixts.MixturePrior(mixts.BernoulliArms.uniform(2))}
    environment = mixts.BanditEnvironment(prior)
    return mixts.simulate(agents, environment, n_rounds=30, n_runs=8, seed=0, executor=1)


def lines(figure: Any) -> list[Any]:
    return list(figure.axes[0].lines)


def labels(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.parametrize("quantity", ["regret", "reward"])
def test_curves_are_the_results(results: mixts.Results, quantity: Any) -> None:
    figure = mixts.plot(results, quantity=quantity)
    for line, name in zip(lines(figure), results.agents, strict=True):
        mean, error = results.curve(name, quantity)
        np.testing.assert_array_equal(line.get_ydata(), mean)
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 31))
        band = figure.axes[0].collections[results.agents.index(name)].get_paths()[0].vertices
        assert band[:, 1].max() == (mean + error).max()
        assert band[:, 1].min() == (mean - error).min()
    assert labels(figure) == results.agents


def test_an_agent_keeps_its_colour(results: mixts.Results) -> None:
    figure = mixts.plot(results, agents=["TS"])
    assert [line.get_color() for line in lines(figure)] == [PALETTE[1]]
    assert labels(figure) == ["TS"]


def test_a_figure_can_be_drawn_into_and_saved(results: mixts.Results) -> None:
    from matplotlib.figure import Figure

    own = Figure()
    left, right = own.subplots(1, 2)
    assert mixts.plot(results, left, log=True, rounds="episode", bottom=0.01) is own
    assert left.get_yscale() == "log"
    assert left.get_ylim()[0] == 0.01
    assert left.get_xlabel() == "episode"
    assert not right.lines
    for form, magic in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        stream = io.BytesIO()
        mixts.plot(results).savefig(stream, format=form)
        assert stream.getvalue().startswith(magic)


def test_sets_over_eta() -> None:
    river = mixts.RiverSwim(4, horizon=4)
    sets = mixts.follow_confidence_sets(river.prior, river, 6, 5, seed=0, n_samples=2)
    etas = np.array([-1.0, 0.0, 1.0])
    figure = mixts.plot(sets, etas=etas)
    table = sets.sweep(etas)
    excluded, missed, proofs = lines(figure)
    np.testing.assert_array_equal(excluded.get_ydata(), table["excluded"])
    np.testing.assert_array_equal(missed.get_ydata(), table["missed"])
    np.testing.assert_array_equal(missed.get_xdata(), etas)
    assert proofs.get_xdata() == [2**0.5, 2**0.5]
    shown = lines(mixts.plot(sets))[0].get_xdata()
    assert shown.min() < min(0.0, sets.miss.eta)
    assert shown.max() > 2**0.5


def test_what_cannot_be_drawn(results: mixts.Results) -> None:
    with pytest.raises(mixts.ParameterError, match="and ConfidenceSets, got int"):
        mixts.plot(3)
    with pytest.raises(mixts.ParameterError, match="no agent 'Exp4'"):
        mixts.plot(results, agents=["Exp4"])
    with pytest.raises(mixts.ParameterError, match="got none"):
        mixts.plot(results, agents=[])


def test_without_matplotlib(results: mixts.Results, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(mixts.MissingExtraError, match=r"mixts\[plots\]"):
        mixts.plot(results)


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ([0.0, 1.0], [0.0, 1.0]),
        ([0.5, 0.5], [0.45, 0.55]),
        ([0.55, 0.5, 0.0], [0.575, 0.475, 0.0]),
        ([0.5, 0.5, 0.5, 0.9], [0.4, 0.5, 0.6, 0.9]),
        ([0.5, 0.52, 0.63], [0.45, 0.55, 0.65]),
    ],
)
def test_labels_move_apart(positions: list[float], expected: list[float]) -> None:
    moved = spread(positions, 0.1)
    np.testing.assert_allclose(moved, expected, atol=1e-12)
    assert np.diff(sorted(moved)).min() > 0.1 - 1e-12
