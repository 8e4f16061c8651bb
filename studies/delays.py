"""Clicks that come late: what does a model of their delay gain over the end of the reward window?

Visitors of a shop see the next page before they click on the last one. A click comes after an
exponential delay, and a decision without a click gets the reward 0 at the end of its window. The
study plays new visitors, tells the agent more or less about the decisions that wait, and prints the
regret in clicks:

    python -m studies.delays
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import mixts

RATES = np.array([[0.4, 0.06, 0.06, 0.06], [0.06, 0.4, 0.06, 0.06], [0.06, 0.06, 0.06, 0.4]])
"""Mean click rate of each item for each kind of visitor."""
TOTAL = 20.0
"""Visitors of a kind vary as Beta distributions with this sum of parameters."""
WINDOW = 6.0
"""Length of the reward window in mean delays: one click in 400 comes later, and is lost."""
DELAYS = (3.0, 10.0, 30.0)
"""Mean delays of a click, in decisions of its visitor."""
POLICIES = {"MixIDS": mixts.MixIDS, "MixTS": mixts.MixTS}


def pending(age: np.ndarray, mean: float, thought: float, made: Any) -> mixts.Pending:
    """Return the decisions that wait with the model of ``mixts serve --click-delay``.

    ``thought`` is the mean delay that the model assumes, in mean delays.
    """
    arrived = np.expm1(-age / (thought * mean)) / np.expm1(-WINDOW / thought)
    return mixts.Pending(made[0], np.minimum(arrived, 1.0), made[1])


WAYS: dict[str, Callable[[np.ndarray, float, Any], Any]] = {
    "as if expected rewards had come": lambda age, mean, made: made,
    "0 until a click comes": lambda age, mean, made: mixts.Pending(made[0], 1.0, made[1]),
    "model of the delay": lambda age, mean, made: pending(age, mean, 1.0, made),
    "model, delay thought half as long": lambda age, mean, made: pending(age, mean, 0.5, made),
    "model, delay thought twice as long": lambda age, mean, made: pending(age, mean, 2.0, made),
}
"""What an agent is told: by the ages of the decisions that wait, their mean delay, and the pair of
their actions and tasks."""


def play(policy: Any, tell: Any, mean: float, n_tasks: int, n_rounds: int) -> np.ndarray:
    """Return the regret of each visitor; the same visitors, delays and luck in every play."""
    rng = np.random.default_rng(1)
    prior = mixts.MixturePrior(mixts.BernoulliArms(RATES * TOTAL, (1 - RATES) * TOTAL))
    _, theta = prior.draw(rng, n_tasks)
    luck = rng.random((n_rounds, n_tasks))
    delay = mean * rng.standard_exponential((n_rounds, n_tasks))
    agent, every = policy(prior, n_tasks=n_tasks, seed=1), np.arange(n_tasks)
    taken, clicks = np.empty((n_rounds, n_tasks), np.int64), np.empty((n_rounds, n_tasks))
    due, regret = np.full((n_rounds, n_tasks), np.inf), np.zeros(n_tasks)
    for t in range(n_rounds):
        made, who = np.nonzero(due <= t)
        if len(made):
            agent.update(taken[made, who], clicks[made, who], who)
            due[made, who] = np.inf
        made, who = np.nonzero(due < np.inf)
        taken[t] = agent.act(waiting=tell(t - made, mean, (taken[made, who], who)))
        rate = theta[every, taken[t]]
        clicks[t] = (luck[t] < rate) & (delay[t] <= WINDOW * mean)
        due[t] = t + np.where(clicks[t] > 0, delay[t], WINDOW * mean)
        regret += theta.max(axis=1) - rate
    return regret


def study(n_tasks: int, n_rounds: int) -> dict[str, dict[str, list[np.ndarray]]]:
    """Return the regrets by policy, by what it was told, and by delay."""
    return {
        name: {
            said: [play(policy, tell, mean, n_tasks, n_rounds) for mean in DELAYS]
            for said, tell in WAYS.items()
        }
        for name, policy in POLICIES.items()
    }


def table(found: dict[str, dict[str, list[np.ndarray]]]) -> str:
    """Return the mean regrets, and their differences to the first row of the same policy."""
    heads = [f"mean delay {mean:g}" for mean in DELAYS]
    lines = [f"| policy | waiting decisions count | {' | '.join(heads)} |", "|---|---|---|---|---|"]
    for name, by_way in found.items():
        first = next(iter(by_way.values()))
        for said, regrets in by_way.items():
            cells = [f"{regret.mean():.2f}" for regret in regrets]
            if regrets is not first:
                gaps = [regret - other for regret, other in zip(regrets, first, strict=True)]
                for i, gap in enumerate(gaps):
                    cells[i] += f" ({gap.mean():+.2f} ± {gap.std(ddof=1) / len(gap) ** 0.5:.2f})"
            lines.append(f"| {name} | {said} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Play, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tasks", type=int, default=800, help="visitors (default 800)")
    parser.add_argument("--rounds", type=int, default=60, help="decisions of each (default 60)")
    options = parser.parse_args()
    print(table(study(options.tasks, options.rounds)))


if __name__ == "__main__":
    main()
