"""One suite over engines and blocks: learning from a folder gives the same prior everywhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.engines import Engine, engine_of
from mixts.learning import TaskFolder, learn
from mixts.learning.climbing import Patience, _expected, climb
from mixts.learning.em import PSEUDO
from mixts.learning.models import Model, model_of
from mixts.learning.passes import Passes
from tests.oracles.learning_references import COVARIANCE_TYPES, KINDS, case_of

GRAIN, N_TASKS, IN_MEMORY = 8, 100, 40
N_BLOCKS = {1: 13 * GRAIN, 2: 7 * GRAIN, 7: 2 * GRAIN}
"""Number of tasks in a block, by the number of blocks."""
SAME = 1e-10
"""Largest relative difference between engines and between numbers of blocks. They are equal to the
bit here; machines of one cluster may differ in the last digits."""
ENGINES = (
    "this process",
    "2 processes",
    "dask",
    pytest.param("spark", marks=pytest.mark.slow),
)


@cache
def rewards(kind: str) -> Any:
    """Statistics of tasks of two kinds, of families that have no reference for their objective."""
    rng = np.random.default_rng(4)
    kinds, owners = rng.integers(2, size=N_TASKS), np.repeat(np.arange(N_TASKS), 12)
    actions: Any = rng.integers(2, size=len(owners))
    signal = np.where(kinds[owners] == actions, 1.0, -1.0)
    signal += rng.normal(0, 0.5, (N_TASKS, 2))[owners, actions]
    clicks = (rng.random(len(owners)) < 1 / (1 + np.exp(-signal))).astype(float)
    if kind == "clicks":
        family: Any = mixts.LinearBernoulli.standard(2)
        actions, outcomes = np.eye(2)[actions] + rng.integers(2, size=(len(owners), 1)), clicks
    elif kind == "spend":
        ones = np.ones((1, 2))
        family = mixts.SpendArms(ones, ones, ones, ones, 2 * ones, 2 * ones)
        outcomes = clicks * np.exp(signal + rng.normal(0, 0.3, len(owners)))
    else:
        family = mixts.GaussianArms(np.zeros((1, 2)), np.ones((1, 2)), 1.0)
        outcomes = signal + rng.normal(0, 0.5 + kinds[owners])
    belief = mixts.MixturePrior(family).belief(N_TASKS)
    belief.update(actions, outcomes, owners)
    return belief.statistics


FAMILIES = (*KINDS, "spend", "clicks", "per-task", "linear per-task")


@cache
def case(kind: str) -> tuple[Any, dict[str, Any]]:
    """Return the statistics of a hundred tasks, and the options to learn from them."""
    if kind == "linear per-task":
        return case_of("full", N_TASKS).statistics, {"noise": "per-task"}
    if kind not in KINDS:
        return rewards(kind), {"noise": kind} if kind == "per-task" else {}
    found = case_of(kind, N_TASKS)
    return found.statistics, found.options


@contextmanager
def engine(name: str) -> Iterator[Engine]:
    if name == "dask":
        pytest.importorskip("distributed", reason="needs the extra dask")
        from mixts.engines.dask import DaskEngine

        with DaskEngine(n_workers=2) as where:
            yield where
        return
    if name == "spark":
        with engine_of(spark_session()) as where:
            yield where
        return
    with engine_of({"this process": 1, "2 processes": 2}[name]) as where:
        yield where


@cache
def spark_session() -> Any:
    """Return a session with two threads, which ends with this process."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # where mixts is installed
    sql = pytest.importorskip("pyspark.sql", reason="needs pyspark")
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    address = "127.0.0.1"
    builder = builder.config("spark.driver.bindAddress", address)
    return builder.config("spark.driver.host", address).getOrCreate()


def written(folder: Path, kind: str, n_blocks: int) -> TaskFolder:
    """Write the tasks in uneven parts."""
    statistics, _ = case(kind)
    parts = (statistics[a:b] for a, b in ((0, 3), (3, 50), (50, 51), (51, N_TASKS)))
    path = folder / f"{kind}-{n_blocks}"
    TaskFolder.write(path, parts, block=N_BLOCKS[n_blocks], grain=GRAIN)
    return TaskFolder(path, in_memory=IN_MEMORY)


