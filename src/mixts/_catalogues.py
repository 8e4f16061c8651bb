"""The catalogue of a prior's arms: their names and marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mixts import _checks
from mixts._checks import some_names
from mixts._typing import Array, Bool, Int
from mixts.errors import ActionError, ParameterError
from mixts.families.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class ArmCatalogue:
    """Names of K arms, and which of them are retired or new; immutable."""

    names: tuple[str, ...] | None
    retired: Bool[Array, " K"]
    new: Bool[Array, " K"]

    def __post_init__(self) -> None:
        self.retired.flags.writeable = self.new.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make unpickled marks read-only again."""
        self.__dict__.update(state)
        self.__post_init__()

    @classmethod
    def of(cls, names: Sequence[str] | None, n_arms: int) -> ArmCatalogue:
        """Return a catalogue of arms without marks."""
        checked = _checks.name_list(names, n_arms, "arm_names")
        return cls(checked, np.zeros(n_arms, bool), np.zeros(n_arms, bool))

    def marked(self, retired: Bool[Array, " r"], new: Bool[Array, " n"]) -> ArmCatalogue:
        """Return the same arms with these marks of the first arms, and none of the others."""
        marks = np.zeros((2, len(self.retired)), bool)
        marks[0, : len(retired)], marks[1, : len(new)] = retired, new
        return replace(self, retired=marks[0], new=marks[1])

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names or ())}

    @cached_property
    def has_retired(self) -> bool:
        """Whether any arm is retired."""
        return bool(self.retired.any())

    def index(self, arm: int | str) -> int:
        """Return the index of an arm that is given by its index or its name."""
        n_arms = len(self.retired)
        if not n_arms:
            raise ParameterError(f"the prior has no arms, got {arm!r}")
        if isinstance(arm, str):
            if arm not in self._places:
                known = some_names(self.names or [f"0 to {n_arms - 1}"])
                raise ParameterError(f"unknown arm {arm!r}; arms: {known}")
            return self._places[arm]
        index = _checks.count(arm, "arm", least=0)
        if index >= n_arms:
            raise ParameterError(f"arms are numbered from 0 to {n_arms - 1}, got {index}")
        return index

    def chosen(self, arms: Sequence[int | str]) -> Bool[Array, " K"]:
        """Return which arms a list of indices or names has."""
        if isinstance(arms, (str, int)):
            raise ParameterError(f"arms must be a list of indices or names, got {arms!r}")
        chosen = np.zeros(len(self.retired), bool)
        for arm in arms:
            chosen[self.index(arm)] = True
        return chosen

    def indices(self, arms: Any) -> Any:
        """Replace names by indices; indices, features and trajectories stay as they are."""
        if type(arms) is int or self.names is None or isinstance(arms, Trajectory):
            return arms
        try:
            array = np.asarray(arms)
        except ValueError:
            return arms  # nested lists of different lengths: the caller refuses them
        kind = array.dtype.kind
        # Columns of text of pandas and pyarrow are arrays of objects.
        if kind not in "UT" and not (kind == "O" and all(isinstance(a, str) for a in array.flat)):
            return arms
        names = [str(name) for name in array.reshape(-1)]
        unknown = [name for name in names if name not in self._places]
        if unknown:
            raise ActionError(f"unknown arm {unknown[0]!r}; known arms: {some_names(self.names)}")
        index: Int[Array, " m"] = np.array([self._places[name] for name in names], np.int64)
        return index.reshape(array.shape)

    def labels(self, chosen: Bool[Array, " K"]) -> str:
        """Return the names, or the indices, of the chosen arms as text."""
        names = self.names
        return some_names(
            [names[k] if names else str(k) for k in np.flatnonzero(chosen)], quote=False
        )

    # -- other names --------------------------------------------------------------------------

    def renamed(self, names: Mapping[str, str]) -> list[str]:
        """Return all names after some have changed, all at once."""
        if self.names is None:
            raise ParameterError("the arms of this prior have no names")
        changed = list(self.names)
        for old, new in names.items():
            if not isinstance(new, str) or not new:
                raise ParameterError(f"the new name of {old!r} must be a text, got {new!r}")
            changed[self.index(str(old))] = new
        return changed

    def extended(self, names: Sequence[str] | None) -> list[str] | None:
        """Return all names with those of new arms, which have names if the others have."""
        if (names is None) != (self.names is None):
            raise ParameterError(
                "the prior has arm names: give names for the new arms, too"
                if self.names
                else "the prior has no arm names: leave out the names of new arms"
            )
        return None if names is None else [*(self.names or ()), *names]

    def new_names(self, arms: Any) -> list[str] | None:
        """Return checked names of new arms; None where only their number is given."""
        if isinstance(arms, str) or (self.names is not None and isinstance(arms, int)):
            raise ParameterError(f"arms must be a list of names of new arms, got {arms!r}")
        if isinstance(arms, (int, np.integer)):
            return None
        if self.names is None:
            raise ParameterError(
                f"the arms of this prior have no names, so new arms cannot have any, got {arms!r}: "
                "name all arms first, prior.replace(arm_names=[...]), or say how many are new"
            )
        names = list(arms)
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ParameterError(f"arms must be names of new arms, at least one, got {names!r}")
        taken = [name for name in names if name in self._places]
        if taken or len(set(names)) < len(names):
            raise ParameterError(
                f"the prior already has the arm {taken[0]!r}"
                if taken
                else f"names of new arms must differ, got {some_names(names)}"
            )
        return names
