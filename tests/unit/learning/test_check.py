"""Checks of priors: distributions compared with scipy's, parts that add up, bad arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import mixts
from mixts import errors
from mixts.extend._families import random_episodes
from mixts.families import LinearStatistics, TabularStatistics
from mixts.learning.check import PriorCheck, check_prior
from mixts.learning.measures import Calibration, Evidence, Surprise, Usage, scores_beside
from mixts.learning.models.counts import beta_binomial
from mixts.learning.models.linear import LinearPredictive
from mixts.learning.models.predictive import Predictive
from tests.contracts.problems import ALL_CASES, FamilyCase
from tests.statistical.held_out import held_out

CLOSE = 1e-9


def predictive_of(case: FamilyCase, statistics: Any) -> Predictive:
    from mixts.learning.models import predictive_of

    return predictive_of(case.prior, statistics)


def small_check(**options: Any) -> PriorCheck:
    case = FamilyCase("bernoulli")
    return check_prior(
        case.prior, held_out(case, seed=0, n_tasks=40), seed=0, n_draws=99, **options
    )


# -- predictions --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 400])
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.05, 0.2), (8.0, 0.5), (300.0, 2000.0)])
def test_counts_are_beta_binomial(n: int, a: float, b: float) -> None:
    won = np.unique(np.linspace(0, n, 9).astype(int))
    law = stats.betabinom(n, a, b)
    log, less, equal = beta_binomial(won, np.full(len(won), n), np.array([a]), np.array([b]))
    np.testing.assert_allclose(log[:, 0], law.logpmf(won), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(equal[:, 0], law.pmf(won), rtol=1e-8, atol=1e-14)
    expected = np.array([law.pmf(np.arange(w)).sum() for w in won])
    np.testing.assert_allclose(less[:, 0], expected, rtol=1e-8, atol=1e-12)


def test_sums_far_in_a_tail_neither_overflow_nor_vanish() -> None:
    """p(won) is 1e-900 or so: the sum relative to it is beyond any floating-point number."""
    won, n = np.array([2400, 2400]), np.array([5000, 5000])
    log, less, equal = beta_binomial(won, n, np.array([1e6, 1.0]), np.array([1.0, 1e6]))
    assert (log < -2000).all()
    np.testing.assert_allclose(less, [[0.0, 1.0]] * 2, atol=1e-12)
    np.testing.assert_array_equal(equal, 0.0)


def test_what_is_impossible_under_a_component() -> None:
    zero, one = np.array([0.0]), np.array([1.0])
    won, n = np.array([0, 1, 2]), np.array([2, 2, 2])
    log, less, equal = (part[:, 0] for part in beta_binomial(won, n, zero, one))
    np.testing.assert_array_equal(equal, [1, 0, 0])
    np.testing.assert_array_equal(less, [0, 1, 1])
    np.testing.assert_array_equal(log, [0, -np.inf, -np.inf])
    log, less, equal = (part[:, 0] for part in beta_binomial(won, n, one, zero))
    np.testing.assert_array_equal(equal, [0, 0, 1])
    np.testing.assert_array_equal(less, [0, 0, 0])


def test_totals_are_negative_binomial_and_averages_normal() -> None:
    for name in ("poisson", "gaussian"):
        case = FamilyCase(name)
        tasks = held_out(case, seed=1, n_tasks=30)
        family: Any = case.prior.family
        for arm, part in enumerate(predictive_of(case, tasks).parts()):
            if part.group == "noise":
                continue
            n = tasks.array("count")[part.tasks, arm, None]
            if name == "poisson":
                y = tasks.array("total")[part.tasks, arm, None]
                a, b = family.shape[:, arm], family.rate[:, arm]
                counts = stats.nbinom(a, b / (b + n))
                law = counts.logpmf(y), counts.cdf(y - 1), counts.pmf(y)
            else:
                y = tasks.array("average")[part.tasks, arm, None]
                sd = np.sqrt(family.variance[:, arm] + family.noise_std**2 / n)
                normal = stats.norm(family.mean[:, arm], sd)
                law = normal.logpdf(y), normal.cdf(y), 0.0 * y
            np.testing.assert_allclose(part.log_mass, law[0], rtol=1e-9, atol=1e-10)
            np.testing.assert_allclose(part.below, law[1], atol=1e-12)
            np.testing.assert_allclose(part.at, np.broadcast_to(law[2], part.at.shape), atol=1e-12)


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_parts_add_up_to_the_evidence(case: FamilyCase) -> None:
    """Their sum is each component's log evidence, up to what is the same for all of them."""
    tasks = held_out(case, seed=2, n_tasks=25)
    total = np.zeros((len(tasks), case.prior.n_components))
    predictive = predictive_of(case, tasks)
    for part in predictive.parts():
        total[part.tasks] += part.log_mass
    evidence = case.prior.family.log_evidence(tasks)
    gap = total - evidence
    mixed = special.logsumexp(case.prior.log_weights + evidence, axis=1)
    if not case.conjugate:
        # Clicks with features: after each row the posterior is taken as normal, and scores are
        # Laplace's. Both are close, and no more.
        assert np.sqrt((gap**2).mean()) < 0.1
        np.testing.assert_allclose(predictive.scores(), mixed, atol=0.2)
        return
    np.testing.assert_allclose(gap - gap[:, :1], 0.0, atol=CLOSE)
    if case.linear or case.name in ("gaussian", "student"):
        np.testing.assert_allclose(predictive.scores(), mixed, atol=CLOSE)
    elif case.name == "spend":
        # Spends are real numbers, and purchases are counts, of which there are many orders.
        bought, tried = tasks.array("purchases"), tasks.pulls
        orders = np.log(special.comb(tried, bought)).sum(axis=1)
        np.testing.assert_allclose(predictive.scores(), mixed + orders, atol=CLOSE)
    else:
        # Counts: the probability of the counts themselves, of which the parts are all there is.
        scores = special.logsumexp(case.prior.log_weights + total, axis=1)
        np.testing.assert_allclose(predictive.scores(), scores, atol=CLOSE)


