"""Measure this code beside another checkout, and its plain program; print one table of ratios.

    python benchmarks/core.py --against ../before
    python benchmarks/core.py --against ../before --plain --only rounds
    python benchmarks/core.py --against ../before --only learning --rows 100000

Every code runs in processes of its own: this code, its plain program (``--plain``), and the other
checkout, with the environment that ``make install`` made there. They take turns, because the speed
of a machine drifts: the table has medians over the turns, also of the ratios. The time of a round
is the median of the rounds of a turn, so that other programs on the machine matter less.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from alternation import THREAD_VARIABLES, Side
from catalogue import BENCHMARKS

ROUNDS = (
    "bernoulli-30", "gaussian-30", "linear-30-full", "linear-30-tied", "linear-30-close",
    "linear-100-full", "clicks-glm", "clicks-ids", "ids-arms", "ids-linear", "river-mixts-one",
    "river-mixts", "bernoulli-many",
)  # fmt: skip
"""Benchmarks of ``catalogue`` whose side "ours" is played."""

LOGS = {"linear": 1, "arms": 1, "clicks": 10}
"""Logs to learn from, and by what their number of rows is divided: clicks take long."""
MEASURED = {
    "read": {"read": "wall, s", "peak": "RSS, MB"},
    "learn": {"wall, s": "wall, s", "CPU, s": "CPU, s"},
}
PARTS = ("rounds", "starts", "learning")


class Code(NamedTuple):
    """Code that is measured: an interpreter that imports it, and variables of its processes."""

    python: str
    variables: dict[str, str]


def other_checkout(path: Path) -> Code:
    """Return the code of another checkout; refuse one whose interpreter imports something else."""
    python = path.resolve() / ".venv" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"{path} has no environment: run `make install` there")
    code = Code(str(python), {"PYTHONPATH": "", "MIXTS_PLAIN": ""})
    command = [code.python, "-c", "import mixts; print(mixts.__file__)"]
    environment = {**os.environ, **code.variables}
    found = subprocess.check_output(command, env=environment, text=True).strip()
    if path.resolve() / "src" not in Path(found).parents:
        raise SystemExit(f"{python} imports {found}, not the sources of {path}")
    return code


# -- the table ------------------------------------------------------------------------------------


class Table:
    """Medians of each code, and ratios to this code, printed as soon as they are measured."""

    def __init__(self, codes: list[str]) -> None:
        self.others = codes[1:]
        show("measured", "unit", *codes, *(f"{other} / this" for other in self.others))
        show(*["---"] * (2 + len(codes) + len(self.others)))

    def add(self, what: str, unit: str, turns: dict[str, list[float]]) -> None:
        """Print a row; ``turns`` has a number of each turn for each code."""
        ours, *theirs = (np.array(numbers) for numbers in turns.values())
        medians = (f"{np.median(numbers):.4g}" for numbers in (ours, *theirs))
        ratios = (f"{np.median(other / ours):.2f}" for other in theirs)
        show(what, unit, *medians, *ratios)


def show(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


# -- rounds and episodes --------------------------------------------------------------------------


def measure_rounds(table: Table, codes: dict[str, Code], n_turns: int) -> None:
    """Play chunks of benchmarks; a process for each code stays alive between its turns."""
    for name in ROUNDS:
        benchmark = BENCHMARKS[name]
        with ExitStack() as stack:
            sides = {
                name: stack.enter_context(
                    Side(code.python, "ours", benchmark, benchmark.our_threads, code.variables)
                )
                for name, code in codes.items()
            }
            turns = [
                {code: rounds(side.chunk(turn)) for code, side in sides.items()}
                for turn in range(1, n_turns + 1)
            ]
        for label in benchmark.labels:
            found = {code: [1e6 * turn[code][label] for turn in turns] for code in codes}
            what = f"{benchmark.title}; {label.replace('mean', 'median')}"
            table.add(what, "us", found)


def rounds(chunk: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of a round by label: medians, where a benchmark times every round."""
    found: dict[str, float] = chunk.get("medians", chunk["seconds"])
    return found


# -- the first decision of a new process ----------------------------------------------------------


def first_arms(family: str) -> None:
    """Decide and learn once among arms."""
    import mixts

    rng = np.random.default_rng(0)
    one, two = 1 + rng.random((2, 5, 8))
    parameters = {"BernoulliArms": (), "PoissonArms": (), "GaussianArms": (0.5,)}[family]
    agent = mixts.MixTS(mixts.MixturePrior(getattr(mixts, family)(one, two, *parameters)), seed=1)
    agent.update(agent.act(), 1)


def first_features(family: str) -> None:
    """Decide and learn once among rows of features."""
    import mixts

    rng = np.random.default_rng(0)
    root, rows = rng.normal(size=(5, 6, 6)), rng.normal(size=(8, 6))
    parameters: list[Any] = [rng.normal(size=(5, 6)), root @ root.transpose(0, 2, 1)]
    if family == "LinearGaussian":
        parameters.append(0.5)
    agent = mixts.MixTS(mixts.MixturePrior(getattr(mixts, family)(*parameters)), seed=1)
    agent.update(rows[agent.act(rows)], 1.0)


def first_episode() -> None:
    """Plan and learn once in an MDP."""
    import mixts

    agent = mixts.MixTS(mixts.RiverSwim(n_states=10, horizon=20).prior, seed=1)
    policy = agent.act()
    agent.update(mixts.Trajectory(np.zeros(20, int), policy[:, 0], np.zeros(20)))


