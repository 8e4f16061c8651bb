"""Alternating measurements: a chunk of ours, a chunk of the peer at each thread setting, and again.

A machine's speed drifts by a factor of two within minutes. Ratios are therefore taken between
chunks that ran one after the other; the table has their median and quartiles.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from benchmark import Benchmark
from problems import Array

# Some peers compile their loops with numba.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


class Side:
    """Process that plays one side of a benchmark, a chunk at a time."""

    def __init__(
        self,
        python: str,
        side: str,
        benchmark: Benchmark,
        n_threads: int | None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process; ``n_threads=None`` leaves every library at its own default."""
        environment = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES}
        if n_threads is not None:
            environment |= dict.fromkeys(THREAD_VARIABLES, str(n_threads))
        if side == "peer" and not benchmark.peer_is_ours:
            environment.pop("PYTHONPATH", None)
        environment |= variables or {}
        self.name = f"{side} side of {benchmark.name} ({python})"
        self.process = subprocess.Popen(
            [python, str(Path(__file__).with_name("side.py")), side, benchmark.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.hello = self._answer()

    def chunk(self, index: int) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{index}\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the {self.name} ended with exit code {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Side:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@dataclass(frozen=True)
class Measurement:
    """All chunks of one benchmark: seconds a round or an episode by label, (chunks,) for ours and
    by thread setting for the peer, and the mean regret relative to uniform play."""

    benchmark: Benchmark
    versions: dict[str, dict[str, str]]
    ours: dict[str, Array]
    peer: dict[int, dict[str, Array]]
    our_regret: float
    peer_regret: float | None


def measure(benchmark: Benchmark, ours: str, peer: str | None, n_chunks: int) -> Measurement:
    """Play all chunks of a benchmark; ``ours`` and ``peer`` are interpreters.

    Chunk k is the same problem for every side.
    """
    if benchmark.peer_is_ours:
        peer = ours
    with ExitStack() as stack:
        our_side = stack.enter_context(Side(ours, "ours", benchmark, benchmark.our_threads))
        peer_sides: dict[int, Side] = {}
        if peer is not None:
            for n in benchmark.peer_threads:
                peer_sides[n] = stack.enter_context(Side(peer, "peer", benchmark, n))
        for side in peer_sides.values():
            check_same_problem(our_side, side)
        our_chunks: list[dict[str, Any]] = []
        peer_chunks: dict[int, list[dict[str, Any]]] = {n: [] for n in peer_sides}
        for index in range(1, n_chunks + 1):
            our_chunks.append(our_side.chunk(index))
            for n, side in peer_sides.items():
                peer_chunks[n].append(side.chunk(index))
    versions = {"ours": our_side.hello["versions"]}
    for side in () if benchmark.peer_is_ours else peer_sides.values():
        versions["peers"] = side.hello["versions"]
    return Measurement(
        benchmark,
        versions,
        by_label(benchmark, our_chunks),
        {n: by_label(benchmark, chunks) for n, chunks in peer_chunks.items()},
        mean_regret(our_chunks),
        mean_regret([c for chunks in peer_chunks.values() for c in chunks]) if peer else None,
    )


def by_label(benchmark: Benchmark, chunks: list[dict[str, Any]]) -> dict[str, Array]:
    return {label: np.array([c["seconds"][label] for c in chunks]) for label in benchmark.labels}


def mean_regret(chunks: list[dict[str, Any]]) -> float:
    return float(np.mean([c["regret"] for c in chunks]))


def check_same_problem(ours: Side, peer: Side) -> None:
    """Exit if the two sides have different problems.

    Their fingerprints may differ by rounding, because BLAS versions add in different orders.
    """
    ours_print, peer_print = ours.hello["fingerprint"], peer.hello["fingerprint"]
    if not np.allclose(ours_print, peer_print, rtol=1e-9, atol=0.0):
        raise SystemExit(f"the {ours.name} and the {peer.name} were given different problems")
