"""How far each policy is from the Bayes-optimal one, computed exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from mixts import _random
from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Float
from mixts.agents import MixIDS
from mixts.experiments.base import (
    Analysis,
    Arrays,
    Experiment,
    Measured,
    Once,
    Part,
    Scale,
    Setting,
)
from mixts.experiments.beyond._exact import count_tree
from mixts.experiments.beyond._policies import INFORMED, NAMES, PLAIN
from mixts.experiments.verdicts import exceeds, not_worse, weakest
from mixts.families import BernoulliArms
from mixts.plots import draw_agents, label_ends, looks, new_axes, new_panels
from mixts.prior import MixturePrior

N_ARMS, N_COMPONENTS = 2, 2
LONGEST = 8
"""Longest horizon, whatever number of rounds is asked for: 330 counts after which to decide."""
BLOCK = 10
"""Random priors in a block."""
STRENGTHS = (1.0, 20.0)
"""Random priors: least and greatest total count of an arm under a component."""
OPTIMAL, UNIFORM = "optimal", "uniform"
MEASURES = {"variance": "MixIDS by variance", "best-action": "MixIDS by best action"}
"""Measures of information that are exact for arms, and the names of MixIDS with each."""
LEAST = 5e-4
"""Missed shares below this one are not drawn."""
SHOWN = (0.3, 1.04)
"""Shares that the figure shows: 0 is a uniform choice, 1 the best possible policy."""


class Named(NamedTuple):
    """A prior with a story: mean and total count of each arm under both components."""

    story: str
    means: tuple[tuple[float, float], tuple[float, float]]
    counts: tuple[float, float]
    """Total count of each arm, the same under both components."""
    weights: tuple[float, float] = (0.5, 0.5)

    def prior(self) -> MixturePrior:
        """Return the prior."""
        means, counts = np.array(self.means), np.array(self.counts)
        return MixturePrior(BernoulliArms(means * counts, (1 - means) * counts), self.weights)


NAMED = {
    "opposites": Named(
        "one arm is good and one is bad, and it is not known which",
        ((0.8, 0.2), (0.2, 0.8)), (10, 10),
    ),
    "rare hit": Named(
        "arm 1 is known to be fair; arm 2 is bad, but in one task of four excellent",
        ((0.5, 0.95), (0.5, 0.25)), (100, 20), (0.25, 0.75),
    ),
    "flat": Named(
        "nothing is known: Beta(1, 1) for both arms", ((0.5, 0.5), (0.5, 0.5)), (2, 2)
    ),
}  # fmt: skip
"""Priors with stories, by name."""


class ValuesPart(Part):
    """Exact values of all policies and horizons, for a list of priors."""

    cost = 2.0

    def __init__(self, n_priors: int, n_rounds: int, seed: int | None) -> None:
        self._n_priors, self._n_rounds, self._seed = n_priors, n_rounds, seed

    @property
    def n_blocks(self) -> int:
        return -(-self._n_priors // BLOCK)

    def play(self, block: int) -> Arrays:
        if self._seed is None:
            priors = [named.prior() for named in NAMED.values()]
        else:
            rng = _random.stream(self._seed, "beyond/optimum", block)
            priors = [random_prior(rng) for _ in range(BLOCK)][: self._n_priors - block * BLOCK]
        values = [policy_values(prior, self._n_rounds) for prior in priors]
        return {name: np.stack([one[name] for one in values]) for name in values[0]}


class OptimumExperiment(Experiment):
    """Two Bernoulli arms and two components: backward induction over all counts."""

    title = "How far each policy is from the best possible one"
    place = "not in the paper"
    scale = Scale(40, 8)
    quick = Scale(10, 5)

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        n_rounds = min(setting.n_rounds, LONGEST)
        return {
            "random": ValuesPart(setting.n_runs, n_rounds, setting.seed),
            "named": ValuesPart(len(NAMED), n_rounds, None),
        }

    def analyse(self, measured: Measured) -> Analysis:
        drawn, named = measured.parts["random"], measured.parts["named"]
        shares = {name: gain_shares(drawn, name) for name in NAMES}
        stories = {
            story: {name: _share(named, name)[i] for name in NAMES} for i, story in enumerate(NAMED)
        }
        n_rounds = len(shares["MixTS"].mean)
        lead = estimate(drawn["MixIDS"][:, -1] - drawn["MixTS"][:, -1])
        informed = estimate(drawn["MixIDS, horizon"][:, -1] - drawn["MixIDS"][:, -1])
        greedy = estimate(drawn["MixIDS, horizon"][:, -1] - drawn["Greedy"][:, -1])
        best = max(float((drawn[name] - drawn[OPTIMAL]).max()) for name in NAMES)
        return Analysis(
            {
                "n_priors": len(drawn[OPTIMAL]),
                "n_rounds": n_rounds,
                "longest": LONGEST,
                "asked": measured.setting.n_rounds,
                "horizons": range(1, n_rounds + 1),
                "n_counts": int(count_tree(N_ARMS, n_rounds).starts[n_rounds]),
                "names": NAMES,
                "shares": {name: _each(shares[name]) for name in NAMES},
                "measures": {name: _each(gain_shares(drawn, name)) for name in MEASURES.values()},
                "stories": stories,
                "named": NAMED,
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
            {"share": _figure(shares, stories), "missed": _missed_figure(shares)},
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
    for measure, name in MEASURES.items():
        ids = MixIDS.resume(prior, histories[-1], seed=0, information=measure)
        chosen[name] = [ids.action_probabilities()[0]] * n_rounds
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


def _share(values: Arrays, name: str) -> Float[Array, "n h"]:
    """Return for each prior the share of the best possible gain; NaN where there is no gain."""
    gain, best = values[name] - values[UNIFORM], values[OPTIMAL] - values[UNIFORM]
    return np.where(best > 1e-9, gain / np.where(best > 1e-9, best, 1.0), np.nan)


def gain_shares(values: Arrays, name: str) -> Estimate:
    """Return the mean gain over a uniform choice relative to the best possible mean gain.

    The standard error is that of a ratio of means, to first order.
    """
    gain, best = values[name] - values[UNIFORM], values[OPTIMAL] - values[UNIFORM]
    ratio = gain.mean(axis=0) / best.mean(axis=0)
    return Estimate(ratio, estimate(gain - ratio * best).error / best.mean(axis=0))


def _each(shares: Estimate) -> list[Estimate]:
    return [Estimate(float(m), float(e)) for m, e in zip(*shares, strict=True)]


def _figure(shares: Mapping[str, Estimate], stories: Mapping[str, Mapping[str, Array]]) -> Any:
    """Draw the average over random priors at the left, and the named priors beside it."""
    titles = ["random priors", *stories]
    panels = new_panels(len(titles), titles=titles, height=2.6)
    style = looks(NAMES)
    exact = [
        {name: Estimate(share, np.full(len(share), np.nan)) for name, share in one.items()}
        for one in stories.values()
    ]
    for ax, lines in zip(panels, (shares, *exact), strict=True):
        x = np.arange(1, len(lines["MixTS"].mean) + 1)
        ends = draw_agents(ax, x, lines, style, marker="o", markersize=2.0, markeredgewidth=0)
        ax.axhline(1.0, color="#000000", linewidth=0.6, zorder=1)
        ax.set_ylim(*SHOWN)
        ax.set_xlim(0.7, x[-1] + 0.3)
        ax.set_xticks(x)
        ax.set_xlabel("rounds of a task")
        if ax is not panels[0]:
            ax.tick_params(labelleft=False)
    label_ends(panels[-1], ends)
    panels[0].set_ylabel("share of the best possible gain")
    return panels[0].figure


def _missed_figure(shares: Mapping[str, Estimate]) -> Any:
    """Draw what is left to the best possible policy on a logarithmic axis."""
    axes = new_axes()
    missed = {name: Estimate(1 - share.mean, share.error) for name, share in shares.items()}
    # An exact policy misses nothing, and there is no logarithm of nothing.
    shown = {
        name: Estimate(np.where(one.mean > LEAST, one.mean, np.nan), np.full(len(one.mean), np.nan))
        for name, one in missed.items()
    }
    x = np.arange(1, len(shown["MixTS"].mean) + 1)
    axes.set_yscale("log")
    label_ends(axes, draw_agents(axes, x, shown, looks(NAMES), marker="o", markersize=2.4))
    axes.set_ylim(LEAST, 1.0)
    axes.set_yticks([0.001, 0.01, 0.1, 1.0], labels=["0.1%", "1%", "10%", "100%"])
    axes.set_xlim(0.7, x[-1] + 0.3)
    axes.set_xticks(x)
    axes.set_xlabel("rounds of a task")
    axes.set_ylabel("missed share of the gain")
    return axes.figure


EXPERIMENT = OptimumExperiment()
