"""The mixture prior: moments by hand, names, immutability, and files that anybody can read."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from tests.contracts.problems import CASES, FamilyCase

# -- what it holds ---------------------------------------------------------------------------------


def test_weights_are_uniform_unless_given() -> None:
    family = FamilyCase("bernoulli").prior.family
    np.testing.assert_allclose(mixts.MixturePrior(family).weights, 1 / 3, rtol=1e-15)
    given = mixts.MixturePrior(family, weights=[0.7, 0.1, 0.2])
    assert given.weights.tolist() == [0.7, 0.1, 0.2]
    assert given.n_components == 3
    assert given.family is family


def test_weights_within_rounding_are_rescaled() -> None:
    family = FamilyCase("bernoulli").prior.family
    off = np.array([0.7, 0.1, 0.2 + 5e-10])
    assert mixts.MixturePrior(family, weights=off).weights.sum() == pytest.approx(1.0, abs=1e-15)


def test_a_weight_of_zero_stays_zero() -> None:
    case = FamilyCase("full")
    prior = mixts.MixturePrior(case.prior.family, weights=[0.0, 0.4, 0.6])
    belief = prior.belief()
    belief.update(*case.history(1, 30))
    assert belief.weights[0] == 0
    assert belief.weights.sum() == pytest.approx(1.0)
    assert np.isfinite(belief.log_evidence).all()
    latent, _ = prior.draw(np.random.default_rng(0), 1000)
    assert 0 not in latent
    assert mixts.MixTS(prior, seed=0).act(case.actions) in range(5)


def test_what_was_given_is_copied() -> None:
    alpha, weights = np.ones((2, 3)), np.array([0.5, 0.5])
    prior = mixts.MixturePrior(mixts.BernoulliArms(alpha, np.ones((2, 3))), weights=weights)
    alpha[:], weights[:] = 7.0, 0.0
    assert prior.family.alpha.max() == 1
    assert prior.weights.tolist() == [0.5, 0.5]


def test_many_components_are_shown_in_short() -> None:
    family = mixts.BernoulliArms(np.ones((50, 2)), np.ones((50, 2)))
    text = repr(mixts.MixturePrior(family))
    assert len(text.splitlines()) < 12
    assert "50 components" in text
    assert "42 more" in text


def test_arms_have_names() -> None:
    family = FamilyCase("bernoulli").prior.family
    prior = mixts.MixturePrior(family, arm_names=["w", "x", "y", "z"])
    assert [prior.arms.index(arm) for arm in ("w", "z", 2, np.int64(1))] == [0, 3, 2, 1]
    for wrong in ("v", 4, -1):
        with pytest.raises(errors.ParameterError):
            prior.arms.index(wrong)


# -- collapse --------------------------------------------------------------------------------------


def test_a_prior_keeps_sentences_about_its_components(tmp_path: Path) -> None:
    family = mixts.BernoulliArms([[8.0, 2.0], [2.0, 8.0]], [[2.0, 8.0], [8.0, 2.0]])
    texts = ("They buy shoes.", "They buy books.")
    prior = mixts.MixturePrior(family, arm_names=["shoes", "books"], descriptions=texts)
    for name in ("prior.json", "prior.npz"):
        prior.save(tmp_path / name)
        assert mixts.MixturePrior.load(tmp_path / name).descriptions == texts
    assert prior.select([1]).descriptions == texts[1:]
    assert prior.retire_arms(["shoes"]).descriptions == texts
    assert prior.collapse().descriptions is None
    worse, better = (mixts.BernoulliArms([[a], [a]], [[4.0], [4.0]]) for a in (1.0, 40.0))
    assert prior.with_arms(worse, ["hats"]).descriptions == texts
    assert prior.with_arms(better, ["hats"]).descriptions is None, "shoes are no longer the best"
    assert prior.with_descriptions(None).descriptions is None
    assert "descriptions" not in mixts.MixturePrior(family).bundle()[0]
    for wrong in (["one"], ["one", ""], "ab"):
        with pytest.raises(errors.ParameterError, match="descriptions must be 2 sentences"):
            mixts.MixturePrior(family, descriptions=wrong)


def test_collapsed_bernoulli_arms() -> None:
    """Beta(1, 3) and Beta(3, 1) in equal parts: mean 1/2, variance 3/80 + 1/16 = 1/10.

    Beta(a, a) has variance 1 / (4 (2 a + 1)), so a = 3/4.
    """
    prior = mixts.MixturePrior(mixts.BernoulliArms([[1.0], [3.0]], [[3.0], [1.0]]))
    family = prior.collapse().family
    np.testing.assert_allclose([family.alpha, family.beta], np.full((2, 1, 1), 0.75), rtol=1e-12)


def test_collapsed_gaussian_arms_lose_their_correlation_and_linear_ones_keep_it() -> None:
    """Means (1, -1) and (-1, 1): the arms' means are exactly opposite between the components."""
    arms = mixts.GaussianArms([[1.0, -1.0], [-1.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]], 0.3)
    lost = mixts.MixturePrior(arms).collapse()
    np.testing.assert_allclose(lost.family.mean, [[0.0, 0.0]])
    np.testing.assert_allclose(lost.family.variance, [[1.5, 1.5]])
    kept = mixts.MixturePrior(arms.to_linear()).collapse()
    np.testing.assert_allclose(kept.family.covariance, [[[1.5, -1.0], [-1.0, 1.5]]])
    assert kept.family.noise_std == 0.3


