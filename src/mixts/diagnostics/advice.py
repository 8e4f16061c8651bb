"""Advice on a learned prior: use it, use it with caution, or do not use it, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from mixts.diagnostics.policies import PolicyComparison
from mixts.learning import PriorCheck
from mixts.learning.measures import HARMLESS
from mixts.logs.fitted import EARLIER, Fit

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

    def recorded(self, fit: Fit) -> Fit:
        """Return the fit with this advice in its prior: a service refuses a prior that failed.

        Parameters
        ----------
        fit
            The fit that the advice is about.

        Returns
        -------
        Fit
            The same fit, whose ``prior.origin`` has the verdict; unchanged if nothing was checked.
        """
        origin = fit.prior.origin
        if fit.check is None or origin is None:
            return fit
        origin = origin.judged(self.answer != "no", str(self))
        return replace(fit, prior=fit.prior.replace(origin=origin))


class _Finding(NamedTuple):
    """A reason against a prior."""

    answer: Answer
    """The best answer that the reason allows."""
    reason: str


def advise(fit: Fit, comparison: PolicyComparison | None = None) -> Advice:
    """Say whether to use a prior that was learned from logs.

    Every reason against the prior allows "caution" or "no" at best, and the worst of them is the
    answer. So a prior is to be used only if its checks on held-out tasks pass and a replay of past
    tasks clearly earned more than the bestseller: less evidence never gives a better answer.

    Parameters
    ----------
    fit
        Result of :func:`mixts.fit_logs`.
    comparison
        Result of :func:`mixts.diagnostics.compare_policies`; None if policies were not compared.

    Returns
    -------
    Advice
        The answer and its reasons.

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
    Use this prior with caution: nobody has measured what policies earn with it.
    >>> print(diagnostics.advise(fit, diagnostics.compare_policies(fit, n_decisions=[5])))
    Use this prior: its checks pass, and in a replay of past tasks it pays.
    """
    found = [*_earlier_findings(fit), *_replay_findings(comparison), *_fit_findings(fit)]
    if fit.check is None:
        found.append(_Finding("caution", "it was not checked on held-out tasks"))
    else:
        pays = comparison is not None and comparison.outcome == "gain"
        found += [*_check_findings(fit), *_calibration_findings(fit.check, pays)]
    for answer in ("no", "caution"):
        reasons = tuple(one.reason for one in found if one.answer == answer)
        if reasons:
            return Advice(answer, reasons)
    return Advice("use", ("its checks pass, and in a replay of past tasks it pays",))


def _replay_findings(comparison: PolicyComparison | None) -> Iterator[_Finding]:
    if comparison is None:
        yield _Finding("caution", "nobody has measured what policies earn with it")
        return
    match comparison.outcome:
        case "none":
            said = "too few past tasks can be replayed to know what it earns"
            yield _Finding("caution", said)
        case "unclear":
            said = (
                f"in a replay of past tasks no policy clearly earned more than {comparison.rival}"
            )
            yield _Finding("caution", said)
        case "loss":
            answer: Answer = "caution" if comparison.is_weak else "no"
            yield _Finding(answer, f"in a replay of past tasks {comparison.rival} earned more")
    if comparison.restricted:
        said = "live decisions can choose arms that the replay could not, so its gain may differ"
        yield _Finding("caution", said)
    if comparison.adaptive and comparison.earnings:
        said = "a service chose what was logged by earlier rewards, so the replay is approximate"
        yield _Finding("caution", said)


def _fit_findings(fit: Fit) -> Iterator[_Finding]:
    if not fit.converged:
        yield _Finding("caution", "learning stopped before it converged")
    for found in fit.warnings:
        yield _Finding("caution", f"the logs may be wrong ({found.code}; see the warning)")


def _earlier_findings(fit: Fit) -> Iterator[_Finding]:
    """Yield the reason why the earlier prior, from which learning went on, is better."""
    if fit.against_start is None:
        return
    if not fit.is_compared:
        said = "there are too few held-out tasks to compare it with the earlier prior"
        yield _Finding("caution", said)
    elif fit.against_start.verdict(EARLIER) == "worse":
        gain = fit.against_start.gain(EARLIER)
        said = (
            "it predicts held-out tasks worse than the earlier prior (log evidence of a task "
            f"{gain.mean:+.3f} ± {gain.error:.3f}): keep that one"
        )
        yield _Finding("no", said)


def _calibration_findings(check: PriorCheck, pays: bool) -> Iterator[_Finding]:
    for name, one in check.calibration.items():
        if one.findings:
            said = f"its predictions of {name} fail the check ({one.verdict}): {one.remedy}"
            gross = one.deviation >= GROSS and one.remedy != HARMLESS and not pays
            yield _Finding("no" if gross else "caution", said)
        elif not one.judged:
            yield _Finding("caution", f"there are too few predictions of {name} to check them")


def _check_findings(fit: Fit) -> Iterator[_Finding]:
    assert fit.check is not None
    check, space = fit.check, fit.prior.features
    knows = "nothing"
    if space is not None and space.pooled is not None:  # its rows have the same effects
        knows = "only what is the same for everybody"
    evidence, impossible = check.evidence, len(check.surprise.impossible)
    for name in evidence.names[1:]:
        if evidence.verdict(name) == "worse":
            what = "one kind of task" if name == "UniTS" else f"a prior that knows {knows}"
            said = f"it predicts held-out tasks worse than {what} ({name})"
            yield _Finding("no", said)
    if impossible:
        tasks = "1 held-out task" if impossible == 1 else f"{impossible:,} held-out tasks"
        yield _Finding("no", f"it calls {tasks} impossible: {check.remedies.unusual}")
    elif check.surprise.beyond_chance:
        said = f"more held-out tasks than expected fit no kind: {check.remedies.unusual}"
        yield _Finding("caution", said)
    if check.unused:
        yield _Finding("caution", check.unused)
    flat = evidence.names[-1]
    if evidence.verdict(flat) == "no different":
        said = f"it predicts held-out tasks no better than a prior that knows {knows}"
        yield _Finding("caution", f"{said} ({flat})")
