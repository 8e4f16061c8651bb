"""Decisions follow the law that quadrature gives, however many there are, in both programs.

The compiled loop draws only the means of arms that may be the best.
"""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.engines import _workers
from tests.statistical.standard_errors import assert_within, of_frequency

N = 200_000
FEW = 500
K = 6


def uneven(rng: np.random.Generator, low: float, high: float) -> np.ndarray:
    """Numbers of very different sizes."""
    return np.exp(rng.uniform(np.log(low), np.log(high), (3, K)))


def family(kind: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    means = rng.uniform(0.3, 0.7, (3, K))
    if kind == "bernoulli":
        strength = uneven(rng, 1.0, 300.0)
        return mixts.BernoulliArms(means * strength, (1 - means) * strength)
    if kind == "small bernoulli":
        return mixts.BernoulliArms(uneven(rng, 0.01, 2.0), uneven(rng, 0.01, 2.0))
    if kind == "tiny bernoulli":
        return mixts.BernoulliArms(uneven(rng, 0.001, 0.1), uneven(rng, 0.001, 0.1))
    if kind == "poisson":
        shape = uneven(rng, 0.2, 100.0)
        return mixts.PoissonArms(shape, shape / means)
    if kind == "tiny poisson":
        return mixts.PoissonArms(uneven(rng, 1e-5, 1e-3), uneven(rng, 0.1, 10.0))
    if kind == "gaussian":
        return mixts.GaussianArms(means, uneven(rng, 1e-4, 0.1), 0.5)
    # Two arms are certain and equal: each is the best of them in half of the decisions.
    variance = uneven(rng, 1e-4, 0.1)
    means[:, :2], variance[:, :2] = 0.6, 0.0
    return mixts.GaussianArms(means, variance, 0.5)


KINDS = ["bernoulli", "small bernoulli", "poisson", "gaussian", "certain gaussian"]


def assert_law(counts: np.ndarray, n: int, law: np.ndarray) -> None:
    """Compare frequencies with a law; rare outcomes, whose numbers are not normal, as one."""
    rare = law * n < 25
    counts = np.append(np.where(rare, 0, counts), counts[rare].sum())
    law = np.append(np.where(rare, 0.0, law), law[rare].sum())
    if law[-1] * n < 25:
        assert counts[-1] < 60
        counts, law = counts[:-1], law[:-1]
    assert_within(of_frequency(counts, n, law))


def informed(kind: str, seed: int) -> mixts.MixTS:
    """Return an agent after five rewards."""
    agent = mixts.MixTS(mixts.MixturePrior(family(kind, seed), [0.5, 0.3, 0.2]), 1, seed=seed)
    agent.update([0, 3, 3, 4, 5], [1, 0, 1, 1, 0], tasks=np.zeros(5, int))
    return agent


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_many_decisions_have_the_law_of_the_quadrature(kind: str, seed: int) -> None:
    agent = informed(kind, seed)
    law, error = agent.action_probabilities()
    assert not error.any()
    taken = agent.act(tasks=np.zeros(N, int))
    assert_law(np.bincount(taken, minlength=K), N, law[0])
    latent = np.bincount(agent.last_latent, minlength=3)
    assert_law(latent, N, agent.belief.weights[0])


@pytest.mark.parametrize("kind", KINDS)
def test_few_decisions_have_the_same_law(kind: str, program: str) -> None:
    agent = informed(kind, 2)
    law, _ = agent.action_probabilities()
    counts, latent = np.zeros(K, int), np.zeros(3, int)
    for _ in range(100):
        counts += np.bincount(agent.act(tasks=np.zeros(FEW, int)), minlength=K)
        latent += np.bincount(agent.last_latent, minlength=3)
    assert_law(counts, 100 * FEW, law[0])
    assert_law(latent, 100 * FEW, agent.belief.weights[0])


@pytest.mark.parametrize("kind", ["tiny bernoulli", "tiny poisson"])
def test_decisions_given_the_component_have_the_law_of_the_quadrature(
    kind: str, program: str
) -> None:
    # Most of the means round to 0 or 1: which of them is the best is known all the same.
    agent = mixts.Oracle(mixts.MixturePrior(family(kind, 2)), 0, n_tasks=1, seed=1)
    law, _ = agent.action_probabilities()
    taken = agent.act(tasks=np.zeros(N, int))
    assert_law(np.bincount(taken, minlength=K), N, law[0])


@pytest.mark.parametrize("kind", KINDS)
def test_masked_arms_are_never_taken(kind: str) -> None:
    agent, mask = informed(kind, 2), np.array([True, False, True, True, False, True])
    law, _ = agent.action_probabilities(mask=mask)
    taken = agent.act(tasks=np.zeros(N, int), mask=mask)
    assert_law(np.bincount(taken, minlength=K), N, law[0])


def test_neighbouring_decisions_are_independent() -> None:
    agent = informed("bernoulli", 3)
    law, _ = agent.action_probabilities()
    taken = agent.act(tasks=np.zeros(N, int))
    for gap in (1, 2, 1000):
        pairs = np.bincount(K * taken[:-gap] + taken[gap:], minlength=K * K)
        # Overlapping pairs of independent decisions are uncorrelated, too.
        assert_law(pairs, N - gap, np.outer(law[0], law[0]).ravel())


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_changes_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for n in (1, 2, 7):
        monkeypatch.setattr(_workers, "n_threads", lambda n=n: n)
        agent = informed(kind, 4)
        found.append((agent.act(tasks=np.zeros(50_000, int)), agent.last_latent))
    for taken, latent in found[1:]:
        np.testing.assert_array_equal(taken, found[0][0])
        np.testing.assert_array_equal(latent, found[0][1])


def test_workers_use_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "n_processors", lambda: 8)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert _workers.n_threads() == 8
    with monkeypatch.context() as child:
        child.setattr(multiprocessing, "parent_process", lambda: "any")
        assert _workers.n_threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert _workers.n_threads() == 1