def test_collapsed_poisson_arms() -> None:
    """Gamma(2, 1) and Gamma(4, 1), weights 1/4 and 3/4: mean 7/2, variance 7/2 + 3/4."""
    prior = mixts.MixturePrior(mixts.PoissonArms([[2.0], [4.0]], [[1.0], [1.0]]), [0.25, 0.75])
    family = prior.collapse().family
    np.testing.assert_allclose(family.shape / family.rate, 3.5)
    np.testing.assert_allclose(family.shape / family.rate**2, 4.25)


def test_gaussian_arms_are_linear_ones_with_unit_vectors() -> None:
    case = FamilyCase("gaussian")
    prior = mixts.MixturePrior(case.prior.family.to_linear(), weights=case.prior.weights)
    arms, outcomes = case.history(3, 25)
    belief, linear = case.prior.belief(), prior.belief()
    belief.update(arms, outcomes)
    linear.update(np.eye(4)[arms], outcomes)
    np.testing.assert_allclose(belief.log_evidence, linear.log_evidence, rtol=1e-10)
    np.testing.assert_allclose(belief.mean, linear.mean, rtol=1e-10)
    np.testing.assert_allclose(belief.mean_rewards(), linear.mean_rewards(np.eye(4)), rtol=1e-10)
    np.testing.assert_allclose(belief.covariance, linear.covariance, rtol=1e-9, atol=1e-12)


def test_the_standard_priors() -> None:
    arms = mixts.BernoulliArms.uniform(3)
    assert (arms.alpha.tolist(), arms.beta.tolist()) == ([[1.0] * 3], [[1.0] * 3])
    linear = mixts.MixturePrior(mixts.LinearGaussian.standard(3, noise_std=0.5)).belief()
    np.testing.assert_array_equal(linear.mean, np.zeros(3))
    np.testing.assert_array_equal(linear.covariance, np.eye(3))


# -- covariance types ------------------------------------------------------------------------------

DIAGONAL = np.array([[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]])
SAME = {
    "diag": ([[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]], [np.diag(row) for row in DIAGONAL]),
    "spherical": ([0.5, 2.0], [0.5 * np.eye(3), 2 * np.eye(3)]),
    "tied": (np.eye(3) + 0.5, [np.eye(3) + 0.5, np.eye(3) + 0.5]),
}


@pytest.mark.parametrize("kind", SAME)
def test_a_covariance_type_is_a_way_of_writing(kind: str) -> None:
    mean = np.arange(6.0).reshape(2, 3) / 4
    given, full = SAME[kind]
    short = mixts.LinearGaussian(mean, given, 0.4, covariance_type=kind)
    np.testing.assert_array_equal(short.full_covariances(), full)
    rng = np.random.default_rng(0)
    rows, rewards = rng.normal(size=(12, 3)), rng.normal(size=12)
    beliefs = []
    for family in (short, mixts.LinearGaussian(mean, full, 0.4)):
        belief = mixts.MixturePrior(family).belief()
        for row, reward in zip(rows, rewards, strict=True):
            belief.update(row, reward)
        beliefs.append(belief)
    one, other = beliefs
    np.testing.assert_allclose(one.log_evidence, other.log_evidence, rtol=1e-10)
    np.testing.assert_allclose(one.component_mean, other.component_mean, rtol=1e-9)
    np.testing.assert_allclose(
        one.component_covariance, other.component_covariance, rtol=1e-9, atol=1e-12
    )


def test_as_many_components_as_dimensions_is_never_guessed() -> None:
    """With L = d the shapes of diag and tied are the same; only the name tells them apart."""
    square = np.eye(3) + 0.5
    tied = mixts.LinearGaussian(np.zeros((3, 3)), square, 1.0, covariance_type="tied")
    diag = mixts.LinearGaussian(np.zeros((3, 3)), square, 1.0, covariance_type="diag")
    np.testing.assert_array_equal(tied.full_covariances()[0], square)
    np.testing.assert_array_equal(diag.full_covariances()[0], np.diag(square[0]))


