"""A prior check in words: sentences, and tables that fit a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mixts._numbers import Estimate
from mixts.learning.measures import LEVEL

if TYPE_CHECKING:
    from mixts.learning.check import PriorCheck

MOST_SHOWN = 5
"""Largest number of tasks in the list of surprises."""
MOST_COMPONENTS = 12
WIDTH = 96

NOTE = (
    "Predictions and p take as given how often everything was tried. Where that depended on\n"
    "outcomes (logs of bandit algorithms, MDPs) they are approximate; evidence, kinds and\n"
    "flat / prior are exact however actions were chosen."
)


def summary(check: PriorCheck) -> str:
    """Return the whole summary."""
    n, total = check.n_tasks, int(check.n_observations.sum())
    head = f"PriorCheck of {check.prior.family!r}\n  on {_many(n, 'held-out task')}, "
    blocks = [
        head + _many(total, "observation"),
        "\n".join(f"- {line}" for text in findings(check) for line in _wrapped(text)),
        _evidence(check),
        _calibration(check),
        _rates(check),
        _surprises(check),
        _components(check),
        NOTE,
    ]
    return "\n\n".join(block for block in blocks if block)


def findings(check: PriorCheck) -> list[str]:
    """Return the findings, a sentence each."""
    sentences = [_evidence_sentence(check)]
    for name, one in check.calibration.items():
        if one.findings:
            sentences.append(f"Calibration of {name}: {one.verdict}. So {one.remedy}.")
    named = [name for name, one in check.calibration.items() if one.verdict == "calibrated"]
    if named:
        sentences.append(f"Predictions of {' and of '.join(named)} are calibrated.")
    if check.rates is not None and check.rates.judged:
        sentences.append(f"Click rates: {check.rates.verdict}.")
    sentences += _surprise_sentences(check)
    usage = check.usage
    if usage.unused.any():
        unused = [
            f"{usage.names[s]} ({usage.found[s]:.1f} tasks, {usage.expected[s]:.1f} expected)"
            for s in np.flatnonzero(usage.unused)
        ]
        sentences.append(f"Kinds that hardly any task uses: {', '.join(unused)}.")
    return sentences


_COMPARED = {
    "better": "better than", "worse": "worse than", "no different": "no different from",
}  # fmt: skip


def _evidence_sentence(check: PriorCheck) -> str:
    evidence = check.evidence
    words: dict[str, list[str]] = {}
    for name in evidence.names[1:]:
        words.setdefault(_COMPARED[evidence.verdict(name)], []).append(name)
    said = "; ".join(f"{word} {' and '.join(names)}" for word, names in words.items())
    return f"Held-out evidence: {said} (by two standard errors)."


def _surprise_sentences(check: PriorCheck) -> list[str]:
    surprise = check.surprise
    n, expected = int(surprise.surprising.sum()), surprise.n_expected
    level, usual = f"p <= {LEVEL:g}", f"where {expected:.1f} are expected"
    sentences = [
        f"Tasks that no kind explains: {n:,} with {level}, {usual}."
        if surprise.beyond_chance
        else f"{_many(n, 'surprising task')} ({level}), {usual}: no more than chance allows."
    ]
    if len(surprise.impossible):
        k = len(surprise.impossible)
        sentences.append(f"Impossible under every kind: {_many(k, 'task')}.")
    return sentences


def _evidence(check: PriorCheck) -> str:
    evidence = check.evidence
    rows = [["Held-out log evidence", "per task", "per observation", "the prior's gain per task"]]
    for i, name in enumerate(evidence.names):
        gain = _plus_minus(evidence.gain(name), sign=True) if i else ""
        task, observation = evidence.per_task(name), evidence.per_observation(name)
        rows.append([f"  {name}", _plus_minus(task), _plus_minus(observation), gain])
    notes = []
    if not evidence.compared.all():
        n = _many(int(evidence.compared.sum()), "task")
        ruled = [
            f"{evidence.impossible(name)} for {name}"
            for name in evidence.names
            if evidence.impossible(name)
        ]
        notes = [f"  over {n} that all priors can explain; impossible: {', '.join(ruled)}"]
    return "\n".join([_table(rows), *notes])


def _calibration(check: PriorCheck) -> str:
    if not check.calibration:
        return ""
    rows = [["Predictions", "number", "in 50 %", "in 80 %", "in 95 %", "deviation", "p", ""]]
    for name, one in check.calibration.items():
        held = [f"{100 * c.found:.1f} ± {100 * c.error:.1f}" for c in one.coverage()]
        tail = [f"{one.deviation:.3f}", _probability(one.p_value), one.verdict]
        rows.append([f"  {name}", f"{one.n_predictions:,}", *held, *tail])
    verdicts = {row[0]: row.pop() for row in rows}
    table = _table(rows).split("\n")
    # The verdict follows the numbers, on its own line where it does not fit.
    for i, row in enumerate(rows):
        words = verdicts[row[0]]
        fits = len(table[i]) + 2 + len(words) <= WIDTH
        table[i] += (f"  {words}" if fits else f"\n    {words}") if words else ""
    return "\n".join(table)


def _rates(check: PriorCheck) -> str:
    rates = check.rates
    if rates is None:
        return ""
    rows = [["Click rates, by class", "observations", "predicted", "clicked", "gap / error"]]
    for i, n in enumerate(rates.n_trials):
        clicked = f"{100 * rates.clicked[i]:.2f} ± {100 * rates.error[i]:.2f} %"
        predicted = f"{100 * rates.predicted[i]:.2f} %"
        rows.append([f"  {i + 1}", f"{n:,.0f}", predicted, clicked, f"{rates.distances[i]:+.1f}"])
    return _table(rows) + f"\n  p = {_probability(rates.p_value)}: {rates.verdict}"


def _surprises(check: PriorCheck) -> str:
    surprise = check.surprise
    shown = [t for t in surprise.ranked()[:MOST_SHOWN] if surprise.p_value[t] <= 0.05]
    n, level = int(surprise.surprising.sum()), f"p <= {LEVEL:g}"
    head = (
        f"Surprising tasks: {n} with {level} ({surprise.n_expected:.1f} expected), "
        f"{surprise.n_unlike} with flat / prior > 100"
    )
    if not shown:
        return head
    rows = [["  task", "observations", "log prob.", "expected", "p", "flat / prior", "likely"]]
    for t in shown:
        gone = t in surprise.impossible
        component = check.usage.names[check.component[t]] if not gone else "impossible"
        expected = f"{surprise.expected[t]:.2f} ± {surprise.spread[t]:.2f}"
        score = "-inf" if gone else f"{surprise.score[t]:.2f}"
        p, factor = _probability(float(surprise.p_value[t])), _factor(surprise.log_factor[t])
        tried = f"{surprise.n_observations[t]:,}"
        rows.append([f"  {t}", tried, score, expected, p, factor, component])
    return head + "\n" + _table(rows)


def _components(check: PriorCheck) -> str:
    usage = check.usage
    rows = [["Kind", "weight", "tasks by weight", "tasks found", "surest task", ""]]
    for s in range(min(len(usage.names), MOST_COMPONENTS)):
        word = "" if usage.judged[s] else "too few tasks to judge"
        rows.append([
            f"  {usage.names[s]}", f"{usage.weights[s]:.3g}", f"{usage.expected[s]:.1f}",
            f"{usage.found[s]:.1f}", f"{usage.largest[s]:.2f}",
            "unused" if usage.unused[s] else word,
        ])  # fmt: skip
    left = len(usage.names) - MOST_COMPONENTS
    return _table(rows) + (f"\n  ... and {left} more" if left > 0 else "")


# -- numbers and tables -------------------------------------------------------------------------


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Align the first column, and a last column of words, to the left; the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = {0} | ({len(widths) - 1} if rows[0][-1] in ("", "likely") else set())
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _plus_minus(value: Estimate, sign: bool = False) -> str:
    """Format a mean with two digits of its error."""
    mean, error = value
    if not np.isfinite(mean):
        return "none"
    plus = "+" if sign else ""
    if not np.isfinite(error):
        return f"{mean:{plus}.3f}"
    digits = int(np.clip(1 - np.floor(np.log10(error)), 0, 6)) if error > 0 else 3
    return f"{mean:{plus}.{digits}f} ± {error:.{digits}f}"


def _probability(p: float) -> str:
    return "0" if p == 0 else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _factor(log: float) -> str:
    if np.isinf(log):
        return "inf" if log > 0 else "0"
    return f"{np.exp(log):.2g}" if abs(log) < 14 else f"e^{log:.0f}"


def _many(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"


def _wrapped(text: str) -> list[str]:
    return ["\n  ".join(textwrap.wrap(text, WIDTH - 2))]
