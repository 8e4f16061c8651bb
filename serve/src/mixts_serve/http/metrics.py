"""Counters of the service, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

from mixts_serve.records import Decision, Receipt

__all__ = ["BUCKETS", "CONTENT_TYPE", "Metrics"]

BUCKETS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds of the response times' histogram, in seconds: a durable write takes milliseconds."""


class Metrics:
    """Counters of one process."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()

        def counter(name: str, description: str, *labels: str) -> Counter:
            return Counter(f"mixts_{name}", description, labels, registry=registry)

        operations = counter(
            "operations_total", "Decisions, rewards and activations.", "operation", "status"
        )
        requests = counter("requests_total", "HTTP requests.", "endpoint", "status")
        self._late = counter("late_rewards_total", "Rewards after the reward window.")
        self._duplicates = counter("duplicate_rewards_total", "Rewards that had come before.")
        self._repeated = counter(
            "repeated_decisions_total", "Decisions returned again for their key."
        )
        self._conflicts = counter(
            "conflicts_total", "Keys and decisions reused with other contents."
        )
        seconds = Histogram(
            "mixts_request_seconds", "From a request's headers to its response.", ["endpoint"],
            buckets=BUCKETS, registry=registry,
        )  # fmt: skip
        # Looking up the counter of some labels takes longer than counting.
        self._operations = cache(operations.labels)
        self._requests = cache(requests.labels)
        self._seconds = cache(seconds.labels)

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count the response to a request."""
        self._requests(endpoint, status).inc()
        self._seconds(endpoint).observe(seconds)

    def count_operations(self, name: str, status: int, n: int = 1) -> None:
        """Count decisions or rewards, alone or in a batch."""
        self._operations(name, status).inc(n)
        if status == 409:
            self._conflicts.inc(n)

    def count_result(self, result: Decision | Receipt) -> None:
        """Count a repeated decision, a duplicate reward or a late one."""
        if isinstance(result, Decision):
            if result.repeated:
                self._repeated.inc()
            return
        if result.late:
            self._late.inc()
        if result.duplicate:
            self._duplicates.inc()

    def text(self, gauges: Mapping[str, tuple[str, float]], policy: Mapping[str, str]) -> bytes:
        """Return all counters, gauges (name -> description and value) and the policy's settings."""
        registry = CollectorRegistry()
        Info("mixts_policy", "Policy in force.", registry=registry).info(dict(policy))
        for name, (description, value) in gauges.items():
            Gauge(f"mixts_{name}", f"{description}.", registry=registry).set(value)
        return generate_latest(self._registry) + generate_latest(registry)