def test_rotated_rewards_one_after_the_other() -> None:
    """Beside the conditional distributions of the joint normal law of z, by plain algebra."""
    case = FamilyCase("full")
    tasks = held_out(case, seed=3, n_tasks=3, rounds=6)
    family: Any = case.prior.family
    factor = tasks.array("factor")
    for part_number, part in enumerate(predictive_of(case, tasks).parts()):
        if part.group == "noise":
            continue
        j = part_number
        for row, t in enumerate(part.tasks):
            R, z = factor[t, :-1, :-1], factor[t, :-1, -1]
            for s in range(case.prior.n_components):
                S = R @ family.covariance[s] @ R.T + family.noise_std**2 * np.eye(4)
                gap = z - R @ family.mean[s]
                back = S[j, :j] @ np.linalg.inv(S[:j, :j])
                sd = np.sqrt(S[j, j] - back @ S[:j, j])
                law = stats.norm(back @ gap[:j], sd)
                np.testing.assert_allclose(part.below[row, s], law.cdf(gap[j]), atol=1e-10)
                np.testing.assert_allclose(part.log_mass[row, s], law.logpdf(gap[j]), atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e12])
def test_scores_are_the_evidence_however_wide_the_prior(scale: float) -> None:
    family: Any = FamilyCase("full").prior.family
    prior = mixts.MixturePrior(mixts.LinearGaussian(family.mean, scale * family.covariance, 1e-3))
    rng = np.random.default_rng(0)
    belief = prior.belief(20)
    owners = np.repeat(np.arange(20), rng.integers(1, 9, size=20))
    belief.update(rng.normal(size=(len(owners), 4)), rng.normal(size=len(owners)), tasks=owners)
    expected = special.logsumexp(prior.log_weights + belief.log_evidence, axis=1)
    scores = LinearPredictive(prior, belief.statistics).scores()
    np.testing.assert_allclose(scores, expected, rtol=1e-7)


