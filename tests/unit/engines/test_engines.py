"""Engines: guarantees of every engine, and clusters that are refused."""

from __future__ import annotations

import importlib
import operator
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

import pytest

from mixts.engines import Engine, ExecutorEngine, WorkerPool, engine_of, local
from mixts.engines.dask import play, refuse_others, versions
from mixts.engines.local import AutoEngine, PoolEngine
from mixts.errors import MissingExtraError, ParameterError


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def processes() -> Iterator[Engine]:
    with engine_of(2) as engine:
        yield engine


@pytest.fixture(params=["inline", "processes", "executor"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "executor":
        with ThreadPoolExecutor(2) as pool, ExecutorEngine(pool) as engine:
            yield engine
    elif request.param == "inline":
        with engine_of(1) as engine:
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


def test_map_gives_results_in_order(engine: Engine) -> None:
    jobs = [(i, 3) for i in range(20)]
    assert list(engine.map(divmod, jobs)) == [divmod(i, 3) for i in range(20)]
    assert list(engine.map(divmod, [])) == []


def test_as_completed_gives_every_job_with_its_result(engine: Engine) -> None:
    shared = engine.share([3, 1, 2])
    jobs = [(shared, [i]) for i in range(20)]
    done = list(engine.as_completed(operator.add, jobs))
    assert sorted(result[-1] for _, result in done) == list(range(20))
    assert all(result == [3, 1, 2, *job[1]] for job, result in done)


@pytest.mark.parametrize("method", ["map", "as_completed"])
def test_an_error_of_a_job_is_raised(engine: Engine, method: str) -> None:
    with pytest.raises(ZeroDivisionError):
        list(getattr(engine, method)(divmod, [(1, 1), (1, 0), *[(1, 2)] * 50]))


def test_jobs_are_read_as_they_are_needed() -> None:
    read = []

    def jobs() -> Iterator[tuple[int]]:
        for i in range(100):
            read.append(i)
            yield (i,)

    with ThreadPoolExecutor(1) as pool, ExecutorEngine(pool, window=3) as engine:
        results = engine.map(abs, jobs())
        assert [next(results) for _ in range(5)] == list(range(5))
        assert len(read) <= 5 + 8 * 3
        results.close()
    assert len(read) <= 5 + 8 * 3


def test_a_slow_first_job_does_not_stop_the_others() -> None:
    with ThreadPoolExecutor(2) as pool:
        go = threading.Event()
        waited = []

        def job(i: int) -> int:
            if i == 0:
                waited.append(go.wait(30))
            elif i == 8:
                go.set()
            return i

        engine = ExecutorEngine(pool, window=2)
        assert list(engine.map(job, [(i,) for i in range(12)])) == list(range(12))
        assert waited == [True]


def test_jobs_that_failed_come_last() -> None:
    with ThreadPoolExecutor(1) as pool:
        engine = ExecutorEngine(pool, window=3)
        gone = engine.as_completed(divmod, [(1, 0), (4, 2), (6, 2)])
        pool.submit(time.sleep, 0.3)
        found = []
        with pytest.raises(ZeroDivisionError):
            found.extend(result for _, result in gone)
        assert len(found) <= 2


# -- which engine ---------------------------------------------------------------------------------


def test_every_way_to_name_an_engine() -> None:
    with engine_of(1) as engine:
        assert engine.name == "this process"
    with engine_of(3) as engine:
        assert engine.name == "3 processes"
    with engine_of(lambda: engine_of(4)) as made:
        assert made.name == "4 processes"
    with engine_of(made) as same:
        assert same is made
    with ThreadPoolExecutor(2) as pool, engine_of(pool) as engine:
        assert (engine.name, engine.window) == ("ThreadPoolExecutor", 4)
    with engine_of() as engine:
        assert isinstance(engine, AutoEngine)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("engine", [0, -2, True, 2.0, "processes", [], lambda: 3])
def test_invalid_engines_are_refused(engine: object) -> None:
    with pytest.raises(ParameterError, match="engine must be None, a number of worker processes"):
        engine_of(engine)


@pytest.fixture
def auto(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Two processors, and threads in the place of worker processes; their names are listed."""
    started: list[str] = []
    with ThreadPoolExecutor(2) as threads:

        def start(self: PoolEngine, *, imports_script: bool) -> ThreadPoolExecutor:
            if self.name not in started:
                started.append(self.name)
            return threads

        monkeypatch.setattr(PoolEngine, "start", start)
        monkeypatch.setattr(local, "n_processors", lambda: 2)
        yield started


def test_workers_start_only_if_they_pay(auto: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for method in ("map", "as_completed"):
        with engine_of() as engine:
            assert len(list(getattr(engine, method)(abs, [(i,) for i in range(9)]))) == 9
    assert auto == []
    monkeypatch.setattr(local, "WORTHWHILE_SECONDS", 0.0)
    with engine_of() as engine:
        assert list(engine.map(abs, [(-1,)])) == [1]  # nothing is left
        assert auto == []
        assert list(engine.map(abs, [(-i,) for i in range(9)])) == list(range(9))
    assert auto == []  # the first job decided
    with engine_of(n_jobs=10) as engine:
        assert list(engine.map(abs, [(-1,)])) == [1]
        assert auto == ["2 processes"]
        assert list(engine.map(abs, [(-i,) for i in range(9)])) == list(range(9))


def test_what_cannot_be_pickled_stays_in_this_process(
    auto: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "WORTHWHILE_SECONDS", 0.0)
    with engine_of() as engine:
        assert list(engine.map(lambda i: -i, [(1,), (2,)])) == [-1, -2]
    assert auto == []
    with engine_of(2) as engine, pytest.raises(ParameterError, match="the work cannot be sent"):
        list(engine.map(lambda i: -i, [(1,), (2,)]))


def test_work_done_is_reported_here_and_elsewhere(
    auto: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first job here reports two halves; with the second it is clear that workers pay."""
    monkeypatch.setattr(local, "WORTHWHILE_SECONDS", 0.0)
    done: list[float] = []
    with engine_of() as engine:
        jobs = [(2.0,), (4.0,), (6.0,)]
        found = engine.as_completed(halves, jobs, size=lambda job: job[0], advance=done.append)
        assert sorted(result for _, result in found) == [2, 4, 6]
    assert sorted(done) == [1, 1, 4, 6]
    assert auto == ["2 processes"]
    done.clear()
    with engine_of(1) as engine:
        list(engine.as_completed(halves, jobs, size=lambda job: job[0], advance=done.append))
    assert done == [1, 1, 2, 2, 3, 3]


def halves(size: float, advance: Callable[[float], None] = lambda amount: None) -> float:
    advance(size / 2)
    advance(size / 2)
    return size


def test_a_worker_that_dies_is_explained() -> None:
    with engine_of(2) as engine, pytest.raises(BrokenProcessPool) as caught:
        list(engine.map(os._exit, [(1,)]))
    assert "A worker process died" in caught.value.__notes__[0]


def test_a_pool_is_checked_before_work_is_sent() -> None:
    with WorkerPool(1) as pool, engine_of(pool) as engine:
        engine.check({"the number": 3})
        with pytest.raises(ParameterError, match=r"the function cannot be sent.*engine=1"):
            engine.check({"the function": lambda: None})


# -- one machine --------------------------------------------------------------------------------


def test_one_worker_is_this_process_and_more_are_others(processes: Engine) -> None:
    with engine_of(1) as engine:
        assert engine.submit(os.getpid).result() == os.getpid()
        assert (engine.name, engine.window) == ("this process", 1)
    assert processes.submit(os.getpid).result() != os.getpid()
    assert (processes.name, processes.window) == ("2 processes", 4)


def test_an_interrupt_of_a_job_in_this_process_stops_the_program() -> None:
    with engine_of(1) as engine, pytest.raises(KeyboardInterrupt):
        engine.submit(interrupt)


@pytest.mark.parametrize("n_workers", [0, -1, True])
def test_an_impossible_number_of_workers_is_refused(n_workers: int) -> None:
    with pytest.raises(ParameterError, match=r"a number of worker processes \(at least 1\)"):
        engine_of(n_workers)


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


def test_a_given_executor_stays_open() -> None:
    with ThreadPoolExecutor(1) as pool:
        for abandon in (False, True):
            ExecutorEngine(pool).close(abandon=abandon)
        assert pool.submit(abs, -1).result() == 1


def test_jobs_without_a_waiting_caller_are_cancelled() -> None:
    pool = Reluctant()
    engine = ExecutorEngine(pool)
    job = engine.submit(abs, -1)
    engine.forget([job])
    pool.go.set()
    assert job.cancelled()


def test_own_processes_are_awaited_or_ended_at_once() -> None:
    with engine_of(2) as engine:
        jobs = [engine.submit(abs, -i) for i in range(3)]
    assert [job.result(timeout=0) for job in jobs] == [0, 1, 2]
    engine = engine_of(2)
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

HERE = {"Python": "3.12.1", "mixts": "0.4.0", "numpy": "2.1.0", "scipy": "1.14"}


def test_the_versions_of_this_process_are_those_of_what_computes() -> None:
    found = versions()
    assert {"Python", "mixts", "numpy", "scipy", "mixts' code"} == found.keys()
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
        "scipy missing (here 1.14); "
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
