"""What is asked of decisions, checked once (``Offer``), and what an agent answers (``Choice``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from mixts import _checks
from mixts._numbers import LARGEST
from mixts._typing import ActionsLike, Array, ArrayLike, Bool, Float, Int
from mixts.errors import ActionError, MaskError, ParameterError
from mixts.families.base import Waiting
from mixts.families.choice import draw_rows
from mixts.families.marginals import Money
from mixts.prior import MixturePrior

Rankings = tuple[Array, Array, Array]
"""Ranked actions (m, k), the probability that each action is among them (m, K), and its error."""


class NewShare(NamedTuple):
    """Smallest and largest probability of all new arms together."""

    least: float = 0.0
    most: float = 1.0

    def __str__(self) -> str:
        return f"{self.least:g}-{self.most:g}" if self.least else f"{self.most:g}"

    @classmethod
    def checked(cls, given: Any) -> NewShare:
        """Return the share that one number, the largest, or a pair of numbers means."""
        pair = given if isinstance(given, (tuple, list)) else (0.0, given)
        numbers = all(
            isinstance(x, (int, float, np.number)) and not isinstance(x, bool) for x in pair
        )
        if len(pair) != 2 or not numbers or not 0 <= pair[0] <= pair[1] <= 1:
            raise ParameterError(
                "the share of new arms must be between 0 and 1, or a pair of such numbers with the "
                f"smaller one first, got {given!r}"
            )
        return cls(float(pair[0]), float(pair[1]))

    def apply(
        self,
        probabilities: Float[Array, "m K"],
        available: Bool[Array, "m K"],
        new: Bool[Array, " k"],
    ) -> Float[Array, "m K"]:
        """Return probabilities in which new arms together have a share within the limits.

        What they lack is added to the available new arms evenly; of what they have too much, each
        loses the same part. The other arms share the rest in proportion, or evenly if they had
        nothing. Decisions in which only new arms, or none, are available keep their probabilities.
        """
        if not new.any():
            return probabilities
        fresh, old = available & new, available & ~new
        taken = np.where(fresh, probabilities, 0.0).sum(axis=1, keepdims=True)
        wanted = np.clip(taken, self.least, self.most)
        both = fresh.any(axis=1, keepdims=True) & old.any(axis=1, keepdims=True)
        changed = both & (wanted != taken)
        if not changed.any():
            return probabilities
        part = np.where(
            wanted > taken,
            probabilities + (wanted - taken) / np.maximum(fresh.sum(axis=1, keepdims=True), 1),
            probabilities * (wanted / np.where(taken > 0, taken, 1.0)),
        )
        rest = np.where(old & (taken < 1), probabilities, 0.0)
        rest = np.where(rest.sum(axis=1, keepdims=True) > 0, rest, old)
        rest = rest / np.maximum(rest.sum(axis=1, keepdims=True), 1e-300)
        return np.where(changed, np.where(fresh, part, 0.0) + (1 - wanted) * rest, probabilities)

    def apply_to_rankings(
        self,
        rng: np.random.Generator,
        rank: Callable[[Bool[Array, "m K"], int], Rankings],
        available: Bool[Array, "m K"],
        new: Bool[Array, " k"],
        k: int,
    ) -> Rankings:
        """Rank k actions such that a share of the rankings within the limits has new arms.

        In the smallest share of the rankings, the last place goes to a new arm that is drawn
        evenly, and the others to known arms. Without enough known arms nothing is limited.

        Parameters
        ----------
        rng
            Draws which rankings may have new arms.
        rank
            Ranks that many of the available actions.
        available
            Available actions.
        new
            New arms.
        k
            Number of actions to rank.
        """
        old, fresh = available & ~new, available & new
        rows = (old.sum(axis=1) >= k) & fresh.any(axis=1)
        if not rows.any() or (self.least == 0 and self.most == 1):
            return rank(available, k)
        known = np.where(rows[:, None], old, available)
        trial, free = np.where(rows, self.least, 0.0), np.where(rows, self.most, 1.0)
        parts = [(free - trial, rank(available, k)), (1 - free, rank(known, k))]
        if self.least > 0:
            others = rank(known, k - 1) if k > 1 else _nothing(available)
            parts.append((trial, _with_one_new(rng, others, np.where(rows[:, None], fresh, known))))
        shares = np.stack([share for share, _ in parts], axis=1)
        drawn = draw_rows(rng, shares)
        chosen = np.stack([rankings[0] for _, rankings in parts])[drawn, np.arange(len(rows))]
        probabilities, error = (
            sum(share[:, None] * rankings[i] for share, rankings in parts) for i in (1, 2)
        )
        return chosen, np.asarray(probabilities), np.asarray(error)


def _nothing(available: Bool[Array, "m K"]) -> Rankings:
    """Return rankings of no actions."""
    zeros = np.zeros(available.shape)
    return np.zeros((len(available), 0), np.int64), zeros, zeros


def _with_one_new(
    rng: np.random.Generator, rankings: Rankings, fresh: Bool[Array, "m K"]
) -> Rankings:
    """Return rankings with one new arm, drawn evenly, in the last place."""
    ranked, probabilities, error = rankings
    even = fresh / fresh.sum(axis=1, keepdims=True)
    return np.column_stack([ranked, draw_rows(rng, even)]), probabilities + even, error


class Choice(NamedTuple):
    """What an agent chose in m decisions, ready to be logged."""

    actions: Int[Array, "m ..."]
    """Action of each decision, (m,); with ``top``, the ranked actions, (m, top)."""
    probabilities: Float[Array, "m K"]
    """Probability of each action; with ``top``, of being among the ranked actions."""
    standard_errors: Float[Array, "m K"]
    """Standard errors of the probabilities; 0 where these are exact."""


class Offer(NamedTuple):
    """The checked terms of m decisions among K actions.

    ``Agent.offer`` makes one. A caller without an agent starts with :meth:`of` and adds the rest by
    the methods ``with_...``, each of which checks what it adds.
    """

    tasks: Int[Array, " m"]
    """Task of each decision."""
    n_actions: int
    """Number of actions K, available or not."""
    actions: Array | None = None
    """Action sets, (K, d) or (m, K, d); None for arms and MDPs."""
    mask: Bool[Array, "m K"] | None = None
    """Available actions; None: all are."""
    waiting: Waiting | None = None
    """Decisions whose rewards have not come."""
    money: Money | None = None
    """Values and costs of the actions; None: maximise the reward itself."""
    top: int | None = None
    """Number of actions to rank; None for one action."""
    floor: float = 0.0
    """Least probability of every available action."""
    explore: float = 0.0
    """Share of the decisions that is drawn evenly among the available actions: a floor that
    depends on their number. A caller gives one of the two."""
    new_share: NewShare | None = None
    """Smallest and largest probability of all new arms together; None: no limit."""

    @classmethod
    def of(
        cls,
        prior: MixturePrior,
        tasks: Int[Array, " m"],
        actions: ActionsLike | None = None,
        mask: ArrayLike | None = None,
    ) -> Self:
        """Return an offer of checked actions; retired arms are not available.

        Parameters
        ----------
        prior
            Prior of the tasks.
        tasks
            Checked indices of the tasks, one for each decision.
        actions, mask
            As in ``Agent.act``.
        """
        rows = None if actions is None else prior.action_rows(actions)
        sets, n_actions = prior.family.action_sets(rows, len(tasks))
        if mask is None and not prior.arms.has_retired:
            return cls(tasks, n_actions, sets)
        if prior.family.plans:
            raise MaskError("a policy is planned over all actions: leave mask out")
        shape = len(tasks), n_actions
        available = np.ones(shape, bool) if mask is None else _named_mask(prior, mask, *shape)
        if prior.arms.has_retired:
            available = available & ~prior.arms.retired
            if not available.any(axis=1).all():
                raise MaskError("mask leaves no action: all that it allows are retired")
        return cls(tasks, n_actions, sets, available)

    @property
    def available(self) -> Bool[Array, "m K"]:
        """The mask, also if all actions are available."""
        if self.mask is not None:
            return self.mask
        return np.ones((len(self.tasks), self.n_actions), bool)

    @property
    def is_plain(self) -> bool:
        """Whether one action of the highest mean reward is wanted, and nothing limits its choice.

        Waiting decisions do not count.
        """
        limited = self.draws_evenly or self.new_share is not None
        return self.money is None and self.top is None and not limited

    @property
    def draws_evenly(self) -> bool:
        """Whether some decisions are drawn evenly among the available actions."""
        return self.floor > 0 or self.explore > 0

    @property
    def drawn_evenly(self) -> tuple[Float[Array, "m 1"], Float[Array, "m 1"]]:
        """The least probability of an available action, and the sum over these, by decision."""
        n_available = self.available.sum(axis=1, keepdims=True)
        return self.floor + self.explore / n_available, self.explore + self.floor * n_available

    def with_money(
        self,
        prior: MixturePrior,
        values: Any,
        costs: Any,
        names: Sequence[str] | None = None,
    ) -> Self:
        """Return the offer with values and costs of every action.

        Parameters
        ----------
        prior
            The prior, which knows the names of arms.
        values, costs
            Numbers (K,) or (m, K), or a dictionary by arm name; None: 1 and 0. Numbers of actions
            that are not available are ignored.
        names
            Other names of the actions, such as ids; None: those of the arms.
        """
        if values is None and costs is None:
            return self
        if prior.family.plans:
            raise ParameterError(
                "a policy is planned for the rewards themselves: leave values and costs out"
            )
        names, mask = prior.arm_names if names is None else names, self.available
        money = Money(
            _amounts(values, 1.0, "values", mask, names), _amounts(costs, 0.0, "costs", mask, names)
        )
        return self._replace(money=money)

    def with_top(self, prior: MixturePrior, top: Any) -> Self:
        """Return the offer of a ranking; every decision needs as many available actions.

        Parameters
        ----------
        prior
            Prior of the tasks.
        top
            Number of actions to rank; None for one action.
        """
        if top is None:
            return self
        if prior.family.plans:
            raise ParameterError("a policy is planned for whole episodes: leave top out")
        try:
            k = _checks.count(top, "top")
        except ParameterError as error:
            raise error.at("top") from None
        available = self.available.sum(axis=1)
        short = available < k
        if short.any():
            row = int(short.argmax())
            raise ActionError(
                f"top is {k}, but decision {row} has {int(available[row])} available actions: "
                "offer more actions, or ask for fewer"
            ).at("top")
        return self._replace(top=k)

    def with_limits(self, floor: Any = 0.0, new_share: Any = None) -> Self:
        """Return the offer with limits of the probabilities.

        Parameters
        ----------
        floor, new_share
            As in ``Agent.act_with_probabilities``.
        """
        number = isinstance(floor, (int, float, np.number)) and not isinstance(floor, bool)
        if not (number and floor == 0):
            most = int(self.available.sum(axis=1).max(initial=1))
            if not number or not 0 <= floor <= 1 / most:
                raise ParameterError(
                    f"floor must be between 0 and 1 / {most} actions, got {floor!r}"
                )
        share = None if new_share is None else NewShare.checked(new_share)
        return self._replace(floor=float(floor), new_share=share)

    @classmethod
    def join(cls, offers: Sequence[Self], tasks: Int[Array, " m"]) -> Self:
        """Return several offers as one, whose decisions an agent makes together.

        Parameters
        ----------
        offers
            Offers with the same number of actions, the same top and limits, all with money or all
            without. Their waiting decisions are left out.
        tasks
            Checked indices of the tasks, one for each decision.
        """
        first = offers[0]
        actions = mask = money = None
        if first.actions is not None:
            shapes = [(len(one.tasks), *one.actions.shape[-2:]) for one in offers]  # type: ignore[union-attr]
            sets = zip(offers, shapes, strict=True)
            actions = np.concatenate([np.broadcast_to(one.actions, shape) for one, shape in sets])  # type: ignore[arg-type]
        if any(one.mask is not None for one in offers):
            mask = np.concatenate([one.available for one in offers])
        if first.money is not None:
            pairs = [one.money for one in offers if one.money is not None]
            money = Money(*(np.concatenate(x) for x in zip(*pairs, strict=True)))
        joined = first._replace(tasks=tasks, actions=actions, mask=mask, waiting=None)
        return joined._replace(money=money)

    def part(self, rows: slice) -> Self:
        """Return some of the decisions."""
        sets = self.actions
        return self._replace(
            tasks=self.tasks[rows],
            actions=sets[rows] if sets is not None and sets.ndim == 3 else sets,
            mask=None if self.mask is None else self.mask[rows],
            money=None if self.money is None else self.money.part(rows),
        )

    def among(self, used: Int[Array, " k"]) -> Self:
        """Return the same decisions among some of the actions."""
        return self._replace(
            n_actions=len(used),
            actions=None if self.actions is None else self.actions[..., used, :],
            mask=None if self.mask is None else self.mask[:, used],
            money=None if self.money is None else Money(*(x[:, used] for x in self.money)),
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


def _named_mask(
    prior: MixturePrior, mask: ArrayLike, n_rows: int, n_actions: int
) -> Bool[Array, "m K"]:
    """Return the checked mask; a list of arm names becomes a mask of these arms."""
    named = isinstance(mask, (list, tuple)) and len(mask) > 0 and isinstance(mask[0], str)
    if named or (isinstance(mask, np.ndarray) and mask.dtype.kind in "UT"):
        if prior.arm_names is None:
            raise MaskError("a mask of names needs a prior with arm_names: give true and false")
        flat = np.zeros(len(prior.arm_names), bool)
        try:
            flat[prior.arms.indices(mask)] = True
        except (ActionError, IndexError, ValueError) as error:
            raise MaskError(f"mask must be arm names, or true and false: {error}") from None
        mask = flat
    return _checks.action_mask(mask, n_rows, n_actions)
