"""The core's sums over tasks: the numbers of the plain program, and errors for wrong arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from mixts import _program
from mixts.learning.models import coefficients, counts, gaussian
from mixts.learning.models.coefficients import LinearTasks, inverses
from tests.programs import CORE

pytestmark = pytest.mark.skipif(CORE is None, reason="the compiled core is not installed")


def both(function: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[list[np.ndarray]]:
    """Call a function with each program, and return its arrays."""
    found = []
    for core in (CORE, None):
        monkeypatch.setattr(_program, "core", core)
        found.append([np.asarray(array) for array in flat(function())])
    return found


def flat(result: Any) -> list[Any]:
    return [x for part in result for x in flat(part)] if isinstance(result, tuple) else [result]


def agree(found: list[list[np.ndarray]], size: float = 0.0) -> None:
    """Compare arrays, relative to the largest number of each or to the size of what it is from."""
    for core, plain in zip(*found, strict=True):
        scale = max(size, np.abs(plain).max(initial=0.0))
        np.testing.assert_allclose(core, plain, rtol=1e-12, atol=1e-12 * scale)


# -- linear tasks ---------------------------------------------------------------------------------


def linear(n: int, d: int, n_components: int, shared: bool) -> dict[str, Any]:
    """Tasks of 2 d observations each, and components."""
    rng = np.random.default_rng(n + d)
    data = rng.normal(size=(n, 2 * d, d + 1))
    factor = np.linalg.qr(data, mode="r") if d > 1 else np.triu(data[:, : d + 1])
    upper = factor[:, :d, :d]
    gram = np.ascontiguousarray(np.swapaxes(upper, 1, 2) @ upper)
    root = rng.normal(size=(1 if shared else n_components, d, 2 * d))
    precision, log_det = inverses(root @ np.swapaxes(root, 1, 2))
    share = rng.dirichlet(np.full(n_components, 0.1), n)
    share[share < 1e-3] = 0.0
    return {
        "tasks": LinearTasks(np.ascontiguousarray(factor), gram),
        "mean": rng.normal(size=(n_components, d)),
        "precision": precision,
        "half": -log_det / 2,
        "share": share,
        "sharp": share * rng.random(share.shape),
    }


SIZES = [(1, 1, 1), (9, 3, 2), (40, 11, 3), (8, 40, 2)]
"""Numbers of tasks, features and components."""


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_linear_tasks_agree(
    sizes: tuple[int, int, int], shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = linear(*sizes, shared)
    tasks, mean, precision = given["tasks"], given["mean"], given["precision"]
    found = both(
        lambda: coefficients.evidence_of_tasks(tasks, mean, precision, given["half"], 0.3),
        monkeypatch,
    )
    agree(found, size=float(found[1][2]) / 0.3)

    def moments() -> Any:
        misfit, (first, second, within) = coefficients.moments_of_tasks(
            tasks, given["share"], given["sharp"], mean, precision, 0.3
        )
        return misfit, first, coefficients.whole(second), coefficients.whole(within)

    agree(both(moments, monkeypatch))


def test_a_determinant_beyond_the_range_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product of forty precisions of 1e20 is 1e800."""
    given = linear(9, 40, 1, False)
    precision = 1e20 * np.eye(40)[None]
    half = np.array([20 * np.log(1e20)])
    found = both(
        lambda: coefficients.evidence_of_tasks(given["tasks"], given["mean"], precision, half, 1.0),
        monkeypatch,
    )
    agree(found, size=float(half[0]))
    assert np.abs(found[0][0]).max() < 1e-10


def test_no_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    given = linear(3, 2, 2, False)
    none = LinearTasks(*(array[:0] for array in given["tasks"]))
    share = given["share"][:0]
    agree(
        both(
            lambda: (
                coefficients.evidence_of_tasks(
                    none, given["mean"], given["precision"], given["half"], 1.0
                ),
                coefficients.moments_of_tasks(
                    none, share, share, given["mean"], given["precision"], 1.0
                ),
            ),
            monkeypatch,
        )
    )


