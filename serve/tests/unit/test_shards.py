"""Which shard a task belongs to, and clients that send every call there."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from mixts_serve import AsyncShardedClient, Decide, Receipt, Reward, ShardedClient, fallback
from mixts_serve.batch import new_id
from mixts_serve.shards import N_SLOTS, Shard, place_of, slot_of, slot_of_id

from mixts.errors import MixtsError, ParameterError, StoreUnavailableError
from serve.tests.contracts.stores import arms
from serve.tests.unit import scripted_service

URLS = ["http://one:8000", "http://two:8000", "http://three:8000"]
NAMES = [f"visitor {i}" for i in range(60)]


# -- slots ----------------------------------------------------------------------------------------


def test_a_slot_is_what_sha256sum_prints() -> None:
    # printf %s visitor-7 | sha256sum | cut -c1-4
    assert slot_of("visitor-7").hex() == "f3fb"
    assert slot_of("Zoë") == hashlib.sha256(b"Zo\xc3\xab").digest()[:2]
    assert len(slot_of("\ud800")) == 2, "no Unicode text: it is refused elsewhere"


@pytest.mark.parametrize("n", [1, 2, 3, 16, 1000, 4096])
def test_shards_are_runs_of_slots_of_nearly_the_same_length(n: int) -> None:
    places = [place_of(i.to_bytes(2, "big"), n) for i in range(N_SLOTS)]
    assert places == sorted(places)
    sizes = [len(list(run)) for _, run in itertools.groupby(places)]
    assert len(sizes) == n
    assert max(sizes) - min(sizes) <= 1


def test_with_sixteen_shards_the_first_digit_is_the_shard() -> None:
    assert [place_of(slot_of(name), 16) for name in NAMES] == [
        int(slot_of(name).hex()[0], 16) for name in NAMES
    ]


def test_ids_end_with_the_slot_of_their_task() -> None:
    ids = [new_id(1_700_000_000_000_000, name).hex() for name in NAMES]
    assert [slot_of_id(id) for id in ids] == [slot_of(name) for name in NAMES]
    assert {(len(id), id[:12]) for id in ids} == {(32, f"{1_700_000_000_000:012x}")}
    assert len({new_id(0, "ada") for _ in range(1000)}) == 1000
    away = fallback.Fallback(arms(), json.dumps)
    away._encode = lambda made: b""
    made = away.decide(Decide("visitor 7"), StoreUnavailableError("away"))
    assert slot_of_id(made.id) == slot_of("visitor 7")
    assert made.id[12:20] == "fa11bacc"


@pytest.mark.parametrize("text", ["", "x", "12", "é" * 32, "zz" * 16])
def test_what_is_no_id_has_a_shard_too(text: str) -> None:
    assert 0 <= place_of(slot_of_id(text), 3) < 3


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/1", "-1/2", "1/2 ", "1/5000", 2, "a/b"])
def test_a_wrong_shard_is_refused(text: Any) -> None:
    with pytest.raises(ParameterError, match="such as '2/16', got"):
        Shard.checked(text)


def test_a_shard_knows_its_tasks() -> None:
    assert Shard.checked(None) is None
    shards = [Shard(i, 3) for i in (1, 2, 3)]
    for name in NAMES:
        (found,) = [shard for shard in shards if shard.holds(name)]
        found.check(name)
        for shard in shards:
            if shard != found:
                with pytest.raises(ParameterError, match=f"{name}' belongs to shard {found}, and"):
                    shard.check(name)


def test_shards_that_are_divided_contain_their_parts() -> None:
    quarter = Shard(2, 4)
    assert [i for i in range(1, 9) if quarter.contains(Shard(i, 8))] == [3, 4]
    assert quarter.contains(quarter)
    assert not quarter.contains(Shard(1, 2))
    assert not quarter.contains(Shard(2, 6))
    for name in NAMES:
        parts = [Shard(i, 8).holds(name) for i in (3, 4)]
        assert any(parts) == quarter.holds(name)


# -- clients --------------------------------------------------------------------------------------


class Services:
    """Services by host, each with an answer of its own; they record what they were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.down: set[str] = set()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        host, path = request.url.host, request.url.path
        body = json.loads(request.content) if request.content else None
        self.asked.append((host, path, body))
        if host in self.down:
            raise httpx.ConnectError("gone", request=request)
        if path == "/readyz":
            return httpx.Response(200)
        if path.startswith("/v1/tasks"):
            return httpx.Response(200, json={"tasks": 1, "decisions": 2, "unknown": 0})
        if path.endswith(":batch"):
            return httpx.Response(200, json=[self.answer(host, each) for each in body])
        return httpx.Response(200, json=self.answer(host, body))

    def answer(self, host: str, item: Any) -> Any:
        if "task" not in item:
            return {"duplicate": False}
        id = new_id(0, item["task"]).hex()
        made = {"id": id, "task": item["task"], "action": 1, "propensity": 0.5, "weights": [1.0]}
        return made | {"prior_version": 1, "arm": host}


