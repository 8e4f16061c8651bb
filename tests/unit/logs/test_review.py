"""Logs that cannot be right are refused or warned about; healthy logs are not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.errors import FormatError, LogsError, ParameterError
from mixts.logs import LogWarning, files, pieces, read_logs, review, row_faults
from tests.unit.logs.sample_logs import ARMS, write

Row = tuple[Any, ...]
TIMED = {**ARMS, "time": "at"}


def logged(path: Path, rows: Iterable[Row], **columns: Any) -> tuple[LogWarning, ...]:
    """Write rows of user, item, clicked, at; read and review them."""
    lines = "\n".join(",".join(map(str, row)) for row in rows)
    write(path / "t.csv", f"user,item,clicked,at\n{lines}\n")
    return review(read_logs(path / "t.csv", **(columns or ARMS)))


def clicks(n_users: int = 60, n_rows: int = 20, n_items: int = 4, seed: int = 1) -> list[Row]:
    """Healthy clicks: random items, rates by item and user, times that increase."""
    rng = np.random.default_rng(seed)
    found = []
    for user in range(n_users):
        rates = rng.beta(1, 2, n_items)
        start = rng.uniform(0, 1e6)
        for i, item in enumerate(rng.integers(n_items, size=n_rows)):
            clicked = int(rng.random() < rates[item])
            found.append((f"u{user}", f"item {item}", clicked, round(start + 60 * i, 1)))
    return found


def amounts(reward: Callable[[np.random.Generator, int], Any], seed: int = 2) -> list[Row]:
    rng = np.random.default_rng(seed)
    rows = [(u, i, rng.uniform(0, 100)) for u in range(50) for i in rng.integers(5, size=30)]
    return [(f"u{u}", f"item {i}", reward(rng, i), f"{at:.6f}") for u, i, at in rows]


def codes(found: tuple[LogWarning, ...]) -> list[str]:
    return [warning.code for warning in found]


# -- rewards and tasks that cannot be used -----------------------------------------------------


@pytest.mark.parametrize("text", ["yes", '"1,5"', "$1", "10%"])
def test_rewards_that_are_not_numbers(text: str, tmp_path: Path) -> None:
    rows = clicks()
    some = [(*row[:2], text, row[3]) if i % 3 == 0 else row for i, row in enumerate(rows)]
    (warning,) = logged(tmp_path, some)
    assert warning.code == "unusable-rewards"
    assert warning.numbers == {"n_rows": 400}
    assert "400 of 1,200 rows are left out because their reward cannot be used" in str(warning)
    assert "A reward must be a number: 1 for a success and 0 for none" in str(warning)
    every = [(*row[:2], text, row[3]) for row in rows]
    with pytest.raises(FormatError, match=r"1,200: reward is not a number.*\n.*must be a n"):
        logged(tmp_path, every)


def test_rewards_that_the_family_does_not_allow(tmp_path: Path) -> None:
    rows = [(*row[:2], row[2] * 2 if i % 4 == 0 else row[2]) for i, row in enumerate(clicks())]
    found = logged(tmp_path, [(*row, 0) for row in rows], **ARMS, family="bernoulli")
    assert codes(found) == ["unusable-rewards"]
    assert "choose --family gaussian" in str(found[0])


def test_equal_rewards_because_the_others_are_not_numbers(tmp_path: Path) -> None:
    rows = [(*row[:2], '"1,200.50"' if row[2] else 0, row[3]) for row in clicks()]
    with pytest.raises(LogsError, match=r"every reward is 0, .* other rewards cannot be used\."):
        logged(tmp_path, rows)


def test_a_few_bad_rewards_are_no_warning(tmp_path: Path) -> None:
    rows = clicks()
    assert logged(tmp_path, [("u0", "item 1", "yes", 0), *rows]) == ()


def described(path: Path, value: Callable[[int], Any], **columns: Any) -> tuple[LogWarning, ...]:
    """Write rows with the features price and size, whose price has these values; review them."""
    rng = np.random.default_rng(3)
    lines = [f"u{i % 40},{value(i)},{rng.integers(9)},{rng.normal():.3f}" for i in range(1200)]
    write(path / "t.csv", "user,price,size,spent\n" + "\n".join(lines) + "\n")
    known = {"task": "user", "reward": "spent", "features": ["price", "size"], **columns}
    return review(read_logs(path / "t.csv", **known))


def test_rows_that_a_feature_loses_come_first(tmp_path: Path) -> None:
    """The first sentence says how many rows are lost, and for which value."""
    found = described(tmp_path, lambda i: "free" if i % 3 == 0 else i / 10)
    assert codes(found)[0] == "lost-rows"
    assert found[0].numbers == {"n_rows": 400}
    said = "400 of 1,200 rows are left out because feature 'price' is not a number ('free', ...)"
    assert str(found[0]).startswith(said)
    (one,) = described(tmp_path, lambda i: "free" if i == 7 else i / 10)
    assert "1 of 1,200 rows is left out" in str(one)
    assert described(tmp_path, lambda i: i / 10) == ()


def test_features_without_a_value_are_lost_rows(tmp_path: Path) -> None:
    (warning,) = described(tmp_path, lambda i: "" if i % 20 == 0 else i / 10)
    assert str(warning).startswith("60 of 1,200 rows are left out because there is no feature 'pr")
    # A few empty cells are usual.
    assert described(tmp_path, lambda i: "" if i % 200 == 0 else i / 10) == ()


def test_levels_that_an_earlier_prior_does_not_know_are_lost_rows(tmp_path: Path) -> None:
    brand = mixts.LevelFeature("price", ("low", "high"))
    features = mixts.Features([brand, "size"])
    levels = ["low", "high", "sale"]
    (warning,) = described(tmp_path, lambda i: levels[i % 3], features=features)
    assert "because feature 'price' has an unknown level ('sale', ...)" in str(warning)
    assert "--features" in str(warning)


def task_features(path: Path, rows: Iterable[Row], **columns: Any) -> tuple[LogWarning, ...]:
    """Write rows of user, age, price, brand, spent; read and review them."""
    lines = "\n".join(",".join(map(str, row)) for row in rows)
    write(path / "t.csv", f"user,age,price,brand,spent\n{lines}\n")
    known = {"task": "user", "reward": "spent", "features": ["age", "price", "brand"], **columns}
    return review(read_logs(path / "t.csv", **known))


def visits(
    age: Callable[[int], Any], brand: Callable[[int, int], str], reward: str = "gaussian"
) -> list[Row]:
    rng = np.random.default_rng(6)
    return [
        (f"u{u}", age(u), round(rng.uniform(1, 9), 1), brand(u, i),
         round(rng.normal(), 3) if reward == "gaussian" else int(rng.integers(2)))
        for u in range(60) for i in range(10)
    ]  # fmt: skip


@pytest.mark.parametrize("reward", ["gaussian", "clicks"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("batch_rows", [7, 1000])
def test_features_that_never_change_within_a_task(
    reward: str, intercept: bool, batch_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither numbers nor levels of text can be told from the task they stand for."""
    monkeypatch.setattr(files, "PIECE_BYTES", 500)
    options = {"intercept": intercept, "batch_rows": batch_rows}
    rows = visits(lambda u: 20 + u, lambda u, i: "ab"[u % 2], reward)
    (warning,) = task_features(tmp_path, rows, **options)
    assert warning.code == "task-features"
    assert str(warning).startswith("'age' and 'brand' never change within a task")
    assert "--features" in str(warning)
    assert warning.numbers == {"n_features": 2}
    rows = visits(lambda u: 20 + u, lambda u, i: "ab"[i % 2], reward)
    (warning,) = task_features(tmp_path, rows, **options)
    assert str(warning).startswith("'age' never changes within a task")
    # One task in which it changes is enough to tell.
    rows[0] = ("u0", 99, *rows[0][2:])
    assert task_features(tmp_path, rows, **options) == ()


