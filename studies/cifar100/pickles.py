"""Python pickles of plain values and byte arrays, read without running anything they say.

A pickle is a program. These files need very little of its language: dictionaries, lists, tuples,
numbers, strings, and arrays of bytes as numpy writes them. Two gates let no more through. First
every instruction is looked at before any is executed, and one that such a file does not need is
refused. Then the few names that a file may call stand for functions of this module: no module is
imported on its behalf, and numpy never sees its arguments.
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
"""What dictionaries, lists, numbers, strings and arrays take in pickle protocols 2 to 4."""


def read_pickle(content: bytes, name: str) -> dict[str, Any]:
    """The dictionary in a pickle; Python 2's strings are bytes, and keys are text.

    ``name`` says in messages which file is meant.
    """
    try:
        _check_instructions(content)
        top = _Reader(io.BytesIO(content), encoding="bytes").load()
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from error
    # A broken pickle may raise anything, and so may the stand-ins when they are misused.
    except Exception as error:
        raise FormatError(f"{name} is no pickle of plain values, or damaged: {error}") from error
    if not isinstance(top, dict) or not all(isinstance(key, (str, bytes)) for key in top):
        raise FormatError(f"{name} must hold a dictionary with names as keys")
    return {text(key): _plain(value) for key, value in top.items()}


def text(value: str | bytes) -> str:
    """Python 2's strings, which come as bytes, and Python 3's alike."""
    return value.decode("latin1") if isinstance(value, bytes) else value


def _check_instructions(content: bytes) -> None:
    for opcode, argument, position in pickletools.genops(content):
        if opcode.name not in INSTRUCTIONS:
            raise FormatError(f"the pickle uses {opcode.name}, which images and labels do not need")
        # Entries of the memo are numbered one by one; memory is reserved up to the largest.
        if opcode.name == "LONG_BINPUT" and (argument or 0) > (position or 0):
            raise FormatError(f"the pickle numbers entry {argument} where fewer can be")


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _NAMES[module, name]
        except KeyError:
            raise FormatError(
                f"the pickle asks for {module}.{name}; only arrays of bytes are read, and nothing "
                "that a file names is run. Download the data set again"
            ) from None


class _Function:
    """What a name in a pickle stands for; a pickle can call it, and cannot change it."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> NoReturn:
        raise FormatError("the pickle tries to change a function")


class _ByteType:
    """Stands for numpy's type of unsigned bytes; what else numpy writes about it is known."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        return


class _ByteArray:
    """Stands for an array until its shape and bytes are known."""

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
    # Python 3 writes bytes so that Python 2 can read them.
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