# -- files -----------------------------------------------------------------------------------------

WRITTEN = {
    "format": "mixts/prior",
    "version": 1,
    "family": "bernoulli-arms",
    "settings": {},
    "names": ["low", "high"],
    "arm_names": None,
    "retired": [1],
    "arrays": {
        "weights": {"dtype": "float64", "shape": [2], "values": [0.25, 0.75]},
        "alpha": {"dtype": "float64", "shape": [2, 2], "values": [[1.0, 2.0], [3.0, 4.0]]},
        "beta": {"dtype": "float64", "shape": [2, 2], "values": [[4.0, 3.0], [2.0, 1.0]]},
    },
}
"""A file of version 1, as it must be readable for ever."""


def test_a_file_of_version_one(tmp_path: Path) -> None:
    path = tmp_path / "old.prior"
    path.write_text(json.dumps(WRITTEN))
    prior = mixts.MixturePrior.load(path)
    assert prior.names == ("low", "high")
    assert prior.weights.tolist() == [0.25, 0.75]
    assert prior.family.alpha.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert prior.arms.retired.tolist() == [False, True]
    prior.save(tmp_path / "new.json")
    assert json.loads((tmp_path / "new.json").read_text()) == WRITTEN


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("name", ["a.json", "a.npz", "a.anything", "a"])
def test_files_keep_every_bit_whatever_their_suffix(
    case: FamilyCase, name: str, tmp_path: Path
) -> None:
    prior = mixts.MixturePrior(case.prior.family, np.array([0.1, 0.2, 0.7]), names=["ä", "b", "c"])
    prior.save(tmp_path / name)
    (tmp_path / name).rename(tmp_path / "renamed.txt")
    again = mixts.MixturePrior.load(tmp_path / "renamed.txt")
    assert again.names == prior.names
    np.testing.assert_array_equal(again.weights, prior.weights)
    assert again.family.settings() == prior.family.settings()
    for key, value in prior.family.arrays().items():
        np.testing.assert_array_equal(again.family.arrays()[key], value)


def test_a_zip_is_open_to_others(tmp_path: Path) -> None:
    """numpy reads the arrays without mixts, and without pickle."""
    FamilyCase("full").prior.save(tmp_path / "p.npz")
    with zipfile.ZipFile(tmp_path / "p.npz") as archive:
        header = json.loads(archive.read("header.json"))
    assert header["format"] == "mixts/prior"
    assert header["version"] == 1
    with np.load(tmp_path / "p.npz", allow_pickle=False) as arrays:
        assert arrays["mean"].shape == (3, 4)


