"""Earnings of policies on held-out tasks, beside the bestseller."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixts.diagnostics import Earnings, PolicyComparison, _replays, compare_policies
from mixts.diagnostics._replays import merged, training_scores
from mixts.errors import ParameterError
from mixts.learning import Fit, fit_logs
from mixts.learning.held_out import split
from mixts.logs import read_rows
from mixts.pages.policies import policy_sources

ARMS = {"task": "user", "arm": "item", "reward": "reward"}
KINDS = np.array([[0.8, 0.1, 0.1, 0.5], [0.1, 0.8, 0.1, 0.5], [0.1, 0.1, 0.8, 0.5]])
"""Three kinds of task; the last arm is the best of those that suit everybody."""

Reward = Callable[[np.random.Generator, int, int], float]


def write_arms(path: Path, counts: np.ndarray, reward: Reward, seed: int = 1) -> Path:
    """Write rewards of users and arms, each as often as ``counts`` (users, arms) says."""
    rng = np.random.default_rng(seed)
    users, arms = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    lines = ["user,item,reward"]
    for row in rng.permutation(len(users)):
        user, arm = int(users[row]), int(arms[row])
        lines.append(f"{user},item {arm},{float(reward(rng, user, arm))}")
    path.write_text("\n".join(lines) + "\n")
    return path


def click(rates: np.ndarray) -> Reward:
    return lambda rng, user, arm: int(rng.random() < rates[user % len(rates), arm])


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    """Users of three kinds; 25 rewards of each arm, but of the last arm every second user 12."""
    counts = np.full((300, 4), 25)
    counts[::2, 3] = 12
    path = write_arms(tmp_path_factory.mktemp("logs") / "kinds.csv", counts, click(KINDS))
    return fit_logs(path, ARMS, n_components=3, held_out=0.5, seed=1, engine=1)


@pytest.fixture(scope="module")
def compared(kinds: Fit) -> PolicyComparison:
    return compare_policies(kinds, engine=1)


def test_policies_that_learn_kinds_beat_the_bestseller(compared: PolicyComparison) -> None:
    assert compared.policies == ("bestseller", "greedy", "ts", "ids")
    assert [one.n_decisions for one in compared.earnings] == [5, 10, 20]
    for one in compared.earnings:
        assert one.source == "replay"
        assert one.n_tasks == one.n_replayable == compared.n_held_out == 150
        assert one.bestseller == "item 3"
        assert one.n_offered == pytest.approx(4 if one.n_decisions < 20 else 3.5, abs=0.1)
    last = compared.decisive
    assert last.n_decisions == 20
    assert last.clearly("ids", "bestseller")
    assert not last.clearly("bestseller", "ids")
    assert compared.recommended in compared.learning
    assert compared.agent == compared.recommended
    # The bestseller earns the mean of its arm: where it is missing, another of mean 1/3.
    assert compared.earnings[0].mean("bestseller").mean == pytest.approx(0.5, abs=0.07)


def test_numbers_are_means_over_tasks(compared: PolicyComparison) -> None:
    one = compared.earnings[1]
    mine, best = one.rewards["ids"], one.rewards["bestseller"]
    assert one.mean("ids").mean == pytest.approx(mine.mean())
    assert one.mean("ids").error == pytest.approx(mine.std(ddof=1) / np.sqrt(150))
    assert one.gain("ids").error == pytest.approx((mine - best).std(ddof=1) / np.sqrt(150))
    assert one.gain("ids", "ids") == (0.0, 0.0)
    with pytest.raises(ParameterError, match="no policy 'exp4'; policies: bestseller, greedy"):
        one.mean("exp4")


def test_the_bestseller_takes_all_rewards_of_its_arm(tmp_path: Path) -> None:
    """With as many decisions as recorded rewards it earns their mean, whatever their order."""
    counts = np.full((80, 3), 6)
    path = write_arms(tmp_path / "logs.csv", counts, click(np.array([[0.3, 0.7, 0.4]])))
    fit = fit_logs(path, ARMS, n_components=1, held_out=0.5, seed=1, engine=1)
    (one,) = compare_policies(fit, [6], policies=["ts"], engine=1).earnings
    rows = read_rows(fit.logs, fit.held_out)
    expected = [rows.rewards[(rows.tasks == i) & (rows.arms == 1)].mean() for i in range(40)]
    np.testing.assert_allclose(one.rewards["bestseller"], expected)


def test_greedy_is_replayed_as_by_hand(tmp_path: Path) -> None:
    """Each arm of a user always pays the same, so that the order of rewards does not matter."""
    rng = np.random.default_rng(3)
    pays = np.round(KINDS[rng.integers(3, size=120)] + 0.2 * rng.standard_normal((120, 4)), 3)
    counts = rng.choice([3, 8], size=(120, 4), p=[0.3, 0.7])
    path = write_arms(tmp_path / "logs.csv", counts, lambda rng, user, arm: pays[user, arm])
    fit = fit_logs(
        path, ARMS, n_components=3, noise_std=0.3, held_out=0.5, seed=2, engine=1
    )  # without noise the learned one would be tiny
    (one,) = compare_policies(fit, [7], policies=["greedy"], engine=1).earnings
    users = [int(fit.logs.tasks[i]) for i in fit.held_out]
    expected = []
    for user in users:
        offered = counts[user] >= 7
        if offered.sum() < 2:
            continue
        belief, earned = fit.prior.belief(), 0.0
        for _ in range(7):
            arm = int(np.argmax(np.where(offered, belief.mean_rewards(), -np.inf)))
            belief.update(arm, pays[user, arm])
            earned += pays[user, arm]
        expected.append(earned / 7)
    assert 30 <= one.n_tasks == len(expected) < 60
    np.testing.assert_allclose(one.rewards["greedy"], expected)


def test_the_bestseller_wins_where_learning_does_not_pay(tmp_path: Path) -> None:
    """Ten decisions are too few to find what an arm pays in this task: noise hides it."""
    mean = np.array([1.0, 0.6, 0.6, 0.6, 0.6, 0.6])
    path = write_arms(
        tmp_path / "logs.csv", np.full((200, 6), 12),
        lambda rng, user, arm: round(float(mean[arm] + 0.4 * np.sin(user * (arm + 1))
                                           + 2 * rng.standard_normal()), 3),
    )  # fmt: skip
    fit = fit_logs(path, ARMS, n_components=1, held_out=0.5, seed=1, engine=1)
    compared = compare_policies(fit, [5, 10], policies=["ts"], engine=1)
    assert compared.decisive.clearly("bestseller", "ts")
    assert compared.usual == "ts"
    assert compared.recommended == "bestseller"
    assert compared.agent == "ts"


def test_the_bestseller_knows_the_training_tasks_only(tmp_path: Path) -> None:
    held_out, training = split(120, 0.5, 1)
    rates = np.empty((120, 2))
    rates[training], rates[held_out] = [0.6, 0.4], [0.2, 0.9]
    path = write_arms(tmp_path / "logs.csv", np.full((120, 2), 8), click(rates))
    fit = fit_logs(path, ARMS, n_components=1, held_out=0.5, seed=1, engine=1)
    (one,) = compare_policies(fit, [8], policies=["ts"], engine=1).earnings
    assert one.bestseller == "item 0"
    mean, error = one.mean("bestseller")
    assert abs(mean - 0.2) < 4 * error


def test_too_few_rewards_are_simulated(tmp_path: Path) -> None:
    counts = np.full((100, 3), 6)
    counts[:75, 1:] = 4
    path = write_arms(tmp_path / "logs.csv", counts, click(KINDS[:, :3]))
    fit = fit_logs(path, ARMS, n_components=3, held_out=0.5, seed=1, engine=1)
    n_enough = int((fit.held_out >= 75).sum())
    compared = compare_policies(fit, [4, 5, 10], policies=["ts", "greedy"], engine=1)
    first, second, third = compared.earnings
    assert (first.source, first.n_tasks) == ("replay", 50)
    assert compared.decisive is first
    for one, n in ((second, n_enough), (third, 0)):
        assert (one.source, one.n_tasks, one.n_replayable) == ("simulation", 500, n)
        assert one.n_offered == 3
        # The bestseller of a simulation earns the largest mean of the prior.
        best = fit.prior.belief().mean_rewards().max()
        mean, error = one.mean("bestseller")
        assert abs(mean - best) < 4 * error
        assert one.clearly("ts", "bestseller")


def test_the_files_are_not_read_again_if_nothing_can_be_replayed(tmp_path: Path) -> None:
    path = write_arms(tmp_path / "logs.csv", np.full((40, 3), 3), click(KINDS[:, :3]))
    fit = fit_logs(path, ARMS, n_components=2, held_out=0.5, seed=1, engine=1)
    path.unlink()
    compared = compare_policies(fit, [5], policies=["ts"], engine=1)
    assert compared.decisive.source == "simulation"


def test_more_tasks_than_can_be_played_are_drawn(
    kinds: Fit, compared: PolicyComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_replays, "MOST_TASKS", 40)
    (one,) = compare_policies(kinds, [20], policies=["ts"], engine=1).earnings
    assert one.source == "replay"
    assert (one.n_tasks, one.n_replayable) == (40, 150)
    # About as many of each kind: an arm pays as much as on all tasks.
    mean, error = one.mean("bestseller")
    assert abs(mean - compared.decisive.mean("bestseller").mean) < 4 * error
    monkeypatch.setattr(_replays, "_MOST_NUMBERS", 3 * 95 * 60)
    (few,) = compare_policies(kinds, [20], policies=["ts"], engine=1).earnings
    assert 50 < few.n_replayable < 65


def test_few_tasks_are_replayed_several_times(
    kinds: Fit, compared: PolicyComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeats take out the luck of the order; the rewards of 25 that were recorded remain."""
    monkeypatch.setattr(_replays, "MOST_REPEATS", 1)
    (once,) = compare_policies(kinds, [5], policies=["ts"], engine=1).earnings
    often = compared.earnings[0]  # three times: 500 // 150
    steps = [
        5 * len(one.rewards["bestseller"]) * one.mean("bestseller").mean for one in (once, often)
    ]
    assert steps[0] == pytest.approx(round(steps[0]))
    assert 3 * steps[1] == pytest.approx(round(3 * steps[1]))
    assert often.mean("bestseller").error < 0.8 * once.mean("bestseller").error
    gap = often.mean("bestseller").mean - once.mean("bestseller").mean
    assert abs(gap) < 4 * once.mean("bestseller").error


