"""L = 30, d = 30, 30 fixed actions: the sizes and the noise of the paper's synthetic bandit.

With a covariance for each component, with a tied one, and, as the hardest case for us, with so much
noise that the components can hardly be told apart and none becomes dormant.
"""

from __future__ import annotations

from linear import linear_benchmark
from problems import LinearProblem

PAPER_NOISE = 0.1

BENCHMARKS = [
    linear_benchmark(
        f"linear-30-{kind}",
        f"linear, L = 30, d = 30, 30 actions, {description}",
        LinearProblem(
            n_components=30,
            n_features=30,
            n_actions=30,
            tied=kind == "tied",
            changing=False,
            noise_std=noise_std,
        ),
        target=10.0,
    )
    for kind, noise_std, description in (
        ("full", PAPER_NOISE, "a full covariance for each component"),
        ("tied", PAPER_NOISE, "one full covariance, tied"),
        ("close", 0.5, "a full covariance for each, too close to tell apart"),
    )
]
