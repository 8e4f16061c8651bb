"""Reports on finished experiments: a section each, made from its numbers and its template.

A template is Markdown with Jinja variables. It begins with the paragraphs of the introduction;
every heading after them begins one more piece of the section::

    ## headline
    One sentence for the top of the report.

    ## figure regret
    alt: Description for readers who cannot see the figure.

    Caption.

    ## claim shape (Sec. 6.1)
    The claim.

    measured: The numbers.

    note: A remark, if there is one.

    ## table regret
    Caption.

    | width | regret |
    |---|--:|
    | 0.05 | 1.2 ± 0.1 |

The name in a heading finds the claim's verdict, or the figure, in the
:class:`~mixts_paper.experiments.base.Analysis`. In the line below a table's head ``--:`` marks a
column of numbers and ``:--`` a column of text; if no column is marked, the page decides from the
cells.
"""

from __future__ import annotations

import math
import platform
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mixts.errors import FormatError, OutputError
from mixts.extend import Estimate
from mixts.pages import Claim, Figure, Report, Section, Table
from mixts.plots import save_figure
from mixts_paper.experiments.base import (
    GROUPS,
    Analysis,
    Experiment,
    Measured,
    Scale,
    Setting,
    all_experiments,
    group_of,
)
from mixts_paper.experiments.store import Store, now
from mixts_paper.experiments.verdicts import RULES

TITLE = "Thompson Sampling with a Mixture Prior, measured again"
OTHER_TITLE = "Decisions under a mixture prior, measured"
"""Title of a report without experiments of the paper."""


# -- templates ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """Pieces of a rendered template."""

    paragraphs: tuple[str, ...]
    headline: str
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...]
    figures: tuple[tuple[str, str, str], ...]
    """Name, alternative text and caption."""


