"""L = 30, d = 30, 30 fixed actions, with a covariance for each component and with a tied one."""

from __future__ import annotations

from linear import linear_benchmark
from problems import LinearProblem

BENCHMARKS = [
    linear_benchmark(
        f"linear-30-{kind}",
        f"linear, L = 30, d = 30, 30 actions, {description}",
        LinearProblem(
            n_components=30, n_features=30, n_actions=30, tied=kind == "tied", changing=False
        ),
        target=10.0,
    )
    for kind, description in (
        ("full", "a full covariance for each component"),
        ("tied", "one full covariance, tied"),
    )
]
