"""Where jobs run: what every engine promises, and which clusters are refused."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from mixts.engines import Engine, ExecutorEngine, local_engine
from mixts.engines.dask import play, refuse_others, versions
from mixts.engines.local import PoolEngine
from mixts.errors import MissingExtraError, ParameterError


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def processes() -> Iterator[Engine]:
    with local_engine(2) as engine:
        yield engine


@pytest.fixture(params=["inline", "processes", "executor"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "executor":
        with ThreadPoolExecutor(2) as pool, ExecutorEngine(pool) as engine:
            yield engine
    elif request.param == "inline":
        with local_engine(1) as engine:
            yield engine
    else:
        yield request.getfixturevalue("processes")


def test_every_engine_plays_jobs_and_hands_their_errors_on(engine: Engine) -> None:
    shared = engine.share([3, 1, 2])
    jobs = {engine.submit(sorted, shared), engine.submit(len, shared)}
    done, _ = wait(jobs)
    assert done == jobs
    assert engine.submit(sorted, shared).result() == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        engine.submit(divmod, 1, 0).result()
    assert engine.window >= 1
    assert engine.name


# -- one machine --------------------------------------------------------------------------------


def test_one_worker_is_this_process_and_more_are_others(processes: Engine) -> None:
    with local_engine(1) as engine:
        assert engine.submit(os.getpid).result() == os.getpid()
        assert (engine.name, engine.window) == ("this process", 1)
    assert processes.submit(os.getpid).result() != os.getpid()
    assert (processes.name, processes.window) == ("2 processes", 4)


def test_an_interrupt_of_a_job_in_this_process_stops_the_program() -> None:
    with local_engine(1) as engine, pytest.raises(KeyboardInterrupt):
        engine.submit(interrupt)


@pytest.mark.parametrize("n_workers", [0, -1, True])
def test_an_impossible_number_of_workers_is_refused(n_workers: int) -> None:
    with pytest.raises(ParameterError, match="workers must be a whole number, at least 1"):
        local_engine(n_workers)


# -- any executor -------------------------------------------------------------------------------


class Reluctant(ThreadPoolExecutor):
    """One thread, busy until it is let go."""

    def __init__(self) -> None:
        super().__init__(1)
        self.go = threading.Event()
        self.submit(self.go.wait)


def test_a_window_is_twice_the_workers_unless_said_otherwise() -> None:
    with ThreadPoolExecutor(3) as pool:
        assert ExecutorEngine(pool).window == 6
        assert ExecutorEngine(pool, window=40).window == 40
        assert ExecutorEngine(pool).name == "ThreadPoolExecutor"
        assert ExecutorEngine(pool, name="three threads").name == "three threads"


def test_somebody_elses_executor_stays_open() -> None:
    with ThreadPoolExecutor(1) as pool:
        for abandon in (False, True):
            ExecutorEngine(pool).close(abandon=abandon)
        assert pool.submit(abs, -1).result() == 1


def test_jobs_that_nobody_waits_for_are_cancelled() -> None:
    pool = Reluctant()
    engine = ExecutorEngine(pool)
    job = engine.submit(abs, -1)
    engine.forget([job])
    pool.go.set()
    assert job.cancelled()


def test_own_processes_are_awaited_or_ended_at_once() -> None:
    with local_engine(2) as engine:
        jobs = [engine.submit(abs, -i) for i in range(3)]
    assert [job.result(timeout=0) for job in jobs] == [0, 1, 2]
    engine = local_engine(2)
    assert isinstance(engine, PoolEngine)
    jobs = [engine.submit(time.sleep, 60) for _ in range(4)]
    engine.submit(abs, 1)
    started = time.monotonic()
    engine.forget(jobs)
    with pytest.raises(KeyboardInterrupt), engine:
        interrupt()
    while not all(job.done() for job in jobs):
        assert time.monotonic() - started < 30
        time.sleep(0.05)
    assert all(job.cancelled() or job.exception() is not None for job in jobs)


# -- clusters: the same versions everywhere -------------------------------------------------------

HERE = {"Python": "3.12.1", "mixts": "0.4.0", "numpy": "2.1.0", "numba": "0.61"}


def test_the_versions_of_this_process_are_those_of_what_computes() -> None:
    found = versions()
    assert {"Python", "mixts", "numpy", "scipy", "numba", "mixts' code"} == found.keys()
    assert found["Python"] == ".".join(map(str, sys.version_info[:3]))
    refuse_others(found, {"a worker": dict(found)})


@pytest.mark.parametrize("name", HERE)
def test_machines_of_another_version_are_refused(name: str) -> None:
    refuse_others(HERE, {"worker a": HERE, "worker b": dict(HERE)})
    other = {**HERE, name: "0.0.1"}
    with pytest.raises(ParameterError) as caught:
        refuse_others(HERE, {"worker a": HERE, "worker b": other})
    assert f"worker b has {name} 0.0.1 (here {HERE[name]}). The same" in str(caught.value)
    assert "worker a" not in str(caught.value)


def test_all_that_differs_is_named_and_machines_without_mixts_too() -> None:
    there = {
        "the scheduler": ModuleNotFoundError("No module named 'mixts'"),
        "worker a": {"Python": "3.11.0", "mixts": "0.4.0", "numpy": "1.26"},
        **{f"worker {i}": {**HERE, "numpy": "1.26"} for i in range(9)},
    }
    with pytest.raises(ParameterError) as caught:
        refuse_others(HERE, there)
    assert str(caught.value).startswith(
        "the scheduler cannot import mixts (No module named 'mixts'); "
        "worker a has Python 3.11.0 (here 3.12.1), numpy 1.26 (here 2.1.0), "
        "numba missing (here 0.61); "
        "worker 0 has numpy 1.26 (here 2.1.0); and 8 more. "
    )


def test_a_worker_of_another_version_refuses_jobs_itself() -> None:
    assert play(versions(), divmod, 7, 2) == (3, 1)
    with pytest.raises(ParameterError, match=r"numpy \S+ \(here 0\.1\)"):
        play({**versions(), "numpy": "0.1"}, divmod, 7, 2)


def test_dask_is_asked_for_only_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dask", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    name = "mixts.engines.dask"
    monkeypatch.setitem(sys.modules, name, sys.modules[name])  # comes back afterwards
    del sys.modules[name]
    fresh = importlib.import_module(name)
    with pytest.raises(MissingExtraError, match=r"pip install 'mixts\[dask\]'"):
        fresh.DaskEngine()


def test_workers_are_counted_where_they_are_started() -> None:
    pytest.importorskip("distributed", reason="needs the extra dask")
    from mixts.engines.dask import DaskEngine

    with pytest.raises(ParameterError, match="n_workers is for a cluster that is started here"):
        DaskEngine("tcp://127.0.0.1:8786", n_workers=2)
    with pytest.raises(ParameterError, match="n_workers must be a whole number"):
        DaskEngine(n_workers=0)
