"""What the rules of families and agents compare, and the words for a broken rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mixts.errors import MixtsError

ROUNDING = 1e-10
"""Relative: dozens of operations on well-scaled numbers lose a few of sixteen digits."""

N_ERRORS = 6.0
"""Standard errors by which an average of draws may differ from its expectation."""


def keep(rules: Iterable[Callable[[Any], None]], problem: Any) -> None:
    """Run the rules; raise ``AssertionError`` that names the first broken one, for any error."""
    for rule in rules:
        try:
            rule(problem)
        except Exception as error:
            found = str(error).strip() if isinstance(error, AssertionError) else repr(error)
            name, meaning = rule.__name__.replace("_", " "), (rule.__doc__ or "").strip()
            raise AssertionError(f'the rule "{name}" is broken: {found}\n({meaning})') from error


def same_numbers(one: Any, other: Any, what: str, rounding: float = 0.0) -> None:
    """Assert that two arrays are equal, to the bit unless a rounding error is allowed."""
    np.testing.assert_allclose(one, other, rtol=rounding, atol=rounding, err_msg=what)


def refused(call: Callable[[], Any], errors: tuple[type[MixtsError], ...], what: str) -> None:
    """Assert that a call raises one of these errors."""
    names = " or ".join(error.__name__ for error in errors)
    try:
        call()
    except errors:
        return
    except Exception as error:
        raise AssertionError(f"{what}: expected {names}, got {error!r}") from error
    raise AssertionError(f"{what}: expected {names}, nothing was raised")


def answer(owner: Any, method: str, shape: tuple[int, ...], *arguments: Any) -> Any:
    """Return the array, or arrays, that a method returns; assert that each has this shape."""
    found = getattr(owner, method)(*arguments)
    for part in found if isinstance(found, tuple) else (found,):
        what = f"{type(owner).__name__}.{method} returned shape {np.shape(part)}, expected {shape}"
        assert np.shape(part) == shape, what
    return found