def test_features_that_never_change_at_all(tmp_path: Path) -> None:
    for age, said in ((30, "30"), (1.7e9, "1.7e+09")):
        rows = visits(lambda u, age=age: age + u * age * 1e-9, lambda u, i: "ab"[i % 2])
        found = task_features(tmp_path, rows)
        assert found[0].code == "constant-features"
        assert f"'age' is {said} in all rows" in str(found[0])


def test_tasks_of_one_row_say_nothing_about_constant_features(tmp_path: Path) -> None:
    rows = [
        (f"u{i}", *row[1:]) for i, row in enumerate(visits(lambda u: u, lambda u, i: "ab"[i % 2]))
    ]
    assert codes(task_features(tmp_path, rows)) == ["no-kinds"]


@pytest.mark.parametrize("factor", [100, 0.01])
def test_features_in_other_units_than_an_earlier_prior_learned(
    factor: float, tmp_path: Path
) -> None:
    rows = visits(lambda u: u, lambda u, i: "ab"[i % 2])
    task_features(tmp_path, rows)
    features = read_logs(
        tmp_path / "t.csv", task="user", reward="spent", features=["price", "brand"]
    ).space
    changed = [(u, a, price * factor, b, r) for u, a, price, b, r in rows]
    (warning,) = task_features(tmp_path, changed, features=features)
    assert warning.code == "other-units"
    assert "'price' is from" in str(warning)
    assert task_features(tmp_path, rows, features=features) == ()


