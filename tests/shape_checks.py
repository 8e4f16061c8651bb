"""Checks the shapes and types in mixts's annotations at run time, while tests run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Self

import jaxtyping
import numpy as np
from beartype import BeartypeConf, FrozenDict, beartype


class _AnyInstance(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return True


class SomeSelf(metaclass=_AnyInstance):
    """Stands for Self: jaxtyping hands over functions one by one, without their class.

    (beartype refuses Any in its place, where it is one of a union.)
    """


# A number from numpy is as good as Python's, and as type checkers have it an int is a float.
CONFIGURATION = BeartypeConf(
    hint_overrides=FrozenDict(
        {
            Self: SomeSelf,
            int: int | np.integer,
            float: float | np.floating | int | np.integer,
            complex: complex | np.number | float | int,
        }
    ),
)


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """What jaxtyping's import hook puts around every function."""
    return beartype(function, conf=CONFIGURATION)


class CompiledModules(MetaPathFinder):
    """Finds the modules of compiled code as Python would, before jaxtyping's hook sees them.

    The hook takes a package with all that is below it, and numba cannot compile a function that is
    wrapped in checks.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith("mixts.") and "kernels" in fullname:
            return PathFinder.find_spec(fullname, path, target)
        return None


def install() -> None:
    """Check every module of mixts that is imported from now on."""
    if "mixts" in sys.modules:
        raise RuntimeError("mixts is imported already, without checks on its shapes")
    jaxtyping.install_import_hook("mixts", f"{__name__}.{checked.__name__}")
    sys.meta_path.insert(0, CompiledModules())
