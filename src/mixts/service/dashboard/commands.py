"""What to type next, on pages that have nothing to show yet; safe to paste, whatever the names."""

from __future__ import annotations

import json
import shlex
from typing import Any

from mixts.service.dashboard.source import PriorFacts

_FEW = 6
"""As many features are written out; more would hide the command."""


def decide_command(address: str, task: str, facts: PriorFacts, token: bool) -> str:
    """How to ask for a decision."""
    body: dict[str, Any] = {"task": task}
    if facts.n_features is not None:
        d = facts.n_features
        body["actions"] = [[int(i == k) for i in range(min(d, _FEW))] for k in range(min(d, 2))]
        if d > _FEW:
            text = json.dumps({"task": task})[:-1]
            return _curl(
                address, "decide", f'{text}, "actions": [[... {d} numbers ...], ...]}}', token
            )
    return _curl(address, "decide", json.dumps(body), token)


def reward_command(address: str, decision: str | None, token: bool) -> str:
    """How to say what came of a decision."""
    return _curl(
        address, "reward", json.dumps({"id": decision or "DECISION_ID", "value": 1}), token
    )


def _curl(address: str, verb: str, body: str, token: bool) -> str:
    lines = ["curl " + shlex.quote(f"{address.rstrip('/')}/v1/{verb}")]
    if token:
        lines.append('-H "Authorization: Bearer $TOKEN"')
    lines.append("-H 'Content-Type: application/json'")
    # The shell takes quoted text as it is; JSON has no other characters than ASCII ones.
    lines.append(f"-d {shlex.quote(body)}")
    return " \\\n  ".join(lines)
