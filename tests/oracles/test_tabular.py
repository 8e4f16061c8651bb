"""The belief about tabular MDPs against urns in fractions: evidence, weights, moments, collapse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import _program, _random
from tests.oracles.agreement import DIFFERENCE, EVIDENCE, difference_error, evidence_error
from tests.oracles.references import exact
from tests.oracles.tabular_references import (
    Step,
    TabularReference,
    Urns,
    long_log_evidence,
    steps_of,
    tabular_reference,
)
from tests.programs import CORE

pytestmark = pytest.mark.usefixtures("program")

STRENGTHS = (1e-8, 1e-3, 1.0, 30.0, 1e6)


@dataclass(frozen=True)
class Problem:
    """Prior counts, weights, and episodes of one task."""

    reward: Any
    transition: Any
    weights: Any
    states: Any
    actions: Any
    rewards: Any
    lengths: Any = None

    @property
    def horizon(self) -> int:
        return self.actions.shape[1]

    @property
    def prior(self) -> mixts.MixturePrior:
        family = mixts.TabularMDP(self.reward, self.transition, self.horizon, 0)
        return mixts.MixturePrior(family, self.weights)

    @property
    def steps(self) -> list[Step]:
        return steps_of((self.states, self.actions, self.rewards), self.lengths)

    @cached_property
    def reference(self) -> TabularReference:
        return tabular_reference(self.reward, self.transition, self.weights, self.steps)

    @cached_property
    def long_log_evidence(self) -> Any:
        return long_log_evidence(self.reward, self.transition, self.steps)

    def trajectory(self, index: Any) -> mixts.Trajectory:
        lengths = None if self.lengths is None else self.lengths[index]
        return mixts.Trajectory(
            self.states[index], self.actions[index], self.rewards[index], lengths
        )


def one_by_one(problem: Problem) -> mixts.Belief:
    belief = problem.prior.belief()
    for episode in range(len(problem.actions)):
        belief.update(problem.trajectory(episode))
    return belief


def one_batch(problem: Problem) -> mixts.Belief:
    belief = problem.prior.belief()
    belief.update(problem.trajectory(slice(None)))
    return belief


ROADS: dict[str, Callable[[Problem], mixts.Belief]] = {
    "one by one": one_by_one,
    "one batch": one_batch,
    "conditioned": lambda problem: problem.prior.condition(one_batch(problem).statistics),
}
roads = pytest.mark.parametrize("road", ROADS)


def drawn_episodes(
    rng: np.random.Generator, reward: Any, transition: Any, n: int, horizon: int, last: bool
) -> tuple[Any, Any, Any]:
    """Episodes of an MDP near a component's mean, which never does what has a count of zero."""
    n_states, n_actions = reward.shape[:2]
    chances = reward[..., 0] / reward.sum(axis=-1)
    rows = transition / transition.sum(axis=-1, keepdims=True)
    states = np.empty((n, horizon + 1), int)
    states[:, 0] = rng.integers(n_states, size=n)
    actions = rng.integers(n_actions, size=(n, horizon))
    rewards = np.empty((n, horizon))
    for i, j in np.ndindex(n, horizon):
        pair = states[i, j], actions[i, j]
        rewards[i, j] = rng.random() < chances[pair]
        states[i, j + 1] = rng.choice(n_states, p=rows[pair])
    return states[:, : horizon + last], actions, rewards


@cache
def random_problem(seed: int, strength: float = 3.0, zeros: float = 0.0) -> Problem:
    """``zeros`` is the share of prior counts that are zero, drawn anew for every component."""
    rng = np.random.default_rng((seed, int(1e9 * strength), int(100 * zeros)))
    n_components, n_states, n_actions = rng.integers([2, 2, 1], [5, 4, 4])
    pairs, horizon = (n_components, n_states, n_actions), int(rng.integers(1, 5))
    counts = []
    for size in (2, n_states):
        rows = rng.dirichlet(np.ones(size), pairs)
        rows[rng.random(rows.shape) < zeros] = 0.0
        rows[..., 0] += rows.sum(axis=-1) == 0
        counts.append(strength * rows)
    reward, transition = counts
    n, last = int(rng.integers(0, 9)), bool(rng.integers(2))
    history = drawn_episodes(rng, reward[0], transition[0], n, horizon, last)
    lengths = rng.integers(0, horizon + 1, size=n) if rng.integers(2) else None
    weights = rng.dirichlet(np.ones(n_components))
    return Problem(reward, transition, weights, *history, lengths)


