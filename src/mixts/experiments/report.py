"""Reports about finished results: numbers and a template become the sections of a page.

A template is Markdown with Jinja variables. Paragraphs come first; then headings begin the other
pieces, in the order of the page::

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

Verdicts and figures come from the :class:`~mixts.experiments.base.Analysis`, by the same names. In
the line below a table's head ``--:`` marks a column of numbers and ``:--`` one of text; with plain
``---`` everywhere the page decides.
"""

from __future__ import annotations

import math
import platform
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixts._numbers import Estimate
from mixts.errors import FormatError, OutputError
from mixts.experiments.base import Analysis, Experiment, Measured, Setting
from mixts.experiments.registry import all_experiments
from mixts.experiments.store import Store, is_complete, now, read_manifest
from mixts.experiments.verdicts import RULES
from mixts.pages import Claim, Figure, Report, Section, Table
from mixts.plots import save_figure

TITLE = "Thompson Sampling with a Mixture Prior, measured again"
OTHER_TITLE = "Decisions under a mixture prior, measured"
"""Title of a report without experiments of the paper."""


# -- templates ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A rendered template, taken apart."""

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
        If the template has a claim without a verdict or a figure that was not drawn, or lacks one
        of those that the analysis has.
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
    text = _parsed(experiment.id, template.render(numbers), analysis.verdicts)
    drawn, shown = set(analysis.figures), {name for name, _, _ in text.figures}
    if drawn != shown:
        raise FormatError(
            f"the template of {experiment.id} shows the figures {sorted(shown)}, the analysis has "
            f"{sorted(drawn)}"
        )
    return text


def pm(value: Estimate, digits: int = 2) -> str:
    """Return a mean and its standard error: "1.20 ± 0.05"."""
    # No-break spaces: a line is not broken inside.
    return f"{value.mean:.{digits}f}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{value.error:.{digits}f}"


def signed(value: Estimate, digits: int) -> str:
    """Return a mean with its sign, and its standard error."""
    text = pm(value, digits)
    return text.replace("-", "−", 1) if value.mean < 0 else f"+{text}"


