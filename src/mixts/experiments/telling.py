"""The experiments of a folder as a report tells them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixts.errors import OutputError
from mixts.experiments import provenance
from mixts.experiments.base import Experiment, Findings, Measured, Setting
from mixts.experiments.registry import all_experiments
from mixts.experiments.store import Store, is_complete, now, read_manifest
from mixts.experiments.verdicts import RULES
from mixts.pages import Figure, Report, Section
from mixts.plots import save_figure

TITLE = "Thompson Sampling with a Mixture Prior, measured again"
OTHER_TITLE = "Decisions under a mixture prior, measured"
"""Where nothing of the paper's is told."""


@dataclass(frozen=True)
class Told:
    """An experiment of the folder as a report tells it."""

    section: Section
    setting: Setting
    headline: str
    versions: Mapping[str, str]


def tell(
    folder: Path,
    known: Mapping[str, Experiment],
    wanted: Collection[str],
    say: Callable[[str], None],
) -> tuple[tuple[Told, ...], dict[str, str]]:
    """Every experiment that the folder has, also of earlier commands; and which not, and why.

    What was not asked for never stops what was.
    """
    told, left_out = [], {}
    for id, experiment in known.items():
        if not (folder / id).exists():
            continue
        try:
            if not is_complete(folder / id):
                left_out[id] = "not finished"
                continue
            say(f"{id}: analysing")
            told.append(_one(folder, experiment))
        except OutputError as error:
            if id in wanted:
                raise
            left_out[id] = str(error)
            say(f"{id}: left out of the report: {error}")
    return tuple(told), left_out


def _one(folder: Path, experiment: Experiment) -> Told:
    manifest = read_manifest(folder / experiment.id)
    setting = Setting(**manifest["settings"], sources=manifest.get("sources", {}))
    store = Store(folder, experiment, setting)
    parts, seconds = {}, 0.0
    for name, n_blocks in manifest["parts"].items():
        parts[name], spent = store.part(name, n_blocks)
        seconds += spent
    scale = experiment.scale
    complete = setting.n_runs >= scale.n_runs and setting.n_rounds >= scale.n_rounds
    measured = Measured(setting, parts, store.kept())
    try:
        findings = experiment.analyse(measured)
    except Exception as error:
        if store.is_of_this_code:
            raise
        raise OutputError(
            f"{store.folder} has results of other code, which do not fit ({error!r}): remove that "
            "folder, or choose another --out"
        ) from error
    section = Section(
        experiment.id,
        experiment.title,
        experiment.place,
        findings.paragraphs,
        _figures(folder, experiment, findings),
        findings.tables,
        findings.claims,
        _described(setting, complete, manifest, store.is_of_this_code),
        command_of([experiment.address or experiment.id], setting),
        seconds,
    )
    return Told(section, setting, findings.headline, manifest["versions"])


def _figures(folder: Path, experiment: Experiment, findings: Findings) -> tuple[Figure, ...]:
    figures = []
    for drawing in findings.drawings:
        files = save_figure(drawing.figure, folder / experiment.id / drawing.name)
        links = tuple(path.relative_to(folder).as_posix() for path in files)
        figures.append(Figure(files[0].read_bytes(), drawing.alt, drawing.caption, links))
    return tuple(figures)


def _described(
    setting: Setting, complete: bool, manifest: Mapping[str, Any], present: bool
) -> dict[str, str]:
    begun = str(manifest.get("made", "")).partition("+")[0].replace("T", " ")
    return {
        "runs": f"{setting.n_runs:,}" + ("" if complete else " (not the full scale)"),
        "rounds": f"{setting.n_rounds:,}",
        "seed": str(setting.seed),
        **setting.choices,
        "begun": f"{begun} UTC",
        "hash of the source": manifest["code"] + ("" if present else " (not the present code)"),
    }


def command_of(ids: Sequence[str], setting: Setting) -> str:
    """The command that gives an experiment's numbers again."""
    words = ["mixts", "reproduce", *ids, "--runs", str(setting.n_runs)]
    words += ["--rounds", str(setting.n_rounds), "--seed", str(setting.seed)]
    for name, value in setting.sources.items():
        words += option_words(name, value)
    return shlex.join(words)


def option_words(name: str, value: str) -> list[str]:
    """Return an experiment's own option as words of the command line."""
    return ["--features", value] if name == "features" else ["--option", f"{name}={value}"]


def report_of(
    told: Sequence[Told], left_out: Mapping[str, str], command: str, seconds: float
) -> Report:
    """One page of them all; ``command`` was the last one, and took ``seconds``."""
    sections = tuple(one.section for one in told)
    rules = Section("verdicts", "How verdicts are made", "all parts", RULES)
    judged = any(section.claims for section in sections)
    of_paper = any(section.id in _paper() for section in sections)
    return Report(
        TITLE if of_paper else OTHER_TITLE,
        _introduction(told, left_out),
        (*sections, rules) if judged else sections,
        {**_versions(told), **provenance.system()},
        {"seed": ", ".join(sorted({str(one.setting.seed) for one in told}))},
        command,
        now(),
        seconds,
        summary=tuple(one.headline for one in told if one.headline),
        processor_seconds=sum(section.seconds or 0.0 for section in sections),
    )


def _versions(told: Sequence[Told]) -> dict[str, str]:
    """Of all parts; where they differ, all of them."""
    found: dict[str, list[str]] = {}
    for one in told:
        for name, version in one.versions.items():
            if version not in found.setdefault(name, []):
                found[name].append(version)
    return {name: ", ".join(versions) for name, versions in found.items()}


def _paper() -> set[str]:
    """The ids of the paper's experiments."""
    return {id for id in all_experiments() if id.startswith("paper/")}


def _subject(ids: set[str]) -> str:
    """What the report is about."""
    paper, others = _paper(), len(ids - _paper())
    more = f"{others} experiment{'s' if others > 1 else ''} with priors learned from past tasks"
    if not ids & paper:
        return f"{more[0].upper()}{more[1:]}, run with `mixts`."
    what = "Every experiment" if paper <= ids else f"{len(ids & paper)} of {len(paper)} experiments"
    return (
        f"{what} on Hong, Kveton, Zaheer, Ghavamzadeh and Boutilier, Thompson Sampling with a "
        "Mixture Prior (AISTATS 2022), run again with `mixts`: those of its Section 6, and what "
        f"its Sections 1, 4 and 5 say that can be measured{f'; and {more}' if others else ''}."
    )


def _introduction(told: Sequence[Told], left_out: Mapping[str, str]) -> tuple[str, ...]:
    ids = {one.section.id for one in told}
    sweeps = (
        ", and ×3 means three times as much at the last point of a sweep as at the first"
        if ids & _paper()
        else ""
    )
    return (
        f"{_subject(ids)} Each claim is set beside what was measured; ± is one standard error over "
        f"runs{sweeps}.",
        *(
            [
                "[How verdicts are made](#verdicts) says when a claim holds, when its direction "
                "only, and when it does not."
            ]
            if any(one.section.claims for one in told)
            else []
        ),
        "All parts share the seed's random numbers, and so their luck: what is "
        "played in two of them is played alike.",
        *(f"Not in this report: `{id}`, {why}." for id, why in left_out.items()),
    )
