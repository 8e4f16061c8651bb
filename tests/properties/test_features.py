"""Rows of descriptions, and descriptions of rows: each is the other's inverse."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import mixts

numbers = st.floats(-1e6, 1e6)
texts = st.text(max_size=8)
SMALLEST = np.finfo(float).smallest_subnormal


Case = tuple[list[dict[str, Any]], bool, list[dict[str, Any]]]
"""Arguments of the columns, whether there is an intercept, and descriptions of actions."""


@st.composite
def columns(draw: Any, name: str) -> dict[str, Any]:
    if draw(st.booleans()):
        return {"name": name, "centre": draw(numbers), "scale": draw(st.floats(1e-3, 1e6))}
    levels = draw(st.lists(texts, min_size=2, max_size=5, unique=True))
    some = st.none() | st.sampled_from(levels)
    return {"name": name, "levels": tuple(levels), "reference": draw(some), "other": draw(some)}


@st.composite
def described(draw: Any) -> Case:
    names = draw(st.lists(st.text("abc", min_size=1, max_size=4), max_size=4, unique=True))
    made = [draw(columns(name)) for name in names]
    values = {c["name"]: st.sampled_from(c["levels"]) if "levels" in c else numbers for c in made}
    actions = draw(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=4))
    return made, not made or draw(st.booleans()), actions


def features_of(case: Case) -> mixts.Features:
    made, intercept, _ = case
    kinds = (mixts.NumberFeature, mixts.LevelFeature)
    return mixts.Features([kinds["levels" in c](**c) for c in made], intercept)


@given(described())
@example(([{"name": "a", "centre": 2.2250738585e-313, "scale": 4.0}], False, [{"a": 0.0}]))
def test_descriptions_of_rows_are_the_descriptions(case: Case) -> None:
    features, actions = features_of(case), case[-1]
    rows = features.rows(actions)
    assert rows.shape == (len(actions), features.n_numbers) == (len(actions), len(features.names))
    for found, action in zip(features.descriptions(rows), actions, strict=True):
        assert found.keys() == action.keys()
        for column in features.columns:
            one, other = found[column.name], action[column.name]
            if isinstance(column, mixts.NumberFeature):
                # x = centre + scale * row: rounding of the larger of both, and of a row below the
                # normal numbers, which is a multiple of the smallest one.
                error = 4e-16 * (abs(other) + abs(column.centre)) + column.scale * SMALLEST
                np.testing.assert_allclose(float(one), other, rtol=1e-15, atol=error)
            else:
                assert one == other


@given(described())
def test_features_survive_a_file(case: Case) -> None:
    features, actions = features_of(case), case[-1]
    family = mixts.LinearGaussian.standard(features.n_numbers, 1.0)
    prior = mixts.MixturePrior(family, features=features)
    again = mixts.MixturePrior.from_bytes(prior.to_bytes())
    assert again.features == features
    np.testing.assert_array_equal(again.features.rows(actions), features.rows(actions))
