"""RiverSwim's tables against the paper's figure, number by number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts

pytestmark = pytest.mark.usefixtures("program")

LEFT, RIGHT = 0, 1

# The figure: five states x1 to x5, the current to the left. Dashed arrows are "left", sure to
# succeed; solid ones are "right".
DASHED = [
    [1.00, 0.00, 0.00, 0.00, 0.00],
    [1.00, 0.00, 0.00, 0.00, 0.00],
    [0.00, 1.00, 0.00, 0.00, 0.00],
    [0.00, 0.00, 1.00, 0.00, 0.00],
    [0.00, 0.00, 0.00, 1.00, 0.00],
]
SOLID = [
    [0.60, 0.40, 0.00, 0.00, 0.00],
    [0.05, 0.60, 0.35, 0.00, 0.00],
    [0.00, 0.05, 0.60, 0.35, 0.00],
    [0.00, 0.00, 0.05, 0.60, 0.35],
    [0.00, 0.00, 0.00, 0.40, 0.60],
]
REWARDS = [[0.005, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.9]]

# The same river seen from the other bank, written out: the current to the right.
MIRRORED_LEFT = [
    [0.60, 0.40, 0.00, 0.00, 0.00],
    [0.35, 0.60, 0.05, 0.00, 0.00],
    [0.00, 0.35, 0.60, 0.05, 0.00],
    [0.00, 0.00, 0.35, 0.60, 0.05],
    [0.00, 0.00, 0.00, 0.40, 0.60],
]
MIRRORED_RIGHT = [
    [0.00, 1.00, 0.00, 0.00, 0.00],
    [0.00, 0.00, 1.00, 0.00, 0.00],
    [0.00, 0.00, 0.00, 1.00, 0.00],
    [0.00, 0.00, 0.00, 0.00, 1.00],
    [0.00, 0.00, 0.00, 0.00, 1.00],
]
MIRRORED_REWARDS = [[0.9, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.005]]

FIGURE = {
    "left": (DASHED, SOLID, REWARDS),
    "right": (MIRRORED_LEFT, MIRRORED_RIGHT, MIRRORED_REWARDS),
}
currents = pytest.mark.parametrize("current", FIGURE)


@currents
def test_the_figure(current: Any) -> None:
    """To the bit: 0.35 in the program is the 0.35 that is written here."""
    mdp = mixts.RiverSwim(5).mean_mdp(current)
    left, right, rewards = FIGURE[current]
    np.testing.assert_array_equal(mdp.transitions[:, LEFT], left)
    np.testing.assert_array_equal(mdp.transitions[:, RIGHT], right)
    np.testing.assert_array_equal(mdp.rewards, rewards)
    assert (mdp.n_states, mdp.n_actions, mdp.horizon) == (5, 2, 20)


@currents
@pytest.mark.parametrize("strength", [30.0, 10.0, 0.7])
def test_the_prior_has_the_figures_means(current: Any, strength: float) -> None:
    """Counts are means times strength: its sum for every pair, and zero where the mean is."""
    prior = mixts.RiverSwim(5, strength=strength).prior
    assert prior.names == ("left", "right")
    assert prior.weights.tolist() == [0.5, 0.5]
    family, s = prior.family, ("left", "right").index(current)
    left, right, rewards = (np.array(table) for table in FIGURE[current])
    rows = np.stack([left, right], axis=1)
    both = np.stack([rewards, 1 - rewards], axis=-1)
    np.testing.assert_allclose(family.transition[s], strength * rows, rtol=1e-15)
    np.testing.assert_allclose(family.reward[s], strength * both, rtol=1e-15)
    np.testing.assert_array_equal(family.transition[s] == 0, rows == 0)
    np.testing.assert_array_equal(family.reward[s] == 0, both == 0)
    means = family.mdp(family.parameter_means())[s]
    np.testing.assert_allclose(means.transitions, rows, rtol=1e-15)
    np.testing.assert_allclose(means.rewards, rewards, rtol=1e-14)
    assert family.min_pseudo_count == pytest.approx(strength, rel=1e-15)


def test_any_number_of_states() -> None:
    """The same numbers in the middle and at both ends, and mirrored for the other current."""
    for n in (2, 3, 4, 10, 30):
        river = mixts.RiverSwim(n)
        left, right = river.mean_mdp("left"), river.mean_mdp("right")
        assert left.transitions.shape == (n, 2, n)
        for x in range(n):
            assert left.transitions[x, LEFT, max(x - 1, 0)] == 1.0
            row = np.zeros(n)
            if x == 0:
                row[[0, 1]] = 0.6, 0.4
            elif x == n - 1:
                row[[x - 1, x]] = 0.4, 0.6
            else:
                row[[x - 1, x, x + 1]] = 0.05, 0.6, 0.35
            np.testing.assert_array_equal(left.transitions[x, RIGHT], row)
        for x, a, y in np.ndindex(n, 2, n):
            mirrored = right.transitions[n - 1 - x, 1 - a, n - 1 - y]
            assert left.transitions[x, a, y] == mirrored
        assert left.rewards.sum() == pytest.approx(0.905)
        np.testing.assert_array_equal(right.rewards, left.rewards[::-1, ::-1])


def test_the_best_policy_swims_against_the_current() -> None:
    """Far from the end of an episode, from the middle and beyond it."""
    river = mixts.RiverSwim()
    assert np.all(river.mean_mdp("left").plan().policy[0, 5:] == RIGHT)
    assert np.all(river.mean_mdp("right").plan().policy[0, :5] == LEFT)
    values = [river.mean_mdp(current).plan().values[0] for current in ("left", "right")]
    np.testing.assert_allclose(values[0], values[1][::-1], rtol=1e-12)


@pytest.mark.parametrize(("n_states", "start"), [(2, 1), (3, 1), (5, 2), (10, 5), (11, 5)])
def test_it_starts_in_the_middle(n_states: int, start: int) -> None:
    """Of an even number of states, at the one right of the middle."""
    river = mixts.RiverSwim(n_states)
    assert river.start_state == start
    expected = np.arange(n_states) == start
    np.testing.assert_array_equal(river.prior.family.initial, expected)
    np.testing.assert_array_equal(river.mean_mdp("left").initial, expected)
    assert mixts.RiverSwim(n_states, start=0).prior.family.initial[0] == 1.0


def test_defaults_are_the_papers() -> None:
    river = mixts.RiverSwim()
    assert (river.n_states, river.horizon, river.strength, river.current) == (10, 20, 30.0, None)
    assert river.prior.family.horizon == 20
    assert repr(river) == "RiverSwim(10 states, current either, horizon 20, strength 30)"
    assert "current left" in repr(mixts.RiverSwim(current="left"))


def problem(river: mixts.RiverSwim, n: int, seed: int = 0) -> Any:
    return river.start(lambda role: np.random.default_rng((seed, len(role))), n)


@pytest.mark.parametrize(("current", "latent"), [("left", {0}), ("right", {1}), (None, {0, 1})])
def test_the_current_may_be_fixed(current: Any, latent: set[int]) -> None:
    """For the tasks; what an agent knows has both currents all the same."""
    river = mixts.RiverSwim(6, current)
    tasks = problem(river, 60)
    assert set(tasks.latent) == latent
    assert river.prior.weights.tolist() == [0.5, 0.5]
    (episode,) = tasks.play(np.ones((20, 6), int)).feedback
    assert np.all(episode.states[:, 0] == 3)
    for s in latent:
        zeros = river.prior.family.transition[s] == 0
        drawn = tasks.mdps.transitions[tasks.latent == s]
        np.testing.assert_array_equal(drawn == 0, np.broadcast_to(zeros, drawn.shape))


def test_tasks_lie_around_the_figure() -> None:
    """4,000 MDPs at strength 30: means within 4.5 standard errors (20 numbers are compared)."""
    river, n = mixts.RiverSwim(5, "left", strength=30.0), 4000
    mdps = problem(river, n).mdps
    for drawn, table in ((mdps.transitions[:, :, RIGHT], SOLID), (mdps.rewards, REWARDS)):
        mean = np.array(table)
        error = np.sqrt(mean * (1 - mean) / 31 / n)
        assert np.all(abs(drawn.mean(axis=0) - mean) <= 4.5 * error)
    sure = np.tile(DASHED, (n, 1, 1))
    np.testing.assert_allclose(mdps.transitions[:, :, LEFT], sure, rtol=2.3e-16, atol=0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"n_states": 1}, "n_states must be a whole number, at least 2, got 1"),
        ({"n_states": 2.5}, "n_states must be a whole number"),
        ({"current": "up"}, "current must be 'left', 'right' or None, got 'up'"),
        ({"current": 0}, "current must be"),
        ({"horizon": 0}, "horizon must be a whole number"),
        ({"strength": 0.0}, "strength must be a number"),
        ({"strength": -1.0}, "strength must be a number"),
        ({"strength": np.nan}, "strength must be a number"),
        ({"strength": "strong"}, "strength must be a number"),
        ({"start": 10}, "start must be a state below 10, got 10"),
        ({"start": -1}, "start must be a whole number, at least 0"),
        ({"start": 0.5}, "start must be a whole number"),
    ],
)
def test_invalid_rivers_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(mixts.errors.ParameterError, match=message):
        mixts.RiverSwim(**how)


@pytest.mark.usefixtures("unchecked")
def test_there_are_two_currents() -> None:
    with pytest.raises(mixts.errors.ParameterError, match="'left' or 'right', got 'up'"):
        mixts.RiverSwim(4).mean_mdp("up")
