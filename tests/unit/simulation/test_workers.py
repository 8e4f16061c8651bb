"""Engines change no number, and worker processes start from any script."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mixts
from mixts.engines import WorkerPool, local
from mixts.environments import BanditEnvironment
from mixts.errors import OutcomeError, ParameterError
from mixts.simulation import Results, simulate
from tests.unit.simulation.simulated_agents import ACTIONS, Failing, WhereAmI, changing, prior

MODULE = sys.modules["mixts.simulation.simulate"]
GAUSSIAN, LINEAR = prior("gaussian"), prior("linear")


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(2) as pool:
        yield pool


def play(engine: object, block_size: int = 3) -> list[Results]:
    agents = {
        "MixTS": LINEAR,
        "Oracle": partial(mixts.Oracle, LINEAR),
        "CorralExp4": partial(mixts.CorralExp4, LINEAR),
    }
    return [
        simulate(agents, environment, 6, 20, seed=4, engine=engine, block_size=block_size)
        for environment in (
            BanditEnvironment(LINEAR, ACTIONS),
            BanditEnvironment(LINEAR, changing),
        )
    ]


def equal(one: list[Results], other: list[Results]) -> bool:
    return all(
        np.array_equal(a.latent, b.latent)
        and all(np.array_equal(a.regret[name], b.regret[name]) for name in a.agents)
        and all(np.array_equal(a.reward[name], b.reward[name]) for name in a.agents)
        for a, b in zip(one, other, strict=True)
    )


def test_one_worker_or_several_give_the_same_numbers(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = play(1)
    assert equal(here, play(None))
    for n_processors in (1, 2, 40):  # the blocks go to workers in other portions
        monkeypatch.setattr(MODULE, "n_processors", lambda n=n_processors: n)
        assert equal(here, play(pool))
    with ThreadPoolExecutor(2) as threads:
        assert equal(here, play(threads))
    assert not equal(here, play(1, block_size=5))


# -- where it pays --------------------------------------------------------------------------------


def places(**keywords: object) -> list[int]:
    """For each of three blocks: 0 where it was played in this process, 1 in a worker."""
    zeros = np.zeros((1, 2))
    known = mixts.MixturePrior(mixts.GaussianArms([[1.0, 0.0]], zeros, 1e-9))
    results = simulate(
        {"x": WhereAmI}, BanditEnvironment(known), 40, 3, seed=0, block_size=1, **keywords
    )
    return [int(regret) for regret in results.regret["x"][:, 0]]


def test_a_number_of_workers_and_a_pool_mean_processes(pool: WorkerPool) -> None:
    assert places(engine=1) == [0, 0, 0]
    assert places(engine=2) == [1, 1, 1]
    assert places(engine=pool) == [1, 1, 1]


def test_executor_is_the_older_name_of_engine(pool: WorkerPool) -> None:
    assert places(executor=pool) == [1, 1, 1]
    with pytest.raises(ParameterError, match="engine and executor mean the same"):
        places(executor=1, engine=1)


def test_short_work_stays_here_and_long_work_goes_to_processes(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[local.PoolEngine] = []

    def start(self: local.PoolEngine, *, imports_script: bool) -> WorkerPool:
        """Workers that are there already: to start others takes seconds."""
        if not imports_script and self not in started:
            started.append(self)
        return pool

    monkeypatch.setattr(local.PoolEngine, "start", start)
    monkeypatch.setattr(local, "n_processors", lambda: 2)
    assert places() == [0, 0, 0]
    assert started == []
    monkeypatch.setattr(local, "WORTHWHILE_SECONDS", 0.0)
    assert places() == [0, 1, 1]
    assert [engine.name for engine in started] == ["2 processes"]
    monkeypatch.setattr(local, "n_processors", lambda: 1)
    assert places() == [0, 0, 0]
    assert len(started) == 1


def test_work_runs_here_if_processes_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def refuse(*arguments: object, **keywords: object) -> None:
        calls.append(arguments)
        raise NotImplementedError("no semaphores here")

    monkeypatch.setattr(local, "n_processors", lambda: 2)
    monkeypatch.setattr(local, "WORTHWHILE_SECONDS", 0.0)
    monkeypatch.setattr(local.WorkerPool, "__init__", refuse)
    assert places() == [0, 0, 0]
    assert len(calls) == 1
    with pytest.raises(NotImplementedError, match="no semaphores"):
        places(engine=2)


# -- what cannot be sent --------------------------------------------------------------------------


def test_what_cannot_be_pickled_is_refused_where_processes_play_and_only_there(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "n_processors", lambda: 2)
    monkeypatch.setattr(local, "WORTHWHILE_SECONDS", 0.0)
    agents = {"fine": GAUSSIAN, "x": lambda n_tasks, seed: mixts.MixTS(GAUSSIAN, n_tasks, seed)}
    run = partial(simulate, agents, BanditEnvironment(GAUSSIAN), 2, 4, seed=0, block_size=1)
    expected = run(engine=1).regret["x"]
    np.testing.assert_array_equal(expected, run(engine=None).regret["x"])
    with ThreadPoolExecutor(2) as threads:
        np.testing.assert_array_equal(expected, run(engine=threads).regret["x"])
    for engine in (2, pool):
        with pytest.raises(ParameterError, match=r"agent 'x' cannot be sent.*lambda.*engine=1"):
            run(engine=engine)
    environment = BanditEnvironment(LINEAR, lambda rng, n: changing(rng, n))
    with pytest.raises(ParameterError, match="the environment cannot be sent"):
        simulate({"MixTS": LINEAR}, environment, 2, 4, seed=0, engine=2)


def test_an_error_in_a_worker_says_which_agent_and_when(pool: WorkerPool) -> None:
    with pytest.raises(OutcomeError, match="enough") as caught:
        simulate({"bad": partial(Failing, 0)}, BanditEnvironment(GAUSSIAN), 5, 4, 0, engine=pool)
    assert "(agent 'bad', block 0 of 4 runs, round 2)" in caught.value.__notes__
    assert pool.submit(os.getpid).result() != os.getpid()


# -- threads --------------------------------------------------------------------------------------


def test_workers_have_one_thread_and_this_process_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with WorkerPool(1) as pool:
        names = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"]
        assert list(pool.map(os.getenv, names)) == ["1"] * 3
    assert os.environ["OMP_NUM_THREADS"] == "5"
    assert "MKL_NUM_THREADS" not in os.environ


def run_script(path: Path, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path.write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        timeout=300,
        check=False,
    )


THREADS = """
import hashlib
import numpy as np
import mixts
from mixts.environments import BanditEnvironment
from mixts.simulation import simulate

