"""What the service counts, in the text format that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping

from mixts.service.records import Decision, Receipt

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BOUNDS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Of the times that are told apart, in seconds: a durable write takes some milliseconds."""


class Metrics:
    """Counters of one process; only the event loop's thread changes them."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int], int] = defaultdict(int)
        self.operations: dict[tuple[str, int], int] = defaultdict(int)
        self.late = self.duplicates = self.repeated = self.conflicts = 0
        self._seconds: dict[str, list[int]] = {}
        self._sums: dict[str, float] = defaultdict(float)

    def request(self, endpoint: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self.requests[endpoint, status] += 1
        counts = self._seconds.get(endpoint)
        if counts is None:
            counts = self._seconds[endpoint] = [0] * (len(BOUNDS) + 1)
        counts[bisect_left(BOUNDS, seconds)] += 1
        self._sums[endpoint] += seconds

    def operation(self, kind: str, status: int, times: int = 1) -> None:
        """A decision or a reward, alone or in a batch, was answered."""
        self.operations[kind, status] += times
        if status == 409:
            self.conflicts += 1

    def result(self, result: Decision | Receipt) -> None:
        """What was special about it."""
        if isinstance(result, Decision):
            self.repeated += result.repeated
        else:
            self.late += result.late
            self.duplicates += result.duplicate

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Everything, with values that others keep: name -> what it is, and how much."""
        lines: list[str] = []
        operations = (
            (f'operation="{k}",status="{s}"', n) for (k, s), n in _sorted(self.operations)
        )
        requests = ((f'endpoint="{e}",status="{s}"', n) for (e, s), n in _sorted(self.requests))
        _series(lines, "operations_total", "counter", "Decisions and rewards", operations)
        _series(lines, "requests_total", "counter", "HTTP requests", requests)
        for name, what, value in (
            ("late_rewards_total", "Rewards that came after the window", self.late),
            ("duplicate_rewards_total", "Rewards that had come before", self.duplicates),
            ("repeated_decisions_total", "Decisions given again for their key", self.repeated),
            ("conflicts_total", "Keys and decisions that were answered otherwise", self.conflicts),
        ):
            _series(lines, name, "counter", what, [("", value)])
        self._histogram(lines)
        for name, (what, amount) in gauges.items():
            _series(lines, name, "gauge", what, [("", amount)])
        return "\n".join(lines) + "\n"

    def _histogram(self, lines: list[str]) -> None:
        name = "request_seconds"
        _series(lines, name, "histogram", "From a request's headers to its answer", ())
        for endpoint, counts in sorted(self._seconds.items()):
            total = 0
            for bound, count in zip((*BOUNDS, "+Inf"), counts, strict=True):
                total += count
                lines.append(f'mixts_{name}_bucket{{endpoint="{endpoint}",le="{bound}"}} {total}')
            lines.append(f'mixts_{name}_sum{{endpoint="{endpoint}"}} {self._sums[endpoint]:.9g}')
            lines.append(f'mixts_{name}_count{{endpoint="{endpoint}"}} {total}')


def _sorted(counts: dict[tuple[str, int], int]) -> list[tuple[tuple[str, int], int]]:
    return sorted(counts.items())


def _series(
    lines: list[str], name: str, kind: str, what: str, values: Iterable[tuple[str, float]]
) -> None:
    lines += [f"# HELP mixts_{name} {what}.", f"# TYPE mixts_{name} {kind}"]
    lines += [f"mixts_{name}{{{labels}}} {n}" if labels else f"mixts_{name} {n}"
              for labels, n in values]  # fmt: skip
