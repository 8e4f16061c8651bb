"""Arms without data get the predictive of the others, and their part of first decisions."""

from __future__ import annotations

import numpy as np
import pytest

import mixts
from mixts.families import BernoulliStatistics, GaussianStatistics, PoissonStatistics, Statistics

N_TASKS, N_ARMS, TRIED = 300, 21, 30
LEVEL = np.array([0.03, 0.12])
SPREAD = 0.3
"""Standard deviation of the arms' means, relative to the level of the kind."""
TOTAL = 40.0
"""Tasks of a kind vary as Beta distributions with this sum of parameters."""


def simulated(kind: str, rng: np.random.Generator) -> tuple[Statistics, np.ndarray, np.ndarray]:
    """Return tasks of two kinds in which the last arm was never tried, the truth, and latents."""
    latent = rng.integers(2, size=N_TASKS)
    means = LEVEL[:, None] * (1 + SPREAD * rng.standard_normal((2, N_ARMS)).clip(-2, 2))
    theta = rng.beta(means[latent] * TOTAL, (1 - means[latent]) * TOTAL)
    pulls = np.full((N_TASKS, N_ARMS), TRIED)
    pulls[:, -1] = 0
    if kind == "bernoulli":
        won = rng.binomial(pulls, theta)
        return BernoulliStatistics(successes=won, failures=pulls - won), means, latent
    if kind == "poisson":
        total = rng.poisson(pulls * theta)
        logs = np.zeros(total.shape)
        return PoissonStatistics(count=pulls, total=total, log_factorials=logs), means, latent
    average = theta + 0.1 / np.sqrt(TRIED) * rng.standard_normal(theta.shape)
    squares = 0.01 * rng.chisquare(TRIED - 1, theta.shape)
    tried = pulls > 0
    found = GaussianStatistics(count=pulls, average=average * tried, squares=squares * tried)
    return found, means, latent


@pytest.mark.parametrize("method", ["evidence", "two-stage"])
@pytest.mark.parametrize("kind", ["bernoulli", "gaussian", "poisson"])
def test_an_arm_without_rows_gets_the_predictive_of_the_others(kind: str, method: str) -> None:
    tasks, means, _ = simulated(kind, np.random.default_rng(3))
    prior = mixts.learn_prior(tasks, 2, method, seed=1, n_restarts=2)  # type: ignore[arg-type]
    one = prior.arm_prior
    assert one is not None
    np.testing.assert_array_equal(prior.arms.new.nonzero()[0], [N_ARMS - 1])
    order = np.argsort(one.parameter_means()[:, 0])
    for s, found in enumerate(order):
        true = means[s, :-1]
        within = (true * (1 - true)).mean() / (TOTAL + 1)
        # Twenty arms determine their mean up to its standard error and two thirds of it again for
        # tasks that are not assigned for sure; their variance up to a third, as twenty squares do.
        error = true.std(ddof=1) / np.sqrt(len(true))
        assert one.parameter_means()[found, 0] == pytest.approx(true.mean(), abs=3 * error)
        variance = within + true.var(ddof=1)
        assert one.parameter_variances()[found, 0] == pytest.approx(variance, rel=0.4)
    # The arm without rows has exactly these parameters.
    family = prior.family
    for name, array in one.arrays().items():
        np.testing.assert_allclose(family.arrays()[name][:, -1], array[:, 0], rtol=1e-9)


@pytest.mark.parametrize("kind", ["bernoulli", "gaussian", "poisson"])
def test_an_arm_without_rows_takes_its_part_of_first_decisions(kind: str) -> None:
    """Arms are exchangeable, so an unknown arm is the best of 21 with probability 1 / 21."""
    shares = []
    for seed in range(8):
        tasks, *_ = simulated(kind, np.random.default_rng(100 + seed))
        prior = mixts.learn_prior(tasks, 2, seed=1, n_restarts=1)
        probabilities, _ = mixts.MixTS(prior, seed=0).action_probabilities()
        shares.append(probabilities[-1])
    error = np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert np.mean(shares) == pytest.approx(1 / N_ARMS, abs=4 * error + 0.015)


def test_a_hardly_tried_arm_resembles_the_arms_of_its_kind() -> None:
    tasks, _, latent = simulated("bernoulli", np.random.default_rng(3))
    won, lost = tasks.array("successes").copy(), tasks.array("failures").copy()
    # Tasks of the second kind never tried arm 0, but for one task with a single failure.
    won[latent == 1, 0] = lost[latent == 1, 0] = 0
    lost[np.flatnonzero(latent == 1)[0], 0] = 1
    prior = mixts.learn_prior(
        BernoulliStatistics(successes=won, failures=lost), 2, seed=1, n_restarts=2
    )
    means = prior.family.parameter_means()
    high = int(np.argmax(means[:, 5]))
    usual = prior.arm_prior
    assert usual is not None
    kind, other = usual.parameter_means()[high, 0], usual.parameter_means()[1 - high, 0]
    # Some tasks of the first kind look like the second one, and pull arm 0 down.
    assert other + 0.4 * (kind - other) < means[high, 0] < kind * 1.1


def test_an_arm_with_a_few_rows_is_not_half_way_to_one_half() -> None:
    tasks, *_ = simulated("bernoulli", np.random.default_rng(3))
    won, lost = tasks.array("successes").copy(), tasks.array("failures").copy()
    won[:, 0] = lost[:, 0] = 0
    lost[:5, 0] = 1
    prior = mixts.learn_prior(
        BernoulliStatistics(successes=won, failures=lost), 1, seed=1, n_restarts=1
    )
    usual = prior.arm_prior
    assert usual is not None
    assert prior.family.parameter_means()[0, 0] < 1.2 * usual.parameter_means()[0, 0]