@pytest.mark.parametrize("linear", [False, True])
def test_numbers_depend_on_the_seed_alone(
    kinds: Fit, spenders: Fit, compared: PolicyComparison, linear: bool
) -> None:
    fit = spenders if linear else kinds
    options: dict[str, Any] = {"n_decisions": [5], "policies": ["ts"]}
    first = compare_policies(fit, **options, engine=1).earnings[0].rewards
    with ThreadPoolExecutor(2) as executor:
        again = compare_policies(fit, **options, seed=1, engine=executor).earnings[0].rewards
    other = compare_policies(fit, **options, seed=2, engine=1).earnings[0].rewards
    for policy in ("bestseller", "ts"):
        np.testing.assert_array_equal(first[policy], again[policy])
        assert not np.array_equal(first[policy], other[policy])
    if not linear:
        # Other policies and other numbers of decisions change nothing.
        np.testing.assert_array_equal(first["ts"], compared.earnings[0].rewards["ts"])


# -- features -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spenders(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    """Users of two kinds who like opposite things; all of them like the second feature a little."""
    rng = np.random.default_rng(4)
    lines = ["user,size,price,spent"]
    for user in range(160):
        taste = np.array([2.0 if user % 2 else -2.0, 0.5])
        for _ in range(22):
            x = np.round(rng.standard_normal(2), 3)
            lines.append(f"{user},{x[0]},{x[1]},{x @ taste + 0.5 * rng.standard_normal():.4f}")
    path = tmp_path_factory.mktemp("logs") / "spent.csv"
    path.write_text("\n".join(lines) + "\n")
    columns = {"task": "user", "features": ["size", "price"], "reward": "spent"}
    return fit_logs(path, columns, n_components=2, held_out=0.5, seed=1, engine=1)


