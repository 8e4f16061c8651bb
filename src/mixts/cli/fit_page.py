"""The page of ``mixts fit``: what was found, drawn and set."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mixts._version import __version__
from mixts.cli.fitting import Fitted
from mixts.learning import Selection
from mixts.learning.check import PriorCheck
from mixts.pages import Figure, Report, Section, Table
from mixts.pages.kinds import MOST_ITEMS
from mixts.pages.prior_page import PriorPage, write_prior_page
from mixts.plots import plot, save_figure

_MOST_TASKS = 5
"""Surprising ones that are named."""


def write_page(
    fitted: Fitted, path: Path, out: Path, reward: str, command: str, seconds: float
) -> None:
    """Write the page about a prior that is in the file ``out``."""
    sections = [_selection_section(fitted), _check_section(fitted), _logs_section(fitted)]
    n = fitted.n_kinds
    report = Report(
        title="There is one kind of task" if n == 1 else f"There are {n} kinds of task",
        paragraphs=(),
        sections=tuple(section for section in sections if section is not None),
        versions=_versions(),
        settings=_settings(fitted),
        command=command,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=seconds,
        summary=_summary(fitted),
    )
    linear = fitted.logs.arms is None
    page = PriorPage(
        report,
        fitted.kinds,
        "Feature" if linear else "Arm",
        "coefficient" if linear else "mean",
        _facts(fitted),
        _legend(fitted, reward),
        use_code(fitted, out),
    )
    write_prior_page(page, path)


def use_code(fitted: Fitted, out: Path) -> str:
    """How an agent starts from the prior."""
    lines = [
        "import mixts", "",
        f"prior = mixts.MixturePrior.load({str(out)!r})",
        "agent = mixts.MixTS(prior)",
    ]  # fmt: skip
    if fitted.logs.features is not None:
        names = ", ".join(fitted.logs.features)
        lines += [
            f"# a row of features for each choice: {names}",
            "row = agent.act(actions)",
            "agent.update(actions[row], reward)",
        ]
    else:
        lines += [
            "arm = agent.act()  # prior.arm_names[arm] is its name",
            "agent.update(arm, reward)",
        ]
    return "\n".join(lines)


# -- what is above the kinds ----------------------------------------------------------------------


def _facts(fitted: Fitted) -> tuple[str, ...]:
    logs = fitted.logs
    items = f"{fitted.n_items:,} {'arms' if logs.arms is not None else 'features'}"
    return (f"{len(logs.tasks):,} tasks", items, f"{logs.n_rows:,} rows")


def _summary(fitted: Fitted) -> tuple[str, ...]:
    said = [f"{kind}" for kind in fitted.kinds[: fitted.n_kinds][:3]]
    left = fitted.n_kinds - 3
    said += [f"And {left} more kinds, below."] if left > 0 else []
    if not fitted.converged:
        said.append("Learning had not converged when it stopped: the numbers are provisional.")
    said.append(
        "Not checked: no tasks were held out."
        if fitted.check is None
        else f"Checked on {fitted.check.n_tasks:,} tasks. {fitted.check.findings[0]}"
    )
    bad, n = fitted.logs.bad_rows.total, fitted.logs.n_rows
    if bad:
        said.append(f"{bad:,} of {n:,} rows of the logs were bad, and left out; see below why.")
    return tuple(said)


def _legend(fitted: Fitted, reward: str) -> str:
    what = "Coefficients of features" if fitted.logs.arms is None else f"Means of `{reward}`"
    scaled = (
        ", on a scale on which features of different units can be compared"
        if fitted.logs.arms is None
        else ""
    )
    left = fitted.n_items - MOST_ITEMS
    noun = "features" if fitted.logs.arms is None else "arms"
    few = f" Of {fitted.n_items:,} {noun} those are shown in which kinds differ most." * (left > 0)
    return (
        f"{what}{scaled}: the dot is the mean of a kind, the band around it has 80 % of its tasks, "
        f"and the upright line is the mean of all tasks.{few}"
    )


# -- sections -------------------------------------------------------------------------------------


def _selection_section(fitted: Fitted) -> Section | None:
    selection = fitted.learned.selection
    if selection is None or len(selection.candidates) < 2:
        return None
    largest = selection.candidates[-1]
    best = selection.candidates[selection.best]
    text = (
        f"{fitted.n_compared:,} tasks were divided into {selection.n_folds} parts. Mixtures of 1 "
        f"to {largest} kinds were learned without one of them, and asked how probable its tasks "
        "are, part by part. "
    )
    text += (
        f"{best} {'kind says' if best == 1 else 'kinds say'} most"
        if best == selection.chosen
        else f"{best} kinds say most, but {selection.chosen} no more than one standard error less"
    )
    rows = tuple(
        (
            f"{candidate}{' (chosen)' if candidate == selection.chosen else ''}",
            _signed(f"{mean:.3f}"),
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
    caption = "Held-out log evidence a task, how much it is below the best, and BIC"
    table = Table(
        ("kinds", "a task", "below the best", "BIC"), rows, f"{caption} (less is better)."
    )
    figure = Figure(_svg(selection), _selection_alt(selection), f"{caption}.")
    return Section("selection", "How many kinds", "", (f"{text}.",), (figure,), (table,))


def _selection_alt(selection: Selection) -> str:
    values = ", ".join(
        f"{mean:.3f} with {candidate}"
        for candidate, mean in zip(selection.candidates, selection.mean, strict=True)
    )
    return f"Held-out log evidence a task by the number of kinds: {values}"


def _check_section(fitted: Fitted) -> Section | None:
    check = fitted.check
    if check is None:
        return None
    tables = [_evidence_table(check)]
    names = [fitted.logs.tasks[i] for i in fitted.held_out]
    surprising = [t for t in check.surprise.ranked()[:_MOST_TASKS] if check.surprise.surprising[t]]
    if surprising:
        rows = tuple(
            (
                _plain(names[t]),
                f"{check.n_observations[t]:,}",
                f"{check.surprise.p_value[t]:.3f}",
                check.usage.names[check.component[t]] if check.component[t] >= 0 else "none",
            )
            for t in surprising
        )
        caption = "The most surprising tasks: how likely one so improbable is, and its likely kind."
        columns = ("task", "observations", "p", "likely kind")
        tables.append(Table(columns, rows, caption, (False, True, True, False)))
    figure = Figure(
        _svg(check), " ".join(check.findings),
        "Evidence beside other priors; calibration of predictions; surprising tasks; and how many "
        "tasks come from each kind beside what its weight says.",
    )  # fmt: skip
    text = (
        f"{check.n_tasks:,} tasks were held out: the prior was not learned from them. "
        + " ".join(check.findings)
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
                _signed(f"{evidence.a_task(name).mean:.3f}"),
                _signed(f"{evidence.an_observation(name).mean:.4f}"),
                _signed(f"{gain.mean:+.3f} ± {gain.error:.3f}") if i else "–",
            )
        )
    columns = ("prior", "a task", "an observation", "this prior's gain a task")
    caption = "Held-out log evidence. UniTS has one kind; the flat prior of TS knows nothing."
    return Table(columns, tuple(rows), caption)


def _logs_section(fitted: Fitted) -> Section:
    logs = fitted.logs
    n = np.asarray(logs.statistics.n_observations)
    low, middle, high = (f"{value:,.0f}" for value in (n.min(), np.median(n), n.max()))
    files = f"{len(logs.files):,} file{'s' * (len(logs.files) != 1)}"
    text = (
        f"{logs.n_rows:,} rows of {files}, of {len(logs.tasks):,} tasks: "
        f"from {low} to {high} observations a task, half of them {middle} or fewer. Rewards are "
        f"taken as {logs.family}: {logs.why}."
    )
    tables: tuple[Table, ...] = ()
    if logs.bad_rows:
        rows = tuple(
            (
                reason,
                f"{count:,}",
                "; ".join(_plain(str(e)) for e in logs.bad_rows.examples[reason]),
            )
            for reason, count in sorted(logs.bad_rows.counts.items(), key=lambda e: (-e[1], e[0]))
        )
        caption = f"{logs.bad_rows.total:,} bad rows were left out: why, and the first of them."
        tables = (Table(("reason", "rows", "first"), rows, caption, (False, True, False)),)
    return Section("logs", "The logs", "", (text,), (), tables)


# -- settings -------------------------------------------------------------------------------------


def _settings(fitted: Fitted) -> Mapping[str, str]:
    settings, family = fitted.settings, fitted.prior.family
    found = {
        "family": type(family).__name__,
        "method": settings.method,
        "components": str(settings.components),
        "tasks learned from": f"{len(fitted.training):,}",
        "tasks held out": f"{len(fitted.held_out):,}",
        "seed": str(settings.seed),
    }
    known: dict[str, Any] = family.settings()
    if "noise_std" in known:
        origin = "learned" if settings.noise_std is None else "given"
        found["noise"] = f"{known['noise_std']:.4g}, {origin}"
    if "covariance_type" in known:
        found["covariance"] = str(known["covariance_type"])
    if settings.robust:
        found["weight of the broad component"] = f"{settings.robust:g}"
    return found


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "mixts": __version__}
    return found | {name: metadata.version(name) for name in ("numpy", "scipy", "numba", "pyarrow")}


def _svg(result: Selection | PriorCheck) -> bytes:
    with TemporaryDirectory() as folder:
        svg, _ = save_figure(plot(result), Path(folder) / "figure")
        return svg.read_bytes()


def _signed(number: str) -> str:
    """With a minus that is as wide as a plus."""
    return number.replace("-", "−")


def _plain(text: str) -> str:
    """Words of others, in which nothing is to be set as code or links."""
    return text.replace("`", "'").replace("[", "(").replace("]", ")")
