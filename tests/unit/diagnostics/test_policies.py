"""Earnings of policies on past tasks, beside the bestseller."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixts.diagnostics import Earnings, PolicyComparison, _replays, compare_policies
from mixts.diagnostics.bestseller import pooled_scores
from mixts.errors import ParameterError
from mixts.logs import read_rows
from mixts.logs.fit import fit_logs, learn_from
from mixts.logs.fitted import Fit
from mixts.logs.held_out import split

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
    assert compared.n_replayable == {5: 300, 10: 300, 20: 300}
    for one in compared.earnings:
        assert one.n_tasks == compared.n_past == 300
        assert one.bestseller == "item 3"
        assert one.n_offered == 4
        # The logs chose all arms about as often, whatever they gave.
        mean, error = one.logged.mean(), one.logged.std() / np.sqrt(300)
        weights = np.array([[25, 25, 25, 25], [25, 25, 25, 12]])
        truth = (weights * KINDS.mean(axis=0)).sum(axis=1) / weights.sum(axis=1)
        assert abs(mean - truth.mean()) < 4 * error
    assert compared.outcome == "gain"
    assert compared.agent in compared.learning
    # The bestseller earns the mean of its arm, as long as it has rewards left.
    mean, error = compared.earnings[0].mean("bestseller")
    assert abs(mean - 0.5) < 4 * error
    assert compared.earnings[0].missed["bestseller"].max() == 0
    assert compared.earnings[2].restricts("bestseller")


def test_more_decisions_decide_as_long_as_arms_do_not_run_out(compared: PolicyComparison) -> None:
    """Half of the users have 12 rewards of the bestseller: 20 decisions need another arm."""
    first, second, third = compared.earnings
    assert not second.restricts("bestseller")
    assert compared.decisive is second
    assert not compared.restricted
    # By its scores, and by what it then earned: 8 of 20 decisions for half of the users.
    expected = 0.5 * 8 / 20 * (0.5 - 1 / 3)
    assert third.missed["bestseller"].mean() == pytest.approx(expected, abs=0.01)
    lost = first.mean("bestseller").mean - third.mean("bestseller").mean
    assert lost == pytest.approx(expected, abs=4 * first.mean("bestseller").error)


def test_numbers_are_means_over_tasks(compared: PolicyComparison) -> None:
    one = compared.earnings[1]
    mine, best = one.rewards["ids"], one.rewards["bestseller"]
    assert one.mean("ids").mean == pytest.approx(mine.mean())
    assert one.mean("ids").error == pytest.approx(mine.std(ddof=1) / np.sqrt(300))
    assert one.gain("ids").error == pytest.approx((mine - best).std(ddof=1) / np.sqrt(300))
    assert one.gain("ids", "ids") == (0.0, 0.0)
    with pytest.raises(ParameterError, match="no policy 'exp4'; policies: bestseller, greedy"):
        one.mean("exp4")


def test_gains_in_percent_have_the_error_of_a_ratio(compared: PolicyComparison) -> None:
    one = compared.earnings[1]
    share = one.relative_gain("ids")
    assert share is not None
    mine, best = one.rewards["ids"], one.rewards["bestseller"]
    assert share.mean == pytest.approx(mine.mean() / best.mean() - 1)
    rng = np.random.default_rng(1)
    drawn = rng.integers(len(mine), size=(4000, len(mine)))
    resampled = mine[drawn].mean(axis=1) / best[drawn].mean(axis=1)
    assert share.error == pytest.approx(resampled.std(), rel=0.1)
    # Nothing is a share of what may be 0 or less.
    centred = Earnings(5, {"bestseller": best - best.mean(), "ids": mine}, mine, 2.0, "x")
    assert centred.relative_gain("ids") is None


def test_the_bestseller_takes_all_rewards_of_its_arm(tmp_path: Path) -> None:
    """With as many decisions as recorded rewards it earns their mean, whatever their order."""
    counts = np.full((80, 3), 6)
    path = write_arms(tmp_path / "logs.csv", counts, click(np.array([[0.3, 0.7, 0.4]])))
    fit = fit_logs(path, ARMS, n_components=1, held_out=0.5, seed=1, engine=1)
    (one,) = compare_policies(fit, [6], policies=["ts"], engine=1).earnings
    rows = read_rows(fit.logs, np.arange(80))
    # Held-out tasks come first, then the tasks that the prior was learned from.
    order = np.concatenate([np.sort(fit.held_out), np.sort(fit.training)])
    expected = [rows.rewards[(rows.tasks == i) & (rows.arms == 1)].mean() for i in order]
    np.testing.assert_allclose(one.rewards["bestseller"], expected)
    np.testing.assert_allclose(one.logged, [rows.rewards[rows.tasks == i].mean() for i in order])


def test_every_task_is_replayed_as_by_hand(tmp_path: Path) -> None:
    """Each arm of a user always pays the same, so that the order of rewards does not matter.

    Arms run out. Held-out users get the prior of the fit, others one that was learned without them.
    """
    rng = np.random.default_rng(3)
    pays = np.round(KINDS[rng.integers(3, size=120)] + 0.2 * rng.standard_normal((120, 4)), 3)
    counts = rng.choice([2, 8], size=(120, 4), p=[0.5, 0.5])
    path = write_arms(tmp_path / "logs.csv", counts, lambda rng, user, arm: pays[user, arm])
    fit = fit_logs(
        path, ARMS, n_components=3, noise_std=0.3, held_out=0.5, seed=2, engine=1
    )  # without noise the learned one would be tiny
    (one,) = compare_policies(fit, [7], policies=["greedy"], engine=1).earnings
    other, _ = learn_from(fit, fit.held_out, 1)
    expected, missed = [], []
    for prior, tasks in ((fit.prior, fit.held_out), (other, fit.training)):
        for user in (int(fit.logs.tasks[i]) for i in np.sort(tasks)):
            if counts[user].sum() < 14:
                continue
            belief, left, earned, lost = prior.belief(), counts[user].copy(), 0.0, 0.0
            for _ in range(7):
                means = belief.mean_rewards()
                arm = int(np.argmax(np.where(left > 0, means, -np.inf)))
                lost += means.max() - means[arm]
                belief.update(arm, pays[user, arm])
                earned, left[arm] = earned + pays[user, arm], left[arm] - 1
            expected.append(earned / 7)
            missed.append(lost / 7)
    assert 60 < one.n_tasks == len(expected) < 120
    np.testing.assert_allclose(one.rewards["greedy"], expected)
    np.testing.assert_allclose(one.missed["greedy"], missed, atol=1e-12)
    assert np.mean(missed) > 0.05


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
    assert compared.outcome == "loss"
    assert compared.agent == "ts"


def test_the_bestseller_knows_the_training_tasks_only(tmp_path: Path) -> None:
    """Each half of the users would choose the arm that the other half dislikes."""
    held_out, training = split(120, 0.5, 1)
    rates = np.empty((120, 2))
    rates[training], rates[held_out] = [0.8, 0.4], [0.2, 0.9]
    path = write_arms(tmp_path / "logs.csv", np.full((120, 2), 8), click(rates))
    fit = fit_logs(path, ARMS, n_components=1, held_out=0.5, seed=1, engine=1)
    (one,) = compare_policies(fit, [8], policies=["ts"], engine=1).earnings
    assert one.bestseller == "item 0"
    for part, truth in ((one.rewards["bestseller"][:60], 0.2),
                        (one.rewards["bestseller"][60:], 0.4)):  # fmt: skip
        assert abs(part.mean() - truth) < 4 * part.std() / np.sqrt(60)


def test_latest_tasks_are_the_only_ones_to_replay(tmp_path: Path) -> None:
    """A prior that was learned from later tasks knows what nobody knew."""
    path = write_arms(tmp_path / "logs.csv", np.full((100, 3), 8), click(KINDS[:, :3]))
    lines = path.read_text().splitlines()
    rows = [f"{line},{line.split(',')[0]}" for line in lines[1:]]
    path.write_text("\n".join([f"{lines[0]},when", *rows]))
    fit = fit_logs(path, ARMS | {"time": "when"}, n_components=3, held_out=0.5, seed=1, engine=1)
    compared = compare_policies(fit, [5], policies=["ts"], engine=1)
    assert not compared.crossed
    assert (compared.n_past, compared.n_replayable) == (50, {5: 50})
    assert compared.earnings[0].n_tasks == 50


def test_too_few_rewards_are_not_replayed(tmp_path: Path) -> None:
    """And then the files are not read again."""
    counts = np.full((60, 3), 3)
    counts[:20] = 7
    path = write_arms(tmp_path / "logs.csv", counts, click(KINDS[:, :3]))
    fit = fit_logs(path, ARMS, n_components=2, held_out=0.5, seed=1, engine=1)
    path.unlink()
    compared = compare_policies(fit, [5, 12], policies=["ts"], engine=1)
    assert compared.earnings == ()
    assert compared.n_replayable == {5: 20, 12: 0}
    assert (compared.outcome, compared.agent, compared.restricted) == ("none", "ids", False)
    with pytest.raises(ParameterError, match="nothing was replayed"):
        compared.decisive  # noqa: B018


def test_more_tasks_than_can_be_played_are_drawn(
    kinds: Fit, compared: PolicyComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_replays, "MOST_TASKS", 40)
    learned: list[int] = []
    monkeypatch.setattr(_replays, "learn_from", lambda *_: learned.append(1))
    found = compare_policies(kinds, [20], policies=["ts"], engine=1)
    (one,) = found.earnings
    assert (one.n_tasks, found.n_replayable) == (40, {20: 300})
    assert not learned  # the held-out tasks are enough
    # About as many of each kind: an arm pays as much as on all tasks.
    mean, error = one.mean("bestseller")
    assert abs(mean - compared.earnings[2].mean("bestseller").mean) < 4 * error
    monkeypatch.setattr(_replays, "_MOST_NUMBERS", 3 * 95 * 60)
    assert 50 < compare_policies(kinds, [20], policies=["ts"], engine=1).n_replayable[20] < 65


def test_few_tasks_are_replayed_several_times(kinds: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeats take out the luck of the order; the rewards of 25 that were recorded remain."""
    monkeypatch.setattr(_replays, "MOST_TASKS", 900)
    (often,) = compare_policies(kinds, [5], policies=["ts"], engine=1).earnings
    monkeypatch.setattr(_replays, "MOST_REPEATS", 1)
    (once,) = compare_policies(kinds, [5], policies=["ts"], engine=1).earnings
    steps = [5 * 300 * one.mean("bestseller").mean for one in (once, often)]
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


