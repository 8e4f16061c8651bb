"""The whole command: play what is missing, analyse, draw, and write the report."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mixts import _checks, _random
from mixts.engines import Engine, ExecutorEngine, local_engine
from mixts.errors import ParameterError
from mixts.experiments.base import Experiment, Part, Setting, checked_id
from mixts.experiments.registry import all_experiments, chosen
from mixts.experiments.runner import job_bars, jobs_of, run
from mixts.experiments.store import Store, open_folder
from mixts.experiments.telling import option_words, report_of, tell
from mixts.pages import Claim, Section, check_installed, write_report
from mixts.plots import new_axes

Where = Engine | Executor | Callable[[], Engine] | int | None
"""Where blocks are played; a function is called, and its engine closed, if there are any."""


@dataclass(frozen=True)
class Reproduction:
    """What a reproduction gave."""

    folder: Path
    report: Path
    sections: tuple[Section, ...]
    n_blocks: int
    """How many blocks this run had to play; the others were there."""
    seconds: float

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims of all sections."""
        return tuple(claim for section in self.sections for claim in section.claims)


@dataclass(frozen=True)
class Request:
    """What was asked for, in the words of the command line."""

    n_runs: int | None = None
    n_rounds: int | None = None
    seed: int = 1
    quick: bool = False
    choices: Mapping[str, Any] = field(default_factory=dict)

    def command(self, ids: Sequence[str]) -> str:
        """The command line; of the paper without ids."""
        words = ["mixts", "reproduce", *ids, *(["--quick"] if self.quick else [])]
        given = {"runs": self.n_runs, "rounds": self.n_rounds, "seed": self.seed}
        for name, value in given.items():
            words += [] if value is None else [f"--{name}", str(value)]
        for name, value in self.choices.items():
            words += option_words(name, str(value))
        return shlex.join(words)

    def setting(self, experiment: Experiment) -> Setting:
        """As one experiment has it."""
        scale = experiment.quick if self.quick else experiment.scale
        given = {name: self.choices[name] for name in experiment.options if name in self.choices}
        return Setting(
            scale.n_runs if self.n_runs is None else self.n_runs,
            scale.n_rounds if self.n_rounds is None else self.n_rounds,
            self.seed,
            experiment.choices(**given),
            {name: str(value) for name, value in given.items()},
        )


def reproduce(
    experiments: Sequence[str | Experiment] = (),
    out: str | Path = "reproduction",
    *,
    n_runs: int | None = None,
    n_rounds: int | None = None,
    seed: int = 1,
    quick: bool = False,
    engine: Where = None,
    progress: bool | None = None,
    say: Callable[[str], None] = lambda line: None,
    **choices: Any,
) -> Reproduction:
    """Run experiments (the paper's unless named), and write figures and a report to ``out``.

    What is in the folder already, with the same settings, is not played again: an interrupted
    command is simply repeated, and gives the same numbers. ``quick`` plays little, to see that it
    works; ``n_runs`` and ``n_rounds`` replace the paper's own. ``engine`` says where blocks are
    played: a number of processes, an executor of ``concurrent.futures``, an
    :class:`~mixts.engines.Engine`, or a function that makes one and is called if there
    is anything to play; the numbers do not depend on it. The report covers
    every experiment that is complete in the folder. Further options belong to single experiments:
    ``features`` is the file of image features for ``paper/images``.
    """
    started = time.perf_counter()
    check_installed()
    new_axes()  # and so for the figures
    wanted = _chosen(experiments)
    _check_choices(wanted, choices)
    _random.seed_sequence(seed)  # refuses what is not a seed
    if isinstance(engine, int):
        _checks.count(engine, "workers")
    request = Request(
        None if n_runs is None else _checks.count(n_runs, "runs", least=2),
        None if n_rounds is None else _checks.count(n_rounds, "rounds", least=2),
        seed, quick, choices,
    )  # fmt: skip
    settings = {id: request.setting(experiment) for id, experiment in wanted.items()}
    folder = open_folder(Path(out))
    stores = {id: Store(folder, wanted[id], settings[id]) for id in wanted}
    for store in stores.values():
        store.check()
    n_blocks = _play(wanted, stores, engine, progress, say)
    told, left_out = tell(folder, {**all_experiments(), **wanted}, wanted.keys(), say)
    seconds = time.perf_counter() - started
    page = folder / "report.html"
    usual = wanted.keys() == chosen(()).keys()
    command = request.command(() if usual else [e.address or e.id for e in wanted.values()])
    write_report(report_of(told, left_out, command, seconds), page)
    return Reproduction(folder, page, tuple(one.section for one in told), n_blocks, seconds)


def _chosen(experiments: Sequence[str | Experiment]) -> dict[str, Experiment]:
    own = {checked_id(e.id): e for e in experiments if isinstance(e, Experiment)}
    ids = [e for e in experiments if isinstance(e, str)]
    return {**(chosen(ids) if ids or not own else {}), **own}


def _check_choices(wanted: Mapping[str, Experiment], choices: Mapping[str, Any]) -> None:
    for name in choices:
        if not any(name in experiment.options for experiment in wanted.values()):
            raise ParameterError(f"none of {', '.join(wanted)} has an option {name!r}")


# -- play ---------------------------------------------------------------------------------------


def _play(
    wanted: Mapping[str, Experiment],
    stores: Mapping[str, Store],
    engine: Where,
    progress: bool | None,
    say: Callable[[str], None],
) -> int:
    """Play what is missing; how many blocks that were."""
    jobs, all_parts = [], {}
    for id, experiment in wanted.items():
        store = stores[id]
        store.begin()
        parts: dict[str, Part] = experiment.parts(store.setting, store.once)
        todo = jobs_of(store, parts)
        if todo:
            store.check_code()
        elif not store.is_of_this_code:
            say(f"{id}: results of other code or libraries, kept; remove {store.folder} to play it")
        n_blocks = sum(part.n_blocks for part in parts.values())
        n_missing = sum(len(job.blocks) for job in todo)
        there = f", {n_blocks - n_missing} of them there already" if n_missing < n_blocks else ""
        say(f"{id}: {n_blocks} blocks{there}")
        jobs += todo
        all_parts[id] = parts
    # Only now that nothing was refused: a folder that is refused stays as it was.
    for id, parts in all_parts.items():
        stores[id].note_parts(parts)
    if jobs:
        with ExitStack() as stack:
            where = stack.enter_context(_engine(engine))
            say(f"playing {sum(len(job.blocks) for job in jobs)} blocks on {where.name}")
            run(jobs, where, stack.enter_context(job_bars(jobs, progress)))
    return sum(len(job.blocks) for job in jobs)


def _engine(where: Where) -> AbstractContextManager[Engine]:
    """Whoever made an engine or an executor closes it."""
    if isinstance(where, Engine):
        return nullcontext(where)
    if isinstance(where, Executor):
        return ExecutorEngine(where)
    return where() if callable(where) else local_engine(where)
