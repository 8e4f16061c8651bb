"""Figures show the numbers of the results, and say when they cannot."""

from __future__ import annotations

import builtins
import io
import pickle
import sys
from typing import Any

import numpy as np
import pytest
from mixts_paper.analysis import decompose_regret, follow_confidence_sets
from mixts_paper.analysis.decomposition import Decomposition
from mixts_paper.analysis.drawings import draw_actions, draw_beliefs, draw_bounds, draw_weights
from mixts_paper.analysis.identification import Identification, identify

import mixts
from mixts import errors
from mixts.plots.lines import draw_curves, draw_lines, tick_values
from mixts.plots.style import LOOKS, new_axes
from mixts.simulation.results import Sweep


@pytest.fixture(scope="module")
def results() -> mixts.Results:
    prior = mixts.MixturePrior(mixts.BernoulliArms([[2.0, 1.0], [1.0, 2.0]], np.ones((2, 2))))
    agents = {"MixTS": prior, "TS": mixts.MixturePrior(mixts.BernoulliArms.uniform(2))}
    environment = mixts.BanditEnvironment(prior)
    return mixts.simulate(agents, environment, n_rounds=30, n_runs=8, seed=0, executor=1)


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    rng = np.random.default_rng(0)
    totals = {name: rng.exponential(size=(3, 20)) for name in ("MixTS", "UniTS")}
    return Sweep("prior width", np.array([0.1, 0.2, 0.5]), totals)


@pytest.fixture(scope="module")
def identification() -> Identification:
    family = mixts.GaussianArms(0.1 + 0.8 * np.eye(5), np.full((5, 5), 0.01), 0.1)
    prior = mixts.MixturePrior(family)
    return identify(prior, mixts.BanditEnvironment(prior), 40, seed=0)


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


def test_some_agents_only(results: mixts.Results) -> None:
    figure = mixts.plot(results, agents=["TS"])
    assert [line.get_color() for line in lines(figure)] == [LOOKS["TS"].color]
    assert labels(figure) == ["TS"]


def test_scales(results: mixts.Results) -> None:
    ax = mixts.plot(results, log=True, log_x=True).axes[0]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_xlim() == (1, 30)
    assert mixts.plot(results).axes[0].get_ylim()[0] == 0
    # One round is drawn as well.
    once = mixts.Results(
        {"x": np.ones((2, 1))}, {"x": np.ones((2, 1))}, np.zeros(2, np.int64), results.settings
    )
    draw_curves(new_axes(), once, log_x=True)


def test_a_figure_can_be_drawn_into_and_saved(results: mixts.Results) -> None:
    from matplotlib.figure import Figure

    own = Figure()
    left, right = own.subplots(1, 2)
    other = new_axes()
    assert mixts.plot(results, ax=[other]) is other
    assert mixts.plot(results, left, log=True, rounds="episode", bottom=0.01) is left
    assert left.get_yscale() == "log"
    assert left.get_ylim()[0] == 0.01
    assert left.get_xlabel() == "episode"
    assert not right.lines
    for form, magic in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        stream = io.BytesIO()
        mixts.plot(results).savefig(stream, format=form)
        assert stream.getvalue().startswith(magic)


def test_a_figure_survives_pickle_and_shows_itself(results: mixts.Results) -> None:
    figure = pickle.loads(pickle.dumps(mixts.plot(results)))
    picture, about = figure._repr_png_()
    assert picture.startswith(b"\x89PNG")
    assert about == {"width": 408, "height": 300}


def test_sweeps_with_medians_and_bounds(sweep: Sweep) -> None:
    bound = np.array([1.0, 2.0, 3.0])
    figure = mixts.plot(sweep, bounds={"Theorem 1 / 30": bound})
    *means, median, drawn_bound = lines(figure)
    for i, name in enumerate(sweep.agents):
        mean, error = sweep.regret(name)
        np.testing.assert_array_equal(means[i].get_ydata(), mean)
        assert means[i].get_color() == LOOKS[name].color
        np.testing.assert_array_equal(means[i].get_xdata(), sweep.values)
        band = figure.axes[0].collections[i].get_paths()[0].vertices
        assert band[:, 1].max() == (mean + error).max()
    np.testing.assert_array_equal(median.get_ydata(), sweep.median("MixTS"))
    assert (median.get_markerfacecolor(), median.get_color()) == ("white", LOOKS["MixTS"].color)
    np.testing.assert_array_equal(drawn_bound.get_ydata(), bound)
    assert labels(figure) == ["MixTS", "UniTS", "MixTS, median", "Theorem 1 /\N{NO-BREAK SPACE}30"]
    ax = figure.axes[0]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0.1", "0.2", "0.5"]
    assert ax.get_xlabel() == "prior width"
    assert ax.get_ylim()[0] == 0


