"""Identities that hold in every round if truths come from the prior, in standard errors.

Given the history, the truth (S*, theta*) and what MixTS draws (S_t, theta_t) have the same law, the
posterior. Everything here is that sentence, looked at from several sides. Tasks are independent of
each other, so every average over them has a standard error.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import special

import mixts
from tests.statistical.settings import WEIGHTS, Setting
from tests.statistical.standard_errors import of_centred_sum, of_frequency, of_mean

BINS = np.array([0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 2.0])
SMALLEST = 1e-300  # a weight may underflow; nothing happens with that probability
LEVELS = np.array([0.5, 0.9])
N_READ = 500


@dataclass
class Record:
    """Deviations of every round, by identity; and how many components were dormant and woke."""

    deviations: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    n_dormant: int = 0
    n_woken: int = 0

    def __getitem__(self, name: str) -> Any:
        return np.array(self.deviations[name])


def play(setting: Setting, n_tasks: int, n_rounds: int, seed: int) -> Record:
    """MixTS on tasks whose truths the tests drew, with every identity looked at in every round."""
    truth, world, agent_seed, sampler = (
        np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)
    )
    latent = truth.choice(len(WEIGHTS), size=n_tasks, p=WEIGHTS)
    theta = setting.draw(truth, latent)
    agent = mixts.MixTS(setting.prior, n_tasks=n_tasks, seed=agent_seed)
    record, dormant = Record(), np.zeros((n_tasks, len(WEIGHTS)), bool)
    for _ in range(n_rounds):
        sets = setting.action_sets(world, n_tasks)
        means = setting.mean_rewards(theta, sets)
        look_at_weights(record, agent.belief, latent)
        look_at_intervals(record, setting, agent.belief, sets, means)
        look_at_ranks(record, setting, agent.belief, sampler, sets, means)
        chosen = agent.act(sets)
        look_at_decisions(record, setting, agent, chosen, latent, means)
        look_at_samples(record, setting, agent.belief.sample(sampler), chosen, sets, means)
        rows = np.arange(n_tasks)
        taken = chosen if sets is None else sets[rows, chosen]
        agent.update(taken, setting.reward(world, means[rows, chosen]))
        now = agent.belief.working_weights(rows) == 0
        record.n_dormant += int(now.sum())
        record.n_woken += int((dormant & ~now).sum())
        dormant = now
    return record


def look_at_weights(record: Record, belief: mixts.Belief, latent: Any) -> None:
    """E P_t(s) = P_0(s); P(S* = s | P_t(s) = p) = p; E[-log P_t(S*)] = E[entropy of P_t]."""
    weights = belief.weights
    record.deviations["weights average to the prior's"].append(of_mean(weights, WEIGHTS))
    truth = latent[:, None] == np.arange(len(WEIGHTS))
    # Given the history, 1{S* = s} - P_t(s) has mean 0 and variance P_t(s) (1 - P_t(s)).
    variance = weights * (1 - weights)
    third = variance * (weights**2 + (1 - weights) ** 2)
    inside = [(weights >= low) & (weights < high) for low, high in pairwise(BINS)]
    record.deviations["weights are calibrated"].append(
        [of_centred_sum((truth - weights) * i, variance * i, third * i) for i in inside]
    )
    # Given the history, -log P_t(S*) has the entropy as its mean.
    logs = -np.log(np.maximum(weights, SMALLEST))
    entropy = special.entr(weights).sum(axis=1, keepdims=True)
    moments = [(weights * abs(logs - entropy) ** k).sum(axis=1) for k in (2, 3)]
    surprise = (truth * (logs - entropy)).sum(axis=1)
    record.deviations["surprise is entropy"].append(of_centred_sum(surprise, *moments))


def look_at_intervals(
    record: Record, setting: Setting, belief: mixts.Belief, sets: Any, means: Any
) -> None:
    """The central intervals of a mean reward's posterior hold the truth at their level.

    In closed form, from the moments of the components; of some tasks, as moments take longest.
    """
    some = slice(N_READ)
    belief, means = belief.prior.condition(belief.statistics[some]), means[some]
    mean, covariance = belief.component_mean, belief.component_covariance
    if sets is None:
        variance = np.diagonal(covariance, axis1=2, axis2=3)
    else:
        means, rows = means[:, :2], sets[some, :2]
        mean = np.einsum("nkd,nld->nlk", rows, mean)
        variance = np.einsum("nkd,nlde,nke->nlk", rows, covariance, rows)
    level = np.einsum("nl,nlk->nk", belief.weights, setting.cdf(means[:, None], mean, variance))
    covered = abs(level[..., None] - 0.5) < LEVELS / 2
    deviations = of_frequency(covered.sum(axis=0), len(means), LEVELS)
    record.deviations["intervals cover"].append(deviations)


def look_at_ranks(
    record: Record, setting: Setting, belief: mixts.Belief, rng: np.random.Generator,
    sets: Any, means: Any,
) -> None:  # fmt: skip
    """The rank of the truth among 19 posterior draws is uniform on 0..19: the sampler's intervals.

    Ranks 1 to 18 are a central interval of level 0.9, ranks 5 to 14 one of level 0.5.
    """
    n, k = means.shape
    below = np.zeros((n, k), int)
    for _ in range(19):
        _, theta = belief.sample(rng)
        below += setting.mean_rewards(theta, sets) < means
    for low, high, level in [(1, 18, 0.9), (5, 14, 0.5)]:
        covered = ((below >= low) & (below <= high)).sum(axis=0)
        record.deviations["draws cover"].append(of_frequency(covered, n, level))
    record.deviations["ranks are centred"].append(of_mean(below, 9.5))


def look_at_decisions(
    record: Record, setting: Setting, agent: mixts.MixTS, chosen: Any, latent: Any, means: Any
) -> None:
    """P(S_t = s) = P_0(s); P(A_t = a) = P(A* = a); and the two together."""
    states, actions = np.arange(len(WEIGHTS)), np.arange(setting.n_actions)
    drawn = agent.last_latent[:, None] == states
    record.deviations["latent states follow the prior"].append(
        of_frequency(drawn.sum(axis=0), len(drawn), WEIGHTS)
    )
    ours = chosen[:, None] == actions
    best = means.argmax(axis=1)[:, None] == actions
    record.deviations["actions are as often taken as best"].append(of_mean(ours - 1.0 * best))
    truth = latent[:, None] == states
    together = drawn[:, :, None] & ours[:, None, :]
    record.deviations["latent state and action together"].append(
        of_mean(together - 1.0 * (truth[:, :, None] & best[:, None, :]))
    )


def look_at_samples(
    record: Record, setting: Setting, sample: Any, chosen: Any, sets: Any, means: Any
) -> None:
    """E max mu_theta_t = E max mu*; what one thinks of the other's best is symmetric."""
    rows, guess = np.arange(len(means)), setting.mean_rewards(sample[1], sets)
    record.deviations["sampled maxima are the true ones"].append(
        of_mean(guess.max(axis=1) - means.max(axis=1))
    )
    record.deviations["truth and sample may be swapped"].append(
        of_mean(means[rows, chosen] - guess[rows, means.argmax(axis=1)])
    )
    record.deviations["samples spread as truths"].append(of_mean(guess**2 - means**2))


IDENTITIES = (
    "weights average to the prior's",
    "weights are calibrated",
    "surprise is entropy",
    "intervals cover",
    "draws cover",
    "ranks are centred",
    "latent states follow the prior",
    "actions are as often taken as best",
    "latent state and action together",
    "sampled maxima are the true ones",
    "truth and sample may be swapped",
    "samples spread as truths",
)
