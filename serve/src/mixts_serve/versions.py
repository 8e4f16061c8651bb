"""Versions of the prior: their work, changes of their arms, and checks that they fit the store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import Struct, json
from msgspec import field as struct_field

from mixts import Belief, MixturePrior
from mixts.errors import ParameterError, StatisticsError, StoreError
from mixts.extend import Array, Family, Statistics, random
from mixts_serve.records import (
    ActionPosteriors,
    Decide,
    LoggedPrior,
    Operation,
    Pedigree,
    checked_name,
)
from mixts_serve.rules import Policy, trial_actions
from mixts_serve.store.store import DecisionStore


@dataclass(frozen=True, slots=True)
class Sizes:
    """Estimates the work of operations; an ordinary one is 1 unit, 0.1 to 0.2 ms.

    A belief takes about 2 us for each arm and component; draws, for prices and rankings, 3 to 13.
    An offered action takes 1 us, and 0.1 us for each feature, and as much again to be parsed,
    checked and stored. A belief about clicks with features takes 3 to 7 us for each component and
    distinct row of the task; how many rows a task has is learned from batches. Measured by
    ``benchmarks/service/sizes.py``.
    """

    decide: int = 1
    """Work of a decision, without the actions that it offers."""
    drawn: int = 1
    """The same with values, costs or a ranking."""
    other: int = 1
    """Work of any other operation."""
    n_features: int = 0
    table_bytes: int = 0
    """Bytes of a task's table of distinct rows that are one unit; 0: tasks have no tables."""
    tables: dict[int, int] = field(default_factory=dict, repr=False, compare=False)
    """Work of tasks with large tables, by the hash of the name, the last seen at the end.

    Names are not kept: a task may be erased by another process.
    """

    @classmethod
    def of_prior(cls, prior: MixturePrior, n_bytes: int) -> Sizes:
        """Return the sizes under a prior whose tasks have ``n_bytes`` of statistics each."""
        family, other = prior.family, 1 + n_bytes // (4096 * 8)
        if family.n_arms is not None:
            n = prior.n_components * family.n_arms
            return cls(1 + n // 64, 1 + n // 16, other)
        n_features = family.n_features or 0
        decide = 1 + prior.n_components * n_features**2 // 4096
        table_bytes = 0
        if family.row_bytes:
            table_bytes = max(family.row_bytes * ROWS_OF_UNIT // prior.n_components, 1)
        return cls(decide, decide, other, n_features, table_bytes)

    def of(self, operation: Operation) -> int:
        """Return the work of an operation."""
        if not isinstance(operation, Decide):
            return self.other
        size = self.decide
        if self.tables:
            size += self.tables.get(hash(operation.task), 0)
        if operation.is_plain:
            return size
        asked = (operation.values, operation.costs, operation.top)
        if any(each is not None for each in asked):
            size += self.drawn - self.decide
        if isinstance(operation.top, int):
            size += max(operation.top, 0)
        offered = operation.actions
        if offered is None or not isinstance(offered, Sized):
            return size
        return size + len(offered) * (16 + self.n_features) // 256

    def learn(self, lengths: Mapping[str, int]) -> int:
        """Note the bytes of tasks' statistics; return how many units of work were not known."""
        unknown = 0
        for task, n_bytes in lengths.items() if self.table_bytes else ():
            size, known = n_bytes // self.table_bytes, self.tables.pop(hash(task), 0)
            if size >= LARGE_TABLE:  # smaller tables are not remembered, so are never "unknown"
                unknown += max(size - known, 0)
                self.tables[hash(task)] = size
        while len(self.tables) > MOST_TABLES:
            del self.tables[next(iter(self.tables))]
        return unknown


ROWS_OF_UNIT = 40
"""Distinct rows of a task, times components, whose belief takes 0.2 ms."""

LARGE_TABLE = 2
"""Units of work from which on a table is remembered."""

MOST_TABLES = 100_000
"""Tasks whose tables are remembered: some megabytes."""


@dataclass(frozen=True, slots=True)
class LoadedPrior:
    """A version of the prior, active or not, with what deciding with it needs."""

    version: int
    prior: MixturePrior
    codec: StatisticsCodec
    sizes: Sizes

    @classmethod
    def load(cls, version: int, body: bytes) -> LoadedPrior:
        """Return a version from its file in the store."""
        prior = MixturePrior.from_bytes(body, f"version {version} of the prior")
        codec = StatisticsCodec(prior.family)
        return cls(version, prior, codec, Sizes.of_prior(prior, codec.n_bytes))

    @classmethod
    def of(cls, store: DecisionStore, version: int) -> LoadedPrior:
        """Return a version that a store has."""
        body = store.prior_body(version)
        if body is None:
            raise StoreError(f"{store.name} has lost version {version} of the prior")
        return cls.load(version, body)

    def arm_name(self, action: int) -> str | None:
        """Return the name of an arm, or None if the prior does not name its arms."""
        names = self.prior.arm_names
        return names[action] if names is not None else None


class StatisticsCodec:
    """Encoding of tasks' statistics as bytes, for one family."""

    def __init__(self, family: Family) -> None:
        self._empty = family.empty_statistics(0)
        self.n_bytes = self._empty.n_bytes

    def decode(self, contents: Sequence[bytes]) -> Statistics:
        """Return the statistics of these tasks, with the task axis."""
        try:
            return self._empty.decode(contents)
        except StatisticsError as error:
            raise StoreError(f"a task's statistics are damaged: {error}") from error

    def encode(self, statistics: Statistics, rows: Any = slice(None)) -> list[bytes]:
        """Return the bytes of each task, or of those in some rows."""
        return statistics.encode(rows)


def logged_prior(prior: MixturePrior, now: int, pedigree: Pedigree | None = None) -> LoggedPrior:
    """Return a prior as a row; the digest of the same prior is the same, whatever its file."""
    header, arrays = prior.bundle()
    content = hashlib.sha256(repr(sorted(header.items())).encode())
    for name, array in sorted(arrays.items()):
        content.update(f"{name} {array.dtype.str} {array.shape}".encode())
        content.update(np.ascontiguousarray(array).tobytes())
    kind, n = prior.family.kind, prior.n_components
    line = "" if pedigree is None else json.encode(pedigree).decode()
    return LoggedPrior(0, content.digest(), now, kind, n, prior.to_bytes(), line)


# -- changes of the arms, each of which makes a version of the prior -----------------------------


class ArmState(Struct, frozen=True):
    """One arm of the active prior."""

    index: int
    name: str | None
    retired: bool
    new: bool
    """Whether the arm was added, and no prior has been learned from its data since."""


class ArmList(Struct, frozen=True):
    """The arms of the active prior."""

    version: int
    """The version of the prior."""
    arms: tuple[ArmState, ...]

    @classmethod
    def of(cls, version: int, prior: MixturePrior) -> ArmList:
        """Return the arms of a prior; raise ``ParameterError`` if it has none."""
        names = prior.arm_names or (None,) * _n_arms(prior)
        rows = zip(names, prior.arms.retired.tolist(), prior.arms.new.tolist(), strict=True)
        return cls(version, tuple(ArmState(k, *row) for k, row in enumerate(rows)))


class ArmChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of the arms, by name; renaming comes first, so the others use the new names.

    A change is idempotent: sent twice, the second time changes nothing.
    """

    add: tuple[str, ...] = ()
    retire: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    rename: dict[str, str] = struct_field(default_factory=dict)
    """The new name of each present name."""

    @classmethod
    def checked(
        cls,
        add: Sequence[str] = (),
        retire: Sequence[str] = (),
        restore: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
    ) -> ArmChanges:
        """Return the changes; raise ``ParameterError`` unless they are lists of names."""
        lists = {"add": add, "retire": retire, "restore": restore}
        for what, names in lists.items():
            if isinstance(names, str) or not isinstance(names, Sequence):
                raise ParameterError(f"{what} must be a list of names of arms, got {names!r}")
        pairs = {} if rename is None else dict(rename)
        for name in (*add, *retire, *restore, *pairs, *pairs.values()):
            checked_name(name, "the name of an arm")
        both = [name for name in retire if name in set(restore)]
        if both:
            raise ParameterError(f"arm {both[0]!r} cannot be retired and restored at once")
        if not any((add, retire, restore, pairs)):
            raise ParameterError("nothing to change: give arms to add, retire, restore or rename")
        return cls(tuple(add), tuple(retire), tuple(restore), pairs)

    def applied(self, prior: MixturePrior) -> MixturePrior:
        """Return the prior with the changes; the same prior if it has all of them already."""
        _n_arms(prior)  # raises an error if the prior has no arms
        changed = self._renamed(prior)
        known = set(changed.arm_names or ())
        missing = [name for name in dict.fromkeys(self.add) if name not in known]
        if missing:
            changed = changed.add_arms(missing)
        index = {name: k for k, name in enumerate(changed.arm_names or ())}
        leaving = [a for a in self.retire if a not in index or not changed.arms.retired[index[a]]]
        if leaving:
            changed = changed.retire_arms(leaving)
        back = [a for a in self.restore if a not in index or changed.arms.retired[index[a]]]
        return changed.restore_arms(back) if back else changed

    def _renamed(self, prior: MixturePrior) -> MixturePrior:
        known = set(prior.arm_names or ())
        left = {
            old: new
            for old, new in self.rename.items()
            if old != new and (old in known or new not in known)
        }
        for old, new in left.items():
            # Swapping names would not be idempotent.
            if old in known and new in known:
                raise ParameterError(f"cannot rename {old!r} to {new!r}: another arm has this name")
        return prior.rename_arms(left) if left else prior


def _n_arms(prior: MixturePrior) -> int:
    if prior.family.n_arms is None:
        raise ParameterError(
            f"{prior.family!r} has no arms to list or change: each decision offers its actions by "
            "their features, so a new item needs no change of the prior"
        )
    return prior.family.n_arms


# -- which priors are accepted -------------------------------------------------------------------


def check_servable(prior: object) -> MixturePrior:
    """Raise ``ParameterError`` for a prior that the service cannot decide with."""
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {prior!r}")
    if prior.family.plans:
        raise ParameterError(
            f"the decision service takes priors of arms and linear ones, got {prior.family!r}: "
            "policies of an MDP have no propensities; use mixts.MixTS in process"
        )
    return prior


def check_passed(prior: MixturePrior, force: bool) -> None:
    """Raise ``ParameterError`` for a prior that failed its check, unless it is forced."""
    origin = prior.origin
    if force or origin is None or origin.passed is not False:
        return
    raise ParameterError(
        f"this prior failed its check and was not activated. {origin.verdict} To use it all the "
        "same, force it: mixts serve --force, ?force=true over HTTP, force=True in Python"
    )


def check_size(prior: MixturePrior, most: int) -> None:
    """Raise ``ParameterError`` for a prior of more numbers: every task has a belief of its size."""
    family, n = prior.family, prior.n_components
    size = n * (family.n_arms if family.n_arms is not None else (family.n_features or 0) ** 2)
    if size > most:
        raise ParameterError(
            f"a prior has at most {most:,} numbers, which are its arms or squared features times "
            f"its {n} components, got {size:,}: make it smaller, or allow it with mixts serve "
            "--max-numbers"
        )


def check_arms(prior: MixturePrior, before: MixturePrior | None) -> None:
    """Raise ``ParameterError`` if an arm would get the statistics of another.

    Named arms keep their order; new ones come after them.
    """
    old = None if before is None else before.arm_names
    new = prior.arm_names
    if old is None or new is None or new[: len(old)] == old:
        return
    # ``fitted_shape`` has refused a prior with fewer arms.
    place = next(k for k, name in enumerate(old) if name != new[k])
    raise ParameterError(
        f"arm {place} is {old[place]!r} in the prior in force and {new[place]!r} in this one: "
        "tasks have statistics by the arm's place, so the arms in force must come first and in "
        "their order (mixts fit --from keeps them), new ones after them; mixts arms rename "
        "renames an arm"
    )


def check_same_arms(prior: MixturePrior, active: MixturePrior) -> None:
    """Raise ``ParameterError`` unless two priors can decide beside each other."""
    if prior.family.statistics_shape != active.family.statistics_shape:
        raise ParameterError(
            f"a canary decides the same arms or features as the active prior, {active.family!r}, "
            f"got {prior.family!r}: activate it instead"
        )
    check_arms(prior, active)
    check_features(prior, active)
    if prior.family.n_arms is None:
        return
    same = (prior.arm_names, prior.repeatable) == (active.arm_names, active.repeatable)
    if not same or (prior.arms.retired != active.arms.retired).any():
        raise ParameterError(
            "a canary has the arms of the active prior: the same names, the same retired arms and "
            "the same repeatable; learn it again with mixts fit --from the active prior, or "
            "activate it instead"
        )


def check_features(prior: MixturePrior, before: MixturePrior | None) -> None:
    """Raise ``ParameterError`` if a feature would get the statistics of another."""
    old = None if before is None else before.features
    if old is None or prior.features is None or prior.features == old:
        return
    if (prior.features.columns, prior.features.intercept) == (old.columns, old.intercept):
        raise ParameterError(
            "this prior has other effects that are the same for everybody than the prior in force: "
            "tasks have statistics beside the effects in force. Learn with mixts fit --from the "
            "prior in force, which keeps them; or begin another store with new effects, learned "
            "from mixts store export, which has the facts"
        )
    raise ParameterError(
        f"the prior in force has the features {', '.join(old.names)} and this one "
        f"{', '.join(prior.features.names)}, or others of their levels and scales: tasks have "
        "statistics by the place of a feature, so both must be the same (mixts fit --from "
        "the prior in force)"
    )


def check_decides(prior: MixturePrior, policy: Policy) -> None:
    """Raise ``ParameterError`` for a prior whose first decision has no probabilities.

    The store keeps the prior, and may be served by Thompson sampling next time: it must have
    probabilities as well.
    """
    actions = trial_actions(prior)
    for each in [policy] if policy.name == "ts" else [policy, Policy("ts")]:
        try:
            with np.errstate(all="ignore"):
                agent = each.resume(prior, prior.family.empty_statistics(None), 0)
                _, law, _ = agent.act_with_probabilities(actions)
        except ZeroDivisionError:
            law = np.array(np.nan)
        if not (np.isfinite(law).all() and law.sum() > 0):
            raise ParameterError(
                f"the prior has no probabilities for a new task under policy {each.name!r}: its "
                "parameters are too large, or too small, to compute with"
            )


def fitted_shape(prior: MixturePrior, shape: str | None) -> str:
    """Return the shape of tasks' statistics under a prior, if it fits the stored ones.

    Stored statistics stay as they are: a prior may have more arms, never fewer, and must be of the
    same family.
    """
    family = prior.family
    kind, (size,) = family.statistics_type.kind, family.empty_statistics(1).shape
    mine = f"{kind} {size}"
    if shape is None or shape == mine:
        return mine
    old_kind, old_size = shape.split()
    if kind == old_kind and family.n_arms is not None and size > int(old_size):
        return mine
    what, hint = "features", ""
    if old_kind.endswith("arms"):
        what, hint = "arms", "; `mixts fit --from` the prior in force keeps its arms"
    raise ParameterError(
        f"the tasks of this store have statistics of {old_kind} with {old_size} {what}, which "
        f"{family!r} cannot go on from: use a prior of the same family with no fewer arms, or "
        f"another store{hint}"
    )


# -- posteriors of a task's actions ----------------------------------------------------------------

_N_DRAWS = 2000
"""Draws from which the 5 and 95 % points are estimated, with a standard error of 0.5 %."""

_FEWEST_DRAWS, _MOST_NUMBERS = 200, 1_000_000
"""With thousands of actions, fewer draws keep the memory bounded."""


def action_posteriors(belief: Belief, offered: Array | None, best: int | None) -> ActionPosteriors:
    """Return means and intervals of the mean rewards of one task's actions.

    Parameters
    ----------
    belief
        Belief about one task, with the task axis.
    offered
        Rows of the actions; None for arms.
    best
        Number of actions to return, those with the highest means; None for all.
    """
    (mean,) = belief.mean_rewards(offered)
    shown = np.arange(len(mean))
    if best is not None and best < len(mean):
        shown = np.sort(np.argsort(-mean, kind="stable")[:best])
    n_draws = max(_FEWEST_DRAWS, min(_N_DRAWS, _MOST_NUMBERS // len(shown)))
    # The same draws at every call: a page that is refreshed does not flicker.
    rng, same = random.stream(0, "decider", "posterior"), np.zeros(n_draws, np.int64)
    latent = belief.sample_latent(rng, same)
    if offered is None:
        # Arms are independent given the component: draw those that are shown.
        some = belief.posterior.family(0).as_arms.arms(shown)
        means = some.mean_rewards(some.draw(rng, latent), None)
    else:
        draws = belief.sample_parameters(rng, latent, same)
        means = belief.prior.family.mean_rewards(draws, offered[shown])
    low, high = np.quantile(means, [0.05, 0.95], axis=0)
    return ActionPosteriors(
        tuple(mean[shown].tolist()), tuple(low.tolist()), tuple(high.tolist()),
        tuple(shown.tolist()), len(mean),
    )  # fmt: skip
