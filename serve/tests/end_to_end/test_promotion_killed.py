"""A service that is killed while it deploys: each transition is made once, none by half."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore, Reward, promotion
from mixts_serve.records import Pedigree
from mixts_serve.store.rebuild import rebuild
from mixts_serve.versions import logged_prior

import mixts

_REPLICA = """
import sys, time
from mixts_serve import Decider, DecisionStore, challenger, promotion
challenger.POLL_SECONDS = 0.02
promotion.CANARY_TASKS = 30
with DecisionStore(sys.argv[1]) as store, Decider(None, store, policy="ts") as decider:
    print("ready", flush=True)
    for i in range(2000):
        made = [decider.decide(f"{sys.argv[2]} {i} {k}") for k in range(4)]
        for one in made:
            decider.reward(one.id, float(one.action == 0))
        time.sleep(0.005)
"""


def prepared(path: Path) -> int:
    """Store a prior that is wrong, and a refit that is to be tried by half of the new tasks."""
    wrong, right = (
        mixts.MixturePrior(mixts.BernoulliArms([a], [a[::-1]])) for a in ([2, 18], [18, 2])
    )
    made = Pedigree("refit", 1, 1, promote="100", canary=0.5)

    def write(transaction: Any) -> int:
        transaction.shape()
        row = logged_prior(right, transaction.now_us(), made)
        return int(transaction.add_prior(row)[0])

    with DecisionStore(path) as store, Decider(wrong, store, policy="ts", seed=1) as decider:
        time.sleep(0.01)
        version = store.backend.transact(write)
        requests = [Decide(f"first {i}") for i in range(60)]
        rewards = [
            Reward(one.id, float(one.action == 0))
            for one in decider.decide_many(requests)
            if isinstance(one, Decision)
        ]
        decider.reward_many(rewards)
    return version


def lives(path: Path, n: int, seconds: float, seed: int = 1) -> Iterator[None]:
    """Start a service, kill it after a random time, and do so again."""
    rng = random.Random(seed)
    for life in range(n):
        words = [sys.executable, "-c", _REPLICA, str(path), f"life {life}"]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0.0, seconds))
            process.send_signal(signal.SIGKILL)
            process.wait()
        yield


def check_log(path: Path, version: int, *, whole: bool) -> bool:
    """Check the transitions that a store has; return whether all were made."""
    with DecisionStore(path) as store:
        rows = store.backend.query("SELECT version, share, reason FROM activations ORDER BY seq")
        assert all(reason for _, _, reason in rows[1:])
        made = [(each, share) for each, share, _ in rows]
        expected = [(1, 1.0), (version, 0.5), (version, 1.0)]
        assert made == expected[: len(made)]
        if whole:
            assert made == expected
            # Each decision is that of the version in force for its task when it was made.
            odd = store.backend.value(
                "SELECT COUNT(*) FROM decisions d JOIN tasks t ON t.number = d.task WHERE "
                "(d.side = 'canary' AND (d.version <> ? OR t.first_at < (SELECT at FROM "
                "activations WHERE seq = 2))) OR (d.side = 'treated' AND d.version <> 1)",
                (version,),
            )
            assert odd == 0
            assert rebuild(store, write=False).n_differences == 0
        return made == expected


def finish(path: Path) -> None:
    """Live until the canary is judged."""
    with DecisionStore(path) as store, Decider(None, store, policy="ts", seed=1) as decider:
        for i in range(100):
            made = decider.decide_many([Decide(f"last {i} {k}") for k in range(20)])
            rewards = [
                Reward(one.id, float(one.action == 0)) for one in made if isinstance(one, Decision)
            ]
            decider.reward_many(rewards)
            promoter = decider._promoter
            while not promoter.poll():
                pass
            promoter.judge()
            if i and decider.trial() is None:
                return


def run(path: Path, n: int, seconds: float, seed: int = 1) -> None:
    version = prepared(path)
    for _ in lives(path, n, seconds, seed):
        if check_log(path, version, whole=False):
            break
    finish(path)
    check_log(path, version, whole=True)


def test_a_service_that_is_killed_deploys_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promotion, "CANARY_TASKS", 30)
    monkeypatch.setattr(promotion.Promoter, "start", lambda self: None)
    run(tmp_path / "decisions.db", 2, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_service_that_is_killed_many_times_deploys_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(promotion, "CANARY_TASKS", 30)
    monkeypatch.setattr(promotion.Promoter, "start", lambda self: None)
    run(tmp_path / "decisions.db", 8, 0.05 * (1 + seed), seed)