def test_a_task_has_no_more_parts_than_observations() -> None:
    rng = np.random.default_rng(0)
    prior = FamilyCase("full").prior
    lengths = np.array([1, 2, 3, 4, 7, 9])
    belief = prior.belief(len(lengths))
    owners = np.repeat(np.arange(6), lengths)
    rows = rng.normal(size=(len(owners), 4))
    rows[:, 1] = 0.0  # a feature that never varies
    rows[owners == 5] = [1.0, 0.0, 2.0, 0.5]  # the same action again and again
    rewards = rng.normal(size=len(owners))
    belief.update(rows, rewards, tasks=owners)
    predictive = LinearPredictive(prior, belief.statistics)
    assert (predictive.real.sum(axis=1) + predictive.spare == lengths).all()
    assert predictive.real.sum(axis=1)[:3].tolist() == [1, 2, 3]
    # Sums of squares leave crumbs where there was no observation.
    gram = np.stack([rows[owners == t].T @ rows[owners == t] for t in range(6)])
    moment = np.stack([rows[owners == t].T @ rewards[owners == t] for t in range(6)])
    squares = np.array([(rewards[owners == t] ** 2).sum() for t in range(6)])
    sums = LinearStatistics.from_sums(lengths, gram, moment, squares)
    crumbs = LinearPredictive(prior, sums)
    assert (crumbs.real.sum(axis=1) <= lengths).all()
    assert np.isfinite(crumbs.scores()).all()


# -- evidence -----------------------------------------------------------------------------------


def test_evidence_beside_other_priors() -> None:
    case = FamilyCase("full")
    tasks, prior = held_out(case, seed=4, n_tasks=30), case.prior
    flat = mixts.MixturePrior(mixts.LinearGaussian.standard(4, 0.5))
    check = check_prior(prior, tasks, flat=flat, seed=0, n_draws=9)
    values = {}
    for name, other in {"this prior": prior, "UniTS": prior.collapse(), "TS, flat": flat}.items():
        log = other.condition(tasks).log_evidence
        values[name] = special.logsumexp(other.log_weights + log, axis=1)
        np.testing.assert_allclose(check.evidence.log_evidence[name], values[name], atol=CLOSE)
        mean, error = check.evidence.per_task(name)
        np.testing.assert_allclose(mean, values[name].mean())
        np.testing.assert_allclose(error, stats.sem(values[name]))
        n = tasks.n_observations
        ratio = check.evidence.per_observation(name).mean
        np.testing.assert_allclose(ratio, values[name].sum() / n.sum())
    difference = values["this prior"] - values["UniTS"]
    gain = check.evidence.gain("UniTS")
    np.testing.assert_allclose(gain, [difference.mean(), stats.sem(difference)])


def test_small_differences_are_none_however_certain() -> None:
    loss = np.full(200, -0.002) + np.linspace(-0.001, 0.001, 200)
    exact = Evidence({"this prior": loss, "other": np.zeros(200)}, np.ones(200, int))
    assert exact.verdict("other") == "worse"
    assert replace(exact, least=0.005).verdict("other") == "no different"
    larger = {"this prior": 3 * loss, "other": np.zeros(200)}
    assert replace(exact, log_evidence=larger, least=0.005).verdict("other") == "worse"


def test_given_priors_are_compared() -> None:
    case = FamilyCase("bernoulli")
    tasks = held_out(case, seed=0, n_tasks=10)
    check = check_prior(case.prior, tasks, unimodal=case.prior, flat=case.prior, seed=0, n_draws=9)
    for name in check.evidence.names[1:]:
        assert check.evidence.gain(name) == (0.0, 0.0)
    assert "no different from UniTS and TS, flat" in check.findings[0]
    np.testing.assert_array_equal(check.surprise.log_factor, 0.0)