def numbers(learned: Any) -> list[Any]:
    """Return all numbers of both priors and of the course of learning."""
    arrays = [
        array
        for prior in (learned.prior, learned.unimodal)
        for array in (*prior.family.arrays().values(), prior.weights, prior.origin.known)
    ]
    return [*arrays, learned.history.objective]


def learned_from(tasks: Any, kind: str, where: Engine) -> Any:
    _, options = case(kind)
    return learn(tasks, 2, seed=0, n_restarts=1, engine=where, **options)


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_number_of_blocks_changes_nothing(kind: str, tmp_path: Path) -> None:
    with engine("this process") as here:
        first, *others = (
            numbers(learned_from(written(tmp_path, kind, n), kind, here)) for n in N_BLOCKS
        )
    for other in others:
        for one, same in zip(first, other, strict=True):
            np.testing.assert_allclose(same, one, rtol=SAME, atol=0)


@pytest.mark.parametrize("name", ENGINES[1:])
def test_the_engine_changes_nothing(name: str, tmp_path: Path) -> None:
    kinds = ("bernoulli", "full", "clicks")
    with engine("this process") as here:
        expected = [numbers(learned_from(written(tmp_path, k, 7), k, here)) for k in kinds]
    with engine(name) as there:
        for kind, one in zip(kinds, expected, strict=True):
            folder = tmp_path / f"{kind}-7"
            for note in (folder / "climbs").iterdir():  # else nothing would be left to learn
                note.unlink()
            other = numbers(learned_from(TaskFolder(folder, in_memory=IN_MEMORY), kind, there))
            for mine, theirs in zip(one, other, strict=True):
                np.testing.assert_allclose(theirs, mine, rtol=SAME, atol=0)


@pytest.mark.parametrize("kind", FAMILIES)
def test_one_pass_sums_what_memory_would(kind: str, tmp_path: Path) -> None:
    """The E step over blocks, against the same step over all tasks in memory."""
    statistics, options = case(kind)
    noise = options.get("noise")
    model: Model = model_of(statistics, **{**options, "noise": noise})
    groups = np.arange(N_TASKS) % 2
    share = np.eye(2)[groups]
    family = model.improve(model.centre.select([0, 0]), share)
    weights = np.array([0.3, 0.7])
    with engine("this process") as here:
        there = model.sample_of(Passes(written(tmp_path, kind, 7), here))
        assert there.n_tasks == model.n_tasks
        evidence, tasks, sums = there.total(_expected, family, weights)
    own_evidence, own_tasks, own_sums = _expected(model, family, weights)
    assert evidence == pytest.approx(own_evidence, rel=1e-12)
    np.testing.assert_allclose(tasks, own_tasks, rtol=1e-12)
    improved, own = model.improved(family, sums), model.improved(family, own_sums)
    for name, array in own.arrays().items():
        np.testing.assert_allclose(improved.arrays()[name], array, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("kind", ["bernoulli", "gaussian", "poisson", *COVARIANCE_TYPES, "spend"])
def test_it_ends_where_memory_would(kind: str, tmp_path: Path) -> None:
    """From the start that blocks had, tasks in memory lead to the same maximum."""
    statistics, options = case(kind)
    tight: dict[str, Any] = {"tolerance": 1e-12, "max_iterations": 5000}
    with engine("this process") as here:
        found = learn(
            written(tmp_path, kind, 2), 2, seed=0, n_restarts=1, engine=here, **tight, **options
        )
    model = model_of(statistics, **{"noise": None, **options})
    centred = model.about(found.unimodal.family, PSEUDO / 2)
    again = climb(centred, found.prior.family, found.prior.weights, Patience(5000, 1e-12))
    assert found.history is not None
    # What is left to gain after the last step is a small multiple of the tolerance.
    gained = float(np.ptp(again.history.objective))
    assert gained <= 1e-6 * N_TASKS