# -- agreement -------------------------------------------------------------------------------------


def assert_evidence_agrees(ours: Any, truth: Any) -> None:
    """The project's tolerances for evidence and its differences; what is impossible is -inf."""
    np.testing.assert_array_equal(np.isneginf(ours), np.isneginf(truth))
    ours, truth = ours[np.isfinite(truth)], truth[np.isfinite(truth)]
    assert np.all(abs(ours - truth) <= float(EVIDENCE) * np.maximum(1.0, abs(truth)))
    gaps, others = np.subtract.outer(ours, ours), np.subtract.outer(truth, truth)
    assert np.all(abs(gaps - others) <= float(DIFFERENCE) * (1 + abs(others)))


def assert_agrees(belief: mixts.Belief, reference: TabularReference) -> None:
    """Everything that can be read.

    Means are quotients of sums of a few counts: a few units of rounding, 1e-14. Covariances are
    differences of numbers up to 1, so that their rounding is absolute, a few times 1e-16. Weights
    move by as much as the differences of log evidences, below 1e-11 for 64 logarithms.
    """
    assert_evidence_agrees(belief.log_evidence, reference.log_evidence)
    weights = np.array(reference.weights, dtype=float)
    np.testing.assert_allclose(belief.weights, weights, rtol=1e-9, atol=1e-300)
    for name in ("component_mean", "mean"):
        truth = getattr(reference, name).astype(float)
        np.testing.assert_allclose(getattr(belief, name), truth, rtol=1e-9, atol=0, err_msg=name)
    means = reference.component_mean.astype(float)
    np.testing.assert_allclose(belief.component_mean, means, rtol=1e-14, atol=0)
    for name, rtol in (("component_covariance", 1e-12), ("covariance", 1e-9)):
        truth = getattr(reference, name).astype(float)
        np.testing.assert_allclose(
            getattr(belief, name), truth, rtol=rtol, atol=1e-15, err_msg=name
        )


@roads
@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("seed", range(6))
def test_a_random_history(road: str, strength: float, seed: int) -> None:
    problem = random_problem(seed, strength)
    assert_agrees(ROADS[road](problem), problem.reference)


@roads
@pytest.mark.parametrize("seed", range(20))
def test_a_history_that_some_components_rule_out(road: str, seed: int) -> None:
    problem = random_problem(seed, zeros=0.12)
    assert_agrees(ROADS[road](problem), problem.reference)


def test_those_histories_rule_out_what_they_should() -> None:
    """Check that the case of the last test occurs in its examples, but not in all of them."""
    evidence = [random_problem(seed, zeros=0.12).reference.evidence for seed in range(20)]
    n_impossible = [sum(e == 0 for e in one) for one in evidence]
    assert sum(n > 0 for n in n_impossible) >= 8
    assert sum(n == 0 for n in n_impossible) >= 4
    assert all(one[0] > 0 for one in evidence)


@roads
def test_counts_at_the_ends_of_floats(road: str) -> None:
    """The least count is a possibility: two such outcomes have a probability of 1e-150."""
    tiny = np.array([[[[1e-75, 1.0]]], [[[1.0, 1e-75]]], [[[1e-8, 1e75]]]])
    problem = Problem(
        np.repeat(tiny, 2, axis=1), np.repeat(tiny, 2, axis=1), np.full(3, 1 / 3),
        np.array([[0, 0, 1]]), np.array([[0, 0]]), np.array([[1.0, 1.0]]),
    )  # fmt: skip
    assert min(problem.reference.log_evidence) < -300
    assert_agrees(ROADS[road](problem), problem.reference)


@roads
def test_a_prior_weight_of_zero(road: str) -> None:
    """The component is computed like any other, and never believed."""
    base = random_problem(3)
    weights = np.zeros(len(base.reward))
    weights[-1] = 1.0
    problem = Problem(
        base.reward, base.transition, weights, base.states, base.actions, base.rewards, base.lengths
    )
    belief = ROADS[road](problem)
    assert_agrees(belief, problem.reference)
    assert belief.weights.tolist() == weights.tolist()


# -- long histories --------------------------------------------------------------------------------


