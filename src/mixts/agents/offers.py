"""What an agent is asked to decide: tasks, actions, masks, money; and checks of the last two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ActionError, MaskError, ParameterError
from mixts.families._kernels.roots import LARGEST
from mixts.families.base import Waiting
from mixts.families.quadrature import Money
from mixts.prior import MixturePrior


class Request(NamedTuple):
    """The checked arguments of m decisions."""

    tasks: Int[Array, " m"]
    """Task of each decision."""
    actions: Array | None
    """Action sets; None for arms."""
    mask: Bool[Array, "m K"]
    """Available actions."""
    waiting: Waiting | None = None
    """Decisions whose rewards have not come."""
    money: Money | None = None
    """Values and costs of the actions; None: maximise the reward itself."""

    @property
    def silent(self) -> bool:
        """Whether decisions wait for clicks, so that their silence is evidence."""
        return self.waiting is not None and self.waiting.arrived is not None

    def repeated(self, n: int) -> Request:
        """Return each decision among arms n times, each about a task of its own; none waits."""
        money = self.money and Money(*(np.repeat(x, n, axis=0) for x in self.money))
        every = np.arange(n * len(self.tasks))
        return Request(every, None, np.repeat(self.mask, n, axis=0), None, money)

    def among(self, used: Int[Array, " k"]) -> Request:
        """Return the same decisions among some of the actions."""
        sets = None if self.actions is None else self.actions[..., used, :]
        money = None if self.money is None else Money(*(x[:, used] for x in self.money))
        return self._replace(actions=sets, mask=self.mask[:, used], money=money)


def checked_money(
    values: Any,
    costs: Any,
    mask: Bool[Array, "m K"],
    prior: MixturePrior,
    names: Sequence[str] | None = None,
) -> Money | None:
    """Return values and costs of every action of each decision; None if neither is given.

    Parameters
    ----------
    values, costs
        Numbers (K,) or (m, K), or a dictionary by arm name; None: 1 and 0.
    mask
        Available actions. The numbers of the others are ignored.
    prior
        The prior, which knows the names of arms.
    names
        Other names of the actions, such as ids; None: those of the arms.
    """
    if values is None and costs is None:
        return None
    if prior.family.plans:
        raise ParameterError(
            "a policy is planned for the rewards themselves: leave values and costs out"
        )
    names = prior.arm_names if names is None else names
    return Money(
        _amounts(values, 1.0, "values", mask, names), _amounts(costs, 0.0, "costs", mask, names)
    )


def _amounts(
    given: Any, default: float, name: str, mask: Bool[Array, "m K"], names: Sequence[str] | None
) -> Float[Array, "m K"]:
    if given is None:
        return np.full(mask.shape, default)
    if isinstance(given, Mapping):
        given = _by_arm(given, name, mask, names)
    expected = f"{name} must be numbers, one for each action"
    array = _checks.numbers(given, expected, ParameterError)
    if array.shape not in (mask.shape[1:], mask.shape):
        raise ParameterError(
            f"{name} must have shape {mask.shape[1:]} or {mask.shape}, got {array.shape}"
        ).at(name)
    array = np.broadcast_to(array, mask.shape)
    bad = mask & ~(np.abs(array) <= LARGEST)
    if bad.any():
        row, action = (int(i) for i in np.argwhere(bad)[0])
        raise ParameterError(
            f"{name} must be finite numbers, up to {LARGEST:g} in size, got {array[row, action]} "
            f"for action {action}"
        ).at(name)
    return np.where(mask, array, default)


def _by_arm(
    given: Mapping[Any, Any], name: str, mask: Bool[Array, "m K"], names: Sequence[str] | None
) -> list[Any]:
    """Return the numbers of a dictionary in the order of the arms; every available arm has one."""
    if names is None:
        said = f"{name} by name need a prior with arm_names: give a list of numbers"
        raise ParameterError(said).at(name)
    known = set(names)
    unknown = [arm for arm in given if arm not in known]
    if unknown:
        raise ParameterError(f"{name}: unknown arms {unknown}; arms: {list(names)}").at(name)
    offered = [names[k] for k in np.flatnonzero(mask.any(axis=0)).tolist()]
    missing = [arm for arm in offered if arm not in given]
    if missing:
        raise ParameterError(f"{name} must name every available arm; missing: {missing}").at(name)
    return [given.get(arm, 0.0) for arm in names]


def checked_top(top: Any, mask: Bool[Array, "m K"]) -> int:
    """Return the length of the ranking; every decision needs as many available actions."""
    try:
        k = _checks.count(top, "top")
    except ParameterError as error:
        raise error.at("top") from None
    available = mask.sum(axis=1)
    short = available < k
    if short.any():
        row = int(short.argmax())
        raise ActionError(
            f"top is {k}, but decision {row} has {int(available[row])} available actions: "
            "offer more actions, or ask for fewer"
        ).at("top")
    return k


def with_names(prior: MixturePrior, mask: ArrayLike) -> ArrayLike:
    """Return a mask; a list of arm names becomes a mask of these arms."""
    named = isinstance(mask, (list, tuple)) and len(mask) > 0 and isinstance(mask[0], str)
    if not named and not (isinstance(mask, np.ndarray) and mask.dtype.kind in "UT"):
        return mask
    if prior.arm_names is None:
        raise MaskError("a mask of names needs a prior with arm_names: give true and false")
    flat = np.zeros(len(prior.arm_names), bool)
    try:
        flat[prior.arm_indices(mask)] = True
    except (ActionError, IndexError, ValueError) as error:
        raise MaskError(f"mask must be arm names, or true and false: {error}") from None
    return flat
