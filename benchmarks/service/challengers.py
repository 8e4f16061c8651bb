"""Measure the account of champion against challenger: false promotions, and tasks until it decides.

    python benchmarks/service/challengers.py [--streams 10000] [--tasks 200] [--power 200]

All decisions are made by the default policy of the service (information-directed sampling) under
the champion, eight for each task. Ten tasks live at the same time, and E is watched after every
reward.

Null: tasks are drawn from the champion, so it is exactly right. At most 1 % of the streams may ever
reach E = 100; the interval is Clopper-Pearson's at 95 %. The mean of E at the end is 1.

Power: tasks are drawn from the challenger, whose third kind the champion does not know. The share
of that kind is such that the expected gain is .01, .05 or .2 nats a task.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

import mixts

Array = npt.NDArray[np.float64]

ROUNDS = 8
"""Decisions of a task."""
LIVE = 10
"""Tasks that live at the same time."""
BLOCK = 200_000
"""Tasks that are simulated together: some hundred megabytes."""
LIMIT = 100.0


def champion() -> mixts.MixturePrior:
    """Return a prior of two kinds, each of which likes one of two arms."""
    return mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]), [0.7, 0.3])


def challenger(third: float, share: float, weights: tuple[float, float]) -> mixts.MixturePrior:
    """Return the champion with a third kind, which likes both arms alike."""
    family = mixts.BernoulliArms(
        [[8, 2], [2, 8], [third, third]], [[2, 8], [8, 2], [10 - third, 10 - third]]
    )
    first = np.array(weights) / sum(weights)
    return mixts.MixturePrior(family, [*((1 - share) * first), share])


NULL = {
    "a third kind of 30 %": challenger(5, 0.3, (0.5, 0.2)),
    "a third kind of 5 %": challenger(5, 0.05, (0.7, 0.3)),
    "other weights of the kinds": challenger(5, 0.0, (0.5, 0.5)),
}


@dataclass
class Watched:
    """Accounts of many streams."""

    first: Array
    """Number of tasks that were begun when E first reached 100; infinite: never."""
    last: Array
    """ln E of each stream at its end."""


def watch(
    truth: mixts.MixturePrior, rival: mixts.MixturePrior, n_streams: int, n_tasks: int, seed: int
) -> Watched:
    """Watch accounts of the champion against a rival after every reward."""
    rng = np.random.default_rng(seed)
    n_together = max(BLOCK // n_tasks, 1)
    parts = []
    for start in range(0, n_streams, n_together):
        n = min(n_together, n_streams - start)
        steps = ratios(truth, rival, n * n_tasks, rng).reshape(n, n_tasks // LIVE, LIVE, ROUNDS)
        steps = np.diff(steps, axis=3, prepend=0.0)
        path = steps.transpose(0, 1, 3, 2).reshape(n, -1).cumsum(axis=1)
        reached = path >= np.log(LIMIT)
        rewards = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, np.inf)
        parts.append((np.ceil(rewards / (LIVE * ROUNDS)) * LIVE, path[:, -1]))
    first, last = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Watched(first, last)


def ratios(
    truth: mixts.MixturePrior, rival: mixts.MixturePrior, n: int, rng: np.random.Generator
) -> Array:
    """Return ln p(history | rival) - ln p(history | champion) of tasks after each round."""
    _, means = truth.draw(rng, n)
    agent = mixts.MixIDS(champion(), n_tasks=n, seed=rng)
    belief = rival.belief(n)
    found = np.empty((n, ROUNDS))
    for t in range(ROUNDS):
        arms = agent.act()
        rewards = (rng.random(n) < means[np.arange(n), arms]).astype(float)
        agent.update(arms, rewards)
        belief.update(arms, rewards)
        found[:, t] = log_evidence(belief) - log_evidence(agent.belief)
    return found


def log_evidence(belief: mixts.Belief) -> Array:
    """Return ln p(history | prior) of each task."""
    with np.errstate(divide="ignore"):
        log_weights = np.log(belief.prior.weights)
    return np.asarray(np.logaddexp.reduce(log_weights + belief.log_evidence, axis=1))


def share_for(gain: float) -> float:
    """Return the share of a kind that seldom clicks at which a task gains so many nats."""

    def missing(share: float) -> float:
        rival = challenger(1, share, (0.7, 0.3))
        return float(ratios(rival, rival, 40_000, np.random.default_rng(3))[:, -1].mean()) - gain

    return float(optimize.brentq(missing, 1e-4, 0.9, xtol=1e-4))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--streams", type=int, default=10_000, help="without a gain; 0: none")
    parser.add_argument("--tasks", type=int, default=200, help="of a stream without a gain")
    parser.add_argument("--power", type=int, default=200, help="streams with a gain")
    options = parser.parse_args()
    started = time.process_time()
    print("the champion is right: streams that ever reach E = 100 (at most 1 %)\n")
    for name, rival in NULL.items() if options.streams else ():
        found = watch(champion(), rival, options.streams, options.tasks, seed=1)
        n = int(np.isfinite(found.first).sum())
        low, high = stats.binomtest(n, options.streams).proportion_ci(0.95, "exact")
        print(
            f"{name}: {n} of {options.streams:,}, {n / options.streams:.2%} "
            f"({low:.2%} to {high:.2%}); ln E a task {found.last.mean() / options.tasks:+.4f}"
        )
    print("\nthe challenger is right: tasks until E = 100\n")
    for gain in (0.01, 0.05, 0.2):
        rival, n_tasks = challenger(1, share_for(gain), (0.7, 0.3)), int(40 / gain) // LIVE * LIVE
        found = watch(rival, rival, options.power, n_tasks, seed=2)
        quantiles = np.quantile(found.first, [0.1, 0.5, 0.9])
        print(
            f"gain {found.last.mean() / n_tasks:.3f} nats a task: median {quantiles[1]:.0f}, mean "
            f"{found.first.mean():.0f} (4.6 / gain: {np.log(LIMIT) / gain:.0f}), a tenth by "
            f"{quantiles[0]:.0f}, nine tenths by {quantiles[2]:.0f}"
        )
    print(f"\n{time.process_time() - started:.0f} s of CPU")


if __name__ == "__main__":
    main()
