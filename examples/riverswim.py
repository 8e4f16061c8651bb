"""RiverSwim: is the current to the left or to the right? MixTS beside PSRL.

An episode starts in the middle of a chain of states. Swimming with the current always succeeds and
earns next to nothing; the large reward is at the other end. MixTS knows both rivers and has to
find out which one it is in; PSRL, posterior sampling with a uniform prior, learns everything.

    python examples/riverswim.py --runs 500 --episodes 1000 --figure riverswim.png
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import mixts

KNOWN = 0.99
"""The current counts as known when its probability stays above this."""


def main() -> None:
    """Simulate, print one line for each agent, and draw a figure on request."""
    options = read_options()
    river = mixts.RiverSwim(
        options.states,
        horizon=options.horizon,
        strength=options.strength,
        last_state=not options.hide_last_state,
    )
    size = (options.states, 2, options.horizon, river.start_state)
    neighbours = (river.prior.family.transition > 0).any(axis=0)
    agents = {
        "Oracle": partial(mixts.Oracle, river.prior),  # knows the current
        "MixTS": river.prior,
        "UniTS": river.prior.collapse(),  # one river with the mixture's moments
        "PSRL, neighbours": mixts.MixturePrior(mixts.TabularMDP.uniform(*size, neighbours)),
        "PSRL": mixts.MixturePrior(mixts.TabularMDP.uniform(*size)),
    }
    started = time.perf_counter()
    results = mixts.simulate(
        agents,
        river,
        n_rounds=options.episodes,
        n_runs=options.runs,
        seed=options.seed,
        engine=options.workers,
        progress=sys.stderr.isatty() and find_spec("rich") is not None,
    )
    seconds = time.perf_counter() - started
    print(results)
    n_episodes = len(agents) * options.runs * options.episodes
    print(f"\n{n_episodes:,} episodes in {seconds:.1f} s.")
    print(recognition(follow(river, options)))
    if options.figure:
        draw(results).savefig(options.figure)
        print(f"The figure is in {options.figure}.")


def follow(river: mixts.RiverSwim, options: argparse.Namespace) -> Any:
    """Return the weight of the true current in MixTS after each episode, (runs, episodes)."""
    followed: list[Any] = []

    class Followed(mixts.MixTS):
        def __init__(self, n_tasks: int, seed: Any, latent: Any) -> None:
            super().__init__(river.prior, n_tasks, seed)
            self.truth = latent

        def update(self, *told: Any, **how: Any) -> None:
            super().update(*told, **how)
            followed.append(self.belief.weights[np.arange(len(self.truth)), self.truth])

    n_episodes = min(options.episodes, 20)
    mixts.simulate(
        {"MixTS": Followed}, river, n_episodes, options.runs, options.seed,
        engine=1, block_size=options.runs,
    )  # fmt: skip
    return np.stack(followed, axis=1)


def recognition(weights: Any) -> str:
    """Return a sentence on how soon the current is known."""
    doubtful = weights <= KNOWN
    last = np.where(doubtful.any(axis=1), weights.shape[1] - doubtful[:, ::-1].argmax(axis=1), 0)
    return (
        f"The current is known (above {KNOWN:.0%} from then on) after one episode in "
        f"{np.mean(last == 0):.1%} of the runs, and after {last.max() + 1} in all of them."
    )


def draw(results: mixts.Results) -> Any:
    """Draw the regret as in the paper, and on a logarithmic axis, which shows all of it."""
    from matplotlib.figure import Figure

    from mixts.plots import style

    figure = Figure(figsize=(7.0, 2.6), layout="constrained", dpi=200)
    left, right = figure.subplots(1, 2)
    for ax in (left, right):
        style.dress(ax)
    mixts.plot(results, left, agents=["MixTS", "PSRL, neighbours", "PSRL"], rounds="episode")
    mixts.plot(results, right, log=True, rounds="episode", bottom=0.1)
    return figure


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="rivers to swim in (default 100)")
    parser.add_argument("--episodes", type=int, default=1000, help="in each (default 1000)")
    parser.add_argument("--states", type=int, default=10, help="of the chain (default 10)")
    parser.add_argument("--horizon", type=int, default=20, help="steps an episode (default 20)")
    parser.add_argument(
        "--strength", type=float, default=30.0, help="counts of the prior (default 30)"
    )
    parser.add_argument(
        "--hide-last-state", action="store_true", help="do not tell the state after the last step"
    )
    parser.add_argument("--seed", type=int, default=1, help="of everything random (default 1)")
    parser.add_argument("--workers", type=int, help="processes (default: as many as pay)")
    parser.add_argument("--figure", help="draw to this file, PNG or SVG")
    return parser.parse_args()


if __name__ == "__main__":
    main()
