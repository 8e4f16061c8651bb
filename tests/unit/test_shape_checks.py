"""The shapes in annotations are checked while tests run, and cost users nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import jaxtyping
import numpy as np
import pytest

import mixts
from mixts import errors
from mixts._random import stream
from mixts._typing import Array, ArrayLike, Float
from tests import shape_checks
from tests.shape_checks import CheckedModule, checked


@pytest.fixture(autouse=True)
def every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests make more calls of a function than other tests would look at."""
    monkeypatch.setattr(shape_checks, "MOST_CALLS", 100)


def test_every_module_is_checked_but_the_core() -> None:
    assert hasattr(mixts.MixturePrior.belief, "__wrapped__")  # which imports the families
    loaded = {name: m for name, m in sys.modules.items() if name.split(".")[0] == mixts.__name__}
    wrapped = {name for name, m in loaded.items() if isinstance(m.__loader__, CheckedModule)}
    assert wrapped == set(loaded) - {"mixts._core", "mixts._core_v3"}


def test_a_wrong_argument_meets_the_annotation() -> None:
    with pytest.raises(jaxtyping.TypeCheckError, match="seed"):
        stream("seven")


@checked
def product(x: Float[Array, "n d"], y: Float[Array, " d"]) -> Float[Array, " n"]:
    return x @ y


@checked
def rows(x: Float[Array, "n d"], like: ArrayLike | None = None) -> Iterator[Array]:
    yield from x


@checked
def broken(x: Float[Array, " n"]) -> Float[Array, " n"]:
    return x[1:]


@checked
@dataclass
class Pair:
    """Two vectors of one length."""

    one: Float[Array, " n"]
    other: Float[Array, " n"]

    @checked
    def swapped(self, again: Pair | None = None) -> Pair:
        return Pair(self.other, self.one)


@checked
def size(like: ArrayLike, more: ArrayLike | None = None) -> int:
    return len(np.atleast_1d(like))


A, B = np.zeros((3, 2)), np.zeros(2)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: product(A, np.zeros(3)),
        lambda: product(A, B.astype(int)),
        lambda: product(A, y=np.zeros((2, 1))),
        lambda: rows(B),
        lambda: broken(B),
        lambda: Pair(B, np.zeros(3)),
        lambda: Pair(B, B).swapped((B, B)),
        lambda: size(None),
        lambda: size({1, 2}),
        lambda: size(B, {1, 2}),
    ],
)
def test_what_is_wrong_is_found(wrong: Any) -> None:
    """Axes must agree between the arguments and the result of a call, also for generators."""
    with pytest.raises(jaxtyping.TypeCheckError, match=r"violates|Type-check"):
        wrong()


def test_what_is_right_is_left_alone() -> None:
    """Axes of different calls have nothing to do with each other, within each other too."""
    assert product(A, B).shape == (3,)
    assert product(np.zeros((5, 1)), np.zeros(1)).shape == (5,)
    assert [product(row[None], B).shape for row in rows(A)] == [(1,)] * 3
    assert Pair(B, B).swapped(Pair(A[0], A[1])).one is B
    assert [size(like) for like in (1, [1, 2], (1.0,), B, np.float64(3), "ab", range(3))] == [
        1, 2, 1, 2, 1, 1, 3,
    ]  # fmt: skip
    assert size(B, None) == 2


@checked
def without(x: Float[Array, " n"], rows: list[int], how: Literal["a", "b"]) -> Float[Array, " n"]:
    return np.delete(x, rows)


def test_a_call_like_an_earlier_one_is_checked_where_it_differs() -> None:
    """In the shape of its result, in an item, in a word, in a keyword."""
    for _ in range(2):
        assert without(B, [], "a").shape == (2,)
        assert without(B, rows=[], how="b").shape == (2,)
    for _ in range(2):
        with pytest.raises(jaxtyping.TypeCheckError, match="violates"):
            without(B, [0], "a")
        with pytest.raises(jaxtyping.TypeCheckError, match="rows"):
            without(B, ["x"], "a")
        with pytest.raises(jaxtyping.TypeCheckError, match="how"):
            without(B, [], "c")
        with pytest.raises(jaxtyping.TypeCheckError, match="rows='b'"):
            without(B, how=[], rows="b")


@checked
def cut(x: Float[Array, " n"]) -> Float[Array, " n"]:
    return x[: int(x[0])]


def test_the_results_of_equal_arguments_are_checked() -> None:
    assert cut(np.array([2.0, 1.0])).shape == (2,)
    for _ in range(2):
        with pytest.raises(jaxtyping.TypeCheckError, match="violates"):
            cut(np.array([1.0, 1.0]))


def test_a_function_made_anew_is_checked_where_its_calls_differ() -> None:
    """Each has its own values; what passed once passes for all of them."""

    def made(n: int) -> Any:
        @checked
        def first(x: Float[Array, " n"]) -> Float[Array, " n"]:
            return x[:n]

        return first

    assert [made(n)(np.zeros(2)).shape for n in (2, 3)] == [(2,), (2,)]
    for _ in range(2):
        with pytest.raises(jaxtyping.TypeCheckError, match="violates"):
            made(1)(np.zeros(2))
        with pytest.raises(jaxtyping.TypeCheckError, match="violates"):
            made(2)(np.zeros((2, 1)))


def test_equal_records_have_their_own_annotations() -> None:
    @checked
    @dataclass
    class One:
        x: Float[Array, " n"]

    @checked
    @dataclass
    class Other:
        x: Float[Array, "n n"]

    assert One.__init__.__wrapped__.__code__ == Other.__init__.__wrapped__.__code__
    One(np.zeros(2))
    with pytest.raises(jaxtyping.TypeCheckError, match="violates"):
        Other(np.zeros(2))


@pytest.mark.usefixtures("unchecked")
def test_unchecked_leaves_it_to_the_library() -> None:
    with pytest.raises(errors.ParameterError, match="seed"):
        stream("seven")


def test_without_jaxtyping_an_annotation_is_the_plain_array() -> None:
    script = (
        "import sys; sys.modules['jaxtyping'] = None\n"
        "from mixts._typing import Array, Bool, Float, Int\n"
        "assert [kind[Array, 'n d'] for kind in (Bool, Float, Int)] == [Array] * 3"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=300)
    assert done.returncode == 0
