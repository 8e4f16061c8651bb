"""Every benchmark, in the order of the table."""

from __future__ import annotations

import bernoulli_arms
import gaussian_arms
import linear_large
import linear_small
import river_swim
from benchmark import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for module in (linear_small, bernoulli_arms, gaussian_arms, linear_large, river_swim)
    for benchmark in module.BENCHMARKS
}