def number(value: float) -> str:
    """Return three digits, without an exponent where people would not write one."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _known(value: float, spec: str) -> str:
    return "–" if math.isnan(value) else format(value, spec)


_FILTERS: dict[str, Callable[..., str]] = {
    "pm": pm, "signed": signed, "number": number, "fmt": format, "known": _known,
}  # fmt: skip

_HEADING = re.compile(r"## (headline|claim|table|figure) *([^()\s]*(?: [^()\s]+)*) *(?:\((.*)\))?")


def _parsed(id: str, text: str, verdicts: Mapping[str, Any]) -> Text:
    """Take a rendered template apart."""
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
            first = fields.pop("", "")
            if kind == "figure":
                figures.append((name, fields.pop("alt", ""), first))
            elif name not in verdicts:
                raise FormatError(f"the template of {id} has a claim without a verdict: {name}")
            else:
                measured, note = fields.pop("measured", ""), fields.pop("note", "")
                claims[name] = Claim(place or "", first, measured, verdicts[name], note)
            if fields:
                raise FormatError(f"the template of {id}, {line}: unknown {', '.join(fields)}")
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
            yield _joined(paragraph)


def _joined(text: str) -> str:
    # Not str.split(): it would also break at no-break spaces.
    return re.sub(r"[ \t\n]+", " ", text).strip()


def _fields(body: str) -> dict[str, str]:
    """Return paragraphs by the word before their colon, the others together under ""."""
    fields: dict[str, str] = {}
    for paragraph in _paragraphs(body):
        match = re.match(r"(alt|measured|note): *", paragraph)
        key = match[1] if match else ""
        content = paragraph[match.end() :] if match else paragraph
        fields[key] = f"{fields[key]} {content}" if key in fields else content
    return {key: content for key, content in fields.items() if content or not key}


def _table(id: str, name: str, body: str) -> Table:
    lines = body.splitlines()
    head, rule, *rows = [line.strip() for line in lines if line.startswith("|")] or ["", ""]
    marks = rule.strip("|").split("|")
    if not all(re.fullmatch(":?--+:?", mark) for mark in marks):
        raise FormatError(f"the template of {id}, table {name}: expected a head and a rule below")
    numeric = tuple(mark.endswith(":") for mark in marks) if ":" in rule else None
    caption = _joined("\n".join(line for line in lines if not line.startswith("|")))
    return Table(_cells(head), tuple(_cells(row) for row in rows), caption, numeric)


def _cells(line: str) -> tuple[str, ...]:
    """Return the cells of a row; a bar without spaces around it belongs to a cell."""
    inside = line.removeprefix("| ").removesuffix(" |")
    return tuple(cell.strip(" ") for cell in inside.split(" | "))


# -- sections and the report ----------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """An experiment of the output folder, ready for the report."""

    section: Section
    setting: Setting
    headline: str
    versions: Mapping[str, str]
    stale: bool
    """Whether its results come from other code or libraries than the present ones."""


def write_sections(
    folder: Path,
    known: Mapping[str, Experiment],
    wanted: Collection[str],
    say: Callable[[str], None],
) -> tuple[tuple[Written, ...], dict[str, str]]:
    """Analyse every experiment in the folder, also those of earlier commands.

    Parameters
    ----------
    folder
        Output folder.
    known
        Experiments by id.
    wanted
        Ids of this command: their errors are raised, others are left out of the report.
    say
        Called with each message about the progress.

    Returns
    -------
    The complete experiments, and for each of the others the reason why it is left out.
    """
    written, left_out = [], {}
    for id, experiment in known.items():
        if not (folder / id).exists():
            continue
        try:
            if not is_complete(folder / id):
                left_out[id] = "not finished"
                continue
            say(f"{id}: analysing")
            written.append(_written(folder, experiment))
        except OutputError as error:
            if id in wanted:
                raise
            left_out[id] = str(error)
            say(f"{id}: left out of the report: {error}")
    return tuple(written), left_out


def _written(folder: Path, experiment: Experiment) -> Written:
    manifest = read_manifest(folder / experiment.id)
    setting = Setting(**manifest["settings"], sources=manifest.get("sources", {}))
    store = Store(folder, experiment, setting)
    parts, seconds = {}, 0.0
    for name, n_blocks in manifest["parts"].items():
        parts[name], spent = store.part(name, n_blocks)
        seconds += spent
    try:
        analysis = experiment.analyse(Measured(setting, parts, store.kept()))
    except Exception as error:
        if store.is_of_this_code:
            raise
        raise OutputError(
            f"{store.folder} has results of other code, which the present code cannot analyse "
            f"({error!r}): remove that folder, or choose another --out"
        ) from error
    text = render_text(experiment, analysis)
    section = Section(
        experiment.id, experiment.title, experiment.place,
        paragraphs=text.paragraphs,
        figures=_figures(folder, experiment, analysis, text),
        tables=text.tables,
        claims=text.claims,
        settings=_settings(experiment, setting, manifest, store.is_of_this_code),
        command=_command_of(experiment, setting),
        seconds=seconds,
    )  # fmt: skip
    stale = not store.is_of_this_code
    return Written(section, setting, text.headline, manifest["versions"], stale)


def _figures(
    folder: Path, experiment: Experiment, analysis: Analysis, text: Text
) -> tuple[Figure, ...]:
    figures = []
    for name, alt, caption in text.figures:
        files = save_figure(analysis.figures[name], folder / experiment.id / name)
        links = tuple(path.relative_to(folder).as_posix() for path in files)
        figures.append(Figure(files[0].read_bytes(), alt, caption, links))
    return tuple(figures)


def _settings(
    experiment: Experiment, setting: Setting, manifest: Mapping[str, Any], present: bool
) -> dict[str, str]:
    scale = experiment.scale
    full = setting.n_runs >= scale.n_runs and setting.n_rounds >= scale.n_rounds
    begun = str(manifest.get("made", "")).partition("+")[0].replace("T", " ")
    return {
        "runs": f"{setting.n_runs:,}" + ("" if full else " (not the full scale)"),
        "rounds": f"{setting.n_rounds:,}",
        "seed": str(setting.seed),
        **setting.choices,
        "begun": f"{begun} UTC",
        "hash of the source": manifest["code"] + ("" if present else " (not the present code)"),
    }


def _command_of(experiment: Experiment, setting: Setting) -> str:
    """Return the command that computes an experiment's numbers again."""
    words = ["mixts", "reproduce", experiment.address or experiment.id]
    words += ["--runs", str(setting.n_runs), "--rounds", str(setting.n_rounds)]
    words += ["--seed", str(setting.seed)]
    for name, value in setting.sources.items():
        words += option_words(name, value)
    return shlex.join(words)


