"""Seconds from ``import mixts`` to the first decision and update, with cold and with warm caches.

    python benchmarks/first_second.py
    python benchmarks/first_second.py --other ../before/.venv/bin/python
    python benchmarks/first_second.py arms mdp

Every program runs in a process of its own on one core, first with an empty cache of compiled loops,
which the script makes, then again with the cache that it left. With ``--other`` each program also
runs with another interpreter, say of another checkout, right before. Interpreters have compiled
their own modules to bytecode before anything is timed.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

N_IMPORTS = 7
"""Processes that import only: the fastest is shown, since noise can only add."""
MOST_SECONDS = {"import mixts": 0.2, "mixts --help": None}
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Times(NamedTuple):
    """Clock of the wall and of the processor."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Times:
        return cls(perf_counter(), process_time())


# -- programs: decide, then update; imports of mixts are timed, so none is at the top --------------


def numbers() -> Any:
    import numpy as np

    return np.random.default_rng(0)


def bernoulli() -> Any:
    import mixts

    rng = numbers()
    return mixts.MixturePrior(mixts.BernoulliArms(1 + rng.random((5, 8)), 1 + rng.random((5, 8))))


def linear(kind: str = "full") -> Any:
    import numpy as np

    import mixts

    root = numbers().normal(size=(5, 6, 6))
    every = root @ root.transpose(0, 2, 1)
    covariance = {"full": every, "tied": every[0], "diag": np.ones((5, 6))}[kind]
    mean = numbers().normal(size=(5, 6))
    return mixts.MixturePrior(mixts.LinearGaussian(mean, covariance, 0.5, kind))


def logistic() -> Any:
    import mixts

    family = linear().family
    return mixts.MixturePrior(mixts.LinearBernoulli(family.mean, family.covariance))


def arms(agent: str = "MixTS", propensities: bool = False) -> Times:
    import mixts

    agent_ = getattr(mixts, agent)(bernoulli(), seed=1)
    arm = agent_.act_with_probabilities()[0] if propensities else agent_.act()
    decided = Times.now()
    agent_.update(arm, 1)
    return decided


def features(prior: Callable[[], Any], propensities: bool = False) -> Times:
    import mixts

    agent = mixts.MixTS(prior(), seed=1)
    rows = numbers().normal(size=(8, 6))
    row = agent.act_with_probabilities(rows)[0] if propensities else agent.act(rows)
    decided = Times.now()
    agent.update(rows[row], 1.0)
    return decided


def mdp() -> Times:
    import numpy as np

    import mixts

    agent = mixts.MixTS(mixts.RiverSwim(n_states=10, horizon=20).prior, seed=1)
    policy = agent.act()
    decided = Times.now()
    agent.update(mixts.Trajectory(np.zeros(20, int), policy[:, 0], np.zeros(20)))
    return decided


class Program(NamedTuple):
    """A typical first program; it returns when it had decided."""

    title: str
    target: float | None
    """Most seconds with an empty cache; None: for information."""
    run: Callable[[], Times]


PROGRAMS = {
    "arms": Program("Bernoulli arms", 3.0, arms),
    "propensities": Program("arms with propensities", 5.0, lambda: arms(propensities=True)),
    "ids": Program("arms, MixIDS", None, lambda: arms("MixIDS")),
    "linear": Program("linear, full covariances", 8.0, lambda: features(linear)),
    "tied": Program("linear, tied covariance", None, lambda: features(lambda: linear("tied"))),
    "diag": Program("linear, diagonal covariances", None, lambda: features(lambda: linear("diag"))),
    "linear-propensities": Program(
        "linear with propensities", None, lambda: features(linear, propensities=True)
    ),
    "clicks": Program("clicks with features", None, lambda: features(logistic)),
    "mdp": Program("MDPs, RiverSwim", 4.0, mdp),
}


# -- one process ----------------------------------------------------------------------------------


def run_program(name: str) -> dict[str, Any]:
    """Run a program in this process and return its times."""
    started = Times.now()
    import mixts  # noqa: F401

    imported = Times.now()
    from numba.core import event

    with event.install_recorder("numba:compile") as events:
        decided = PROGRAMS[name].run()
        updated = Times.now()
    return {
        "import": imported.wall - started.wall,
        "decide": decided.wall - imported.wall,
        "update": updated.wall - decided.wall,
        "wall": updated.wall - started.wall,
        "cpu": updated.cpu - started.cpu,
        "compiled": sum(one.is_end for _, one in events.buffer),
    }


