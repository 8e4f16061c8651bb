"""A right prior passes its check, and wrong ones are found out in what they are wrong in.

Seeds are fixed; a correct program fails one of these with a probability of about 1e-4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import mixts
from mixts.learning import check_prior
from mixts.learning.models import predictive_of
from tests.contracts.problems import ALL_CASES, FamilyCase
from tests.statistical.held_out import held_out
from tests.statistical.standard_errors import FALSE_ALARM, assert_within, limit, of_mean

N = 400
CHECKED = [case for case in ALL_CASES if case.name not in ("diag", "spherical")]
"""Those two differ from "full" in nothing but the roots of their covariances."""


@pytest.mark.parametrize("case", CHECKED, ids=lambda case: case.name)
def test_a_right_prior_is_calibrated(case: FamilyCase) -> None:
    check = check_prior(case.prior, held_out(case, seed=10, n_tasks=N), seed=0, n_draws=99)
    for one in check.calibration.values():
        assert one.n_predictions > 100
        assert stats.kstest(one.transforms, "uniform").pvalue > FALSE_ALARM
        assert max(abs(one.location), abs(one.spread)) < limit(2)
        assert_within(np.array([(c.found - c.level) / c.error for c in one.coverage()]))
        # Those of one task are independent, too.
        order = np.argsort(one.tasks, kind="stable")
        u, owner = one.transforms[order] - 0.5, one.tasks[order]
        same = owner[1:] == owner[:-1]
        if same.sum() > 100:
            assert abs(12 * (u[1:] * u[:-1])[same].sum()) < limit(1) * np.sqrt(same.sum())
    # p-values: never too many small ones, and in continuous families just as many as there should
    # be; with 99 draws each is a multiple of 0.01, and a uniform number after a step back.
    p = check.surprise.p_value
    for level in (0.01, 0.05, 0.2):
        assert (p <= level).mean() < level + limit(3) * np.sqrt(level * (1 - level) / N)
    if case.conjugate and (case.linear or case.name == "gaussian"):
        back = p - np.random.default_rng(1).random(N) / 100
        assert stats.kstest(back, "uniform").pvalue > FALSE_ALARM
    # Tasks score as much as replicates do, on average.
    surprise = check.surprise
    error = np.sqrt((surprise.spread**2).sum() * (1 + 1 / 99))
    assert_within(np.array([(surprise.score - surprise.expected).sum() / error]))
    # Each component is used as often as its weight says: a share has at most this variance.
    error = np.sqrt(N * case.prior.weights * (1 - case.prior.weights))
    assert_within((check.usage.found - check.usage.expected) / error)
    assert not check.usage.unused.any()
    assert (check.surprise.log_factor > np.log(100)).mean() < 0.01 + limit(1) * np.sqrt(0.01 / N)


def test_screening_keeps_small_p_values() -> None:
    """Most tasks see 99 draws, the others 999: one in a hundred is still at most 0.01."""
    case = FamilyCase("gaussian")
    n = 1000
    check = check_prior(case.prior, held_out(case, seed=11, n_tasks=n), seed=0)
    for level in (0.01, 0.05):
        found = (check.surprise.p_value <= level).sum()
        assert abs(found - level * n) < limit(2) * np.sqrt(n * level * (1 - level))


@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "poisson"])
def test_replicates_are_of_the_arms_that_were_drawn(name: str) -> None:
    case = FamilyCase(name)
    predictive: Any = predictive_of(case.prior, held_out(case, seed=16, n_tasks=2))
    rng = np.random.default_rng(17)
    means, pulls = np.array([0.1, 0.3, 0.6, 0.9]), np.array([0, 1, 5, 30])
    drawn = predictive._draw(rng, np.tile(pulls, (2000, 1)), np.tile(means, (2000, 1)))
    assert (drawn.pulls == pulls).all()
    if name == "gaussian":
        total = pulls * drawn.average
        assert_within(of_mean(drawn.squares[:, 2:], 0.25 * (pulls[2:] - 1)))
        spread = (total - pulls * means) ** 2
        assert_within(of_mean(spread[:, 1:], 0.25 * pulls[1:]))
    else:
        total = drawn.successes if name == "bernoulli" else drawn.total
    assert_within(of_mean(total[:, 1:], (pulls * means)[1:]))
    assert (total[:, 0] == 0).all()


def with_spread(case: FamilyCase, factor: float) -> mixts.MixturePrior:
    """The case's prior with other variances and the same means."""
    family: Any = case.prior.family
    changed = {
        "bernoulli": lambda: mixts.BernoulliArms(family.alpha / factor, family.beta / factor),
        "poisson": lambda: mixts.PoissonArms(family.shape / factor, family.rate / factor),
        "gaussian": lambda: mixts.GaussianArms(family.mean, family.variance * factor, 0.5),
        "full": lambda: mixts.LinearGaussian(family.mean, family.covariance * factor, 0.5),
        "tabular": lambda: mixts.TabularMDP(
            family.reward / factor, family.transition / factor, family.horizon, family.initial
        ),
    }[case.name]()
    return mixts.MixturePrior(changed, case.prior.weights)


