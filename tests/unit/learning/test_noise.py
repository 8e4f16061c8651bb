"""Learning a noise of each task: recovery, checks, and the choice between both kinds of noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import mixts
from mixts import errors
from mixts.families.noise import expected_noise, match_noise
from mixts.learning import learn, mixture_evidence
from mixts.learning.models import model_of, predictive_of
from mixts.learning.models.predictive import transform
from mixts.learning.models.student import with_noise
from mixts.learning.noise import compare_noise
from mixts.logs.fit import fit_logs

KINDS = ("arms", "linear")
MEANS = np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])


def _prior(kind: str, degrees: Any = 6.0) -> mixts.MixturePrior:
    if kind == "arms":
        family: Any = mixts.StudentArms(MEANS, np.full((2, 3), 0.2), [0.8, 0.5], degrees)
    else:
        family = mixts.LinearStudent(MEANS, np.full((2, 3), 0.2), [0.8, 0.5], degrees, "diag")
    return mixts.MixturePrior(family, [0.6, 0.4])


def _tasks(prior: mixts.MixturePrior, n: int, n_rounds: int, seed: int = 1) -> Any:
    rng, family = np.random.default_rng(seed), prior.family
    _, parameters = prior.draw(rng, n)
    belief, every = prior.belief(n), np.arange(n)
    for _ in range(n_rounds):
        if family.n_features is None:
            actions: Any = rng.integers(3, size=n)
            means, arms = parameters[every, actions], actions
        else:
            actions = rng.normal(size=(n, 3))
            means, arms = (actions * parameters[:, :3]).sum(axis=1), every
        belief.update(
            actions, family.outcomes(rng, family.reward_parameters(parameters, arms, means))
        )
    return belief.statistics


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["evidence", "two-stage"])
def test_the_noise_of_tasks_is_recovered(kind: str, method: Any) -> None:
    truth = _prior(kind)
    tasks, test = _tasks(truth, 800, 20), _tasks(truth, 400, 20, seed=2)
    found = learn(tasks, 2, method, seed=1, noise="per-task", engine=1)
    family = found.prior.family
    assert type(family) is type(truth.family)
    if method == "evidence":
        # A standard error of ln noise_std is 1 / sqrt(2 n (1/20 + 1/6)): about 0.04 of 400 tasks.
        order = np.argsort(-family.arrays()["noise_std"])
        np.testing.assert_allclose(family.arrays()["noise_std"][order], [0.8, 0.5], rtol=0.12)
        np.testing.assert_allclose(family.arrays()["degrees"], 6.0, rtol=0.5)
        assert (np.diff(found.history.objective) > -1e-9).all()
    common = learn(tasks, 2, method, seed=1, engine=1)
    gain = mixture_evidence(found.prior, test) - mixture_evidence(common.prior, test)
    assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))
    lost = mixture_evidence(truth, test) - mixture_evidence(found.prior, test)
    assert lost.mean() < (0.05 if method == "evidence" else 0.5)


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_every_step_improves_the_objective(kind: Any) -> None:
    tasks = _tasks(_prior("linear"), 150, 8)
    model = model_of(tasks, noise="per-task", covariance_type=kind)
    family, weights = model.centre.select([0, 0]), np.array([0.5, 0.5])
    rng = np.random.default_rng(1)
    family = model.improve(family, rng.dirichlet([1.0, 1.0], size=150))
    values = []
    for _ in range(12):
        joint = np.log(weights) + model.log_evidence(family)
        share = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
        value = np.logaddexp.reduce(joint, axis=1).sum() + model.log_hyperprior(family)
        values.append(value + model.pseudo * np.log(weights).sum())
        again = model.unpack(model.pack(family), 2)
        for name, array in family.arrays().items():
            np.testing.assert_allclose(again.arrays()[name], array, rtol=1e-9, atol=1e-12)
        counts = share.sum(axis=0) + model.pseudo
        family, weights = model.improve(family, share), counts / counts.sum()
    assert (np.diff(values) > -1e-8).all()
    assert values[-1] > values[0] + 1
    exact = mixts.MixturePrior(family).condition(tasks).log_evidence
    np.testing.assert_allclose(model.log_evidence(family), exact, rtol=1e-9, atol=1e-8)


def test_matched_noise_has_the_given_means() -> None:
    degrees, unit = np.array([2.5, 8.0, 700.0]), np.array([0.4, 3.0, 90.0])
    noise_std, found = match_noise(*expected_noise(degrees, unit))
    np.testing.assert_allclose(found, degrees, rtol=1e-7)
    np.testing.assert_allclose(found * noise_std**2, unit, rtol=1e-7)


def test_the_degrees_keep_their_limits() -> None:
    same = mixts.MixturePrior(mixts.GaussianArms(MEANS, np.full((2, 3), 0.2), 0.5))
    rng = np.random.default_rng(3)
    _, means = same.draw(rng, 200)
    belief = same.belief(200)
    for arm in range(3):
        for _ in range(6):
            belief.update(np.full(200, arm), means[:, arm] + 0.5 * rng.normal(size=200))
    prior = mixts.learn_prior(belief.statistics, 1, seed=1, noise="per-task", engine=1)
    assert 30 < prior.family.degrees[0] <= 1e4


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_calibrated_and_sum_to_the_evidence(kind: str) -> None:
    prior = _prior(kind, [6.0, 30.0])
    tasks = _tasks(prior, 3000, 7)
    total = np.zeros((3000, 2))
    for part in predictive_of(prior, tasks).parts():
        total[part.tasks] += part.log_mass
    evidence = prior.family.log_evidence(tasks)
    # The parts leave out what both components share.
    gap = np.diff(total, axis=1) - np.diff(evidence, axis=1)
    np.testing.assert_allclose(gap, 0.0, atol=1e-9)
    found = transform(predictive_of(prior, tasks), 3000, np.random.default_rng(1))
    for name in ("noise", "rewards"):
        assert stats.kstest(found[name].values, "uniform").pvalue > 1e-3
    scores = predictive_of(prior, tasks).scores()
    np.testing.assert_allclose(scores, mixture_evidence(prior, tasks), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_check_finds_noise_that_differs(kind: str) -> None:
    prior = _prior(kind)
    tasks = _tasks(prior, 300, 12)
    good = mixts.check_prior(prior, tasks, seed=1, n_draws=19)
    assert good.calibration["noise"].p_value > 1e-3
    common = mixts.learn_prior(_tasks(prior, 300, 12, seed=3), 2, seed=1, engine=1)
    assert mixts.check_prior(common, tasks, seed=1, n_draws=19).calibration["noise"].p_value < 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_the_better_noise_is_chosen(kind: str) -> None:
    differs = compare_noise(_tasks(_prior(kind, 5.0), 200, 15), 2, 1, options={"engine": 1})
    assert differs is not None
    assert differs.chosen == "per-task"
    assert "each task has its own" in differs.sentence
    known = _prior(kind).family.arrays()
    same = (
        mixts.StudentArms(MEANS, known["variance"], 0.6, 1e6)
        if kind == "arms"
        else mixts.LinearStudent(MEANS, known["covariance"], 0.6, 1e6, "diag")
    )
    alike = compare_noise(_tasks(mixts.MixturePrior(same), 200, 15), 2, 1, options={"engine": 1})
    assert alike is not None
    assert alike.chosen == "common"
    assert "all tasks have the same" in alike.sentence
    assert compare_noise(_tasks(_prior(kind), 10, 5), 1, 1) is None


# -- rewards that repeat exactly ------------------------------------------------------------------


def _repeated(name: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return logs in which the rewards of some tasks are all equal, and their columns."""
    rng = np.random.default_rng(1)
    n, n_rounds = 100, 15
    task, arm = np.repeat(np.arange(n), n_rounds), rng.integers(3, size=n * n_rounds)
    family, favourite = "auto", (arm == 0) == (task % 2 == 0)
    if name == "quantities":
        reward = np.minimum(rng.poisson(np.where(favourite, 0.25, 0.02)), 3).astype(float)
    elif name in ("clicks", "one reward of 2"):
        reward = (rng.random(len(task)) < np.where(favourite, 0.15, 0.01)).astype(float)
        family = "gaussian" if name == "clicks" else "auto"
        reward[7] = 2.0 if name == "one reward of 2" else reward[7]
    elif name == "an exact reward of each arm":
        reward, family = (arm + task) % 3 + 10.0, "gaussian"
    else:  # a rating of each item, in half points or hundredths; some users give always the same
        task, arm = np.repeat(np.arange(n), 12), np.tile(np.arange(12), n)
        sigma = np.where(rng.random(n) < 0.06, 0.0, rng.gamma(4.0, 0.25, n))[task]
        step = 0.5 if name == "ratings in half points" else 0.01
        exact = rng.normal(3.5, 0.8, n)[task] + sigma * rng.normal(size=len(task))
        reward = np.clip(np.round(exact / step) * step, 0.5, 5.0)
    rows = pd.DataFrame(
        {"task": task, "arm": arm, "reward": reward, "x": rng.normal(size=len(task))}
    )
    return rows, {"task": "task", "reward": "reward", "family": family}