def run_import() -> dict[str, Any]:
    """Import mixts in this process and return its times."""
    started = Times.now()
    import mixts  # noqa: F401

    now = Times.now()
    return {"wall": now.wall - started.wall, "cpu": now.cpu - started.cpu}


def compile_bytecode() -> dict[str, Any]:
    """Compile all modules of mixts to bytecode, beside the sources, as a second import finds it."""
    import mixts

    compileall.compile_dir(mixts.__path__[0], quiet=2)
    return {}


ONE: dict[str, Callable[[], dict[str, Any]]] = {"import": run_import, "bytecode": compile_bytecode}
"""What a process may run beside a program."""


# -- all processes --------------------------------------------------------------------------------


def environment(cache: str) -> dict[str, str]:
    """Return the environment of a process that keeps its compiled loops in ``cache``."""
    dropped = ("PYTHONPATH", "XDG_CACHE_HOME", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if k not in dropped}
    return kept | dict.fromkeys(ONE_THREAD, "1") | {"NUMBA_CACHE_DIR": cache}


def child(python: str, cache: str, name: str) -> dict[str, Any]:
    """Run one program, or import only, in a new process."""
    command = [python, str(Path(__file__).resolve()), "--one", name]
    done = subprocess.run(
        command, env=environment(cache), stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def help_seconds(python: str, cache: str) -> dict[str, Any]:
    """Return the seconds of ``mixts --help``, with the start of the interpreter."""
    started = perf_counter()
    subprocess.run(
        [python, "-c", "from mixts.cli import main; main(['--help'])"],
        env=environment(cache),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return {"wall": perf_counter() - started}


def line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def measure_programs(names: list[str], pythons: dict[str, str]) -> None:
    """Print a row for each program and interpreter as soon as it is measured."""
    print(
        line(
            "program", "code", "cold, s", "CPU, s", "import", "decide", "update",
            "compiled", "warm, s", "target", "met?",
        )
    )  # fmt: skip
    print(line(*["---"] * 11))
    for name in names:
        title, target, _ = PROGRAMS[name]
        for code, python in pythons.items():
            with tempfile.TemporaryDirectory() as cache:
                cold = child(python, cache, name)
                warm = child(python, cache, name)
            stated = "none" if target is None else f"{target:g}"
            met = "" if target is None else "yes" if cold["wall"] <= target else "MISSED"
            parts = (f"{cold[part]:.2f}" for part in ("wall", "cpu", "import", "decide", "update"))
            row = (title, code, *parts, cold["compiled"], f"{warm['wall']:.2f}", stated, met)
            print(line(*row), flush=True)


def measure_starts(pythons: dict[str, str]) -> None:
    """Print the best times of an import and of the command line's help, all caches warm."""
    print(line("start, warm", "code", f"best of {N_IMPORTS}, s", "CPU, s", "target", "met?"))
    print(line(*["---"] * 6))
    with tempfile.TemporaryDirectory() as cache:
        for title, target in MOST_SECONDS.items():
            runs: dict[str, list[dict[str, Any]]] = {code: [] for code in pythons}
            for _ in range(N_IMPORTS):
                for code, python in pythons.items():
                    is_import = title == "import mixts"
                    one = (
                        child(python, cache, "import") if is_import else help_seconds(python, cache)
                    )
                    runs[code].append(one)
            for code, found in runs.items():
                wall = min(one["wall"] for one in found)
                cpu = f"{min(one['cpu'] for one in found):.3f}" if "cpu" in found[0] else ""
                stated = "none" if target is None else f"{target:g}"
                met = "" if target is None else "yes" if wall <= target else "MISSED"
                print(line(title, code, f"{wall:.3f}", cpu, stated, met), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--other", metavar="PYTHON", help="interpreter to measure in turns with")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(ONE[options.one]() if options.one in ONE else run_program(options.one)))
        return
    if unknown := set(options.programs) - set(PROGRAMS):
        parser.error(f"unknown {', '.join(sorted(unknown))}; programs are {', '.join(PROGRAMS)}")
    pythons = {"other": options.other} if options.other else {}
    pythons["this"] = sys.executable
    if hasattr(os, "sched_setaffinity"):  # the children stay on the same core
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for python in pythons.values():
        with tempfile.TemporaryDirectory() as cache:
            child(python, cache, "bytecode")
    measure_programs(options.programs or list(PROGRAMS), pythons)
    print()
    measure_starts(pythons)


if __name__ == "__main__":
    main()
