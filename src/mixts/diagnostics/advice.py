"""Advice on a learned prior: use it, use it with caution, or do not use it, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from mixts.diagnostics._replays import BESTSELLER
from mixts.diagnostics.policies import PolicyComparison
from mixts.learning import Fit, PriorCheck
from mixts.learning.fit import EARLIER
from mixts.learning.measures import HARMLESS

Answer = Literal["use", "caution", "no"]

GROSS = 0.1
"""Error of a predicted probability from which a prior is not to be trusted without a replay; logs
of bandit algorithms alone cause deviations of up to about 0.1."""

_WORDS: dict[Answer, str] = {
    "use": "Use this prior",
    "caution": "Use this prior with caution",
    "no": "Do not use this prior",
}


@dataclass(frozen=True)
class Advice:
    """Whether to use a prior, and the reasons.

    Attributes
    ----------
    answer : str
        "use", "caution" or "no".
    reasons : tuple of str
        Reasons against the prior; with the answer "use", the reason for it.

    Examples
    --------
    >>> from mixts.diagnostics import Advice
    >>> print(Advice("caution", ("learning stopped before it converged",)))
    Use this prior with caution: learning stopped before it converged.
    """

    answer: Answer
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{_WORDS[self.answer]}: {'; '.join(self.reasons)}."


def advise(fit: Fit, comparison: PolicyComparison | None = None) -> Advice:
    """Say whether to use a prior that was learned from logs.

    Parameters
    ----------
    fit
        Result of :func:`mixts.learning.fit_logs`.
    comparison
        Result of :func:`mixts.diagnostics.compare_policies`; None if policies were not compared.

    Returns
    -------
    Advice
        "no" if held-out tasks speak against the prior, "caution" if any of its checks fails or
        could not be made, "use" only if all of them pass.

    Examples
    --------
    Clicks of 200 users on two items; users of one kind like the first item, others the second.

    >>> import numpy as np
    >>> from mixts import diagnostics, fit_logs
    >>> user, item = np.repeat(np.arange(200), 20), np.tile([0, 1], 2000)
    >>> clicked = np.random.default_rng(1).random(4000) < np.where((user + item) % 2, 0.8, 0.2)
    >>> rows = np.c_[user, item, clicked]
    >>> np.savetxt("clicks.csv", rows, "%d", ",", header="user,item,clicked", comments="")
    >>> columns = {"task": "user", "arm": "item", "reward": "clicked"}
    >>> fit = fit_logs("clicks.csv", columns, n_components=2, seed=1)
    >>> print(diagnostics.advise(fit))
    Use this prior: its checks on held-out tasks pass.
    """
    against = _earlier_reasons(fit)
    doubts: list[str] = []
    if fit.check is None:
        doubts.append("it was not checked on held-out tasks")
    else:
        pays = comparison is not None and _pays(comparison)
        against += _evidence_reasons(fit.check)
        gross, slight = _calibration_reasons(fit.check, pays)
        against += gross
        doubts += slight + _task_reasons(fit.check)
    if comparison is not None:
        lost, unclear = _policy_reasons(comparison)
        against += lost
        doubts += unclear
    if not fit.converged:
        doubts.append("learning stopped before it converged")
    doubts += [f"the logs may be wrong ({found.code}; see the warning)" for found in fit.warnings]
    if against:
        return Advice("no", tuple(against))
    if doubts:
        return Advice("caution", tuple(doubts))
    return Advice("use", ("its checks on held-out tasks pass",))


def judged(fit: Fit, comparison: PolicyComparison | None = None) -> Fit:
    """Return the fit with the advice in the prior: a service refuses a prior that failed.

    Parameters
    ----------
    fit
        Result of :func:`mixts.learning.fit_logs`.
    comparison
        Result of :func:`mixts.diagnostics.compare_policies`; None if policies were not compared.

    Returns
    -------
    Fit
        The same fit, whose ``prior.origin`` has the verdict; unchanged if nothing was checked.

    Examples
    --------
    Clicks of 200 users on two items; users of one kind like the first item, others the second.

    >>> import numpy as np
    >>> from mixts import diagnostics, fit_logs
    >>> user, item = np.repeat(np.arange(200), 20), np.tile([0, 1], 2000)
    >>> clicked = np.random.default_rng(1).random(4000) < np.where((user + item) % 2, 0.8, 0.2)
    >>> rows = np.c_[user, item, clicked]
    >>> np.savetxt("clicks.csv", rows, "%d", ",", header="user,item,clicked", comments="")
    >>> columns = {"task": "user", "arm": "item", "reward": "clicked"}
    >>> fit = diagnostics.judged(fit_logs("clicks.csv", columns, n_components=2, seed=1))
    >>> fit.prior.origin.passed
    True
    """
    origin, advice = fit.prior.origin, advise(fit, comparison)
    if fit.check is None or origin is None:
        return fit
    origin = origin.judged(advice.answer != "no", str(advice))
    return replace(fit, prior=fit.prior.replace(origin=origin))


def _earlier_reasons(fit: Fit) -> list[str]:
    """Return why the earlier prior, from which learning went on, is better."""
    if fit.against_start is None or fit.against_start.verdict(EARLIER) != "worse":
        return []
    gain = fit.against_start.gain(EARLIER)
    return [
        "it predicts held-out tasks worse than the earlier prior (log evidence of a task "
        f"{gain.mean:+.3f} ± {gain.error:.3f}): keep that one"
    ]


def _pays(comparison: PolicyComparison) -> bool:
    """Return whether a replay of held-out tasks clearly earned more than the bestseller."""
    one = comparison.decisive
    return one.source == "replay" and one.clearly(comparison.agent, BESTSELLER)


def _evidence_reasons(check: PriorCheck) -> list[str]:
    evidence, reasons = check.evidence, []
    for name in evidence.names[1:]:
        if evidence.verdict(name) == "worse":
            what = "one kind of task" if name == "UniTS" else "a prior that knows nothing"
            reasons.append(f"it predicts held-out tasks worse than {what} ({name})")
    if len(check.surprise.impossible):
        n = len(check.surprise.impossible)
        tasks = "1 held-out task" if n == 1 else f"{n:,} held-out tasks"
        reasons.append(f"it calls {tasks} impossible: add --robust")
    return reasons


def _calibration_reasons(check: PriorCheck, pays: bool) -> tuple[list[str], list[str]]:
    gross: list[str] = []
    slight: list[str] = []
    for name, one in check.calibration.items():
        if one.findings:
            said = f"its predictions of {name} fail the check ({one.verdict}): {one.remedy}"
            is_gross = one.deviation >= GROSS and one.remedy != HARMLESS and not pays
            (gross if is_gross else slight).append(said)
        elif not one.judged:
            slight.append(f"there are too few predictions of {name} to check them")
    return gross, slight


def _task_reasons(check: PriorCheck) -> list[str]:
    reasons = []
    if check.surprise.beyond_chance and not len(check.surprise.impossible):
        reasons.append("more held-out tasks than expected fit no kind: add --robust")
    if check.usage.unused.any():
        reasons.append("held-out tasks hardly use some of its kinds: fewer --components may do")
    flat = check.evidence.names[-1]
    if check.evidence.verdict(flat) == "no different":
        said = "it predicts held-out tasks no better than a prior that knows nothing"
        reasons.append(f"{said} ({flat})")
    return reasons


def _policy_reasons(comparison: PolicyComparison) -> tuple[list[str], list[str]]:
    one = comparison.decisive
    on = "held-out tasks" if one.source == "replay" else "tasks drawn from the prior"
    if comparison.recommended == BESTSELLER:
        return [f"the bestseller earned more on {on}"], []
    if not one.clearly(comparison.agent, BESTSELLER):
        return [], [f"on {on} no policy clearly earned more than the bestseller"]
    return [], []
