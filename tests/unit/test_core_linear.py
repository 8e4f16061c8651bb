"""The core's linear posteriors: they are the plain ones, and refuse what would break a loop."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import _program
from tests.programs import CORE
from tests.requirements import require

pytestmark = pytest.mark.usefixtures("unchecked")

L, D, N = 5, 3, 4
KINDS = ("full", "tied", "diag", "spherical")


@pytest.fixture(autouse=True)
def core(monkeypatch: pytest.MonkeyPatch) -> Any:
    require("core", CORE is not None, "the compiled core is not installed")
    monkeypatch.setattr(_program, "core", CORE)
    return CORE


def make_family(kind: str, noise: str, n_components: int = L, d: int = D, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n_components, d, d))
    full = root @ np.swapaxes(root, 1, 2)
    covariance = {
        "full": full,
        "tied": full[0],
        "diag": rng.uniform(0.1, 1, (n_components, d)),
        "spherical": rng.integers(1, 4, n_components) / 4,
    }[kind]
    mean = 2 * rng.normal(size=(n_components, d))
    if noise == "unknown":
        return mixts.LinearStudent(mean, covariance, 0.5, 6.0, kind)
    return mixts.LinearGaussian(mean, covariance, 0.3, kind)


# -- both programs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["known", "unknown"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_components", [1, 3, 4, 9])
def test_both_programs_have_the_same_evidence(
    kind: str, noise: str, n_components: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every observation, to 1e-12; from statistics, too."""
    family, rng = make_family(kind, noise, n_components), np.random.default_rng(1)
    prior = mixts.MixturePrior(family)
    fast = prior.belief()
    monkeypatch.setattr(_program, "core", None)
    plain = prior.belief()
    rows = rng.normal(size=(4, D))
    truth = family.mean[0] + 0.1 * rng.normal(size=D)
    for t in range(60):
        row = rows[rng.integers(4)]
        reward = float(row @ truth + 0.3 * rng.normal())
        for program, belief in ((CORE, fast), (None, plain)):
            monkeypatch.setattr(_program, "core", program)
            belief.update(row, reward)
        evidence = plain.log_evidence
        atol = 1e-12 * (1 + np.abs(evidence).max())
        np.testing.assert_allclose(fast.log_evidence, evidence, rtol=1e-12, atol=atol)
        np.testing.assert_allclose(fast.weights, plain.weights, rtol=1e-9, atol=1e-12)
        if t % 10 == 9:
            for name in ("component_mean", "component_covariance", "mean", "covariance"):
                one, other = getattr(fast, name), getattr(plain, name)
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    monkeypatch.setattr(_program, "core", CORE)
    again = prior.condition(fast.statistics)
    np.testing.assert_allclose(again.log_evidence, evidence, rtol=1e-12, atol=atol)