def test_saving_twice_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a.json", "a.npz"):
        contents = []
        for _ in range(2):
            FamilyCase("poisson").prior.save(tmp_path / name)
            contents.append((tmp_path / name).read_bytes())
        assert contents[0] == contents[1]
        assert [path.name for path in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()


def changed(**header: Any) -> dict[str, Any]:
    return {**WRITTEN, **header}


def arrays(**given: Any) -> dict[str, Any]:
    return changed(arrays={**WRITTEN["arrays"], **given})


DAMAGED = {
    "unknown family": changed(family="quantum-arms"),
    "no family": {k: v for k, v in WRITTEN.items() if k != "family"},
    "no names": {k: v for k, v in WRITTEN.items() if k != "names"},
    "no arrays": {k: v for k, v in WRITTEN.items() if k != "arrays"},
    "names missing": changed(names=["low"]),
    "names of another type": changed(names=7),
    "settings of another family": changed(settings={"noise_std": 1.0}),
    "settings of another type": changed(settings=[1, 2]),
    "retired unknown": changed(retired=[5]),
    "retired of another type": changed(retired=3),
    "array missing": changed(arrays={"weights": WRITTEN["arrays"]["weights"]}),
    "array too many": arrays(gamma=WRITTEN["arrays"]["alpha"]),
    "shape and values differ": arrays(
        alpha={"dtype": "float64", "shape": [2, 3], "values": [[1.0, 2.0], [3.0, 4.0]]}
    ),
    "weights that do not sum to one": arrays(
        weights={"dtype": "float64", "shape": [2], "values": [0.25, 0.7]}
    ),
    "a negative parameter": arrays(
        beta={"dtype": "float64", "shape": [2, 2], "values": [[4.0, 3.0], [2.0, -1.0]]}
    ),
    "objects": arrays(alpha={"dtype": "object", "shape": [2, 2], "values": [[1, 2], [3, 4]]}),
    "no dtype": arrays(alpha={"shape": [2, 2], "values": [[1, 2], [3, 4]]}),
    "not an entry": arrays(alpha=[[1.0, 2.0], [3.0, 4.0]]),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_everything_in_a_file_is_checked_again(name: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(DAMAGED[name]))
    with pytest.raises(errors.FormatError, match=r"damaged\.json"):
        mixts.MixturePrior.load(path)


def test_a_family_that_is_not_imported_is_told_to_be(tmp_path: Path) -> None:
    path, message = tmp_path / "prior.json", "Import the module that defines it first"
    path.write_text(json.dumps(DAMAGED["unknown family"]))
    with pytest.raises(errors.FormatError, match=message):
        mixts.MixturePrior.load(path)
    with pytest.raises(errors.FormatError, match=message):
        mixts.Statistics.from_bundle({"statistics": "quantum-arms"}, {}, "a file")


# -- kinds ----------------------------------------------------------------------------------------


def prior_of_two_kinds() -> mixts.MixturePrior:
    family = mixts.BernoulliArms([[8, 2], [6, 4], [1, 9]], [[2, 8], [4, 6], [9, 1]])
    names, kinds = ["kind 1a", "kind 1b", "kind 2"], ["kind 1", "kind 1", "kind 2"]
    return mixts.MixturePrior(
        family, [0.3, 0.3, 0.4], names, ["a", "b"], kinds=kinds, descriptions=["x", "x", "y"]
    )


def test_what_belongs_to_a_kind_is_summed() -> None:
    prior = prior_of_two_kinds()
    assert prior.kind_names == ("kind 1", "kind 2")
    assert prior.kind_indices == (0, 0, 1)
    np.testing.assert_allclose(prior.sum_by_kind(prior.weights), [0.6, 0.4])
    np.testing.assert_allclose(prior.sum_by_kind(np.eye(3)), [[1, 0], [1, 0], [0, 1]])
    plain = prior.replace(kinds=None)
    assert plain.kind_names == plain.names
    assert plain.replace(names=None).kind_names == ("kind 1", "kind 2", "kind 3")
    np.testing.assert_array_equal(plain.sum_by_kind(prior.weights), prior.weights)
    assert plain.by_kind() is plain


def test_a_kind_has_the_mean_and_the_variance_of_its_components() -> None:
    prior = prior_of_two_kinds()
    found = prior.by_kind()
    assert found.names == ("kind 1", "kind 2")
    assert found.descriptions == ("x", "y")
    assert (found.kinds, found.arm_names) == (None, ("a", "b"))
    np.testing.assert_allclose(found.family.parameter_means(), [[0.7, 0.3], [0.1, 0.9]])
    own = prior.family.parameter_variances()
    # Means 0.8 and 0.6 with equal weights have the variance 0.01.
    np.testing.assert_allclose(
        found.family.parameter_variances(), [own[:2].mean(axis=0) + 0.01, own[2]]
    )
    np.testing.assert_allclose(
        found.weights @ found.family.parameter_means(),
        prior.weights @ prior.family.parameter_means(),
    )


@pytest.mark.parametrize("suffix", ["json", "prior"])
def test_kinds_are_saved(suffix: str, tmp_path: Path) -> None:
    prior = prior_of_two_kinds()
    prior.save(tmp_path / f"prior.{suffix}")
    assert mixts.MixturePrior.load(tmp_path / f"prior.{suffix}").kinds == prior.kinds
    prior.replace(kinds=None).save(tmp_path / "plain.json")
    assert "kinds" not in (tmp_path / "plain.json").read_text()
    assert mixts.MixturePrior.load(tmp_path / "plain.json").kinds is None


def test_kinds_go_with_their_components() -> None:
    prior = prior_of_two_kinds()
    assert prior.select([2, 0]).kinds == ("kind 2", "kind 1")
    assert prior.add_arms(["c"]).retire_arms(["a"]).kinds == prior.kinds
    assert prior.collapse().kinds is None
    assert mixts.learning.robust_prior(prior).kinds == (*(prior.kinds or ()), "other")
    unnamed = prior.replace(names=None)
    assert mixts.learning.robust_prior(unnamed).kind_names == ("kind 1", "kind 2", "other")


@pytest.mark.parametrize("kinds", [["a"], ["a", "b", ""], "abc"])
def test_wrong_kinds_are_refused(kinds: Any) -> None:
    with pytest.raises(errors.ParameterError, match="kinds must be 3 names of kinds"):
        prior_of_two_kinds().replace(kinds=kinds)
