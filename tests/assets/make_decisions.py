"""Write a store of each kind with this version of mixts, and the responses to its clients.

    python -m tests.assets.make_decisions

Run once for each version of the tables; the files are kept, so that every later mixts is tested
with them (``tests/unit/service/store/test_migrations.py``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

import mixts
from mixts.service import Decide, Decision
from mixts.service.store._sqlite_file import MIGRATIONS

FOLDER = Path(__file__).parent
N_TASKS = 8


def arms(scale: float) -> mixts.MixturePrior:
    mean = np.array([[0.2, 0.5, 0.8], [0.8, 0.5, 0.2]])
    family = mixts.BernoulliArms(scale * mean, scale * (1 - mean))
    return mixts.MixturePrior(family, [0.4, 0.6], ["rising", "falling"], ["a", "b", "c"])


def linear(scale: float) -> mixts.MixturePrior:
    means = [[1.0, 0.0], [0.0, 1.0]]
    return mixts.MixturePrior(mixts.LinearGaussian(means, [np.eye(2) / scale] * 2, 0.5))


def requests(kind: str, rng: np.random.Generator) -> list[Decide]:
    """One a task: some with a key, some with a mask or costs, some actions with ids."""
    made = []
    for number in range(N_TASKS):
        actions = rng.normal(size=(3, 2)).round(3).tolist() if kind == "linear" else None
        if actions is not None and number % 4 == 1:
            actions = [{"id": f"item {k}", "features": row} for k, row in enumerate(actions)]
        mask = [True, False, True] if number % 3 == 0 else None
        key = f"key {number} {rng.integers(1000)}" if number % 2 else None
        costs = [0.0, 0.1, 0.2] if number == 5 else None
        made.append(Decide(f"task {number} é", actions, mask, key, costs=costs))
    return made


def make_silent(kind: str, path: Path, rng: np.random.Generator) -> list[dict[str, Any]]:
    """One decision with the default reward, two deferred ones, of which one is activated."""
    told = []
    settings: dict[str, Any] = {"floor": 0.01, "seed": 1}
    with (
        mixts.DecisionStore(path) as store,
        mixts.Decider(
            None, store, reward_window=1e-6, default_reward=0.0, **settings
        ) as silent,
    ):  # fmt: skip
        asked = requests(kind, rng)[1]
        told.append({"asked": asdict(asked), "decision": asdict(silent.decide_many([asked])[0])})
        told[0] |= {"value": None, "default": 0.0}
        while store.has_open_defaults():
            silent.end_windows()
    with mixts.DecisionStore(path) as store, mixts.Decider(None, store, **settings) as decider:
        for asked in requests(kind, rng)[1:4:2]:
            deferred = replace(asked, defer=True)
            decision = asdict(decider.decide_many([deferred])[0])
            told.append({"asked": asdict(deferred), "decision": decision, "value": None})
        decider.activate(told[-1]["decision"]["id"])
    return told


def make(kind: str) -> None:
    name = f"decisions-{kind}-v{len(MIGRATIONS)}"
    path = FOLDER / f"{name}.db"
    rng = np.random.default_rng(1)
    make_prior = arms if kind == "arms" else linear
    told: list[dict[str, Any]] = []
    for scale in (5.0, 8.0):  # the second prior replaces the first
        with (
            mixts.DecisionStore(path) as store,
            mixts.Decider(make_prior(scale), store, floor=0.01, seed=1) as decider,
        ):
            for _ in range(3):
                asked = requests(kind, rng)
                for ask, decision in zip(asked, decider.decide_many(asked), strict=True):
                    assert isinstance(decision, Decision)
                    told.append({"asked": asdict(ask), "decision": asdict(decision), "value": None})
            for entry in told:
                if entry["value"] is None and rng.random() < 0.7:
                    entry["value"] = float(rng.integers(2))
                    decider.reward(entry["decision"]["id"], entry["value"])
    told += make_silent(kind, path, rng)
    with mixts.DecisionStore(path) as store, mixts.Decider(None, store, reward_window=1e-6) as late:
        late_entry = next(entry for entry in told if entry["value"] is None)
        late_entry["value"] = 1.0
        assert late.reward(late_entry["decision"]["id"], 1.0).late
        states = [asdict(late.task(f"task {number} é")) for number in range(N_TASKS)]
    content = {"told": told, "states": states}
    (FOLDER / f"{name}.json").write_text(json.dumps(content) + "\n", "utf-8")


if __name__ == "__main__":
    make("arms")
    make("linear")
