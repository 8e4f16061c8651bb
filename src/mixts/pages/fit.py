"""The page of ``mixts fit``: earnings of policies, kinds of task, their check, and the logs."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import numpy as np

from mixts._version import __version__
from mixts.agents import policy_named
from mixts.diagnostics import PolicyComparison, advise
from mixts.families.noise import shown
from mixts.learning import PriorCheck
from mixts.learning.measures import RateCalibration
from mixts.logs.fitted import Fit
from mixts.pages.document import Figure, Report, Section, Table
from mixts.pages.formats import literal, percent, plural, signed
from mixts.pages.kinds import MOST_ITEMS, Kind, kinds_of
from mixts.pages.page import write_report
from mixts.pages.policies import policy_answer, policy_verdict
from mixts.plots import plot
from mixts.plots.style import svg_of

_MOST_TASKS = 5
"""Largest number of surprising tasks in the table."""


@dataclass(frozen=True)
class FitRun:
    """Facts about a fit that its page shows."""

    prior_file: Path
    """File that holds the prior."""
    reward: str
    """Name of the column of rewards."""
    command: str
    """Command that makes the same fit again."""
    seconds: float
    """Time that it took."""


def fit_kinds(fit: Fit) -> tuple[Kind, ...]:
    """Describe the kinds of a fitted prior in words."""
    return kinds_of(fit.prior, fit.training_tasks, fit.items, fit.n_kinds)


def described(fit: Fit) -> Fit:
    """Return the fit with sentences about its kinds in the prior, which the dashboard shows."""
    kinds = fit_kinds(fit)
    sentences = [kinds[g].headline for g in fit.prior.kind_indices]
    return replace(fit, prior=fit.prior.with_descriptions(sentences))


def write_fit_page(
    fit: Fit,
    path: str | os.PathLike[str],
    run: FitRun,
    comparison: PolicyComparison | None = None,
) -> None:
    """Write the page of a fit.

    Parameters
    ----------
    fit
        Result of :func:`mixts.fit_logs`.
    path
        File to write.
    run
        How the fit was made.
    comparison
        Result of :func:`mixts.diagnostics.compare_policies`; None if policies were not compared.
    """
    sections = [_selection_section(fit), _check_section(fit), _logs_section(fit)]
    kinds = fit_kinds(fit)
    report = Report(
        title=_title(fit),
        paragraphs=(),
        sections=tuple(section for section in sections if section is not None),
        versions=_versions(),
        settings=_settings(fit),
        command=run.command,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=run.seconds,
        summary=_summary(fit, kinds, comparison),
        warnings=tuple(f"Warning: {warning}" for warning in fit.warnings),
    )
    write_report(
        report,
        path,
        template="prior.html.jinja",
        kinds=kinds,
        item_heading="Feature" if fit.logs.arms is None else "Arm",
        mean_heading=_number(fit),
        facts=(plural(len(fit.logs.tasks), "task"), _items(fit), plural(fit.logs.n_rows, "row")),
        legend=_legend(fit, run.reward),
        code=_code(fit, run.prior_file, comparison),
        answer=None if comparison is None else policy_answer(comparison),
    )


# -- above the kinds ------------------------------------------------------------------------------


def _title(fit: Fit) -> str:
    n = fit.n_kinds
    return "There is one kind of task" if n == 1 else f"There are {n} kinds of task"


def _number(fit: Fit) -> str:
    """Name the number of an arm or feature that the page shows."""
    if fit.logs.arms is not None:
        return "mean"
    return "log odds" if fit.prior.family.link == "logit" else "coefficient"


def _items(fit: Fit) -> str:
    return plural(len(fit.items), "arm" if fit.logs.arms is not None else "feature")


def _summary(
    fit: Fit, kinds: tuple[Kind, ...], comparison: PolicyComparison | None
) -> tuple[str, ...]:
    advice = advise(fit, comparison)
    lines = [f"{advice}"]
    if comparison is not None:
        lines.append(" ".join(policy_verdict(comparison, usable=advice.answer != "no")))
    lines += [f"{kind}" for kind in kinds[: fit.n_kinds][:3]]
    left = fit.n_kinds - 3
    lines += [f"And {plural(left, 'more kind')}, below."] if left > 0 else []
    if not fit.converged:
        lines.append("Learning stopped before it converged: the numbers are provisional.")
    lines.append(
        "Not checked: no tasks were held out."
        if fit.check is None
        else f"Checked on {plural(fit.check.n_tasks, 'task')}. {' '.join(fit.check.findings)} "
        f"{fit.comparison}".rstrip()
    )
    bad, n = fit.logs.bad_rows.total, fit.logs.n_rows
    if bad:
        lines.append(f"{bad:,} of {n:,} rows of the logs were bad and left out; see below why.")
    return tuple(lines)


def _legend(fit: Fit, reward: str) -> str:
    linear = fit.logs.arms is None
    numbers = "Coefficients of features" if linear else f"Means of `{reward}`"
    if fit.prior.family.link == "logit":
        numbers = f"Coefficients of features, which add to the log odds of `{reward}`"
    if linear and fit.n_kinds > 1:
        numbers += (
            ", drawn by how far a kind is from the mean of all tasks, in standard deviations of "
            "all tasks"
        )
    elif linear:
        numbers += ", scaled so that features with different units can be compared"
    few = ""
    if len(fit.items) > MOST_ITEMS:
        few = f" Of {_items(fit)} the page shows those in which kinds differ most."
    return (
        f"{numbers}: the dot is the mean of a kind, the band holds 80 % of its tasks, and "
        f"the vertical line is the mean of all tasks.{few}"
    )


def agent_class(comparison: PolicyComparison | None) -> str:
    """Return the name of the class of the agent to start with."""
    return policy_named("ids" if comparison is None else comparison.agent).__name__


_NO_GAIN = {
    "loss": "In a replay of past tasks, the policy that never learns earned more than this agent.",
    "unclear": "In a replay of past tasks, this agent did not clearly earn more than the policy "
    "that never learns.",
    "none": "Nobody has measured what this agent earns.",
}


def _code(fit: Fit, prior_file: Path, comparison: PolicyComparison | None) -> str:
    """Return Python code that starts an agent from the prior."""
    lines = ["import mixts", "", f"prior = mixts.MixturePrior.load({str(prior_file)!r})"]
    outcome = "none" if comparison is None else comparison.outcome
    if advise(fit, comparison).answer == "no":
        lines.append("# Do not use this prior: the page begins with the reasons.")
    elif outcome != "gain":
        lines.append(f"# {_NO_GAIN[outcome]}")
    lines.append(f"agent = mixts.{agent_class(comparison)}(prior)")
    features = fit.prior.features
    if features is not None:
        lines += [
            f"# a description of each choice, with {', '.join(features.raw_names)}",
            f"actions = [{features.example()}, ...]",
            "chosen = agent.act(actions)",
            "agent.update(actions[chosen], reward)",
        ]
    else:
        lines += [
            "arm = agent.act()  # prior.arm_names[arm] is its name",
            "agent.update(arm, reward)",
        ]
    return "\n".join(lines)


# -- sections -------------------------------------------------------------------------------------


def _selection_section(fit: Fit) -> Section | None:
    selection = fit.learned.selection
    if selection is None or len(selection.candidates) < 2:
        return None
    text = (
        f"{fit.n_compared:,} tasks were divided into {selection.n_folds} parts. For each part, "
        f"mixtures of 1 to {selection.candidates[-1]} kinds were learned from the other parts, and "
        f"predicted its tasks. {selection.sentence}"
    )
    alone = len(selection.members) == 1
    notes = {
        n: " (chosen)" if alone else f" (weight {percent(weight)})"
        for n, weight in selection.members.items()
    }
    rows = tuple(
        (
            f"{candidate}{notes.get(candidate, '')}",
            signed(f"{mean:.3f}"),
            "–" if i == selection.best else f"{gap:.3f} ± {error:.3f}",
            f"{bic:,.1f}",
        )
        for i, (candidate, mean, gap, error, bic) in enumerate(
            zip(
                selection.candidates, selection.mean, selection.gap, selection.standard_error,
                selection.bic, strict=True,
            )
        )
    )  # fmt: skip
    caption = "Held-out log evidence per task, how much it is below the best, and BIC"
    columns = ("kinds", "per task", "below the best", "BIC")
    table = Table(columns, rows, f"{caption} (smaller is better).")
    values = ", ".join(
        f"{mean:.3f} with {candidate}"
        for candidate, mean in zip(selection.candidates, selection.mean, strict=True)
    )
    alt = f"Held-out log evidence per task by the number of kinds: {values}"
    figure = Figure(svg_of(plot(selection)), alt, f"{caption}.")
    return Section("selection", "How many kinds", "", (text,), (figure,), (table,))


def _check_section(fit: Fit) -> Section | None:
    check = fit.check
    if check is None:
        return None
    tables = [_evidence_table(check)]
    if check.rates is not None:
        tables.append(_rate_table(check.rates))
    surprising = [t for t in check.surprise.ranked()[:_MOST_TASKS] if check.surprise.surprising[t]]
    if surprising:
        tables.append(_surprise_table(fit, check, surprising))
    figure = Figure(
        svg_of(plot(check)), " ".join(check.findings),
        "Evidence beside other priors; calibration of predictions; "
        + ("click rates beside predicted rates; " if check.rates is not None else "")
        + "surprising tasks; number of tasks of each kind beside the number expected from its "
        "weight.",
    )  # fmt: skip
    text = (
        f"{plural(check.n_tasks, 'task')} {'was' if check.n_tasks == 1 else 'were'} held out: the "
        f"prior was not learned from them. {' '.join(check.findings)}"
    )
    return Section("check", "Is it any good?", "", (text,), (figure,), tuple(tables))


def _evidence_table(check: PriorCheck) -> Table:
    evidence = check.evidence
    rows = []
    for i, name in enumerate(evidence.names):
        gain = evidence.gain(name)
        rows.append(
            (
                name,
                signed(f"{evidence.per_task(name).mean:.3f}"),
                signed(f"{evidence.per_observation(name).mean:.4f}"),
                signed(f"{gain.mean:+.3f} ± {gain.error:.3f}") if i else "–",
            )
        )
    columns = ("prior", "per task", "per observation", "this prior's gain per task")
    caption = (
        "Held-out log evidence. UniTS has one kind; the flat prior of TS knows only the scale of "
        "rewards."
    )
    return Table(columns, tuple(rows), caption)


def _rate_table(rates: RateCalibration) -> Table:
    rows = tuple(
        (
            f"{n:,.0f}",
            f"{100 * predicted:.2f} %",
            f"{100 * clicked:.2f} ± {100 * error:.2f} %",
            signed(f"{distance:+.1f}"),
        )
        for n, predicted, clicked, error, distance in zip(
            rates.n_trials, rates.predicted, rates.clicked, rates.error, rates.distances,
            strict=True,
        )
    )  # fmt: skip
    caption = (
        "Predicted click rates in ten classes, beside the share that clicked. The error is that of "
        f"a right prior, whose gaps are as large as these with probability {rates.p_value:.2g}."
    )
    columns = ("observations", "predicted", "clicked", "gap / error")
    return Table(columns, rows, caption)


def _surprise_table(fit: Fit, check: PriorCheck, tasks: list[int]) -> Table:
    names = [fit.logs.tasks[i] for i in fit.held_out]
    rows = tuple(
        (
            literal(names[t]),
            f"{check.n_observations[t]:,}",
            f"{check.surprise.p_value[t]:.3f}",
            check.usage.names[check.component[t]] if check.component[t] >= 0 else "none",
        )
        for t in tasks
    )
    caption = (
        "The most surprising tasks: p is the probability that a task of this prior is as "
        "improbable."
    )
    columns = ("task", "observations", "p", "likely kind")
    return Table(columns, rows, caption, (False, True, True, False))


def _logs_section(fit: Fit) -> Section:
    logs = fit.logs
    n = np.asarray(logs.statistics.n_observations)
    low, middle, high = (f"{value:,.0f}" for value in (n.min(), np.median(n), n.max()))
    noun = "table" if any(not isinstance(log, str) for log in logs.files) else "file"
    text = (
        f"{plural(logs.n_rows, 'row')} of {plural(len(logs.files), noun)}, of "
        f"{plural(len(logs.tasks), 'task')} with {low} to {high} observations each (median "
        f"{middle}). Family of rewards: {logs.family}, because {logs.why}."
        + (f" {logs.missing}." if logs.missing else "")
        + (f" {logs.counted}." if logs.counted else "")
    )
    tables: tuple[Table, ...] = ()
    if logs.bad_rows:
        rows = tuple(
            (
                reason,
                f"{count:,}",
                "; ".join(literal(str(e)) for e in logs.bad_rows.examples[reason]),
            )
            for reason, count in sorted(logs.bad_rows.counts.items(), key=lambda e: (-e[1], e[0]))
        )
        caption = f"{logs.bad_rows.total:,} bad rows were left out: the reasons and first examples."
        tables = (Table(("reason", "rows", "first"), rows, caption, (False, True, False)),)
    return Section(
        "logs", "The logs", "", (text, *filter(None, [fit.once, fit.pooled])), (), tables
    )


# -- how it was made ------------------------------------------------------------------------------


def _settings(fit: Fit) -> Mapping[str, str]:
    settings, family = fit.settings, fit.prior.family
    found = {
        "family": type(family).__name__,
        "method": settings.method,
        "components": str(settings.n_components),
        "tasks learned from": f"{len(fit.training):,}",
        "tasks held out": f"{len(fit.held_out):,}",
        "seed": str(settings.seed),
    }
    if settings.is_refit:
        del found["method"], found["components"]
        found["earlier prior"] = f"counts as {fit.n_earlier:,.0f} tasks"
    known = family.settings()
    if "noise_std" in known:
        origin = "learned" if settings.noise_std is None else "given"
        found["noise"] = f"{known['noise_std']:.4g}, {origin}"
    if family.learning_settings().get("noise") == "per-task":
        typical, degrees = (shown(family.arrays()[name]) for name in ("noise_std", "degrees"))
        found["noise"] = f"{typical} with {degrees} degrees of freedom, of each task"
    if fit.noise is not None:
        found["noise compared"] = fit.noise.sentence.removeprefix("noise: ")
    if "covariance_type" in known:
        found["covariance"] = str(known["covariance_type"])
    if settings.robust:
        found["weight of the broad component"] = f"{settings.robust:g}"
    return found


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "mixts": __version__}
    return found | {name: metadata.version(name) for name in ("numpy", "scipy", "pyarrow")}
