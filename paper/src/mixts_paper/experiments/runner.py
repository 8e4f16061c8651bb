"""Run experiments: simulate the missing blocks, keep each one, and write the report."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixts.engines import Engine, EngineLike, engine_of, n_processors
from mixts.errors import ParameterError
from mixts.extend import checks, progress_bars, random
from mixts.pages import Claim, Section, check_installed, write_report
from mixts.plots import new_axes
from mixts_paper.experiments.base import (
    Arrays,
    Blocks,
    Experiment,
    Scale,
    Setting,
    all_experiments,
    chosen,
)
from mixts_paper.experiments.report import analyse_folder, command_line, report_of
from mixts_paper.experiments.store import Store, open_folder

log = logging.getLogger("mixts_paper.experiments")
"""Messages about the progress, at level INFO; the command line prints them."""

SimulatedBlock = tuple[int, Arrays, float]
"""A block's number, its arrays, and the seconds that it took."""

_BATCH_SECONDS = 1.0
"""Duration of a batch: short blocks go together, because sending one takes some milliseconds."""


@dataclass(frozen=True)
class Reproduction:
    """Result of :func:`reproduce`."""

    folder: Path
    report: Path
    sections: tuple[Section, ...]
    n_blocks: int
    """Number of blocks that this call simulated; the folder already had the others."""
    seconds: float
    stale: tuple[str, ...] = ()
    """Ids of experiments whose numbers come from other versions of the code or its libraries."""

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Claims of all sections."""
        return tuple(claim for section in self.sections for claim in section.claims)


def reproduce(
    experiments: Sequence[str | Experiment] = (),
    out: str | Path = "reproduction",
    *,
    n_runs: int | None = None,
    n_rounds: int | None = None,
    seed: int = 1,
    quick: bool = False,
    engine: EngineLike = None,
    progress: bool | None = None,
    **choices: Any,
) -> Reproduction:
    """Run experiments and write their figures and a report.

    To continue after an interruption, repeat the call: it simulates only the blocks that the folder
    does not have for these settings, and the numbers are the same as without the interruption.

    Parameters
    ----------
    experiments
        Ids, groups, modules, or experiments; empty: those of the package.
    out
        Output folder. The report covers every experiment that is complete in it.
    n_runs, n_rounds
        Runs of each simulation and rounds of each run; None: the experiment's own.
    seed
        Seed of all random numbers.
    quick
        Whether to simulate few runs and rounds, to see that everything works.
    engine
        Where blocks run: a number of processes (by default one for each processor), an executor of
        ``concurrent.futures``, the address of a Dask scheduler, an
        :class:`~mixts.engines.Engine`, or a function that makes an engine, called only if a block
        is missing. The numbers do not depend on the engine.
    progress
        Whether to show progress bars; None: on a terminal.
    choices
        Options of single experiments: ``features`` is the file of image features for
        ``paper/images`` and ``beyond/policies``.

    Returns
    -------
    The folder, the report, and its sections with all claims. ``stale`` names the experiments whose
    numbers other code than the present code computed; the report has a warning about them.
    """
    started = time.perf_counter()
    check_installed()
    new_axes()  # raises an error if matplotlib is missing
    wanted = _experiments_by_id(experiments)
    _check_choices(wanted, choices)
    random.seed_sequence(seed)  # raises an error if it is not a seed
    if isinstance(engine, int):
        checks.count(engine, "workers")
    n_runs = None if n_runs is None else checks.count(n_runs, "runs", least=2)
    n_rounds = None if n_rounds is None else checks.count(n_rounds, "rounds", least=2)
    settings = {
        id: _setting(one, one.quick if quick else one.scale, n_runs, n_rounds, seed, choices)
        for id, one in wanted.items()
    }
    folder = open_folder(Path(out))
    stores = {id: Store(folder, wanted[id], settings[id]) for id in wanted}
    for store in stores.values():
        store.check()
    batches = _prepare(wanted, stores)
    if batches:
        with ExitStack() as stack:
            opened = stack.enter_context(engine_of(n_processors() if engine is None else engine))
            log.info("simulating %d blocks on %s", _n_blocks(batches), opened.name)
            bars = stack.enter_context(progress_bars(progress))
            run(batches, opened, bars.add("all", sum(batch.cost for batch in batches)).advance)
    known = {**all_experiments(), **wanted}
    analysed, left_out = analyse_folder(folder, known, wanted.keys(), log.info)
    seconds = time.perf_counter() - started
    is_default = wanted.keys() == chosen(()).keys()
    names = [] if is_default else [e.address or e.id for e in wanted.values()]
    command = command_line(names, choices, quick, runs=n_runs, rounds=n_rounds, seed=seed)
    page = folder / "report.html"
    write_report(report_of(analysed, left_out, command, seconds), page)
    return Reproduction(
        folder, page, tuple(one.section for one in analysed), _n_blocks(batches), seconds,
        tuple(one.section.id for one in analysed if one.stale),
    )  # fmt: skip


def _experiments_by_id(experiments: Sequence[str | Experiment]) -> dict[str, Experiment]:
    """Return named and given experiments by id; those of the package for an empty sequence."""
    given = {e.id: e for e in experiments if isinstance(e, Experiment)}
    for id in given:
        group, _, name = id.partition("/")
        if not (group.isidentifier() and name.replace("-", "_").isidentifier()):
            raise ParameterError(f"an experiment's id must look like paper/width, got {id!r}")
    names = [e for e in experiments if isinstance(e, str)]
    named = chosen(names) if names or not given else {}
    return {**named, **given}


def _setting(
    experiment: Experiment,
    scale: Scale,
    n_runs: int | None,
    n_rounds: int | None,
    seed: int,
    choices: Mapping[str, Any],
) -> Setting:
    given = {name: choices[name] for name in experiment.options if name in choices}
    return Setting(
        n_runs or scale.n_runs, n_rounds or scale.n_rounds, seed,
        experiment.choices(**given), {name: str(value) for name, value in given.items()},
    )  # fmt: skip


def _check_choices(wanted: Mapping[str, Experiment], choices: Mapping[str, Any]) -> None:
    for name in choices:
        if not any(name in experiment.options for experiment in wanted.values()):
            raise ParameterError(f"none of {', '.join(wanted)} has an option {name!r}")


# -- batches --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Blocks of one part that a worker simulates together."""

    store: Store
    name: str
    part: Blocks
    blocks: tuple[int, ...]

    @property
    def cost(self) -> float:
        """Approximate seconds."""
        return self.part.cost * len(self.blocks)