# -- tasks of every kind ------------------------------------------------------------------------


def test_tasks_without_observations_say_nothing() -> None:
    case = FamilyCase("gaussian")
    tasks = held_out(case, seed=5, n_tasks=6)
    check = check_prior(case.prior, tasks.extend(3), seed=0, n_draws=19)
    assert check.surprise.p_value[6:].tolist() == [1.0, 1.0, 1.0]
    assert check.surprise.score[6:].tolist() == [0.0, 0.0, 0.0]
    assert check.usage.n_tasks == 6
    assert check.calibration["rewards"].tasks.max() < 6
    assert check.evidence.log_evidence["this prior"][6:].tolist() == [0.0] * 3
    np.testing.assert_allclose(check.usage.found.sum(), 6)


def test_one_task_is_enough() -> None:
    case = FamilyCase("poisson")
    tasks = held_out(case, seed=5, n_tasks=1)
    check = check_prior(case.prior, tasks[0], seed=0, n_draws=9)
    assert check.n_tasks == 1
    assert np.isnan(check.evidence.per_task("this prior").error)
    assert "1 held-out task, " in str(check)


def test_impossible_tasks_are_reported() -> None:
    case = FamilyCase("tabular with zeros")
    rng, family = np.random.default_rng(0), case.prior.family
    assert isinstance(family, mixts.TabularMDP)
    belief = case.prior.belief(12)
    for t, parameters in enumerate(case.prior.draw(rng, 12)[1]):
        belief.update(random_episodes(rng, family.mdp(parameters), 3), tasks=[t] * 3)
    rewards, transitions = (part.copy() for part in belief.statistics.stored)
    rewards[4, 0, 1, 0] += 1  # no component thinks that this pair ever pays
    tasks = TabularStatistics(rewards=rewards, transitions=transitions)
    check = check_prior(case.prior, tasks, seed=0, n_draws=19)
    assert check.surprise.impossible.tolist() == [4]
    assert check.surprise.ranked()[0] == 4
    assert check.surprise.p_value[4] == 0.0
    assert check.component[4] == -1
    assert check.evidence.impossible("this prior") == 1
    assert not check.evidence.compared[4]
    assert 4 not in check.calibration["rewards"].tasks
    assert check.usage.n_tasks == 11
    text = str(check)
    assert "Impossible under every kind: 1 task." in text
    assert "nan" not in text
    for values in (check.surprise.expected, check.surprise.spread, check.surprise.p_value):
        assert np.isfinite(values).all()
    # Nor does a prior that knows more make the flat one worse than it is.
    assert np.isposinf(check.surprise.log_factor[4])


def test_the_same_seed_gives_the_same_check() -> None:
    first, again = small_check(), small_check()
    np.testing.assert_array_equal(first.surprise.p_value, again.surprise.p_value)
    u, v = (check.calibration["rewards"].transforms for check in (first, again))
    np.testing.assert_array_equal(u, v)
    case = FamilyCase("bernoulli")
    other = check_prior(case.prior, held_out(case, seed=0, n_tasks=40), seed=1, n_draws=99)
    assert (other.calibration["rewards"].transforms != u).any()


# -- verdicts -----------------------------------------------------------------------------------


def of_transforms(u: Any, group: str = "rewards") -> Calibration:
    return Calibration(group, np.asarray(u), np.zeros(len(u), np.int64))