def test_many_arms_are_replayed_by_the_arms_of_few_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents that know only the arms of their own tasks decide as those that know all arms."""
    rng = np.random.default_rng(5)
    pays = np.round(rng.standard_normal((2, 30)), 2)
    counts = (rng.random((90, 30)) < 0.5).astype(int)
    path = write_arms(tmp_path / "logs.csv", counts, lambda rng, user, arm: pays[user % 2, arm])
    fit = fit_logs(path, ARMS, n_components=2, noise_std=0.3, held_out=0.5, seed=2, engine=1)
    options: dict[str, Any] = {"policies": ["greedy"], "engine": 1}
    (known,) = compare_policies(fit, [4], **options).earnings
    monkeypatch.setattr(_replays, "MANY_ARMS", 10)
    (some,) = compare_policies(fit, [4], **options).earnings
    for policy in ("bestseller", "greedy"):
        np.testing.assert_allclose(some.rewards[policy], known.rewards[policy])
        np.testing.assert_allclose(some.missed[policy], known.missed[policy], atol=1e-12)
        # The best arm of all was never shown to half of the tasks.
        assert known.restricts(policy)
    assert known.n_offered == some.n_offered == pytest.approx(15, abs=1)


# -- no personal differences ----------------------------------------------------------------------


def _clicks(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    return (rng.random(len(mean)) < 1 / (1 + np.exp(-mean))).astype(int)


def _noisy(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    return mean + rng.standard_normal(len(mean))


def _spend(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    return np.where(rng.random(len(mean)) < 0.4, np.exp(_noisy(rng, mean) / 2), 0)


FAMILIES: dict[str, tuple[dict[str, Any], Callable[..., np.ndarray]]] = {
    "bernoulli": ({}, _clicks),
    "gaussian": ({"noise": "common"}, _noisy),
    "student": ({"noise": "per-task"}, _noisy),
    "poisson": ({}, lambda rng, mean: rng.poisson(np.exp(mean))),
    "spend": ({}, _spend),
    "logistic": ({}, _clicks),
    "linear": ({"noise": "common"}, _noisy),
    "linear-student": ({"noise": "per-task"}, _noisy),
}


QUICK = ("bernoulli", "student", "logistic", "linear")
"""One of each kind: counts, real rewards, and both with features."""


@pytest.mark.parametrize(
    "family",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES],
)
def test_shuffled_tasks_gain_nothing(family: str, tmp_path: Path) -> None:
    """Two kinds of user differ much; after their names are shuffled there is no difference.

    The mixture is told that there are two kinds, so it looks for what is not there. All users like
    the third feature, so that a rival that knows nothing would lose.
    """
    settings, reward = FAMILIES[family]
    rng = np.random.default_rng(11)
    linear = family in ("logistic", "linear", "linear-student")
    shared = 1.0 if linear else 0.2
    users, taste = np.repeat(np.arange(60), 24), np.array([[2, -1.5, shared], [-1.5, 2, shared]])
    if linear:
        x = np.round(rng.standard_normal((len(users), 3)), 1)
        mean, columns = (x * taste[users % 2]).sum(axis=1) - 0.5, {"features": ["a", "b", "c"]}
    else:
        x = rng.integers(3, size=len(users))[:, None]
        mean, columns = taste[users % 2, x[:, 0]], {"arm": "a"}
    rewards = np.round(reward(rng, mean), 3)
    names = ["a", "b", "c"][: x.shape[1]]
    request = {"task": "user", "reward": "reward", "intercept": linear, **columns}
    request["family"] = family.removesuffix("-student").replace("student", "gaussian")
    outcomes = {}
    for shuffled in (False, True):
        owners = rng.permutation(users) if shuffled else users
        rows = "\n".join(",".join(map(str, row)) for row in zip(owners, *x.T, rewards, strict=True))
        path = tmp_path / f"{shuffled}.csv"
        path.write_text(f"user,{','.join(names)},reward\n{rows}\n")
        fit = fit_logs(path, request, n_components=2, n_restarts=2, seed=1, engine=1, **settings)
        compared = compare_policies(fit, [5], engine=1)
        outcomes[shuffled] = compared.outcome
    assert outcomes[False] == "gain"
    assert outcomes[True] != "gain"


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
    short, long = compared.earnings
    assert compared.n_replayable == {5: 160, 11: 160, 12: 0}  # 22 rows: 11 decisions
    assert (short.n_offered, long.n_offered) == (4, 2)
    assert compared.decisive is long
    for one in compared.earnings:
        assert (one.bestseller, one.n_tasks, one.missed) == (None, 40, {})
        for policy in compared.learning:
            assert one.clearly(policy, "bestseller")


def test_the_rival_of_features_is_one_regression_on_all_training_rows(spenders: Fit) -> None:
    rows = read_rows(spenders.logs, spenders.training)
    coefficients = pooled_scores(spenders.learned.unimodal, spenders.training_tasks)
    x, y = rows.features, rows.rewards
    np.testing.assert_allclose(coefficients, np.linalg.lstsq(x, y)[0], atol=0.02)


# -- the policy to start with ---------------------------------------------------------------------


def of(means: dict[str, float], n_decisions: int = 20, missed: float = 0.0) -> Earnings:
    """Earnings with errors of differences of about 0.01."""
    rng = np.random.default_rng(6)
    rewards = {
        name: mean + 0.1 * (noise - noise.mean())
        for name, mean in means.items()
        for noise in [rng.standard_normal(200)]
    }
    lost = dict.fromkeys(means, np.full(200, missed))
    return Earnings(n_decisions, rewards, np.full(200, 0.3), 3.0, "hats", lost)


def comparison(*earnings: Earnings) -> PolicyComparison:
    return PolicyComparison(earnings, {one.n_decisions: 200 for one in earnings}, 200)


@pytest.mark.parametrize(
    ("greedy", "ts", "ids", "agent", "outcome"),
    [
        (0.5, 0.5, 0.6, "ids", "gain"),
        (0.61, 0.5, 0.6, "ids", "gain"),  # not clearly more
        (0.65, 0.5, 0.6, "greedy", "gain"),
        (0.65, 0.7, 0.6, "ts", "gain"),
        (0.4, 0.4, 0.49, "ids", "unclear"),
        (0.4, 0.41, 0.45, "ids", "loss"),
        (0.48, 0.41, 0.45, "greedy", "unclear"),
        (0.56, 0.41, 0.45, "greedy", "gain"),
    ],
)
def test_ids_decides_unless_another_clearly_earns_more(
    greedy: float, ts: float, ids: float, agent: str, outcome: str
) -> None:
    found = comparison(of({"bestseller": 0.5, "greedy": greedy, "ts": ts, "ids": ids}))
    assert (found.agent, found.outcome) == (agent, outcome)


def test_restricted_choices_do_not_decide() -> None:
    """The error of a mean is 0.007."""
    means = {"bestseller": 0.5, "ids": 0.6}
    free, nearly, bound = of(means, 5), of(means, 10, 0.005), of(means, 20, 0.02)
    assert comparison(free, nearly, bound).decisive is nearly
    assert not comparison(free, nearly, bound).restricted
    assert comparison(bound, of(means, 30, 0.1)).decisive is bound
    assert comparison(bound).restricted


def test_no_difference_is_not_clear() -> None:
    ones, x = np.ones(9), np.ones(1)
    same = Earnings(5, dict.fromkeys(("bestseller", "ids"), ones), ones, 2.0, "x")
    assert not same.clearly("ids", "bestseller")
    single = Earnings(5, {"bestseller": np.zeros(1), "ids": x}, x, 2.0, "x")
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


# -- arms that cannot be taken --------------------------------------------------------------------


def test_arms_that_are_taken_once_are_so_for_all_policies(tmp_path: Path) -> None:
    """The logs have repeats, but live decisions will not: the bestseller must not repeat either."""
    counts = np.full((60, 12), 3)
    rates = np.tile(np.linspace(0.1, 0.9, 12), (2, 1))
    path = write_arms(tmp_path / "logs.csv", counts, click(rates))
    fit = fit_logs(path, ARMS, n_components=1, repeatable=False, seed=1, engine=1)
    compared = compare_policies(fit, [5, 10], engine=1)
    assert compared.n_replayable == {5: 60, 10: 0}
    assert compared.needed == "recorded rewards of {} arms"
    (one,) = compared.earnings
    for policy in compared.policies:  # five different arms: at best the five best ones
        mean, error = one.mean(policy)
        assert mean < np.linspace(0.1, 0.9, 12)[-5:].mean() + 4 * error
        assert one.missed[policy].min() >= 0
    assert compared.outcome == "unclear"


def test_retired_arms_are_not_replayed(tmp_path: Path) -> None:
    """An arm was retired after its rewards were logged; learning goes on from that prior."""
    path = write_arms(tmp_path / "logs.csv", np.full((60, 3), 6), click(KINDS[:, :3]))
    first = fit_logs(path, ARMS, n_components=2, seed=1, engine=1)
    start = first.prior.retire_arms(["item 2"])
    fit = fit_logs(path, ARMS, start=start, seed=1, engine=1)
    compared = compare_policies(fit, [5, 7], engine=1)
    assert compared.n_replayable == {5: 60, 7: 0}  # 12 rewards of the arms in force
    assert compared.earnings[0].n_offered == 2
    assert compared.earnings[0].bestseller != "item 2"
