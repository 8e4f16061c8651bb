from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import msgspec
import pytest
from mixts_serve.http.protocol import Limits, read_arm_changes
from mixts_serve.http.refusals import RefusalError
from mixts_serve.records import Decide, Decision, Operation, Receipt, Result, Reward

from mixts.errors import (
    ActionError,
    ConflictError,
    MaskError,
    MixtsError,
    OutcomeError,
    OverloadedError,
    ParameterError,
    StoreUnavailableError,
    UnknownDecisionError,
)
from serve.tests.unit.http.calls import (
    ID,
    FakeDecider,
    answered,
    call,
    get,
    post,
    request,
    service,
)


def giving(result: Result) -> FakeDecider:
    return FakeDecider(answer=lambda operation: result)


# -- one ------------------------------------------------------------------------------------------


def test_a_decision_is_answered_with_the_agreed_fields_and_no_others() -> None:
    decider = FakeDecider()
    answer = post(service(decider), "/v1/decide", {"task": "u17"})
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert answer.json == {
        "id": ID, "task": "u17", "action": 2, "propensity": 0.25, "weights": [0.5, 0.5],
        "prior_version": 1, "policy": "ts",
    }  # fmt: skip
    assert decider.submitted == [Decide("u17")]


def test_an_arm_is_named_where_the_prior_names_it() -> None:
    named = Decision(ID, "u17", 0, 1.0, (1.0,), 3, arm="Grün/🌿")
    assert post(service(giving(named)), "/v1/decide", {"task": "u17"}).json["arm"] == "Grün/🌿"


def test_every_response_names_its_policy_and_older_ones_are_understood() -> None:
    for policy in ("ts", "ids"):
        made = Decision(ID, "u17", 0, 1.0, (1.0,), 3, policy=policy)
        answer = post(service(giving(made)), "/v1/decide", {"task": "u17"})
        assert answer.json["policy"] == policy
        assert msgspec.json.decode(answer.body, type=Decision) == made
    older = {name: value for name, value in answer.json.items() if name != "policy"}
    assert msgspec.convert(older, Decision).policy == "ts"


def test_everything_that_can_be_asked_for_arrives() -> None:
    decider = FakeDecider()
    asked = {"task": "a/b\n", "key": "k", "actions": [[1, 2.5], [0, -1e3]], "mask": [True, False]}
    assert post(service(decider), "/v1/decide", asked).status == 200
    assert decider.submitted == [Decide("a/b\n", [[1.0, 2.5], [0.0, -1e3]], [True, False], "k")]
    assert all(type(x) is float for row in decider.submitted[0].actions for x in row)


def test_null_is_the_same_as_nothing() -> None:
    decider = FakeDecider()
    nothing = {"task": "t", "key": None, "actions": None, "mask": None}
    assert post(service(decider), "/v1/decide", nothing).status == 200
    assert decider.submitted == [Decide("t")]


@pytest.mark.parametrize(
    ("receipt", "expected"),
    [
        (Receipt(False), b'{"duplicate":false}'),
        (Receipt(True), b'{"duplicate":true}'),
        (Receipt(False, late=True), b'{"duplicate":false,"late":true}'),
    ],
)
def test_a_reward_is_answered_with_whether_it_had_come_before(
    receipt: Receipt, expected: bytes
) -> None:
    decider = giving(receipt)
    answer = post(service(decider), "/v1/reward", {"id": ID, "value": 1})
    assert (answer.status, answer.body) == (200, expected)
    assert decider.submitted == [Reward(ID, 1.0)]