def test_verdicts() -> None:
    grid = (np.arange(1000) + 0.5) / 1000
    assert of_transforms(grid).verdict == "calibrated"
    assert of_transforms(stats.beta(0.6, 0.6).ppf(grid)).findings == ("narrow",)
    assert of_transforms(stats.beta(1.8, 1.8).ppf(grid)).findings == ("wide",)
    assert of_transforms(grid**0.7).findings == ("high",)
    assert of_transforms(1 - grid**0.7).findings == ("low",)
    # Mean and spread are right, and still it is not uniform.
    half = stats.beta(4, 4).ppf(grid[::2]) / 2
    assert of_transforms(np.concatenate([0.5 - half, 0.5 + half])).findings == ("shape",)
    narrow = of_transforms(stats.beta(0.6, 0.6).ppf(grid))
    assert narrow.verdict == "predictions are too narrow"
    many = (np.arange(100_000) + 0.5) / 100_000
    slight = of_transforms(stats.beta(1.05, 1.05).ppf(many))
    assert slight.verdict == "predictions are slightly too wide"
    assert of_transforms(grid**0.5, "noise").verdict == "the noise is larger than predicted"
    assert of_transforms(grid[:5]).verdict == "too few to tell"
    assert of_transforms([]).p_value == 1.0


def test_coverage_and_deviation() -> None:
    u = np.array([0.01, 0.3, 0.5, 0.6, 0.999])
    fifty, eighty, all_but = of_transforms(u).coverage()
    assert (fifty.found, eighty.found, all_but.found) == (0.6, 0.6, 0.6)
    np.testing.assert_allclose(fifty.error, np.sqrt(0.25 / 5))
    deviation = of_transforms(u).deviation
    np.testing.assert_allclose(deviation, stats.kstest(u, "uniform").statistic)
    rng = np.random.default_rng(0)
    v = rng.random(300)
    exact = stats.kstest(v, "uniform").pvalue
    np.testing.assert_allclose(of_transforms(v).p_value, exact, atol=0.01)


def test_unused_components() -> None:
    usage = Usage(
        ("a", "b", "c", "d"), np.array([0.5, 0.3, 0.19, 0.01]), 100,
        np.array([70.0, 28.5, 1.5, 0.0]), np.array([1.0, 1.0, 0.6, 0.0]),
    )  # fmt: skip
    assert usage.unused.tolist() == [False, False, True, False]
    assert usage.judged.tolist() == [True, True, True, False]
    np.testing.assert_allclose(usage.expected, [50, 30, 19, 1])


def test_surprises_are_ranked() -> None:
    surprise = Surprise(
        score=np.array([-5.0, -9.0, -9.0, -np.inf]), expected=np.full(4, -4.0),
        spread=np.array([1.0, 1.0, 2.0, 1.0]), p_value=np.array([0.3, 0.001, 0.001, 0.0]),
        log_factor=np.array([0.0, 5.0, 1.0, np.inf]), n_observations=np.array([3, 3, 3, 3]),
    )  # fmt: skip
    assert surprise.ranked().tolist() == [3, 1, 2, 0]
    assert surprise.surprising.tolist() == [False, True, True, True]
    np.testing.assert_allclose(surprise.n_expected, 0.04)
    assert surprise.n_unlike == 2  # above ln 100 = 4.6


def test_p_values_count_draws() -> None:
    """Replicates that are known: 1, 2, 3, ... in each call."""
    asked = []

    class Counting(Predictive):
        def __init__(self) -> None: ...

        def parts(self) -> Any:
            return iter(())

        def scores(self) -> Any:
            return np.zeros(0)

        def replicate(self, rng: Any, tasks: Any, n: int) -> Any:
            asked.append((tasks.tolist(), n))
            return np.tile(np.arange(1.0, n + 1), (len(tasks), 1))

    rng = np.random.default_rng(0)
    observed = np.array([0.5, 4.0, 9.0, 10.0, 50.0])
    counting = Counting()
    mean, spread, p_value = scores_beside(counting, observed, 999, rng)
    # The first three have fewer than 10 of the first 99 below, and see 900 more.
    assert asked == [([0, 1, 2, 3, 4], 99), ([0, 1, 2], 900)]
    np.testing.assert_allclose(p_value, [1 / 1000, 9 / 1000, 19 / 1000, 11 / 100, 51 / 100])
    np.testing.assert_allclose(mean, 50.0)
    np.testing.assert_allclose(spread, np.arange(99).std())
    assert scores_beside(counting, observed, 9, rng)[2][0] == 1 / 10


