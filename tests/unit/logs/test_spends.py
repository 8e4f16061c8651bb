"""Logs of revenue: which rewards are purchases and spends, however they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixts.families import SpendStatistics
from mixts.logs import read_logs
from tests.unit.logs.sample_logs import ARMS, write

RNG = np.random.default_rng(4)
N = 600
ZEROS = RNG.random(N) < 0.8
SPENDS = np.where(ZEROS, 0.0, np.exp(3 + RNG.normal(size=N)).round(2))


def text(rewards: Any) -> str:
    rows = (f"u{i % 40},item {i % 3},{float(r):g}" for i, r in enumerate(rewards))
    return "user,item,clicked\n" + "\n".join(rows) + "\n"


def expected(rewards: Any) -> SpendStatistics:
    statistics = SpendStatistics.empty((3,), 40)
    index = np.arange(len(rewards))
    # Tasks are sorted by the number in their name.
    statistics.observe(index % 40, statistics.observations(index % 3, np.asarray(rewards)))
    return statistics


def test_revenue_with_zeros_is_spend(tmp_path: Path) -> None:
    rewards = np.array([float(f"{r:g}") for r in SPENDS])
    logs = read_logs(write(tmp_path / "t.csv", text(rewards)), **ARMS)
    assert logs.family == "spend"
    bought = rewards[rewards > 0]
    assert logs.why == (
        f"{len(bought)} of {N} rewards are above 0 and range from {bought.min():g} to "
        f"{bought.max():g}: purchases and spends"
    )
    assert logs.statistics == expected(rewards)
    asked = read_logs(tmp_path / "t.csv", **ARMS, family="spend")
    assert asked.statistics == logs.statistics
    assert read_logs(tmp_path / "t.csv", **ARMS, family="gaussian").family == "gaussian"


LATE = np.concatenate([np.tile([0.0, 1.0], 200), SPENDS])
"""Zeros and ones, which look like clicks until the first spend."""


@pytest.mark.parametrize("batch_rows", [1, 50, 10_000])
def test_batches_and_files_give_the_same_spends(
    tmp_path: Path, processes: Any, batch_rows: int
) -> None:
    whole = read_logs(write(tmp_path / "t.csv", text(LATE)), **ARMS)
    assert whole.family == "spend"
    found = read_logs(tmp_path / "t.csv", **ARMS, batch_rows=batch_rows)
    assert found.statistics == whole.statistics
    lines = text(LATE).splitlines(keepends=True)
    for name, part in (("a", lines[1:101]), ("b", lines[101:700]), ("c", lines[700:])):
        write(tmp_path / f"{name}.csv", lines[0] + "".join(part))
    parts = read_logs([tmp_path / f"{name}.csv" for name in "cab"], **ARMS, batch_rows=batch_rows)
    assert (parts.family, parts.why) == (whole.family, whole.why)
    for name in SpendStatistics.fields:
        one, other = (logs.statistics.array(name) for logs in (parts, whole))
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    workers = read_logs([tmp_path / f"{name}.csv" for name in "cab"], **ARMS, engine=processes)
    one_process = read_logs([tmp_path / f"{name}.csv" for name in "cab"], **ARMS)
    assert workers.statistics == one_process.statistics


@pytest.mark.parametrize(
    ("rewards", "family"),
    [
        (np.arange(N) % 5 + 1, "gaussian"),  # ratings
        (np.arange(N) % 6, "gaussian"),  # small counts
        (np.arange(N) % 2, "bernoulli"),
        (np.where(np.arange(N) == 3, 0.0, SPENDS + 1), "gaussian"),  # hardly any zeros
        (np.where(np.arange(N) == N - 1, -5.0, SPENDS), "gaussian"),  # a refund
        (np.where(np.arange(N) == 0, -5.0, SPENDS), "gaussian"),
    ],
)
def test_other_rewards_stay_what_they_are(tmp_path: Path, rewards: Any, family: str) -> None:
    logs = read_logs(write(tmp_path / "t.csv", text(rewards)), **ARMS, batch_rows=50)
    assert logs.family == family


def test_negative_rewards_are_bad_rows_of_spends(tmp_path: Path) -> None:
    rewards = np.where(np.arange(N) == 3, -5.0, SPENDS)
    logs = read_logs(write(tmp_path / "t.csv", text(rewards)), **ARMS, family="spend")
    assert logs.bad_rows.total == 1
    assert "reward is not from 0 to 1e+75" in " ".join(logs.bad_rows.lines())
