"""Two services that share the tasks, on stores of their own: by the client, and by nginx."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from mixts_serve import Decide, Decider, DecisionStore, ShardedClient
from mixts_serve.shards import Shard, slot_of

from mixts.errors import ParameterError
from serve.tests.attacks.proxy import DEPLOY, find_nginx, free_port, nginx
from serve.tests.contracts.stores import arms
from serve.tests.unit.test_client_service import served
from tests.requirements import require

NAMES = [f"visitor {i}" for i in range(24)]
SHARDS = (Shard(1, 2), Shard(2, 2))


@pytest.fixture
def urls(tmp_path: Path) -> Iterator[list[str]]:
    """Addresses of two services, in the order of their shards."""
    with ExitStack() as stack:
        found, stores = [], []
        for shard in SHARDS:
            stores.append(stack.enter_context(DecisionStore(tmp_path / f"{shard.number}.db")))
            decider = Decider(arms(), stores[-1], seed=1, shard=str(shard))
            found.append(stack.enter_context(served(stack.enter_context(decider))))
        yield found
        for shard, store in zip(SHARDS, stores, strict=True):
            assert all(shard.holds(row.task) for row in store.tasks())


def test_another_process_reports_rewards_and_erases(urls: list[str]) -> None:
    with ShardedClient(urls) as client:
        made = client.decide_many([Decide(name) for name in NAMES])
    with ShardedClient(urls) as other:
        for decision in made:
            assert not other.reward(decision.id, 1.0).duplicate
        assert [other.task(name).rewards for name in NAMES] == [1] * len(NAMES)
        assert other.erase(NAMES[0]).decisions == 1


def test_a_list_in_another_order_is_refused(urls: list[str]) -> None:
    with ShardedClient(urls[::-1]) as client:
        results = client.decide_many([Decide(name) for name in NAMES])
        assert {type(each) for each in results} == {ParameterError}
        with pytest.raises(ParameterError, match="the addresses of all 2 shards, in their order"):
            client.erase(NAMES[0])
    with ShardedClient([*urls, "http://127.0.0.1:1"], retries=0) as client:
        wrong = client.decide_many([Decide(name) for name in NAMES])
        assert ParameterError in {type(each) for each in wrong}, "a third shard, which is not one"


def test_nginx_finds_the_shard_of_a_slot(urls: list[str], tmp_path: Path) -> None:
    require("nginx", find_nginx() is not None, "nginx is not installed")
    port = free_port()
    changes = {"127.0.0.1:8320": f"127.0.0.1:{port}"}
    for old, url in zip(("127.0.0.1:8321", "127.0.0.1:8322"), urls, strict=True):
        changes[old] = url.removeprefix("http://")
    shipped = DEPLOY / "nginx-shards.conf"
    with (
        nginx(tmp_path, changes, shipped=shipped),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        for name in NAMES:
            slot = {"Mixts-Slot": slot_of(name).hex()}
            made = client.post("/v1/decide", json={"task": name}, headers=slot)
            assert made.status_code == 200
            id = made.json()["id"]
            rewarded = client.post(
                "/v1/reward", json={"id": id, "value": 1}, headers={"Mixts-Slot": id[-4:]}
            )
            assert rewarded.json()["duplicate"] is False
            other = {"Mixts-Slot": f"{int(slot['Mixts-Slot'], 16) ^ 0x8000:04x}"}
            refused = client.post("/v1/decide", json={"task": name}, headers=other)
            assert refused.status_code == 422
            assert "belongs to shard" in refused.json()["error"]["message"]
        for headers in ({}, {"Mixts-Slot": "12"}, {"Mixts-Slot": "xyz1"}):
            lost = client.post("/v1/decide", json={"task": NAMES[0]}, headers=headers)
            assert lost.status_code == 421
            assert "Mixts-Slot" in lost.json()["error"]["message"]
