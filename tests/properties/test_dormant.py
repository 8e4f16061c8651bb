"""Components that become dormant, and wake, are never stale: the belief still fits its statistics.

The histories come in phases, each with an outcome that some components find absurd: log evidences
differ by hundreds or thousands, far beyond where a component is dormant (a weight of 1e-16 is 37
nats), and the next phase may turn it all round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import mixts
from mixts import _program
from tests.oracles import references
from tests.properties.agreement import (
    DIFFERENCE,
    EVIDENCE,
    assert_same_evidence,
    assert_same_moments,
    assert_same_weights,
)
from tests.properties.strategies import ARMS, COVARIANCE_TYPES, Problem

pytestmark = pytest.mark.usefixtures("program")

SIZE = 3  # arms, or features whose unit vectors are played


def phased(kind: str, opinions: Any, phases: list[tuple[int, int, int]]) -> Problem:
    """``opinions (L, 3)``: small integers, what each component thinks each arm gives."""
    actions = np.repeat([arm for arm, _, _ in phases], [n for _, _, n in phases])
    truths = np.repeat([value for _, value, _ in phases], [n for _, _, n in phases])
    wobble = np.sin(np.arange(len(actions)))  # stands for noise, the same in every run
    n_components = len(opinions)
    weights = np.full(n_components, 1 / n_components)
    noise_std = 0.1
    if kind == "bernoulli":
        alpha = np.where(opinions > 0, 2000.0, 1.0)
        return Problem(kind, alpha, 2001.0 - alpha, 1.0, weights, actions, (truths > 0) + 0)
    if kind == "poisson":
        strength = np.full(opinions.shape, 50.0)
        outcomes = 4 * (truths + 3)
        return Problem(kind, strength * (4.0 * (opinions + 3) + 0.1), strength, 1.0, weights,
                       actions, outcomes)  # fmt: skip
    outcomes = truths + noise_std * wobble
    if kind == "gaussian":
        variance = np.full(opinions.shape, 0.01)
        return Problem(kind, opinions + 0.0, variance, noise_std, weights, actions, outcomes)
    # Every component has a covariance of its own: those that share one are dormant together.
    scale = 0.01 * (1 + 0.1 * np.arange(n_components))
    covariance = {
        "full": scale[:, None, None] * (np.eye(SIZE) + 0.5),
        "tied": 0.01 * (np.eye(SIZE) + 0.5),
        "diag": scale[:, None] * np.array([1.0, 2.0, 0.0]),
        "spherical": scale,
    }[kind]
    rows = np.eye(SIZE)[actions]
    return Problem(kind, opinions + 0.0, covariance, noise_std, weights, rows, outcomes)


@st.composite
def phased_problems(draw: st.DrawFn, kinds: Any = (*COVARIANCE_TYPES, *ARMS)) -> Problem:
    n_components = draw(st.integers(2, 5))
    value = st.integers(-3, 3)
    opinions = draw(arrays(np.int64, (n_components, SIZE), elements=value))
    phase = st.tuples(st.integers(0, SIZE - 1), value, st.integers(1, 40))
    return phased(
        draw(st.sampled_from(kinds)), opinions, draw(st.lists(phase, min_size=1, max_size=5))
    )


def assert_is_its_statistics(belief: mixts.Belief, prior: mixts.MixturePrior) -> None:
    fresh = prior.condition(belief.statistics)
    evidence = fresh.log_evidence
    assert_same_evidence(belief.log_evidence, evidence)
    assert_same_weights(belief.weights, fresh.weights, evidence)
    assert_same_moments(belief, fresh)


@given(phased_problems(), st.integers(0, 200))
@settings(max_examples=40)
def test_condition_equals_incremental_updates(problem: Problem, read_at: int) -> None:
    """Nothing is read but once, somewhere on the way, and at the end."""
    belief = problem.prior.belief()
    for t, (action, outcome) in enumerate(zip(problem.actions, problem.outcomes, strict=True)):
        if t == read_at:
            assert_is_its_statistics(belief, problem.prior)
        belief.update(action, outcome)
    assert_is_its_statistics(belief, problem.prior)


@given(phased_problems(), st.integers(1, 60))
def test_batches_between_single_updates(problem: Problem, size: int) -> None:
    """Sleeping components meet a batch, then single observations again."""
    belief = problem.prior.belief()
    for start in range(0, problem.n_rounds, size):
        stop = min(start + size // 2, problem.n_rounds)
        belief.update(problem.actions[start:stop], problem.outcomes[start:stop])
        for t in range(stop, min(start + size, problem.n_rounds)):
            belief.update(problem.actions[t], problem.outcomes[t])
    assert_is_its_statistics(belief, problem.prior)


@given(phased_problems(), phased_problems())
def test_tasks_are_dormant_apart(problem: Problem, other: Problem) -> None:
    """Two tasks under one prior: what one finds absurd the other may live by."""
    if other.kind != problem.kind:
        return
    belief = problem.prior.belief(2)
    for t in range(max(problem.n_rounds, other.n_rounds)):
        for task, source in enumerate((problem, other)):
            if t < source.n_rounds:
                belief.update(source.actions[[t]], source.outcomes[[t]], tasks=np.array([task]))
    for task, source in enumerate((problem, other)):
        alone = problem.prior.belief()
        alone.update(source.actions, source.outcomes)
        assert_same_evidence(belief.log_evidence[task], alone.log_evidence)
        assert_same_weights(belief.weights[task], alone.weights, alone.log_evidence)


@given(phased_problems(COVARIANCE_TYPES))
@settings(max_examples=25)
def test_against_the_reference(problem: Problem) -> None:
    """Not only the library against itself."""
    problem = problem.part(np.arange(min(problem.n_rounds, 60)))
    truth = np.array(
        [
            float(references.kalman(mean, covariance, problem.noise_std,
                                    problem.actions, problem.outcomes).log_evidence)
            for mean, covariance in zip(problem.first, full_covariances(problem), strict=True)
        ]
    )  # fmt: skip
    evidence = problem.incremental().log_evidence
    assert np.all(abs(evidence - truth) <= EVIDENCE / 2 * np.maximum(1.0, abs(truth)))
    gaps = np.subtract.outer(truth, truth)
    error = abs(np.subtract.outer(evidence, evidence) - gaps)
    assert np.all(error <= DIFFERENCE / 2 * (1 + abs(gaps)))


def full_covariances(problem: Problem) -> Any:
    n_components, second = problem.n_components, problem.second
    return {
        "full": lambda: second,
        "tied": lambda: np.tile(second, (n_components, 1, 1)),
        "diag": lambda: second[:, :, None] * np.eye(SIZE),
        "spherical": lambda: second[:, None, None] * np.eye(SIZE),
    }[problem.kind]()


# -- a component that looks dead for fifty rounds, then explains the data best ---------------------

AWAKE_AGAIN = {
    "opinions": np.array([[0, 0, 0], [2, 3, 0], [3, -3, 3]]),
    "phases": [(0, 0, 50), (1, 3, 80)],
}


@pytest.mark.parametrize("read", [False, True], ids=["unread", "read every round"])
@pytest.mark.parametrize("kind", [*COVARIANCE_TYPES, *ARMS])
def test_a_dead_component_comes_back(kind: str, read: bool) -> None:
    problem = phased(kind, **AWAKE_AGAIN)
    middle = problem.part(np.arange(50)).incremental()
    assert middle.weights[1] < 1e-16
    assert middle.weights[0] == pytest.approx(1.0)
    belief = problem.prior.belief()
    for action, outcome in zip(problem.actions, problem.outcomes, strict=True):
        belief.update(action, outcome)
        if read:
            assert belief.weights.sum() == pytest.approx(1.0)
    assert belief.weights[1] == pytest.approx(1.0, abs=1e-9)
    assert_is_its_statistics(belief, problem.prior)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_the_history_does_make_it_dormant(kind: str) -> None:
    """Looks inside, because everything above would also hold if no component were ever dormant."""
    if _program.core is None:
        pytest.skip("no component is dormant in the plain program")
    problem, dormant = phased(kind, **AWAKE_AGAIN), []
    belief = problem.prior.belief()
    for action, outcome in zip(problem.actions, problem.outcomes, strict=True):
        belief.update(action, outcome)
        dormant.append(bool(np.isneginf(belief.posterior.relative_evidence[0, 1])))
    assert dormant[49]
    assert not dormant[-1]


@pytest.mark.parametrize("kind", [*COVARIANCE_TYPES, *ARMS])
def test_it_is_sampled_with_its_whole_history(kind: str) -> None:
    """Nothing is read before the first sample: what woke must know what it missed."""
    problem = phased(kind, **AWAKE_AGAIN)
    belief, rng = problem.prior.belief(50), np.random.default_rng(3)
    for action, outcome in zip(problem.actions, problem.outcomes, strict=True):
        belief.update(np.array([action] * 50), np.full(50, outcome))
    draws = [belief.sample(rng) for _ in range(40)]
    assert np.all([latent == 1 for latent, _ in draws])
    sample = np.concatenate([parameters for _, parameters in draws])
    fresh = problem.prior.condition(problem.belief().statistics)
    mean, covariance = fresh.component_mean[1], fresh.component_covariance[1]
    error = np.sqrt(np.diagonal(covariance) / len(sample))
    assert np.all(abs(sample.mean(axis=0) - mean) <= 5 * error + 1e-12)
    # A sample variance has relative error sqrt(2 / n) for a normal, a little more for a beta.
    ratio = sample.var(axis=0, ddof=1)[error > 0] / np.diagonal(covariance)[error > 0]
    assert np.all(abs(ratio - 1) <= 6 * np.sqrt(2 / len(sample)))


@pytest.mark.parametrize("kind", [*COVARIANCE_TYPES, *ARMS])
def test_mean_rewards_after_waking(kind: str) -> None:
    problem = phased(kind, **AWAKE_AGAIN)
    rows = np.eye(SIZE) if kind in COVARIANCE_TYPES else None
    expected = problem.prior.condition(problem.belief().statistics).mean_rewards(rows)
    np.testing.assert_allclose(
        problem.incremental().mean_rewards(rows), expected, rtol=1e-8, atol=1e-9
    )


@pytest.mark.parametrize("kind", [*COVARIANCE_TYPES, *ARMS])
def test_dormant_in_turns(kind: str) -> None:
    """Ten turns of fortune between two components."""
    opinions = np.array([[3, -3, 0], [-3, 3, 0], [0, 0, 0]])
    phases = [(turn % 2, 3, 8 * (turn + 1)) for turn in range(10)]
    problem = phased(kind, opinions, phases)
    belief, t = problem.prior.belief(), 0
    for _, _, length in phases:
        for _ in range(length):
            belief.update(problem.actions[t], problem.outcomes[t])
            t += 1
        assert_is_its_statistics(belief, problem.prior)