@cache
def long_problem(strength: float, n: int) -> Problem:
    """A ring of four states; two components differ in one pair, the third everywhere."""
    rng = np.random.default_rng(17)
    reward, transition = rng.dirichlet(np.ones(2), (3, 4, 2)), rng.dirichlet(np.ones(4), (3, 4, 2))
    transition[..., 2] = 0.0
    transition /= transition.sum(axis=-1, keepdims=True)
    reward[1], transition[1] = reward[0], transition[0]
    reward[1, 0, 0] = reward[0, 0, 0, ::-1]
    history = drawn_episodes(rng, reward[0], transition[0], n, 20, True)
    return Problem(strength * reward, strength * transition, np.full(3, 1 / 3), *history)


def assert_long_evidence_agrees(problem: Problem, road: str) -> None:
    """In decimals, so that the tolerance is spent by the library alone."""
    ours, truth = exact(ROADS[road](problem).log_evidence), problem.long_log_evidence
    assert evidence_error(ours, truth) <= 1
    assert difference_error(ours, np.array(truth)) <= 1


@roads
@pytest.mark.parametrize("strength", [pytest.param(1e-8, marks=pytest.mark.slow), 30.0, 1e6])
def test_twelve_thousand_steps(road: str, strength: float) -> None:
    assert_long_evidence_agrees(long_problem(strength, 600), road)


@pytest.mark.slow
@roads
@pytest.mark.parametrize("strength", [1e-8, 30.0, 1e6])
def test_a_hundred_thousand_steps(road: str, strength: float) -> None:
    assert_long_evidence_agrees(long_problem(strength, 5000), road)


# -- both programs ---------------------------------------------------------------------------------


def played(strength: float, n_tasks: int | None) -> tuple[Any, ...]:
    """Play some episodes; return policies, components, trajectories and log evidence."""
    river = mixts.RiverSwim(5, horizon=6, strength=strength)
    problem = river.start(partial(_random.stream, 3), n_tasks or 1)
    agent = mixts.MixTS(river.prior, n_tasks, seed=4)
    seen = []
    for _ in range(12):
        policy = agent.act()
        episode = problem.play(policy).feedback[0]
        agent.update(episode)
        seen.append((policy, agent.last_latent, episode.states, episode.rewards))
    return (*zip(*seen, strict=True), agent.belief.log_evidence, agent.belief.mean)