@pytest.mark.parametrize(
    ("error", "status", "code", "field"),
    [
        (ConflictError("other"), 409, "conflict", "value"),
        (UnknownDecisionError("no such"), 404, "unknown_decision", "id"),
        (OutcomeError("0 or 1"), 422, "outcome", "value"),
        (ActionError("shape"), 422, "action", "actions"),
        (MaskError("shape"), 422, "mask", "mask"),
        (ParameterError("what"), 422, "parameter", None),
        (ParameterError("what").at("costs"), 422, "parameter", "costs"),
        (ActionError("few").at("top"), 422, "action", "top"),
        (OverloadedError("many"), 503, "overloaded", None),
        (StoreUnavailableError("disk full"), 503, "store_unavailable", None),
    ],
)
def test_the_response_has_the_reason_of_the_deciders_refusal(
    error: MixtsError, status: int, code: str, field: str | None
) -> None:
    answer = post(service(giving(error)), "/v1/reward", {"id": ID, "value": 1})
    assert answer.status == status
    assert answer.error["code"] == code
    assert answer.error["message"] == str(error)
    assert answer.error.get("field") == field
    assert ("retry-after" in answer.headers) == (status == 503)


def test_a_conflict_of_decisions_is_about_the_key() -> None:
    answer = post(service(giving(ConflictError("x"))), "/v1/decide", {"task": "t", "key": "k"})
    assert (answer.status, answer.error["field"]) == (409, "key")


def test_a_full_queue_is_503_with_a_time_to_come_back() -> None:
    full = FakeDecider(refuses=OverloadedError("10,000 operations are waiting"))
    for path, body in (("/v1/decide", {"task": "t"}), ("/v1/decide:batch", [{"task": "t"}])):
        answer = post(service(full), path, body)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.error["code"] == "overloaded"


def test_an_internal_error_is_logged_and_its_details_are_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = FakeDecider(refuses=ZeroDivisionError("secret of the house"))
    with caplog.at_level(logging.ERROR, "mixts_serve"):
        answer = post(service(broken), "/v1/decide", {"task": "t"})
    assert answer.status == 500
    assert b"secret" not in answer.body
    assert answer.error["code"] == "internal"
    assert "secret of the house" in caplog.text


def test_the_request_of_a_client_that_left_is_not_performed() -> None:
    decider = FakeDecider()
    headers = [("content-type", "application/json"), ("content-length", "100")]
    assert call(service(decider), "POST", "/v1/decide", [], headers).status == 400
    assert decider.submitted == []


# -- strict types ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"id": "x", "value": true}', "value"),
        ('{"id": "x", "value": "1.0"}', "value"),
        ('{"id": "x", "value": null}', "value"),
        ('{"id": "x", "value": [1]}', "value"),
        ('{"id": "x", "value": 1e999}', "value"),
        ('{"id": "x", "value": 1' + "0" * 400 + "}", "value"),
        ('{"id": "x"}', "value"),
        ('{"id": "x", "value": 1, "more": 1}', "more"),
        ('{"id": 7, "value": 1}', "id"),
        ('{"id": "", "value": 1}', "id"),
        ('{"id": "a\\u0000b", "value": 1}', "id"),
        ('{"id": "' + "x" * 257 + '", "value": 1}', "id"),
    ],
)
def test_a_reward_of_wrong_types_is_refused_with_the_field(body: str, field: str) -> None:
    decider = FakeDecider()
    answer = post(service(decider), "/v1/reward", body.encode())
    assert answer.status == 422
    assert answer.error["field"] == field
    assert field in answer.error["message"]
    assert decider.submitted == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"task": "t", "key": ""}', "key"),
        ('{"task": "t", "key": "\\u0000"}', "key"),
        ('{"task": "t", "actions": [[1, 2], [3, "4"]]}', "actions[1][1]"),
        ('{"task": "t", "actions": [[true]]}', "actions[0][0]"),
        ('{"task": "t", "actions": [1, 2]}', "actions[0]"),
        ('{"task": "t", "mask": [true, 1]}', "mask[1]"),
        ('{"task": "t", "mask": [true, null]}', "mask[1]"),
        ('{"task": "t", "mask": ["a", ""]}', "mask[1]"),
        ('{"task": "t", "actions": [{"id": "a"}]}', "actions[0]"),
        ('{"task": "t", "actions": [{"features": {"x": null}}]}', "actions[0].features[...]"),
        ('{"task": "t", "actions": [{"features": {}, "price": 1}]}', "actions[0]"),
    ],
)
def test_a_decision_of_wrong_types_is_refused_with_the_path(body: str, field: str) -> None:
    decider = FakeDecider()
    answer = post(service(decider), "/v1/decide", body.encode())
    assert answer.status == 422
    assert answer.error["field"] == field
    assert decider.submitted == []


