"""The identities of Algorithm 1 for MDPs whose truths the tests drew, in standard errors.

Given the history, the truth (S*, M*, pi*) and what MixTS draws (S_t, M_t, pi_t) have the same law.
What holds for every family is looked at as for bandits; what is about policies and values, here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import mixts
from tests.statistical.identities import (
    Record,
    look_at_intervals,
    look_at_ranks,
    look_at_weights,
)
from tests.statistical.settings import WEIGHTS, Setting, bernoulli
from tests.statistical.standard_errors import of_frequency, of_mean

N_STATES, N_ACTIONS, HORIZON = 3, 2, 4
INITIAL = np.array([0.5, 0.3, 0.2])


@dataclass(frozen=True)
class TabularSetting:
    """Counts of three components; with zeros the truth is not spread over all numbers."""

    reward: Any
    transition: Any

    @property
    def has_zeros(self) -> bool:
        return bool((self.reward == 0).any() or (self.transition == 0).any())

    @property
    def prior(self) -> mixts.MixturePrior:
        family = mixts.TabularMDP(self.reward, self.transition, HORIZON, INITIAL)
        return mixts.MixturePrior(family, weights=WEIGHTS)

    def draw(self, rng: np.random.Generator, latent: Any) -> Any:
        """Parameters by numpy's Dirichlet, a row at a time."""
        n, pairs = len(latent), list(np.ndindex(N_STATES, N_ACTIONS))
        rewards = np.empty((n, N_STATES, N_ACTIONS))
        rows = np.zeros((n, N_STATES, N_ACTIONS, N_STATES))
        for s in range(len(WEIGHTS)):
            mine = np.flatnonzero(latent == s)
            for x, a in pairs:
                rewards[mine, x, a] = dirichlet(rng, self.reward[s, x, a], len(mine))[:, 0]
                rows[mine, x, a] = dirichlet(rng, self.transition[s, x, a], len(mine))
        return np.concatenate([rewards.reshape(n, -1), rows.reshape(n, -1)], axis=1)

    @property
    def as_bandit(self) -> Setting:
        """Every parameter as if it were an arm: its posterior is a mixture of Beta laws."""
        return Setting(self.prior.family, self.draw, lambda rng, mean: mean, bernoulli().cdf, 0)


def dirichlet(rng: np.random.Generator, counts: Any, n: int) -> Any:
    """n rows; numpy's own, on the entries that are possible."""
    result = np.zeros((n, len(counts)))
    result[:, counts > 0] = rng.dirichlet(counts[counts > 0], n)
    return result


def mild(seed: int = 1) -> TabularSetting:
    rng = np.random.default_rng(seed)
    shape = (3, N_STATES, N_ACTIONS)
    return TabularSetting(
        rng.uniform(0.5, 4.0, (*shape, 2)), rng.uniform(0.4, 3.0, (*shape, N_STATES))
    )


def sparse() -> TabularSetting:
    """Each component rules out something that another has."""
    setting = mild(2)
    reward, transition = setting.reward.copy(), setting.transition.copy()
    transition[0, 0, :, 2] = transition[1, 0, 0, 1] = transition[2, 1, :, 0] = 0.0
    transition[:, 2, 1, :2] = 0.0
    reward[0, 1, :, 0] = reward[2, 2, 0, 1] = 0.0
    return TabularSetting(reward, transition)


def faint() -> TabularSetting:
    """Counts far below one: MDPs are nearly certain, but of what?"""
    setting = mild(3)
    return TabularSetting(setting.reward * 0.01, setting.transition * 0.01)


def episodes(rng: np.random.Generator, mdps: Any, policy: Any, last: bool) -> mixts.Trajectory:
    """An episode of every MDP under its policy, in lockstep."""
    n, rows = len(policy), np.arange(len(policy))
    states = np.empty((n, HORIZON + 1), int)
    actions, rewards = np.empty((n, HORIZON), int), np.empty((n, HORIZON))
    states[:, 0] = rng.choice(N_STATES, size=n, p=INITIAL)
    for i in range(HORIZON):
        x = states[:, i]
        a = actions[:, i] = policy[rows, i, x]
        rewards[:, i] = rng.random(n) < mdps.rewards[rows, x, a]
        steps = mdps.transitions[rows, x, a].cumsum(axis=1)
        # Of the possible ones: a share of zero ends where the one before it does.
        states[:, i + 1] = (steps <= rng.random(n)[:, None] * steps[:, -1:]).sum(axis=1)
    return mixts.Trajectory(states[:, : HORIZON + last], actions, rewards)


