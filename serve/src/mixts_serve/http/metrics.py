"""Counters of the service, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from mixts_serve.challenger import Account
from mixts_serve.lift import Difference
from mixts_serve.promotion import Trial
from mixts_serve.records import Decision, Receipt
from mixts_serve.worth import Worth

BUCKETS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds of the response times' histogram, in seconds: a durable write takes milliseconds."""

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_EVENTS = {
    "late_rewards": "Rewards after the reward window.",
    "duplicate_rewards": "Rewards that had come before.",
    "repeated_decisions": "Decisions returned again for their key.",
    "conflicts": "Keys and decisions reused with other contents.",
}


Gauges = Mapping[str, tuple[str, float | Mapping[str, float]]]
"""Description and value of each gauge by name; or its values, by the label ``name``."""


class Metrics:
    """Counters of one process; only the event loop counts.

    Counting takes part in every request, so it is adding to plain numbers. Prometheus's library,
    whose counters have locks, is imported when the counters are first asked for.
    """

    def __init__(self) -> None:
        self._operations: Counter[tuple[str, int]] = Counter()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._events: Counter[str] = Counter()
        self._times: dict[str, list[int]] = {}
        """Requests by endpoint and bucket; the last bucket has no upper bound."""
        self._seconds: Counter[str] = Counter()

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count the response to a request."""
        self._requests[endpoint, status] += 1
        times = self._times.get(endpoint)
        if times is None:
            times = self._times[endpoint] = [0] * (len(BUCKETS) + 1)
        times[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[endpoint] += seconds  # type: ignore[assignment]  # a Counter adds up anything

    def count_operations(self, name: str, status: int, n: int = 1) -> None:
        """Count decisions or rewards, alone or in a batch."""
        self._operations[name, status] += n
        if status == 409:
            self._events["conflicts"] += n

    def count_result(self, result: Decision | Receipt) -> None:
        """Count a repeated decision, a duplicate reward or a late one."""
        if isinstance(result, Decision):
            self._events["repeated_decisions"] += result.repeated
        else:
            self._events["late_rewards"] += result.late
            self._events["duplicate_rewards"] += result.duplicate

    def text(self, gauges: Gauges, policy: Mapping[str, str]) -> bytes:
        """Return all counters, gauges and the policy's settings."""
        from prometheus_client import generate_latest
        from prometheus_client.registry import Collector, CollectorRegistry

        families = list(self._collect(gauges, policy))

        class Present(Collector):
            def collect(self) -> Iterator[Any]:
                yield from families

        registry = CollectorRegistry()
        registry.register(Present())
        return generate_latest(registry)

    def _collect(self, gauges: Gauges, policy: Mapping[str, str]) -> Iterator[Any]:
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
            InfoMetricFamily,
        )

        operations = CounterMetricFamily(
            "mixts_operations", "Decisions, rewards and activations.",
            labels=["operation", "status"],
        )  # fmt: skip
        requests = CounterMetricFamily(
            "mixts_requests", "HTTP requests.", labels=["endpoint", "status"]
        )
        for family, counter in ((operations, self._operations), (requests, self._requests)):
            for (name, status), n in counter.items():
                family.add_metric([name, str(status)], n)
            yield family
        for name, description in _EVENTS.items():
            yield CounterMetricFamily(f"mixts_{name}", description, self._events[name])
        seconds = HistogramMetricFamily(
            "mixts_request_seconds", "From a request's headers to its response.",
            labels=["endpoint"],
        )  # fmt: skip
        bounds = [*map(str, BUCKETS), "+Inf"]
        for endpoint, times in self._times.items():
            buckets = list(zip(bounds, accumulate(times), strict=True))
            seconds.add_metric([endpoint], buckets, self._seconds[endpoint])
        yield seconds
        yield InfoMetricFamily("mixts_policy", "Policy in force.", dict(policy))
        for name, (description, value) in gauges.items():
            if isinstance(value, Mapping):
                gauge = GaugeMetricFamily(f"mixts_{name}", f"{description}.", labels=["name"])
                for label, number in value.items():
                    gauge.add_metric([label], number)
                yield gauge
            else:
                yield GaugeMetricFamily(f"mixts_{name}", f"{description}.", value)


def lift_gauges(worth: Worth) -> dict[str, tuple[str, float | Mapping[str, float]]]:
    """Return the gauges of the lift over the tasks that are held back; only what is known."""
    found: dict[str, tuple[str, float | Mapping[str, float]]] = {
        "lift_doubts": (
            "Reasons to doubt the comparison with held back tasks",
            len(worth.warnings),
        ),
    }
    for side, sums in (("control", worth.rewards.control), ("treated", worth.rewards.treated)):
        found[f"lift_{side}_tasks"] = (f"Tasks with final decisions, {side}", sums.tasks)
        found[f"lift_{side}_decisions"] = (f"Final decisions, {side}", sums.decisions)
    for name, value in _lift_values(worth.rewards.per_decision).items():
        found[f"lift_{name}"] = (f"{_LIFTED[name]} over held back tasks, reward a decision", value)
    guardrails = {
        metric: _lift_values(one.per_decision) for metric, one in sorted(worth.metrics.items())
    }
    for name, words in _LIFTED.items():
        values = {metric: own[name] for metric, own in guardrails.items() if name in own}
        if values:
            found[f"guardrail_{name}"] = (f"{words} over held back tasks, other metrics", values)
    return found


_LIFTED = {
    "relative": "Relative lift",
    "relative_low": "Low end of the relative lift",
    "relative_high": "High end of the relative lift",
    "difference": "Difference",
    "difference_low": "Low end of the difference",
    "difference_high": "High end of the difference",
}


def _lift_values(found: Difference | None) -> dict[str, float]:
    """Return what is known of a difference, by the names of gauges."""
    if found is None:
        return {}
    values = {"relative": found.lift, "difference": found.difference}
    for name, ends in (("relative", found.relative), ("difference", found.interval)):
        if ends is not None:
            values |= {f"{name}_low": ends[0], f"{name}_high": ends[1]}
    return {name: value for name, value in values.items() if value is not None}


def contest_gauges(
    account: Account | None, trial: Trial | None
) -> dict[str, tuple[str, float | Mapping[str, float]]]:
    """Return what is known of champion and challenger, and of the canary."""
    gauges: dict[str, tuple[str, float | Mapping[str, float]]] = {}
    if account is not None:
        gauges |= {
            "challenger_version": ("Version that is compared", account.contest.challenger),
            "champion_version": ("Version that it is compared with", account.contest.champion),
            "challenger_evidence": (
                "Evidence for the challenger over the champion, ln E", account.log_evidence
            ),
            "challenger_tasks": ("New tasks with final decisions", account.tasks),
        }  # fmt: skip
    if trial is not None:
        gauges |= {
            "canary_version": ("Version that the canary tries", trial.deployment.canary or 0),
            "canary_share": ("Share of the new tasks that try it", trial.deployment.share),
            "canary_tasks": ("Tasks of the canary with final decisions", trial.tasks),
        }
        if trial.reward is not None and trial.reward.interval is not None:
            low, high = trial.reward.interval
            gauges["canary_difference_low"] = ("Lower end of the canary's difference", low)
            gauges["canary_difference_high"] = ("Upper end of the canary's difference", high)
    return gauges
