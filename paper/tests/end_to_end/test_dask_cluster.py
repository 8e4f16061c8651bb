"""A Dask cluster of separate processes gives the same numbers, even if some of them die."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_paper.experiments import reproduce

import mixts
from mixts._files import read_bundle
from mixts.engines import Engine
from mixts.engines import dask as engines
from mixts.engines.dask import DaskEngine
from mixts.errors import MixtsError, OutcomeError, ParameterError
from paper.tests.end_to_end import slow_experiment as slow

distributed = pytest.importorskip("distributed", reason="needs the extra dask")
dask = pytest.importorskip("dask")
psutil = pytest.importorskip("psutil")  # distributed needs it

N_BLOCKS, BLOCK_SECONDS = 12, 0.3
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
VARIABLES = (*THREADS, "PYTHONHASHSEED")


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskEngine]:
    """Two workers, each a process that comes back when it is killed."""
    with new_cluster() as started:
        yield started


@contextmanager
def new_cluster(n_workers: int = 2) -> Iterator[DaskEngine]:
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES:
            patch.setenv(name, "5")
        with dask.config.set({"distributed.scheduler.allowed-failures": 1}):
            started = DaskEngine(n_workers=n_workers)
        with started:
            yield started


@pytest.fixture
def engine(cluster: DaskEngine) -> Iterator[DaskEngine]:
    """Connected to the cluster."""
    with DaskEngine(cluster._client.scheduler.address) as engine:
        yield engine


@pytest.fixture
def threads() -> Iterator[Any]:
    """A scheduler with one worker, both in this process: quick to start and to scale."""
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
        scheduler_kwargs={"dashboard": False},
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the results of one process."""
    folder = tmp_path_factory.mktemp("alone")
    play(folder, 1, seconds=0)
    return arrays(folder)


def play(folder: Path, engine: Engine | int, seconds: float = BLOCK_SECONDS) -> None:
    marks = folder / "marks"
    marks.mkdir(exist_ok=True)
    reproduce([slow.SlowExperiment(marks, seconds)], folder / "out", engine=engine)


def arrays(folder: Path) -> dict[str, bytes]:
    """Every array of every block on disk, to the bit."""
    return {
        f"{path.parent.name}/{path.name}/{name}": array.tobytes()
        for path in (folder / "out").rglob("blocks/*/*.npz")
        for name, array in read_bundle(path, "block")[1].items()
    }


def on_disk(folder: Path) -> int:
    return len(list((folder / "out").rglob("blocks/*/*.npz")))


def begun(folder: Path) -> set[tuple[str, int]]:
    """The blocks that were begun, each with the process that did."""
    names = (path.name.rpartition("-") for path in (folder / "marks").iterdir())
    return {(block, int(process)) for block, _, process in names}


def eventually(condition: Callable[[], Any]) -> Any:
    """Wait until a condition is true, and return its value."""
    end = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)
    return value


# -- workers that die ---------------------------------------------------------------------------