d = 129
rng = np.random.default_rng(0)
family = mixts.LinearGaussian(rng.normal(size=(2, d)), np.ones(2), 1.0, covariance_type="spherical")
prior = mixts.MixturePrior(family)
environment = BanditEnvironment(prior, rng.normal(size=(301, d)))
results = simulate({"x": prior}, environment, 3, 100, seed=0, block_size=100)
print(hashlib.sha256(results.regret["x"].tobytes()).hexdigest())
"""


def test_the_numbers_do_not_depend_on_the_threads_of_blas(tmp_path: Path) -> None:
    """One product of 100 x 129 by 129 x 301 would: its bits differ between one thread and two."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    one, two = (
        run_script(tmp_path / "threads.py", THREADS, **dict.fromkeys(names, n)) for n in "12"
    )
    assert one.returncode == 0, one.stderr
    assert one.stdout == two.stdout


# -- scripts --------------------------------------------------------------------------------------

SCRIPT = """
import functools
import numpy as np
import mixts
from mixts.environments import BanditEnvironment
from mixts.simulation import simulate

def make(n_tasks, seed):
    return mixts.MixTS(prior, n_tasks, seed)

prior = mixts.MixturePrior(mixts.GaussianArms([[0.0, 1.0]], [[1.0, 1.0]], 1.0))
play = functools.partial(simulate, environment=BanditEnvironment(prior), n_rounds=3, n_runs=4,
                         seed=0, block_size=2)
"""
COMPARE = """
one, two = play({{"x": {spec}}}, engine=1), play({{"x": {spec}}}, engine=2)
print(np.array_equal(one.regret["x"], two.regret["x"]))
"""


def test_a_script_needs_no_guard_where_its_agents_come_from_modules(tmp_path: Path) -> None:
    done = run_script(tmp_path / "script.py", SCRIPT + COMPARE.format(spec="prior"))
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


@pytest.mark.slow
def test_a_guarded_script_may_define_its_agents(tmp_path: Path) -> None:
    body = COMPARE.format(spec="make").replace("\n", "\n    ")
    done = run_script(tmp_path / "script.py", f'{SCRIPT}\nif __name__ == "__main__":{body}')
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


def test_the_error_for_an_unguarded_script_says_what_to_do(tmp_path: Path) -> None:
    """Workers import the script, which would start workers: one block, so that there is one."""
    done = run_script(tmp_path / "script.py", f"{SCRIPT}\nplay({{'x': make}}, n_runs=2, engine=2)")
    assert done.returncode != 0
    assert 'must start the work under `if __name__ == "__main__":`' in done.stderr


def test_the_error_for_agents_of_a_session_says_what_to_do(tmp_path: Path) -> None:
    code = SCRIPT + "\nplay({'x': make}, engine=1)\nprint('here')\nplay({'x': make}, engine=2)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "here\n", done.stderr
    assert "ParameterError: worker processes cannot see what an interactive session" in done.stderr


def test_a_pool_without_the_script_refuses_what_the_script_defines(tmp_path: Path) -> None:
    line = "from mixts.simulation import WorkerPool; play({'x': make}, engine=WorkerPool(1))"
    done = run_script(tmp_path / "script.py", SCRIPT + line)
    assert (
        "ParameterError: an agent, the environment or another function is defined in the"
        in done.stderr
    )