def _n_blocks(batches: Iterable[Batch]) -> int:
    return sum(len(batch.blocks) for batch in batches)


def _prepare(wanted: Mapping[str, Experiment], stores: Mapping[str, Store]) -> list[Batch]:
    """Begin the folder of each experiment, and return the batches for all missing blocks."""
    batches: list[Batch] = []
    all_parts = {}
    for id, experiment in wanted.items():
        store = stores[id]
        store.begin()
        parts: dict[str, Blocks] = experiment.parts(store.setting, store.once)
        missing = batches_of(store, parts)
        if missing:
            store.check_code()
        n_blocks = sum(part.n_blocks for part in parts.values())
        n_kept = n_blocks - _n_blocks(missing)
        already = f", {n_kept} of them in the folder already" if n_kept else ""
        log.info("%s: %d blocks%s", id, n_blocks, already)
        batches += missing
        all_parts[id] = parts
    # Parts are noted only now: if `check_code` refuses one experiment, none has new parts.
    for id, parts in all_parts.items():
        stores[id].note_parts(parts)
    return batches


def batches_of(store: Store, parts: Mapping[str, Blocks]) -> list[Batch]:
    """Return the batches for the missing blocks of an experiment."""
    batches = []
    for name, part in parts.items():
        missing = store.missing(name, part.n_blocks)
        size = max(1, round(_BATCH_SECONDS / max(part.cost, 1e-3)))
        for first in range(0, len(missing), size):
            batches.append(Batch(store, name, part, tuple(missing[first : first + size])))
    return batches


def simulate_blocks(
    part: Blocks, blocks: Iterable[int], label: str, index: int
) -> list[SimulatedBlock]:
    """Simulate the blocks of a batch, on a worker.

    Error messages have the ``label``. The engine returns the arguments with the result, so that the
    caller knows the batch by its ``index``.
    """
    simulated = []
    for block in blocks:
        started = time.perf_counter()
        try:
            arrays = part.play(block)
        except Exception as error:
            error.add_note(f"({label}, block {block})")
            raise
        simulated.append((block, arrays, time.perf_counter() - started))
    return simulated


def run(
    batches: Sequence[Batch], engine: Engine, advance: Callable[[float], None] = lambda cost: None
) -> None:
    """Run all batches, the longest first, and keep each block as soon as it is finished."""
    batches = sorted(batches, key=lambda batch: -batch.cost)
    shared: dict[int, Any] = {}

    def arguments() -> Iterator[tuple[Any, ...]]:
        for index, batch in enumerate(batches):
            if id(batch.part) not in shared:
                shared[id(batch.part)] = engine.share(batch.part)
            label = f"{batch.store.id}, part {batch.name!r}"
            yield shared[id(batch.part)], batch.blocks, label, index

    try:
        for (*_, index), simulated in engine.as_completed(simulate_blocks, arguments()):
            batch = batches[index]
            for block, arrays, seconds in simulated:
                batch.store.write(batch.name, block, arrays, seconds)
            advance(batch.cost)
    except BrokenProcessPool as error:
        error.add_note(
            "Finished blocks are kept: repeat the command to continue. If memory ran out, "
            "--workers 1 needs the least."
        )
        raise