@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "full", "tabular"])
def test_the_summary_fits_a_terminal(name: str) -> None:
    case = FamilyCase(name)
    check = check_prior(case.prior, held_out(case, seed=6, n_tasks=20), seed=0, n_draws=19)
    text = str(check)
    assert max(map(len, text.splitlines())) <= 100
    for words in ("Held-out log evidence", "Predictions", "Surprising tasks", "Kind", "calm"):
        assert words in text
    assert text.count("- ") >= len(check.findings)


@pytest.mark.parametrize(
    ("n", "sentence"),
    [
        (0, "0 surprising tasks (p <= 0.01), where 0.6 are expected: no more than chance allows."),
        (1, "1 surprising task (p <= 0.01), where 0.6 are expected: no more than chance allows."),
        # Of a Poisson law with mean 0.6, 3 or more have probability 0.023, and 4 or more 0.0034.
        (3, "3 surprising tasks (p <= 0.01), where 0.6 are expected: no more than chance allows."),
        (4, "Tasks that no kind explains: 4 with p <= 0.01, where 0.6 are expected."),
    ],
)
def test_surprising_tasks_are_counted_beside_chance(n: int, sentence: str) -> None:
    case = FamilyCase("bernoulli")
    check = check_prior(case.prior, held_out(case, seed=6, n_tasks=60), seed=0, n_draws=19)
    surprise = replace(
        check.surprise,
        p_value=np.where(np.arange(60) < n, 0.005, 0.5),
        n_observations=np.ones(60, int),
    )
    assert sentence in replace(check, surprise=surprise).findings


# -- refusals -----------------------------------------------------------------------------------


def test_what_cannot_be_checked(unchecked: None) -> None:
    bernoulli, gaussian = FamilyCase("bernoulli"), FamilyCase("gaussian")
    tasks = held_out(bernoulli, seed=0, n_tasks=4)
    with pytest.raises(errors.StatisticsError, match="needs GaussianStatistics of shape"):
        check_prior(gaussian.prior, tasks)
    with pytest.raises(errors.StatisticsError, match=r"of shape \(4,\), got .*shape=\(5,\)"):
        check_prior(bernoulli.prior, tasks.with_arms(1))
    with pytest.raises(errors.StatisticsError, match="got 0 tasks with none"):
        check_prior(bernoulli.prior, tasks[:0])
    with pytest.raises(errors.StatisticsError, match="got 3 tasks with none"):
        check_prior(bernoulli.prior, bernoulli.prior.belief(3).statistics)
    with pytest.raises(errors.StatisticsError, match="tasks must be the statistics"):
        check_prior(bernoulli.prior, 3)
    with pytest.raises(errors.ParameterError, match="prior must be a MixturePrior, got Bern"):
        check_prior(bernoulli.prior.family, tasks)  # type: ignore[arg-type]
    with pytest.raises(errors.ParameterError, match="prior of UniTS must be a MixturePrior"):
        check_prior(bernoulli.prior, tasks, unimodal=3)  # type: ignore[arg-type]
    with pytest.raises(errors.StatisticsError, match="GaussianArms"):
        check_prior(bernoulli.prior, tasks, flat=gaussian.prior)
    with pytest.raises(errors.ParameterError, match="n_draws must be a whole number"):
        check_prior(bernoulli.prior, tasks, n_draws=0)
    strange = type("StrangeArms", (mixts.BernoulliArms,), {})(np.ones((1, 4)), np.ones((1, 4)))
    with pytest.raises(errors.ParameterError, match="check_prior checks priors of BernoulliArms,"):
        check_prior(mixts.MixturePrior(strange), tasks, seed=0)