STARTS: dict[str, Callable[[], None]] = {
    "Bernoulli arms": lambda: first_arms("BernoulliArms"),
    "Gaussian arms": lambda: first_arms("GaussianArms"),
    "Poisson arms": lambda: first_arms("PoissonArms"),
    "linear": lambda: first_features("LinearGaussian"),
    "clicks with features": lambda: first_features("LinearBernoulli"),
    "MDP": first_episode,
}


def start(name: str) -> dict[str, float]:
    """Run a first program in this process; the clock of the wall includes ``import mixts``."""
    started, used = perf_counter(), process_time()
    STARTS[name]()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"wall, s": perf_counter() - started, "CPU, s": process_time() - used, "RSS, MB": peak}


def measure_starts(table: Table, codes: dict[str, Code], n_turns: int) -> None:
    """Start new processes; what they may cache on disk is there from the first, unmeasured turn."""
    one_thread = dict.fromkeys(THREAD_VARIABLES, "1")
    for name in STARTS:
        turns = []
        for _ in range(n_turns + 1):
            turns.append(
                {
                    label: answer(["core.py", "--start", name], code, one_thread)
                    for label, code in codes.items()
                }
            )
        for unit in turns[0]["this"]:
            found = {code: [turn[code][unit] for turn in turns[1:]] for code in codes}
            table.add(f"first decision and update: {name}", unit, found)


# -- learning -------------------------------------------------------------------------------------


def tally(logs: str, family: str, path: str) -> dict[str, float]:
    """Read logs, and save their statistics."""
    from logs import COLUMNS

    from mixts.logs import read_logs

    read_logs(logs, **COLUMNS[family]).statistics.save(path)
    return {}


def learn(path: str) -> dict[str, float]:
    """Learn a prior of three components from saved statistics, after one from a few of them."""
    from mixts.families import Statistics
    from mixts.learning import learn

    tasks = Statistics.load(path)
    learn(tasks[np.arange(10)], 3, seed=1, engine=1)
    started, used = perf_counter(), process_time()
    learn(tasks, 3, seed=1, engine=1)
    return {"wall, s": perf_counter() - started, "CPU, s": process_time() - used}


def measure_learning(table: Table, codes: dict[str, Code], n_turns: int, n_rows: int) -> None:
    """Read logs, and learn from their statistics, in new processes.

    All codes learn from the same file of statistics: in another one, with other last digits, random
    starts would differ, and so would the numbers of iterations.
    """
    with tempfile.TemporaryDirectory() as folder:
        for family, divisor in LOGS.items():
            n = n_rows // divisor
            for size in (1000, n):
                words = ["--write", folder, family, str(size), "--tasks", str(max(10, n // 100))]
                run(["logs.py", *words], codes["this"])
            logs, warm = (f"{folder}/{family}-{size}.parquet" for size in (n, 1000))
            statistics = f"{folder}/{family}.statistics"
            answer(["core.py", "--tally", logs, family, statistics], codes["this"])
            for part, words in (
                ("read", ["logs.py", "--measure", logs, warm, family]),
                ("learn", ["core.py", "--learn", statistics]),
            ):
                turns = [
                    {label: answer(words, code) for label, code in codes.items()}
                    for _ in range(n_turns)
                ]
                for name, unit in MEASURED[part].items():
                    found = {code: [turn[code][name] for turn in turns] for code in codes}
                    table.add(f"{part}: {n:,} rows, {family}", unit, found)


def run(words: list[str], code: Code, variables: dict[str, str] | None = None) -> str:
    """Run a script of this folder with the given code, and return what it prints."""
    command = [code.python, str(Path(__file__).with_name(words[0])), *words[1:]]
    environment = {**os.environ, **code.variables, **(variables or {})}
    # Keep the bytecode of modules, as programs of users do; otherwise each process compiles them.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def answer(words: list[str], code: Code, variables: dict[str, str] | None = None) -> Any:
    return json.loads(run(words, code, variables))


# -- the command ----------------------------------------------------------------------------------


def chosen_codes(options: argparse.Namespace) -> Iterator[tuple[str, Code]]:
    yield "this", Code(sys.executable, {"MIXTS_PLAIN": ""})
    if options.plain:
        yield "plain", Code(sys.executable, {"MIXTS_PLAIN": "1"})
    if options.against:
        yield "against", other_checkout(options.against)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--plain", action="store_true", help="also the plain program of this code")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="these parts only")
    parser.add_argument("--turns", type=int, default=7, help="turns of each measurement")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of logs to learn from")
    parser.add_argument("--start", choices=STARTS, help=argparse.SUPPRESS)
    parser.add_argument("--tally", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--learn", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for one, words in ((start, options.start), (tally, options.tally), (learn, options.learn)):
        if words:
            print(json.dumps(one(*([words] if isinstance(words, str) else words))))
            return
    codes = dict(chosen_codes(options))
    table = Table(list(codes))
    if "rounds" in options.only:
        measure_rounds(table, codes, options.turns)
    if "starts" in options.only:
        measure_starts(table, codes, options.turns)
    if "learning" in options.only:
        measure_learning(table, codes, options.turns, options.rows)


if __name__ == "__main__":
    main()
