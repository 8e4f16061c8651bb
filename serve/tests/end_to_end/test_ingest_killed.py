"""``mixts store ingest`` that is killed again and again: nothing is lost, nothing counts twice."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mixts_serve import Decide, Decider, Decision, DecisionStore
from mixts_serve.store.rebuild import rebuild

from serve.tests.contracts.stores import arms

ROWS = 20
"""Rows in a transaction."""
_COMMAND = (
    "import sys; from mixts_serve import ingest, sources; from mixts.cli import main; "
    f"ingest.BATCH_ROWS = sources.BATCH_ROWS = {ROWS}; sources._CHUNK = 5_000; "
    "sys.exit(main(['store', 'ingest', *sys.argv[1:]]))"
)


def write_topic(path: Path, n: int) -> tuple[list[bytes], dict[str, float]]:
    """Make decisions, here and elsewhere; return lines in any order, and the reward of each."""
    rng = random.Random(1)
    with DecisionStore(path) as store, Decider(arms(), store, seed=1) as decider:
        made = decider.decide_many([Decide(f"t{k % 50}") for k in range(n)])
        now = int(store.now() * 1000)
    ids = [one.id for one in made if isinstance(one, Decision)]
    others = [f"{now:012x}{k:020x}" for k in range(n)]
    rewards = {id: float(rng.random() < 0.5) for id in [*ids, *others]}
    rows: list[dict[str, Any]] = [{"id": id, "value": value} for id, value in rewards.items()]
    rows += [{"id": id, "task": f"t{k % 50}", "action": k % 3} for k, id in enumerate(others)]
    rows += rng.sample(rows, n // 10)
    rng.shuffle(rows)
    return [json.dumps(row).encode() + b"\n" for row in rows], rewards


def deliver(path: Path, topic: list[bytes], n_heard: int | None) -> int:
    """Send lines, kill the command after so many answers, and return how many lines are safe."""
    words = [sys.executable, "-c", _COMMAND, str(path), "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stream = process.stdin

        def send() -> None:
            with suppress(BrokenPipeError), stream:
                stream.writelines(topic)

        thread = threading.Thread(target=send)
        thread.start()
        safe = 0
        for heard, line in enumerate(process.stdout, start=1):
            safe = json.loads(line)["lines"]
            if heard == n_heard:
                process.kill()
                break
        thread.join()
        process.wait()
        assert (n_heard is None) == (process.returncode == 0)
    return safe


@pytest.mark.slow
def test_thirty_kills(tmp_path: Path) -> None:
    path, kills = tmp_path / "decisions.db", 30
    topic, rewards = write_topic(path, 2_000)
    safe, rng = 0, random.Random(2)
    for _ in range(kills):
        safe += deliver(path, topic[safe:], rng.randint(1, len(topic) // ROWS // kills))
        assert safe < len(topic)
    safe += deliver(path, topic[safe:], None)
    assert safe == len(topic)
    with DecisionStore(path) as store:
        found = rebuild(store, write=False)
        sql = "SELECT d.id, r.value FROM rewards r JOIN decisions d ON d.seq = r.decision"
        log = [(bytes(id).hex(), value) for id, value in store.backend.query(sql)]
    assert (found.decisions, found.rewards) == (len(rewards), len(log))
    assert dict(log) == rewards
    assert not found.damage
    assert found.n_differences == 0