def test_features_are_replayed_by_rows(spenders: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_replays, "MOST_LINEAR_TASKS", 40)
    compared = compare_policies(spenders, [5, 11, 12], engine=1)
    replayed, decisive, simulated = compared.earnings
    assert [one.source for one in compared.earnings] == ["replay", "replay", "simulation"]
    assert replayed.n_replayable == decisive.n_replayable == 80  # 22 rows: 11 decisions
    assert simulated.n_replayable == 0
    assert all(one.bestseller is None and one.n_offered == 10 for one in compared.earnings)
    assert compared.decisive is decisive
    assert all(one.n_tasks == 40 for one in compared.earnings)
    for one in compared.earnings:
        for policy in compared.learning:
            assert one.clearly(policy, "bestseller")


def test_the_bestseller_of_features_fits_all_training_rows(spenders: Fit) -> None:
    rows = read_rows(spenders.logs, spenders.training)
    coefficients = training_scores(spenders)
    ridge = 1e-9 * np.eye(2)
    x, y = rows.features, rows.rewards
    np.testing.assert_allclose(coefficients, np.linalg.solve(x.T @ x + ridge, x.T @ y), atol=0.02)
    held = read_rows(spenders.logs, spenders.held_out)
    (one,) = compare_policies(spenders, [11], policies=["ts"], engine=1).earnings
    # Of 22 rows at most 11 are taken: it earns no more than the mean of the best 11 by its score.
    score = held.features @ coefficients
    for task in range(5):
        mine = np.flatnonzero(held.tasks == task)
        best = mine[np.argsort(-score[mine])[:11]]
        shown = one.rewards["bestseller"][task]
        assert held.rewards[mine].min() < shown < held.rewards[best].mean() + 1.5


