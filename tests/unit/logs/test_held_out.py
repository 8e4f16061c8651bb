"""Tasks that are held out: at random, or by time without learning from the future."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixts.errors import LogsError
from mixts.logs import TaskLogs, files, read_logs
from mixts.logs.fit import fit_logs
from mixts.logs.held_out import MOST_HELD_OUT, divide, split
from tests.unit.logs.sample_logs import ARMS, LINEAR, write

TIMED = {**ARMS, "time": "at"}


def test_tasks_are_held_out_once() -> None:
    held_out, training = split(50, 0.3, 1)
    assert len(held_out) == 15
    assert sorted([*training, *held_out]) == list(range(50))
    assert len(split(100_000, 0.3, 1)[0]) == MOST_HELD_OUT


def timed_logs(path: Path, length: float, **columns: Any) -> tuple[TaskLogs, list[list[Any]]]:
    """User u begins at time 10 u, and has 8 rows within a length of time; rows are shuffled."""
    rng = np.random.default_rng(1)
    rows = [
        [f"u{u}", f"item {rng.integers(3)}", int(rng.random() < 0.4), 10 * u + length * i / 8]
        for u in range(40)
        for i in range(8)
    ]
    order = rng.permutation(len(rows))
    text = "\n".join(",".join(map(str, rows[i])) for i in order)
    write(path / "t.csv", f"user,item,clicked,at\n{text}\n")
    return read_logs(path / "t.csv", **(columns or TIMED)), rows


def test_the_latest_tasks_are_held_out(tmp_path: Path) -> None:
    logs, _ = timed_logs(tmp_path, 5)
    found = divide(logs, 0.25, seed=1)
    assert [logs.tasks[i] for i in found.held_out] == [f"u{u}" for u in range(30, 40)]
    assert [logs.tasks[i] for i in found.training] == [f"u{u}" for u in range(30)]
    assert found.statistics == logs.statistics[found.training]
    assert found.warning is None


@pytest.mark.parametrize("engine", [None, "processes"])
def test_nothing_is_learned_from_the_future(
    engine: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Rows at the boundary or after it do not count, also of tasks that began before it."""
    monkeypatch.setattr(files, "PIECE_BYTES", 2000)
    monkeypatch.setattr(files, "_SCAN_BYTES", 1000)
    logs, rows = timed_logs(tmp_path, 80)
    found = divide(logs, 0.25, seed=1, engine=engine and request.getfixturevalue(engine))
    earlier = [row for row in rows if row[3] < 300]
    assert [logs.tasks[i] for i in found.held_out] == [f"u{u}" for u in range(30, 40)]
    for i, task in enumerate(found.training):
        for k, arm in enumerate(logs.arms or ()):
            won = [r[2] for r in earlier if (r[0], r[1]) == (logs.tasks[task], arm)]
            assert found.statistics.array("successes")[i, k] == sum(won)
            assert found.statistics.array("failures")[i, k] == len(won) - sum(won)
    assert int(np.sum(found.statistics.n_observations)) == len(earlier)
    over = {row[0] for row in rows if row[3] >= 300} & {row[0] for row in earlier}
    assert found.warning is not None
    assert f"{len(over)} of 30 tasks to learn from go on after 300" in found.warning.sentence
    left = 240 - len(earlier)
    assert found.warning.numbers["n_left_out"] == left
    assert f"({left} of 240) are left out" in found.warning.sentence


def test_times_are_of_any_kind(tmp_path: Path) -> None:
    """Dates, dates with zones, numbers: the same division."""
    logs, rows = timed_logs(tmp_path, 80)
    expected = divide(logs, 0.25, seed=1)
    for made in (
        lambda t: np.datetime_as_string(np.datetime64("2024-01-01") + np.timedelta64(int(t), "h")),
        lambda t: f"2024-01-{1 + int(t) // 24:02}T{int(t) % 24:02}:00:00+00:00",
        lambda t: f" {1e9 + t} ",
    ):
        lines = "\n".join(f"{u},{i},{y},{made(t)}" for u, i, y, t in rows)
        write(tmp_path / "t.csv", f"user,item,clicked,at\n{lines}\n")
        other = read_logs(tmp_path / "t.csv", **TIMED)
        assert other.bad_rows.total == 0
        found = divide(other, 0.25, seed=1)
        assert np.array_equal(found.held_out, expected.held_out)
        assert found.statistics == expected.statistics


def test_bad_times_are_bad_rows(tmp_path: Path) -> None:
    text = "user,item,clicked,at\nu,a,1,5\nu,b,0,\nu,a,1,soon\nu,a,0,inf\nu,a,0,7\nu,b,0,8\n"
    logs = read_logs(write(tmp_path / "t.csv", text), **TIMED)
    assert dict(logs.bad_rows.counts) == {
        "no time": 1, "time is neither a number nor a date": 1, "time is not finite": 1,
    }  # fmt: skip
    mixed = text.replace("u,a,1,5", "u,a,1,2024-05-01")
    with pytest.raises(Exception, match="1 times are dates and 2 are numbers"):
        read_logs(write(tmp_path / "t.csv", mixed), **TIMED)