@pytest.mark.skipif(CORE is None, reason="the compiled core is not installed")
@pytest.mark.parametrize("n_tasks", [None, 1, 7])
@pytest.mark.parametrize("strength", [30.0, 1e-3])
def test_both_programs_make_the_same_decisions(
    strength: float, n_tasks: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws, plans and episodes have the same bits; a tiny strength draws by logarithms."""
    found = []
    for core in (CORE, None):
        monkeypatch.setattr(_program, "core", core)
        found.append(played(strength, n_tasks))
    for ours, theirs in zip(found[0][:4], found[1][:4], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(found[0][4:], found[1][4:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


# -- collapse --------------------------------------------------------------------------------------


def moments(reward: Any, transition: Any) -> tuple[Any, Any]:
    return Urns(reward, transition).moments()


def row_sums(variance: Any, n_pairs: int, n_states: int) -> Any:
    """A reward's variance, and of a row of transitions the sum of variances."""
    rows = variance[n_pairs:].reshape(n_pairs, n_states).sum(axis=1)
    return np.append(variance[:n_pairs], rows)


@pytest.mark.parametrize("zeros", [0.0, 0.12])
@pytest.mark.parametrize("seed", range(6))
def test_collapse_has_the_moments_of_the_mixture(seed: int, zeros: float) -> None:
    """Mean of everything; variance of each reward; of a row of transitions the sum of them.

    Where components disagree so much that no Dirichlet can, the total is the least allowed.
    """
    problem = random_problem(seed, zeros=zeros)
    family = mixts.TabularMDP(problem.reward, problem.transition, problem.horizon, 0)
    one = family.collapse(problem.weights)
    truth = tabular_reference(problem.reward, problem.transition, problem.weights, [])
    mean, covariance = moments(one.reward[0], one.transition[0])
    np.testing.assert_allclose(mean.astype(float), truth.mean.astype(float), rtol=1e-13)
    n_states, n_actions = one.n_states, one.n_actions
    n_pairs = n_states * n_actions
    ours, theirs = (
        row_sums(np.diag(c).astype(float), n_pairs, n_states)
        for c in (covariance, truth.covariance)
    )
    totals = np.append(one.reward[0].sum(axis=-1), one.transition[0].sum(axis=-1))
    least = abs(totals - 0.01) < 1e-12
    certain = theirs < 1e-30
    np.testing.assert_allclose(ours[~least & ~certain], theirs[~least & ~certain], rtol=1e-10)
    assert np.all(ours[least] <= theirs[least])
    assert np.all(ours[certain] == 0)
    assert (~least & ~certain).any()
    for counts, parts in ((one.reward, problem.reward), (one.transition, problem.transition)):
        np.testing.assert_array_equal(counts[0] == 0, (parts == 0).all(axis=0))


def test_collapse_by_hand() -> None:
    """Beta(2, 2) and Beta(6, 2): mean 5/8, variance 1/2 (1/20 + 1/48) + 1/64 = 49/960."""
    reward = np.array([[[[2.0, 2.0]]], [[[6.0, 2.0]]]])
    certain = np.ones((2, 1, 1, 1))
    one = mixts.TabularMDP(reward, certain, 1, 0).collapse(np.array([0.5, 0.5]))
    total = Fraction(5, 8) * Fraction(3, 8) / Fraction(49, 960) - 1
    expected = [float(total * Fraction(5, 8)), float(total * Fraction(3, 8))]
    np.testing.assert_allclose(one.reward[0, 0, 0], expected, rtol=1e-14)
    assert one.transition.tolist() == [[[[1.0]]]]


def test_collapse_of_opposite_certainties_has_the_least_total() -> None:
    reward = np.array([[[[0.0, 5.0]]], [[[5.0, 0.0]]]])
    one = mixts.TabularMDP(reward, np.ones((2, 1, 1, 1)), 1, 0).collapse(np.array([0.25, 0.75]))
    np.testing.assert_allclose(one.reward[0, 0, 0], [0.0075, 0.0025], rtol=1e-14)


@pytest.mark.parametrize("strength", [1.0, 30.0, 0.3])
def test_collapse_keeps_what_all_components_are_certain_of(strength: float) -> None:
    """RiverSwim: swimming with its current is certain, but of opposite things; most rewards are 0.

    With weights that do not sum to one in binary, and a component of weight 0 that disagrees.
    """
    river = mixts.RiverSwim(5, strength=strength).prior.family
    third = np.full((1, 5, 2, 5), strength / 5)
    family = mixts.TabularMDP(
        np.concatenate([river.reward, np.full((1, 5, 2, 2), strength / 2)]),
        np.concatenate([river.transition, third]), 20, 2,
    )  # fmt: skip
    for weights in ([0.1, 0.9, 0.0], [0.7, 0.3, 0.0], [1.0, 0.0, 0.0]):
        one = family.collapse(np.array(weights))
        kept = np.array(weights) > 0
        certain = (family.reward[kept][..., 0] == 0).all(axis=0)
        assert certain.sum() >= 6
        np.testing.assert_array_equal(one.reward[0][certain][:, 0], 0.0)
        np.testing.assert_allclose(one.reward[0][certain][:, 1], strength, rtol=1e-14)
        never = (family.transition[kept] == 0).all(axis=0)
        np.testing.assert_array_equal(one.transition[0] == 0, never)


@pytest.mark.parametrize("n_components", [3, 6, 7, 10, 49])
def test_collapse_leaves_no_crumbs(n_components: int) -> None:
    """Equal shares need not sum to one in floats; what is certain is so all the same."""
    reward, transition = np.array([[[[0.0, 8.0]]]]), np.array([[[[8.0]]]])
    family = mixts.TabularMDP(
        np.repeat(reward, n_components, axis=0), np.repeat(transition, n_components, axis=0), 1, 0
    )
    one = family.collapse(np.full(n_components, 1 / n_components))
    np.testing.assert_allclose(one.reward[0, 0, 0], [0.0, 8.0], rtol=1e-14)
    np.testing.assert_allclose(one.transition[0, 0, 0], [8.0], rtol=1e-14)


def test_collapse_of_one_component_is_itself() -> None:
    problem = random_problem(4)
    alone = mixts.TabularMDP(problem.reward[:1], problem.transition[:1], problem.horizon, 0)
    one = alone.collapse(np.ones(1))
    np.testing.assert_allclose(one.reward, alone.reward, rtol=1e-13)
    np.testing.assert_allclose(one.transition, alone.transition, rtol=1e-13)