# -- counts and arms ------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [5, 10**8])
def test_sums_of_counts_agree(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(largest)
    columns = rng.integers(0, largest, (200, 3))
    columns[:, 1] = 0
    levels = counts.Levels.of(columns)
    share = rng.random((200, 2))
    start = 10.0 ** rng.uniform(-6, 6, (3, 2))

    def sums() -> Any:
        return levels.rising(levels.entries @ share, start, derivatives=True)

    found = both(sums, monkeypatch)
    agree(found)
    for i, f in enumerate((special.gammaln, special.psi, counts.trigamma)):
        later = f(start + columns[:, :, None]) - f(start)
        expected = (share[:, None] * np.where(columns[:, :, None] > 0, later, 0.0)).sum(axis=0)
        # gammaln of 1e8 is 1e9, of which the last digit is 1e-7.
        scale = np.abs(f(start + columns.max())).max() * len(columns)
        np.testing.assert_allclose(found[0][0][i], expected, rtol=1e-9, atol=1e-15 * scale)


def test_arms_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    count = rng.integers(0, 4, (300, 5)) * 10 ** rng.integers(0, 7, (300, 5))
    average = rng.normal(size=count.shape) * (count > 0)
    mean, variance = rng.normal(size=(3, 5)), 10.0 ** rng.uniform(-6, 6, (3, 5))
    share = rng.dirichlet(np.ones(3), 300)
    sharp = share * rng.random(share.shape)
    monkeypatch.setattr(gaussian, "BLOCK", 200)
    agree(both(lambda: gaussian.arm_evidence(count, average, mean, variance, 0.5), monkeypatch))
    agree(
        both(
            lambda: gaussian.arm_moments(count, average, share, sharp, mean, variance, 0.5),
            monkeypatch,
        )
    )


# -- hostile input --------------------------------------------------------------------------------


def calls() -> dict[str, list[Any]]:
    """Return good arguments of each function of the core."""
    given = linear(4, 2, 3, False)
    mean, precision, share = given["mean"], given["precision"], given["share"]
    tasks, n, d = list(given["tasks"]), 3, 2
    sums = [np.zeros((n, d)), np.zeros((n, d, d)), np.zeros((n, d, d))]
    pair = [np.zeros((4, n)), np.zeros((4, n))]
    arms = [np.ones((4, 2), np.int64), np.zeros((4, 2))]
    parameters = [np.zeros((n, 2)), np.ones((n, 2)), 1.0]
    return {
        "linear_evidence": [*tasks, mean, precision, given["half"], 1.0, *pair],
        "posterior_moments": [*tasks, share, share, mean, precision, 1.0, *sums],
        "log_rising": [np.ones(n), np.ones(n), np.zeros(n)],
        "rising_sums": [
            np.array([0, 1]), np.ones(2), np.ones((2, n)), np.ones((2, n)), True,
            np.zeros((3, 2, n)),
        ],
        "arm_evidence": [*arms, *parameters, *pair],
        "arm_moments": [*arms, share, share, *parameters, *(np.zeros((n, 2)) for _ in range(4))],
    }  # fmt: skip


ARRAYS = [
    (name, place)
    for name, arguments in (calls().items() if CORE is not None else ())
    for place, argument in enumerate(arguments)
    if isinstance(argument, np.ndarray)
]


@pytest.mark.parametrize("name", calls())
def test_good_arguments_are_accepted(name: str) -> None:
    getattr(CORE, name)(*calls()[name])


@pytest.mark.parametrize(("name", "place"), ARRAYS)
def test_wrong_arrays_are_refused(name: str, place: int) -> None:
    function, good = getattr(CORE, name), calls()[name]
    array = good[place]
    one_more = np.zeros((*array.shape, 1), array.dtype)
    other_type = array.astype(np.float32 if array.dtype == np.float64 else np.int32)
    strided = np.repeat(array, 2, axis=-1)[..., ::2]
    for bad in (one_more, other_type, strided, None, "x", [1.0]):
        with pytest.raises(TypeError):
            function(*good[:place], bad, *good[place + 1 :])
    for axis in range(array.ndim):
        # An axis that other arrays follow, instead of being checked, makes those wrong.
        longer = np.concatenate([array, array.take([0], axis)], axis)
        with pytest.raises(ValueError, match="must have size"):
            function(*good[:place], longer, *good[place + 1 :])


@pytest.mark.parametrize("column", [-1, 2, 2**62])
def test_columns_that_do_not_exist_are_refused(column: int) -> None:
    good = calls()["rising_sums"]
    with pytest.raises(IndexError, match="column must be from 0 to 1"):
        CORE.rising_sums(np.array([0, column]), *good[1:])


@pytest.mark.parametrize(("place", "bad"), [(1, -1.0), (1, np.nan), (3, 0.0), (3, np.nan), (3, -9)])
def test_gamma_functions_of_other_numbers_are_refused(place: int, bad: float) -> None:
    good = calls()["rising_sums"]
    good[place].flat[0] = bad
    with pytest.raises(ValueError, match="must"):
        CORE.rising_sums(*good)


@pytest.mark.parametrize("noise", [0.0, -1.0, np.nan])
def test_a_noise_that_is_not_positive_is_refused(noise: float) -> None:
    good = calls()["linear_evidence"]
    with pytest.raises(ValueError, match="noise must be positive"):
        CORE.linear_evidence(*good[:5], noise, *good[6:])


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_numbers_that_are_not_finite_do_no_harm(bad: float) -> None:
    for name, good in calls().items():
        for argument in good:
            if (
                isinstance(argument, np.ndarray)
                and argument.dtype == float
                and name != "rising_sums"
            ):
                argument[...] = bad
        getattr(CORE, name)(*good)
