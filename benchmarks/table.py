"""Table of ratios, as Markdown."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
from alternation import Measurement
from benchmark import Benchmark
from problems import N_ROUNDS, Array
from river import N_EPISODES

HEADER = (
    "problem",
    "timed",
    "ours, us",
    "peer, us",
    "ratio: median (quartiles)",
    "target",
    "met?",
)


def microseconds(seconds: Array) -> str:
    return f"{1e6 * float(np.median(seconds)):.1f}"


def times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"


def targets(benchmark: Benchmark) -> str:
    """Return the cell that states the targets."""
    stated = []
    if benchmark.target is not None:
        stated.append(f">= {benchmark.target:g}")
    if benchmark.target_time is not None:
        stated.append(f"<= {1e6 * benchmark.target_time:g} us")
    return ", ".join(stated) or "none"


def verdict(benchmark: Benchmark, ours: Array, ratio: float) -> str:
    """Return the cell that says whether the medians meet the targets."""
    met = []
    if benchmark.target is not None:
        met.append(ratio >= benchmark.target)
    if benchmark.target_time is not None:
        met.append(float(np.median(ours)) <= benchmark.target_time)
    return ", ".join("yes" if good else "MISSED" for good in met)


def rows(measurement: Measurement) -> list[list[str]]:
    """Return a row for each label; the peer has the thread setting with the smaller median."""
    benchmark = measurement.benchmark
    table = []
    for label in benchmark.labels:
        ours = measurement.ours[label]
        row = [benchmark.title, label, microseconds(ours)]
        if not measurement.peer:
            table.append([*row, "not run", "", targets(benchmark), ""])
            continue
        threads = min(measurement.peer, key=lambda n: float(np.median(measurement.peer[n][label])))
        peer = measurement.peer[threads][label]
        low, median, high = np.quantile(peer / ours, (0.25, 0.5, 0.75))
        unit = "thread" if threads == 1 else "threads"
        table.append(
            [
                *row,
                f"{microseconds(peer)} ({threads} {unit})",
                f"{times(median)} ({times(low)} to {times(high)})",
                targets(benchmark),
                verdict(benchmark, ours, float(median)),
            ]
        )
    return table


def markdown(header: tuple[str, ...], body: list[list[str]]) -> str:
    widths = [max(len(line[i]) for line in (header, *body)) for i in range(len(header))]

    def line(cells: tuple[str, ...] | list[str]) -> str:
        return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"

    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return "\n".join([line(header), rule, *map(line, body)])


def regret_table(measurements: list[Measurement]) -> str:
    """Return a table of the regret late in the run, relative to uniform play: both sides learn."""
    body = [
        [
            m.benchmark.title,
            f"{m.our_regret:.3f}",
            "not run" if m.peer_regret is None else f"{m.peer_regret:.3f}",
            m.benchmark.peer_name,
        ]
        for m in measurements
    ]
    return markdown(("problem", "ours", "peer", "the peer"), body)


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{models[0]}, {len(models)} cores" if models else platform.machine()


def summary(measurements: list[Measurement]) -> str:
    """Return one sentence that names every missed target."""
    if any(not m.peer for m in measurements):
        return "The peers were not run: no ratios."
    missed = [
        f"{m.benchmark.name}, {row[1]}: {row[2]} us, ratio {row[4]}, target {row[5]}"
        for m in measurements
        for row in rows(m)
        if "MISSED" in row[-1]
    ]
    return "MISSED: " + "; ".join(missed) + "." if missed else "Every target is met."


REPORT = """\
A round is one decision for one task, act and update; an episode is sample, plan, play and update,
for one run: both through the public interface with its checks on. {n_chunks} chunks of
{n_rounds} rounds or {n_episodes} episodes, each with fresh agents, ours and the peer's in turn.
Times are medians over chunks; a ratio is taken within each chunk. Rounds of clicks are in processor
time. For MixIDS, a decision is act_with_probabilities for one task, in processor time, and the peer
is MixTS.

{ratios}

{summary}

Regret in the last 100 rounds or episodes, relative to uniform play, as a check that both sides
learn:

{regret}

- CPU: {cpu}
- threads: in rounds ours at the libraries' defaults, the peer with 1 and with 2 BLAS threads, the
  faster shown; in episodes, clicks and beside MixTS one core on either side
{versions}
"""


def report(measurements: list[Measurement], n_chunks: int) -> str:
    # Only the benchmarks beside other libraries know the versions of these.
    every = {name: found for m in measurements for name, found in m.versions.items()}
    versions = [
        f"- {name}: " + ", ".join(f"{package} {v}" for package, v in found.items())
        for name, found in every.items()
    ]
    return REPORT.format(
        n_chunks=n_chunks,
        n_rounds=N_ROUNDS,
        n_episodes=N_EPISODES,
        ratios=markdown(HEADER, [row for m in measurements for row in rows(m)]),
        summary=summary(measurements),
        regret=regret_table(measurements),
        cpu=cpu_model(),
        versions="\n".join(versions),
    )
