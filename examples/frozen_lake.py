"""Cross the frozen lake: is it the map you know, or its mirror image?

gymnasium's slippery FrozenLake, 4x4, with horizon 50. In every run the holes are those of
gymnasium's own map or, with equal probability, of its mirror image along the diagonal; the
agents do not know which. The best policy for one map never reaches the goal on the other.

    python examples/frozen_lake.py --runs 20 --episodes 300

All agents are MixTS and differ in their prior. "MixTS" knows the two kinds of map: each map's MDP
is the mean of one component, worth STRENGTH observations of every pair of state and action. "UniTS"
has the same knowledge collapsed to one component. "neighbours" and "flat" are PSRL, which knows
neither map: the first knows which states are next to each other and that any may be a hole, the
second believes that any step may lead anywhere. All play the same maps, run by run.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

import mixts
from mixts.bridges.gym import EpisodePlayer, tabular_model

OWN = ["SFFF", "FHFH", "FFFH", "HFFG"]  # start, frozen, hole, goal
MAPS = {"own": OWN, "mirrored": ["".join(column) for column in zip(*OWN, strict=True)]}
HORIZON = 50
STRENGTH = 30.0
CERTAIN = 0.99

Numbers = NDArray[Any]


class Run(NamedTuple):
    """Results of one agent on one map, episode by episode."""

    crossed: Numbers
    """1 where the agent reached the goal, else 0."""
    values: Numbers
    """Exact probability that its policy reaches the goal."""
    weights: Numbers
    """Weight of the true kind of map after the episode."""


def main() -> None:
    """Play, and print one line for each agent."""
    options = read_options()
    started = time.perf_counter()
    maps = map_models()
    print_maps(maps)
    rng = np.random.default_rng(options.seed)
    kinds = rng.integers(len(MAPS), size=options.runs)
    seeds = rng.integers(2**31, size=options.runs)
    runs = {
        name: [
            play(prior, maps[kind], kind, int(seed), options.episodes)
            for kind, seed in zip(kinds, seeds, strict=True)
        ]
        for name, prior in priors(maps).items()
    }
    best = maps.value(maps.plan().policy)[kinds]
    print_table(runs, best)
    print_recognition(runs["MixTS"])
    n_episodes = len(runs) * options.runs * options.episodes
    print(f"{n_episodes:,} episodes in {time.perf_counter() - started:.0f} s.")


def lake(kind: int) -> gymnasium.Env[Any, Any]:
    """Return a slippery lake with one of the maps."""
    return gymnasium.make("FrozenLake-v1", desc=list(MAPS.values())[kind], is_slippery=True)


def map_models() -> mixts.MDP:
    """Return the MDPs of the maps as one batch, each with a state for the end of the episode."""
    return mixts.MDP.stack([tabular_model(lake(kind), HORIZON) for kind in range(len(MAPS))])


def priors(maps: mixts.MDP) -> dict[str, mixts.MixturePrior]:
    """Return the prior of each agent."""
    kinds = mixts.MixturePrior(mixts.TabularMDP.from_means(maps, STRENGTH), names=list(MAPS))
    flat = EpisodePlayer(lake(0), HORIZON).uniform_prior()
    near = (maps.transitions > 0).any(axis=0)
    near[:, :, -1] = True  # any state may be a hole, where the episode ends
    nothing = flat.family
    told = mixts.TabularMDP(nothing.reward, nothing.transition * near, HORIZON, maps.initial)
    return {
        "MixTS": kinds,
        "UniTS": kinds.collapse(),
        "neighbours": mixts.MixturePrior(told),
        "flat": flat,
    }


def play(prior: mixts.MixturePrior, truth: mixts.MDP, kind: int, seed: int, n_episodes: int) -> Run:
    """Play one agent on one map."""
    player = EpisodePlayer(lake(kind), HORIZON, seed=seed)
    agent = mixts.MixTS(prior, seed=seed)
    policies, crossed, weights = [], [], []
    for _ in range(n_episodes):
        policies.append(agent.act())
        agent.update(player.play(policies[-1]))
        crossed.append(player.last_return)
        weights.append(agent.belief.weights[kind] if prior.n_components > 1 else np.nan)
    return Run(np.array(crossed), truth.value(np.array(policies)), np.array(weights))


def print_maps(maps: mixts.MDP) -> None:
    """Print the maps, and the value of the best policy for each map on both maps."""
    for rows in zip(*MAPS.values(), strict=True):
        print("   ".join(f"{row:8}" for row in rows))
    for name, policy in zip(MAPS, maps.plan().policy, strict=True):
        worth = zip(MAPS, maps.value(policy), strict=True)
        text = ", ".join(f"{value:.3f} on {other}" for other, value in worth)
        print(f"the best policy for {name:9} crosses with probability {text}")


def print_table(runs: dict[str, list[Run]], best: Numbers) -> None:
    """Print means over runs ± their standard errors; the last column compares run by run."""
    print(f"\n{'agent':12}{'crossed':>16}{'regret':>16}{'at the end':>16}{'worse by':>16}")
    regrets = {
        name: best * len(played[0].values) - [run.values.sum() for run in played]
        for name, played in runs.items()
    }
    for name, played in runs.items():
        late = max(1, len(played[0].values) // 10)
        at_end = np.mean([run.values[-late:] for run in played]) / best.mean()
        crossed = estimate(np.array([run.crossed.sum() for run in played]))
        gap = estimate(regrets[name] - regrets["MixTS"]) if name != "MixTS" else ""
        end = f"{at_end:.0%} of best"
        print(f"{name:12}{crossed:>16}{estimate(regrets[name]):>16}{end:>16}{gap:>16}")


def estimate(runs: Numbers) -> str:
    """Return a mean and its standard error; a single run has no standard error."""
    error = runs.std(ddof=1) / len(runs) ** 0.5 if len(runs) > 1 else np.nan
    return f"{runs.mean():.1f} ± {error:.1f}"


def print_recognition(played: list[Run]) -> None:
    """Print after which episode the weight of the true kind of map first reached CERTAIN."""
    found = [run.weights >= CERTAIN for run in played]
    after = [int(certain.argmax()) + 1 for certain in found if certain.any()]
    when = f", after {np.median(after):g} (median) to {max(after)} episodes" if after else ""
    print(
        f"\nMixTS knew the kind of map ({CERTAIN:.0%}) in {len(after)} of {len(found)} runs{when}."
    )


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="maps to play (default 20)")
    parser.add_argument("--episodes", type=int, default=300, help="of each run (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="of everything random (default 1)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