REPEATED = (
    "quantities", "clicks", "one reward of 2", "an exact reward of each arm",
    "ratings in half points", "ratings in hundredths",
)  # fmt: skip


@pytest.mark.parametrize("noise", ["auto", "per-task"])
@pytest.mark.parametrize("name", REPEATED)
def test_rewards_that_repeat_exactly_give_a_prior(name: str, noise: Any) -> None:
    """A task whose rewards are all equal shows no noise; its own noise must not become zero."""
    rows, columns = _repeated(name)
    fit = fit_logs(rows, {**columns, "arm": "arm"}, noise=noise, seed=1, engine=1, n_components=2)
    family: Any = fit.prior.family
    assert np.min(family.noise_std) > 1e-4 * rows.reward.std()


@pytest.mark.parametrize("noise", ["auto", "per-task"])
@pytest.mark.parametrize("name", ["quantities", "ratings in half points"])
def test_rewards_that_repeat_exactly_give_a_prior_of_features(name: str, noise: Any) -> None:
    rows, columns = _repeated(name)
    columns = {**columns, "features": ["x"], "intercept": True, "family": "linear"}
    fit = fit_logs(rows, columns, noise=noise, seed=1, engine=1, n_components=2)
    family: Any = fit.prior.family
    assert np.min(family.noise_std) > 1e-4 * rows.reward.std()


