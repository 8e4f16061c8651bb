"""Learning of clicks with features beside independent computations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

import mixts
from mixts.families import LinearBernoulliStatistics
from mixts.learning import learn
from mixts.learning.models import linear_bernoulli, predictive_of
from mixts.learning.models.linear_bernoulli import (
    LinearBernoulliModel,
    LinearBernoulliPredictive,
    RowPredictions,
    order_counts,
    rows_below,
)

pytestmark = pytest.mark.usefixtures("program")

KINDS = mixts.MixturePrior(
    mixts.LinearBernoulli([[-2.0, 1.5], [-1.0, -1.5]], np.full((2, 2), 0.2), "diag"), [0.7, 0.3]
)


def drawn(
    prior: mixts.MixturePrior, n_tasks: int, n_rows: int, seed: int
) -> LinearBernoulliStatistics:
    """Tasks of a prior with one observation a row."""
    rng = np.random.default_rng(seed)
    d = prior.family.n_features
    assert d is not None
    _, theta = prior.draw(rng, n_tasks)
    rows = rng.normal(size=(n_tasks, n_rows, d))
    rows[:, :, 0] = 1
    rates = special.expit((rows * theta[:, None]).sum(axis=2))
    clicks = (rng.random(rates.shape) < rates).astype(float)
    statistics = LinearBernoulliStatistics.empty((d,), n_tasks)
    observed = statistics.observations(rows.reshape(-1, d), clicks.ravel())
    statistics.observe(np.repeat(np.arange(n_tasks), n_rows), observed)
    return statistics


def test_the_objective_is_the_evidence_of_beliefs() -> None:
    tasks = drawn(KINDS, 20, 15, seed=1)
    learned = learn(tasks, 2, seed=1, n_restarts=1, engine=1)
    assert learned.history is not None
    belief = learned.prior.condition(tasks)
    joint = np.log(learned.prior.weights) + belief.log_evidence
    assert learned.history.log_evidence[-1] == pytest.approx(
        special.logsumexp(joint, axis=1).sum(), abs=1e-8
    )


def test_moments_are_those_of_beliefs() -> None:
    tasks = drawn(KINDS, 70, 15, seed=2)
    every = np.arange(70)
    posterior = KINDS.condition(tasks).posterior
    ((_, found),) = LinearBernoulliModel(tasks)._posteriors(KINDS.family, np.ones((70, 2), bool))
    # Beliefs use more points where the evidence needs few: both are right to a few per cent of the
    # posterior deviations, which are at most sqrt(0.2).
    np.testing.assert_allclose(found.mean, posterior.component_means(every), atol=0.02)
    wanted = posterior.component_covariances(every)
    np.testing.assert_allclose(found.covariance, wanted, atol=0.02)


def test_moments_are_kept_from_the_evidence_or_computed_in_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks, family = drawn(KINDS, 9, 15, seed=2), KINDS.family
    assert isinstance(family, mixts.LinearBernoulli)
    share = np.random.default_rng(0).dirichlet(np.ones(2), 9)
    for quick in (False, True):
        families = []
        for most in (1 << 20, 30):
            monkeypatch.setattr(linear_bernoulli, "MOST_KEPT", most)
            model = LinearBernoulliModel(tasks)
            model = model.quick() if quick else model
            model.log_evidence(family)
            assert (model._kept is None) == (most == 30)
            families.append(model.improve(family, share))
        np.testing.assert_allclose(families[0].mean, families[1].mean, atol=1e-13)
        np.testing.assert_allclose(families[0].covariance, families[1].covariance, atol=1e-13)


def test_the_quick_objective_is_laplaces() -> None:
    tasks = drawn(KINDS, 8, 12, seed=3)
    found = LinearBernoulliModel(tasks).quick().log_evidence(KINDS.family)
    for i in range(8):
        own = tasks[np.array([i])]
        rows, trials, won = (own.array(name) for name in ("rows", "trials", "successes"))
        for s in range(2):
            law = stats.multivariate_normal(
                KINDS.family.mean[s], KINDS.family.full_covariances()[s]
            )

            def minus(theta: np.ndarray, law=law, rows=rows, trials=trials, won=won) -> float:  # type: ignore[no-untyped-def, type-arg]
                eta = rows @ theta
                return -float((won * eta - trials * np.logaddexp(0, eta)).sum() + law.logpdf(theta))

            best = optimize.minimize(minus, KINDS.family.mean[s], options={"gtol": 1e-9})
            rate = special.expit(rows @ best.x)
            hessian = (rows * (trials * rate * (1 - rate))[:, None]).T @ rows
            hessian += np.linalg.inv(KINDS.family.full_covariances()[s])
            value = -best.fun + np.log(2 * np.pi) - np.linalg.slogdet(hessian)[1] / 2
            assert found[i, s] == pytest.approx(value, abs=2e-4)


@pytest.mark.long_in_plain
def test_learning_hardly_lowers_the_objective_and_finds_the_kinds() -> None:
    tasks = drawn(KINDS, 400, 30, seed=4)
    learned = learn(tasks, 2, seed=1, n_restarts=2, engine=1)
    assert learned.history is not None
    assert learned.converged
    # An evidence has an error of up to 0.02, and those of 400 tasks are independent.
    assert np.diff(learned.history.objective).min() > -3 * 0.02 * np.sqrt(400)
    prior = learned.prior
    # Standard errors: sqrt(0.7 * 0.3 / 400) = 0.023 of a weight, and about sqrt(0.2 + 0.6) / 11 to
    # / 17 of a mean, from 120 and 280 tasks with posterior variances of about 0.6 before shrinking.
    assert prior.weights[0] == pytest.approx(0.7, abs=0.1)
    np.testing.assert_allclose(prior.family.mean, KINDS.family.mean, atol=0.35)
    np.testing.assert_allclose(prior.family.parameter_variances(), 0.2, atol=0.2)


@pytest.mark.long_in_plain
def test_the_integrals_correct_the_bias_of_laplace() -> None:
    # With few clicks a task, modes are far from means: the base level is biased upwards.
    rare = mixts.MixturePrior(mixts.LinearBernoulli([[-3.5, 1.0]], [1.0], "spherical"))
    tasks = drawn(rare, 500, 15, seed=5)
    model = LinearBernoulliModel(tasks)
    quick = model.quick()
    families = [quick.centre, model.centre]
    for _ in range(25):
        families = [
            one.improve(family, np.ones((500, 1)))
            for one, family in zip((quick, model), families, strict=True)
        ]
    biased, found = (abs(float(family.mean[0, 0]) + 3.5) for family in families)
    assert found < 0.3 < biased


def test_rows_are_predicted_as_by_integrals() -> None:
    one = mixts.MixturePrior(mixts.LinearBernoulli([[-1.0, 0.5]], [1.5], "spherical"))
    rows = np.array([[1.0, -0.5], [1.0, 0.3], [1.0, 2.0]])
    trials, won = np.array([1, 30, 4]), np.array([1, 11, 2])
    tasks = LinearBernoulliStatistics(size=[3], rows=rows, trials=trials, successes=won)
    predictive = predictive_of(one, tasks)
    assert isinstance(predictive, LinearBernoulliPredictive)
    found = predictive._predicted
    location, spread = float(rows[0] @ [-1.0, 0.5]), float(np.sqrt(1.5 * (rows[0] @ rows[0])))

    def mean(power: int) -> float:
        value, _ = integrate.quad(
            lambda x: special.expit(x) ** power * stats.norm.pdf(x, location, spread), -20, 20
        )
        return value

    assert found.rate[0, 0] == pytest.approx(mean(1), abs=1e-6)
    assert found.rate_variance[0, 0] == pytest.approx(mean(2) - mean(1) ** 2, abs=1e-6)
    # The product of predictions is the evidence, nearly: each posterior is taken as normal.
    evidence = float(one.condition(tasks).log_evidence[0, 0])
    assert found.log_mass.sum() == pytest.approx(evidence, abs=0.05)


@pytest.mark.parametrize(("n", "k", "location", "deviation"), [
    (4, 2, 0.3, 1.2), (30, 11, -0.5, 0.1), (500, 20, -2.0, 1.5), (2, 2, 4.0, 3.0),
])  # fmt: skip
def test_probabilities_of_fewer_clicks(n: int, k: int, location: float, deviation: float) -> None:
    one = np.ones((1, 1))
    found = RowPredictions(location * one, deviation**2 * one, one, one, one)
    below = rows_below(found, np.array([float(n)]), np.array([float(k)]))[0, 0]
    grid = np.linspace(location - 9 * deviation, location + 9 * deviation, 20_001)
    weights = stats.norm.pdf(grid, location, deviation)
    exact = (stats.binom.cdf(k - 1, n, special.expit(grid)) * weights).sum() / weights.sum()
    assert below == pytest.approx(exact, abs=1e-3)


def test_orders_of_clicks() -> None:
    found = order_counts(np.array([5.0, 1.0]), np.array([2.0, 1.0]))
    np.testing.assert_allclose(np.exp(found), [10.0, 1.0])
