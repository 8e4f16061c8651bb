"""The rules that judge claims, and the text in which a report states them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixts.extend import Array, Estimate, estimate
from mixts.pages import Verdict
from mixts_paper.analysis.inequalities import CHANCE, N_EQUAL, chance_errors
from mixts_paper.bounds.comparison import N_ERRORS, RULE

MOST_ERRORS = 10.0
"""If chance alone exceeds this many standard errors, there are too few runs to decide."""

ORDER: tuple[Verdict, ...] = ("does not hold", "undecided", "direction only", "holds")
"""From weakest to strongest."""

RULES = (
    "Every verdict follows from the numbers by one of these rules, or by the rule in its row.",
    "Better than, more than, at most: an estimate is compared with a threshold. The claim holds if "
    f"the estimate is on the right side by more than {N_ERRORS:g} standard errors, does not hold "
    f"if it is on the wrong side by more than {N_ERRORS:g}, and is undecided in between. "
    "Differences between agents are paired: run by run, on the same problems.",
    f"Equal to: the paired difference is within {N_EQUAL:g} standard errors of 0.",
    "Nowhere worse: no comparison is on the wrong side by more standard errors than chance alone "
    f"exceeds in any of them with probability {CHANCE:g} (Student's t, Bonferroni): "
    "3.9 for a hundred comparisons of 20 runs. The claim is undecided if a comparison is on the "
    f"wrong side by more than {N_ERRORS:g} standard errors but by fewer than that, or has so few "
    f"runs that chance alone exceeds {MOST_ERRORS:g}.",
    "Greatly: the claim has a threshold that its row names. Direction only: the agent is better, "
    "but by less than the threshold.",
    *f"The shape of a bound. {RULE}".split("\n"),
)
"""Paragraphs for a report."""


def exceeds(value: Estimate, threshold: float = 0.0) -> Verdict:
    """Judge whether a value is above a threshold.

    Parameters
    ----------
    value
        Mean and standard error; with an error of 0 the mean alone decides.
    threshold
        Number to compare with.

    Returns
    -------
    "holds" or "does not hold" beyond two standard errors, otherwise "undecided".
    """
    distance = value.mean - threshold
    if distance > N_ERRORS * value.error:
        return "holds"
    if distance < -N_ERRORS * value.error or value.error == 0:
        return "does not hold"
    return "undecided"


def at_most(value: Estimate, threshold: float) -> Verdict:
    """Judge whether a value is at most a threshold; see :func:`exceeds`."""
    if value.error == 0:
        return "holds" if value.mean <= threshold else "does not hold"
    return exceeds(Estimate(-value.mean, value.error), -threshold)


def not_worse(difference: Estimate) -> Verdict:
    """Judge that a difference is not below 0 by more than two standard errors."""
    near = difference.mean >= -N_ERRORS * difference.error
    return "holds" if near else "does not hold"


def nowhere_worse(differences: Sequence[Estimate], n_runs: Sequence[int]) -> Verdict:
    """Judge that none of many differences is below 0 by more than chance explains.

    If all differences were 0, one of them or more would be called significant in at most ``CHANCE``
    of cases (Bonferroni): among many comparisons some are off by two standard errors.

    Parameters
    ----------
    differences
        Means and standard errors over runs; below 0 is worse.
    n_runs
        Number of runs behind each: few runs have uncertain errors (Student's t).

    Returns
    -------
    "does not hold" if one is below 0 by more than chance explains. "undecided" if one is below 0
    by more than two standard errors, or has too few runs to tell. Otherwise "holds".
    """
    mean, error = np.array(differences, float).reshape(-1, 2).T
    n_errors = chance_errors(n_runs, len(differences))
    if (mean < -n_errors * error).any():
        return "does not hold"
    fine = (mean >= -N_ERRORS * error) & (n_errors <= MOST_ERRORS)
    return "holds" if fine.all() else "undecided"


def greatly(value: Estimate, threshold: float) -> Verdict:
    """Judge "greatly" by a threshold; less than that is the direction only."""
    verdict = exceeds(value, threshold)
    return "direction only" if verdict == "does not hold" else verdict


def times_less(mine: Array, theirs: Array, factor: float) -> Verdict:
    """Judge whether one regret is less than another by a factor; less than that is direction only.

    Parameters
    ----------
    mine, theirs
        Regrets of the same runs.
    factor
        How many times as much "greatly" means.
    """
    return weakest(exceeds(estimate(theirs - mine)), greatly(estimate(theirs - factor * mine), 0.0))


def equal(difference: Estimate, rounding: float = 1e-9) -> Verdict:
    """Judge whether a difference is 0 within three standard errors, or up to rounding."""
    near = abs(difference.mean) <= max(N_EQUAL * difference.error, rounding)
    return "holds" if near else "does not hold"


def weakest(*verdicts: Verdict) -> Verdict:
    """Return the weakest of several verdicts that must all hold."""
    return min(verdicts, key=ORDER.index)