@pytest.mark.parametrize("noise", ["known", "unknown"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_quick_path_decides_and_learns_as_the_general_one(kind: str, noise: str) -> None:
    """Equal seeds give equal decisions, with ties among equal actions as well."""
    prior, rng = mixts.MixturePrior(make_family(kind, noise)), np.random.default_rng(1)
    quick, general = mixts.MixTS(prior, seed=4), mixts.MixTS(prior, seed=4)
    for t in range(80):
        actions = rng.normal(size=(6, D))
        actions[3] = actions[t % 3]
        chosen = quick.act(actions)
        assert chosen == general.act(actions, mask=np.ones(6, bool))
        assert quick.last_latent == general.last_latent
        reward = float(rng.normal())
        quick.update(actions[chosen], reward)
        general.update(actions[[chosen]], np.array([reward]))
    assert quick.belief.quick is not None
    np.testing.assert_array_equal(quick.belief.log_evidence, general.belief.log_evidence)


def test_the_quick_path_leaves_what_it_does_not_know_to_the_general_one() -> None:
    prior = mixts.MixturePrior(make_family("full", "known"))
    agent, actions = mixts.MixTS(prior, seed=4), np.eye(D)
    agent.update(actions[0], 1.0)
    assert agent.act(actions) in range(D)
    quick = agent.belief.quick
    rng = np.random.default_rng(0)
    for other in (None, "x", actions.tolist(), actions.astype(np.float32), actions[:, :2],
                  np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.full((2, D), np.nan),
                  np.zeros((0, D)), actions[None], actions[0]):  # fmt: skip
        assert quick.act_one(rng, other) == -1
    before = agent.belief.log_evidence
    quick = agent.belief.quick
    for row, reward in ((None, 1.0), ([1.0, 0, 0], 1.0), (actions[0], None), (actions[0], "1"),
                        (actions[0], np.nan), (actions[0], 1e80), (actions[0], 10**400),
                        (actions[0], True), (actions[0], np.array(1.0)), (actions[0, :2], 1.0),
                        (np.full(D, np.inf), 1.0), (actions, 1.0)):  # fmt: skip
        assert not quick.update_one(row, reward)
    np.testing.assert_array_equal(agent.belief.log_evidence, before)
    assert quick.update_one(actions[0], 1)
    assert (agent.belief.log_evidence != before).all()


def test_a_copy_is_a_belief_of_its_own() -> None:
    belief = mixts.MixturePrior(make_family("full", "known")).belief()
    belief.update(np.eye(D)[0], 1.0)
    before = belief.log_evidence
    twin = copy.deepcopy(belief)
    twin.update(np.eye(D)[1], 5.0)
    np.testing.assert_allclose(belief.log_evidence, before, rtol=1e-12)
    assert (twin.log_evidence != before).all()


def test_threads_may_share_a_belief() -> None:
    """One reads while another learns, and slots come and go: numbers may differ, memory holds."""
    prior = mixts.MixturePrior(make_family("full", "known"))
    posterior = prior.belief(N).posterior
    rng, every = np.random.default_rng(0), np.arange(N)
    actions, weights = rng.normal(size=(7, D)), np.full((N, L), 1 / L)

    def read() -> None:
        own = np.random.default_rng(1)
        for _ in range(50):
            posterior.best_in_draws(own, every, weights, actions, np.ones((N, 7), bool), 100)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        posterior.update(every, (rng.normal(size=(N, D)), rng.normal(size=N)))
        posterior._core.forget()
    for thread in threads:
        thread.join()
    assert np.isfinite(posterior.log_evidence()).all()


# -- hostile input ---------------------------------------------------------------------------------


def prior_arguments(**changes: Any) -> dict[str, Any]:
    family = make_family("full", "known")
    roots = family.roots
    return {
        "mean": family.mean, "roots": roots.packed, "starts": roots.starts,
        "members": roots.members, "log_weights": np.zeros(L), "noise_std": 0.3,
        "degrees": np.empty(0), "unit": np.empty(0), "limit": 36.0, "margin": 4.0, "gain": 0.0,
        "refresh": 4096, "n_slots": 2, **changes,
    }  # fmt: skip


def task_arrays() -> tuple[Any, ...]:
    size = D + 1
    return np.zeros(N, np.int64), np.zeros((N, size, size)), np.zeros((N, L)), np.zeros((N, 0))


def make_core(core: Any) -> Any:
    made = core.Linear(**prior_arguments())
    made.bind(*task_arrays())
    return made


BAD_PRIORS = {
    "roots": np.zeros((L, 5)),
    "starts": np.arange(L),
    "members": np.zeros(L, np.int64),
    "log_weights": np.zeros(L + 1),
    "noise_std": 0.0,
    "degrees": np.ones(L),
    "mean": np.zeros((0, D)),
    "unit": np.ones(2),
}


@pytest.mark.parametrize("name", BAD_PRIORS)
def test_a_prior_that_does_not_fit_is_refused(core: Any, name: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError)):
        core.Linear(**prior_arguments(**{name: BAD_PRIORS[name]}))


@pytest.mark.parametrize(
    "changes",
    [
        {"starts": np.array([0, 2, 1, 3, 4, 5])},
        {"starts": np.array([0, 1, 2, 3, 4, 9])},
        {"starts": np.array([-1, 1, 2, 3, 4, 5])},
        {"starts": np.array([0, 9, 2, 3, 4, 5])},
        {"members": np.array([0, 1, 2, 3, 99])},
        {"members": np.array([0, 1, 2, 3, -1])},
        {"mean": [[1.0, 2.0, 3.0]] * L},
        {"noise_std": float("nan")},
        {"refresh": "often"},
    ],
)
def test_groups_that_do_not_fit_are_refused(core: Any, changes: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError, IndexError)):
        core.Linear(**prior_arguments(**changes))


