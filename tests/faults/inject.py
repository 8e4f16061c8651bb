"""Inject a fault into an imported function of mixts: replace the function, or edit its code.

A path names a function: ``"mixts.belief:Belief.update"``. An edit names code inside the function,
not lines of the file: formatting, comments and line breaks do not matter.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import Any


class MissingCodeError(LookupError):
    """The code that a fault should change is not there: the fault must follow the source."""


def replace(path: str, make: Callable[[Any], Any]) -> None:
    """Replace a function by ``make(function)``, also where other modules imported it by name."""
    holder, name, original = _find(path)
    raw = vars(holder)[name]
    made = make(original)
    setattr(holder, name, type(raw)(made) if isinstance(raw, (staticmethod, classmethod)) else made)
    for module in [m for key, m in sys.modules.items() if key.split(".")[0] == "mixts"]:
        for key, value in list(vars(module).items()):
            if value is raw:
                setattr(module, key, made)


def edit(path: str, old: str, new: str, count: int = 1) -> None:
    """Replace an expression, or statements, in a function's code; ``count`` must be found."""
    _, _, original = _find(path)
    function = getattr(original, "py_func", inspect.unwrap(original))
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    editor = _Editor(old, new)
    changed = ast.fix_missing_locations(editor.visit(tree))
    if editor.found != count:
        raise MissingCodeError(f"{path}: expected {count} of {old!r}, found {editor.found}")
    space = dict(function.__globals__)
    exec(compile(changed, inspect.getsourcefile(function) or path, "exec"), space)
    made = space[function.__name__]
    made = made if hasattr(made, "py_func") else inspect.unwrap(made)
    if not hasattr(made, "py_func"):
        # Plain functions see later faults and fixtures through their module, like the original.
        made = type(made)(made.__code__, function.__globals__, made.__name__, made.__defaults__)
        made.__kwdefaults__ = function.__kwdefaults__
    replace(path, lambda _: made)


def _find(path: str) -> tuple[Any, str, Any]:
    """Return the module or class that holds a function, the function's name, and the function."""
    module, _, inside = path.partition(":")
    holder: Any = import_module(module)
    *classes, name = inside.split(".")
    for part in classes:
        holder = getattr(holder, part)
    if name not in vars(holder):
        raise MissingCodeError(f"{path}: {holder!r} has no {name!r} of its own")
    value = vars(holder)[name]
    return holder, name, getattr(value, "__func__", value)


class _Editor(ast.NodeTransformer):
    """Replaces every occurrence of an expression, or of a run of statements."""

    def __init__(self, old: str, new: str) -> None:
        self.found = 0
        statements = ast.parse(textwrap.dedent(old)).body
        self._is_expression = len(statements) == 1 and isinstance(statements[0], ast.Expr)
        self._old = [ast.unparse(node) for node in statements]
        self._new = textwrap.dedent(new)

    def visit(self, node: ast.AST) -> Any:
        if self._is_expression and isinstance(node, ast.expr) and ast.unparse(node) == self._old[0]:
            self.found += 1
            return ast.copy_location(ast.parse(self._new, mode="eval").body, node)
        node = self.generic_visit(node)
        if not self._is_expression:
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
                made = ast.parse(self._new).body or [ast.Pass()]
                result.extend(ast.copy_location(node, body[i]) for node in made)
                i += n
            else:
                result.append(body[i])
                i += 1
        return result
