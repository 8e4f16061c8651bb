"""Audit of a store against the acknowledgements of its clients: nothing lost, nothing twice."""

from __future__ import annotations

from collections import Counter

import numpy as np
from mixts_serve import DecisionStore
from mixts_serve.store.rebuild import rebuild
from mixts_serve.versions import StatisticsCodec
from problem import N_ARMS
from traffic import Traffic

import mixts

LOG = (
    "SELECT d.id, d.key, t.name, d.action, d.propensity, r.value FROM decisions d "
    "JOIN tasks t ON t.number = d.task LEFT JOIN rewards r ON r.decision = d.seq"
)
TWICE = {
    "decisions of one key": "SELECT COUNT(*) FROM (SELECT 1 FROM decisions WHERE key IS NOT NULL "
    "GROUP BY task, key HAVING COUNT(*) > 1) AS twice",
    "decisions of one id": "SELECT COUNT(*) - COUNT(DISTINCT id) FROM decisions",
    "rewards of one decision": "SELECT COUNT(*) - COUNT(DISTINCT decision) FROM rewards",
}
TASKS = "SELECT name, decisions, rewards, statistics FROM tasks"


def audit(store: DecisionStore, traffic: Traffic) -> Counter[str]:
    """Count the errors of each kind.

    Clients repeat every operation until it is acknowledged, so the store must have exactly the
    acknowledged operations.
    """
    wrong: Counter[str] = Counter()
    wrong["contradictory answers"] = len(traffic.contradictions)
    for what, sql in TWICE.items():
        wrong[f"several {what}"] = int(store.backend.query(sql)[0][0])
    log = store.backend.query(LOG)
    _compare_log(log, traffic, wrong)
    _compare_statistics(store, log, wrong)
    totals = store.totals()
    rewarded = sum(row[5] is not None for row in log)
    wrong["total of decisions"] = abs(totals.decisions - len(log))
    wrong["total of rewards"] = abs(totals.rewards - rewarded)
    wrong["tasks that a rebuild would change"] = rebuild(store, write=False).differing
    return +wrong


def summary(wrong: Counter[str]) -> str:
    """Return the audit as one sentence."""
    if not wrong:
        return (
            "Nothing was lost, nothing was counted twice, and the statistics are those of the log."
        )
    return "WRONG: " + ", ".join(f"{n} {what}" for what, n in wrong.items()) + "."


def _compare_log(log: list[tuple], traffic: Traffic, wrong: Counter[str]) -> None:
    found = {bytes(row[0]).hex(): row for row in log}
    for key, decided in traffic.decided.items():
        row = found.get(decided.id)
        if row is None:
            wrong["acknowledged decisions lost"] += 1
            continue
        _, *logged, value = row
        if decided.own:
            logged[0] = key  # the service may have used the key for a decision of its own
        name, reward = traffic.task_name(decided.task), decided.reward
        acknowledged = [key, name, decided.action, decided.propensity]
        wrong["decisions changed"] += logged != acknowledged
        wrong["acknowledged rewards lost"] += reward is not None and value is None
        wrong["rewards changed"] += None not in (reward, value) and reward != value
        wrong["unacknowledged rewards"] += reward is None and value is not None
    wrong["unacknowledged decisions"] += len(found.keys() - traffic.by_id.keys())


def _compare_statistics(store: DecisionStore, log: list[tuple], wrong: Counter[str]) -> None:
    """Return the counts of every task as stored, and as recounted from the log."""
    names, decisions, rewards, statistics = zip(*store.backend.query(TASKS), strict=True)
    place = {name: i for i, name in enumerate(names)}
    counted = np.zeros((len(names), 2), int)
    outcomes = np.zeros((2, len(names), N_ARMS), int)
    for _, _, task, action, _, value in log:
        i = place[task]
        counted[i, 0] += 1
        if value is not None:
            counted[i, 1] += 1
            outcomes[0 if value == 1 else 1, i, action] += 1
    codec = StatisticsCodec(mixts.BernoulliArms(np.ones((1, N_ARMS)), np.ones((1, N_ARMS))))
    kept = codec.decode([bytes(content) for content in statistics])
    differ = (kept.array("successes") != outcomes[0]) | (kept.array("failures") != outcomes[1])
    wrong["tasks with other statistics than their log"] = int(differ.any(axis=1).sum())
    wrong["tasks with other counts than their log"] = int(
        (counted != np.column_stack([decisions, rewards])).any(axis=1).sum()
    )
