"""Linear programs share their loops: other priors, tasks and arrays compile none a second time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
import numpy as np
from numba.core import event
import mixts

compiled = []

class Names(event.Listener):
    def on_start(self, found):
        function = found.data["dispatcher"].py_func
        compiled.append(f"{function.__module__}.{function.__qualname__}")

    def on_end(self, found):
        pass

event.register("numba:compile", Names())
rng = np.random.default_rng(1)
mean, rows = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
rows.flags.writeable = False
roots = rng.normal(size=(3, 4, 4))
full, noise = roots @ np.swapaxes(roots, 1, 2), 0.5

def play(family, n_tasks=None):
    before = len(compiled)
    agent = mixts.MixTS(mixts.MixturePrior(family), n_tasks, seed=1)
    for actions in (rows, np.asfortranarray(rows), rows[:, ::-1][:, ::-1], rows.astype(np.float32)):
        chosen = agent.act(actions)
        agent.update(actions[chosen], 0.5 if n_tasks is None else np.full(n_tasks, 0.5))
    return compiled[before:]

print(json.dumps({
    "full": play(mixts.LinearGaussian(mean, full, noise)),
    "many tasks": play(mixts.LinearGaussian(mean, full, noise), 2),
    "tied": play(mixts.LinearGaussian(mean, full[0], noise, "tied")),
    "diag": play(mixts.LinearGaussian(mean, full[:, 0, :] ** 2, noise, "diag")),
    "spherical": play(mixts.LinearGaussian(mean, np.ones(3), noise, "spherical")),
    "student": play(mixts.LinearStudent(mean, full, noise, 5)),
}))
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return what each program compiles that those before it did not, with an empty cache."""
    folder: Path = tmp_path_factory.mktemp("cache")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True
    )
    programs: dict[str, list[str]] = json.loads(found.stdout)
    return programs


def test_no_loop_is_compiled_twice(compiled: dict[str, list[str]]) -> None:
    ours = [name for name in compiled["full"] if name.startswith("mixts.")]
    assert sorted(ours) == sorted(set(ours))


@pytest.mark.parametrize("program", ["many tasks", "tied", "diag", "spherical"])
def test_other_priors_need_no_other_loops(compiled: dict[str, list[str]], program: str) -> None:
    assert compiled[program] == []


def test_unknown_noise_needs_only_other_draws(compiled: dict[str, list[str]]) -> None:
    # Each draw has a noise of its own, which the one loop of a decision does not know.
    ours = {name.rpartition(".")[2] for name in compiled["student"] if name.startswith("mixts.")}
    assert ours == {"draw_latent", "sample", "take_best_product"}
