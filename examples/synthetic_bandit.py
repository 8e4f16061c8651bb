"""Compare agents on the synthetic linear bandit: 30 latent states, 30 unit-vector actions.

Under latent state s action s is worth about 0.9 and all others about 0.1; each task differs a
little from its state. An agent that knows this structure only has to find the state.

    python examples/synthetic_bandit.py --runs 200 --rounds 1000 --width 0.1
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from importlib.util import find_spec

import numpy as np

import mixts

N = 30
NOISE = 0.1
MEANS = 0.1 + 0.8 * np.eye(N)


def main() -> None:
    """Simulate, and print one line for each agent."""
    options = read_options()
    family = mixts.LinearGaussian(
        MEANS, np.full(N, options.width**2), NOISE, covariance_type="spherical"
    )
    prior = mixts.MixturePrior(family)
    agents = {
        "Oracle": partial(mixts.Oracle, prior),  # knows the latent state
        "MixTS": prior,
        "UniTS": prior.collapse(),  # one Gaussian with the mixture's mean and covariance
        "TS": mixts.MixturePrior(mixts.LinearGaussian.standard(N, NOISE)),  # knows nothing
        "CorralExp4": partial(mixts.CorralExp4, prior),
        "Exp4": partial(mixts.Exp4, MEANS),
    }
    started = time.perf_counter()
    results = mixts.simulate(
        agents,
        mixts.BanditEnvironment(prior, np.eye(N)),
        n_rounds=options.rounds,
        n_runs=options.runs,
        seed=options.seed,
        engine=options.workers,
        progress=sys.stderr.isatty() and find_spec("rich") is not None,
    )
    print(results)
    gap, error = results.difference("UniTS", "MixTS")
    print(f"\nRun by run MixTS saves {gap:.2f} ± {error:.2f} of UniTS's regret.")
    n_decisions = len(agents) * options.runs * options.rounds
    print(f"{n_decisions:,} decisions in {time.perf_counter() - started:.1f} s.")
    if options.csv:
        results.to_csv(options.csv)
        print(f"Every round of every run is in {options.csv}.")


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="tasks to play (default 100)")
    parser.add_argument("--rounds", type=int, default=1000, help="of each task (default 1000)")
    parser.add_argument(
        "--width", type=float, default=0.05, help="how much tasks differ, sigma_0 (default 0.05)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of everything random (default 1)")
    parser.add_argument("--workers", type=int, help="processes (default: as many as pay)")
    parser.add_argument("--csv", help="write every round to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