def test_a_kind_that_only_repeats_has_no_noise_of_its_own() -> None:
    """Tasks of one kind have the same rewards, once each: nothing tells their noise."""
    rng = np.random.default_rng(1)
    task, arm = np.repeat(np.arange(120), 6), np.tile(np.arange(6), 120)
    other = rng.normal(2, 1.5, 120)[task] + rng.normal(size=720)
    reward = np.where((task % 3 == 0), arm, other)
    rows = pd.DataFrame({"task": task, "arm": arm, "reward": reward})
    fit = fit_logs(rows, {"task": "task", "arm": "arm", "reward": "reward"}, seed=1, engine=1)
    assert fit.noise is not None
    assert fit.noise.chosen == "common"
    assert fit.noise.sentence == (
        "noise: all tasks have the same; a noise of each would be zero in a kind whose tasks have "
        "exactly the same rewards"
    )
    assert isinstance(fit.prior.family, mixts.GaussianArms)


def test_rewards_with_noise_stay_as_they_are() -> None:
    for kind in KINDS:
        tasks = _tasks(_prior(kind), 50, 12)
        shown, mask = with_noise(tasks)
        assert mask.all()
        for one, other in zip(shown.stored, tasks.stored, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_a_common_noise_survives_a_comparison_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def learn_common(*arguments: Any, **options: Any) -> Any:
        if options.get("noise") == "per-task":
            raise errors.StatisticsError("the numbers are too far apart")
        return learn(*arguments, **options)

    monkeypatch.setattr("mixts.learning.noise.learn", learn_common)
    rows, columns = _repeated("quantities")
    columns["arm"] = "arm"
    fit = fit_logs(rows, columns, seed=1, engine=1, n_components=2)
    assert isinstance(fit.prior.family, mixts.GaussianArms)
    assert fit.noise is not None
    assert "could not be learned (the numbers are too far apart)" in fit.noise.sentence


@pytest.mark.usefixtures("unchecked")
def test_noise_is_refused_where_it_has_no_meaning() -> None:
    clicks = mixts.BernoulliArms.uniform(2).empty_statistics(3)
    clicks.observe(np.arange(3), (np.zeros(3, int), np.ones(3)))
    with pytest.raises(errors.ParameterError, match="per-task"):
        mixts.learn_prior(clicks, 1, noise="per-task")
    tasks = _tasks(_prior("arms"), 10, 5)
    with pytest.raises(errors.ParameterError, match="noise_std has no meaning"):
        mixts.learn_prior(tasks, 1, noise="per-task", noise_std=1.0)
    with pytest.raises(errors.ParameterError, match="noise must be one of"):
        mixts.learn_prior(tasks, 1, noise="own")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["arms", "full", "tied", "diag"])
def test_nothing_is_left_to_gain_where_learning_ends(kind: str) -> None:
    """Where a step changes nothing, no change of any parameter raises the objective."""
    tasks = _tasks(_prior("arms" if kind == "arms" else "linear", 4.0), 40, 8)
    options: dict[str, Any] = {} if kind == "arms" else {"covariance_type": kind}
    model = model_of(tasks, noise="per-task", **options)

    def objective(family: Any) -> float:
        return float(model.log_evidence(family).sum() + model.log_hyperprior(family))

    family: Any = model.centre
    for _ in range(1500):
        before, family = family, model.improve(family, np.ones((40, 1)))
        if np.abs(model.pack(family) - model.pack(before)).max() < 1e-9:
            break
    best, numbers = objective(family), model.pack(family)
    # A diagonal covariance has no entries beside the diagonal: those of the root stay zero.
    moved = np.flatnonzero(numbers) if kind == "diag" else np.arange(len(numbers))
    for k in moved:
        for step in (-1e-3, 1e-3):
            other = numbers.copy()
            other[k] += step
            # To first order a change gains nothing; 1e-3 of a slope of 0.01 would be 1e-5.
            assert objective(model.unpack(other, 1)) < best + 1e-6
