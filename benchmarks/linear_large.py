"""L = 100, d = 100, 10 actions that change every round, a covariance for each component."""

from __future__ import annotations

from linear import linear_benchmark
from problems import LinearProblem

BENCHMARKS = [
    linear_benchmark(
        "linear-100-full",
        "linear, L = 100, d = 100, 10 changing actions, a full covariance for each component",
        LinearProblem(n_components=100, n_features=100, n_actions=10, tied=False, changing=True),
        target=1.5,
    )
]
