"""Arms by the compiled core and by plain numpy: the same numbers, one law, and no crash."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import mixts
from mixts import _program, errors
from mixts.families.marginals import LOG_GAMMA, LOGIT_BETA
from tests.programs import CORE

needs_core = pytest.mark.skipif(CORE is None, reason="the compiled core is not installed")

N_COMPONENTS, N_ARMS = 3, 4
KINDS = ("bernoulli", "poisson", "gaussian", "student", "spend")


def family_of(kind: str, rng: np.random.Generator) -> Any:
    def between(low: float, high: float) -> Any:
        return rng.uniform(low, high, (N_COMPONENTS, N_ARMS))

    means = rng.normal(size=(N_COMPONENTS, N_ARMS))
    return {
        "bernoulli": lambda: mixts.BernoulliArms(between(0.2, 5), between(0.2, 5)),
        "poisson": lambda: mixts.PoissonArms(between(0.2, 8), between(0.5, 3)),
        "gaussian": lambda: mixts.GaussianArms(means, between(0.1, 2), 0.7),
        "student": lambda: mixts.StudentArms(means, between(0.1, 2), 0.7, [3.0, 6.0, 50.0]),
        "spend": lambda: mixts.SpendArms(*(between(1, 5) for _ in range(6))),
    }[kind]()


def rewards_of(kind: str, rng: np.random.Generator, n: int) -> Any:
    return {
        "bernoulli": lambda: (rng.random(n) < 0.4).astype(float),
        "poisson": lambda: rng.poisson(2.0, n).astype(float),
        "gaussian": lambda: rng.normal(size=n),
        "student": lambda: rng.normal(size=n),
        "spend": lambda: np.where(rng.random(n) < 0.5, 0.0, rng.lognormal(size=n)),
    }[kind]()


def prior_of(kind: str, seed: int = 1) -> mixts.MixturePrior:
    return mixts.MixturePrior(family_of(kind, np.random.default_rng(seed)), [0.5, 0.2, 0.3])


def single(kind: str, seed: int = 1, n: int = 8) -> mixts.MixTS:
    """Return an agent of one task with a history, whose next decisions take the quick path."""
    rng, agent = np.random.default_rng(seed), mixts.MixTS(prior_of(kind), seed=seed)
    for reward in rewards_of(kind, rng, n).tolist():
        agent.update(int(rng.integers(N_ARMS)), reward)
    agent.act()
    return agent


# -- the same numbers ------------------------------------------------------------------------------


@needs_core
@pytest.mark.parametrize("kind", KINDS)
def test_both_programs_agree(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short and long batches, new tasks, and single rewards."""
    rng, found = np.random.default_rng(2), []
    batches = [
        (rng.integers(N_ARMS, size=m), rewards_of(kind, rng, m), rng.integers(3, size=m))
        for m in (1, 5, 300, 2)
    ]
    for core in (CORE, None):
        monkeypatch.setattr(_program, "core", core)
        many, one = prior_of(kind).belief(3), prior_of(kind).belief()
        for arms, rewards, tasks in batches:
            many.update(arms, rewards, tasks=tasks)
        many.add_tasks(1)
        many.update([0], [1.0], tasks=[3])
        for arm, reward in zip(batches[1][0].tolist(), batches[1][1].tolist(), strict=True):
            one.update(arm, reward)
        found.append([(b.log_evidence, b.weights, b.mean, b.covariance) for b in (many, one)])
        np.testing.assert_allclose(
            prior_of(kind).condition(many.statistics).log_evidence, many.log_evidence, rtol=1e-12
        )
    for ours, theirs in zip(*found, strict=True):
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@needs_core
@pytest.mark.parametrize("kind", KINDS)
def test_large_counts_agree(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """1e8 observations of each arm."""
    rng, prior = np.random.default_rng(3), prior_of(kind)
    statistics = prior.belief(2).statistics
    arrays = {}
    for name, dtype in statistics.fields.items():
        shape = statistics.array(name).shape
        arrays[name] = (
            rng.integers(1e8, 2e8, shape) if dtype is np.int64 else rng.normal(size=shape)
        )
    arrays = {k: np.abs(v) if k in ("squares", "log_factorials") else v for k, v in arrays.items()}
    made = type(statistics)(**arrays)
    found = []
    for core in (CORE, None):
        monkeypatch.setattr(_program, "core", core)
        found.append(prior.condition(made).log_evidence)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_arrays_of_any_kind(dtype: type) -> None:
    table = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    belief = mixts.MixturePrior(mixts.BernoulliArms.uniform(2)).belief()
    fixed = table.copy()
    fixed.flags.writeable = False
    for given in (table, np.repeat(table, 2, axis=0)[::2], np.asfortranarray(table), fixed):
        belief.update(given[:, 0].astype(dtype), given[:, 1])
    np.testing.assert_array_equal(belief.statistics.successes, [4, 4])
    agent = mixts.MixTS(belief.prior, 2, seed=0)
    assert (agent.act(mask=np.asfortranarray([[True, False], [True, True]])) < 2).all()


# -- the law of decisions --------------------------------------------------------------------------


def assert_law(actions: Any, chances: Any) -> None:
    counts = np.bincount(actions, minlength=len(chances))
    likely = chances * len(actions) > 5
    assert counts[chances == 0].sum() == 0
    expected = np.append(chances[likely], chances[~likely].sum()) * len(actions)
    observed = np.append(counts[likely], counts[~likely].sum())
    used = expected > 0
    assert stats.chisquare(observed[used], expected[used] * len(actions) / expected.sum())[1] > 1e-5


LAWS: dict[str, Callable[[], Any]] = {
    "shapes below one": lambda: mixts.BernoulliArms(
        [[0.05, 0.3, 0.9], [0.5, 0.5, 2.0]], [[0.02, 0.7, 0.4], [0.9, 0.1, 3.0]]
    ),
    "counts of tens": lambda: mixts.BernoulliArms(
        [[30.0, 33.0, 12.0], [20.0, 25.0, 29.0]], [[31.0, 28.0, 11.0], [25.0, 24.0, 29.0]]
    ),
    "small gamma shapes": lambda: mixts.PoissonArms(
        [[0.1, 0.6, 3.0], [0.5, 2.0, 9.0]], [[0.1, 0.9, 4.0], [0.3, 2.0, 8.0]]
    ),
    "certain arms": lambda: mixts.GaussianArms(
        [[0.3, 0.3, 0.0], [0.1, 0.0, 0.1]], [[0.0, 0.0, 0.2], [0.01, 0.5, 0.0]], 1.0
    ),
    "unknown noise": lambda: mixts.StudentArms(
        [[0.3, 0.1, 0.0], [0.1, 0.0, 0.2]], [[0.1, 0.4, 0.2], [0.01, 0.5, 0.1]], 0.6, 3.0
    ),
}


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("name", LAWS)
def test_decisions_have_their_probabilities(name: str) -> None:
    """In a batch, with a mask, and alone, whose fast path is the same loop."""
    prior = mixts.MixturePrior(LAWS[name](), [0.6, 0.4])
    agent, n = mixts.MixTS(prior, 1, seed=4), 20_000
    tasks = np.zeros(n, int)
    assert_law(agent.act(tasks=tasks), agent.action_probabilities()[0][0])
    mask = [True, False, True]
    assert_law(agent.act(tasks=tasks, mask=mask), agent.action_probabilities(mask=mask)[0][0])
    alone = mixts.MixTS(prior, seed=5)
    drawn = np.array([(alone.act(), alone.last_latent) for _ in range(4000)])
    assert_law(drawn[:, 0], alone.action_probabilities()[0])
    assert_law(drawn[:, 1], prior.weights)


@needs_core
@pytest.mark.parametrize("form", [LOGIT_BETA, LOG_GAMMA])
def test_bounds_of_stirlings_remainders(form: int) -> None:
    """They enclose the remainders, and are narrow for counts above one."""

    def rest(x: float) -> float:
        return float(special.gammaln(x) - (x - 0.5) * np.log(x) + x - 0.5 * np.log(2 * np.pi))

    for a in 10.0 ** np.linspace(-3, 3, 25):
        for b in 10.0 ** np.linspace(-3, 3, 25):
            exact = rest(a) + (rest(b) - rest(a + b) if form == LOGIT_BETA else 0.0)
            low, high = CORE.bounds_of_rests(form, a, b)
            assert low - 1e-11 <= exact <= high + 1e-11
            assert high - low < 0.01 or min(a, b) < 1


@needs_core
def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in ("1", "4"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        monkeypatch.setattr("mixts.engines._workers.n_processors", lambda: 4)
        found.append(mixts.MixTS(prior_of("bernoulli"), 9000, seed=6).act())
    np.testing.assert_array_equal(*found)


# -- the quick path of one task --------------------------------------------------------------------


@needs_core
@pytest.mark.parametrize("kind", ["bernoulli", "poisson", "gaussian", "student"])
def test_the_quick_path_decides_as_the_general_one(kind: str) -> None:
    quick, general = single(kind), single(kind)
    assert quick.belief.quick is not None
    everything = np.ones(N_ARMS, bool)
    rng = np.random.default_rng(7)
    for reward in rewards_of(kind, rng, 50).tolist():
        arm = quick.act()
        assert general.act(mask=everything) == arm
        assert general.last_latent == quick.last_latent
        quick.update(arm, reward)
        general.update([arm], [reward])
        np.testing.assert_array_equal(quick.belief.weights, general.belief.weights)
    assert quick.belief.statistics == general.belief.statistics


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("kind", KINDS)
def test_what_users_do_between_decisions(kind: str, tmp_path: Path) -> None:
    """Statistics stay a snapshot; copies, pickles and files continue alike, and alone."""
    agent = single(kind)
    before = agent.belief.statistics
    pulls = before.pulls.copy()
    agent.update(0, 1.0)
    np.testing.assert_array_equal(before.pulls, pulls)
    agent.act()
    agent.update(0, 1.0)
    agent.save(tmp_path / "agent.json")
    others = [
        copy.deepcopy(agent), pickle.loads(pickle.dumps(agent)),
        mixts.MixTS.load(tmp_path / "agent.json"),
    ]  # fmt: skip
    expected, weights = [agent.act() for _ in range(20)], agent.belief.weights
    for other in others:
        assert [other.act() for _ in range(20)] == expected
        np.testing.assert_allclose(other.belief.weights, weights, rtol=1e-12)
        other.update(1, 1.0)
    np.testing.assert_array_equal(agent.belief.weights, weights)


@pytest.mark.usefixtures("program")
def test_what_changes_the_choice_ends_the_quick_path() -> None:
    agent = single("bernoulli")
    agent.retire_arms([0, 1])
    assert {agent.act() for _ in range(50)} <= {2, 3}
    agent = single("bernoulli")
    agent.use_prior(agent.prior.add_arms(1))
    agent.act()
    assert 4 in {agent.act() for _ in range(400)}
    agent.update(4, 1.0)
    assert agent.belief.statistics.successes[4] == 1
    assert set(single("bernoulli").act(top=2)) <= set(range(N_ARMS))


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("arm", "reward", "error"),
    [
        (N_ARMS, 1, errors.ActionError),
        (-1, 1, errors.ActionError),
        (2**70, 1, errors.ActionError),
        ("a", 1, errors.ActionError),
        (0.5, 1, errors.ActionError),
        (0, 2, errors.OutcomeError),
        (0, float("nan"), errors.OutcomeError),
        (0, 2**70, errors.OutcomeError),
        (0, None, errors.OutcomeError),
        (0, "1", errors.OutcomeError),
    ],
)
def test_refused_updates_change_nothing(arm: Any, reward: Any, error: Any) -> None:
    agent = single("bernoulli")
    weights = agent.belief.weights
    with pytest.raises(error):
        agent.update(arm, reward)
    np.testing.assert_array_equal(agent.belief.weights, weights)
    with pytest.raises(errors.ActionError):
        agent.act([[1.0]])


# -- hostile input to the bindings -----------------------------------------------------------------


def arms_of_core(**wrong: Any) -> Any:
    """Return the core's object for two tasks, some of whose arrays are wrong."""
    arrays = {
        "log_weights": np.zeros(3), "evidence": np.zeros((2, 3)),
        "successes": np.zeros((2, 4), np.int64), "failures": np.zeros((2, 4), np.int64),
        "alpha": np.ones((3, 4)), "beta": np.ones((3, 4)),
        "alpha_by_arm": np.ones((4, 3)), "beta_by_arm": np.ones((4, 3)),
    }  # fmt: skip
    return CORE.BernoulliArms(*{**arrays, **wrong}.values())


@needs_core
@pytest.mark.parametrize(
    "wrong",
    [
        {"log_weights": np.zeros(2)},
        {"log_weights": np.zeros(0)},
        {"evidence": np.zeros((1, 3))},
        {"evidence": np.zeros((2, 4))},
        {"evidence": np.zeros((2, 3), np.float32)},
        {"evidence": np.zeros((2, 6))[:, ::2]},
        {"successes": np.zeros((2, 4), np.int32)},
        {"failures": np.zeros((2, 3), np.int64)},
        {"failures": np.zeros((3, 4), np.int64)},
        {"alpha": np.ones((4, 3))},
        {"alpha_by_arm": np.ones((3, 4))},
        {"beta": None},
        {"beta": [[1.0]]},
    ],
)
def test_arrays_that_do_not_fit_are_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        arms_of_core(**wrong)


@needs_core
def test_indices_out_of_range_are_refused() -> None:
    arms = arms_of_core()
    zero, rewards = np.zeros(1, np.int64), np.ones(1)
    for task in (-1, 2, 2**62):
        with pytest.raises(IndexError):
            arms.observe(np.array([task]), zero, rewards)
        with pytest.raises(IndexError):
            arms.recompute(np.array([task]))
    assert [arms.observe(zero, np.array([k]), rewards) for k in (-1, 4, 2**62)] == [0, 0, 0]
    with pytest.raises(ValueError, match="outcomes"):
        arms.observe(zero, zero, np.ones(2))
    with pytest.raises(ValueError, match="arms"):
        arms.observe(zero, np.zeros(2, np.int64), rewards)
    with pytest.raises(TypeError):
        arms.observe(zero.astype(np.int32), zero, rewards)
    for count in (CORE.count_bernoulli,):
        counts = np.zeros((2, 4), np.int64)
        assert count(zero, np.array([4]), rewards, counts, counts.copy()) == 0
        with pytest.raises(IndexError):
            count(zero + 2, zero, rewards, counts, counts.copy())
        with pytest.raises(ValueError, match="arms"):
            count(zero, zero, rewards, counts, np.zeros((2, 3), np.int64))


@needs_core
def test_decisions_out_of_range_are_refused() -> None:
    arms, none = arms_of_core(), np.zeros((0, 0), bool)
    tasks, chosen = np.zeros(2, np.int64), np.zeros((2, 2), np.int64)
    arms.decide(1, 0, 2, tasks, none, chosen)
    for first, last in ((-1, 2), (0, 3), (2, 1)):
        with pytest.raises(IndexError):
            arms.decide(1, first, last, tasks, none, chosen)
    with pytest.raises(IndexError):
        arms.decide(1, 0, 2, tasks + 2, none, chosen)
    for mask in (np.ones((1, 4), bool), np.ones((2, 3), bool)):
        with pytest.raises(ValueError, match="mask"):
            arms.decide(1, 0, 2, tasks, mask, chosen)
    with pytest.raises(ValueError, match="chosen"):
        arms.decide(1, 0, 2, tasks, none, np.zeros((1, 2), np.int64))
    arms.decide(1, 0, 2, tasks, np.zeros((2, 4), bool), chosen)
    np.testing.assert_array_equal(chosen[0], -1)
    with pytest.raises((AttributeError, TypeError)):
        arms.word(None)
    assert arms.act_one(np.random.default_rng(0), None) == -1  # two tasks
    assert not arms.update_one(0, 1.0)


@needs_core
def test_choices_of_wrong_shapes_are_refused() -> None:
    latent, scores, best = np.zeros(2, np.int64), np.zeros((2, 3)), np.zeros(2, np.int64)
    weights, evidence, uniform, none = (
        np.zeros(3),
        np.zeros((2, 3)),
        np.zeros(2),
        np.zeros((0, 0), bool),
    )
    for task in (-1, 2):
        with pytest.raises(IndexError):
            CORE.draw_latent(weights, evidence, np.array([0, task]), uniform, latent)
    with pytest.raises(ValueError, match="uniform"):
        CORE.draw_latent(weights, evidence, latent, np.zeros(1), latent)
    with pytest.raises(ValueError, match="evidence"):
        CORE.draw_latent(np.zeros(4), evidence, latent, uniform, latent)
    with pytest.raises(ValueError, match="best"):
        CORE.take_best(scores, none, np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="mask"):
        CORE.take_best(scores, np.ones((2, 2), bool), best)
    with pytest.raises(ValueError, match="theta"):
        CORE.take_best_product(np.zeros((2, 1)), np.zeros((1, 3, 2)), none, scores, best)
    with pytest.raises(ValueError, match="action sets"):
        CORE.take_best_product(np.zeros((2, 2)), np.zeros((3, 3, 2)), none, scores, best)