def test_arrays_that_do_not_fit_are_refused(core: Any) -> None:
    made = core.Linear(**prior_arguments())
    good = task_arrays()
    for place, bad in (
        (0, np.zeros(N)), (0, np.zeros(N + 1, np.int64)), (0, None), (1, np.zeros((N, 2, 2))),
        (1, np.zeros((N, D + 1, D + 1), np.float32)), (1, np.zeros((N + 1, D + 1, D + 1))),
        (2, np.zeros((N, L + 1))), (2, np.zeros((N, L), np.float32)), (2, np.zeros((L, N)).T),
        (3, np.zeros((N, 1))), (3, np.zeros(N)),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            made.bind(*good[:place], bad, *good[place + 1 :])
    made.bind(*good)
    with pytest.raises(ValueError, match="removed"):
        made.bind(*(array[:2].copy() for array in good))


def test_read_only_statistics_are_not_changed(core: Any) -> None:
    made, arrays = core.Linear(**prior_arguments()), task_arrays()
    for array in arrays[:2]:
        array.flags.writeable = False
    made.bind(*arrays)
    with pytest.raises(ValueError, match="read-only"):
        made.update(np.zeros(1, np.int64), np.ones((1, D)), np.ones(1))
    assert not made.update_one(np.ones(D), 1.0)


def zeros(*shape: int, dtype: Any = float) -> Any:
    return np.zeros(shape, dtype)


one, sets, mask = np.zeros(1, np.int64), np.zeros((1, 4, D)), np.ones((1, 4), bool)
short = zeros(1, L, 3)
rng = np.random.default_rng(0)

BAD_CALLS: dict[str, Callable[[Any], Any]] = {
    "update, unknown task": lambda c: c.update(one + N, zeros(1, D), zeros(1)),
    "update, negative task": lambda c: c.update(one - 1, zeros(1, D), zeros(1)),
    "update, features": lambda c: c.update(one, zeros(1, D + 1), zeros(1)),
    "update, rows": lambda c: c.update(one, zeros(2, D), zeros(1)),
    "update, outcomes": lambda c: c.update(one, zeros(1, D), zeros(2)),
    "recompute": lambda c: c.recompute(one + N),
    "place, task": lambda c: c.place(one + N, one, zeros(1, D)),
    "place, component": lambda c: c.place(one, one + L, zeros(1, D)),
    "place, x": lambda c: c.place(one, one, zeros(1, D - 1)),
    "place, rows": lambda c: c.place(one, one, zeros(2, D)),
    "place, a copy": lambda c: c.place(one, one, zeros(1, D, dtype=np.float32)),
    "means, out": lambda c: c.means(one, zeros(1, L, D + 1)),
    "means, components": lambda c: c.means(one, zeros(1, L - 1, D)),
    "means, task": lambda c: c.means(one - 1, zeros(1, L, D)),
    "roots, out": lambda c: c.roots(one, zeros(1, L, D)),
    "evidence": lambda c: c.log_evidence(zeros(N, L + 1)),
    "evidence, rows": lambda c: c.log_evidence(zeros(N + 1, L)),
    "decide, task": lambda c: c.decide(rng, one + N, sets, mask, zeros(1, 4), one.copy(), one),
    "decide, rng": lambda c: c.decide(None, one, sets, mask, zeros(1, 4), one.copy(), one.copy()),
    "decide, sets": lambda c: c.decide(
        rng, one, zeros(2, 4, D), mask, zeros(1, 4), one.copy(), one.copy()
    ),
    "decide, no action": lambda c: c.decide(
        rng, one, zeros(1, 0, D), mask[:, :0], zeros(1, 0), one.copy(), one.copy()
    ),
    "decide, mask": lambda c: c.decide(
        rng, one, sets, mask[:, :2].copy(), zeros(1, 4), one.copy(), one.copy()
    ),
    "decide, scores": lambda c: c.decide(rng, one, sets, mask, zeros(1, 3), one.copy(), one.copy()),
    "decide, latent": lambda c: c.decide(
        rng, one, sets, mask, zeros(1, 4), one.copy(), np.zeros(0, np.int64)
    ),
    "moments, task": lambda c: c.action_moments(one + N, sets, zeros(1, L, 4), zeros(1, L, 4)),
    "moments, out": lambda c: c.action_moments(one, sets, zeros(1, L, 3), zeros(1, L, 4)),
    "moments, mean alone": lambda c: c.action_moments(one, sets, short, short[:0]),
    "moments, variance": lambda c: c.action_moments(one, sets, zeros(1, L, 4), zeros(1, L, 3)),
    "votes, mask": lambda c: c.best_in_draws(
        rng, one, zeros(1, L), zeros(1, L, dtype=np.int64), sets, ~mask, zeros(3, 1, 4)
    ),
    "votes, no mask": lambda c: c.best_in_draws(
        rng, one, zeros(1, L), zeros(1, L, dtype=np.int64), sets, mask[:0], zeros(3, 1, 4)
    ),
    "votes, pairs": lambda c: c.best_in_draws(
        rng, one, zeros(1, L), zeros(1, L, dtype=np.int64) - 1, sets, mask, zeros(3, 1, 4)
    ),
    "votes, weights": lambda c: c.best_in_draws(
        rng, one, zeros(1, L + 1), zeros(1, L, dtype=np.int64), sets, mask, zeros(3, 1, 4)
    ),
    "votes, out": lambda c: c.best_in_draws(
        rng, one, zeros(1, L), zeros(1, L, dtype=np.int64), sets, mask, zeros(2, 1, 4)
    ),
    "act_one, no rng": lambda c: c.act_one(),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_arguments_are_refused(core: Any, name: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError, AttributeError)):
        BAD_CALLS[name](make_core(core))


def test_nothing_is_bound_yet(core: Any) -> None:
    made = core.Linear(**prior_arguments())
    made.evaluate()
    assert made.act_one(rng, np.zeros((2, D))) == -1
    assert not made.update_one(np.zeros(D), 1.0)
    with pytest.raises(IndexError):
        made.update(one, zeros(1, D), zeros(1))


def test_rows_are_folded_into_known_tasks_only(core: Any) -> None:
    count, factor = task_arrays()[:2]
    for tasks, rows, rewards in (
        (one + N, zeros(1, D), zeros(1)),
        (one, zeros(1, D + 1), zeros(1)),
        (one, zeros(2, D), zeros(1)),
        (one, zeros(1, D), zeros(2)),
    ):
        with pytest.raises((ValueError, IndexError)):
            core.fold_rows(tasks, rows, rewards, count, factor)
    assert not count.any()


def test_rows_of_a_task_with_too_many_are_refused_as_a_whole(core: Any) -> None:
    count, factor = task_arrays()[:2]
    count[1] = 2**63 - 1
    tasks = np.array([0, 1])
    with pytest.raises(ValueError, match="at most 2\\^62"):
        core.fold_rows(tasks, np.ones((2, D)), np.ones(2), count, factor)
    np.testing.assert_array_equal(count[:2], [0, 2**63 - 1])
    assert not factor.any()


def test_absurd_statistics_give_absurd_numbers_and_no_crash(core: Any) -> None:
    made, arrays = core.Linear(**prior_arguments(gain=100.0)), task_arrays()
    arrays[0][:] = [-5, 3, 2**62, 7]
    arrays[1][:] = np.array([np.nan, np.inf, 1e300, -1e300])[:, None, None]
    made.bind(*arrays)
    for _ in range(3):
        tasks = np.tile(np.arange(N), 2)
        made.update(tasks, rng.normal(size=(2 * N, D)), rng.normal(size=2 * N))
        made.place(np.arange(N), np.zeros(N, np.int64), zeros(N, D))
        made.means(np.arange(N), zeros(N, L, D))
        made.log_evidence(zeros(N, L))
