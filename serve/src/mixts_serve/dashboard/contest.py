"""Champion and challenger: the evidence, the canary, and what the service did by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mixts.pages import formats
from mixts_serve.challenger import Account, odds
from mixts_serve.dashboard import charts
from mixts_serve.promotion import CANARY_DAYS, CANARY_TASKS, Promotion, Trial
from mixts_serve.records import PriorActivation, PriorVersion
from mixts_serve.store import DecisionStore

CAVEAT = (
    "If the champion were exactly right, the evidence against it would ever reach 100 to 1 with a "
    "probability of at most 1 %, however often one looks. No learned prior is exactly right, and "
    "evidence says which version predicts rewards better, not which one earns more."
)

_SHOWN = 4
"""Transitions that the page lists."""


@dataclass(frozen=True)
class Contest:
    """What the page says of champion and challenger."""

    evidence: str
    chart: charts.Chart | None
    trial: str
    waiting: int | None
    """A version that a person may activate; None if there is none."""
    done: tuple[tuple[float, str], ...]
    """Times and words of what the service did by itself, newest first."""


def read_contest(decider: Any, store: DecisionStore) -> Contest | None:
    """Read what the overview says of champion and challenger; None if there is nothing to say."""
    account, trial = decider.account(), decider.trial()
    rows = store.transitions(_SHOWN)
    if account is None and trial is None and not rows:
        return None
    waiting, words, chart = None, "", None
    if account is not None:
        versions = {each.version: each for each in decider.priors()}
        challenger = versions[account.contest.challenger]
        words = evidence_words(account, challenger, has_canary=trial is not None)
        waiting = None if challenger.active else challenger.version
        chart = evidence_chart(account) if account.tasks else None
    done = tuple((row.at / 1e6, transition_words(row)) for row in rows)
    return Contest(words, chart, "" if trial is None else trial_words(trial), waiting, done)


def evidence_words(account: Account, challenger: PriorVersion, has_canary: bool) -> str:
    """Return the evidence, and what it leads to: nothing while a canary is on, which is judged."""
    words = f"{account.words[0].upper()}{account.words[1:]}"
    if account.left_out:
        left = formats.plural(account.left_out, "more task")
        words += f" ({left} that one of them cannot compute with)"
    if challenger.active:
        return f"{words}. Version {challenger.version} is active."
    if has_canary:
        return f"{words}."
    made = challenger.pedigree
    wish = None if made is None or made.change != "refit" else Promotion(made.promote or "ask")
    if wish is None or wish.limit is None:
        return f"{words}. A person decides whether to activate version {challenger.version}."
    if wish.limit:
        return f"{words}; {odds(math.log(wish.limit))} to 1 promotes it."
    return f"{words}."


def trial_words(trial: Trial) -> str:
    """Return the state of a canary, and the rule that ends it."""
    now = trial.deployment
    return (
        f"Version {now.canary} decides for {formats.percent(now.share)} of the tasks born since "
        f"{formats.moment(now.since / 1e6)} UTC: {formats.signed(trial.words)}. It is withdrawn "
        "when its interval is below zero, and promoted when it is above, or after "
        f"{CANARY_TASKS:,} of its tasks or {CANARY_DAYS:g} days; so far "
        f"{trial.tasks:,} tasks in {trial.days:.1f} days."
    )


def transition_words(row: PriorActivation) -> str:
    """Return what the service did with a version by itself, and why."""
    done = "activated" if row.share else "withdrawn"
    if 0 < row.share < 1:
        done = f"given to {formats.percent(row.share)} of the new tasks"
    return f"Version {row.version} was {done}: {row.reason}."


def evidence_chart(account: Account) -> charts.Chart:
    """Draw ln E over the new tasks, in the order of their births."""
    values, limit = [value for _, value in account.curve], math.log(100.0)
    x = charts.number_scale([0.0, float(account.tasks)], zero=True)
    y = charts.number_scale([*values, limit], zero=True)
    points: Sequence[tuple[float, float | None]] = [(float(n), value) for n, value in account.curve]
    low, high, last = map(formats.number, (min(values), max(values), values[-1]))
    return charts.Chart(
        title="ln E over new tasks",
        description=f"ln E of {formats.plural(account.tasks, 'new task')}, in the order of their "
        f"births: between {low} and {high}, last {last}. 100 to 1 is 4.6.",
        x_ticks=x.ticks,
        y_ticks=y.ticks,
        labels=charts.labels(
            [("100 to 1", y.height(limit), "reference"), ("ln E", y.height(values[-1]), "c0")]
        ),
        slots=(),
        lines=(charts.line("c0", points, x, y),),
        reference=y.height(limit),
    )


def report_lines(account: Account | None, trial: Trial | None) -> list[str]:
    """Return the state of champion and challenger for a report, a sentence a line."""
    lines = []
    if account is not None:
        lines.append(f"{account.words[0].upper()}{account.words[1:]}. {CAVEAT}")
    return lines if trial is None else [*lines, trial_words(trial)]


def as_json(account: Account | None, trial: Trial | None) -> dict[str, Any]:
    """Return champion and challenger for programs; what is not there is null."""
    found: dict[str, Any] = {"challenger": None, "canary": None}
    if account is not None:
        found["challenger"] = {
            "champion": account.contest.champion,
            "challenger": account.contest.challenger,
            "tasks": account.tasks,
            "log_evidence": account.log_evidence,
            "left_out": account.left_out,
        }
    if trial is not None:
        found["canary"] = {
            "version": trial.deployment.canary,
            "share": trial.deployment.share,
            "tasks": trial.tasks,
            "other_tasks": trial.rewards.control.tasks,
            "difference": None if trial.reward is None else trial.reward.difference,
            "interval": None if trial.reward is None else trial.reward.interval,
        }
    return found