class Blocking(scripted_service.Blocking):
    kind = ShardedClient

    def __init__(self, services: Services, urls: list[str] = URLS, **settings: Any) -> None:
        settings = {"retries": 0} | settings
        self.client = self.kind(urls, transport=httpx.MockTransport(services), **settings)


class Awaited(Blocking):
    kind = AsyncShardedClient


@pytest.fixture(params=[Blocking, Awaited], ids=["blocking", "asyncio"])
def sharded(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return request.param


def host_of(name: str) -> str:
    return ["one", "two", "three"][place_of(slot_of(name), 3)]


def test_every_call_goes_to_the_shard_of_its_task(sharded: Callable[..., Any]) -> None:
    services = Services()
    client = sharded(services)
    assert {host_of(name) for name in NAMES} == {"one", "two", "three"}
    for name in NAMES:
        services.asked.clear()
        made = client.decide(name)
        assert made.arm == host_of(name)
        client.reward(made.id, 1.0)
        client.activate(made.id)
        client.erase(name)
        assert [(host, path[:9]) for host, path, _ in services.asked] == [
            (host_of(name), path) for path in ("/v1/decid", "/v1/rewar", "/v1/activ", "/v1/tasks")
        ]
        assert client.client.shard_of(name).url == f"http://{host_of(name)}:8000"


def test_lists_are_divided_and_joined_in_their_order(sharded: Callable[..., Any]) -> None:
    services = Services()
    client = sharded(services)
    made = client.decide_many([Decide(name, key=name) for name in NAMES])
    assert [each.task for each in made] == NAMES
    assert [each.arm for each in made] == list(map(host_of, NAMES))
    for host, path, items in services.asked:
        assert path == "/v1/decide:batch"
        assert [item["task"] for item in items] == [n for n in NAMES if host_of(n) == host]
    assert len(services.asked) == 3
    wrong = [Reward(made[0].id, float("nan")), Reward("no id", 1.0)]
    results = client.reward_many([Reward(each.id, 1.0) for each in made] + wrong)
    assert results[:60] + results[61:] == [Receipt(duplicate=False)] * 61
    assert isinstance(results[60], MixtsError)
    assert client.decide_many([]) == client.activate_many([]) == []
    assert len(client.activate_many([each.id for each in made])) == 60


def test_a_dead_shard_fails_for_its_own_tasks_only(sharded: Callable[..., Any]) -> None:
    services = Services()
    client = sharded(services)
    services.down = {"two"}
    for name in NAMES:
        if host_of(name) == "two":
            with pytest.raises(StoreUnavailableError, match="http://two:8000"):
                client.decide(name)
        else:
            assert client.decide(name).arm == host_of(name)
    made = client.decide_many([Decide(name) for name in NAMES])
    failed = [n for n, each in zip(NAMES, made, strict=True) if isinstance(each, MixtsError)]
    assert failed == [name for name in NAMES if host_of(name) == "two"]
    services.down = {"one", "two", "three"}
    assert {type(each) for each in client.decide_many([Decide("a")])} == {StoreUnavailableError}


def test_a_fallback_decides_for_a_dead_shard_and_sends_it_to_that_shard(
    sharded: Callable[..., Any],
) -> None:
    services = Services()
    services.down = {"two"}
    client = sharded(services, fallback=arms(), patience=20.0)
    made = {name: client.decide(name) for name in NAMES}
    for name, decision in made.items():
        assert (decision.policy == "fallback") == (host_of(name) == "two")
        client.reward(decision.id, 1.0)
    n_away = sum(host_of(name) == "two" for name in NAMES)
    assert client.client.n_queued == 2 * n_away
    services.asked.clear()
    services.down = set()
    client.close()
    sent = [(host, path, len(items or ())) for host, path, items in services.asked]
    assert [each for each in sent if each[1] != "/readyz"] == [
        ("two", "/v1/decisions:batch", n_away), ("two", "/v1/reward:batch", n_away),
    ]  # fmt: skip
    assert client.client.n_queued == 0


def test_wrong_addresses_are_refused(sharded: Callable[..., Any]) -> None:
    for urls in ([], "http://one:8000", ()):
        with pytest.raises(ParameterError, match="addresses of all shards, in their order"):
            sharded(Services(), urls)
    with pytest.raises(ParameterError, match="http://one:8000 is the address of two shards"):
        sharded(Services(), [*URLS, "http://one:8000/"])
    with pytest.raises(ParameterError, match="url must be like"):
        sharded(Services(), ["http://one:8000", "two"])


def test_what_has_no_name_is_refused_as_by_one_client(sharded: Callable[..., Any]) -> None:
    client = sharded(Services())
    with pytest.raises(ParameterError, match="Unicode"):
        client.decide("\ud800")
    with pytest.raises(ParameterError, match="Unicode"):
        client.erase("\ud800")
    assert "http://two:8000" in repr(client.client)
