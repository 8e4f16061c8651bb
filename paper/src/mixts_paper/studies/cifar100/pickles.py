"""Safe reader of Python pickles that hold plain values and byte arrays.

A pickle is a program. The files of CIFAR-100 need very little of its language: dictionaries, lists,
tuples, numbers, strings, and arrays of bytes as numpy writes them. The reader allows nothing else,
by two checks. First it lists all instructions before it executes any, and refuses instructions that
such a file does not need. Then it replaces the few functions that a file may call by functions of
this module: a file imports no module, and numpy never gets its arguments.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from mixts.errors import FormatError

INSTRUCTIONS = frozenset({
    "PROTO", "FRAME", "STOP", "MARK",
    "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2",
    "SHORT_BINSTRING", "BINSTRING", "SHORT_BINUNICODE", "BINUNICODE", "SHORT_BINBYTES", "BINBYTES",
    "EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "APPEND", "APPENDS",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET",
    "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD",
})  # fmt: skip
"""Instructions for dictionaries, lists, numbers, strings and arrays in pickle protocols 2 to 4."""


def read_pickle(content: bytes, name: str) -> dict[str, Any]:
    """Return the dictionary in a pickle; keys become text, other strings of Python 2 stay bytes.

    ``name`` is the file's name for error messages.
    """
    try:
        _check_instructions(content)
        top = _Reader(io.BytesIO(content), encoding="bytes").load()
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from error
    # A broken pickle may raise any exception, and so may the functions below if it misuses them.
    except Exception as error:
        raise FormatError(
            f"{name} is not a pickle of plain values, or is damaged: {error}"
        ) from error
    if not isinstance(top, dict) or not all(isinstance(key, (str, bytes)) for key in top):
        raise FormatError(f"{name} must hold a dictionary with names as keys")
    return {text(key): _plain(value) for key, value in top.items()}


def text(value: str | bytes) -> str:
    """Return a string of Python 3, or of Python 2, which is read as bytes, as text."""
    return value.decode("latin1") if isinstance(value, bytes) else value


def _check_instructions(content: bytes) -> None:
    for opcode, argument, position in pickletools.genops(content):
        if opcode.name not in INSTRUCTIONS:
            raise FormatError(f"the pickle uses {opcode.name}, which images and labels do not need")
        # The unpickler allocates memory up to the largest memo index. Honest indices count up from
        # 0, one per instruction, so they are never larger than the position in the file.
        if opcode.name == "LONG_BINPUT" and (argument or 0) > (position or 0):
            raise FormatError(f"the pickle uses memo index {argument}, expected at most {position}")


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _NAMES[module, name]
        except KeyError:
            raise FormatError(
                f"the pickle asks for {module}.{name}, but this reader reads only arrays of bytes "
                "and runs nothing that a file names: download the data set again"
            ) from None


class _Function:
    """Function of this module that a pickle may call but not change."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> NoReturn:
        raise FormatError("the pickle tries to change a function")


class _ByteType:
    """Replacement of numpy's type of unsigned bytes; it ignores the details that numpy adds."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        return


class _ByteArray:
    """Replacement of a numpy array, until the pickle gives its shape and bytes."""

    __slots__ = ("values",)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, raw = state
        if not isinstance(dtype, _ByteType) or not isinstance(raw, bytes):
            raise FormatError("an array in the pickle is not of unsigned bytes")
        sides = isinstance(shape, tuple) and all(type(side) is int and side >= 0 for side in shape)
        if not sides or math.prod(shape) != len(raw):
            raise FormatError(
                f"an array in the pickle has shape {shape!r} and {len(raw)} bytes: it is damaged"
            )
        self.values = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


def _encode(value: Any, encoding: Any) -> bytes:
    # Python 3 writes bytes as encoded text, for readers in Python 2.
    if not isinstance(value, str) or text(encoding) not in ("latin1", "latin-1"):
        raise FormatError(f"the pickle encodes something as {encoding!r}, expected latin1")
    return value.encode("latin1")


def _byte_type(code: Any, *_: Any) -> _ByteType:
    if text(code) not in ("u1", "|u1", "uint8"):
        raise FormatError(f"the pickle has an array of type {text(code)!r}, expected u1 (bytes)")
    return _ByteType()


def _plain(value: Any) -> Any:
    return value.values if isinstance(value, _ByteArray) else value


_RECONSTRUCT = _Function(lambda *_: _ByteArray())

_NAMES: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,  # numpy 1
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,  # numpy 2
    ("numpy", "ndarray"): "numpy.ndarray",  # an argument of _reconstruct, never called
    ("numpy", "dtype"): _Function(_byte_type),
    ("_codecs", "encode"): _Function(_encode),
}
