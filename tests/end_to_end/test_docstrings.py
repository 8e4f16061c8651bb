"""The docstrings of public names say what a caller must know, and their examples run.

Public are the names in ``__all__`` of the modules below and the public methods of their classes. A
method may leave its parameters to the method that it overrides. Errors need no example.
"""

from __future__ import annotations

import doctest
import inspect
import io
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate

from mixts import errors

MODULES = [
    "mixts", "mixts_paper.bounds", "mixts.diagnostics", "mixts.errors", "mixts.features",
    "mixts.bridges.arviz", "mixts.bridges.mabwiser",
]  # fmt: skip
RULES = {
    "GL03", "GL06", "GL07", "GL08", "GL10",  # form
    "SS01", "SS02", "SS03", "SS04", "SS05", "SS06",  # one summary line
    "PR01", "PR02", "PR03", "PR05", "PR06", "PR07", "PR09", "PR10",  # parameters
    "RT01", "RT03", "RT05", "YD01",  # results
}  # fmt: skip
"""Codes of numpydoc's validation. Annotations name the types, so descriptions need not."""


class Reader(Validator):
    """numpydoc's reader; the fields of a record may be in the section Attributes."""

    def __init__(self, obj_name: Any) -> None:
        super().__init__(get_doc_object(obj_name, config={"show_class_members": False}))

    @property
    def doc_all_parameters(self) -> dict[str, Any]:
        return super().doc_all_parameters or self._doc_parameters(["Attributes"])


def faults(value: Any) -> dict[str, str]:
    """Return what numpydoc's rules find in the docstring of a class or function, by code."""
    found = validate(value, validator_cls=Reader)["errors"]
    return {code: message for code, message in found if code in RULES}


def examples(value: Any, name: str) -> doctest.DocTest:
    """Return the examples in a docstring; they start in an empty namespace."""
    return doctest.DocTestParser().get_doctest(inspect.getdoc(value) or "", {}, name, None, None)


def public_names() -> dict[str, Any]:
    """Return the public classes and functions by dotted path, each once."""
    found: dict[int, tuple[str, Any]] = {}
    for path in MODULES:
        module = import_module(path)
        for name in getattr(module, "__all__", None) or own_names(module):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found.setdefault(id(value), (f"{path}.{name}", value))
    return dict(found.values())


def own_names(module: Any) -> list[str]:
    """Return the public classes and functions that a module defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


def public_methods(cls: type) -> Iterator[tuple[type, str, Any]]:
    """Yield the public methods and properties of a class, and the class that defines each."""
    package = cls.__module__.split(".")[0]
    for name in dir(cls):
        home = next(base for base in cls.__mro__ if name in vars(base))
        raw = vars(home)[name]
        if name.startswith("_") or home.__module__.split(".")[0] != package:
            continue
        if isinstance(raw, property | cached_property):
            yield home, name, raw
        elif isinstance(raw, classmethod | staticmethod) or inspect.isfunction(raw):
            value = getattr(home, name)
            if not name.endswith("_loop"):  # compiled loops, which only families call
                yield home, name, value


def method_faults(cls: type, home: type, name: str, method: Any) -> dict[str, str]:
    """Return the faults of a method; what an overridden method documents is not missing.

    Without parameters, a summary such as "Return the names." says what is returned.
    """
    if not callable(method):
        return {} if inspect.getdoc(method) else {"GL08": "The object does not have a docstring"}
    found = faults(method)
    if set(inspect.signature(method).parameters) <= {"self"}:
        found.pop("RT01", None)
    for base in cls.__mro__[cls.__mro__.index(home) + 1 :]:
        if found and callable(getattr(base, name, None)):
            present = {"PR01", "RT01", "GL08"} - set(faults(getattr(base, name)))
            found = {code: text for code, text in found.items() if code not in present}
    return found


NAMES = public_names()
CLASSES = {path: value for path, value in NAMES.items() if inspect.isclass(value)}
METHODS = {
    f"{home.__module__}.{home.__qualname__}.{name}": (cls, home, name, method)
    for cls in CLASSES.values()
    for home, name, method in public_methods(cls)
}
EXAMPLES = {
    path: test
    for path, value in [*NAMES.items(), *((path, m) for path, (*_, m) in METHODS.items())]
    if (test := examples(value, path)).examples
}


@pytest.mark.parametrize("path", NAMES)
def test_public_names_are_documented(path: str) -> None:
    value = NAMES[path]
    if inspect.isclass(value) and issubclass(value, errors.MixtsError | Warning):
        assert value.__doc__
    else:
        assert faults(value) == {}
        assert path in EXAMPLES, f"{path} has no example"


@pytest.mark.parametrize("path", METHODS)
def test_public_methods_are_documented(path: str) -> None:
    assert method_faults(*METHODS[path]) == {}


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_print_what_the_docstring_says(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report, test = io.StringIO(), EXAMPLES[path]
    assert not any(doctest.SKIP in example.options for example in test.examples)
    failed, _ = doctest.DocTestRunner().run(test, out=report.write)
    assert failed == 0, report.getvalue()


def undocumented(first: int, second: int = 0) -> int:
    """Add two numbers.

    Parameters
    ----------
    first
        A number.
    third
        No parameter.

    Examples
    --------
    >>> 1 + 1
    3
    """
    return first + second


class Base:
    """A base class."""

    def add(self, number: int) -> int:
        """Add a number.

        Parameters
        ----------
        number
            The number.

        Returns
        -------
        int
            The sum.
        """
        return number


class Derived(Base):
    """A class that overrides a method, and has another one."""

    def add(self, number: int) -> int:
        """Add a number to 1."""
        return 1 + number

    def subtract(self, number: int) -> int:
        """Subtract a number from 1."""
        return 1 - number


def test_wrong_docstrings_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert faults(undocumented) == {
        "PR01": "Parameters {'second'} not documented",
        "PR02": "Unknown parameters {'third'}",
        "RT01": "No Returns section found",
    }
    found = {
        name: set(method_faults(Derived, home, name, method))
        for home, name, method in public_methods(Derived)
    }
    assert found == {"add": set(), "subtract": {"PR01", "RT01"}}
    monkeypatch.setitem(EXAMPLES, "undocumented", examples(undocumented, "undocumented"))
    with pytest.raises(AssertionError, match=r"Expected:\s+3\s+Got:\s+2"):
        test_examples_print_what_the_docstring_says("undocumented", tmp_path, monkeypatch)
