"""Refits: go on from what an earlier prior knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.errors import FormatError, ParameterError, StatisticsError
from mixts.families import BernoulliStatistics
from mixts.learning import refit_prior, robust_prior
from mixts.origin import Origin

MEAN = np.array([[0.7, 0.2, 0.4], [0.2, 0.6, 0.1]])
WIDE = np.full((2, 3), 0.3)


def _families() -> dict[str, mixts.Family]:
    spends = (1 + MEAN, *(np.full((2, 3), x) for x in (6.0, 4.0, 2.0)))
    return {
        "bernoulli": mixts.BernoulliArms(8 * MEAN, 8 * (1 - MEAN)),
        "gaussian": mixts.GaussianArms(4 * MEAN, WIDE, 0.8),
        "student": mixts.StudentArms(4 * MEAN, WIDE, [0.8, 0.5], [12.0, 8.0]),
        "poisson": mixts.PoissonArms(12 * MEAN, np.full((2, 3), 4.0)),
        "spend": mixts.SpendArms(8 * MEAN, 8 * (1 - MEAN), *spends),
    }


def _features(kind: str) -> mixts.Family:
    mean, covariance = np.array([[1.0, -1.0], [-1.0, 1.5]]), np.array([[0.4, 0.1], [0.1, 0.3]])
    both = np.stack([covariance, 2 * covariance])
    return {
        "full": mixts.LinearGaussian(mean, both, 0.7),
        "tied": mixts.LinearGaussian(mean, covariance, 0.7, "tied"),
        "diag": mixts.LinearGaussian(mean, [[0.4, 0.3], [0.2, 0.5]], 0.7, "diag"),
        "spherical": mixts.LinearGaussian(mean, [0.4, 0.2], 0.7, "spherical"),
        "student": mixts.LinearStudent(mean, both, [0.7, 0.5], [12.0, 8.0]),
        "student, tied": mixts.LinearStudent(mean, covariance, [0.7, 0.7], [9.0, 9.0], "tied"),
        "logistic": mixts.LinearBernoulli(mean, both),
    }[kind]


def _played(prior: mixts.MixturePrior, n: int, seed: int, arms: tuple[int, ...] = (0, 1)) -> Any:
    """Return statistics of tasks of the prior that tried only some arms, or random rows."""
    rng = np.random.default_rng(seed)
    family, (_, theta) = prior.family, prior.draw(rng, n)
    belief, rows = prior.belief(n_tasks=n), np.arange(n)
    for _ in range(12):
        if family.n_arms is None:
            taken = rng.standard_normal((n, 1, family.n_features or 0))
            mean = family.mean_rewards(theta, taken)[:, 0]
            arm, taken = np.zeros(n, np.int64), taken[:, 0]
        else:
            arm = taken = rng.choice(arms, size=n)
            mean = family.mean_rewards(theta, None)[rows, arm]
        belief.update(taken, family.outcomes(rng, family.reward_parameters(theta, arm, mean)))
    return belief.statistics


def _arrays(prior: mixts.MixturePrior) -> dict[str, Any]:
    return prior.family.arrays()


@pytest.mark.parametrize("name", _families())
def test_an_arm_without_new_observations_keeps_its_parameters(name: str) -> None:
    prior = mixts.MixturePrior(_families()[name], [0.6, 0.4])
    after = refit_prior(prior, _played(prior, 60, 1), n_tasks=50)
    scale = np.ones(2)
    if name == "student":  # the spread of an arm is in units of the component's noise
        scale = (after.family.noise_std / prior.family.noise_std) ** 2  # type: ignore[attr-defined]
    for key, old in _arrays(prior).items():
        new = _arrays(after)[key]
        if old.ndim == 2:
            expected = old * scale[:, None] if key == "variance" else old
            np.testing.assert_allclose(new[:, 2], expected[:, 2], rtol=1e-9, err_msg=key)
            assert not np.allclose(new[:, :2], expected[:, :2], rtol=1e-3), key
    assert after.origin is not None
    assert after.origin.n_tasks == 110
    np.testing.assert_allclose(after.origin.known[:, 2], [30.0, 20.0])


@pytest.mark.parametrize(
    "name", [*_families(), "full", "tied", "diag", "logistic", "student, tied"]
)
def test_many_new_tasks_outweigh_a_wrong_prior(name: str) -> None:
    """The earlier prior is forgotten in proportion to its tasks, and no faster."""
    family = _families()[name] if name in _families() else _features(name)
    truth = mixts.MixturePrior(family, [0.6, 0.4])
    wrong = mixts.MixturePrior(family, [0.3, 0.7])
    tasks = _played(truth, 300, 2, (0, 1, 2))
    weak, strong = (refit_prior(wrong, tasks, n_tasks=n) for n in (3, 3000))
    assert weak.weights[0] == pytest.approx(0.6, abs=0.12)
    assert strong.weights[0] == pytest.approx(0.3, abs=0.05)
    moved = [
        np.abs(one.family.parameter_means() - family.parameter_means()).max()
        for one in (weak, strong)
    ]
    assert moved[1] < 0.5 * moved[0]


@pytest.mark.parametrize("name", ["full", "tied", "diag", "spherical", "student", "student, tied"])
def test_no_news_is_no_change(name: str) -> None:
    """A component that no new task resembles stays as it is."""
    prior = mixts.MixturePrior(_features(name), [0.5, 0.5])
    tasks = _played(prior.select([0]), 40, 3)
    after = refit_prior(prior, tasks, n_tasks=1e6)
    for key, old in _arrays(prior).items():
        new = _arrays(after)[key]
        if key == "covariance" and name == "spherical":
            old = np.repeat(old[:, None], 2, axis=1)
        np.testing.assert_allclose(new, old, rtol=1e-2, err_msg=key)


def test_two_refits_are_one() -> None:
    """Tasks count the same whether they come together or one part after the other."""
    prior = mixts.MixturePrior(_families()["bernoulli"], [0.6, 0.4])
    first, second = _played(prior, 400, 4), _played(prior, 400, 5)
    prior = prior.replace(origin=Origin(200.0, np.full((2, 3), 100.0)))
    step = refit_prior(refit_prior(prior, first), second)
    once = refit_prior(prior, first.concatenate(second))
    assert step.origin is not None
    assert once.origin is not None
    assert step.origin.n_tasks == once.origin.n_tasks == 1000
    np.testing.assert_allclose(step.origin.known, once.origin.known, rtol=0.05)
    np.testing.assert_allclose(
        step.family.parameter_means(), once.family.parameter_means(), atol=0.01
    )


def test_a_broad_component_stays_broad() -> None:
    family = _families()["bernoulli"]
    learned = mixts.MixturePrior(family, [0.6, 0.4], origin=Origin(50.0, np.full((2, 3), 20.0)))
    prior = robust_prior(learned, 0.05)
    after = refit_prior(prior, _played(prior, 200, 6))
    assert isinstance(after.family, mixts.BernoulliArms)
    np.testing.assert_allclose(after.family.alpha[2], 1.0, rtol=1e-6)
    assert after.origin is not None
    assert not after.origin.known[2].any()


@pytest.mark.parametrize(("n_tasks", "learned"), [(80, True), (19, False)])
def test_a_new_arm_is_learned_from_enough_tasks(n_tasks: int, learned: bool) -> None:
    """Nothing is known about it, so that its guess counts as one task; then it is not new.

    Fewer than ten tasks for each component say too little about its spread.
    """
    family = _families()["bernoulli"]
    prior = mixts.MixturePrior(
        family, [0.6, 0.4], arm_names=("a", "b", "c"), origin=Origin(900.0, np.full((2, 3), 400.0))
    ).add_arms(["d", "e"], mean=0.5)
    rng = np.random.default_rng(7)
    won = np.zeros((n_tasks, 5), int)
    tried = np.zeros((n_tasks, 5), int)
    tried[:, [0, 3]] = 10
    won[:, 0], won[:, 3] = rng.binomial(10, 0.7, n_tasks), rng.binomial(10, 0.1, n_tasks)
    tasks = BernoulliStatistics(successes=won, failures=tried - won)
    after = refit_prior(prior, tasks)
    if learned:
        assert after.family.parameter_means()[0, 3] == pytest.approx(0.1, abs=0.03)
    else:
        assert isinstance(after.family, mixts.BernoulliArms)
        assert isinstance(prior.family, mixts.BernoulliArms)
        np.testing.assert_allclose(after.family.alpha[:, 3], prior.family.alpha[:, 3], rtol=1e-6)
        np.testing.assert_allclose(after.family.beta[:, 3], prior.family.beta[:, 3], rtol=1e-6)
    np.testing.assert_array_equal(after.arms.new, [False, False, False, not learned, True])
    assert after.arm_prior is not None
    assert after.origin is not None
    assert after.origin.known[:, 3].any() == learned


def test_what_it_refuses() -> None:
    prior = mixts.MixturePrior(_families()["bernoulli"])
    tasks = _played(prior, 5, 8)
    with pytest.raises(ParameterError, match="how many tasks it was learned from"):
        refit_prior(prior, tasks)
    with pytest.raises(ParameterError, match="n_tasks must be a number"):
        refit_prior(prior, tasks, n_tasks=-1)
    with pytest.raises(StatisticsError, match="none of 4 was"):
        refit_prior(prior, prior.belief(n_tasks=4).statistics, n_tasks=3)
    with pytest.raises(StatisticsError):
        refit_prior(prior, _played(mixts.MixturePrior(_families()["poisson"]), 5, 1), n_tasks=3)
    table = mixts.RiverSwim().prior
    with pytest.raises(ParameterError, match="arms and of features"):
        refit_prior(table, table.belief(n_tasks=2).statistics, n_tasks=3)


# -- the origin -----------------------------------------------------------------------------------


def test_an_origin_follows_its_prior(tmp_path: Path) -> None:
    tasks = _played(mixts.MixturePrior(_families()["bernoulli"]), 40, 9)
    prior = mixts.learn_prior(tasks, 2, seed=1).replace(arm_names=("a", "b", "c"))
    origin = prior.origin
    assert origin is not None
    assert origin.n_tasks == 40
    assert 10 < origin.known[:, :2].sum() < 80
    assert not origin.known[:, 2].any()  # never tried
    failed = prior.replace(origin=origin.judged(False, "Do not use this prior: it is wrong."))
    for path in (tmp_path / "prior.json", tmp_path / "prior.npz"):
        failed.save(path)
        found = mixts.MixturePrior.load(path).origin
        assert found is not None
        assert (found.passed, found.n_tasks) == (False, 40)
        assert found.verdict.startswith("Do not use")
        np.testing.assert_array_equal(found.known, origin.known)
    shapes = {
        "select": prior.select([1]), "append": robust_prior(prior), "collapse": prior.collapse(),
        "arms": prior.add_arms(["d"]), "retired": prior.retire_arms(["a"]),
    }  # fmt: skip
    known = {name: one.origin.known.shape for name, one in shapes.items() if one.origin}
    assert known == {
        "select": (1, 3), "append": (3, 3), "collapse": (1, 3), "arms": (2, 4), "retired": (2, 3),
    }  # fmt: skip
    assert prior.belief().as_prior().origin is None


def test_an_origin_is_checked() -> None:
    family = _families()["bernoulli"]
    with pytest.raises(ParameterError, match=r"shape \(2, 3\), got \(2, 2\)"):
        mixts.MixturePrior(family, origin=Origin(4.0, np.ones((2, 2))))
    with pytest.raises(ParameterError, match="finite and not negative"):
        Origin(4.0, -np.ones((2, 3)))
    header, arrays = mixts.MixturePrior(family, origin=Origin(4.0, np.ones((2, 3)))).bundle()
    for wrong in ({"n_tasks": -1}, {"passed": 3}, {"more": 1}):
        damaged = {**header, "origin": {**header["origin"], **wrong}}
        with pytest.raises(FormatError, match="damaged"):
            mixts.MixturePrior.from_bundle(damaged, dict(arrays))


@pytest.mark.parametrize("linear", [False, True])
def test_a_broad_component_does_not_hold_the_noise(linear: bool) -> None:
    """The noise of new tasks is three times that of the past ones."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((60, 30, 2)) if linear else rng.integers(3, size=(60, 30))
    found = {}
    for robust in (0.0, 0.05):
        parts = []
        for noise in (1.0, 3.0):
            family = (
                mixts.LinearGaussian.standard(2, 1.0)
                if linear
                else mixts.GaussianArms(np.zeros((1, 3)), np.ones((1, 3)), 1.0)
            )
            belief = mixts.MixturePrior(family).belief(60)
            means = rng.standard_normal((60, 2 if linear else 3))
            for i in range(30):
                mean = (x[:, i] * means).sum(axis=1) if linear else means[np.arange(60), x[:, i]]
                belief.update(x[:, i], mean + noise * rng.standard_normal(60))
            parts.append(belief.statistics)
        prior = mixts.learn_prior(parts[0], 1, seed=1, robust=robust)
        again = refit_prior(prior, parts[1])
        found[robust] = float(again.family.noise_std)
    assert found[0.05] == pytest.approx(found[0.0], rel=0.05)
    assert found[0.0] > 1.8