def test_merged_statistics_are_those_of_all_rows(kinds: Fit) -> None:
    for n in (1, 2, 7):
        tasks = kinds.logs.statistics[np.arange(n)]
        whole = merged(tasks)
        assert len(whole) == 1
        np.testing.assert_array_equal(whole.pulls[0], tasks.pulls.sum(axis=0))


def test_an_arm_that_was_hardly_tried_is_no_bestseller(tmp_path: Path) -> None:
    counts = np.full((60, 3), 20)
    counts[:, 2] = 0
    counts[0:60:9, 2] = 1
    rates = np.array([[0.3, 0.5, 1.0]])
    path = write_arms(tmp_path / "logs.csv", counts, click(rates))
    fit = fit_logs(path, ARMS, n_components=1, held_out=0.5, seed=1, engine=1)
    assert np.argsort(-training_scores(fit)).tolist() == [1, 0, 2]


# -- the recommended policy -----------------------------------------------------------------------


def of(means: dict[str, float], n_decisions: int = 20, source: Any = "replay") -> Earnings:
    """Earnings with errors of differences of about 0.01."""
    rng = np.random.default_rng(6)
    rewards = {
        name: mean + 0.1 * (noise - noise.mean())
        for name, mean in means.items()
        for noise in [rng.standard_normal(200)]
    }
    return Earnings(n_decisions, source, rewards, 200, 3.0, "hats")