def test_some_agents_of_sweeps(sweep: Sweep) -> None:
    figure = mixts.plot(sweep, agents=["UniTS"])
    ax = figure.axes[0]
    assert labels(figure) == ["UniTS", "UniTS, median"]
    np.testing.assert_array_equal(lines(figure)[1].get_ydata(), sweep.median("UniTS"))
    low, high = ax.get_xlim()
    assert low < 0.1 < 0.5 < high
    # A single value, and a single run, can be drawn.
    mixts.plot(Sweep("w", np.zeros(1), {"x": np.ones((1, 1))}))


def test_ticks_are_the_roundest_values_that_fit() -> None:
    widths = np.array([0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5])
    assert tick_values(widths, 1000.0) == widths.tolist()
    assert tick_values(widths, 110.0) == [0.01, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert tick_values(widths, 1.0) == [0.5]
    assert tick_values(np.array([3.0]), 100.0) == [3.0]


def test_weights_and_actions_over_time(identification: Identification) -> None:
    ax = new_axes()
    draw_weights(ax, identification)
    *others, true = ax.lines
    weights = identification.weights
    np.testing.assert_array_equal(true.get_ydata(), weights[:, identification.latent])
    np.testing.assert_array_equal(true.get_xdata(), np.arange(41))
    assert len(others) == 4
    assert [text.get_text() for text in ax.texts] == [
        f"state {identification.latent + 1} (true)",
        "4 others",
    ]
    ax = new_axes()
    draw_actions(ax, identification)
    another, same = (np.asarray(one.get_offsets()) for one in ax.collections)
    right = identification.sampled == identification.latent
    rounds = np.arange(1, 41)
    np.testing.assert_array_equal(same[:, 0], rounds[right])
    np.testing.assert_array_equal(same[:, 1], identification.actions[right] + 1)
    np.testing.assert_array_equal(another[:, 0], rounds[~right])
    assert ax.lines[0].get_ydata() == [np.argmax(identification.truth) + 1] * 2
    assert ax.get_yticks().tolist() == [1, 2, 3, 4, 5]
    low, high = ax.get_ylim()
    assert low < 1 < 5 < high


def test_beliefs_at_a_moment(identification: Identification) -> None:
    ax = new_axes()
    draw_beliefs(ax, identification, 7)
    truth, bars = (np.array(one.get_segments()) for one in ax.collections)
    mean, deviation = identification.means[7], identification.deviations[7]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), mean)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(bars[:, :, 1], np.stack([mean - deviation, mean + deviation], 1))
    np.testing.assert_array_equal(truth[:, 0, 1], identification.truth)
    assert ax.get_title(loc="left") == "after 7 rounds"
    with pytest.raises(errors.ParameterError, match="at most 40 rounds, got 41"):
        draw_beliefs(new_axes(), identification, 41)


@pytest.mark.parametrize(
    ("n_actions", "expected"),
    [
        (1, [1]), (6, [1, 2, 3, 4, 5, 6]), (7, [1, 2, 4, 6]), (30, [1, 5, 10, 15, 20, 25, 30]),
        (100, [1, 20, 40, 60, 80, 100]),
    ],
)  # fmt: skip
def test_actions_are_numbered_from_one(n_actions: int, expected: list[int]) -> None:
    ax = new_axes()
    draw_beliefs(ax, no_rounds(n_actions), 0)
    assert ax.get_xticks().tolist() == expected


def test_actions_have_their_names_where_they_have_some() -> None:
    ax = new_axes()
    draw_beliefs(ax, no_rounds(2, ("left", "right")), 0)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["left", "right"]
    assert ax.get_xticks().tolist() == [1, 2]


def no_rounds(n_actions: int, names: tuple[str, ...] | None = None) -> Identification:
    """Return the belief about so many actions before any observation."""
    none, nowhere = np.zeros(0), np.zeros(0, np.int64)
    means = np.zeros((1, n_actions))
    return Identification(
        0, means[0], np.ones((1, 1)), means, means, nowhere, nowhere, none, none, None, names
    )


def test_the_figure_of_an_identification(identification: Identification) -> None:
    figure = mixts.plot(identification)
    strips = figure.axes[2:]
    known = identification.identified()
    soon = "after 1 round" if known == 1 else f"after {known} rounds"
    assert [ax.get_title(loc="left") for ax in strips] == ["prior", soon, "after 40 rounds"]
    low, high = strips[0].get_ylim()
    everything = identification.means + identification.deviations
    assert high > max(everything[[0, known, 40]].max(), identification.truth.max())
    assert all(ax.get_ylim() == (low, high) for ax in strips)
    assert len(mixts.plot(identification, moments=[0, 1, 5, 40]).axes) == 6
    axes = new_axes().figure.subplots(1, 4)
    drawn = mixts.plot(identification, axes, moments=[0, 40])
    assert list(drawn) == list(axes)
    assert [ax.get_title(loc="left") for ax in axes[2:]] == ["prior", "after 40 rounds"]
    assert all(ax.get_xlabel() for ax in axes)
    with pytest.raises(errors.ParameterError, match=r"with 3 moments needs ax .* of 5 axes, as"):
        mixts.plot(identification, new_axes())