def option_words(name: str, value: str) -> list[str]:
    """Return an experiment's own option as words of the command line."""
    return ["--features", value] if name == "features" else ["--option", f"{name}={value}"]


def report_of(
    written: Sequence[Written], left_out: Mapping[str, str], command: str, seconds: float
) -> Report:
    """Return the report of all sections; ``command`` was the last one and took ``seconds``."""
    sections = tuple(one.section for one in written)
    rules = Section("verdicts", "How verdicts are made", "all parts", RULES)
    judged = any(section.claims for section in sections)
    of_paper = any(section.id in all_experiments() for section in sections)
    return Report(
        TITLE if of_paper else OTHER_TITLE,
        _introduction(written, left_out),
        (*sections, rules) if judged else sections,
        {**_versions(written), "system": f"{platform.system()} {platform.machine()}"},
        {"seed": ", ".join(sorted({str(one.setting.seed) for one in written}))},
        command,
        now(),
        seconds,
        summary=tuple(one.headline for one in written if one.headline),
        processor_seconds=sum(section.seconds or 0.0 for section in sections),
        warnings=_warnings(written),
    )


def _warnings(written: Sequence[Written]) -> tuple[str, ...]:
    """Return a warning if sentences of the present code stand beside numbers of other code."""
    stale = [one.section.id for one in written if one.stale]
    if not stale:
        return ()
    links = ", ".join(f"[`{id}`](#{id})" for id in stale)
    return (
        f"The numbers of {links} were computed by other code or other libraries than those that "
        "wrote this page. They may not match the text. To compute them again, remove the folder of "
        "the experiment and repeat the command.",
    )


def _versions(written: Sequence[Written]) -> dict[str, str]:
    """Return the versions of all sections; where they differ, all of them."""
    found: dict[str, list[str]] = {}
    for one in written:
        for name, version in one.versions.items():
            if version not in found.setdefault(name, []):
                found[name].append(version)
    return {name: ", ".join(versions) for name, versions in found.items()}


def _subject(ids: set[str]) -> str:
    """Return a sentence about the experiments in the report."""
    paper = all_experiments().keys()
    others = len(ids - paper)
    more = f"{others} experiment{'s' if others > 1 else ''} with priors learned from past tasks"
    if not ids & paper:
        return f"{more[0].upper()}{more[1:]}, run with `mixts`."
    what = "Every experiment" if paper <= ids else f"{len(ids & paper)} of {len(paper)} experiments"
    return (
        f"{what} on Hong, Kveton, Zaheer, Ghavamzadeh and Boutilier, Thompson Sampling with a "
        "Mixture Prior (AISTATS 2022), run again with `mixts`: those of its Section 6, and what "
        f"its Sections 1, 4 and 5 say that can be measured{f'; and {more}' if others else ''}."
    )


def _introduction(written: Sequence[Written], left_out: Mapping[str, str]) -> tuple[str, ...]:
    ids = {one.section.id for one in written}
    sweeps = (
        ", and ×3 means three times as much at the last point of a sweep as at the first"
        if ids & all_experiments().keys()
        else ""
    )
    paragraphs = [
        f"{_subject(ids)} Each claim stands beside what was measured; ± is one standard error over "
        f"runs{sweeps}."
    ]
    if any(one.section.claims for one in written):
        paragraphs.append(
            "[How verdicts are made](#verdicts) gives the rules by which a claim holds, holds in "
            "its direction only, is undecided, or does not hold."
        )
    paragraphs.append(
        "All parts share one seed, and so their luck: simulations that occur in two parts have the "
        "same random numbers."
    )
    paragraphs += [f"Not in this report: `{id}`, {why}." for id, why in left_out.items()]
    return tuple(paragraphs)