def test_a_worker_killed_half_way_changes_no_number(
    engine: DaskEngine, tmp_path: Path, alone: dict[str, bytes]
) -> None:
    killed: list[tuple[str, int]] = []

    def kill() -> None:
        eventually(lambda: on_disk(tmp_path) >= N_BLOCKS // 2)
        before = begun(tmp_path)
        killed.extend(eventually(lambda: begun(tmp_path) - before))
        os.kill(killed[0][1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    play(tmp_path, engine)
    killer.join()
    block, victim = killed[0]
    players = {process for other, process in begun(tmp_path) if other == block}
    assert players > {victim}, "the block was not played again by another process"
    assert len(alone) == N_BLOCKS * 5
    assert arrays(tmp_path) == alone


def test_simulations_run_on_the_cluster_by_address_client_and_engine(
    engine: DaskEngine, threads: Any
) -> None:
    prior = mixts.MixturePrior(mixts.GaussianArms([[1.0, 0.0]], [[1.0, 1.0]], 0.5))
    simulate = partial(
        mixts.simulate, {"MixTS": prior}, mixts.BanditEnvironment(prior), 5, 12, 3, block_size=3
    )
    here = simulate(engine=1).regret["MixTS"]
    np.testing.assert_array_equal(here, simulate(engine=engine).regret["MixTS"])
    address = threads.scheduler_address
    np.testing.assert_array_equal(here, simulate(engine=address).regret["MixTS"])
    with distributed.Client(address, set_as_default=False) as client:
        np.testing.assert_array_equal(here, simulate(engine=client).regret["MixTS"])
        assert client.submit(abs, -1).result() == 1  # the client stays open


# -- ends ---------------------------------------------------------------------------------------


def test_an_error_of_a_job_arrives_whole(engine: DaskEngine) -> None:
    with pytest.raises(OutcomeError, match="enough") as caught:
        engine.submit(slow.fail).result()
    assert caught.value.__notes__ == ["(in block 7)"]


@pytest.mark.slow
def test_after_an_interrupt_what_was_finished_is_kept(
    engine: DaskEngine, tmp_path: Path, alone: dict[str, bytes]
) -> None:
    def interrupt() -> None:
        eventually(lambda: on_disk(tmp_path) >= 2)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            play(tmp_path, engine)
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join()
    assert 2 <= on_disk(tmp_path) < N_BLOCKS
    assert arrays(tmp_path).items() < alone.items()
    play(tmp_path, 1, seconds=0)
    assert arrays(tmp_path) == alone


def test_what_waits_is_cancelled_and_the_cluster_stays(threads: Any) -> None:
    with DaskEngine(threads.scheduler_address) as engine:
        first, second, third = (engine.submit(slow.sleep, seconds) for seconds in (0.3, 5, 0.5))
        second.cancel()
        done, _ = wait([second], timeout=2.5)
        assert done == {second}, "a cancelled block was played"
        assert first.result() == 0.3
        engine.close(abandon=True)
        assert third.cancelled()
    with DaskEngine(threads.scheduler_address) as engine:
        pending = engine.submit(slow.sleep, 0.1)
    assert pending.result(timeout=0) == 0.1  # an engine that is not abandoned waits


# -- a cluster that is started here -------------------------------------------------------------


def test_own_workers_have_one_thread_and_are_seen_from_this_machine_only(
    cluster: DaskEngine,
) -> None:
    assert cluster.name == "2 Dask workers"
    assert cluster.submit(slow.variables, *THREADS).result() == ["1"] * len(THREADS)
    # Ctrl-C reaches all processes of a terminal: only this one is to take notice.
    assert cluster.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN
    worker = psutil.Process(cluster.submit(os.getpid).result())
    listening = [
        connection.laddr.ip
        for process in (worker, psutil.Process())
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert worker.pid != os.getpid()
    assert len(listening) >= 4  # the scheduler, two nannies and the worker at least
    assert set(listening) == {"127.0.0.1"}


# -- clusters that are refused, or go away -------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(engines, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(engines, "_COUNT_SECONDS", 0.1)


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """This process has another version than its workers; theirs is given."""
    there = mixts.__version__
    monkeypatch.setattr(engines, "__version__", "99.1")
    engines.versions.cache_clear()
    yield there
    engines.versions.cache_clear()


def test_workers_of_another_version_are_refused(cluster: DaskEngine, newer: str) -> None:
    eventually(cluster._client.nthreads)
    with pytest.raises(ParameterError, match=rf"worker tcp:\S+ has mixts {newer} \(here 99\.1\)"):
        DaskEngine(cluster._client.scheduler.address)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("tcp://127.0.0.1:1", "no Dask scheduler answers at tcp://127.0.0.1:1 .*`dask scheduler`"),
        ("somewhere", "'somewhere' is no address .* such as tcp://host:8786"),
        ("http://127.0.0.1:8787", "is no address of a Dask scheduler"),
        ("tcp://host:port", "is no address of a Dask scheduler"),
        ("tls://127.0.0.1:1", "needs certificates"),
    ],
)
def test_a_scheduler_that_is_not_there_is_named(address: str, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        DaskEngine(address)


@pytest.mark.usefixtures("impatient")
def test_workers_may_come_and_go_but_not_all(threads: Any) -> None:
    with DaskEngine(threads.scheduler_address) as engine:
        assert engine.window == 2
        threads.scale(3)
        eventually(lambda: engine.window == 6)
        threads.scale(0)
        eventually(lambda: engine.window == 2)  # for the first who comes back
        lost = engine.submit(slow.sleep, 0)
        with pytest.raises(MixtsError, match="no Dask worker was left for"):
            lost.result(timeout=30)
        with pytest.raises(ParameterError, match=r"has had no worker for .*`dask worker tcp"):
            DaskEngine(threads.scheduler_address)
        threads.scale(1)
        eventually(lambda: engine._client.nthreads())
        assert engine.submit(abs, -1).result(timeout=30) == 1


@pytest.mark.usefixtures("impatient")
def test_a_scheduler_that_goes_away_is_an_error_not_a_wait(threads: Any) -> None:
    with DaskEngine(threads.scheduler_address) as engine:
        lost = engine.submit(slow.sleep, 1)
        threads.close()
        with pytest.raises(MixtsError, match=r"gave up a job|no Dask worker"):
            lost.result(timeout=30)


# -- the end of the cluster -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_job_that_kills_its_workers_is_an_error_and_what_is_shared_outlives_them(
    engine: DaskEngine,
) -> None:
    value = np.arange(2_000_000.0)  # 16 MB: more than what Dask warns of
    shared = engine.share(value)
    assert engine.share(value) is shared
    assert engine.submit(slow.total, shared).result() == value.sum()
    with pytest.raises(MixtsError, match=r"2 Dask workers died .* the same job"):
        engine.submit(slow.kill_worker, shared).result()
    assert engine.submit(slow.total, shared).result() == value.sum()


@pytest.mark.slow
def test_an_abandoned_cluster_leaves_nothing_behind() -> None:
    with new_cluster(n_workers=1) as cluster:
        worker = psutil.Process(cluster.submit(os.getpid).result())
        jobs = [cluster.submit(slow.sleep, 1) for _ in range(100)]
        with pytest.raises(KeyboardInterrupt), cluster:
            raise KeyboardInterrupt
        assert all(job.cancelled() for job in jobs)
        assert not worker.is_running()
        assert slow.variables(*VARIABLES) == ["5"] * len(VARIABLES)
        cluster.close(abandon=False)  # once more does nothing
