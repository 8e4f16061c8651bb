"""Pooled effects in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts.pages import effects_of
from mixts.pages.effects import usual_words

ITEM = mixts.LevelFeature("item", ("book", "film", "game"))
AGE = mixts.NumberFeature("age", 40, 12.5)


def prior_of(family: Any, **changes: Any) -> mixts.MixturePrior:
    given: dict[str, Any] = {
        "means": [0.6, 0.3, 0.1, 0],
        "coefficients": [0.02, 0.9, -0.9, 0.0],
        "sizes": [0.02, 0.4],
        **changes,
    }
    pooled = mixts.Pooled([ITEM, AGE], [("age",), ("age", "item")], ["age"], **given)
    return mixts.MixturePrior(family.with_offset(), features=mixts.Features([ITEM], pooled=pooled))


CLICKS = mixts.LinearBernoulli(np.zeros((1, 3)), np.ones((1, 3)), "diag")
REWARDS = mixts.LinearGaussian(np.zeros((1, 3)), np.ones((1, 3)), 1.0, "diag")


def test_the_largest_effect_comes_first_and_a_frequent_level_before_a_rare_one() -> None:
    first, second = effects_of(prior_of(CLICKS))
    assert (first.name, first.usual) == ("age x item", "multiplies or divides the odds by 1.5")
    assert first.strongest == (
        "12.5 more of `age` and `item=book`: multiplies the odds by 2.5",
        "12.5 more of `age` and `item=film`: divides the odds by 2.5",
    )
    assert (second.name, second.usual, second.strongest) == ("age", "hardly changes the odds", ())


def test_effects_on_rewards_are_added() -> None:
    first, second = effects_of(prior_of(REWARDS))
    assert first.usual == "adds or subtracts 0.400"
    assert first.strongest[1] == "12.5 more of `age` and `item=film`: subtracts 0.900"
    assert second.strongest == ("12.5 more of `age`: adds 0.020",)
    assert usual_words(0.0, odds=False) == "adds nothing"
    assert usual_words(0.7, odds=True) == "doubles or halves the odds"


def test_effects_that_were_not_learned_from_logs_have_no_usual_size() -> None:
    by_hand = prior_of(CLICKS, sizes=None, means=None)
    assert [one.usual for one in effects_of(by_hand)] == ["not known", "not known"]
    assert len(effects_of(by_hand)[1].strongest) == 2


def test_priors_without_effects_have_none() -> None:
    assert effects_of(mixts.MixturePrior(CLICKS)) == ()
    assert effects_of(mixts.MixturePrior(mixts.BernoulliArms.uniform(2))) == ()


@pytest.mark.parametrize("sizes", [[0.1], [0.1, -0.1], [0.1, np.nan]])
def test_sizes_are_one_for_each_term(sizes: Any) -> None:
    with pytest.raises(mixts.errors.ParameterError, match="sizes"):
        prior_of(CLICKS, sizes=sizes)


def test_sizes_are_saved(tmp_path: Any) -> None:
    prior = prior_of(CLICKS)
    prior.save(tmp_path / "prior.json")
    again = mixts.MixturePrior.load(tmp_path / "prior.json")
    assert effects_of(again) == effects_of(prior)
