"""Ten Bernoulli arms under a flat prior in many rounds: which policies stop losing?"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts import MixturePrior
from mixts.environments import BanditEnvironment
from mixts.extend import Array, Float, estimate
from mixts.families import BernoulliArms
from mixts.plots import new_panels, plot
from mixts.simulation import Results
from mixts_paper.experiments import base
from mixts_paper.experiments.beyond import PLAIN, policies_of
from mixts_paper.experiments.verdicts import at_most, exceeds

N_ARMS = 10
BLOCK = 20
"""Runs in a block."""
SLOWER = 2.0
"""Growth of the regret from one factor of ten in rounds to the next that still counts as that of a
logarithm. With K arms and a flat prior the regret of the best policies grows like the square of a
logarithm: 1.4 times here; a square root gives 3.2, a straight line 10."""
STUCK = 0.02
"""Mean regret of a round in the last tenth of the rounds from which on a run counts as stuck."""


class LongRunExperiment(base.Experiment):
    """Ten Bernoulli arms, a flat prior, 10,000 rounds."""

    title = "A long run without prior knowledge"
    place = "not in the paper"
    scale = base.Scale(40, 10_000)
    quick = base.Scale(8, 200)

    def parts(self, setting: base.Setting, once: base.Once) -> dict[str, base.Blocks]:
        prior = MixturePrior(BernoulliArms.uniform(N_ARMS))
        agents, bandit = policies_of(prior, setting.n_rounds, PLAIN), BanditEnvironment(prior)
        return {
            "agents": base.SimulationBlocks(
                agents, bandit, setting, block_size=BLOCK, microseconds=20.0, rewards=False
            )
        }

    def analyse(self, measured: base.Measured) -> base.Analysis:
        results = measured.results("agents")
        n = measured.setting.n_rounds
        tenths = {name: by_factor_of_ten(regret) for name, regret in results.regret.items()}
        growth = {name: estimate(last - SLOWER * before) for name, (before, last) in tenths.items()}
        stuck = {name: stuck_runs(regret) for name, regret in results.regret.items()}
        return base.Analysis(
            {
                "n": n,
                "n_runs": measured.setting.n_runs,
                "n_arms": N_ARMS,
                "slower": SLOWER,
                "summary": results.summary(),
                "tenths": {
                    name: [estimate(values) for values in each] for name, each in tenths.items()
                },
                "stuck": stuck,
                "behind": {
                    name: results.difference(name, "MixTS")
                    for name in results.agents
                    if name != "MixTS"
                },
            },
            {
                "logarithm": at_most(growth["MixIDS"], 0.0),
                "greedy": exceeds(growth["Greedy"]),
                "stuck": exceeds(estimate(stuck["Greedy"].astype(float))),
            },
            {"regret": _figure(results)},
        )


def by_factor_of_ten(regret: Float[Array, "r n"]) -> tuple[Array, Array]:
    """Return the regret of each run in rounds n/100 to n/10, and from there to n."""
    n = regret.shape[1]
    first, middle = n // 100, n // 10
    return regret[:, first:middle].sum(axis=1), regret[:, middle:].sum(axis=1)


def stuck_runs(regret: Float[Array, "r n"]) -> Array:
    """Return which runs still lose more than ``STUCK`` a round in the last tenth of the rounds."""
    last = regret[:, -max(1, regret.shape[1] // 10) :]
    return np.asarray(last.mean(axis=1) > STUCK)


def _figure(results: Results) -> Any:
    left, right = new_panels(2)
    plot(results, left)
    plot(results, right, log_x=True, agents=[name for name in PLAIN if name != "Greedy"])
    return right.figure


EXPERIMENT = LongRunExperiment()