@pytest.mark.parametrize(("n_users", "warned"), [(1, True), (7, True), (8, False)])
def test_few_tasks(n_users: int, warned: bool, tmp_path: Path) -> None:
    found = logged(tmp_path, clicks(n_users, n_rows=200))
    assert codes(found) == ["few-tasks"] * warned


# -- healthy logs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("columns", [ARMS, TIMED])
def test_healthy_clicks_have_no_warnings(
    seed: int, columns: dict[str, Any], tmp_path: Path
) -> None:
    assert logged(tmp_path, clicks(seed=seed), **columns) == ()


@pytest.mark.parametrize(
    "reward",
    [
        lambda rng, i: int(rng.random() < (0.01, 0.99, 0.02, 0.5, 0.98)[i]),
        lambda rng, i: int(rng.integers(1, 6)),
        lambda rng, i: int(rng.poisson(3 + i)),
        lambda rng, i: round(float(rng.normal(i, 2)), 3),
        lambda rng, i: (0, 9.99, 5)[int(rng.integers(3))],
        lambda rng, i: min(1 + int(rng.exponential(1.0)), 5),
        lambda rng, i: round(float(rng.normal(20 + i, 3)), 1),
        lambda rng, i: round(float(rng.uniform(0.01, 1)), 3),
    ],
    ids=[
        "extreme rates",
        "ratings",
        "counts",
        "amounts",
        "prices",
        "bad ratings",
        "temperatures",
        "scores",
    ],
)
@pytest.mark.parametrize("columns", [ARMS, TIMED])
def test_healthy_rewards_have_no_warnings(
    reward: Callable[[np.random.Generator, int], Any], columns: dict[str, Any], tmp_path: Path
) -> None:
    assert logged(tmp_path, amounts(reward), **columns) == ()


