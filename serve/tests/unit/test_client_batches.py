"""Lists of decisions and rewards by the clients, against answers that are written here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from mixts_serve.client import ServiceError
from mixts_serve.records import Decide, Receipt, Reward

from mixts import errors
from serve.tests.unit.scripted_service import DECIDED, DECISION, Service, client_of

__all__ = ["client_of"]


def test_a_batch_is_answered_item_by_item(client_of: Callable[..., Any]) -> None:
    unknown = {"code": "unknown_decision", "message": "no such decision", "status": 404}
    service = Service((200, [{"duplicate": False}, {"error": unknown}]))
    first, second = client_of(service).reward_many([Reward("a", 1.0), Reward("b", 0.0)])
    assert first == Receipt(duplicate=False)
    assert isinstance(second, errors.UnknownDecisionError)
    assert str(second) == "no such decision"
    assert service.bodies == [[{"id": "a", "value": 1.0}, {"id": "b", "value": 0.0}]]


def test_what_cannot_be_sent_is_refused_in_its_place(client_of: Callable[..., Any]) -> None:
    service = Service((200, [DECIDED]))
    requests = [
        Decide("u1", actions=[[np.nan]]), Decide("u17"), Decide("u3", mask=[1]),
    ]  # fmt: skip
    client = client_of(service)
    refused, decided, masked = client.decide_many(requests)
    assert decided == DECISION
    assert isinstance(refused, errors.ActionError)
    assert isinstance(masked, errors.MaskError)
    assert [item["task"] for item in service.bodies[0]] == ["u17"]
    (receipt,) = client.reward_many([Reward("a", float("inf"))])
    assert isinstance(receipt, errors.OutcomeError)
    assert client.decide_many([]) == []
    assert len(service.asked) == 1


def test_a_list_is_split_by_its_size_too(client_of: Callable[..., Any]) -> None:
    actions = np.full((1000, 30), 1 / 3)  # half a megabyte
    service = Service(*[(200, [DECIDED])] * 3)
    made = client_of(service).decide_many([Decide("u17", actions)] * 3)
    assert made == [DECISION] * 3
    assert [len(body) for body in service.bodies] == [1, 1, 1]


def test_every_decision_of_a_batch_has_a_key_of_its_own(client_of: Callable[..., Any]) -> None:
    service = Service(httpx.ReadTimeout, (200, [DECIDED, DECIDED, DECIDED]))
    client_of(service).decide_many([Decide("u1"), Decide("u1"), Decide("u1", key="mine")])
    first, second = service.bodies
    assert first == second
    assert first[2]["key"] == "mine"
    assert len({item["key"] for item in first}) == 3


def rewarded(n: int) -> tuple[int, Any]:
    """The service's answer to so many rewards."""
    return 200, [{"duplicate": False}] * n


def test_a_long_list_goes_in_parts_and_keeps_its_order(client_of: Callable[..., Any]) -> None:
    unknown = {"error": {"code": "unknown_decision", "message": "no", "status": 404}}
    last = (200, [{"duplicate": False}] * 497 + [unknown, {"duplicate": True}])
    service = Service(rewarded(1000), rewarded(1000), last)
    rewards = [Reward(f"{i}", float(i)) for i in range(2500)]
    rewards[2100] = Reward("2100", float("nan"))
    results = client_of(service).reward_many(rewards)
    assert [len(body) for body in service.bodies] == [1000, 1000, 499]
    sent = [item["id"] for body in service.bodies for item in body]
    assert sent == [f"{i}" for i in range(2500) if i != 2100]
    refused = {i: type(r) for i, r in enumerate(results) if isinstance(r, errors.MixtsError)}
    assert refused == {2100: errors.OutcomeError, 2498: errors.UnknownDecisionError}
    assert [i for i, r in enumerate(results) if r == Receipt(duplicate=True)] == [2499]


def test_what_was_acknowledged_stays_when_a_later_part_fails(client_of: Callable[..., Any]) -> None:
    service = Service(rewarded(1000), httpx.ConnectError)
    rewards = [Reward(f"{i}", 1.0) for i in range(2500)]
    rewards[1500] = rewards[2200] = Reward("wrong", float("nan"))
    results = client_of(service, retries=2).reward_many(rewards)
    assert results[:1000] == [Receipt(duplicate=False)] * 1000
    wrong = [i for i, r in enumerate(results) if isinstance(r, errors.OutcomeError)]
    assert wrong == [1500, 2200], "these cannot be sent again either"
    rest = [r for i, r in enumerate(results) if i >= 1000 and i not in wrong]
    assert {type(r) for r in rest} == {errors.StoreUnavailableError}
    assert len(results) == 2500
    assert len(service.asked) == 1 + 3, "the third part is not sent"


def test_a_long_list_whose_first_part_fails_is_raised(client_of: Callable[..., Any]) -> None:
    service = Service((401, {"error": {"code": "unauthorized", "message": "no"}}))
    with pytest.raises(ServiceError):
        client_of(service).decide_many([Decide(f"task {i}") for i in range(1001)])
    assert len(service.asked) == 1