def test_names_of_256_characters_are_taken_whatever_they_take_in_bytes() -> None:
    decider = FakeDecider()
    task = "🌿" * 256
    assert post(service(decider), "/v1/decide", {"task": task}).status == 200
    assert decider.submitted == [Decide(task)]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"task=u17", b'{"task": "t"} x', b'{"task": "t",}', b"{'task': 't'}",
        b'{"task": "\xff"}', b"\xef\xbb\xbf{}", '{"task": "t"}'.encode("utf-16"),
        b'{"task": "t" "key": "k"}', b'{"task": "\\ud800"}', b'{"task": "t", "key": "\\udfff"}',
    ],
)  # fmt: skip
def test_what_is_not_json_is_400(body: bytes) -> None:
    answer = post(service(), "/v1/decide", body)
    assert (answer.status, answer.error["code"]) == (400, "not_json")


@pytest.mark.parametrize("body", [b"[]", b"1", b'"t"', b"null"])
def test_json_that_is_no_object_is_422(body: bytes) -> None:
    assert post(service(), "/v1/decide", body).status == 422


def test_a_message_never_repeats_a_long_request() -> None:
    answer = post(service(), "/v1/decide", {"task": "t", "x" * 100_000: 1})
    assert answer.status == 422
    assert len(answer.body) < 2000


@pytest.mark.parametrize(
    "headers",
    [
        [], [("content-type", "text/plain")], [("content-type", "application/jsonp")],
        [("content-type", "application/json; charset=latin-1")],
        [("content-type", "application/json"), ("content-encoding", "gzip")],
    ],
)  # fmt: skip
def test_what_is_not_said_to_be_json_is_415(headers: list[tuple[str, str]]) -> None:
    answer = call(service(), "POST", "/v1/decide", b'{"task": "t"}', headers)
    assert (answer.status, answer.error["code"]) == (415, "media_type")


@pytest.mark.parametrize("kind", ["application/json; charset=UTF-8", "Application/JSON"])
def test_json_may_be_said_in_other_words(kind: str) -> None:
    answer = call(service(), "POST", "/v1/decide", b'{"task": "t"}', [("content-type", kind)])
    assert answer.status == 200


@pytest.mark.parametrize("path", ["/v1/decide", "/v1/reward", "/v1/decide:batch"])
def test_another_method_is_405_and_says_which(path: str) -> None:
    answer = get(service(), path)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.error["code"] == "method_not_allowed"


# -- many -----------------------------------------------------------------------------------------


def test_a_batch_is_answered_item_by_item_in_order() -> None:
    def some(operation: Operation) -> Result:
        assert isinstance(operation, Decide)
        return ConflictError("used") if operation.key == "old" else answered(operation)

    decider = FakeDecider(answer=some)
    items: list[Any] = [
        {"task": "a"}, {"task": 1}, {"task": "b", "key": "old"}, 5, {"task": "c"}
    ]  # fmt: skip
    answer = post(service(decider), "/v1/decide:batch", items)
    assert answer.status == 200
    whole = {
        "id": ID, "action": 2, "propensity": 0.25, "weights": [0.5, 0.5], "prior_version": 1,
        "policy": "ts",
    }  # fmt: skip
    assert answer.json[0] == {**whole, "task": "a"}
    assert answer.json[4] == {**whole, "task": "c"}
    errors = [item["error"] for item in answer.json[1:4]]
    assert [error["status"] for error in errors] == [422, 409, 422]
    assert [error.get("field") for error in errors] == ["task", "key", None]
    assert decider.submitted == [Decide("a"), Decide("b", key="old"), Decide("c")]


def test_a_batch_of_rewards() -> None:
    items = [{"id": ID, "value": 1}, {"id": ID, "value": True}]
    answer = post(service(), "/v1/reward:batch", items)
    assert answer.json[0] == {"duplicate": False}
    assert answer.json[1]["error"]["field"] == "value"


