from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from mixts.bridges.gym import EpisodePlayer, Numbering, tabular_model
from mixts.errors import ObservationError, ParameterError
from tests.unit.bridges.gym.worlds import Walk

SPACES = {
    "discrete": (spaces.Discrete(5), [0, 1, 2, 3, 4]),
    "started": (spaces.Discrete(3, start=-1), [-1, 0, 1]),
    "several": (spaces.MultiDiscrete([2, 3]), list(product(range(2), range(3)))),
    "shifted": (
        spaces.MultiDiscrete([2, 2], start=[4, -1]),
        list(product((4, 5), (-1, 0))),
    ),
    "grid": (
        spaces.MultiDiscrete([[1, 2], [2, 1]]),
        [[[0, a], [b, 0]] for a, b in product(range(2), range(2))],
    ),
    "tuple": (
        spaces.Tuple([spaces.Discrete(2, start=1), spaces.Discrete(3)]),
        list(product((1, 2), range(3))),
    ),
    "nested": (
        spaces.Tuple([spaces.MultiDiscrete([2, 1]), spaces.Tuple([spaces.Discrete(2)])]),
        [(np.array([a, 0]), (b,)) for a, b in product(range(2), range(2))],
    ),
}


@pytest.mark.parametrize("name", SPACES)
def test_elements_are_numbered_with_the_last_entry_fastest(name: str) -> None:
    space, elements = SPACES[name]
    numbering = Numbering(space)
    assert numbering.size == len(elements)
    for index, element in enumerate(elements):
        made = numbering.element(index)
        assert made in space
        assert str(made) == str(element) or np.array_equal(made, element)
        assert numbering.index(made) == index
        assert numbering.index(element) == index
    for _ in range(20):
        sample = space.sample()
        assert 0 <= numbering.index(sample) < numbering.size


@pytest.mark.parametrize(
    ("name", "element"),
    [
        ("discrete", 5),
        ("discrete", -1),
        ("discrete", 1.0),
        ("discrete", (1,)),
        ("started", 2),
        ("several", [2, 0]),
        ("several", [0, 0, 0]),
        ("several", [0.0, 1.0]),
        ("shifted", [0, 0]),
        ("grid", [0, 1, 1, 0]),
        ("tuple", (1,)),
        ("tuple", (0, 0)),
        ("tuple", 1),
    ],
)
def test_what_is_not_in_the_space_has_no_number(name: str, element: Any) -> None:
    with pytest.raises(ObservationError, match="expected an element of the given space"):
        Numbering(SPACES[name][0]).index(element)


def test_numbers_beyond_the_space_have_no_element() -> None:
    for bad in (-1, 5):
        with pytest.raises(ParameterError, match="from 0 to 4"):
            Numbering(SPACES["discrete"][0]).element(bad)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0.0, 1.0),
        spaces.Dict({"a": spaces.Discrete(2)}),
        spaces.Tuple([spaces.Discrete(2), spaces.Box(0.0, 1.0)]),
    ],
    ids=lambda space: type(space).__name__,
)
def test_other_spaces_are_refused(space: Any) -> None:
    env = Walk()
    env.action_space = space
    with pytest.raises(ParameterError, match=r"the action space must be discrete .* got "):
        EpisodePlayer(env, 3)
    env = Walk()
    env.observation_space = space
    with pytest.raises(ParameterError, match="the observation space must be discrete"):
        tabular_model(env, 3)
