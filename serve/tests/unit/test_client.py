"""The clients of the decision service, against answers that are written here."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from mixts_serve.client import Client, ServiceError
from mixts_serve.records import Decide, PriorVersion, Receipt, TaskState

import mixts
from mixts import errors
from serve.tests.unit.scripted_service import BUSY, DECIDED, DECISION, URL, Service, client_of

__all__ = ["client_of"]

# -- the same values as in process ----------------------------------------------------------------


def test_a_decision_is_the_library_s_own(client_of: Callable[..., Any]) -> None:
    service = Service((200, DECIDED))
    decision = client_of(service).decide("u17", key="first")
    assert decision == DECISION
    assert (service.asked[0].method, service.asked[0].url.path) == ("POST", "/v1/decide")
    assert service.bodies == [{"task": "u17", "key": "first"}]


def test_arrays_are_sent_as_lists_of_exact_numbers(client_of: Callable[..., Any]) -> None:
    service = Service((200, DECIDED))
    actions = np.random.default_rng(1).standard_normal((3, 2))
    client_of(service).decide("u17", actions=actions.T[::-1].T, mask=np.array([True, False, True]))
    client_of(service).decide("u17", actions=[[1, np.float32(0.5)]], mask=[True])
    client_of(service).decide("u17", actions=np.array([[1, 2]]))
    sent, mixed, whole = service.bodies
    assert np.array_equal(sent["actions"], actions[:, ::-1])
    assert sent["mask"] == [True, False, True]
    assert (mixed["actions"], mixed["mask"], whole["actions"]) == ([[1, 0.5]], [True], [[1, 2]])


def test_a_reward_is_acknowledged(client_of: Callable[..., Any]) -> None:
    service = Service((200, {"duplicate": False}), (200, {"duplicate": True, "late": True}))
    client = client_of(service)
    assert client.reward("0" * 32, np.float32(0.5)) == Receipt(duplicate=False)
    assert client.reward("0" * 32, np.int64(1)) == Receipt(duplicate=True, late=True)
    assert service.bodies == [{"id": "0" * 32, "value": 0.5}, {"id": "0" * 32, "value": 1}]


def test_a_deferred_decision_is_activated(client_of: Callable[..., Any]) -> None:
    batch = (200, [{"duplicate": False}, {"error": {"code": "unknown_decision", "message": "no"}}])
    service = Service((200, {**DECIDED, "deferred": True}), (200, {"duplicate": True}), batch)
    client = client_of(service)
    assert client.decide("u17", key="k", defer=True).deferred
    assert client.activate("0" * 32) == Receipt(duplicate=True)
    first, second = client.activate_many(["1" * 32, "2" * 32])
    assert first == Receipt(duplicate=False)
    assert isinstance(second, errors.UnknownDecisionError)
    paths = [request.url.path for request in service.asked]
    assert paths == ["/v1/decide", "/v1/activate", "/v1/activate:batch"]
    assert service.bodies[0] == {"task": "u17", "key": "k", "defer": True}
    assert service.bodies[1:] == [{"id": "0" * 32}, [{"id": "1" * 32}, {"id": "2" * 32}]]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("u17", "u17"),
        ("a/b", "a%2Fb"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("../x?y#z", "..%2Fx%3Fy%23z"),
        ("%2F é\n", "%252F%20%C3%A9%0A"),
        ("u17:x", "u17%3Ax"),
    ],
)
def test_any_task_name_is_one_part_of_the_path(
    client_of: Callable[..., Any], name: str, path: str
) -> None:
    answer = {
        "task": name, "decisions": 3, "rewards": 2, "late": 0, "weights": [1.0],
        "mean_rewards": [0.5, 0.25], "prior_version": 1,
    }  # fmt: skip
    service = Service((200, answer))
    assert client_of(service).task(name) == TaskState(name, 3, 2, 0, (1.0,), (0.5, 0.25), 1)
    assert service.asked[0].url.raw_path == f"/v1/tasks/{path}".encode()


def test_a_prior_is_uploaded_from_memory_and_from_any_file(
    client_of: Callable[..., Any], tmp_path: Path
) -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms([[1.0, 2.0]], [[2.0, 1.0]]))
    service = Service((200, {"version": 2, "active": True}))
    client = client_of(service)
    assert client.upload_prior(prior) == 2
    for name in ("prior.json", "prior.npz"):
        prior.save(tmp_path / name)
        client.upload_prior(tmp_path / name, activate=True)
    client.activate_prior(1)
    *uploads, activation = service.asked
    assert {r.content for r in uploads} == {(tmp_path / "prior.json").read_bytes()}
    paths = [r.url.raw_path.decode() for r in uploads]
    assert paths == ["/v1/priors", "/v1/priors?activate=true", "/v1/priors?activate=true"]
    assert (activation.method, activation.url.path) == ("POST", "/v1/priors/1/activate")


def test_the_versions_of_the_prior_are_listed(client_of: Callable[..., Any]) -> None:
    row = {
        "version": 1, "uploaded_at": 1.5, "active": True, "family": "BernoulliArms",
        "n_components": 5,
    }  # fmt: skip
    service = Service((200, [row]))
    assert client_of(service).priors() == [PriorVersion(1, 1.5, True, "BernoulliArms", 5)]


def test_ready_is_asked_once(client_of: Callable[..., Any]) -> None:
    service = Service((200, {}), (503, BUSY), httpx.ConnectError)
    client = client_of(service)
    assert [client.ready() for _ in range(3)] == [True, False, False]
    assert len(service.asked) == 3


# -- again ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        httpx.ConnectError,
        httpx.ReadError,
        httpx.RemoteProtocolError,
        httpx.ConnectTimeout,
        httpx.ReadTimeout,
        (503, BUSY),
        (429, BUSY),
        (503, "a proxy's page"),
    ],
)
def test_what_may_pass_is_tried_again_with_the_same_key(
    client_of: Callable[..., Any], failure: Any
) -> None:
    service = Service(failure, failure, (200, DECIDED))
    assert client_of(service).decide("u17") == DECISION
    keys = [body["key"] for body in service.bodies]
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_keys_differ_between_calls(client_of: Callable[..., Any]) -> None:
    service = Service((200, DECIDED))
    client = client_of(service)
    for _ in range(10):
        client.decide("u17")
    assert len({body["key"] for body in service.bodies}) == 10


def test_retries_are_counted_and_the_last_error_is_raised(client_of: Callable[..., Any]) -> None:
    service = Service(httpx.ConnectError)
    with pytest.raises(errors.StoreUnavailableError, match=r"no response .*8000 \(ConnectError"):
        client_of(service, retries=2).decide("u17")
    assert len(service.asked) == 3
    service = Service((503, BUSY))
    with pytest.raises(errors.OverloadedError, match="too much is waiting") as caught:
        client_of(service, retries=0).decide("u17")
    assert len(service.asked) == 1
    assert not hasattr(caught.value, "__notes__")


def test_pauses_grow_and_are_spread(client_of: Callable[..., Any]) -> None:
    services = [Service((503, BUSY)) for _ in range(40)]
    for service in services:
        with pytest.raises(errors.OverloadedError):
            client_of(service, retries=8, deadline=100.0).decide("u17")
    pauses = np.array([service.pauses for service in services])
    longest = np.minimum(0.05 * 2.0 ** np.arange(8), 2.0)
    assert pauses.shape == (40, 8)
    assert (pauses <= longest).all()
    # Full jitter is uniform on (0, longest): all 40 above 3/4 or below 1/4 has p = 4^-40.
    assert (pauses.max(axis=0) > longest / 4).all()
    assert (pauses.min(axis=0) < 3 * longest / 4).all()


def test_retry_after_is_waited_for(client_of: Callable[..., Any]) -> None:
    service = Service(
        (503, BUSY, {"Retry-After": "3"}), (429, BUSY, {"Retry-After": "soon"}), (200, DECIDED)
    )
    client_of(service).decide("u17")
    assert 3 <= service.pauses[0] <= 3.05
    assert service.pauses[1] <= 0.1


def test_nothing_is_tried_that_would_end_after_the_deadline(client_of: Callable[..., Any]) -> None:
    service = Service((503, BUSY, {"Retry-After": "20"}))
    with pytest.raises(errors.OverloadedError):
        client_of(service, deadline=10.0).decide("u17")
    assert service.pauses == []
    service = Service(httpx.ReadTimeout, takes=4.0)
    with pytest.raises(errors.StoreUnavailableError) as caught:
        client_of(service, deadline=10.0, retries=100).decide("u17")
    # At most so many attempts fit, and the third may wait only for what is left.
    assert len(service.asked) == 3
    assert caught.value.__notes__ == ["after 3 attempts"]
    timeouts = [request.extensions["timeout"]["read"] for request in service.asked]
    assert timeouts[0] == 5.0
    assert timeouts[2] <= 2.0


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "unknown_decision", errors.UnknownDecisionError),
        (404, "unknown_task", errors.UnknownTaskError),
        (409, "conflict", errors.ConflictError),
        (422, "action", errors.ActionError),
        (422, "outcome", errors.OutcomeError),
        (422, "mask", errors.MaskError),
        (422, "something_new", errors.ParameterError),
        (401, "unauthorized", ServiceError),
        (500, "fault", ServiceError),
    ],
)
def test_an_error_is_the_exception_that_it_stands_for_and_final(
    client_of: Callable[..., Any], status: int, code: str, kind: type
) -> None:
    said = {"error": {"code": code, "message": "must be so", "field": "mask[1]"}}
    service = Service((status, said))
    with pytest.raises(kind, match=r"^must be so$") as caught:
        client_of(service).decide("u17")
    assert type(caught.value) is kind
    assert len(service.asked) == 1


def test_answers_of_something_else_are_named(client_of: Callable[..., Any]) -> None:
    def page(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="<html>welcome</html>")

    client = Client(URL, transport=httpx.MockTransport(page))
    with pytest.raises(ServiceError, match="expected JSON from the service, got 200: '<html>"):
        client.decide("u17")
    with pytest.raises(ServiceError, match="required field `id`; is it a mixts service"):
        client_of(Service((200, {"action": 1}))).decide("u17")
    with pytest.raises(ServiceError, match=r"expected 1 results .* got 2"):
        client_of(Service((200, [{}, {}]))).decide_many([Decide("u17")])
    with pytest.raises(ServiceError, match="answered 404 without a reason") as caught:
        client_of(Service((404, {"detail": "Not Found"}))).decide("u17")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.status, again.code) == (str(caught.value), 404, None)


@pytest.mark.parametrize(
    "arguments",
    [
        {"url": "127.0.0.1:8000"},
        {"url": "http://me:secret@127.0.0.1:8000"},
        {"url": "http://127.0.0.1:8000/?token=secret"},
        {"token": "secret\n"},
        {"token": "secret é"},
        {"timeout": 0.0},
        {"deadline": -1.0},
        {"retries": -1},
    ],
)
def test_impossible_settings_are_refused_without_secrets(arguments: dict[str, Any]) -> None:
    with pytest.raises(errors.ParameterError, match="must be") as caught:
        Client(**{"url": URL, **arguments})
    assert "secret" not in str(caught.value)


def test_the_token_is_sent_and_never_shown(client_of: Callable[..., Any]) -> None:
    service = Service((200, DECIDED), (401, {"error": {"code": "unauthorized", "message": "no"}}))
    service.steps.append(httpx.ConnectError)
    adapter = client_of(service, token="s3cret", retries=0)
    adapter.decide("u17")
    assert service.asked[0].headers["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in repr(adapter.client)
    for kind in (ServiceError, errors.StoreUnavailableError):
        with pytest.raises(kind) as caught:
            adapter.decide("u17")
        error: BaseException | None = caught.value
        while error is not None:
            assert "s3cret" not in repr(error)
            error = error.__cause__
