"""Code that is written for a ``Decider`` runs with a ``Client``: the real service, over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from mixts_serve import Decider, Decision, DecisionStore, _requests
from mixts_serve.client import AsyncClient, Client
from mixts_serve.http import refusals, server
from mixts_serve.http.app import Service
from mixts_serve.http.protocol import Limits
from mixts_serve.http.security import Tokens
from mixts_serve.records import Decide, Receipt, Reward

import mixts
from mixts import errors
from mixts.origin import Origin
from serve.tests.contracts.stores import ACTIONS, arms, linear
from serve.tests.contracts.test_store_context import OLD, PRIOR, YOUNG, offer


@contextmanager
def served(
    decider: Decider, port: int = 0, tokens: Tokens | None = None, prefix: str = ""
) -> Iterator[str]:
    """The service in a thread of this process; its address."""
    started = threading.Event()
    service = Service(decider, decider.store, tokens=tokens, prefix=prefix)
    with server.bind("127.0.0.1", port) as listener:
        one = server.Server(service, started.set)
        thread = threading.Thread(target=one.run, args=([listener],))
        thread.start()
        assert started.wait(30)
        try:
            yield server.url_of(listener) + prefix
        finally:
            one.should_exit = True
            thread.join(30)
            service.close()


@contextmanager
def deciding(path: Path, prior: mixts.MixturePrior) -> Iterator[Decider]:
    with (
        DecisionStore(path) as store,
        Decider(prior, store, seed=1) as decider,
    ):
        yield decider


@pytest.fixture(scope="module")
def over_arms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Decider, Client]]:
    """A decider, and a client of a service on it."""
    with (
        deciding(tmp_path_factory.mktemp("arms") / "decisions.db", arms()) as decider,
        served(decider) as url,
        Client(url, timeout=300.0, deadline=600.0) as client,
    ):
        yield decider, client


@pytest.fixture(scope="module")
def over_rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Decider, Client]]:
    with (
        deciding(tmp_path_factory.mktemp("rows") / "decisions.db", linear()) as decider,
        served(decider) as url,
        Client(url, timeout=300.0, deadline=600.0) as client,
    ):
        yield decider, client


NAMES = ["u17", "a/b", "..", ".", "%2F", "x?y#z", "é\n\u2028", "<script>", "a" * 256, " "]


@pytest.mark.parametrize("name", NAMES)
def test_a_task_of_any_name_is_one_task(over_arms: tuple[Decider, Client], name: str) -> None:
    decider, client = over_arms
    made = client.decide(name)
    assert client.reward(made.id, 1) == Receipt(duplicate=False)
    assert client.reward(made.id, np.float64(1)) == Receipt(duplicate=True)
    state = client.task(name)
    assert state == decider.task(name)
    assert (state.task, state.decisions, state.rewards) == (name, 1, 1)
    (row,) = decider.store.history(name)
    logged = (row.id, row.action, row.propensity, row.weights, row.prior_version)
    assert logged == (made.id, made.action, made.propensity, made.weights, made.prior_version)


def test_a_key_gives_one_decision_to_all_clients(over_arms: tuple[Decider, Client]) -> None:
    decider, client = over_arms
    made = client.decide("keyed", key="k", mask=np.array([True, False, True]))
    again = decider.decide("keyed", key="k", mask=[True, False, True])
    assert again.id == made.id
    assert client.decide("keyed", key="k", mask=[True, False, True]) == made
    assert client.task("keyed").decisions == 1


def test_facts_and_scores_go_as_json(tmp_path: Path) -> None:
    forms: list[dict[str, Any]] = [
        {"age": np.int64(60)}, {"age": 60, "land": None}, {"age": np.float32(60), "land": np.nan}
    ]  # fmt: skip
    with (
        deciding(tmp_path / "facts.db", PRIOR) as decider,
        served(decider) as url,
        Client(url, timeout=300.0, deadline=600.0) as client,
    ):
        same = [client.decide("ada", offer(), key="k", context=context) for context in forms]
        assert {(made.id, made.arm) for made in same} == {(same[0].id, "film")}
        assert client.task("ada") == decider.task("ada")
        assert client.task("ada").context == OLD
        scored = client.decide("bob", offer((np.float32(99), 0.0)), context=OLD)
        assert scored.arm == "book"
        requests = [Decide("ada", offer(), context=facts) for facts in (YOUNG, {"agee": 1})]
        first, second = client.decide_many(requests)
        assert isinstance(first, Decision)
        assert isinstance(second, errors.ActionError)
        wrong = {"task": "ada", "actions": offer(), "context": {"age": [1]}}
        answer = httpx.post(f"{url}/v1/decide", json=wrong)
        assert answer.status_code == 422
        assert answer.json()["error"]["field"].startswith("context")


def test_actions_go_as_arrays(over_rows: tuple[Decider, Client]) -> None:
    decider, client = over_rows
    decider.decide("first", actions=ACTIONS)
    made = client.decide("rows", actions=np.array(ACTIONS), mask=np.array([False, True, False]))
    assert made.action == 1
    client.reward(made.id, np.float32(0.5))
    assert client.task("rows") == decider.task("rows")


MISTAKES: list[Callable[[Any], Any]] = [
    lambda at: at.reward("0" * 32, 1.0),
    lambda at: at.reward("no id", 1.0),
    lambda at: at.reward(at.decide("u").id, 0.5),
    lambda at: at.reward(at.decide("u").id, float("nan")),
    lambda at: at.decide("u", actions=ACTIONS),
    lambda at: at.decide("u", mask=[True]),
    lambda at: at.decide("u", mask=[False, False, False]),
    lambda at: at.decide(""),
    lambda at: at.decide("nul\0"),
    lambda at: at.decide("u", key=""),
    lambda at: at.decide("u", key="k" * 257),
    lambda at: (at.decide("v", key="k"), at.decide("v", key="k", mask=[True, True, False])),
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_the_same_exceptions(
    over_arms: tuple[Decider, Client], mistake: Callable[[Any], Any]
) -> None:
    raised = []
    for at in over_arms:
        with pytest.raises(errors.MixtsError) as caught:
            mistake(at)
        raised.append(type(caught.value))
    assert raised[0] is raised[1]


def test_an_unknown_task(over_arms: tuple[Decider, Client]) -> None:
    with pytest.raises(errors.UnknownTaskError):
        over_arms[1].task("never seen")


def test_batches_are_answered_alike(over_arms: tuple[Decider, Client]) -> None:
    for at in over_arms:
        first, refused, last = at.decide_many([Decide("b"), Decide("b", mask=[True]), Decide("c")])
        assert isinstance(refused, errors.MaskError)
        assert {type(first), type(last)} == {Decision}
        rewards = [Reward(first.id, 1.0), Reward("0" * 32, 1.0), Reward(last.id, 7.0)]
        receipt, unknown, impossible = at.reward_many(rewards)
        assert receipt == Receipt(duplicate=False)
        assert isinstance(unknown, errors.UnknownDecisionError)
        assert isinstance(impossible, errors.OutcomeError)
        assert at.decide_many([]) == at.reward_many([]) == []


def test_a_list_may_be_longer_than_a_request(over_arms: tuple[Decider, Client]) -> None:
    (made,) = over_arms[0].decide_many([Decide("long")])
    rewards = [Reward("0" * 32, 1.0)] * Limits().batch + [Reward(made.id, 1.0)]
    *unknown, receipt = over_arms[1].reward_many(rewards)
    assert {type(result) for result in unknown} == {errors.UnknownDecisionError}
    assert (len(unknown), receipt) == (1000, Receipt(duplicate=False))


def test_priors_are_uploaded_and_activated(tmp_path: Path) -> None:
    with (
        deciding(tmp_path / "decisions.db", arms()) as decider,
        served(decider) as url,
        Client(url, timeout=300.0, deadline=600.0) as client,
    ):
        assert client.ready()
        assert client.upload_prior(arms(scale=2.0)) == 2
        assert client.decide("u").prior_version == 1
        assert client.upload_prior(arms(scale=2.0), activate=True) == 2
        assert client.decide("u").prior_version == 2
        client.activate_prior(1)
        assert client.priors() == decider.priors()
        assert [row.active for row in client.priors()] == [True, False]
        with pytest.raises(errors.ParameterError, match="no version"):
            client.activate_prior(3)
        with pytest.raises(errors.ParameterError, match="cannot go on"):
            client.upload_prior(linear())
        failed = arms(scale=3.0).replace(origin=Origin(9.0, np.ones((2, 3)), False, "It is worse."))
        for attempt in (
            lambda: client.upload_prior(failed, activate=True),
            lambda: client.activate_prior(client.upload_prior(failed)),
        ):
            with pytest.raises(errors.ParameterError, match="It is worse"):
                attempt()
            assert client.decide("u").prior_version == 1
        client.activate_prior(3, force=True)
        assert client.decide("u").prior_version == 3
        assert client.upload_prior(failed, activate=True, force=True) == 3
        wrong = httpx.post(f"{url}/v1/priors/3/activate?force=maybe")
        assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "force")


def test_a_service_that_is_away_for_a_while_is_waited_for(tmp_path: Path) -> None:
    with deciding(tmp_path / "decisions.db", arms()) as decider, Client("http://x") as nobody:
        with served(decider) as url:
            port = httpx.URL(url).port
            client = Client(url, timeout=30.0, retries=50)
            first = client.decide("u")
        assert not client.ready()
        assert not nobody.ready()
        answers: list[Any] = []
        waiting = threading.Thread(target=lambda: answers.append(client.decide("u", key="later")))
        waiting.start()
        with served(decider, port=port or 0):
            waiting.join(30)
            assert answers[0].id != first.id
            assert client.decide("u", key="later") == answers[0]
        client.close()


def test_the_asyncio_client_does_the_same(tmp_path: Path) -> None:
    async def program(transport: httpx.ASGITransport) -> None:
        async with AsyncClient("http://127.0.0.1", transport=transport) as client:
            made = await asyncio.gather(*(client.decide(f"task {i % 3}") for i in range(12)))
            receipts = await asyncio.gather(*(client.reward(m.id, 1.0) for m in made))
            assert receipts == [Receipt(duplicate=False)] * 12
            states = [await client.task(f"task {i}") for i in range(3)]
            assert states == [decider.task(f"task {i}") for i in range(3)]
            assert [state.rewards for state in states] == [4, 4, 4]
            assert await client.ready()
            with pytest.raises(errors.UnknownTaskError):
                await client.task("never seen")

    with deciding(tmp_path / "decisions.db", arms()) as decider:
        service = Service(decider, decider.store)
        asyncio.run(program(httpx.ASGITransport(service)))
        service.close()


def test_the_client_raises_the_error_that_the_service_sent() -> None:
    for kind in refusals.RESPONSES:
        refusal = refusals.refusal_for(kind("why"))
        error = {"code": refusal.code, "message": refusal.message, "field": refusal.field}
        back = _requests._error(error, refusal.status)
        others = {
            errors.TaskError: errors.ParameterError,
            errors.StoreError: errors.StoreUnavailableError,
        }
        assert type(back) is others.get(kind, kind)
        assert str(back) == "why"
