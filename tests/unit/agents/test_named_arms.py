"""Arms by the names that the prior gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors

NAMES = ["mail", "call", "visit"]
FAMILY = mixts.BernoulliArms([[8.0, 2.0, 1.0], [2.0, 8.0, 1.0]], [[2.0, 8.0, 1.0], [8.0, 2.0, 1.0]])
NAMED = mixts.MixturePrior(FAMILY, arm_names=NAMES)
STRINGS: list[Any] = [["visit", "mail"], np.array(["visit", "mail"]), ("visit", "mail")]


@pytest.mark.parametrize("given", STRINGS, ids=["list", "array", "tuple"])
def test_names_are_indices(given: Any) -> None:
    by_name, by_index = NAMED.belief(), NAMED.belief()
    by_name.update(given, [1, 0])
    by_index.update([2, 0], [1, 0])
    assert by_name.statistics == by_index.statistics
    by_name.update("call", 1)
    by_index.update(1, 1)
    assert by_name.statistics == by_index.statistics


def test_agents_take_names() -> None:
    agent = mixts.MixTS(NAMED, n_tasks=2, seed=0)
    agent.update(["mail", "visit", "visit"], [1, 0, 1], tasks=[0, 1, 1])
    assert agent.belief.statistics.successes.tolist() == [[1, 0, 0], [0, 0, 1]]  # type: ignore[attr-defined]
    voting = mixts.CorralExp4(NAMED, 100, seed=0)
    voting.update(NAMES[voting.act()], 1)
    assert voting.belief.statistics.n_observations == 1


@pytest.mark.parametrize("wrong", ["post", ["mail", "post"]])
def test_unknown_names_are_refused_with_the_known_ones(wrong: Any) -> None:
    belief = NAMED.belief()
    with pytest.raises(errors.ActionError, match="'post'; known arms: 'mail', 'call', 'visit'"):
        belief.update(wrong, [1] * len(wrong) if isinstance(wrong, list) else 1)
    assert belief.statistics.n_observations == 0


def test_a_message_does_not_list_hundreds_of_names() -> None:
    many = mixts.MixturePrior(
        mixts.BernoulliArms.uniform(100), arm_names=[f"arm {k}" for k in range(100)]
    )
    with pytest.raises(errors.ActionError, match="'arm 19' and 80 more"):
        many.belief().update("arm 100", 1)


def test_without_names_names_are_refused() -> None:
    with pytest.raises(errors.ActionError, match="arm indices"):
        mixts.MixturePrior(FAMILY).belief().update("mail", 1)


def test_mixed_lists_are_refused() -> None:
    with pytest.raises(errors.ActionError):
        NAMED.belief().update(["mail", 1], [1, 1])
