"""The lift of the service over its baseline, in words: tiles of the overview, and a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mixts.pages import formats
from mixts_serve.dashboard import layout
from mixts_serve.lift import ALPHA, Difference, Lift, Sums
from mixts_serve.trials import ARM, BESTSELLER, UNIFORM
from mixts_serve.worth import Worth

_BASELINES = {BESTSELLER: "the bestseller", UNIFORM: "actions at random"}
_POOLED = "the pooled model"
_UNKNOWN = "not known yet"


@dataclass(frozen=True)
class Words:
    """A difference in words."""

    value: str
    """The lift if its sign is known, else its interval."""
    unit: str
    note: str
    look: str
    """"up" or "down" for a known sign, else ""; only what is optimised has a look."""

    @property
    def line(self) -> str:
        """All in one line."""
        return ", ".join(part for part in (self.value, self.unit, self.note) if part)


def words_of(found: Difference | None, *, optimised: bool = False) -> Words:
    """Return a difference in words: in per cent, where control has a positive mean."""
    if found is None:
        return Words(_UNKNOWN, "", "one side has no final decision", "")
    needed = _needed_words(found)
    if found.interval is None:
        return Words(_UNKNOWN, "", needed or "too few decisions with unlike values", "")
    middle, (low, high) = found.difference, found.interval
    unit, scale = "", 1.0
    if found.relative is not None and found.lift is not None:
        middle, (low, high), unit, scale = found.lift, found.relative, " %", 100.0
    below, value, above = _bounds(low * scale, middle * scale, high * scale)
    if not found.direction:
        return Words(f"{below} to {above}{unit}", _UNKNOWN, needed, "")
    looks = {1: "up", -1: "down"}
    return Words(
        f"{value}{unit}",
        f"{below} to {above}".replace("+", ""),
        "",
        looks[found.direction] * optimised,
    )


def _bounds(low: float, value: float, high: float) -> tuple[str, str, str]:
    """Return numbers with signs and as many digits as their interval allows, ends outwards.

    An end that is not 0 is not rounded to 0: it would look as if nothing were known. Nor does it
    move by more than half of its distance from 0, or of the half width.
    """
    size = max(min((high - low) / 2, *(abs(x) for x in (low, high) if x)), 1e-9) / 2
    digits = max(0, -math.floor(math.log10(size)))
    step = 10.0**-digits
    # Rounded first: 10 must not become 10.1 because 10 / 0.1 is not quite 100.
    ends = (
        math.floor(round(low / step, 6)) * step, value, math.ceil(round(high / step, 6)) * step
    )  # fmt: skip
    signs = [f"{x:+,.{digits}f}" if round(x, digits) else "0" for x in ends]
    below, middle, above = map(formats.signed, signs)
    return below, middle, above


def _needed_words(found: Difference) -> str:
    """Return how many more tasks would tell what lift from none."""
    if found.tasks_needed is None or found.next_lift is None:
        return ""
    n = float(f"{found.tasks_needed:.2g}")
    tasks = f"about {n:,.0f} more tasks" if n else "a few more tasks"
    return f"a lift of {100 * found.next_lift:g} % needs {tasks}"


def baseline_words(name: str, has_features: bool) -> str:
    """Return a baseline in words."""
    if has_features and name == BESTSELLER:
        return _POOLED
    return _BASELINES.get(name) or f"the arm {name.removeprefix(ARM)}"


def tiles(worth: Worth) -> list[tuple[str, Words]]:
    """Return the tiles of a comparison, by title: that of the rewards, then the guardrails."""
    rewards, found = worth.rewards, words_of(worth.rewards.per_decision, optimised=True)
    counts = f"{formats.plural(rewards.treated.tasks, 'task')} against {rewards.control.tasks:,}"
    note = "; ".join(
        part for part in (f"reward a decision, {counts} held back", found.note) if part
    )
    first = Words(found.value, found.unit, note, found.look)
    return [
        (f"Lift over {baseline_words(worth.baseline, worth.has_features)}", first),
        *(
            (f"Guardrail: {name}", words_of(one.per_decision))
            for name, one in worth.metrics.items()
        ),
    ]


def sides(found: Lift) -> list[tuple[str, Sums]]:
    """Return the sums of both sides with their names."""
    return [("Held back", found.control), ("Service", found.treated)]


def report_page(worth: Worth | None, name: str, made: float, rivals: Sequence[str] = ()) -> str:
    """Render the report of a store."""
    rows: list[tuple[str, Difference | None, Words]] = []
    if worth is not None:
        rewards = worth.rewards
        rows = [
            ("Reward a decision", rewards.per_decision,
             words_of(rewards.per_decision, optimised=True)),
            ("Reward a task", rewards.per_task, words_of(rewards.per_task, optimised=True)),
        ]  # fmt: skip
        for metric, one in worth.metrics.items():
            rows.append((f"{metric} a decision", one.per_decision, words_of(one.per_decision)))
            rows.append((f"{metric} a task", one.per_task, words_of(one.per_task)))
    return layout.render(
        "report", worth=worth, rivals=rivals, name=name, made=made, rows=rows, style=layout.STYLE,
        tiles=[] if worth is None else tiles(worth), finite=math.isfinite,
        sides=[] if worth is None else sides(worth.rewards),
        compared_with=(
            "" if worth is None else baseline_words(worth.baseline, worth.has_features)
        ),
    )  # fmt: skip


def as_json(worth: Worth | None) -> dict[str, Any] | None:
    """Return a comparison for programs; what is not known is null."""
    if worth is None:
        return None
    return {
        "baseline": worth.baseline,
        "share": worth.share,
        "since": worth.since,
        "until": worth.until if math.isfinite(worth.until) else None,
        "ended": worth.ended,
        "confidence": 1 - ALPHA,
        **_lift_json(worth.rewards),
        "metrics": {name: _lift_json(found) for name, found in worth.metrics.items()},
        "warnings": list(worth.warnings),
    }


def _lift_json(found: Lift) -> dict[str, Any]:
    counts = {
        side: {"tasks": sums.tasks, "decisions": sums.decisions, "total": sums.total}
        for side, sums in (("control", found.control), ("treated", found.treated))
    }
    return {
        **counts,
        "per_decision": _difference_json(found.per_decision),
        "per_task": _difference_json(found.per_task),
    }


def _difference_json(found: Difference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "control": found.control,
        "treated": found.treated,
        "difference": found.difference,
        "interval": found.interval,
        "lift": found.lift,
        "lift_interval": found.relative,
        "excludes_zero": found.direction != 0,
        "next_lift": found.next_lift,
        "tasks_needed": found.tasks_needed,
    }
