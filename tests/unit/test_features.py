"""Features with names: rows of descriptions, descriptions of rows, errors, and prior files."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.errors import ActionError, FormatError, ParameterError

BRAND = mixts.LevelFeature("brand", ("acme", "bolt", "core"), reference="acme")
FEATURES = mixts.Features([mixts.NumberFeature("price", 2.0, 4.0), BRAND], intercept=True)


def linear(n_features: int, n: int = 2) -> mixts.LinearGaussian:
    mean = np.arange(n * n_features, dtype=float).reshape(n, n_features)
    return mixts.LinearGaussian(mean, np.ones((n, n_features)), 1.0, "diag")


PRIOR = mixts.MixturePrior(linear(4), features=FEATURES)


# -- rows ------------------------------------------------------------------------------------------


def test_a_row_is_the_intercept_the_scaled_numbers_and_the_levels() -> None:
    described = [{"price": 6, "brand": "core"}, {"brand": "acme", "price": 2.0}]
    assert FEATURES.names == ("intercept", "price", "brand=bolt", "brand=core")
    np.testing.assert_array_equal(FEATURES.rows(described), [[1, 1, 0, 1], [1, 0, 0, 0]])
    np.testing.assert_array_equal(FEATURES.row(described[0]), [1, 1, 0, 1])


def test_without_a_reference_every_level_has_a_number() -> None:
    features = mixts.Features([mixts.LevelFeature("size", ("s", "m")), "weight"])
    assert features.names == ("size=s", "size=m", "weight")
    np.testing.assert_array_equal(features.rows([{"size": "m", "weight": True}]), [[0, 1, 1]])


def test_other_levels_share_a_number_if_they_may() -> None:
    features = mixts.Features([mixts.LevelFeature("size", ("s", "rest"), other="rest")])
    rows = features.rows([{"size": "xl"}, {"size": "rest"}, {"size": "s"}])
    np.testing.assert_array_equal(rows, [[0, 1], [0, 1], [1, 0]])
    assert features.descriptions(rows)[0] == {"size": "rest"}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"brand": "acme"}, "action 1: feature 'price' is missing: it must be a finite number"),
        ({"price": 1.0}, "feature 'brand' is missing: it must be one of the levels 'acme'"),
        ({"price": "1", "brand": "acme"}, "'price' must be a finite number, got '1'"),
        ({"price": None, "brand": "acme"}, "'price' must be a finite number, got None"),
        ({"price": float("nan"), "brand": "acme"}, "'price' must be a finite number, got nan"),
        ({"price": float("inf"), "brand": "acme"}, "'price' must be a finite number, got inf"),
        ({"price": 1, "brand": "dent"}, "got 'dent'; learn the prior again to add a level"),
        ({"price": 1, "brand": 3}, "'brand' must be one of the levels 'acme', 'bolt', 'core', got"),
        ({"price": 1, "brand": "acme", "age": 3}, "unknown feature 'age': leave it out; features:"),
        ([1.0, 0.0], "must be a description such as {'price': 1.0, 'brand': 'acme'}, got"),
    ],
)
def test_wrong_descriptions_are_refused(description: Any, message: str) -> None:
    with pytest.raises(ActionError, match="action 1") as raised:
        FEATURES.rows([{"price": 1, "brand": "acme"}, description])
    assert message in str(raised.value)


def test_rows_that_no_description_has_are_refused() -> None:
    for row in ([1, 0, 1, 1], [1, 0, 0.5, 0], [0, 0, 1, 0], [1, np.inf, 0, 0]):
        with pytest.raises(ActionError, match="row 0 is no row of these features"):
            FEATURES.descriptions([row])
    with pytest.raises(ActionError, match=r"shape \(K, 4\), got shape \(2,\)"):
        FEATURES.descriptions([1.0, 2.0])


# -- learned ranges --------------------------------------------------------------------------------

EUROS = mixts.Features([mixts.NumberFeature("price", 2.0, 4.0, (1.0, 9.0)), "age"], intercept=True)


def test_values_far_outside_the_learned_range_are_refused() -> None:
    """A price in cents where euros were learned."""
    near = [{"price": price, "age": 1e6} for price in (-90.0, 0.0, 0.01, 20, 90)]
    assert EUROS.rows(near).shape == (5, 3)
    said = "action 1: feature 'price' must be about as large as what the prior was learned from, "
    for price in (499.0, -91):
        with pytest.raises(ActionError, match=said) as raised:
            EUROS.rows([near[0], {"price": price, "age": 1.0}])
        assert f"from 1 to 9, got {price:g}: is it in the same unit?" in str(raised.value)
    with pytest.raises(ActionError, match="'price' must be about as large"):
        EUROS.row({"price": 499.0, "age": 1.0})
    rows = EUROS.rows(near)
    EUROS.check_ranges(rows)
    rows[3, 1] = (499.0 - 2.0) / 4.0
    with pytest.raises(ActionError, match="action 3: feature 'price' must be about as large"):
        EUROS.check_ranges(rows)


def test_a_feature_that_was_always_zero_has_no_size() -> None:
    features = mixts.Features([mixts.NumberFeature("sale", learned=(0.0, 0.0))])
    assert features.rows([{"sale": 5.0}]).tolist() == [[5.0]]


def test_the_example_is_no_refused_value() -> None:
    small = mixts.NumberFeature("rate", learned=(-0.002, 0.001))
    features = mixts.Features([small, "price", BRAND])
    assert features.example() == {"rate": 0.001, "price": 1.0, "brand": "acme"}
    features.rows([features.example()])


def test_ranges_are_saved_but_features_are_the_same_without_them() -> None:
    prior = mixts.MixturePrior(linear(3), features=EUROS)
    header, arrays = prior.bundle()
    found = mixts.MixturePrior.from_bundle(header, arrays).features
    assert found is not None
    assert found.columns[0].learned == (1.0, 9.0)
    # A file of an earlier version has no range; its prior can still be replaced.
    del header["features"]["columns"][0]["learned"]
    older = mixts.MixturePrior.from_bundle(header, arrays).features
    assert older == EUROS
    assert older.columns[0].learned is None
    assert "learned" not in header["features"]["columns"][1]


# -- what features may be --------------------------------------------------------------------------


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mixts.Features([]), "at least one"),
        (lambda: mixts.Features("price"), "a list of features"),
        (lambda: mixts.Features(["a", "a"]), "must differ, got 'a' twice"),
        (lambda: mixts.Features(["intercept"], intercept=True), "'intercept' twice"),
        (lambda: mixts.Features(["b=x", mixts.LevelFeature("b", ("x",))]), "'b=x' twice"),
        (lambda: mixts.Features([3]), "got int"),
        (lambda: mixts.Features(["a"], intercept=1), "intercept must be true or false"),
        (lambda: mixts.NumberFeature(""), "name of a feature must be a text"),
        (lambda: mixts.NumberFeature("a", scale=0.0), "scale of feature 'a'"),
        (lambda: mixts.NumberFeature("a", centre=float("nan")), "centre of feature 'a'"),
        (lambda: mixts.NumberFeature("a", learned=(3.0, 1.0)), "learned range of feature 'a'"),
        (lambda: mixts.NumberFeature("a", learned=(0.0,)), "learned range of feature 'a'"),
        (lambda: mixts.NumberFeature("a", learned=("0", 1)), "learned range of feature 'a'"),
        (lambda: mixts.LevelFeature("a", ()), "at least 1"),
        (lambda: mixts.LevelFeature("a", ("x",), reference="x"), "at least 2"),
        (lambda: mixts.LevelFeature("a", ("x", "x")), "must be distinct"),
        (lambda: mixts.LevelFeature("a", "xy"), "must be a sequence of strings"),
        (lambda: mixts.LevelFeature("a", ("x", "y"), reference="z"), "got 'z'"),
        (lambda: mixts.LevelFeature("a", ("x", "y"), other="z"), "other of feature 'a'"),
    ],
)
def test_impossible_features_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(message)):
        make()


def test_the_scaling_turns_unscaled_rows_into_rows() -> None:
    plain = mixts.Features(["price", BRAND], intercept=True)
    described = [{"price": 7.5, "brand": "bolt"}, {"price": -3.0, "brand": "acme"}]
    expected = plain.rows(described) @ FEATURES.scaling().T
    np.testing.assert_allclose(FEATURES.rows(described), expected, rtol=1e-14)
    levels = mixts.LevelFeature("size", ("s", "m"))
    scaled = mixts.Features([levels, mixts.NumberFeature("x", 5.0, 2.0)])
    unscaled = mixts.Features([levels, "x"])
    described = [{"size": "m", "x": 3.0}]
    expected = unscaled.rows(described) @ scaled.scaling().T
    np.testing.assert_allclose(scaled.rows(described), expected, rtol=1e-14)


# -- priors ----------------------------------------------------------------------------------------


def test_a_prior_keeps_its_features(tmp_path: Any) -> None:
    for suffix in ("json", "prior"):
        PRIOR.save(tmp_path / f"p.{suffix}")
        assert mixts.MixturePrior.load(tmp_path / f"p.{suffix}").features == FEATURES
    belief = PRIOR.belief()
    for other in (PRIOR.collapse(), PRIOR.select([1]), belief.as_prior()):
        assert other.features == FEATURES
    agent = mixts.MixTS(PRIOR, seed=1)
    agent.save(tmp_path / "agent.json")
    assert mixts.MixTS.load(tmp_path / "agent.json").prior.features == FEATURES


def test_files_without_features_load_and_stay_the_same() -> None:
    prior = mixts.MixturePrior(linear(4))
    header, arrays = prior.bundle()
    assert "features" not in header
    assert mixts.MixturePrior.from_bundle(header, arrays).features is None


@pytest.mark.parametrize(
    "change", [{"kind": "spline"}, {"scale": -1.0}, {"levels": 3}, {"colour": "red"}]
)
def test_damaged_features_in_a_file_are_refused(change: dict[str, Any]) -> None:
    header, arrays = PRIOR.bundle()
    header["features"]["columns"][0] |= change
    with pytest.raises(FormatError, match="damaged"):
        mixts.MixturePrior.from_bundle(header, arrays)


@pytest.mark.usefixtures("unchecked")
def test_features_must_fit_the_family() -> None:
    with pytest.raises(ParameterError, match=r"rows of 3 numbers .* got 4: intercept, price"):
        mixts.MixturePrior(linear(3), features=FEATURES)
    with pytest.raises(ParameterError, match="need a linear family"):
        mixts.MixturePrior(mixts.BernoulliArms.uniform(4), features=FEATURES)
    with pytest.raises(ParameterError, match=r"must be a mixts.Features, got list"):
        mixts.MixturePrior(linear(2), features=["a", "b"])  # type: ignore[arg-type]


def test_descriptions_need_a_prior_that_names_features() -> None:
    agent = mixts.MixTS(mixts.MixturePrior(linear(4)), seed=1)
    with pytest.raises(ActionError, match="does not name its features"):
        agent.act([{"price": 1.0}])
    with pytest.raises(ActionError, match="does not name its features"):
        agent.update({"price": 1.0}, 1.0)


def test_sets_of_different_sizes_are_refused() -> None:
    agent = mixts.MixTS(PRIOR, n_tasks=2, seed=1)
    one = {"price": 1.0, "brand": "acme"}
    with pytest.raises(ActionError, match=r"equally many actions, got \[1, 2\]"):
        agent.act([[one], [one, one]])
