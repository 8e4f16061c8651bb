"""Changes of the arms: add, retire, restore and rename, each of which makes a version of the prior.

A change is idempotent: sent twice, the second time changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from mixts import MixturePrior
from mixts.errors import ParameterError
from mixts_serve.records import checked_name


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
        names = prior.arm_names or (None,) * _number_of(prior)
        rows = zip(names, prior.retired.tolist(), prior.new_arms.tolist(), strict=True)
        return cls(version, tuple(ArmState(k, *row) for k, row in enumerate(rows)))


class ArmChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of the arms, by name; renaming comes first, so the others use the new names."""

    add: tuple[str, ...] = ()
    retire: tuple[str, ...] = ()
    restore: tuple[str, ...] = ()
    rename: dict[str, str] = field(default_factory=dict)
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
        """Return the prior with the changes that it does not have yet; the same prior if all."""
        _number_of(prior)
        changed = self._renamed(prior)
        known = set(changed.arm_names or ())
        missing = [name for name in dict.fromkeys(self.add) if name not in known]
        if missing:
            changed = changed.add_arms(missing)
        index = {name: k for k, name in enumerate(changed.arm_names or ())}
        leaving = [a for a in self.retire if a not in index or not changed.retired[index[a]]]
        if leaving:
            changed = changed.retire_arms(leaving)
        back = [a for a in self.restore if a not in index or changed.retired[index[a]]]
        return changed.restore_arms(back) if back else changed

    def _renamed(self, prior: MixturePrior) -> MixturePrior:
        known = set(prior.arm_names or ())
        left = {
            old: new
            for old, new in self.rename.items()
            if old != new and not (old not in known and new in known)
        }
        for old, new in left.items():
            # Swapping names would not be idempotent.
            if old in known and new in known:
                raise ParameterError(f"cannot rename {old!r} to {new!r}: another arm has this name")
        return prior.rename_arms(left) if left else prior


def _number_of(prior: MixturePrior) -> int:
    if prior.family.n_arms is None:
        raise ParameterError(
            f"{prior.family!r} has no arms to list or change: each decision offers its actions by "
            "their features, so a new item needs no change of the prior"
        )
    return prior.family.n_arms