@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "poisson", "full", "tabular"])
def test_too_narrow_and_too_wide(name: str) -> None:
    case = FamilyCase(name)
    tasks = held_out(case, seed=12, n_tasks=N, rounds=40)
    right = check_prior(case.prior, tasks, seed=0, n_draws=1)
    for factor, finding in ((0.1, "narrow"), (10.0, "wide")):
        check = check_prior(with_spread(case, factor), tasks, seed=0, n_draws=1)
        assert finding in check.calibration["rewards"].findings, (factor, finding)
        lost = right.evidence.log_evidence["this prior"] - check.evidence.log_evidence["this prior"]
        assert lost.mean() > 2 * stats.sem(lost)


def test_wrong_means_and_wrong_noise() -> None:
    for name in ("gaussian", "full"):
        case = FamilyCase(name)
        family: Any = case.prior.family
        tasks = held_out(case, seed=13, n_tasks=N)
        spread = family.variance if name == "gaussian" else family.covariance
        for noise_std, word in ((0.35, "larger"), (0.7, "smaller")):
            wrong = mixts.MixturePrior(
                type(family)(family.mean, spread, noise_std), case.prior.weights
            )
            noise = check_prior(wrong, tasks, seed=0, n_draws=1).calibration["noise"]
            assert noise.verdict == f"the noise is {word} than predicted"
    gaussian = FamilyCase("gaussian")
    family = gaussian.prior.family
    tasks = held_out(gaussian, seed=13, n_tasks=N)
    for shift, finding in ((-0.4, "high"), (0.4, "low")):
        wrong = mixts.MixturePrior(mixts.GaussianArms(family.mean + shift, family.variance, 0.5))
        check = check_prior(wrong, tasks, seed=0, n_draws=1)
        assert finding in check.calibration["rewards"].findings


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "full"])
def test_tasks_of_another_kind_are_found(name: str) -> None:
    """Without their component, its tasks are those that nothing explains."""
    means = np.array([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9], [0.9, 0.1, 0.9, 0.1]])
    family: Any = {
        "bernoulli": mixts.BernoulliArms(50 * means, 50 * (1 - means)),
        "poisson": mixts.PoissonArms(1000 * means, np.full(means.shape, 200.0)),
        "full": mixts.LinearGaussian(means, np.full(3, 0.01), 0.2, covariance_type="spherical"),
    }[name]
    whole = mixts.MixturePrior(family, [0.6, 0.35, 0.05], names=["one", "two", "rare"])
    rng = np.random.default_rng(14)
    latent, theta = whole.draw(rng, 300)
    owners = np.repeat(np.arange(300), 60)
    belief = whole.belief(300)
    if name == "full":
        actions: Any = rng.normal(size=(len(owners), 4))
        rewards = family.outcomes(rng, (actions * theta[owners]).sum(axis=1))
    else:
        actions = rng.integers(4, size=len(owners))
        rewards = family.outcomes(rng, theta[owners, actions])
    belief.update(actions, rewards, tasks=owners)
    check = check_prior(whole.select([0, 1]), belief.statistics, seed=0, n_draws=199)
    odd = latent == 2
    assert odd.sum() > 5
    # None of the known kinds is so unlikely, but one in a hundred.
    assert (check.surprise.p_value[odd] <= 0.01).all()
    assert (check.surprise.p_value[~odd] <= 0.01).mean() < 0.01 + limit(1) * np.sqrt(
        0.01 / (~odd).sum()
    )
    assert (check.surprise.log_factor[odd] > np.log(100)).all()
    assert set(check.surprise.ranked()[: odd.sum()]) == set(np.flatnonzero(odd))
    assert "Tasks that no kind explains" in str(check)
    # And a component too many is one that nobody uses.
    more = mixts.MixturePrior(family, [0.5, 0.3, 0.2], names=["one", "two", "rare"])
    common = check_prior(more, belief.statistics[np.flatnonzero(~odd)], seed=0, n_draws=1)
    assert common.usage.unused.tolist() == [False, False, True]
    assert "Kinds that hardly any task uses: rare (" in str(common)


def test_the_flat_prior_is_rarely_better_however_actions_were_chosen() -> None:
    """In tasks that MixTS played: flat / prior has mean 1, so it is rarely above 100."""
    case = FamilyCase("bernoulli")
    agent = mixts.MixTS(case.prior, n_tasks=N, seed=0)
    rng = np.random.default_rng(15)
    _, theta = case.prior.draw(rng, N)
    for _ in range(30):
        arms = agent.act()
        agent.update(arms, (rng.random(N) < theta[np.arange(N), arms]).astype(float))
    flat = mixts.MixturePrior(mixts.BernoulliArms.uniform(4))
    check = check_prior(case.prior, agent.belief.statistics, flat=flat, seed=0, n_draws=1)
    factor = np.exp(check.surprise.log_factor)
    assert_within(np.array([(factor.mean() - 1) / stats.sem(factor)]))
    assert check.surprise.n_unlike <= 0.01 * N + limit(1) * np.sqrt(0.01 * N)
