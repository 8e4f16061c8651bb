"""Linear programs share their loops: other priors, tasks and arrays compile none a second time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import json
import numpy as np
import mixts
from tests.loaded_loops import loaded_loops

rng = np.random.default_rng(1)
mean, rows = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
rows.flags.writeable = False
roots = rng.normal(size=(3, 4, 4))
full, noise = roots @ np.swapaxes(roots, 1, 2), 0.5

def play(family, n_tasks=None):
    before = loaded_loops()
    agent = mixts.MixTS(mixts.MixturePrior(family), n_tasks, seed=1)
    for actions in (rows, np.asfortranarray(rows), rows[:, ::-1][:, ::-1], rows.astype(np.float32)):
        chosen = agent.act(actions)
        agent.update(actions[chosen], 0.5 if n_tasks is None else np.full(n_tasks, 0.5))
    return list((loaded_loops() - before).elements())

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
def loaded() -> dict[str, list[str]]:
    """Loops that each program called and those before it did not, for each type of arguments."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    programs: dict[str, list[str]] = json.loads(found.stdout)
    return programs


def test_no_loop_is_compiled_twice(loaded: dict[str, list[str]]) -> None:
    assert len(loaded["full"]) > 0
    assert sorted(loaded["full"]) == sorted(set(loaded["full"]))


@pytest.mark.parametrize("program", ["many tasks", "tied", "diag", "spherical"])
def test_other_priors_need_no_other_loops(loaded: dict[str, list[str]], program: str) -> None:
    assert loaded[program] == []


def test_unknown_noise_needs_only_other_draws(loaded: dict[str, list[str]]) -> None:
    # Each draw has a noise of its own, which the one loop of a decision does not know.
    ours = {name.rpartition(".")[2] for name in loaded["student"]}
    assert ours == {"draw_latent", "sample", "take_best_product"}
