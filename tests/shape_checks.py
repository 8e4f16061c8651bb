"""Checks the shapes and types in mixts's annotations at run time, while tests run.

beartype checks calls, and jaxtyping shapes for it. jaxtyping's own import hook joins the two as
well, but checks the arguments of every call twice: that took a third of the time of all tests.

What a check finds depends on types, dtypes and shapes, and on the words of a ``Literal``. So a call
is checked if no earlier call had the same ones in its arguments and its result: to check all calls
took three quarters of the time of many tests. And of a function that a test calls again and again
the first calls are looked at: to compare all of them took a third.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import marshal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import cache_from_source, decode_source
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, UnionType
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

import jaxtyping
import numpy as np
import numpy.typing as npt
from beartype import BeartypeConf, FrozenDict, beartype
from beartype.door import is_bearable


class _AnyInstance(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return True


class SomeSelf(metaclass=_AnyInstance):
    """Stands for Self: functions are decorated one by one, without their class.

    (beartype refuses Any in its place, where it is one of a union.)
    """


USUAL = (np.ndarray, np.generic, list, tuple, int, float)


class _LikeAnArray(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, USUAL) or is_bearable(instance, npt.ArrayLike)


class SomeArrayLike(metaclass=_LikeAnArray):
    """Replacement for ArrayLike, whose protocols are slow to check."""


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
    violation_type=jaxtyping.TypeCheckError,
)

# Within it an axis has the size of the first array that names it.
CALL: Any = jaxtyping.jaxtyped("context")
MARK = "_checked_while_tests_run"

MOST_CALLS = 4
"""How many calls of each function are looked at in one test."""
CALLS: dict[int, int] = {}
"""How many calls the running test made; conftest.py empties this before each test."""


@dataclass(frozen=True)
class Seen:
    """What was seen of the calls of a function."""

    code: CodeType
    """Kept, so that no other has its id."""
    hints: dict[str, Any]
    """Its annotations, resolved."""
    passed: dict[Any, set[Any]] = field(default_factory=dict)
    """The arguments that passed, described, and the results of each."""

    @classmethod
    def of(cls, function: FunctionType) -> Seen:
        """Return the record of a function of which nothing was seen yet."""
        hints = {name: _hint(text, function) for name, text in function.__annotations__.items()}
        return cls(function.__code__, hints)

    @functools.cached_property
    def has_words(self) -> bool:
        """Whether an annotation is a ``Literal``."""
        return "Literal[" in str(self.hints)


SEEN: dict[int, Seen] = {}
"""What was seen of each function in all tests, by the id of its code."""


def checked(thing: Any) -> Any:
    """Return a function whose calls are checked, or a dataclass whose construction is checked."""
    if isinstance(thing, FunctionType):
        return _checked_calls(thing)
    if isinstance(thing, type) and is_dataclass(thing) and "__init__" in vars(thing):
        made: Any = thing
        made.__init__ = _checked_calls(made.__init__)
    return thing


def _checked_calls(function: FunctionType) -> Any:
    """Resolve annotations in the first call, when the names in them are defined."""
    if inspect.isgeneratorfunction(function):
        # beartype would look at arguments when the first item is asked for, in another call.
        return jaxtyping.jaxtyped(typechecker=beartype(conf=CONFIGURATION))(function)
    # A function in a function is made anew in each call of the outer one; its code is not.
    # Its id, because codes of equal dataclasses are equal.
    code = id(function.__code__)
    strict: Any = None
    strict_result: Any = None

    @functools.wraps(function)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        __tracebackhide__ = True
        nonlocal strict, strict_result
        n_calls = CALLS.get(code, 0)
        if n_calls >= MOST_CALLS or jaxtyping.config.jaxtyping_disable:
            return function(*arguments, **keywords)
        CALLS[code] = n_calls + 1
        seen = SEEN.get(code) or SEEN.setdefault(code, Seen.of(function))
        key = *map(described, arguments), *keywords, *map(described, keywords.values())
        if seen.has_words:
            values = (*arguments, *keywords.values())
            key += tuple(str(value) for value in values if isinstance(value, str | list | tuple))
        results = seen.passed.get(key)
        if results is None:
            if strict is None:
                function.__annotations__ = seen.hints
                strict = beartype(function, conf=CONFIGURATION)
            with CALL:
                result = strict(*arguments, **keywords)
            seen.passed[key] = {described(result)}
            return result
        result = function(*arguments, **keywords)
        kind = described(result)
        if kind not in results:
            function.__annotations__ = seen.hints
            strict_result = strict_result or _stand_in(function)
            RESULT.made = result
            with CALL:
                strict_result(*arguments, **keywords)
            results.add(kind)
        return result

    return wrapped


RESULT = threading.local()


def _stand_in(function: FunctionType) -> Any:
    """Return a function that checks the result of a call that was made already."""

    @functools.wraps(function)
    def made(*arguments: Any, **keywords: Any) -> Any:
        return RESULT.made

    return beartype(made, conf=CONFIGURATION)


MOST_ITEMS = 6
"""Of longer lists and tuples the first and the last item count; beartype looks at one of them."""


PLAIN: set[type] = set()
"""Types of which every value is as good as another."""


def described(value: Any) -> Any:
    """Return what the check of a value depends on, but for the words of a Literal."""
    kind = type(value)
    if kind in PLAIN:
        return kind
    if isinstance(value, np.ndarray):
        return kind, value.dtype, value.shape
    if isinstance(value, list | tuple):
        items = value if len(value) <= MOST_ITEMS else (value[0], value[-1])
        return kind, len(items), *map(described, items)
    if isinstance(value, dict):
        first = next(iter(value.items()), ())
        return kind, *map(described, first)
    if isinstance(value, type):
        return value
    PLAIN.add(kind)
    return kind


def _hint(annotation: Any, function: FunctionType) -> Any:
    """Return the value of an annotation; ``Any`` if only type checkers import its names."""

    def holder(value: Any) -> None: ...

    holder.__annotations__ = {"value": annotation}
    try:
        hint = get_type_hints(holder, function.__globals__, include_extras=True)["value"]
    except NameError:
        return Any
    # ArrayLike is a union, and from numpy 2.5 on a name for one.
    members, like_an_array = _members(hint), _members(npt.ArrayLike)
    if all(member in members for member in like_an_array):
        others = [member for member in members if member not in like_an_array]
        return Union[SomeArrayLike, *others]
    return hint


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union; of another hint, such as a mapping of arrays, itself."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


THIS_FILE = Path(__file__).read_bytes()


class CheckedModule(SourceFileLoader):
    """Loads a module with ``checked`` as the decorator of its functions and classes."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[MARK] = checked
        super().exec_module(module)

    def get_code(self, fullname: str) -> CodeType:
        # Not from Python's own bytecode on disk, which has no decorators; but beside it.
        path = self.get_filename(fullname)
        source = self.get_data(path)
        kept = Path(cache_from_source(path, optimization="checked"))
        key = hashlib.sha256(b"\0".join((THIS_FILE, path.encode(), source))).digest()
        if kept.exists() and (old := kept.read_bytes()).startswith(key):
            return marshal.loads(old[len(key) :])
        code = self.source_to_code(source, path)
        if not sys.dont_write_bytecode:
            # set_data writes whole files only, and not at all where it may not.
            self.set_data(str(kept), key + marshal.dumps(code))
        return code

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        tree = ast.parse(decode_source(data), path)
        for node in ast.walk(tree):
            # A function's own decorators may hide its annotations, a class needs its own first.
            if isinstance(node, ast.FunctionDef):
                node.decorator_list.append(_mark(node))
            elif isinstance(node, ast.ClassDef):
                node.decorator_list.insert(0, _mark(node))
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)


def _mark(node: ast.stmt) -> ast.expr:
    return ast.copy_location(ast.Name(MARK, ast.Load()), node)


PACKAGES = ("mixts", "mixts_serve", "mixts_paper")


class CheckedModules(MetaPathFinder):
    """Finds the modules of mixts before Python does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.split(".")[0] not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = CheckedModule(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Check every module of mixts that is imported from now on."""
    if "mixts" in sys.modules:
        raise RuntimeError("mixts is imported already, without checks on its shapes")
    sys.meta_path.insert(0, CheckedModules())
