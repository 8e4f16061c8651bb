"""New arms: what arms look like under each component, and arms that are added without data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.families.population import PSEUDO_ARMS, arm_population
from mixts.learning import robust_prior

ALPHA = np.array([[2.0, 6.0, 4.0, 3.0], [8.0, 1.0, 3.0, 5.0]])
BETA = np.array([[18.0, 14.0, 36.0, 27.0], [12.0, 9.0, 17.0, 5.0]])


def clicks() -> mixts.MixturePrior:
    names = ["sku-0", "sku-1", "sku-2", "sku-3"]
    family = mixts.BernoulliArms(ALPHA, BETA)
    return mixts.MixturePrior(family, [0.7, 0.3], ["few", "many"], names)


def moments(family: mixts.Family) -> tuple[np.ndarray, np.ndarray]:
    return family.parameter_means(), family.parameter_variances()


# -- the arm prior of a prior made by hand ---------------------------------------------------------


def test_the_arm_prior_has_the_moments_of_the_arms_and_one_pseudo_arm() -> None:
    mean, within = moments(clicks().family)
    one = clicks().arm_prior
    assert isinstance(one, mixts.BernoulliArms)
    assert (one.n_components, one.n_arms) == (2, 1)
    found_mean, found_variance = moments(one)
    for s in range(2):
        v = within[s].mean()
        squares = ((mean[s] - mean[s].mean()) ** 2).sum()
        between = (squares + PSEUDO_ARMS * v) / (3 + PSEUDO_ARMS)
        assert found_mean[s, 0] == pytest.approx(mean[s].mean())
        assert found_variance[s, 0] == pytest.approx(v + between * (1 + 1 / 4), rel=1e-6)


def test_arms_that_are_little_known_count_little() -> None:
    family = mixts.GaussianArms([[1.0, 1.2, 0.9, 50.0]], [[0.1, 0.1, 0.1, 900.0]], 1.0)
    known = np.array([[200.0, 200.0, 200.0, 0.0]])
    mean, variance = moments(arm_population(family, known))
    alone_mean, alone_variance = moments(arm_population(family.arms([0, 1, 2]), known[:, :3]))
    np.testing.assert_allclose(mean, alone_mean, rtol=1e-6)
    np.testing.assert_allclose(variance, alone_variance, rtol=1e-4)


def test_the_errors_of_estimated_means_are_not_differences_between_arms() -> None:
    rng = np.random.default_rng(1)
    n_arms, within, between = 400, 0.5, 0.04
    n = rng.uniform(2, 40, n_arms)
    true = 3.0 + np.sqrt(between) * rng.standard_normal(n_arms)
    seen = true + np.sqrt(within / n) * rng.standard_normal(n_arms)
    family = mixts.GaussianArms(seen[None], np.full((1, n_arms), within), 1.0)
    mean, variance = moments(arm_population(family, n[None]))
    # The variance of an estimate of a variance from 400 arms with errors is about 0.005.
    assert mean[0, 0] == pytest.approx(3.0, abs=0.05)
    assert variance[0, 0] == pytest.approx(within + between, abs=0.02)


def test_one_arm_is_enough() -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms([[2.0]], [[50.0]]))
    assert prior.arm_prior is not None
    mean, variance = moments(prior.arm_prior)
    assert mean[0, 0] == pytest.approx(2 / 52)
    assert 0 < variance[0, 0] < mean[0, 0]


def test_extreme_arms_have_a_possible_population() -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms([[1e-6, 1e6]], [[1e6, 1e-6]]))
    assert prior.arm_prior is not None
    assert np.isfinite(prior.arm_prior.parameter_variances()).all()


def test_families_without_arms_have_no_arm_prior() -> None:
    prior = mixts.MixturePrior(mixts.LinearGaussian([[0.0, 0.0]], [np.eye(2)], 1.0))
    assert prior.arm_prior is None
    with pytest.raises(errors.ParameterError, match="accept new arms"):
        prior.add_arms(1)
    with pytest.raises(errors.ParameterError, match="only families of arms"):
        arm_population(prior.family)


def test_an_arm_prior_of_another_shape_is_refused() -> None:
    family = mixts.BernoulliArms(ALPHA, BETA)
    with pytest.raises(errors.ParameterError, match="one arm like those"):
        mixts.MixturePrior(family, arm_prior=mixts.BernoulliArms([[1.0]], [[1.0]]))


# -- new arms --------------------------------------------------------------------------------------


def test_new_arms_come_from_the_arm_prior_and_are_marked() -> None:
    prior = clicks().add_arms(["sku-17", "a, b"])
    assert prior.arm_names == ("sku-0", "sku-1", "sku-2", "sku-3", "sku-17", "a, b")
    assert prior.arms.new.tolist() == [False] * 4 + [True] * 2
    expected = clicks().arm_prior
    assert isinstance(expected, mixts.BernoulliArms)
    for k in (4, 5):
        np.testing.assert_allclose(prior.family.alpha[:, [k]], expected.alpha)
        np.testing.assert_allclose(prior.family.beta[:, [k]], expected.beta)
    assert "new arms: sku-17, a, b" in repr(prior)


def test_new_arms_do_not_change_what_further_arms_look_like() -> None:
    once, twice = clicks().add_arms(["x"]), clicks().add_arms(["x"]).add_arms(["y"])
    np.testing.assert_array_equal(once.family.alpha[:, 4], twice.family.alpha[:, 5])


def test_a_new_arm_may_resemble_another_or_have_a_guessed_mean() -> None:
    like = clicks().add_arms(["x"], like="sku-1").family
    np.testing.assert_allclose(like.parameter_means()[:, 4], like.parameter_means()[:, 1])
    assert (like.parameter_variances()[:, 4] > like.parameter_variances()[:, 1]).all()
    guess = clicks().add_arms(["x"], mean=0.05).family
    np.testing.assert_allclose(guess.parameter_means()[:, 4], 0.05)


@pytest.mark.parametrize(
    ("arms", "options", "message"),
    [
        (["sku-1"], {}, "already has the arm 'sku-1'"),
        (["x", "x"], {}, "must differ"),
        ([], {}, "at least one"),
        ([""], {}, "at least one"),
        ("x", {}, "list of names"),
        (2, {}, "list of names"),
        (["x"], {"mean": 1.5}, "between 0 and 1"),
        (["x"], {"mean": 0.5, "like": "sku-1"}, "not both"),
        (["x"], {"like": "nobody"}, "unknown arm 'nobody'"),
    ],
)
def test_bad_new_arms_are_refused(arms: object, options: dict, message: str) -> None:
    with pytest.raises(errors.ParameterError, match=message):
        clicks().add_arms(arms, **options)  # type: ignore[arg-type]


def test_arms_without_names_are_added_by_number() -> None:
    prior = mixts.MixturePrior(mixts.PoissonArms([[2.0, 3.0]], [[1.0, 1.0]])).add_arms(3)
    assert prior.family.n_arms == 5
    assert prior.arms.new.tolist() == [False, False, True, True, True]
    with pytest.raises(errors.ParameterError, match="say how many are new"):
        prior.add_arms(["x"])


def test_renaming_keeps_the_index_and_names_may_swap() -> None:
    prior = clicks().retire_arms(["sku-2"]).rename_arms({"sku-0": "sku-1", "sku-1": "sku-0"})
    assert prior.arm_names == ("sku-1", "sku-0", "sku-2", "sku-3")
    assert prior.arms.retired.tolist() == [False, False, True, False]
    with pytest.raises(errors.ParameterError, match="distinct"):
        clicks().rename_arms({"sku-0": "sku-1"})
    with pytest.raises(errors.ParameterError, match="unknown arm"):
        clicks().rename_arms({"nobody": "x"})


def test_retired_arms_can_be_restored() -> None:
    prior = clicks().retire_arms(["sku-1", "sku-2"]).restore_arms(["sku-1", "sku-3"])
    assert prior.arms.retired.tolist() == [False, False, True, False]


# -- other priors and files ------------------------------------------------------------------------


def learned() -> mixts.MixturePrior:
    rng = np.random.default_rng(5)
    won = rng.binomial(20, 0.1, (60, 5))
    won[:, 4] = 0
    lost = 20 - won
    lost[:, 4] = 0
    tasks = mixts.families.BernoulliStatistics(successes=won, failures=lost)
    return mixts.learn_prior(tasks, 2, seed=1, n_restarts=1)


def test_other_priors_carry_the_arm_prior_and_the_marks(tmp_path: Path) -> None:
    prior = learned()
    assert prior.arms.new.tolist() == [False] * 4 + [True]
    same = {
        "retired": prior.retire_arms([0]),
        "restored": prior.restore_arms([0]),
        "widened": prior.add_arms(2),
        "named": prior.replace(arm_names=list("vwxyz")).rename_arms({"v": "V"}),
    }
    for suffix in ("json", "zip"):
        path = tmp_path / f"prior.{suffix}"
        prior.add_arms(2).save(path)
        same[suffix] = mixts.MixturePrior.load(path)
    for name, other in same.items():
        np.testing.assert_array_equal(
            other.arm_prior.alpha,
            prior.arm_prior.alpha,
            err_msg=name,  # type: ignore[union-attr]
        )
        assert other.arms.new[4], name
    assert same["json"].arms.new.tolist() == [False] * 4 + [True] * 3
    one = prior.select([1]).arm_prior
    np.testing.assert_array_equal(one.alpha, prior.arm_prior.alpha[1:])  # type: ignore[union-attr]
    assert prior.collapse().arm_prior.arrays()["alpha"].shape == (1, 1)  # type: ignore[union-attr]
    broad = robust_prior(prior, 0.01)
    assert broad.arm_prior.arrays()["alpha"].shape == (3, 1)  # type: ignore[union-attr]
    assert broad.arms.new[4]
    assert prior.belief().as_prior().arms.new[4]


def test_files_without_an_arm_prior_load() -> None:
    header, arrays = clicks().bundle()
    assert "new" not in header
    loaded = mixts.MixturePrior.from_bundle(header, arrays)
    assert not loaded.arms.new.any()
    assert loaded.arm_prior is not None
