"""How far are the policies from the optimum? Two arms, exactly.

All that a history of K Bernoulli arms says is how many successes and failures each arm had. After t
rounds there are C(t + 2K - 1, 2K - 1) such counts, so for two arms and some ten rounds every belief
that can arise is known, and with it the best possible policy and the value of any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations_with_replacement
from typing import Any

import numpy as np

from mixts import MixturePrior
from mixts.errors import ParameterError
from mixts.extend import Array, Estimate, Float, Int, estimate, random
from mixts.families import BernoulliArms, BernoulliStatistics
from mixts.plots import draw_agents, label_ends, looks, new_axes
from mixts_paper.experiments import base
from mixts_paper.experiments.beyond import INFORMED, NAMES, PLAIN
from mixts_paper.experiments.verdicts import exceeds, not_worse, weakest

# -- exact values ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CountTree:
    """All counts that K arms can have within a number of rounds, one row each, round by round."""

    counts: Int[Array, "n 2 K"]
    """Successes, then failures, of each arm."""
    starts: Int[Array, " t"]
    """Rows ``starts[t]`` to ``starts[t + 1]`` are the counts after t rounds."""
    following: Int[Array, "m 2 K"]
    """Rows after a success, then a failure, of each arm; the last counts have none."""

    @property
    def n_rounds(self) -> int:
        """Number of rounds of the longest history."""
        return len(self.starts) - 2

    def statistics(self, n_rounds: int) -> BernoulliStatistics:
        """Return all histories of fewer than ``n_rounds`` rounds, as the statistics of tasks.

        These are the histories after which a policy with this horizon still has to decide.
        """
        counts = self.counts[: self.starts[n_rounds]]
        return BernoulliStatistics(successes=counts[:, 0], failures=counts[:, 1])

    def value(
        self,
        success: Float[Array, "n K"],
        horizon: int,
        probabilities: Float[Array, "m K"] | None = None,
    ) -> float:
        """Return the expected sum of rewards of a policy, or of the best policy.

        ``V_t(c) = sum_a q_a(c) [p_a(c) (1 + V_{t+1}(c + success of a)) + (1 - p_a(c)) V_{t+1}(c +
        failure of a)]``, from ``V_h = 0`` back to the first round. The best policy has the maximum
        over the arms in place of the sum.

        Parameters
        ----------
        success
            p: probability that the next reward of each arm is 1, after every history. It is the
            arm's mean reward under the belief.
        horizon
            h: number of rounds.
        probabilities
            q: probability that the policy takes each arm, after every history; None: the best
            policy, which is the Bayes-optimal one.
        """
        if not 1 <= horizon <= self.n_rounds:
            raise ParameterError(f"horizon must be from 1 to {self.n_rounds}, got {horizon}")
        values = np.zeros(self.starts[horizon + 1])
        for t in reversed(range(horizon)):
            rows = slice(self.starts[t], self.starts[t + 1])
            won, lost = np.moveaxis(values[self.following[rows]], 1, 0)
            each = success[rows] * (1 + won) + (1 - success[rows]) * lost
            values[rows] = (
                each.max(axis=1)
                if probabilities is None
                else (probabilities[rows] * each).sum(axis=1)
            )
        return float(values[0])


@cache
def count_tree(n_arms: int, n_rounds: int) -> CountTree:
    """Return all counts that ``n_arms`` arms can have within ``n_rounds`` rounds."""
    n_outcomes = 2 * n_arms
    by_round = [
        [
            tuple(outcomes.count(i) for i in range(n_outcomes))
            for outcomes in combinations_with_replacement(range(n_outcomes), t)
        ]
        for t in range(n_rounds + 1)
    ]
    rows = {counts: row for row, counts in enumerate(chain.from_iterable(by_round))}
    inner = list(rows)[: len(rows) - len(by_round[-1])]
    following = [
        [rows[(*counts[:i], counts[i] + 1, *counts[i + 1 :])] for i in range(n_outcomes)]
        for counts in inner
    ]
    return CountTree(
        np.array(list(rows)).reshape(-1, 2, n_arms),
        np.cumsum([0, *map(len, by_round)]),
        np.array(following).reshape(-1, 2, n_arms),
    )


# -- the experiment --------------------------------------------------------------------------------


N_ARMS, N_COMPONENTS = 2, 2
LONGEST = 8
"""Longest horizon, whatever number of rounds is asked for: 330 counts after which to decide."""
BLOCK = 10
"""Random priors in a block."""
STRENGTHS = (1.0, 20.0)
"""Random priors: least and greatest total count of an arm under a component."""
OPTIMAL, UNIFORM = "optimal", "uniform"
SHOWN = (0.3, 1.04)
"""Shares that the figure shows: 0 is a uniform choice, 1 the best possible policy."""


class ValueBlocks(base.Blocks):
    """Exact values of all policies and horizons under random priors."""

    cost = 2.0

    def __init__(self, n_priors: int, n_rounds: int, seed: int) -> None:
        self._n_priors, self._n_rounds, self._seed = n_priors, n_rounds, seed
        self.n_blocks = -(-n_priors // BLOCK)

    def play(self, block: int) -> base.Arrays:
        rng = random.stream(self._seed, "beyond/optimum", block)
        priors = [random_prior(rng) for _ in range(BLOCK)][: self._n_priors - block * BLOCK]
        values = [policy_values(prior, self._n_rounds) for prior in priors]
        return {name: np.stack([one[name] for one in values]) for name in values[0]}


class OptimumExperiment(base.Experiment):
    """Two Bernoulli arms and two components: backward induction over all counts."""

    title = "How far each policy is from the best possible one"
    place = "not in the paper"
    scale = base.Scale(40, 8)
    quick = base.Scale(10, 5)

    def parts(self, setting: base.Setting, once: base.Once) -> dict[str, base.Blocks]:
        n_rounds = min(setting.n_rounds, LONGEST)
        return {"random": ValueBlocks(setting.n_runs, n_rounds, setting.seed)}

    def analyse(self, measured: base.Measured) -> base.Analysis:
        drawn = measured.parts["random"]
        shares = {name: gain_shares(drawn, name) for name in NAMES}
        n_rounds = len(shares["MixTS"].mean)
        lead = estimate(drawn["MixIDS"][:, -1] - drawn["MixTS"][:, -1])
        informed = estimate(drawn["MixIDS, horizon"][:, -1] - drawn["MixIDS"][:, -1])
        greedy = estimate(drawn["MixIDS, horizon"][:, -1] - drawn["Greedy"][:, -1])
        best = max(float((drawn[name] - drawn[OPTIMAL]).max()) for name in NAMES)
        return base.Analysis(
            {
                "n_priors": len(drawn[OPTIMAL]),
                "n_rounds": n_rounds,
                "longest": LONGEST,
                "asked": measured.setting.n_rounds,
                "horizons": range(1, n_rounds + 1),
                "n_counts": int(count_tree(N_ARMS, n_rounds).starts[n_rounds]),
                "names": NAMES,
                "shares": {name: base.separate(shares[name]) for name in NAMES},
                "lost": {
                    name: estimate(drawn[OPTIMAL][:, -1] - drawn[name][:, -1]) for name in NAMES
                },
                "optimal": estimate(drawn[OPTIMAL][:, -1]),
                "uniform": estimate(drawn[UNIFORM][:, -1]),
                "lead": lead,
                "informed": informed,
                "greedy": greedy,
                "above": best,
            },
            {
                "ceiling": "holds" if best <= 1e-9 else "does not hold",
                "lead": exceeds(lead),
                "informed": weakest(not_worse(informed), not_worse(greedy)),
            },
            {"share": _figure(shares)},
        )


# -- values ---------------------------------------------------------------------------------------


def random_prior(rng: np.random.Generator) -> MixturePrior:
    """Draw a prior: means and weights uniform, total counts uniform on a logarithmic scale."""
    shape = (N_COMPONENTS, N_ARMS)
    means = rng.uniform(0.02, 0.98, shape)
    least, most = np.log(STRENGTHS)
    counts = np.exp(rng.uniform(least, most, shape))
    weight = rng.uniform(0.05, 0.95)
    return MixturePrior(BernoulliArms(means * counts, (1 - means) * counts), [weight, 1 - weight])


def policy_values(prior: MixturePrior, n_rounds: int) -> dict[str, Float[Array, " h"]]:
    """Return the exact value of every policy, for the horizons 1 to ``n_rounds``.

    A policy decides after every possible history, all at once: histories are its tasks. A policy
    that knows the horizon decides anew for each.
    """
    tree = count_tree(N_ARMS, n_rounds)
    histories = [tree.statistics(h) for h in range(1, n_rounds + 1)]
    success = np.asarray(prior.condition(histories[-1]).mean_rewards())
    chosen: dict[str, list[Any]] = {OPTIMAL: [None] * n_rounds}
    chosen[UNIFORM] = [np.full_like(success, 1 / N_ARMS)] * n_rounds
    for name, kind in PLAIN.items():
        agent = kind.resume(prior, histories[-1], seed=0)
        chosen[name] = [agent.action_probabilities()[0]] * n_rounds
    for name, kind in INFORMED.items():
        chosen[name] = [
            kind.resume(prior, histories[h - 1], seed=0, horizon=h).action_probabilities()[0]
            for h in range(1, n_rounds + 1)
        ]
    return {
        name: np.array([tree.value(success, h, q) for h, q in enumerate(each, 1)])
        for name, each in chosen.items()
    }


# -- analysis -------------------------------------------------------------------------------------


def gain_shares(values: base.Arrays, name: str) -> Estimate:
    """Return the mean gain over a uniform choice relative to the best possible mean gain.

    The standard error is that of a ratio of means, to first order.
    """
    gain, best = values[name] - values[UNIFORM], values[OPTIMAL] - values[UNIFORM]
    ratio = gain.mean(axis=0) / best.mean(axis=0)
    return Estimate(ratio, estimate(gain - ratio * best).error / best.mean(axis=0))


def _figure(shares: Mapping[str, Estimate]) -> Any:
    axes = new_axes()
    x = np.arange(1, len(shares["MixTS"].mean) + 1)
    style = {"marker": "o", "markersize": 2.0, "markeredgewidth": 0}
    label_ends(axes, draw_agents(axes, x, shares, looks(NAMES), **style))
    axes.axhline(1.0, color="#000000", linewidth=0.6, zorder=1)
    axes.set_ylim(*SHOWN)
    axes.set_xlim(0.7, x[-1] + 0.3)
    axes.set_xticks(x)
    axes.set_xlabel("rounds of a task")
    axes.set_ylabel("share of the best possible gain")
    return axes.figure


EXPERIMENT = OptimumExperiment()
