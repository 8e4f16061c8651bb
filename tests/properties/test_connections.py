"""Whatever a client sends and however slowly it reads: no request is lost, doubled or misplaced.

A connection talks to a transport without a socket, in an event loop whose clock is moved by hand.
Clients send requests in pieces, pause between reading responses, wait for ``100 Continue``, close
their side, or send bytes that are no HTTP. The application is slow, answers before it has read a
body, or closes the connection.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mixts.service.http.connection import BODY_BYTES, READ_BYTES, Connection
from mixts.service.http.connections import Connections
from mixts.service.http.limits import Limits
from mixts.service.http.refusals import CLOSE

LIMITS = Limits(seconds=30.0, idle=75.0)
N_QUIET = 20
"""Steps without any event after which nothing more will happen by itself."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


# -- requests and what the application does with them ---------------------------------------------


@dataclass(frozen=True)
class Plan:
    """A request, and what the application does with it."""

    size: int = 0
    chunk: int | None = None
    """Size of chunks; None: the request has a content-length."""
    waits: bool = False
    """The client waits for ``100 Continue``."""
    closes: bool = False
    """The client asks to close the connection after the response."""
    pause: int = 0
    """Steps that the application needs before it reads."""
    seconds: float = 0.0
    """Time that passes in each of these steps, if the client has sent all that it may."""
    parts: int | None = None
    """Parts of the body that the application reads; None: all."""
    answer: int = 0
    """Bytes of the response."""
    refuses: bool = False
    """The application closes the connection after the response."""

    @property
    def is_last(self) -> bool:
        return self.closes or self.refuses

    def head(self, number: int) -> bytes:
        framing = b"content-length: %d" % self.size
        if self.chunk is not None:
            framing = b"transfer-encoding: chunked"
        more = b"expect: 100-continue\r\n" * self.waits + b"connection: close\r\n" * self.closes
        return b"POST /%d HTTP/1.1\r\nhost: x\r\n%b%b\r\n\r\n" % (number, more, framing)

    def body(self, number: int) -> bytes:
        return (bytes(range(number, 251)) * (self.size // 200 + 1))[: self.size]

    def content(self, number: int) -> bytes:
        """Return the body as it is sent."""
        body, step = self.body(number), self.chunk
        if step is None:
            return body
        parts = [body[k : k + step] for k in range(0, self.size, step)]
        return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


@dataclass
class Application:
    """Answers by plan, and notes what it read."""

    plans: list[Plan]
    pass_time: Callable[[float], None]
    read: dict[int, bytes] = field(default_factory=dict)
    calls: list[int] = field(default_factory=list)
    problems: list[Exception] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._answer(scope, receive, send)
        except Exception as problem:
            self.problems.append(problem)
            raise

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        name = scope["path"][1:]
        names = [str(k) for k in range(len(self.plans))]
        number = names.index(name) if name in names else -1  # garbage in the address
        plan = self.plans[number]
        self.calls.append(number)
        for _ in range(plan.pause):
            self.pass_time(plan.seconds)
            await asyncio.sleep(0)
        body, n_parts, more = b"", 0, True
        while more and n_parts != plan.parts:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
            n_parts += 1
        self.read[number] = body
        content = b"<%d>" % number + b"." * plan.answer
        headers = [(b"content-length", b"%d" % len(content)), *([CLOSE] * plan.refuses)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        half = len(content) // 2
        await send({"type": "http.response.body", "body": content[:half], "more_body": True})
        await send({"type": "http.response.body", "body": content[half:]})


# -- the client and its transport -----------------------------------------------------------------


class Loop(asyncio.SelectorEventLoop):
    """Event loop whose clock is moved by hand."""

    now = 0.0

    def time(self) -> float:
        return self.now


class Transport:
    """Transport whose client reads when it likes; it calls the protocol as asyncio's do."""

    def __init__(self, loop: Loop, protocol: Connection, pauses: list[int]) -> None:
        self._loop, self._protocol = loop, protocol
        self._pauses = pauses
        """Steps that the client does not read after each write."""
        self._wait = self._n_writes = 0
        self._pending = b""
        self.written = b""
        self.is_paused = self.is_closing = self.is_lost = self._has_eof = False

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0

    def write(self, data: bytes) -> None:
        assert not self.is_closing
        assert not self._has_eof
        assert self._pending in (b"", CONTINUE), "one response at most waits"
        was_empty = not self._pending
        self._pending += data
        self._wait = self._pauses[self._n_writes % len(self._pauses)]
        self._n_writes += 1
        if not self._wait:
            self.written, self._pending = self.written + self._pending, b""
        elif was_empty:
            self._protocol.pause_writing()

    def read_by_client(self) -> bool:
        """Let the client read, unless it pauses; return whether it may read something later."""
        if not self._pending or self.is_lost:
            return False
        self._wait -= 1
        if self._wait <= 0:
            self.written, self._pending = self.written + self._pending, b""
            self._protocol.resume_writing()
            if self.is_closing:
                self._lose()
        return True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        assert not self.is_closing
        assert not self._has_eof
        self._has_eof = True

    def close(self) -> None:
        if not self.is_closing and not self._pending:
            self._lose()
        self.is_closing = True

    def abort(self) -> None:
        self.is_closing, self._pending = True, b""
        self._lose()

    def _lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._loop.call_soon(self._protocol.connection_lost, None)


@dataclass
class Script:
    """What a client does with its connection."""

    plans: list[Plan]
    cuts: list[int] = field(default_factory=lambda: [READ_BYTES])
    pauses: list[int] = field(default_factory=lambda: [0])
    half_closes: bool = False
    garbage: tuple[int, bytes] | None = None
    """Bytes that replace those at a place of the stream."""

    def stream(self) -> tuple[bytes, dict[int, int]]:
        """Return all bytes, and after how many of them the client waits for which request."""
        sent, waits = b"", {}
        for number, plan in enumerate(self.plans):
            sent += plan.head(number)
            if plan.waits:
                waits[len(sent)] = number
            sent += plan.content(number)
        if self.garbage is not None:
            place, content = self.garbage
            place %= len(sent)
            sent = sent[:place] + content + sent[place + len(content) :]
        return sent, waits


@dataclass
class Outcome:
    """What the client received, and what the application read."""

    answers: list[int]
    statuses: list[int]
    application: Application
    n_sent: int


async def exchange(loop: Loop, script: Script) -> Outcome:
    """Let the client do all it wants, then let time pass until the connection is closed."""

    def pass_time(seconds: float) -> None:
        nonlocal n_quiet
        n_quiet = 0
        if transport.is_paused or n_sent == len(sent):  # the client can do nothing meanwhile
            loop.now += seconds

    application = Application(script.plans, pass_time)
    shared = Connections(application, LIMITS, 10)
    connection = Connection(shared)
    transport = Transport(loop, connection, script.pauses)
    connection.connection_made(transport)
    sent, waits = script.stream()
    n_sent = n_pieces = n_quiet = 0
    is_open = True
    while n_quiet < N_QUIET and not transport.is_lost:
        n_quiet += 1
        if transport.read_by_client():
            n_quiet = 0
        may_send = n_sent not in waits or _may_go_on(transport.written, waits[n_sent])
        if n_sent < len(sent) and may_send and not (transport.is_paused or transport.is_closing):
            size = script.cuts[n_pieces % len(script.cuts)]
            end = min([n_sent + size, *(place for place in waits if place > n_sent), len(sent)])
            shared.buffer[: end - n_sent] = sent[n_sent:end]
            connection.buffer_updated(end - n_sent)
            n_sent, n_pieces, n_quiet = end, n_pieces + 1, 0
        elif n_sent == len(sent) and script.half_closes and is_open and not transport.is_paused:
            is_open = False
            if not transport.is_closing and not connection.eof_received():
                transport.close()
        check_deadline(connection, transport, loop.now)
        await asyncio.sleep(0)
    await leave(loop, shared, transport)
    for task in list(shared.tasks):
        task.cancel()
    answers = re.findall(rb"<(\d+)>", transport.written)
    statuses = re.findall(rb"HTTP/1.1 (\d+) ", transport.written)
    return Outcome([int(n) for n in answers], [int(n) for n in statuses], application, n_sent)


def _may_go_on(written: bytes, number: int) -> bool:
    """Return whether a client that waits for ``100 Continue`` may send the body of a request."""
    return b"<%d>" % number in written or written.endswith(CONTINUE)


def check_deadline(connection: Connection, transport: Transport, now: float) -> None:
    """The client has time exactly while the next step is its own."""
    if transport.is_lost:
        return
    assert connection.deadline > now or connection._is_ending
    first = connection._requests[0] if connection._requests else None
    is_services = (
        first is not None
        # A complete request that has its response waits for the next one to have its turn.
        and (first.is_complete or (connection._is_paused and not first.is_answered))
        and not connection._is_writing
    )
    assert (connection.deadline == math.inf) == is_services


async def leave(loop: Loop, shared: Connections, transport: Transport) -> None:
    """A client that does nothing any more is closed and forgotten."""
    for _ in range(4):
        loop.now += LIMITS.idle
        shared._timer.cancel()
        shared._sweep()
        await asyncio.sleep(0)
    assert transport.is_lost
    await asyncio.sleep(0)
    assert not shared._all
    assert not shared._by_address
    shared._timer.cancel()


def run(script: Script) -> Outcome:
    with asyncio.Runner(loop_factory=Loop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, Loop)
        return runner.run(exchange(loop, script))


# -- properties -----------------------------------------------------------------------------------

SIZES = st.one_of(
    st.integers(0, 300),
    st.integers(0, 300),
    st.integers(BODY_BYTES, BODY_BYTES + 2 * READ_BYTES),
)
"""Sizes of bodies: small ones, and those around the sizes at which reading pauses."""

PLANS = st.builds(
    Plan,
    size=SIZES,
    chunk=st.none() | st.integers(1, 20_000),
    waits=st.booleans(),
    closes=st.sampled_from([False] * 5 + [True]),
    pause=st.sampled_from([0, 1, 3, 30]),
    seconds=st.sampled_from([0.0, 0.0, 1.0, 40.0]),
    parts=st.none() | st.integers(0, 2),
    answer=st.sampled_from([0, 10, 50_000]),
    refuses=st.sampled_from([False] * 5 + [True]),
)
SCRIPTS = st.builds(
    Script,
    plans=st.lists(PLANS, min_size=1, max_size=4),
    cuts=st.lists(st.just(READ_BYTES) | st.integers(1, READ_BYTES), min_size=1, max_size=4),
    pauses=st.lists(st.integers(0, 4), min_size=1, max_size=3),
    half_closes=st.booleans(),
)


def coarse(script: Script) -> Script:
    """Make small pieces of large streams larger: they would take minutes."""
    for k, plan in enumerate(script.plans):
        if plan.chunk is not None and plan.size > 50 * plan.chunk:
            script.plans[k] = Plan(**{**plan.__dict__, "chunk": plan.size // 50})
    least = min(sum(plan.size for plan in script.plans) // 50 + 1, READ_BYTES)
    script.cuts = [max(cut, least) for cut in script.cuts]
    return script


def check(script: Script) -> None:
    """Every request is answered once and in order, up to the first that closes the connection."""
    outcome = run(script)
    plans, application = script.plans, outcome.application
    n = next((k + 1 for k, plan in enumerate(plans) if plan.is_last), len(plans))
    assert application.problems == []
    assert application.calls == outcome.answers == list(range(n))
    assert [status for status in outcome.statuses if status != 100] == [200] * n
    assert outcome.statuses.count(100) <= sum(plan.waits for plan in plans[:n])
    for number, body in application.read.items():
        whole = plans[number].body(number)
        assert body == whole if plans[number].parts is None else whole.startswith(body)


@example(Script([Plan(size=81_000, pause=30)]))  # the end arrives while a part is taken
@example(Script([Plan(size=200_000, pause=10, seconds=40.0)]))  # reading pauses for the application
@example(Script([Plan(pause=3, seconds=40.0), Plan(size=2_000)], [300]))  # for the first response
# The end of a request that has its response, and then bytes after "connection: close".
@example(Script([Plan(size=1_500, parts=0), Plan(closes=True), Plan()], [1_000, READ_BYTES]))
@given(SCRIPTS)
@settings(max_examples=100, deadline=None)
def test_requests_arrive_whole_and_are_answered_in_order(script: Script) -> None:
    check(coarse(script))


@given(SCRIPTS, st.integers(0, 1 << 20), st.binary(min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_requests_before_bytes_that_are_no_http_are_answered(
    script: Script, place: int, content: bytes
) -> None:
    script = coarse(script)
    script.garbage = place, content
    outcome = run(script)
    plans, answers = script.plans, outcome.answers
    assert outcome.application.problems == []
    ends = [0]
    for number, plan in enumerate(plans):
        ends.append(ends[-1] + len(plan.head(number)) + len(plan.content(number)))
    n_whole = sum(end <= place % ends[-1] for end in ends[1:])
    n_before = next((k + 1 for k, plan in enumerate(plans[:n_whole]) if plan.is_last), n_whole)
    assert answers[:n_before] == list(range(n_before))
    assert len(outcome.application.calls) >= len(answers)


STREAM = [
    Plan(size=30),
    Plan(size=0),
    Plan(size=40, chunk=9, parts=0),
    Plan(size=25, chunk=30, pause=2, seconds=40.0),
    Plan(size=5, closes=True),
]


def test_a_stream_may_be_cut_anywhere() -> None:
    n_bytes = len(Script(STREAM).stream()[0])
    for cut in range(1, n_bytes):
        check(Script(STREAM, [cut, n_bytes], [cut % 3], half_closes=cut % 2 == 0))
    check(Script(STREAM, [1], [0, 2]))
