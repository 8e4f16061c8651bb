"""Before the service is ready: what it answers, what becomes of errors and of signals."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse

import pytest
from mixts_serve.http import server
from mixts_serve.http.app import Service
from mixts_serve.http.limits import Limits

from mixts.errors import StoreError
from serve.tests.unit.http.calls import FakeDecider, service

LIMITS = Limits()


class Run:
    """A server in a thread, from its start on."""

    def __init__(self, start: Callable[[], Service]) -> None:
        self.ready = threading.Event()
        self.error: BaseException | None = None
        self.signals = server.Signals()
        self._listener = server.bind("127.0.0.1", 0)
        self._listener.listen()
        self._thread = threading.Thread(target=self._run, args=(start,))
        self._thread.start()

    def _run(self, start: Callable[[], Service]) -> None:
        try:
            starting = server.Starting(start)
            server.run(starting, self._listener, self.signals, self.ready.set, limits=LIMITS)
        except BaseException as error:
            self.error = error

    def request(self, method: str, path: str) -> tuple[HTTPResponse, dict[str, object]]:
        connection = HTTPConnection(*self._listener.getsockname(), timeout=30)
        body = '{"task": "a"}' if method == "POST" else None
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = json.loads(response.read())
        connection.close()
        return response, content

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


@contextmanager
def starting() -> Iterator[tuple[Run, threading.Event]]:
    """A server that is ready after an event."""
    go_on = threading.Event()

    def start() -> Service:
        assert go_on.wait(30)
        return service(FakeDecider(), limits=LIMITS, rate=0)

    run = Run(start)
    try:
        yield run, go_on
    finally:
        go_on.set()
        if run.signals.stop is not None:
            run.signals.stop()
        run.join()


@pytest.mark.parametrize(("method", "path"), [("GET", "/readyz"), ("POST", "/v1/decide")])
def test_requests_are_refused_with_the_reason_until_the_service_is_ready(
    method: str, path: str
) -> None:
    with starting() as (run, go_on):
        response, content = run.request(method, path)
        assert response.status == 503
        assert response.headers["Retry-After"] == "1"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        error = content["error"]
        assert isinstance(error, dict)
        assert error["code"] == "starting"
        assert "compiles" in error["message"]
        assert not run.ready.is_set()
        go_on.set()
        assert run.ready.wait(30)
        response, _ = run.request(method, path)
        assert response.status == 200


def test_the_process_is_alive_before_the_service_is_ready() -> None:
    with starting() as (run, _):
        response, content = run.request("GET", "/healthz")
        assert (response.status, content) == (200, {"status": "ok"})


def test_an_error_of_the_start_ends_the_server() -> None:
    def start() -> Service:
        raise StoreError("there is no prior")

    run = Run(start)
    run.join()
    assert isinstance(run.error, StoreError)
    assert not run.ready.is_set()


def test_a_signal_interrupts_the_start() -> None:
    with starting() as (run, _):
        run.request("GET", "/healthz")
        assert run.signals.stop is not None
        run.signals.stop()
        run.join()
        assert isinstance(run.error, KeyboardInterrupt)
        assert not run.ready.is_set()