def test_healthy_features_have_no_warnings(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [
        (f"u{u}", round(age, 2), round(age * (u % 2) + rng.normal(), 3), f"2024-05-{1 + u % 28:02}")
        for u in range(40)
        for age in rng.standard_normal(12)
    ]
    columns = {"task": "user", "features": ["item"], "reward": "clicked"}
    assert logged(tmp_path, rows, **columns) == ()
    assert logged(tmp_path, rows, **columns, time="at") == ()
    positive = [(user, item, reward + 20, at) for user, item, reward, at in rows]
    assert logged(tmp_path, positive, **columns) == ()


def test_days_are_times_that_many_rows_share(tmp_path: Path) -> None:
    """A user sees an item several times a day, and mostly without a click."""
    rng = np.random.default_rng(4)
    rows = [
        (f"u{u}", f"item {rng.integers(3)}", int(rng.random() < 0.05), f"2024-05-{1 + day:02}")
        for u in range(60)
        for day in range(5)
        for _ in range(12)
    ]
    assert logged(tmp_path, rows, **TIMED) == ()


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: (*r[:2], 1, r[3]), ["every reward is 1", "log", "--missing-reward 0"]),
        (lambda r: (*r[:2], 0, r[3]), ["every reward is 0", "--reward"]),
        (lambda r: (*r[:2], r[2] or "", r[3]), ["no reward", "--missing-reward 0"]),
        (lambda r: (r[0], "shoes", *r[2:]), ["same arm, 'shoes'", "--arm"]),
        (lambda r: (r[0], f"{r[0]} {r[3]}", *r[2:]), ["1,200 rows have 1,200", "--arm"]),
    ],
    ids=["all ones", "all zeros", "only clicks", "one arm", "an arm a row"],
)
def test_logs_that_teach_nothing_are_refused(
    change: Callable[[Row], Row], words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(LogsError) as refused:
        logged(tmp_path, map(change, clicks()))
    for word in words:
        assert word.lower() in str(refused.value).lower()


def test_only_clicks_with_some_empty_ones_are_refused(tmp_path: Path) -> None:
    rows = [r for i, r in enumerate(clicks()) if r[2] or i % 9 == 0]
    with pytest.raises(LogsError, match=r"every reward that is present is 1.*--missing-reward 0"):
        logged(tmp_path, [(*r[:2], r[2] or "", r[3]) for r in rows])
    rest = {**ARMS, "missing_reward": 1}
    with pytest.raises(LogsError, match="another value must stand for no reward"):
        logged(tmp_path, [(*r[:2], r[2] or "", r[3]) for r in rows], **rest)


# -- warnings -------------------------------------------------------------------------------------


def test_positive_rewards_beside_empty_ones(tmp_path: Path) -> None:
    rows = amounts(lambda rng, i: rng.choice([1, 2, 5, ""], p=[0.3, 0.2, 0.1, 0.4]))
    (warning,) = logged(tmp_path, rows)
    assert warning.code == "empty-rewards"
    assert "--missing-reward 0" in warning.sentence
    assert f"{warning.numbers['n_rows']:,} rows have no reward" in warning.sentence


@pytest.mark.parametrize(
    "reward",
    [
        lambda rng, i: round(float(20 * np.exp(rng.normal(0.2 * i, 0.6))), 2),
        lambda rng, i: (9.99, 19.99, 49.99, 5, 99)[i],
    ],
    ids=["baskets", "a price for each item"],
)
def test_purchases_without_the_rows_that_did_not_buy(
    reward: Callable[[np.random.Generator, int], Any], tmp_path: Path
) -> None:
    bought = amounts(reward)
    (warning,) = logged(tmp_path, bought)
    assert warning.code == "only-purchases"
    assert warning.numbers["low"] > 0
    assert "log what was shown without a purchase, too, with the reward 0" in str(warning)
    assert logged(tmp_path, bought, **ARMS, family="gaussian") == ()
    (spend,) = logged(tmp_path, bought, **ARMS, family="spend")
    assert spend.code == "only-purchases"
    assert logged(tmp_path, [*bought, ("u1", "item 1", 0, 1.0)]) == ()
    features = {"task": "user", "features": ["item"], "reward": "clicked"}
    assert codes(logged(tmp_path, bought, **features)) == ["only-purchases"]
    assert logged(tmp_path, bought, **features, family="linear") == ()


def test_a_task_a_row(tmp_path: Path) -> None:
    rows = [(f"{r[0]} {i}", *r[1:]) for i, r in enumerate(clicks())]
    (warning,) = logged(tmp_path, rows)
    assert warning.code == "no-kinds"
    assert "Every task has one row (1,200 tasks)" in warning.sentence
    assert "--task" in warning.sentence


def test_short_tasks(tmp_path: Path) -> None:
    (warning,) = logged(tmp_path, [(i // 2, *r[1:]) for i, r in enumerate(clicks())])
    assert warning.code == "no-kinds"
    assert "600 of 600 tasks have only one or two rows" in warning.sentence
    short = [(f"short {i}", *r[1:]) for i, r in enumerate(clicks(n_users=5))]
    (warning,) = logged(tmp_path, [*clicks(), *short])
    assert (warning.code, warning.numbers["n_long"]) == ("short-tasks", 60)
    assert "come from the other 60 tasks" in warning.sentence


def test_rare_arms(tmp_path: Path) -> None:
    rare = [("u1", f"new {i}", i % 2, 0) for i in range(5)]
    (warning,) = logged(tmp_path, [*clicks(), *rare, *rare[:1]])
    assert warning.code == "rare-arms"
    assert "5 arms have few rows: new 1 (1), new 2 (1), new 3 (1) and 2 more" in warning.sentence


@pytest.mark.parametrize("factor", [2, 3])
def test_a_file_given_twice(factor: int, tmp_path: Path) -> None:
    (warning,) = logged(tmp_path, clicks() * factor)
    assert (warning.code, warning.numbers["factor"]) == ("copies", factor)
    assert f"Every row occurs {factor} times" in warning.sentence


@pytest.mark.parametrize("copied", [0.05, 0.5])
def test_a_join_that_made_copies(copied: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = [r for r in clicks() for _ in range(1 + int(rng.random() < copied))]
    (warning,) = logged(tmp_path, rows, **TIMED)
    assert warning.code == "copies"
    assert warning.numbers["n_copies"] == len(rows) - 1200
    assert f"{len(rows) - 1200:,} of {len(rows):,} rows repeat" in warning.sentence


def test_rows_sorted_by_reward(tmp_path: Path) -> None:
    rows = sorted(clicks(), key=lambda r: -r[2])
    for columns in (ARMS, TIMED):
        (warning,) = logged(tmp_path, rows, **columns)
        assert warning.code == "sorted-rewards"
        assert "replays shuffle" in warning.sentence
        assert warning.numbers["n_sorted"] == warning.numbers["n_tasks"] > 50


def test_a_time_that_tells_the_reward(tmp_path: Path) -> None:
    rows = [(*r[:3], r[3] + (1e7 if r[2] else 0)) for r in clicks()]
    found = logged(tmp_path, rows, **TIMED)
    assert "time-follows-reward" in codes(found)
    assert "is it the time of the choice (--time)?" in " ".join(map(str, found))


def test_rewards_that_drift(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    rows = [
        (f"u{u}", f"item {i}", int(rng.random() < (0.1 + 0.5 * (i == 1) * u / 200)), u)
        for u in range(200)
        for i in rng.integers(3, size=15)
    ]
    (warning,) = logged(tmp_path, rows, **TIMED)
    assert warning.code == "drift"
    assert "item 1 0." in warning.sentence
    assert warning.numbers["n_arms"] == 1
    assert warning.numbers["first"] < warning.numbers["last"]


def test_chance_does_not_drift(tmp_path: Path) -> None:
    """Users differ, and each has a time of its own: rows are no independent evidence."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = [
            (f"u{u}", f"item {i}", int(rng.random() < rate), u)
            for u, rate in enumerate(rng.beta(0.3, 0.7, 60))
            for i in rng.integers(3, size=30)
        ]
        assert logged(tmp_path, rows, **TIMED) == ()


# -- the sample -----------------------------------------------------------------------------------


def test_a_sample_depends_on_the_logs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: Any
) -> None:
    monkeypatch.setattr(pieces, "MOST_ROWS", 250)
    logged(tmp_path, clicks())
    whole = read_logs(tmp_path / "t.csv", **TIMED).sample
    users = len(np.unique(whole.tasks))
    assert len(whole) == 20 * users == 240
    monkeypatch.setattr(files, "PIECE_BYTES", 3000)
    monkeypatch.setattr(files, "_SCAN_BYTES", 1000)
    for engine in (None, processes):
        other = read_logs(tmp_path / "t.csv", **TIMED, batch_rows=17, engine=engine).sample
        for name in ("tasks", "choices", "rewards", "times"):
            assert np.array_equal(getattr(other, name), getattr(whole, name)), name


def test_one_long_task_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MOST_ROWS", 50)
    rows = clicks(n_users=1, n_rows=300)
    logged(tmp_path, rows)
    found = read_logs(tmp_path / "t.csv", **ARMS, batch_rows=20).sample
    assert found.rewards.tolist() == [r[2] for r in rows[:50]]


def test_faults_are_found_in_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MOST_ROWS", 300)
    assert codes(logged(tmp_path, clicks() * 2)) == ["copies"]
    assert codes(logged(tmp_path, sorted(clicks(), key=lambda r: r[2]))) == ["sorted-rewards"]
    assert row_faults.FALSE_ALARM_RATE < 0.001


# -- outliers -------------------------------------------------------------------------------------


def with_outliers(rows: list[Row], size: float, n: int = 3) -> list[Row]:
    """Replace the reward of one row of each of n users."""
    places = [90 * i + 7 for i in range(n)]
    return [(*r[:2], size, r[3]) if i in places else r for i, r in enumerate(rows)]


def test_a_few_huge_rewards_are_outliers(tmp_path: Path) -> None:
    rows = amounts(lambda rng, i: round(rng.normal(i, 1), 3))
    usual = [r[2] for r in with_outliers(rows, np.nan) if np.isfinite(r[2])]
    low, high = min(usual), max(usual)
    (found,) = logged(tmp_path, with_outliers(rows, 1e5))
    assert found.code == "outliers"
    assert found.sentence == (
        f"3 of 1,500 rewards are outliers (100000; the others are from {low:g} to {high:g}) and "
        "make 100% of the variance, which hides the others. If they are errors or rare luck, limit "
        f"rewards to the range of the others: --clip={low},{high} (clip=({low}, {high}))."
    )
    assert {k: found.numbers[k] for k in ("n_rewards", "low", "high")} == {
        "n_rewards": 3, "low": low, "high": high,
    }  # fmt: skip
    clipped = read_logs(tmp_path / "t.csv", **ARMS, clip=(low, high))
    assert clipped.reward_range == (low, high)
    assert review(clipped) == ()


@pytest.mark.parametrize("n_rows", [60, 100, 1500])
def test_the_proposed_limits_are_accepted_and_enough(n_rows: int, tmp_path: Path) -> None:
    """Limits at the middle 98 % of few rows left an outlier, and were refused for equal rewards."""
    rows = amounts(lambda rng, i: round(rng.normal(i, 1), 3))[:n_rows]
    options: dict[str, Any] = {**ARMS, "family": "gaussian"}
    found = logged(tmp_path, with_outliers(rows, 1e6, n=1), **options)
    limits = re.search(r"--clip=(\S+),(\S+) ", " ".join(map(str, found)))
    assert limits is not None
    clip = (float(limits[1]), float(limits[2]))
    clipped = review(read_logs(tmp_path / "t.csv", **options, clip=clip))
    assert "outliers" not in codes(clipped)
    same = with_outliers([(*row[:2], -1.0, row[3]) for row in rows], 1e6, n=1)
    found = logged(tmp_path, same, **options)
    assert "outliers" in codes(found)
    assert "--clip" not in " ".join(map(str, found))


def test_outliers_of_revenue_are_spends(tmp_path: Path) -> None:
    rows = amounts(lambda rng, i: int(rng.integers(3)))
    (found,) = logged(tmp_path, with_outliers(rows, 1e5, n=1), **ARMS, family="gaussian")
    assert found.code == "outliers"
    assert found.sentence.startswith("1 of 1,500 rewards is an outlier (100000; ")
    assert found.sentence.endswith('choose --family spend (family="spend").')


def spends(rng: np.random.Generator, i: int) -> float:
    return round(float(np.exp(rng.normal(3, 0.8))), 2) if rng.random() < 0.3 else 0.0


def test_an_order_far_above_the_others_is_an_outlier(tmp_path: Path) -> None:
    rows = with_outliers(amounts(spends), 1e5, n=1)
    (found,) = logged(tmp_path, rows)
    assert found.code == "outliers"
    usual = [r[2] for r in rows if 0 < r[2] < 1e5]
    low, high = min(usual), max(usual)
    assert found.sentence == (
        f"1 of {len(usual) + 1} spends is an outlier (100000; the others are from {low:g} to "
        f"{high:g}). One such order can make the learned mean of its arm several times too large. "
        "If it is an error or rare luck, limit rewards to the largest of the others: "
        f"--clip=0,{high:g} (clip=(0, {high:g}))."
    )
    assert found.numbers == {"n_rewards": 1, "low": low, "high": high}
    clipped = read_logs(tmp_path / "t.csv", **ARMS, clip=(0, high))
    assert clipped.family == "spend"
    assert review(clipped) == ()


@pytest.mark.parametrize(("size", "n"), [(400.0, 1), (1e5, 8), (0.001, 1)])
def test_usual_orders_are_no_outliers(size: float, n: int, tmp_path: Path) -> None:
    assert logged(tmp_path, with_outliers(amounts(spends), size, n=n)) == ()


def test_nearly_equal_orders_are_no_outliers(tmp_path: Path) -> None:
    rows = amounts(lambda rng, i: 10.0 if rng.random() < 0.5 else 0.0)
    assert logged(tmp_path, with_outliers(rows, 20.0, n=1), **ARMS, family="spend") == ()


@pytest.mark.parametrize("n", [3, 8])
def test_many_large_rewards_are_no_outliers(n: int, tmp_path: Path) -> None:
    rows = amounts(lambda rng, i: round(rng.normal(i, 1), 3))
    found = logged(tmp_path, with_outliers(rows, 1e5 if n == 8 else 12.0, n=n))
    assert "outliers" not in codes(found)


@pytest.mark.parametrize("clip", [(1, 0), (0, 0), (0, np.inf), (np.nan, 1)])
def test_bad_limits_are_refused(clip: Any, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", "user,item,clicked\nu,a,1\n")
    with pytest.raises(ParameterError, match="clip must be the smallest and the largest reward"):
        read_logs(tmp_path / "t.csv", **ARMS, clip=clip)