def test_nothing_is_a_batch_too() -> None:
    decider = FakeDecider()
    answer = post(service(decider), "/v1/decide:batch", [])
    assert (answer.status, answer.json, decider.submitted) == (200, [], [])


def test_a_colon_may_be_encoded() -> None:
    assert post(service(), "/v1/decide%3Abatch", [{"task": "t"}]).status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [(b'{"items": []}', 422), (b"[{]", 400), (b'[{"task": "t"}', 400), (b"", 400)],
)
def test_a_batch_that_is_not_a_list_is_refused(body: bytes, status: int) -> None:
    decider = FakeDecider()
    assert post(service(decider), "/v1/decide:batch", body).status == status
    assert decider.submitted == []


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity"])
def test_a_number_that_json_does_not_have_is_refused_with_a_hint(value: bytes) -> None:
    one = b'{"id": "x", "value": %s}' % value
    for path, body in (("/v1/reward", one), ("/v1/reward:batch", b"[%s]" % one)):
        answer = post(service(), path, body)
        assert (answer.status, answer.error["code"]) == (400, "not_json")
        assert "JSON has no NaN" in answer.error["message"]


def test_a_batch_that_is_too_long_is_refused_as_a_whole() -> None:
    decider = FakeDecider()
    limited = service(decider, limits=Limits(batch=3))
    assert post(limited, "/v1/decide:batch", [{"task": "t"}] * 3).status == 200
    answer = post(limited, "/v1/decide:batch", [{"task": "t"}] * 4)
    assert (answer.status, answer.error["code"]) == (422, "too_many")
    assert len(decider.submitted) == 3


def test_a_batch_that_the_store_took_nothing_of_is_503() -> None:
    away = giving(StoreUnavailableError("the disk is full"))
    answer = post(service(away), "/v1/decide:batch", [{"task": "a"}, {"task": 1}, {"task": "b"}])
    assert (answer.status, answer.error["message"]) == (503, "the disk is full")
    assert "retry-after" in answer.headers


def test_a_batch_that_the_store_took_a_part_of_says_which() -> None:
    def half(operation: Operation) -> Result:
        assert isinstance(operation, Decide)
        return answered(operation) if operation.task == "a" else StoreUnavailableError("away")

    answer = post(service(FakeDecider(half)), "/v1/decide:batch", [{"task": "a"}, {"task": "b"}])
    assert answer.status == 200
    assert answer.json[0]["id"] == ID
    assert answer.json[1]["error"]["status"] == 503


def test_a_fault_of_ours_in_a_batch_leaves_the_other_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fault(operation: Operation) -> Result:
        assert isinstance(operation, Decide)
        return answered(operation) if operation.task == "a" else MixtsError("internal error")

    with caplog.at_level(logging.ERROR, "mixts_serve"):
        items = [{"task": "a"}, {"task": "b"}]
        answer = post(service(FakeDecider(fault)), "/v1/decide:batch", items)
    assert answer.json[0]["id"] == ID
    assert answer.json[1]["error"]["code"] == "internal"


def test_one_service_answers_many_at_once() -> None:
    """Results that come together wake the event loop together, and reach whom they are for."""
    decider = FakeDecider(
        answer=lambda operation: Decision(operation.task, operation.task, 0, 1.0, (1.0,), 1)  # type: ignore[union-attr]
    )
    shared = service(decider)

    async def all_of_them() -> list[str]:
        calls = [
            request(
                shared, "POST", "/v1/decide", json.dumps({"task": f"t{i}"}).encode(),
                [("content-type", "application/json")], "localhost", "127.0.0.1",
            )
            for i in range(50)
        ]  # fmt: skip
        return [answer.json["id"] for answer in await asyncio.gather(*calls)]

    assert asyncio.run(all_of_them()) == [f"t{i}" for i in range(50)]


def test_unknown_changes_of_arms_are_refused() -> None:
    with pytest.raises(RefusalError) as caught:
        read_arm_changes(b'{"add": ["tea"], "remove": ["hats"]}')
    assert (caught.value.status, caught.value.field) == (422, "remove")
