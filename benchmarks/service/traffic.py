"""Operations that clients send, and their acknowledgements: a reward for each decision."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt
from msgspec.json import decode

CHUNK = 1 << 14
"""Number of random numbers to draw at a time."""

DECIDE, REWARD = "decide", "reward"


def http_request(path: str, body: bytes) -> bytes:
    """Return the bytes of an HTTP request."""
    head = f"POST /v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return b"%bContent-Length: %d\r\n\r\n%b" % (head.encode(), len(body), body)


class Operation:
    """Request for a decision, or report of a reward, repeated until it is acknowledged."""

    __slots__ = ("about", "avoid", "due", "kind", "name", "request", "tries", "twice")

    def __init__(self, kind: str, name: str, about: float, request: bytes) -> None:
        self.kind = kind
        self.name = name
        """The decision's key, or the id of the decision that is rewarded."""
        self.about = about
        """The task's index, or the reward."""
        self.request = request
        self.due = 0.0
        """Due time; the latency counts from here."""
        self.tries = 0
        self.twice = False
        """Whether it is also sent to another server, as by a client that timed out."""
        self.avoid: int | None = None
        """Server that already has the operation."""

    def copy(self, avoid: int) -> Operation:
        twin = Operation(self.kind, self.name, self.about, self.request)
        twin.avoid = avoid
        return twin


class Decided:
    """An acknowledged decision."""

    __slots__ = ("action", "at", "deferred", "fresh", "id", "own", "propensity", "reward", "task")

    def __init__(self, id: str, task: int, action: int, propensity: float, at: float) -> None:
        self.id, self.task, self.action, self.propensity, self.at = id, task, action, propensity, at
        self.reward: float | None = None
        """The acknowledged reward."""
        self.deferred = False
        self.own = False
        """Whether the client made it, while the service was away."""
        self.fresh = 0
        """Number of acknowledgements that did not mark a duplicate; at most 1."""


class Traffic:
    """Decisions for tasks at random, and their rewards ``delay`` seconds later.

    It keeps all acknowledged operations, for comparison with the store. ``twice`` is the share of
    operations that are sent to two servers.
    """

    def __init__(
        self,
        means: npt.NDArray[np.float64],
        *,
        seed: int = 1,
        delay: float = 0.2,
        twice: float = 0.0,
        rewards: bool = True,
    ) -> None:
        self._means = means
        self._rng = np.random.default_rng(seed)
        self._prefix = f"{self._rng.integers(1 << 62):x}-"
        self._delay, self._twice, self._rewards = delay, twice, rewards
        self._tasks: list[int] = []
        self._uniforms: list[float] = []
        self._n_asked = 0
        self._to_reward: deque[Decided] = deque()
        self._reward_next = False
        self.decided: dict[str, Decided] = {}
        """By key."""
        self.by_id: dict[str, Decided] = {}
        self.n_acknowledged = 0
        self.contradictions: list[str] = []

    @staticmethod
    def task_name(index: int) -> str:
        return f"task {index}"

    def next(self, now: float) -> Operation:
        """Return the next operation to send."""
        self._reward_next = not self._reward_next and self._rewards
        if self._reward_next and self._to_reward and self._to_reward[0].at + self._delay <= now:
            operation = self._reward(self._to_reward.popleft())
        else:
            operation = self._decide()
        operation.twice = self._twice > 0 and self._uniform() < self._twice
        return operation

    def _decide(self) -> Operation:
        if not self._tasks:
            self._tasks = self._rng.integers(len(self._means), size=CHUNK).tolist()
        task = self._tasks.pop()
        self._n_asked += 1
        key = f"{self._prefix}{self._n_asked}"
        body = f'{{"task":"{self.task_name(task)}","key":"{key}"}}'.encode()
        return Operation(DECIDE, key, task, http_request("decide", body))

    def _reward(self, decided: Decided) -> Operation:
        value = float(self._uniform() < self._means[decided.task, decided.action])
        body = f'{{"id":"{decided.id}","value":{value}}}'.encode()
        return Operation(REWARD, decided.id, value, http_request("reward", body))

    def _uniform(self) -> float:
        if not self._uniforms:
            self._uniforms = self._rng.random(CHUNK).tolist()
        return self._uniforms.pop()

    def acknowledged(self, operation: Operation, body: bytes, now: float) -> None:
        """Note an acknowledgement, and any contradiction to an earlier one."""
        answer = decode(body)
        self.n_acknowledged += 1
        if operation.kind is DECIDE:
            self._acknowledged_decision(operation, answer, now)
        else:
            decided = self.by_id[operation.name]
            decided.reward = operation.about
            decided.fresh += not answer["duplicate"]
            if decided.fresh > 1:
                self.contradictions.append(f"{operation.name} was counted twice")

    def _acknowledged_decision(self, operation: Operation, answer: dict, now: float) -> None:
        found = (answer["id"], answer["action"], answer["propensity"])
        before = self.decided.get(operation.name)
        if before is None:
            decided = Decided(found[0], int(operation.about), *found[1:], now)
            self.decided[operation.name] = self.by_id[decided.id] = decided
            self._to_reward.append(decided)
        elif found != (before.id, before.action, before.propensity):
            self.contradictions.append(f"key {operation.name}: {found} after {before.id}")
