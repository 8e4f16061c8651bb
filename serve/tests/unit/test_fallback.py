"""Clients with a fallback: decisions while the service is away, sent once when it is back."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from mixts_serve import AsyncClient, Client, Decider, Decision, DecisionStore, Receipt, fallback
from mixts_serve.client import Queued
from mixts_serve.http.app import Service as Application
from mixts_serve.records import Decide, Reward

import mixts
from mixts.errors import OutcomeError, ParameterError, StoreUnavailableError
from serve.tests.contracts.stores import ACTIONS, arms, linear
from serve.tests.contracts.test_store_context import OLD, PRIOR, YOUNG, offer
from serve.tests.unit.scripted_service import BUSY, DECIDED, URL, Service
from serve.tests.unit.store.faulty_store import wait_until
from serve.tests.unit.test_client_service import served

NAMED = arms().replace(arm_names=["a", "b", "c"])
PATIENT = 20.0
"""Seconds, where the service answers, however busy the machine is."""
BEST = int(NAMED.belief().mean_rewards().argmax())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def away(**settings: Any) -> Client:
    """A client of a service that is not there."""
    return Client(f"http://127.0.0.1:{free_port()}", **settings)


@pytest.fixture
def decider(tmp_path: Path) -> Iterator[Decider]:
    with DecisionStore(tmp_path / "d.db") as store, Decider(NAMED, store, seed=1) as decider:
        yield decider


# -- decisions ------------------------------------------------------------------------------------


def test_a_prior_decides_for_the_person() -> None:
    with away(fallback=PRIOR) as client:
        assert client.decide("ada", offer(), context=YOUNG).arm == "book"
        assert client.decide("ada", offer(), context=OLD).arm == "film"
        with pytest.raises(StoreUnavailableError, match="unknown fact 'agee'"):
            client.decide("ada", offer(), context={"agee": 20})


def test_a_prior_takes_the_best_action_of_a_new_task() -> None:
    with away(fallback=NAMED) as client:
        made = client.decide("ada")
        assert (made.action, made.arm) == (BEST, "abc"[BEST])
        assert (made.policy, made.prior_version, made.propensity) == ("fallback", 0, 1.0)
        assert made.weights == pytest.approx((0.4, 0.6))
        assert (made.id[12:20], len(made.id)) == ("fa11bacc", 32)
        assert abs(int(made.id[:12], 16) / 1000 - time.time()) < 5
        others = [name for name in "abc" if name != made.arm]
        assert client.decide("bob", mask=others).arm in others
        assert client.decide("bob", values={"a": 1e3, "b": 1, "c": 1}).arm == "a"
        assert client.n_queued == 3


def test_a_prior_comes_from_a_file(tmp_path: Path) -> None:
    NAMED.save(tmp_path / "prior.json")
    with away(fallback=tmp_path / "prior.json") as client:
        assert client.decide("ada").action == BEST
    with pytest.raises(ParameterError, match=r"give pathlib\.Path"):
        away(fallback=str(tmp_path / "prior.json"))


def test_features_are_decided_on_too() -> None:
    prior = linear()
    with away(fallback=prior) as client:
        best = int(prior.belief().mean_rewards(ACTIONS).argmax())
        assert client.decide("ada", actions=ACTIONS).action == best
        offered = [{"id": f"x{k}", "features": row} for k, row in enumerate(ACTIONS)]
        assert client.decide("ada", actions=offered).arm == f"x{best}"
        with pytest.raises(StoreUnavailableError, match=r"; fallback: .*actions"):
            client.decide("ada")


@pytest.mark.parametrize(
    ("arm", "request_", "expected"),
    [
        ("b", {}, (-1, "b")), (1, {}, (1, None)), ("b", {"mask": ["a", "b"]}, (-1, "b")),
        (1, {"mask": [False, True, False]}, (1, None)),
        ("y", {"actions": [{"id": n, "features": [1.0]} for n in "xy"]}, (1, "y")),
        (0, {"actions": [{"id": n, "features": [1.0]} for n in "xy"]}, (0, "x")),
        ("b", {"mask": ["a"]}, "leaves out"), (1, {"mask": [True, False]}, "leaves out"),
        ("b", {"mask": [True, False]}, "index of arm 'b' is not known"),
        (1, {"mask": ["a"]}, "name of arm 1 is not known"),
        (2, {"actions": ACTIONS[:2]}, "offered"),
        ("z", {"actions": [{"id": n, "features": [1.0]} for n in "xy"]}, "not offered"),
        (1, {"top": 2}, "neither top"), (1, {"defer": True}, "neither top"),
    ],
)  # fmt: skip
def test_a_fixed_arm(arm: Any, request_: dict[str, Any], expected: Any) -> None:
    with away(fallback=arm) as client:
        if isinstance(expected, str):
            with pytest.raises(StoreUnavailableError, match=f"; fallback: .*{expected}"):
                client.decide("ada", **request_)
            assert client.n_queued == 0
        else:
            made = client.decide("ada", **request_)
            assert (made.action, made.arm) == expected


@pytest.mark.parametrize("wrong", [True, -1, 1.5, object()])
def test_other_fallbacks_are_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="fallback must be"):
        away(fallback=wrong)


def test_ties_are_drawn_with_their_probabilities() -> None:
    tied = mixts.MixturePrior(mixts.BernoulliArms.uniform(3))
    with away(fallback=tied) as client:
        made = [client.decide(f"t{n}") for n in range(40)]
        assert {one.action for one in made} == {0, 1, 2}
        assert {one.propensity for one in made} == {1 / 3}


def test_a_key_gets_its_decision_again() -> None:
    tied = mixts.MixturePrior(mixts.BernoulliArms.uniform(50))
    with away(fallback=tied) as client:
        first = client.decide("ada", key="visit")
        assert [client.decide("ada", key="visit") for _ in range(5)] == [first] * 5
        assert client.decide("bob", key="visit").id != first.id
        assert client.n_queued == 2


# -- when the service is away ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", [(503, BUSY), (502, {}), (500, {}), (520, {}), (429, BUSY), httpx.ConnectError]
)
def test_a_busy_service_and_a_broken_one_are_away(step: Any) -> None:
    service = Service(step)
    transport = httpx.MockTransport(service)
    with Client(URL, transport=transport, fallback=1, patience=PATIENT) as client:
        assert client.decide("ada").policy == "fallback"
        asked = sum(request.url.path == "/v1/decide" for request in service.asked)
        assert client.decide("bob").policy == "fallback"
        assert asked == 1 == sum(request.url.path == "/v1/decide" for request in service.asked)


def test_a_refusal_is_final() -> None:
    wrong = (422, {"error": {"code": "mask", "message": "no such arm", "field": "mask"}})
    with Client(
        URL, transport=httpx.MockTransport(Service(wrong)), fallback=1, patience=PATIENT
    ) as client:
        with pytest.raises(mixts.errors.MaskError):
            client.decide("ada")
        assert client.n_queued == 0


def test_a_service_that_is_there_decides() -> None:
    service = Service((200, DECIDED), (200, {"duplicate": False}))
    with Client(
        URL, transport=httpx.MockTransport(service), fallback=1, patience=PATIENT
    ) as client:
        assert client.decide("u17").policy == "ts"
        assert type(client.reward("0" * 32, 1)) is Receipt


def test_a_service_that_hangs_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client(url, fallback=NAMED, timeout=0.2) as client:
            started = time.perf_counter()
            assert client.decide("ada").policy == "fallback"
            first = time.perf_counter() - started
            client.decide("bob")
            assert 0.04 <= first < 10  # a busy machine adds to it
            assert isinstance(client.reward("0" * 32, 1), Queued)

        async def program() -> float:
            async with AsyncClient(url, fallback=NAMED, timeout=0.2) as client:
                started = time.perf_counter()
                assert (await client.decide("ada")).policy == "fallback"
                return time.perf_counter() - started

        assert 0.04 <= asyncio.run(program()) < 10


# -- when it is back ------------------------------------------------------------------------------


def test_what_was_kept_is_sent_once(decider: Decider, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    with Client(f"http://127.0.0.1:{port}", fallback=NAMED, patience=PATIENT) as client:
        made = [client.decide(f"t{n % 7}", key=f"k{n}") for n in range(300)]
        for one in made[:200]:
            assert client.reward(one.id, float(one.action == 0)) == Queued(duplicate=False)
        assert client.reward(made[0].id, float(made[0].action == 0)) == Queued(duplicate=False)
        assert client.n_queued == 501
        with served(decider, port):
            assert wait_until(lambda: client.n_queued == 0)
            assert wait_until(lambda: client.decide("new").policy == "ids")
            assert type(client.reward(made[250].id, 1.0)) is Receipt
            again = client.decide("t0", key="k0")
            assert (again.id, again.action) == (made[0].id, made[0].action)
    totals = decider.store.totals()
    assert (totals.decisions - totals.rewards) >= 99
    fallbacks = [row for n in range(7) for row in decider.store.history(f"t{n}")]
    assert sorted(row.id for row in fallbacks) == sorted(one.id for one in made)
    assert sum(row.value is not None for row in fallbacks) == 201
    assert not caplog.records


def test_rewards_follow_their_decisions_closely() -> None:
    """The service keeps a window open for a minute only: it must not wait for all decisions."""
    kept, error = fallback.Fallback(0, msgspec.json.encode), StoreUnavailableError("away")
    kept.keep(Reward("logged before", 1.0), error)
    made = [kept.decide(Decide("ada"), error).id for _ in range(600)]
    for id in made:
        kept.keep(Reward(id, 1.0), error)
    sent: list[str] = []
    while part := kept.next_part():
        sent += [each.id for each in part]
        kept.settle(part, [None] * len(part))
    parts = [made[:250], made[250:500], made[500:]]
    assert sent == ["logged before", *(id for part in parts for id in [*part, *part])]


def test_a_lost_answer_makes_no_second_decision(decider: Decider) -> None:
    """The service logs the first part, but its answer is lost; the client sends the part again."""
    lost = []

    class Losing(httpx.BaseTransport):
        def __init__(self) -> None:
            self.inner = httpx.HTTPTransport()

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answer = self.inner.handle_request(request)
            if request.url.path == "/v1/decisions:batch" and not lost:
                lost.append(answer.read())
                raise httpx.ReadError("gone")
            return answer

        def close(self) -> None:
            self.inner.close()

    port = free_port()
    with Client(
        f"http://127.0.0.1:{port}", fallback=NAMED, patience=PATIENT, transport=Losing()
    ) as client:
        made = [client.decide("ada") for _ in range(3)]
        with served(decider, port):
            assert wait_until(lambda: client.n_queued == 0)
    assert lost
    assert {row.id for row in decider.store.history("ada")} == {one.id for one in made}


def test_closing_sends_what_can_be_sent(
    decider: Decider, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "_begin_return", lambda self: None)
    port = free_port()
    client = Client(f"http://127.0.0.1:{port}", fallback=0, patience=PATIENT)
    client.decide("ada")
    with served(decider, port):
        client.close()
    assert decider.task("ada").decisions == 1
    client = away(fallback=0)
    client.decide("eve")
    client.close()
    assert caplog.messages == ["1 decisions and rewards were not sent to the service"]


def test_a_report_that_the_service_refuses_is_dropped(
    decider: Decider, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    with Client(f"http://127.0.0.1:{port}", fallback=7, patience=PATIENT) as client:
        wrong = client.decide("ada")  # there are three arms
        client.reward(wrong.id, 1.0)
        with served(decider, port):
            assert wait_until(lambda: client.n_queued == 0)
    assert [text.rpartition(": ")[2] for text in caplog.messages] == [
        "ActionError", "UnknownDecisionError",
    ]  # fmt: skip


def test_the_last_prior_of_the_service_is_fetched(decider: Decider) -> None:
    port = free_port()
    with Client(f"http://127.0.0.1:{port}", fallback="last", patience=PATIENT) as client:
        with pytest.raises(StoreUnavailableError, match="no prior was fetched"):
            client.decide("ada")
        with served(decider, port) as url:
            assert wait_until(lambda: not client._fallback.is_away)  # type: ignore[union-attr]
            client.decide("ada")
            assert wait_until(lambda: client._fallback.version == 1)  # type: ignore[union-attr]
            with Client(url) as other:
                assert other.download_prior(1).arm_names == NAMED.arm_names
                other.change_arms(retire=["abc"[BEST]])
            client.decide("ada")
            assert wait_until(lambda: client._fallback.version == 2)  # type: ignore[union-attr]
        made = client.decide("bob")
        assert (made.policy, made.prior_version) == ("fallback", 2)
        assert made.action != BEST


def test_an_asynchronous_client_sends_once(decider: Decider) -> None:
    port = free_port()

    async def until(condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.01)

    async def program() -> list[Decision]:
        async with AsyncClient(
            f"http://127.0.0.1:{port}", fallback="b", patience=PATIENT
        ) as client:
            made = [await client.decide("ada") for _ in range(5)]
            assert [await client.reward(one.id, 1.0) for one in made] == [Queued(False)] * 5
            with served(decider, port):
                await asyncio.wait_for(until(lambda: client.n_queued == 0), 20)
                assert (await client.decide("new")).policy == "ids"
            return made

    made = asyncio.run(program())
    assert {row.id for row in decider.store.history("ada")} == {one.id for one in made}
    assert decider.task("ada").rewards == 5


def test_the_prior_of_a_canary_is_not_followed(decider: Decider) -> None:
    asked: list[str] = []

    class Counting(httpx.ASGITransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            asked.append(request.url.path)
            return await super().handle_async_request(request)

    async def program(service: Application) -> None:
        async with AsyncClient(
            URL, transport=Counting(service), fallback="last", patience=PATIENT
        ) as client:
            kept = client._fallback
            assert kept is not None

            async def decide(task: str) -> int:
                version = (await client.decide(task)).prior_version
                while not kept.is_idle:
                    await asyncio.sleep(0.001)
                return version

            assert await decide("before") == 1
            other = decider.upload_prior(NAMED.replace(weights=[0.3, 0.7]))
            decider.start_canary(other, 0.5)
            assert {await decide(f"t{n}") for n in range(30)} == {1, 2}
            assert kept.version == 1
            assert [path for path in asked if path != "/v1/decide"] == [
                "/v1/prior", "/v1/priors/1", "/v1/prior",
            ]  # fmt: skip
            decider.activate_prior(other)
            kept._asks_at = 0.0  # a minute has passed
            await decide("after")
            assert kept.version == 2

    service = Application(decider, decider.store)
    asyncio.run(program(service))
    service.close()


@pytest.mark.parametrize("is_first", [True, False])
def test_closing_while_a_part_is_on_its_way(
    is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the thread sends, ``close`` neither sends nor forgets a second time."""
    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    arrived, answered, is_back = (threading.Event() for _ in range(3))

    def answer(request: httpx.Request) -> httpx.Response:
        if not is_back.is_set():
            return httpx.Response(503)
        if request.url.path == "/readyz":
            return httpx.Response(200)
        arrived.set()
        answered.wait(PATIENT)
        made = {"id": "d", "task": "ada", "action": 0, "propensity": 1.0}
        return httpx.Response(200, json=[made | {"weights": [1.0], "prior_version": 1}])

    client = Client(URL, transport=httpx.MockTransport(answer), fallback=0, timeout=0.01)
    made = client.decide("ada")
    if not is_first:
        client.reward(made.id, 1.0)
    is_back.set()
    assert arrived.wait(PATIENT)
    thread = client._returning
    client.close()
    answered.set()
    assert thread is not None
    thread.join(PATIENT)
    assert not failures
    assert client.n_queued == (0 if is_first else 1)


def test_an_asynchronous_client_is_closed_in_another_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = AsyncClient(f"http://127.0.0.1:{free_port()}", fallback=0, retries=0)
    assert asyncio.run(client.decide("ada")).policy == "fallback"
    asyncio.run(client.close())
    assert caplog.messages == ["1 decisions and rewards were not sent to the service"]


def test_a_wrong_report_is_not_kept() -> None:
    with away(fallback=0) as client, pytest.raises(OutcomeError, match="a value, metrics or both"):
        client.reward("0" * 32)


def test_a_full_queue_refuses_rewards_and_goes_on_to_decide(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fallback, "MAX_QUEUED_BYTES", 300)
    with away(fallback=0) as client:
        made = [client.decide("ada") for _ in range(9)]
        assert len({one.id for one in made}) == 9
        assert 0 < client.n_queued < 9
        with pytest.raises(StoreUnavailableError, match="queue is full"):
            client.reward(made[0].id, 1.0)
    assert sum("queue is full" in text for text in caplog.messages) == 1