def render_text(experiment: Experiment, analysis: Analysis) -> Text:
    """Render an experiment's template with the numbers of an analysis.

    Raises
    ------
    FormatError
        If the claims and figures of the template are not those of the analysis.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(_FILTERS)
    if experiment.template:
        template = environment.from_string(experiment.template)
    else:
        path = experiment.template_path()
        environment.loader = FileSystemLoader(path.parent)
        template = environment.get_template(path.name)
    numbers = {**analysis.numbers, "verdicts": analysis.verdicts}
    text = _parse(experiment.id, template.render(numbers), analysis.verdicts)
    drawn, shown = set(analysis.figures), {name for name, _, _ in text.figures}
    if drawn != shown:
        raise FormatError(
            f"the template of {experiment.id} shows the figures {sorted(shown)}, the analysis has "
            f"{sorted(drawn)}"
        )
    return text


def pm(value: Estimate, digits: int = 2) -> str:
    """Return a mean and its standard error: "1.20 ± 0.05"."""
    # No-break spaces keep the three words on one line.
    text = f"{value.mean:.{digits}f}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{value.error:.{digits}f}"
    return text.replace("-", "−")


def signed(value: Estimate, digits: int) -> str:
    """Return a mean with its sign, and its standard error."""
    return ("" if value.mean < 0 else "+") + pm(value, digits)


def number(value: float) -> str:
    """Return a number with three digits; from 100 on as a whole number, never with an exponent."""
    return (f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}").replace("-", "−")


def _known(value: float, spec: str) -> str:
    """Format a number; return a dash for NaN, which means that the number is not known."""
    return "–" if math.isnan(value) else format(value, spec)


_FILTERS: dict[str, Callable[..., str]] = {
    "pm": pm, "signed": signed, "number": number, "fmt": format, "known": _known,
}  # fmt: skip

_HEADING = re.compile(r"## (headline|claim|table|figure) *([^()\s]*(?: [^()\s]+)*) *(?:\((.*)\))?")


def _parse(id: str, text: str, verdicts: Mapping[str, Any]) -> Text:
    """Split a rendered template into its pieces."""
    introduction, *blocks = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    headline = ""
    claims: dict[str, Claim] = {}
    tables, figures = [], []
    for block in blocks:
        line, _, body = block.partition("\n")
        heading = _HEADING.fullmatch(line.strip())
        if heading is None:
            raise FormatError(f"the template of {id} has an unknown heading: {line}")
        kind, name, place = heading.groups()
        if kind == "headline":
            headline = " ".join(body.split())
        elif kind == "table":
            tables.append(_table(id, name, body))
        else:
            fields = _fields(body)
            unlabelled = fields.pop("", "")
            if kind == "figure":
                figures.append((name, fields.pop("alt", ""), unlabelled))
            elif name not in verdicts:
                raise FormatError(f"the template of {id} has a claim without a verdict: {name}")
            else:
                measured, note = fields.pop("measured", ""), fields.pop("note", "")
                claims[name] = Claim(place or "", unlabelled, measured, verdicts[name], note)
            if fields:
                raise FormatError(
                    f"the template of {id}, {line}: this heading has no field {', '.join(fields)}"
                )
    missing = [name for name in verdicts if name not in claims]
    if missing:
        raise FormatError(f"the template of {id} lacks the claims {', '.join(missing)}")
    return Text(
        tuple(_paragraphs(introduction)), headline, tuple(claims.values()), tuple(tables),
        tuple(figures),
    )  # fmt: skip


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.strip():
            yield _on_one_line(paragraph)


def _on_one_line(text: str) -> str:
    # str.split() would also split at the no-break spaces of `pm`.
    return re.sub(r"[ \t\n]+", " ", text).strip()


def _fields(body: str) -> dict[str, str]:
    """Return labelled paragraphs ("note: ...") by label, and the unlabelled ones under ""."""
    fields: dict[str, str] = {}
    for paragraph in _paragraphs(body):
        match = re.match(r"(alt|measured|note): *", paragraph)
        label = match[1] if match else ""
        content = paragraph[match.end() :] if match else paragraph
        fields[label] = f"{fields[label]} {content}" if label in fields else content
    return {label: content for label, content in fields.items() if content or not label}


def _table(id: str, name: str, body: str) -> Table:
    lines = body.splitlines()
    head, rule, *rows = [line.strip() for line in lines if line.startswith("|")] or ["", ""]
    marks = rule.strip("|").split("|")
    if not all(re.fullmatch(":?--+:?", mark) for mark in marks):
        raise FormatError(f"the template of {id}, table {name}: expected a head and a rule below")
    numeric = tuple(mark.endswith(":") for mark in marks) if ":" in rule else None
    caption = _on_one_line("\n".join(line for line in lines if not line.startswith("|")))
    return Table(_cells(head), tuple(_cells(row) for row in rows), caption, numeric)


def _cells(line: str) -> tuple[str, ...]:
    """Split a row at " | "; a bar without spaces around it is part of a cell, as in |x|."""
    inside = line.removeprefix("| ").removesuffix(" |")
    return tuple(cell.strip(" ") for cell in inside.split(" | "))


# -- sections and the report ----------------------------------------------------------------------


@dataclass(frozen=True)
class AnalysedExperiment:
    """A complete experiment of the output folder, analysed for the report."""

    section: Section
    headline: str
    seed: int
    versions: Mapping[str, str]
    stale: bool
    """Whether other code or libraries than the present ones computed its results."""


def analyse_folder(
    folder: Path,
    known: Mapping[str, Experiment],
    wanted: Collection[str],
    say: Callable[[str], None],
) -> tuple[tuple[AnalysedExperiment, ...], dict[str, str]]:
    """Analyse every experiment in the folder, including those of earlier commands.

    Parameters
    ----------
    folder
        Output folder.
    known
        Experiments by id.
    wanted
        Ids of this command. If one of them cannot be analysed, its error is raised; any other
        experiment is left out of the report instead.
    say
        Called with each message about the progress.

    Returns
    -------
    The analysed experiments; and by id, why each other experiment is left out.
    """
    analysed, left_out = [], {}
    for id, experiment in known.items():
        if not (folder / id).exists():
            continue
        try:
            store = Store.finished(folder, experiment)
            if store is None:
                left_out[id] = "not finished"
                continue
            say(f"{id}: analysing")
            analysed.append(_analyse(folder, experiment, store))
        except OutputError as error:
            if id in wanted:
                raise
            left_out[id] = str(error)
            say(f"{id}: left out of the report: {error}")
    return tuple(analysed), left_out


def _analyse(folder: Path, experiment: Experiment, store: Store) -> AnalysedExperiment:
    manifest, setting, stale = store.manifest, store.setting, not store.is_of_this_code
    parts = {name: store.part(name, n) for name, n in manifest["parts"].items()}
    arrays = {name: one for name, (one, _) in parts.items()}
    try:
        analysis = experiment.analyse(Measured(setting, arrays, store.kept()))
    except Exception as error:
        if not stale:
            raise
        raise OutputError(
            f"other code computed the results in {store.folder}, and the present code cannot "
            f"analyse them ({error!r}): remove that folder, or choose another --out"
        ) from error
    text = render_text(experiment, analysis)
    figures = []
    for name, alt, caption in text.figures:
        saved = save_figure(analysis.figures[name], store.folder / name)
        links = tuple(path.relative_to(folder).as_posix() for path in saved)
        figures.append(Figure(saved[0].read_bytes(), alt, caption, links))
    section = Section(
        experiment.id, experiment.title, experiment.place,
        paragraphs=text.paragraphs,
        figures=tuple(figures),
        tables=text.tables,
        claims=text.claims,
        settings=_settings(experiment.scale, setting, manifest, stale),
        command=command_line(
            [experiment.address or experiment.id], setting.sources,
            runs=setting.n_runs, rounds=setting.n_rounds, seed=setting.seed,
        ),
        seconds=sum(seconds for _, seconds in parts.values()),
        part=GROUPS.get(group_of(experiment.id), ""),
    )  # fmt: skip
    return AnalysedExperiment(section, text.headline, setting.seed, manifest["versions"], stale)


def _settings(
    scale: Scale, setting: Setting, manifest: Mapping[str, Any], stale: bool
) -> dict[str, str]:
    is_full = setting.n_runs >= scale.n_runs and setting.n_rounds >= scale.n_rounds
    begun = str(manifest.get("made", "")).partition("+")[0].replace("T", " ")
    return {
        "runs": f"{setting.n_runs:,}" + ("" if is_full else " (not the full scale)"),
        "rounds": f"{setting.n_rounds:,}",
        "seed": str(setting.seed),
        **setting.choices,
        "begun": f"{begun} UTC",
        "hash of the source": manifest["code"] + (" (not the present code)" if stale else ""),
    }


def command_line(
    names: Sequence[str], choices: Mapping[str, Any], quick: bool = False, **numbers: int | None
) -> str:
    """Return the command for experiments with their own options and these numbers."""
    words = ["mixts", "reproduce", *names, *(["--quick"] if quick else [])]
    for name, number in numbers.items():
        words += [] if number is None else [f"--{name}", str(number)]
    for name, value in choices.items():
        own = name == "features"
        words += ["--features", str(value)] if own else ["--option", f"{name}={value}"]
    return shlex.join(words)


def report_of(
    analysed: Sequence[AnalysedExperiment],
    left_out: Mapping[str, str],
    command: str,
    seconds: float,
) -> Report:
    """Return the report on all experiments; ``command`` made it, in ``seconds``."""
    sections = tuple(one.section for one in analysed)
    if len({section.part for section in sections}) == 1:
        sections = tuple(replace(section, part="") for section in sections)
    judged = any(section.claims for section in sections)
    rules = (Section("verdicts", "How verdicts are made", "all parts", RULES),) if judged else ()
    found: dict[str, dict[str, None]] = {}
    for one in analysed:
        for name, version in one.versions.items():
            found.setdefault(name, {})[version] = None
    versions = {name: ", ".join(several) for name, several in found.items()}
    of_paper = any(group_of(section.id) == "paper" for section in sections)
    return Report(
        TITLE if of_paper else OTHER_TITLE,
        _introduction({section.id for section in sections}, judged, left_out),
        (*sections, *rules),
        {**versions, "system": f"{platform.system()} {platform.machine()}"},
        {"seed": ", ".join(sorted({str(one.seed) for one in analysed}))},
        command,
        now(),
        seconds,
        summary=tuple(one.headline for one in analysed if one.headline),
        processor_seconds=sum(section.seconds or 0.0 for section in sections),
        warnings=_warnings([one.section.id for one in analysed if one.stale]),
    )


def _warnings(stale: Sequence[str]) -> tuple[str, ...]:
    """Return a warning if other code than the present code computed some of the numbers."""
    links = ", ".join(f"[`{id}`](#{id})" for id in stale)
    text = (
        f"The numbers of {links} were computed by other code or other libraries than those that "
        "wrote this page. They may not match the text. To compute them again, remove the folder of "
        "the experiment and repeat the command."
    )
    return (text,) if stale else ()


def _introduction(ids: set[str], judged: bool, left_out: Mapping[str, str]) -> tuple[str, ...]:
    known = {id for id in all_experiments() if group_of(id) == "paper"}
    mine, others = ids & known, ids - known
    subject = "Experiments on decisions under a mixture prior, run with `mixts`."
    if mine:
        share = "Every experiment" if known <= ids else f"{len(mine)} of {len(known)} experiments"
        subject = (
            f"{share} on Hong, Kveton, Zaheer, Ghavamzadeh and Boutilier, Thompson Sampling with a "
            "Mixture Prior (AISTATS 2022), run again with `mixts`: the experiments of its Section "
            "6, and measurable claims of its Sections 1, 4 and 5"
            + (f"; and {len(others)} beyond it." if others else ".")
        )
    paragraphs = [
        f"{subject} Each claim stands beside what was measured; ± is one standard error over runs"
        + (
            ", and ×3 means that the last point of a sweep is three times the first."
            if mine
            else "."
        )
    ]
    if judged:
        paragraphs.append(
            "[How verdicts are made](#verdicts) gives the rules by which a claim holds, holds in "
            "its direction only, is undecided, or does not hold."
        )
    paragraphs.append(
        "All parts share one seed: a simulation that occurs in two parts has the same random "
        "numbers in both."
    )
    paragraphs += [f"Not in this report: `{id}`, {why}." for id, why in left_out.items()]
    return tuple(paragraphs)
