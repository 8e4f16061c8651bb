from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from mixts_serve.http.endpoints import Readers
from mixts_serve.http.protocol import Limits

from mixts.errors import OverloadedError
from serve.tests.unit.http.calls import JSON, FakeDecider, call, post, service

TASK = b'{"task": "t"}'


# -- bodies and headers ---------------------------------------------------------------------------


def test_a_body_that_says_it_is_too_large_is_not_received() -> None:
    decider = FakeDecider()
    limited = service(decider, limits=Limits(body=100))
    headers = [JSON, ("content-length", "100000")]
    answer = call(limited, "POST", "/v1/decide", [], headers)  # nothing can be received
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    assert decider.submitted == []


def test_a_body_in_parts_is_counted_while_it_arrives() -> None:
    limited = service(limits=Limits(body=len(TASK)))
    assert call(limited, "POST", "/v1/decide", [TASK[:5], TASK[5:]], [JSON]).status == 200
    assert call(limited, "POST", "/v1/decide", [TASK, b" "], [JSON]).status == 413
    endless = [b"x" * 1000] * 1000
    assert call(limited, "POST", "/v1/decide", endless, [JSON]).status == 413


def test_a_length_that_is_no_number_is_refused() -> None:
    headers = [JSON, ("content-length", "-1")]
    assert call(service(), "POST", "/v1/decide", TASK, headers).status == 400


@pytest.mark.parametrize("coding", ["gzip, chunked", "chunked, chunked", "xchunked"])
def test_a_body_in_another_coding_is_refused(coding: str) -> None:
    headers = [JSON, ("transfer-encoding", coding)]
    assert call(service(), "POST", "/v1/decide", TASK, headers).status == 501
    headers = [JSON, ("transfer-encoding", "Chunked")]
    assert call(service(), "POST", "/v1/decide", TASK, headers).status == 200


# -- JSON -----------------------------------------------------------------------------------------


def nested(depth: int) -> bytes:
    return b'{"a":' * (depth - 1) + b"[]" + b"}" * (depth - 1)


@pytest.mark.parametrize("depth", [1, 16, 1000, 100_000])
def test_nesting_is_refused(depth: int) -> None:
    answer = post(service(), "/v1/decide", nested(depth))
    assert (answer.status, answer.error["code"]) == (422, "invalid")
    body = b'[{"task": "a", "actions": ' + nested(depth) + b"}]"
    answer = post(service(), "/v1/decide:batch", body)
    if answer.status == 200:  # one decision of many, and wrong unless its actions are a list
        assert depth == 1 or answer.json[0]["error"]["code"] == "invalid"
    else:  # too deep for the stack of this Python
        assert (depth > 100, answer.error["code"]) == (True, "not_json")


@pytest.mark.parametrize("bracket", [b"[", b"{", b'{"task":'])
def test_brackets_that_never_close_are_refused(bracket: bytes) -> None:
    for path in ("/v1/decide", "/v1/reward", "/v1/reward:batch", "/v1/arms"):
        assert post(service(), path, bracket * 50_000).status in (400, 422)


def test_brackets_in_strings_do_not_count() -> None:
    decider = FakeDecider()
    name = '[[{{"\\' * 40
    assert post(service(decider), "/v1/decide", {"task": name, "key": "]" * 40}).status == 200
    assert decider.submitted[0].task == name


@pytest.mark.parametrize("field", ["actions", "mask"])
def test_the_number_of_actions_is_limited(field: str) -> None:
    decider = FakeDecider()
    limited = service(decider, limits=Limits(actions=20))
    entry: Any = [0.5] if field == "actions" else True
    assert post(limited, "/v1/decide", {"task": "t", field: [entry] * 20}).status == 200
    answer = post(limited, "/v1/decide", {"task": "t", field: [entry] * 21})
    assert (answer.status, answer.error["code"]) == (422, "too_many")
    assert answer.error["field"] == field
    batch = post(limited, "/v1/decide:batch", [{"task": "t", field: [entry] * n} for n in (20, 21)])
    assert "id" in batch.json[0]
    assert batch.json[1]["error"]["field"] == field
    assert len(decider.submitted) == 2


def test_lists_beside_the_actions_are_no_actions() -> None:
    decider = FakeDecider()
    limited = service(decider, limits=Limits(actions=20))
    lists = {"mask": [True] * 20, "values": [1.0] * 20, "costs": [0.0] * 20}
    assert (
        post(limited, "/v1/decide", {"task": "t", "actions": [[0.5]] * 20, **lists}).status == 200
    )


def test_the_number_of_shown_actions_is_limited() -> None:
    """Each is a row of the log with the probabilities of all actions."""
    limited = service(FakeDecider(), limits=Limits(shown=3))
    assert post(limited, "/v1/decide", {"task": "t", "top": 3}).status == 200
    answer = post(limited, "/v1/decide", {"task": "t", "top": 4})
    assert (answer.status, answer.error["field"]) == (422, "top")
    assert answer.error["message"] == "top must be at most 3, got 4"


def test_a_large_body_is_looked_through_quickly() -> None:
    """Within a second, where a search that went back and forth would take hours."""
    started = time.perf_counter()
    for body in (b'"' * (1 << 20), b"\\" * (1 << 20), b'"\\' * (1 << 19), b"[" * (1 << 20)):
        answer = post(service(), "/v1/decide", body)
        assert answer.status in (400, 422)
    assert time.perf_counter() - started < 10


# -- rates ----------------------------------------------------------------------------------------


def test_only_so_many_priors_are_received_at_once() -> None:
    """Each may be large, and needs several times its size."""
    limited = service()
    headers = [JSON, ("content-length", "2")]

    async def upload(received: asyncio.Event) -> int:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            await received.wait()
            return {"type": "http.request", "body": b"{}"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": "POST", "path": "/v1/priors", "raw_path": b"/v1/priors",
            "query_string": b"", "root_path": "", "client": ("127.0.0.1", 1),
            "headers": [(name.encode(), value.encode()) for name, value in
                        [*headers, ("host", "localhost")]],
        }  # fmt: skip
        await limited(scope, receive, send)
        return sent[0]["status"]

    async def three() -> list[int]:
        received = asyncio.Event()
        first = [asyncio.create_task(upload(received)) for _ in range(2)]
        await asyncio.sleep(0.01)
        third = await asyncio.wait_for(upload(received), 10)
        received.set()
        return [third, *await asyncio.gather(*first), await upload(received)]

    assert asyncio.run(three()) == [503, 422, 422, 422]
    limited.close()


def test_only_so_many_wait_for_a_thread_that_reads() -> None:
    readers = Readers(threads=1, waiting=1)

    async def three() -> list[Any]:
        calls = [readers.run(time.sleep, 0.05) for _ in range(3)]
        return await asyncio.gather(*calls, return_exceptions=True)

    results = asyncio.run(three())
    readers.close()
    assert results[:2] == [None, None]
    assert isinstance(results[2], OverloadedError)
