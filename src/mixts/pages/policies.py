"""A comparison of policies in words and numbers: what they earn beside what a team has anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixts._numbers import Estimate, estimate
from mixts.diagnostics import Earnings, PolicyComparison
from mixts.diagnostics._replays import BESTSELLER
from mixts.diagnostics.policies import FEWEST_TASKS
from mixts.pages.formats import count, listed, plural, signed
from mixts.pages.kinds import Item, position, short_name

_NAMES = {
    "greedy": "greedy",
    "ts": "Thompson sampling",
    "ids": "IDS",
    "ucb": "Bayes-UCB",
}
"""Names of policies that learn, inside a sentence."""
_LOGS = "Your logs"

_MOST_DIGITS = 6
"""Largest number of digits after the point."""
_LEAST_ERROR = 10.0**-_MOST_DIGITS
"""Least error that such a number shows; smaller ones come from rounding."""


@dataclass(frozen=True)
class Group:
    """Earnings over the first decisions, with a row for each policy."""

    title: str
    source: str
    """Number of tasks and decisions behind the numbers."""
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Answer:
    """The first section of a page: what policies earn."""

    rival: str
    """Name of the policy that the others are compared with."""
    groups: tuple[Group, ...]
    sources: tuple[str, ...]
    """How the numbers were measured, a sentence each."""


def policy_answer(comparison: PolicyComparison) -> Answer:
    """Return a comparison as the section of a page."""
    if not comparison.earnings:
        return Answer("", (), ())
    digits, ends = _digits_of(comparison), _ends(comparison)
    groups = tuple(
        Group(
            f"First {plural(one.n_decisions, 'decision')}",
            f"{plural(one.n_tasks, 'past task')}, {count(one.n_tasks * one.n_decisions)} decisions",
            tuple(
                _item(comparison, one, row, digits, ends) for row in (None, *comparison.policies)
            ),
        )
        for one in comparison.earnings
    )
    sources = policy_sources(comparison)
    return Answer(comparison.rival, groups, tuple(sources))


def policy_table(comparison: PolicyComparison) -> list[str]:
    """Return lines for a terminal: what each policy earns, and what stands behind the numbers."""
    if not comparison.earnings:
        return []
    digits, _ = _digits_of(comparison)
    earnings = comparison.earnings
    rows = [["reward per decision", *(f"first {one.n_decisions}" for one in earnings)]]
    rows += [
        [_title(policy, comparison.rival), *(_text(_mean(one, policy), digits) for one in earnings)]
        for policy in (None, *comparison.policies)
    ]
    gains = [_gain(one, comparison.agent) for one in earnings]
    rows.append([f"Gain of {_NAMES[comparison.agent]}", *gains])
    rows.append(["tasks", *(count(one.n_tasks) for one in earnings)])
    rows.append(["decisions", *(count(one.n_tasks * one.n_decisions) for one in earnings)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


# -- the verdict ----------------------------------------------------------------------------------


def policy_verdict(comparison: PolicyComparison, *, usable: bool = True) -> list[str]:
    """Say what the policy to start with earns beside its rival, and which policy to use.

    Parameters
    ----------
    comparison
        The earnings.
    usable
        Whether the advice on the prior allows its use: no policy should start from another one.
    """
    if comparison.outcome == "none":
        return [_unknown(comparison)]
    one, agent, (digits, _) = comparison.decisive, comparison.agent, _digits_of(comparison)
    name = "" if one.bestseller is None else f" (`{short_name(one.bestseller)}`)"
    first = (
        f"In a replay of {plural(one.n_tasks, 'past task')}, each of the first {one.n_decisions} "
        f"decisions earned {_text(one.mean(agent), digits)} with {_NAMES[agent]} and "
        f"{_text(one.mean(BESTSELLER), digits)} with {comparison.rival}{name}: {_gain(one, agent)}"
    )
    return [*_advice(comparison, first, usable), *_restriction(comparison), *_left_out(comparison)]


def _advice(comparison: PolicyComparison, first: str, usable: bool) -> list[str]:
    one, agent, rival = comparison.decisive, comparison.agent, comparison.rival
    if comparison.is_weak:
        return [f"{first}."]
    if comparison.outcome == "loss":
        return [f"{first}.", f"Use {rival}: it clearly earned more."]
    if comparison.outcome == "unclear":
        return [
            f"{first}, which is no clear difference.",
            f"These logs do not show that learning pays over {rival} in the first "
            f"{one.n_decisions} decisions.",
        ]
    if not usable:
        return [f"{first}.", "No policy should start from this prior: it fails its checks."]
    if agent == "ids" or "ids" not in comparison.learning:
        return [f"{first}.", f"Use {_NAMES[agent]}."]
    mean, error = one.gain(agent, "ids")
    more = _text(Estimate(mean, error), _digits([error]))
    return [f"{first}.", f"Use {_NAMES[agent]}: it earned {more} more than IDS."]


def _unknown(comparison: PolicyComparison) -> str:
    """Say that nothing could be replayed, and why."""
    n, found = min(comparison.n_replayable.items())
    tasks = "past tasks" if comparison.crossed else "held-out tasks"
    return (
        f"Nobody knows what policies earn with this prior: a replay of {plural(n, 'decision')} "
        f"needs {FEWEST_TASKS} {tasks} with {comparison.needed.format(2 * n)}, and there are "
        f"{count(found)} among {count(comparison.n_past)}."
    )


def _restriction(comparison: PolicyComparison) -> list[str]:
    """Say that the replay cannot know what live decisions earn, if it cannot."""
    if comparison.adaptive:
        return [
            "A service chose these actions by earlier rewards of the same tasks: an arm has many "
            "recorded rewards where it paid. So the replay is only approximate, and these logs "
            "cannot tell what live decisions gain."
        ]
    if not comparison.restricted:
        return []
    one, agent = comparison.decisive, comparison.agent
    mine, rival = (one.missed[name].mean() for name in (agent, BESTSELLER))
    digits = _digits([one.mean(agent).error])
    return [
        "Live decisions will earn something else: they can choose every arm, and the replay only "
        "arms with a recorded reward left. If every arm had been available, "
        f"{_NAMES[agent]} expected {mine:.{digits}f} more per decision, and the bestseller "
        f"{rival:.{digits}f} more. These logs cannot tell what live decisions gain."
    ]


def _left_out(comparison: PolicyComparison) -> list[str]:
    """Say which longer replay does not count, although the page shows what it earned."""
    longest = comparison.earnings[-1]
    if comparison.is_weak or longest is comparison.decisive:
        return []
    return [
        f"The replay of {longest.n_decisions} decisions does not count: too few recorded rewards "
        "of good arms were left for it."
    ]


def _gain(one: Earnings, policy: str) -> str:
    """Return the gain over the rival: in percent with its interval, or with its error."""
    share = one.relative_gain(policy)
    if share is None or not np.isfinite(share.error):
        mean, error = one.gain(policy)
        return _text(Estimate(mean, error), _digits([error]), "+")
    mean, error = 100 * share.mean, 100 * share.error
    digits = 0 if error >= 0.5 else 1 if error >= 0.05 else 2
    low, high = (
        signed(f"{round(value, digits) + 0.0:.{digits}f}")  # no -0
        for value in (mean - 2 * error, mean + 2 * error)
    )
    return f"{signed(f'{mean:+.{digits}f}')} % ({low} to {high} %)"


# -- the sources ----------------------------------------------------------------------------------


def policy_sources(comparison: PolicyComparison) -> list[str]:
    """Say how the numbers were measured, and what they assume."""
    if not comparison.earnings:
        return []
    n_past, earnings = count(comparison.n_past), comparison.earnings
    found = listed([count(n) for n in comparison.n_replayable.values()])
    sentences = [
        "Recorded rewards were replayed: "
        + (
            "each past task was decided with a prior that was learned without it."
            if comparison.crossed
            else "the held-out tasks were decided with a prior that was learned without them."
        ),
        f"A replay of n decisions needs tasks with {comparison.needed.format('2n')}. Of {n_past} "
        f"{'past' if comparison.crossed else 'held-out'} tasks, "
        f"{found} have enough for {listed([str(n) for n in comparison.n_replayable])} decisions: "
        "the numbers speak for tasks with many rewards.",
    ]
    offered = listed([f"{one.n_offered:.1f}" for one in earnings])
    if earnings[0].bestseller is None:
        sentences.append(
            "The recorded rows of a task are dealt to its decisions at random, and each decision "
            f"chooses one of its rows, of {offered} on average. The pooled model is one regression "
            "on the training rows of all tasks, logistic for clicks: it takes the row with the "
            "highest predicted reward, and never learns."
        )
    else:
        sentences.append(
            "A chosen arm gives one of the rewards that the task recorded for it, in random order; "
            "an arm without rewards left cannot be chosen. A first decision chooses from "
            f"{offered} arms on average. The bestseller is the arm with the highest mean reward in "
            f"the training rows, `{short_name(earnings[0].bestseller)}`; arms that were hardly "
            "tried are left out. Where it cannot be chosen, the next best is."
        )
    sentences.append(
        f"{_LOGS}: the mean of all recorded rewards of the same tasks. If the logged choices "
        "depended on earlier rewards of the same task, a replay is only approximate."
    )
    return sentences


# -- numbers --------------------------------------------------------------------------------------


def _digits_of(comparison: PolicyComparison) -> tuple[int, int]:
    """Return the digits after the point of means, and of gains over the bestseller.

    Gains are computed task by task, so their errors may be much smaller than those of means.
    """
    pairs = [(one, policy) for one in comparison.earnings for policy in comparison.policies]
    means = [one.mean(policy).error for one, policy in pairs]
    return _digits(means), _digits([one.gain(policy).error for one, policy in pairs])


def _digits(errors: Sequence[float]) -> int:
    """Return the digits after the point that show two digits of the largest error, one of all."""
    shown = np.array([error for error in errors if error >= _LEAST_ERROR])  # no 0 and no NaN
    if not len(shown):
        return 3
    first = -np.floor(np.log10(shown))  # place of the first digit that is not 0
    return int(np.clip(max(1 + first.min(), first.max()), 0, _MOST_DIGITS))


def _text(value: Estimate, digits: int, sign: str = "") -> str:
    return signed(f"{value.mean:{sign}.{digits}f} ± {value.error:.{digits}f}")


def _title(policy: str | None, rival: str) -> str:
    """Return the name of a row; None is the row of the logs."""
    if policy is None:
        return _LOGS
    name = rival.removeprefix("the ") if policy == BESTSELLER else _NAMES[policy]
    return name[0].upper() + name[1:]


def _mean(one: Earnings, policy: str | None) -> Estimate:
    return estimate(one.logged) if policy is None else one.mean(policy)


def _range(value: Estimate) -> tuple[float, float]:
    return value.mean - 2 * value.error, value.mean + 2 * value.error


def _ends(comparison: PolicyComparison) -> tuple[float, float]:
    """Return the ends of the axis that all groups share."""
    ranges = [
        _range(_mean(one, row))
        for one in comparison.earnings
        for row in (None, *comparison.policies)
    ]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _item(
    comparison: PolicyComparison, one: Earnings, policy: str | None, digits: tuple[int, int],
    ends: tuple[float, float],
) -> Item:  # fmt: skip
    mean = _mean(one, policy)
    low, high = _range(mean)
    earned = _text(mean, digits[0])
    gain = "–"
    if policy not in (None, BESTSELLER):
        assert policy is not None
        absolute = _text(one.gain(policy), digits[1], "+")
        gain = absolute if one.relative_gain(policy) is None else _gain(one, policy)
    return Item(
        name=_title(policy, comparison.rival),
        mean=earned,
        overall=gain,
        low=position(low, *ends),
        place=position(mean.mean, *ends),
        high=position(high, *ends),
        overall_place=position(one.mean(BESTSELLER).mean, *ends),
        zero=position(0.0, *ends),
        alt=f"{earned} per decision; gain over {comparison.rival} {gain}",
    )
