"""How claims are judged: the rules, and the words in which a report prints them."""

from __future__ import annotations

from mixts.bounds import RULE
from mixts.pages import Verdict
from mixts.simulation import Estimate

N_BETTER = 2.0
"""Agents differ if their paired difference is more than so many of its standard errors."""
N_EQUAL = 3.0
"""Two sides of an identity agree if they differ by fewer standard errors."""

ORDER: tuple[Verdict, ...] = ("does not hold", "direction only", "holds")

RULES = (
    "Every verdict follows from the numbers by one of these rules, or by what its row says.",
    f"Better than: more than {N_BETTER:g} standard errors of the paired difference, run by run, on "
    "the same problems; within that it is the direction only.",
    f"Equal to: within {N_EQUAL:g} standard errors of the paired difference.",
    *f"The shape of a bound. {RULE}".split("\n"),
)
"""For a report: a paragraph each."""


def better(difference: Estimate) -> Verdict:
    """Whether a difference that should be above 0 is, beyond its errors."""
    if difference.mean > N_BETTER * difference.error:
        return "holds"
    return "direction only" if difference.mean > 0 else "does not hold"


def equal(difference: Estimate, rounding: float = 1e-9) -> Verdict:
    """Whether a difference that should be 0 is, within its errors."""
    near = abs(difference.mean) <= max(N_EQUAL * difference.error, rounding)
    return "holds" if near else "does not hold"


def weaker(*verdicts: Verdict) -> Verdict:
    """The weakest of several that must all hold."""
    return min(verdicts, key=ORDER.index)