def test_tasks_that_begin_together(tmp_path: Path) -> None:
    """Random ones of them are held out, the others are not learned from."""
    rows = [f"u{u},{i % 2},{(u + i) % 3 // 2},{u // 20}" for u in range(60) for i in range(5)]
    text = "\n".join(["user,item,clicked,at", *rows])
    logs = read_logs(write(tmp_path / "t.csv", text + "\n"), **TIMED)
    found = divide(logs, 0.2, seed=1)
    assert len(found.held_out) == 12
    assert {int(logs.tasks[i][1:]) // 20 for i in found.held_out} == {2}
    assert {int(logs.tasks[i][1:]) // 20 for i in found.training} == {0, 1}
    same = text.replace(",0\n", ",2\n").replace(",1\n", ",2\n")
    logs = read_logs(write(tmp_path / "t.csv", same + "\n"), **TIMED)
    with pytest.raises(LogsError, match=r"no task begins before 2,.*leave out --time"):
        divide(logs, 0.2, seed=1)


def test_a_fit_learns_from_earlier_rows(tmp_path: Path) -> None:
    logs, _ = timed_logs(tmp_path, 200)
    fit = fit_logs(tmp_path / "t.csv", TIMED, n_components=1, held_out=0.25, seed=1, engine=1)
    codes = [warning.code for warning in fit.warnings]
    assert codes == ["tasks-over-boundary"]
    assert fit.training_tasks == divide(logs, 0.25, seed=1).statistics
    assert fit.check is not None
    assert fit.check.n_tasks == 10


def test_short_tasks_get_one_component(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = [f"u{u},{u % 3},{int(rng.random() < (u % 3) / 4)},0" for u in range(300)]
    path = write(tmp_path / "t.csv", "\n".join(["user,item,clicked,at", *rows]) + "\n")
    fit = fit_logs(path, ARMS, seed=1, engine=1)
    assert [warning.code for warning in fit.warnings] == ["no-kinds"]
    assert (fit.n_components, fit.n_compared, fit.learned.selection) == (1, 0, None)


def test_features_are_divided_by_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [
        f"u{u},{rng.normal():.2f},{rng.normal():.2f},{rng.normal():.3f},{3 * u + i}"
        for u in range(30)
        for i in range(6)
    ]
    text = "\n".join(["user,age,price,spent,at", *rows])
    logs = read_logs(write(tmp_path / "t.csv", text + "\n"), **LINEAR, time="at")
    found = divide(logs, 0.2, seed=1)
    assert int(np.sum(found.statistics.n_observations)) == 24 * 6 - 3
    assert found.warning is not None


def test_a_missing_reward_that_no_row_needs_may_be_unlike_the_others(tmp_path: Path) -> None:
    timed_logs(tmp_path, 80)
    found, expected = (
        divide(read_logs(tmp_path / "t.csv", **TIMED, missing_reward=value), 0.25, seed=1)
        for value in (0.5, None)
    )
    assert found.warning is not None
    assert found.statistics == expected.statistics


@pytest.mark.parametrize("columns", [ARMS, {**LINEAR, "reward": "clicked"}])
def test_a_missing_reward_that_is_clipped_is_read_again(
    columns: dict[str, Any], tmp_path: Path
) -> None:
    """It counted as the limit at first, and was refused for the family that the limits had."""
    rng = np.random.default_rng(5)
    rows = [
        f"u{u},a,{rng.normal():.2f},{i},{'' if rng.random() < 0.3 else 1},{3 * u + i}"
        for u in range(30)
        for i in range(6)
    ]
    path = write(tmp_path / "t.csv", "\n".join(["user,item,age,price,clicked,at", *rows, ""]))
    options = {**columns, "time": "at", "clip": (0, 1)}
    found, expected = (
        divide(read_logs(path, **options, missing_reward=value), 0.2, seed=1) for value in (-1, 0)
    )
    assert found.warning is not None
    assert found.statistics == expected.statistics


def test_a_column_of_an_export_is_a_feature_also_when_it_is_read_again(tmp_path: Path) -> None:
    """Features of an earlier prior have other columns where exports need their names."""
    names = ["pscore", "action_dist", "prior_version"]
    rng = np.random.default_rng(4)
    rows = [
        f"u{u},{i % 4},{rng.normal():.2f},{3 * u + i},1,1,1" for u in range(30) for i in range(6)
    ]
    text = "\n".join([f"task,position,reward,at,{','.join(names)}", *rows])
    columns = {"task": "task", "features": ["position"], "reward": "reward", "time": "at"}
    logs = read_logs(write(tmp_path / "t.csv", text + "\n"), **columns)
    assert logs.schema.exported
    assert divide(logs, 0.2, seed=1).warning is not None
