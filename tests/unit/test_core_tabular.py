"""The core's MDPs refuse arrays that do not fit, and change nothing then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixts import _program

core = _program.core
pytestmark = pytest.mark.skipif(core is None, reason="the compiled core is not installed")

N, X, A, L, H = 3, 4, 2, 2, 5
Q, P = X * A * (2 + X), X * A * (1 + X)


def given(**other: Any) -> list[Any]:
    """Return the arguments of TabularTasks."""
    arguments = {
        "rewards": np.zeros((N, X, A, 2), np.int64),
        "transitions": np.zeros((N, X, A, X), np.int64),
        "prior": np.ones((L, Q)),
        "log_weights": np.log([0.5, 0.5]),
        "evidence": np.zeros((N, L)),
        "n_since": np.zeros(N, np.int64),
        "horizon": H,
    }
    return list((arguments | other).values())


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "other",
    [
        {"rewards": np.zeros((N, X, A, 3), np.int64)},
        {"rewards": np.zeros((N, X, 0, 2), np.int64)},
        {"rewards": np.zeros((N, X, A, 2))},
        {"rewards": read_only(np.zeros((N, X, A, 2), np.int64))},
        {"transitions": np.zeros((N, X, A, X + 1), np.int64)},
        {"transitions": np.zeros((N, X, A, 2 * X), np.int64)[..., ::2]},
        {"prior": np.ones((L, Q - 1))},
        {"prior": np.ones((0, Q))},
        {"prior": np.full((L, Q), np.nan)},
        {"prior": np.full((L, Q), -1.0)},
        {"log_weights": np.zeros(L + 1)},
        {"evidence": np.zeros((N, L + 1))},
        {"evidence": np.zeros((N - 1, L))},
        {"n_since": np.zeros(N - 1, np.int64)},
        {"horizon": -1},
        {"horizon": None},
    ],
    ids=lambda other: next(iter(other)),
)
def test_arrays_that_do_not_fit_are_refused(other: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        core.TabularTasks(*given(**other))


def whole(*shape: int) -> Any:
    return np.zeros(shape, np.int64)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("refresh", [np.array([N])]),
        ("refresh", [np.array([-1])]),
        ("refresh", [np.array([0.0])]),
        ("observe", [whole(1), whole(2, H), whole(2, H), np.zeros((2, H)), None]),
        ("observe", [whole(2), whole(2, H + 2), whole(2, H), np.zeros((2, H)), None]),
        ("observe", [whole(2), whole(2, H), whole(2, H), np.zeros((2, H - 1)), None]),
        ("observe", [whole(2), whole(2, H), whole(2, H), np.zeros((2, H)), np.array([H + 1, 0])]),
        ("observe", [whole(2), whole(2, H), whole(2, H), np.zeros((2, H)), np.array([-1, 0])]),
        ("observe", [np.array([0, N]), whole(2, H), whole(2, H), np.zeros((2, H)), None]),
        ("observe", [whole(2), whole(1, 2, H), whole(2, H), np.zeros((2, H)), None]),
        ("update_one", [whole(H), whole(H), np.zeros(H - 1)]),
        ("posterior_counts", [whole(1), np.array([L]), np.zeros((1, Q))]),
        ("posterior_counts", [whole(1), whole(1), np.zeros((1, Q - 1))]),
        ("sample", [None, whole(1), whole(1), np.zeros((1, P))]),
        ("sample", [np.random.default_rng(1), whole(1), whole(2), np.zeros((1, P))]),
        ("act", [np.random.default_rng(1), whole(1), whole(1), whole(1, H, X + 1)]),
        ("act", [np.random.default_rng(1), whole(1), read_only(whole(1)), whole(1, H, X)]),
        ("act_one", [np.random.default_rng(1), whole(H + 1, X)]),
        ("act_one", [np.random.default_rng(1).bit_generator, whole(H, X)]),
    ],
)  # fmt: skip
def test_calls_that_do_not_fit_are_refused(method: str, arguments: list[Any]) -> None:
    arrays = given()
    tasks = core.TabularTasks(*arrays)
    with pytest.raises((TypeError, ValueError, IndexError, AttributeError)):
        getattr(tasks, method)(*arguments)
    for array, before in zip(arrays, given(), strict=True):
        np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize(
    "wrong", [{"state": X}, {"state": -1}, {"state": 2**63 - 1}, {"action": A}, {"reward": 0.5},
              {"reward": np.nan}],
    ids=str,
)  # fmt: skip
def test_an_episode_out_of_range_is_not_learned(wrong: dict[str, Any]) -> None:
    """The first episode is fine; nothing is learned from it either."""
    arrays = given()
    states, actions, rewards = whole(2, H + 1), whole(2, H), np.zeros((2, H))
    states[1, 3] = wrong.get("state", 0)
    actions[1, 3] = wrong.get("action", 0)
    rewards[1, 3] = wrong.get("reward", 0.0)
    assert not core.TabularTasks(*arrays).observe(np.array([2, 1]), states, actions, rewards, None)
    for array, before in zip(arrays, given(), strict=True):
        np.testing.assert_array_equal(array, before)


def test_plans_and_episodes_that_do_not_fit_are_refused() -> None:
    mdps, policy, values = np.full((N, P), 1 / X), whole(N, H, X), np.zeros((N, H, X))
    uniform, states, rewards = np.zeros((N, 2 * H + 1)), whole(N, H + 1), np.zeros((N, H))
    initial, actions, refused = np.full(X, 1 / X), whole(N, H), (TypeError, ValueError, IndexError)
    core.plan_mdps(mdps, A, None, policy, values)
    for wrong in (
        (mdps, A + 1, None, policy, values),
        (mdps, 0, None, policy, values),
        (mdps[:, 1:].copy(), A, None, policy, values),
        (mdps, A, np.zeros(1, np.uint64), policy, values),
        (mdps, A, None, policy[1:], values),
        (mdps, A, None, policy, values[..., 1:].copy()),
        (np.zeros((0, 2**40)), 2**39, None, whole(0, 1, 2**40), None),
    ):
        with pytest.raises(refused):
            core.plan_mdps(*wrong)
    assert core.evaluate_policies(mdps, A, policy, values)
    assert not core.evaluate_policies(mdps, A, policy + A, values)
    with pytest.raises(refused):
        core.evaluate_policies(mdps, A, policy[:2], values)
    episode = (uniform, states, actions, rewards, A)
    core.play_episodes(mdps, initial, policy, *episode)
    for wrong in (
        (mdps, initial, policy - 1, *episode),
        (mdps, initial, policy + A, *episode),
        (mdps, initial[1:], policy, *episode),
        (mdps, initial, policy, uniform[:, 1:].copy(), *episode[1:]),
        (mdps, initial, policy, uniform, states[:, 2:].copy(), actions, rewards, A),
    ):
        with pytest.raises(refused):
            core.play_episodes(*wrong)
