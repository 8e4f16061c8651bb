"""Every benchmark, in the order of the table."""

from __future__ import annotations

import arms
import linear
import logistic
import policies
import river_swim
from benchmark import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for module in (linear, logistic, arms, policies, river_swim)
    for benchmark in module.BENCHMARKS
}
