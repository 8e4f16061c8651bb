"""Three ways to inject a fault: replace a function of mixts, edit its code, or edit the core.

A path names a function: ``"mixts.belief:Belief.update"``. An edit names code inside the function,
not lines of the file: formatting, comments and line breaks do not matter. An edit of the core
replaces text in a file of src/core, and the core is built again.

Nothing here imports mixts before ``check`` or ``inject`` is called: the tests' run-time checks must
be installed first.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

from tests import built_core

PACKAGES = ("mixts", "mixts_serve", "mixts_paper")
"""Packages in which a changed function is replaced wherever a module imported it."""


class MissingCodeError(LookupError):
    """The code that a fault should change is not there: the fault must follow the source."""


@dataclass(frozen=True)
class Replacement:
    """Replaces a function by ``make(function)``."""

    path: str
    make: Callable[[Any], Any]

    def check(self) -> None:
        """Raise ``MissingCodeError`` if there is no such function."""
        _find(self.path)

    def inject(self) -> None:
        """Replace the function, also where other modules imported it, or classes hold it."""
        holder, name = _find(self.path)
        _install(holder, name, self.make(_function(vars(holder)[name])))


@dataclass(frozen=True)
class Edit:
    """Replaces an expression, or statements, in a function's code."""

    path: str
    old: str
    new: str
    count: int = 1
    """Number of times that the old code must be there."""

    def check(self) -> None:
        """Raise ``MissingCodeError`` if the code is not there."""
        self._changed_code()

    def inject(self) -> None:
        """Replace the function by the edited one."""
        changed, function = self._changed_code()
        made: dict[str, Any] = {}
        # The function sees its own module, so that later changes of other functions count.
        source = inspect.getsourcefile(function) or self.path
        exec(compile(changed, source, "exec"), function.__globals__, made)
        holder, name = _find(self.path)
        _install(holder, name, _function(made[function.__name__]))

    def _changed_code(self) -> tuple[ast.Module, Any]:
        holder, name = _find(self.path)
        function = _source(_function(vars(holder)[name]))
        lines, first = inspect.getsourcelines(function)
        editor = _Editor(self.old, self.new)
        tree = editor.visit(ast.parse(textwrap.dedent("".join(lines))))
        if editor.found != self.count:
            raise MissingCodeError(
                f"{self.path}: expected {self.count} of {self.old!r}, found {editor.found}"
            )
        return ast.increment_lineno(ast.fix_missing_locations(tree), first - 1), function


@dataclass(frozen=True)
class CoreEdit:
    """Replaces text in a file of src/core."""

    path: str
    old: str
    new: str

    def check(self) -> None:
        """Raise ``MissingCodeError`` unless the file has the text once."""
        self.changed_text()

    def changed_text(self) -> str:
        """Return the text of the edited file."""
        text = (built_core.ROOT / "src" / "core" / self.path).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise MissingCodeError(f"{self.path} has {self.old!r} {text.count(self.old)} times")
        return text.replace(self.old, self.new)

    def inject(self) -> None:
        """Check that this process runs with the core that was built from the edit."""
        program = import_module("mixts._program")
        if program.core is None or program.core.__file__ != os.environ[built_core.VARIABLE]:
            raise MissingCodeError("mixts does not run with the core that has the fault")


Change = Replacement | Edit | CoreEdit


def replace(path: str, make: Callable[[Any], Any]) -> Replacement:
    """Return the replacement of a function by ``make(function)``: it behaves differently."""
    return Replacement(path, make)


def edit(path: str, old: str, new: str, count: int = 1) -> Edit:
    """Return an edit of a function; ``new`` is empty where the old code is only removed."""
    return Edit(path, old, new, count)


# -- finding and installing functions -------------------------------------------------------------


def _find(path: str) -> tuple[Any, str]:
    """Return the module or class that holds a function, and the function's name there."""
    module, _, inside = path.partition(":")
    try:
        holder: Any = import_module(module)
    except ModuleNotFoundError as error:
        raise MissingCodeError(f"{path}: there is no module {module}") from error
    *classes, name = inside.split(".")
    for part in classes:
        if part not in vars(holder):
            raise MissingCodeError(f"{path}: {holder!r} has no {part!r} of its own")
        holder = vars(holder)[part]
    if name not in vars(holder):
        raise MissingCodeError(f"{path}: {holder!r} has no {name!r} of its own")
    return holder, name


def _function(held: Any) -> Any:
    """Return the function of a static or class method or a property, and anything else as it is."""
    if isinstance(held, cached_property):
        return held.func
    return held.__func__ if isinstance(held, (staticmethod, classmethod)) else held


def _source(function: Any) -> Any:
    """Return the function that was written down, without checks."""
    return inspect.unwrap(function)


def _install(holder: Any, name: str, made: Any) -> None:
    old = vars(holder)[name]
    function = _function(old)
    for place in _places(holder):
        for key, held in list(vars(place).items()):
            if held is old or (isinstance(held, staticmethod) and held.__func__ is function):
                is_method = isinstance(held, (staticmethod, classmethod, cached_property))
                new = type(held)(made) if is_method else made
                setattr(place, key, new)
                if isinstance(new, cached_property):
                    new.__set_name__(place, key)


def _places(holder: Any) -> Iterator[Any]:
    """Yield the holder, and the modules and classes of the three packages if it is a module."""
    yield holder
    if not isinstance(holder, ModuleType):
        return
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in PACKAGES:
            yield module
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    yield value


# -- editing code ---------------------------------------------------------------------------------


class _Editor(ast.NodeTransformer):
    """Replaces every occurrence of an expression, or of a run of statements."""

    def __init__(self, old: str, new: str) -> None:
        self.found = 0
        before, self._new = (ast.parse(textwrap.dedent(code)).body for code in (old, new))
        self._is_expression = all(
            len(part) == 1 and isinstance(part[0], ast.Expr) for part in (before, self._new)
        )
        self._old = [ast.unparse(node) for node in before]

    def visit(self, node: ast.AST) -> Any:
        if self._is_expression:
            if isinstance(node, ast.expr) and ast.unparse(node) == self._old[0]:
                self.found += 1
                (statement,) = self._new
                assert isinstance(statement, ast.Expr)
                return ast.copy_location(statement.value, node)
            return self.generic_visit(node)
        node = self.generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                setattr(node, field, self._statements(body))
        return node

    def _statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        n, result, i = len(self._old), [], 0
        while i < len(body):
            if [ast.unparse(node) for node in body[i : i + n]] == self._old:
                self.found += 1
                result += [ast.copy_location(node, body[i]) for node in self._new or [ast.Pass()]]
                i += n
            else:
                result.append(body[i])
                i += 1
        return result
