"""The compiled quadrature refuses arrays that do not fit, and survives any numbers in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.programs import CORE

pytestmark = pytest.mark.skipif(CORE is None, reason="the compiled core is not installed")

WRONG = (TypeError, ValueError, IndexError)
ODD_NUMBERS = (np.nan, np.inf, -np.inf, 0.0, -1.0, -1e300, 1e300, 5e-324)


def arguments(name: str) -> list[Any]:
    """Return arguments that fit, for 2 decisions, 3 components and 4 arms."""
    rng = np.random.default_rng(1)
    weights, parameters = np.full((2, 3), 1 / 3), rng.uniform(1, 2, (2, 2, 3, 4))
    mask = np.ones((2, 4), bool)
    matrix = rng.uniform(1, 2, (2, 4))
    given: dict[str, list[Any]] = {
        "best_arms": [1, parameters, weights, mask, np.empty((2, 4)), np.empty(2), np.empty(2)],
        "mixture_quantiles": [
            weights, parameters, np.full(2, 0.9), np.full(2, 1.28), 1e-12, np.empty((2, 4)),
        ],
        "estimates": [
            weights, parameters, 0.5, rng.normal(size=(2, 5, 4)), np.array([3, 0]),
            np.empty((2, 5, 4)),
        ],
        "least_ratio": [matrix, matrix[:, ::-1].copy(), mask, np.empty((2, 4))],
        "elementary_functions": [np.ones(3), np.empty((3, 3))],
    }  # fmt: skip
    return given[name]


FUNCTIONS = ("best_arms", "mixture_quantiles", "estimates", "least_ratio", "elementary_functions")


def wrong_arrays(array: Any) -> list[Any]:
    """Return arrays of another size, number of axes, type or layout, and things that are none."""
    sizes = [np.delete(array, 0, axis) for axis in range(array.ndim)]
    sizes += [np.concatenate([array, array], axis) for axis in range(array.ndim)]
    turned = [np.repeat(array, 2, axis=-1)[..., ::2]]
    others = [array[None], array.astype(np.float32), array.astype(complex), array.tolist(), None]
    return [*sizes, *turned, *others]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arrays_that_do_not_fit_are_refused(name: str) -> None:
    call, given = getattr(CORE, name), arguments(name)
    call(*given)
    for i, value in enumerate(given):
        if isinstance(value, np.ndarray):
            for wrong in wrong_arrays(value):
                with pytest.raises(WRONG):
                    call(*given[:i], wrong, *given[i + 1 :])
    with pytest.raises(TypeError):
        call(*given[:-1])


@pytest.mark.parametrize("form", [-1, 4, 2**62, 1.5, "1", None])
def test_unknown_forms_are_refused(form: Any) -> None:
    with pytest.raises(WRONG):
        CORE.best_arms(form, *arguments("best_arms")[1:])


def test_results_are_not_written_to_read_only_arrays() -> None:
    for name in FUNCTIONS:
        given = arguments(name)
        given[-1].flags.writeable = False
        with pytest.raises(TypeError):
            getattr(CORE, name)(*given)


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize("odd", ODD_NUMBERS)
def test_odd_numbers_end(form: int, odd: float) -> None:
    """Any number in any array: the loops end, and other decisions are not touched."""
    given = arguments("best_arms")
    given[0] = form
    CORE.best_arms(*given)
    expected = given[4][1].copy()
    for i in (1, 2):
        for place in range(2):
            changed = [x.copy() if isinstance(x, np.ndarray) else x for x in given]
            changed[i].reshape(2, -1)[place if i == 1 else 0, 0] = odd
            CORE.best_arms(*changed)
            np.testing.assert_array_equal(changed[4][1], expected)


@pytest.mark.parametrize("odd", ODD_NUMBERS)
@pytest.mark.parametrize("name", ["mixture_quantiles", "estimates", "least_ratio"])
def test_odd_numbers_of_mixtures_end(name: str, odd: float) -> None:
    for i in range(len(arguments(name)) - 1):
        given = arguments(name)
        if isinstance(given[i], float):
            given[i] = odd
        elif given[i].dtype == float:
            given[i].reshape(-1)[0] = odd
        getattr(CORE, name)(*given)


def test_nothing_available_and_nothing_at_all() -> None:
    given = arguments("best_arms")
    given[3] = np.zeros((2, 4), bool)
    CORE.best_arms(*given)
    assert np.isnan(given[4]).all()
    sizes: list[tuple[int, int, int]] = [(0, 3, 4), (2, 0, 4), (2, 3, 0)]
    for m, n_components, n_arms in sizes:
        CORE.best_arms(
            0, np.ones((2, m, n_components, n_arms)), np.ones((m, n_components)),
            np.ones((m, n_arms), bool), np.empty((m, n_arms)), np.empty(m), np.empty(m),
        )  # fmt: skip
        CORE.least_ratio(*(np.ones((m, n_arms), t) for t in (float, float, bool, float)))


def test_both_builds_give_the_same_bits() -> None:
    core = pytest.importorskip("mixts._core")
    for form in range(4):
        given, other = arguments("best_arms"), arguments("best_arms")
        given[0] = other[0] = form
        CORE.best_arms(*given)
        core.best_arms(*other)
        for a, b in zip(given[4:], other[4:], strict=True):
            np.testing.assert_array_equal(a, b)
