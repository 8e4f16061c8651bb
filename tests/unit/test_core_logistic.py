"""The core's bindings of clicks with features refuse wrong arrays, and never read beyond them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.programs import CORE

pytestmark = pytest.mark.skipif(CORE is None, reason="the compiled core is not installed")

N, D, K = 2, 3, 4
WRONG = (TypeError, ValueError, IndexError)


def points() -> Any:
    return CORE.LogisticPoints(np.random.default_rng(0).standard_normal((D, 256)))


def design(**other: Any) -> Any:
    arrays = {
        "mean": np.zeros((N, D)), "root": np.eye(D)[None].copy(), "group_of": np.zeros(N, np.int64),
        "points": points(),
    }  # fmt: skip
    return CORE.LogisticDesign(*(arrays | other).values())


def posterior() -> Any:
    return CORE.LogisticPosterior(design(), 256)


def table(n: int = 5, d: int = D) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((n, d)), np.ones(n), np.zeros(n)


EVERY = np.ones(N, bool)


@pytest.mark.parametrize(
    "shape", [(0, 128), (3, 0), (3, 100), (3,), (1, 3, 128)], ids=str
)  # fmt: skip
def test_points_are_chunks_of_128(shape: tuple[int, ...]) -> None:
    with pytest.raises(WRONG):
        CORE.LogisticPoints(np.zeros(shape))


@pytest.mark.parametrize("other", [
    {"mean": np.zeros((N, D + 1))}, {"mean": np.zeros(N)},
    {"root": np.zeros((1, D, D + 1))}, {"root": np.zeros((D, D))},
    {"group_of": np.ones(N, np.int64)}, {"group_of": -np.ones(N, np.int64)},
    {"group_of": np.zeros(N + 1, np.int64)}, {"group_of": np.zeros(N, np.int32)},
    {"points": np.zeros((D, 128))}, {"points": None},
], ids=str)  # fmt: skip
def test_designs_fit_together(other: dict[str, Any]) -> None:
    with pytest.raises((*WRONG, RuntimeError)):
        design(**other)


@pytest.mark.parametrize("capacity", [0, -128, 100, 384, 2**40])
def test_capacities_are_those_of_the_points(capacity: int) -> None:
    with pytest.raises(WRONG):
        CORE.LogisticPosterior(design(), capacity)


@pytest.mark.parametrize("wrong", [
    (*table(d=D + 1), EVERY), (table()[0], np.ones(4), np.zeros(5), EVERY),
    (table()[0], np.ones(5), np.zeros(6), EVERY), (*table(), np.ones(N + 1, bool)),
], ids=range(4))  # fmt: skip
def test_tables_fit_the_design(wrong: tuple[Any, ...]) -> None:
    out = posterior()
    with pytest.raises(WRONG):
        out.find_modes(*wrong)
    with pytest.raises(WRONG):
        out.integrate(*wrong, 0.1, 256)


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e308, -1e200, 1e75], ids=str)
@pytest.mark.parametrize("at", ["rows", "trials", "successes", "mean", "root"])
def test_the_search_for_a_mode_ends(value: float, at: str) -> None:
    for n in (5, 2):  # more rows than features, and fewer
        arrays = dict(zip(("rows", "trials", "successes"), table(n), strict=True))
        prior = {"mean": np.zeros((N, D)), "root": np.eye(D)[None].copy()}
        (arrays | prior)[at][0] = value
        out = CORE.LogisticPosterior(design(**prior), 256)
        out.find_modes(*arrays.values(), EVERY)
        out.integrate(*arrays.values(), EVERY, 0.1, 256)


def test_a_posterior_is_used_with_its_own_table() -> None:
    out = posterior()
    out.find_modes(*table(), EVERY)
    theta, rng = np.empty((2, D)), np.random.default_rng(0)
    some = np.zeros(2, np.int64)
    for other in (table(1), table(0)):
        with pytest.raises(ValueError, match="not that of the posterior"):
            out.integrate(*other, EVERY, 0.1, 256)
        with pytest.raises(ValueError, match="not that of the posterior"):
            out.weigh(*other, np.full(N, 128))
        with pytest.raises(ValueError, match="not that of the posterior"):
            out.draw(*other, some, rng, theta, 0.1, 256)


@pytest.mark.parametrize("most", [0, -1, 100, 512, 2**62])
def test_points_stay_within_the_capacity(most: int) -> None:
    out = posterior()
    out.find_modes(*table(), EVERY)
    with pytest.raises(ValueError, match="multiple of 128"):
        out.integrate(*table(), EVERY, 0.0, most)
    if most:
        with pytest.raises(ValueError, match="multiple of 128"):
            out.weigh(*table(), np.array([128, most]))


def test_draws_and_moments_are_of_components_that_exist() -> None:
    out, rng = posterior(), np.random.default_rng(0)
    out.find_modes(*table(), EVERY)
    for latent, theta in (
        (np.array([N]), np.empty((1, D))), (np.array([-1]), np.empty((1, D))),
        (np.array([0, 0]), np.empty((1, D))), (np.array([0]), np.empty((1, D + 1))),
        (np.array([0.0]), np.empty((1, D))),
    ):  # fmt: skip
        with pytest.raises(WRONG):
            out.draw(*table(), latent, rng, theta, 0.1, 256)
    with pytest.raises((*WRONG, AttributeError)):
        out.draw(*table(), np.array([0]), None, np.empty((1, D)), 0.1, 256)
    mean, covariance = np.empty(D), np.empty((D, D))
    with pytest.raises(ValueError, match="no moments"):
        out.parameter_moments(0, mean, covariance)
    out.integrate(*table(), EVERY, 0.1, 256)
    for wrong in ((N, mean, covariance), (-1, mean, covariance), (0, mean[:2], covariance),
                  (0, mean, covariance[:2])):  # fmt: skip
        with pytest.raises(WRONG):
            out.parameter_moments(*wrong)
    actions = np.zeros((K, D))
    with pytest.raises(WRONG):
        out.action_moments(actions[:, :2].copy(), np.empty((4, N, K)))
    for shape in ((3, N, K), (4, N + 1, K), (4, N, K + 1)):
        with pytest.raises(WRONG):
            out.action_moments(actions, np.empty(shape))
    mask, gain = np.arange(K) != 1, np.empty(N)
    for bad in ((actions[:, :2].copy(), mask, 0, gain), (actions, mask[1:], 0, gain),
                (actions, mask, K, gain), (actions, mask, -1, gain), (actions, mask, 1, gain),
                (actions, mask, 0, gain[1:])):  # fmt: skip
        with pytest.raises(WRONG):
            out.gains(*bad)


def test_decisions_have_an_entry_for_each_component() -> None:
    out = posterior()
    good = [np.zeros(N), np.zeros(N), np.zeros(N)]
    out.compute(*table(), *good, 4.0, 0.02, 256)
    for i in range(3):
        wrong = [*good[:i], np.zeros(N + 1), *good[i + 1 :]]
        with pytest.raises(ValueError, match="must have size"):
            out.compute(*table(), *wrong, 4.0, 0.02, 256)
    with pytest.raises(ValueError, match="multiple of 128"):
        out.compute(*table(), *good, 4.0, 0.02, 1024)


def results(n: int) -> list[Any]:
    return [np.empty((n, N)), np.empty((n, N)), np.empty((n, N, D)), np.empty((n, N, D, D))]


@pytest.mark.parametrize("offsets", [
    np.array([0, 6]), np.array([-1, 5]), np.array([3, 2]), np.zeros(0, np.int64),
    np.array([0.0, 5.0]),
], ids=str)  # fmt: skip
def test_tasks_lie_within_the_rows(offsets: Any) -> None:
    n = max(len(offsets) - 1, 0)
    out = np.ones((n, N), bool), np.zeros((n, N, D)), *results(n)
    with pytest.raises(WRONG):
        CORE.logistic_moments(design(), offsets, *table(), 0.1, 256, *out)
    found = [np.empty((5, N)) for _ in range(5)]
    prior = np.zeros((N, D)), np.zeros((N, D, D)), np.zeros((2, 8))
    with pytest.raises(WRONG):
        CORE.logistic_predictions(offsets, *table(), *prior, *found)


def test_results_of_tasks_have_their_sizes() -> None:
    offsets, out = np.array([0, 5]), [np.ones((1, N), bool), np.zeros((1, N, D)), *results(1)]
    CORE.logistic_moments(design(), offsets, *table(), 0.1, 256, *out)
    for i, array in enumerate(out):
        wrong = [*out[:i], np.repeat(array, 2, axis=-1), *out[i + 1 :]]
        with pytest.raises(ValueError, match="must have size"):
            CORE.logistic_moments(design(), offsets, *table(), 0.1, 256, *wrong)
    with pytest.raises(ValueError, match="must have size"):
        CORE.logistic_moments(
            design(), offsets, *table(), 0.1, 256, out[0], np.zeros((2, N, D)), *out[2:]
        )
    with pytest.raises(ValueError, match="multiple of 128"):
        CORE.logistic_moments(design(), offsets, *table(), 0.1, 512, *out)


def test_counted_rows_stay_within_their_tables() -> None:
    def arrays(**other: Any) -> tuple[Any, ...]:
        found = {
            "first": 0, "tasks": np.array([0, 1]), "features": np.ones((2, D)),
            "trials": np.ones(2, np.int64), "successes": np.zeros(2, np.int64),
            "start": np.array([0, 2]), "size": np.zeros(2, np.int64), "room": np.array([2, 2]),
            "rows": np.zeros((4, D)), "all_trials": np.zeros(4, np.int64),
            "all_successes": np.zeros(4, np.int64),
        }  # fmt: skip
        return tuple((found | other).values())

    assert CORE.count_rows(*arrays()) == 2
    assert CORE.count_rows(*arrays(room=np.zeros(2, np.int64))) == 0
    for other in (
        {"first": 3}, {"first": -1}, {"tasks": np.array([0, 2])}, {"tasks": np.array([0, -1])},
        {"features": np.ones((2, D + 1))}, {"features": np.ones((1, D))},
        {"trials": np.ones(3, np.int64)}, {"successes": np.ones(2)}, {"start": np.array([0, 3])},
        {"start": np.array([-1, 2])}, {"size": np.array([3, 0])}, {"size": np.array([-1, 0])},
        {"room": np.array([2, 2**62])}, {"room": np.array([2])}, {"rows": np.zeros((3, D))},
        {"all_trials": np.zeros(3, np.int64)}, {"all_successes": np.zeros(4)},
    ):  # fmt: skip
        with pytest.raises(WRONG):
            CORE.count_rows(*arrays(**other))