def test_named_lines() -> None:
    ax, x = new_axes(), np.array([1.0, 10.0, 100.0])
    draw_lines(ax, x, {"ours": x, "earlier": x**1.5}, "rounds", "bound", log=True)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), x)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), x**1.5)
    assert [text.get_text() for text in ax.texts] == ["ours", "earlier"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rounds", "bound")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_lines_for_comparison_differ_by_dashes_and_by_grey() -> None:
    ax, x = new_axes(), np.array([1.0, 2.0])
    draw_lines(ax, x, dict.fromkeys("abcd", x), "rounds", "bound")
    first, *others = ax.lines
    assert first.get_color() == LOOKS["MixTS"].color
    assert len({line._unscaled_dash_pattern[1] for line in ax.lines}) == 4
    greys = [line.get_color() for line in others]
    levels = sorted(int(grey[1:3], 16) for grey in greys)
    assert greys == [f"#{grey[1:3] * 3}" for grey in greys]
    # A fifth of the way from black to white, at least, from each to the next and to the paper.
    assert min(np.diff([*levels, 255])) > 0.18 * 255


@pytest.fixture(scope="module")
def decomposition() -> Decomposition:
    prior = mixts.MixturePrior(mixts.GaussianArms(np.eye(2), np.full((2, 2), 0.1), 0.5))
    return decompose_regret(prior, mixts.BanditEnvironment(prior), 12, 3, seed=0)


def test_the_regret_and_its_parts(decomposition: Decomposition) -> None:
    whole = mixts.plot(decomposition).axes[0]
    first = mixts.plot(decomposition, title="width 0.1", rounds=5).axes[0]
    for line, early, quantity in zip(
        whole.lines, first.lines, ("regret", "sum", "first", "second"), strict=True
    ):
        mean = decomposition.curve(quantity).mean
        np.testing.assert_array_equal(line.get_ydata(), mean)
        np.testing.assert_array_equal(early.get_ydata(), mean[:5])
        np.testing.assert_array_equal(early.get_xdata(), [1, 2, 3, 4, 5])
    assert (whole.get_xlim(), first.get_xlim()) == ((0, 12), (0, 5))
    assert (whole.get_ylabel(), first.get_ylabel()) == ("cumulative sum",) * 2
    assert (whole.get_title(loc="left"), first.get_title(loc="left")) == ("", "width 0.1")
    # There is nothing after the last round.
    assert mixts.plot(decomposition, rounds=99).axes[0].get_xlim() == (0, 12)
    with pytest.raises(errors.ParameterError, match="rounds must be a whole number, at least 1"):
        mixts.plot(decomposition, rounds=0)


def test_sets_over_eta() -> None:
    river = mixts.RiverSwim(4, horizon=4)
    sets = follow_confidence_sets(river.prior, river, 6, 5, seed=0, n_samples=2)
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


def test_what_cannot_be_drawn(results: mixts.Results, sweep: Sweep) -> None:
    kinds = "plot draws Results, Sweep, .* and Identification, got int"
    with pytest.raises(errors.ParameterError, match=kinds):
        mixts.plot(3)
    for drawn in (results, sweep):
        with pytest.raises(errors.ParameterError, match="no agent 'Exp4'"):
            mixts.plot(drawn, agents=["Exp4"])
        with pytest.raises(errors.ParameterError, match="got none"):
            mixts.plot(drawn, agents=[])
    with pytest.raises(errors.ParameterError, match=r"'B' must have a number for each of the 3"):
        mixts.plot(sweep, bounds={"B": [1.0, 2.0]})


def test_without_matplotlib(
    results: mixts.Results, identification: Identification, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "mixts.plots._figure", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    for drawn in (results, identification):
        with pytest.raises(errors.MissingExtraError, match=r"mixts\[plots\]"):
            mixts.plot(drawn)


def test_bounds_beside_the_regret(sweep: Sweep) -> None:
    axes = new_axes()
    new, old = np.array([3.0, 4.0, np.nan]), np.full(3, 100.0)
    draw_bounds(axes, sweep, {"new": new}, {"old": old}, "title", {0.1: "a", 0.5: "b"})
    drawn = [line.get_ydata() for line in axes.lines]
    np.testing.assert_array_equal(drawn[0], old)
    np.testing.assert_array_equal(drawn[1], new)
    np.testing.assert_array_equal(drawn[2], sweep.regret("MixTS").mean)
    assert axes.get_yscale() == "log"
    assert [text.get_text() for text in axes.texts] == ["old", "new", "MixTS, measured"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]
    assert axes.get_title(loc="left") == "title"
    assert len({line.get_color() for line in axes.lines}) == 3
