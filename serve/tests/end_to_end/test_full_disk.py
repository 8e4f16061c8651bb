"""``mixts serve`` on a disk that is really full: a small one in memory, made by root."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from mixts_serve import Decider, DecisionStore
from mixts_serve.store.rebuild import rebuild

import mixts
from tests.requirements import require

pytestmark = pytest.mark.slow

CODE = "import sys; from mixts.cli import main; sys.exit(main(sys.argv[1:]))"
MEGABYTE = 2**20
READY = 60.0
"""Seconds that a process may take to start, or to notice that the disk has room again."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4m", "mixts", str(folder)]
    try:
        mounted = subprocess.run(words, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    require("tmpfs", mounted, "a small disk cannot be mounted: that takes root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def prior(tmp_path: Path) -> Path:
    family = mixts.BernoulliArms([[5.0, 1.0], [1.0, 5.0]], [[1.0, 5.0], [5.0, 1.0]])
    mixts.MixturePrior(family).save(tmp_path / "prior.json")
    return tmp_path / "prior.json"


@contextmanager
def serving(store: Path, prior: Path) -> Iterator[httpx.Client]:
    words = ["serve", "--port", "0", "--store", str(store), "--prior", str(prior)]
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found
        with httpx.Client(base_url=found[0], timeout=READY) as client:
            yield client
        process.terminate()
        assert process.wait(READY) == 0
    finally:
        process.kill()
        process.communicate()


def fill(client: httpx.Client, acknowledged: dict[str, Any], start: int) -> httpx.Response:
    """Decide and reward until that is refused."""
    for number in range(start, start + 2_000):
        asked = [{"task": f"task {i}", "key": f"{number}"} for i in range(20)]
        answer = client.post("/v1/decide:batch", json=asked)
        if answer.status_code != 200:
            return answer
        for ask, made in zip(asked, answer.json(), strict=True):
            acknowledged[made["id"]] = (ask, made, None)
        rewards = [{"id": made["id"], "value": 1} for made in answer.json()]
        answer = client.post("/v1/reward:batch", json=rewards)
        if answer.status_code != 200:
            return answer
        for reward in rewards:
            acknowledged[reward["id"]] = (*acknowledged[reward["id"]][:2], 1.0)
    raise AssertionError("the disk is never full")


def test_the_service_reports_a_full_disk_and_recovers(small_disk: Path, prior: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(2 * MEGABYTE))
    path = small_disk / "decisions.db"
    acknowledged: dict[str, Any] = {}
    with serving(path, prior) as client:
        for start in (0, 10_000):
            refused = fill(client, acknowledged, start)
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "store_unavailable"
            assert "the disk is full" in refused.json()["error"]["message"]
            ready = client.get("/readyz")
            assert ready.status_code == 200 or "the disk is full" in ready.text  # it may recover
            state = client.get("/v1/tasks/task 7").json()
            assert state["decisions"] == sum(
                ask["task"] == "task 7" for ask, *_ in acknowledged.values()
            )
            assert client.get("/").status_code == 200
            if start == 0:
                ballast.unlink()
                wait_until_ready(client)  # nobody asks for anything else
    assert len(acknowledged) > 200
    check(path, acknowledged)


def test_a_disk_that_the_log_has_filled_recovers(small_disk: Path, prior: Path) -> None:
    # Nobody makes room: the log has many versions of few pages, and gives its room back.
    path = small_disk / "decisions.db"
    acknowledged: dict[str, Any] = {}
    with serving(path, prior) as client:
        refused = fill(client, acknowledged, 0)
        assert "the disk is full" in refused.json()["error"]["message"]
        wait_until_ready(client)
        assert client.post("/v1/decide", json={"task": "task 1", "key": "0"}).status_code == 200
        size = path.with_name("decisions.db-wal").stat().st_size
        assert size < MEGABYTE
    with serving(path, prior) as client:
        assert client.post("/v1/decide", json={"task": "task 2", "key": "0"}).status_code == 200
    check(path, acknowledged)


def wait_until_ready(client: httpx.Client) -> None:
    end = time.monotonic() + READY
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < end, "it does not recover"
        time.sleep(0.05)


def check(path: Path, acknowledged: dict[str, Any]) -> None:
    with DecisionStore(path) as store:
        rows = store.backend.query(
            "SELECT d.id, d.action, d.propensity, r.value FROM decisions d "
            "LEFT JOIN rewards r ON r.decision = d.seq"
        )
        found = {bytes(id).hex(): rest for id, *rest in rows}
        assert found.keys() == acknowledged.keys()
        for id, (_, made, value) in acknowledged.items():
            assert found[id] == [made["action"], made["propensity"], value]
        assert rebuild(store, write=False).differing == 0


def test_it_does_not_start_on_a_full_disk(small_disk: Path, prior: Path) -> None:
    with open(small_disk / "ballast", "wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))
    assert shutil.disk_usage(small_disk).free == 0
    path = small_disk / "decisions.db"
    words = ["serve", "--port", "0", "--store", str(path), "--prior", str(prior)]
    done = subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(f"mixts: {path} cannot be used: ")
    assert "full" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [entry.name for entry in small_disk.iterdir()] == ["ballast"]


def test_a_store_on_a_full_disk_says_where_it_is_full(small_disk: Path, prior: Path) -> None:
    """SQLite calls it "disk I/O error": it cannot map the index of its log."""
    path = small_disk / "decisions.db"
    with (
        DecisionStore(path) as store,
        Decider(mixts.MixturePrior.load(prior), store) as decider,
    ):
        decider.decide("a")
    with open(small_disk / "ballast", "wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))
    for words in (["serve", "--port", "0", "--store", str(path)], ["store", "show", str(path)]):
        done = subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True)
        assert done.returncode == 2
        assert f"the disk is full: 0 bytes are free in {small_disk}" in done.stderr
    (small_disk / "ballast").unlink()
    with DecisionStore(path) as store:
        assert store.totals().decisions == 1
