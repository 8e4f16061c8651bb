"""A comparison of policies in words and numbers: what they earn beside the bestseller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixts._numbers import Estimate
from mixts.diagnostics import Earnings, PolicyComparison
from mixts.diagnostics._replays import BESTSELLER
from mixts.diagnostics.policies import FEWEST_TASKS
from mixts.learning import PriorCheck
from mixts.pages.charts import Scale
from mixts.pages.formats import count, listed, plural, signed
from mixts.pages.kinds import Item, short_name

_NAMES = {
    BESTSELLER: "the bestseller",
    "greedy": "greedy",
    "ts": "Thompson sampling",
    "ids": "IDS",
    "ucb": "Bayes-UCB",
}
"""Names of policies inside a sentence."""

_MOST_DIGITS = 6
"""Largest number of digits after the point."""
_LEAST_ERROR = 10.0**-_MOST_DIGITS
"""Least error that such a number shows; smaller ones come from rounding."""


@dataclass(frozen=True)
class Group:
    """Earnings over the first decisions, with a row for each policy."""

    title: str
    source: str
    """Origin of the numbers: a replay or a simulation, and the number of tasks."""
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Answer:
    """The first section of a page: what policies earn."""

    groups: tuple[Group, ...]
    sources: tuple[str, ...]
    """How the numbers were measured, a sentence each."""


def policy_answer(comparison: PolicyComparison) -> Answer:
    """Return a comparison as the section of a page."""
    digits, scale = _digits_of(comparison), _scale(comparison)
    groups = tuple(
        Group(
            f"First {plural(one.n_decisions, 'decision')}",
            f"{one.source}, {plural(one.n_tasks, 'task')}",
            tuple(_item(one, policy, digits, scale) for policy in comparison.policies),
        )
        for one in comparison.earnings
    )
    return Answer(groups, tuple(policy_sources(comparison)))


def policy_table(comparison: PolicyComparison) -> list[str]:
    """Return lines for a terminal: the earnings of each policy with standard errors."""
    digits, _ = _digits_of(comparison)
    rows = [["reward per decision", *(f"first {one.n_decisions}" for one in comparison.earnings)]]
    rows += [
        [_title(policy), *(_text(one.mean(policy), digits) for one in comparison.earnings)]
        for policy in comparison.policies
    ]
    rows.append(["", *(f"{one.source}, {count(one.n_tasks)}" for one in comparison.earnings)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


# -- the verdict ----------------------------------------------------------------------------------


def policy_verdict(
    comparison: PolicyComparison, check: PriorCheck | None = None, *, usable: bool = True
) -> list[str]:
    """Say what the policy to start with earns beside the bestseller, and which policy to use.

    Parameters
    ----------
    comparison
        The earnings.
    check
        Check of the prior: a simulation says nothing if predictions fail it.
    usable
        Whether the advice on the prior is to use it: no policy should start from another one.
    """
    one, agent, (digits, _) = comparison.decisive, comparison.agent, _digits_of(comparison)
    name = "" if one.bestseller is None else f" (`{short_name(one.bestseller)}`)"
    return [
        f"On {tasks_of(one)}, each of the first {one.n_decisions} decisions earned "
        f"{_text(one.mean(agent), digits)} with {_NAMES[agent]} and "
        f"{_text(one.mean(BESTSELLER), digits)} with the bestseller{name}: "
        f"{_difference(one, agent, BESTSELLER)}.",
        *(_advice(comparison) if usable or comparison.recommended == BESTSELLER else [_UNUSABLE]),
        *_distrust(one, check),
    ]


_UNUSABLE = "No policy should start from this prior: it fails its checks."


def _distrust(one: Earnings, check: PriorCheck | None) -> list[str]:
    """Say that a simulation from a prior whose check fails proves nothing."""
    failing = check is not None and any(found.findings for found in check.calibration.values())
    if one.source == "replay" or not failing:
        return []
    return ["But these tasks were drawn from the prior, and the prior fails its check: see below."]


def _advice(comparison: PolicyComparison) -> list[str]:
    one, usual, sentences = comparison.decisive, comparison.usual, []
    if not comparison.better:
        return [f"Use {_NAMES[usual]}: no other policy earns clearly more."]
    if one.clearly(BESTSELLER, usual):
        sentences.append(
            f"{_NAMES[usual]} loses to the bestseller: {_difference(one, usual, BESTSELLER)}."
        )
    recommended, best = comparison.recommended, comparison.better[0]
    if recommended != best:  # by a simulation
        return [
            *sentences,
            f"Use {_NAMES[recommended]}: {_NAMES[best]} earned "
            f"{_difference(one, best, recommended)}, but a simulation does not show what a policy "
            "earns if the prior is wrong.",
        ]
    if recommended == BESTSELLER:
        return [*sentences, f"Use the bestseller: it clearly earned more than {_NAMES[usual]}."]
    gain = _difference(one, recommended, usual)
    return [*sentences, f"Use {_NAMES[recommended]}: it earned {gain} than {_NAMES[usual]}."]


def tasks_of(one: Earnings) -> str:
    """Say which tasks earnings come from."""
    return "held-out tasks" if one.source == "replay" else "tasks drawn from the prior"


def _difference(one: Earnings, policy: str, other: str) -> str:
    mean, error = one.gain(policy, other)
    if not mean and not error:
        return "the same"
    amount = _text(Estimate(abs(mean), error), _digits([error]))
    amount += " more" if mean >= 0 else " less"
    clear = one.clearly(policy, other) or one.clearly(other, policy)
    return amount if clear else f"{amount}, which is no clear difference"


# -- the sources ----------------------------------------------------------------------------------


def policy_sources(comparison: PolicyComparison) -> list[str]:
    """Say how the numbers were measured, and what they assume."""
    replayed = [one for one in comparison.earnings if one.source == "replay"]
    simulated = [one for one in comparison.earnings if one.source == "simulation"]
    sentences = _replay_sentences(replayed, comparison.n_held_out) if replayed else []
    if simulated:
        enough = listed([count(one.n_replayable) for one in simulated])
        some = any(one.n_replayable for one in simulated)
        tasks = plural(comparison.n_held_out, "held-out task")
        sentences.append(
            f"For {_decisions(simulated)} the recorded rewards of {'only ' * some}"
            f"{enough if some else 'none'} of {tasks} are enough, and a replay needs "
            f"{FEWEST_TASKS} tasks. So {plural(simulated[0].n_tasks, 'task')} were "
            "drawn from the prior: these numbers assume that the prior is right. The bestseller is "
            "then the choice with the highest mean under the prior."
        )
        if comparison.n_arms is not None and simulated[0].n_offered < comparison.n_arms:
            sentences.append(
                f"To save time these tasks offer only {simulated[0].n_offered:.0f} of the "
                f"{count(comparison.n_arms)} arms: those with the highest means under the prior."
            )
    return sentences


def _replay_sentences(replayed: Sequence[Earnings], n_held_out: int) -> list[str]:
    n_tasks = listed([count(one.n_tasks) for one in replayed])
    offered = listed([f"{one.n_offered:.1f}" for one in replayed])
    sentences = [
        f"{_decisions(replayed).capitalize()} were replayed on {n_tasks} of "
        f"{plural(n_held_out, 'held-out task')}; the prior was not learned from them."
    ]
    if any(one.n_replayable < n_held_out for one in replayed):
        sentences.append(
            "The other tasks have too few recorded rewards: the numbers speak for tasks with many."
        )
    best = replayed[0].bestseller
    if best is None:
        sentences.append(
            f"Each decision chooses one of {replayed[0].n_offered:.0f} recorded rows of the task "
            "that were not chosen yet, so that later decisions have less to choose from. The "
            "bestseller is the row with the highest reward by the coefficients that fit all "
            "training rows best."
        )
    else:
        sentences.append(
            "A chosen arm gives one of the rewards that the task recorded for it, in random order. "
            "A task offers the arms with enough recorded rewards, on average "
            f"{offered}. The bestseller is the arm with the highest mean reward in the training "
            f"rows, `{short_name(best)}`; arms that were hardly tried are left out. A task without "
            "the bestseller gets the best arm that it offers."
        )
    sentences.append(
        "If the logged choices depended on earlier rewards of the same task, a replay is only "
        "approximate."
    )
    return sentences


def _decisions(earnings: Sequence[Earnings]) -> str:
    return f"the first {listed([str(one.n_decisions) for one in earnings])} decisions"


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


def _title(policy: str) -> str:
    name = _NAMES[policy].removeprefix("the ")
    return name[0].upper() + name[1:]


def _range(value: Estimate) -> tuple[float, float]:
    return value.mean - 2 * value.error, value.mean + 2 * value.error


def _scale(comparison: PolicyComparison) -> Scale:
    """Return the scale that all groups share."""
    ranges = [
        _range(one.mean(policy)) for one in comparison.earnings for policy in comparison.policies
    ]
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    return Scale(low, high)


def _item(one: Earnings, policy: str, digits: tuple[int, int], scale: Scale) -> Item:
    mean = one.mean(policy)
    low, high = _range(mean)
    earned = _text(mean, digits[0])
    gain = "–" if policy == BESTSELLER else _text(one.gain(policy), digits[1], "+")
    return Item(
        name=_title(policy),
        mean=earned,
        overall=gain,
        low=scale.place(low),
        place=scale.place(mean.mean),
        high=scale.place(high),
        overall_place=scale.place(one.mean(BESTSELLER).mean),
        zero=scale.place(0.0),
        alt=f"{earned} per decision; gain over the bestseller {gain}",
    )