@pytest.mark.parametrize(
    ("greedy", "ts", "ids", "recommended", "agent"),
    [
        (0.5, 0.5, 0.6, "ids", "ids"),
        (0.61, 0.5, 0.6, "ids", "ids"),  # not clearly more
        (0.65, 0.5, 0.6, "greedy", "greedy"),
        (0.65, 0.7, 0.6, "ts", "ts"),
        (0.4, 0.4, 0.49, "ids", "ids"),  # no clear difference from the bestseller
        (0.4, 0.41, 0.45, "bestseller", "ids"),
        (0.48, 0.41, 0.45, "bestseller", "greedy"),
        (0.56, 0.41, 0.45, "greedy", "greedy"),
    ],
)
def test_ids_is_recommended_unless_another_clearly_earns_more(
    greedy: float, ts: float, ids: float, recommended: str, agent: str
) -> None:
    one = of({"bestseller": 0.5, "greedy": greedy, "ts": ts, "ids": ids})
    compared = PolicyComparison((one,), 200)
    assert (compared.recommended, compared.agent) == (recommended, agent)


def test_a_simulation_speaks_only_for_the_bestseller() -> None:
    greedy = of({"bestseller": 0.5, "greedy": 0.7, "ids": 0.6}, source="simulation")
    compared = PolicyComparison((greedy,), 200)
    assert compared.better == ("greedy",)
    assert compared.recommended == "ids"
    fixed = of({"bestseller": 0.7, "greedy": 0.75, "ids": 0.6}, source="simulation")
    compared = PolicyComparison((fixed,), 200)
    assert compared.better == ("greedy", "bestseller")
    assert (compared.recommended, compared.agent) == ("bestseller", "ids")
    replayed = PolicyComparison((replace(fixed, source="replay"),), 200)
    assert (replayed.recommended, replayed.agent) == ("greedy", "greedy")


def test_a_replay_decides_before_a_simulation() -> None:
    means = {"bestseller": 0.5, "ids": 0.6}
    short, long = of(means, 5), of(means, 10)
    simulated = of(means, 20, "simulation")
    assert PolicyComparison((short, long, simulated), 200).decisive is long
    assert PolicyComparison((simulated,), 200).decisive is simulated


def test_no_difference_is_not_clear() -> None:
    same = Earnings(5, "replay", dict.fromkeys(("bestseller", "ids"), np.ones(9)), 9, 2.0, "x")
    assert not same.clearly("ids", "bestseller")
    single = Earnings(5, "replay", {"bestseller": np.zeros(1), "ids": np.ones(1)}, 1, 2.0, "x")
    assert not single.clearly("ids", "bestseller")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_decisions": []}, "n_decisions and policies must name at least one each"),
        ({"policies": []}, "n_decisions and policies must name at least one each"),
        ({"n_decisions": [0]}, "n_decisions must be a whole number, at least 1"),
        ({"policies": ["best"]}, "best"),
    ],
)
def test_bad_arguments_are_refused(kinds: Fit, options: dict, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        compare_policies(kinds, **options)


def test_nothing_held_out_is_nothing_to_compare_on(tmp_path: Path) -> None:
    path = write_arms(tmp_path / "logs.csv", np.full((10, 2), 3), click(KINDS[:, :2]))
    fit = fit_logs(path, ARMS, n_components=1, held_out=0, seed=1, engine=1)
    with pytest.raises(ParameterError, match="none were held out"):
        compare_policies(fit)


def test_simulated_tasks_offer_the_best_of_many_arms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_replays, "MOST_ARMS", 3)
    monkeypatch.setattr(_replays, "MOST_TASKS", 40)
    rates = np.array([[0.1, 0.9, 0.2, 0.6, 0.3, 0.7]])
    path = write_arms(tmp_path / "logs.csv", np.full((40, 6), 3), click(rates))
    fit = fit_logs(path, ARMS, n_components=1, held_out=0.5, seed=1, engine=1)
    found = compare_policies(fit, [4], engine=1)
    (one,) = found.earnings
    assert (one.source, one.n_offered, found.n_arms) == ("simulation", 3, 6)
    assert one.bestseller == "item 1"
    # The worst of the three arms gives 0.6, and the arms that are left out 0.3 at most.
    assert min(one.mean(name).mean for name in found.policies) > 0.5
    (said,) = [text for text in policy_sources(found) if "To save time" in text]
    assert "only 3 of the 6 arms" in said