def play(setting: TabularSetting, n_tasks: int, n_episodes: int, seed: int) -> Record:
    """MixTS on tasks of known truth, with every identity looked at before every episode."""
    truth, world, agent_seed, sampler = (
        np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)
    )
    latent = truth.choice(len(WEIGHTS), size=n_tasks, p=WEIGHTS)
    theta = setting.draw(truth, latent)
    agent = mixts.MixTS(setting.prior, n_tasks=n_tasks, seed=agent_seed)
    mdps, record = setting.prior.family.mdp(theta), Record()
    # Ties are real here, where rewards are impossible: both sides break them at random.
    best = mdps.plan(truth).policy
    for t in range(n_episodes):
        look_at_weights(record, agent.belief, latent)
        if not setting.has_zeros:
            bandit = setting.as_bandit
            look_at_intervals(record, bandit, agent.belief, None, theta)
            look_at_ranks(record, bandit, agent.belief, sampler, None, theta)
        policy = agent.act()
        look_at_policies(record, agent, policy, latent, best)
        look_at_values(record, agent.belief.sample(sampler), setting, policy, mdps, best)
        agent.update(episodes(world, mdps, policy, last=t % 2 == 0))
    return record


def look_at_policies(
    record: Record, agent: mixts.MixTS, policy: Any, latent: Any, best: Any
) -> None:
    """P(S_t = s) = P_0(s); (S_t, pi_t) and (S*, pi*) have one law: of each action, and of pairs."""
    states = np.arange(len(WEIGHTS))
    drawn, truth = (s[:, None] == states for s in (agent.last_latent, latent))
    record.deviations["latent states follow the prior"].append(
        of_frequency(drawn.sum(axis=0), len(drawn), WEIGHTS)
    )
    ours, theirs = (p.reshape(len(p), -1) for p in (policy, best))
    record.deviations["policies are as often followed as best"].append(of_mean(ours - theirs))
    record.deviations["latent state and policy together"].append(
        of_mean(drawn[:, :, None] * ours[:, None] - truth[:, :, None] * theirs[:, None])
    )
    pairs = [p[:, :, None] * p[:, None, :] for p in (ours, theirs)]
    record.deviations["actions of a policy go together"].append(of_mean(pairs[0] - pairs[1]))


def look_at_values(
    record: Record, sample: Any, setting: TabularSetting, policy: Any, mdps: Any, best: Any
) -> None:
    """E V_{M_t}(pi_t) = E V*(pi*); what one thinks of the other's best policy is symmetric."""
    guess = setting.prior.family.mdp(sample[1])
    guess_best = guess.plan().policy
    record.deviations["sampled values are the true ones"].append(
        of_mean(guess.value(guess_best) - mdps.value(best))
    )
    record.deviations["truth and sample may be swapped"].append(
        of_mean(np.stack([mdps.value(policy), mdps.value(guess_best)], 1)
                - guess.value(best)[:, None])
    )  # fmt: skip
    latent = sample[0][:, None] == np.arange(len(WEIGHTS))
    record.deviations["sampled latent states follow the prior"].append(
        of_frequency(latent.sum(axis=0), len(latent), WEIGHTS)
    )
    ours, theirs = guess.parameters, mdps.parameters
    record.deviations["samples spread as truths"].append(
        np.stack([of_mean(ours - theirs), of_mean(ours**2 - theirs**2)])
    )


EVERYWHERE = (
    "weights average to the prior's",
    "weights are calibrated",
    "surprise is entropy",
    "latent states follow the prior",
    "policies are as often followed as best",
    "latent state and policy together",
    "actions of a policy go together",
    "sampled values are the true ones",
    "truth and sample may be swapped",
    "sampled latent states follow the prior",
    "samples spread as truths",
)
WITHOUT_ZEROS = ("intervals cover", "draws cover", "ranks are centred")
"""Only where every number may be anything between 0 and 1."""
