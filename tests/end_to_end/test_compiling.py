"""Typical first programs compile few functions, none twice: compiling is what they wait for.

One process runs the programs of ``benchmarks/first_second.py`` one after the other, so that each is
charged with the functions that no earlier one needed. `make test` counts loops, which may be in the
cache; `make slow` counts every function that is compiled where the cache is empty.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CHILD = """
import json, sys
from numba.core import event
from benchmarks.first_second import PROGRAMS

compiled = {}
for name in sys.argv[1:]:
    with event.install_recorder("numba:compile") as events:
        PROGRAMS[name].run()
    ended = [one.data for _, one in events.buffer if one.is_end]
    compiled[name] = [
        (data["dispatcher"].py_func.__module__, data["dispatcher"].py_func.__qualname__)
        for data in ended
    ]
print(json.dumps(compiled))
"""

LOADING_CHILD = """
import json, sys
from benchmarks.first_second import PROGRAMS
from tests.loaded_loops import loaded_loops

loaded, before = {}, loaded_loops()
for name in sys.argv[1:]:
    PROGRAMS[name].run()
    loaded[name] = list((loaded_loops() - before).elements())
    before = loaded_loops()
print(json.dumps(loaded))
"""

LOOPS = {"arms": 2, "mdp": 5, "linear": 2, "propensities": 1, "ids": 1}
"""Loops that a program needs beyond those of the programs before it."""


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """Loops that each program called, once for each type of its arguments."""
    done = subprocess.run(
        [sys.executable, "-c", LOADING_CHILD, *LOOPS],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
        timeout=600,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("program", LOOPS)
def test_a_first_program_needs_few_loops(loaded: dict[str, list[str]], program: str) -> None:
    assert 0 < len(loaded[program]) <= LOOPS[program], loaded[program]


def test_no_loop_is_needed_for_two_types_of_arguments(loaded: dict[str, list[str]]) -> None:
    every = [name for names in loaded.values() for name in names]
    assert sorted(every) == sorted(set(every))


# -- with an empty cache --------------------------------------------------------------------------

MOST = {"arms": (19, 0), "mdp": (7, 0), "linear": (23, 2), "propensities": (39, 2), "ids": (4, 0)}
"""Functions of mixts and of numba that a program compiles beyond those of the programs before it.

They are what the programs need today: who adds one weighs its seconds, 0.05 to 1 each, against the
first decision. Functions of numba are implementations of numpy calls and slices inside loops.
"""

Compiled = dict[str, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Module and name of each function that each program compiled."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *MOST],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("empty"))},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
        timeout=600,
    )
    found: Compiled = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("program", MOST)
def test_a_first_program_compiles_few_functions(compiled: Compiled, program: str) -> None:
    ours = [name for module, name in compiled[program] if module.startswith("mixts")]
    others = [name for module, name in compiled[program] if not module.startswith("mixts")]
    assert len(ours) > 0
    most, most_others = MOST[program]
    assert len(ours) <= most, ours
    assert len(others) <= most_others, others


@pytest.mark.slow
def test_no_function_is_compiled_twice(compiled: Compiled) -> None:
    ours = [
        f"{module}.{name}"
        for functions in compiled.values()
        for module, name in functions
        if module.startswith("mixts")
    ]
    assert sorted(ours) == sorted(set(ours))
