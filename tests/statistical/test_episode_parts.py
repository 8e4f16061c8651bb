"""Eq. 6 and the width of a value, over many sampled MDPs.

Given the history, the true best policy with the true state and the policy played with the state
sampled have one law. So V_t(pi_t, S_t) - V_t(pi_*, S_*) has mean 0 in every episode, and the two
parts of the regret sum to it within errors. V_t is an average over a few MDPs of the posterior,
which has the right mean: its noise is part of the standard errors.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from mixts_paper.analysis.confidence import EpisodeMeasure

import mixts
from mixts import _random
from mixts.environments.base import Choices
from mixts.environments.mdp import MDPEnvironment, MDPProblem
from mixts.families import TabularMDP
from mixts.simulation import Round
from tests.statistical.standard_errors import assert_within, limit, of_mean

N_EPISODES, N_RUNS, N_SAMPLES = 5, 8000, 2


def rooms() -> mixts.MixturePrior:
    """Three rooms with a door to each; which of them pays is the latent state."""
    rng = np.random.default_rng(8)
    pays = np.eye(3)[:, :, None, None]
    reward = (pays * [4.0, 1.0] + (1 - pays) * [1.0, 3.0]) * rng.uniform(0.7, 1.4, (3, 3, 3, 2))
    transition = rng.uniform(0.2, 1.0, (3, 3, 3, 3)) + 2 * np.eye(3)
    family = TabularMDP(reward, transition, 4, [0.5, 0.3, 0.2])
    return mixts.MixturePrior(family, [0.5, 0.3, 0.2])


class Episodes(NamedTuple):
    """Parts of the regret of each run and episode."""

    regret: Any
    first: Any
    """V_*(pi_*) - V_t(pi_*, S_*)."""
    second: Any
    """V_t(pi_t, S_t) - V_*(pi_t)."""
    again: Any
    """The second with another draw of S_t in the place of the one that pi_t goes with."""
    late: Any
    """The second with the belief of after the episode."""


@functools.cache
def episodes() -> Episodes:
    prior = rooms()
    problem = MDPEnvironment(prior).start(partial(_random.stream, 5, "parts"), N_RUNS)
    agent = mixts.MixTS(prior, N_RUNS, 6)
    measure, rng = EpisodeMeasure(prior.family, N_EPISODES, N_SAMPLES), np.random.default_rng(7)
    rounds = []
    for _ in range(N_EPISODES):
        policy = agent.act()
        latent, belief = agent.last_latent, agent.belief
        mean_value = partial(measure.mean_value, rng, belief)
        best = mean_value(problem.latent, problem.best_policy)[0]
        played = mean_value(latent, policy)[0]
        again = mean_value(belief.sample_latent(rng), policy)[0]
        outcome = problem.play(policy)
        agent.update(*outcome.feedback)
        late = mean_value(latent, policy)[0]
        regret, worth = outcome.best - outcome.values, outcome.values
        rounds.append((regret, outcome.best - best, *(v - worth for v in (played, again, late))))
    return Episodes(*(np.stack(column, axis=1) for column in zip(*rounds, strict=True)))


def test_the_parts_sum_to_the_regret() -> None:
    """In every episode, and over all of them."""
    found = episodes()
    rest = found.first + found.second - found.regret
    assert_within(of_mean(rest))
    assert abs(of_mean(rest.sum(axis=1))) < limit(1)


def test_both_parts_are_there() -> None:
    """The best policy is better than its state expects, and what is chosen promises too much."""
    found = episodes()
    assert of_mean(found.first.sum(axis=1)) > 10
    assert of_mean(found.second.sum(axis=1)) > 10


def test_another_state_or_a_later_belief_is_noticed() -> None:
    found = episodes()
    for wrong in (found.again, found.late):
        rest = (found.first + wrong - found.regret).sum(axis=1)
        assert abs(of_mean(rest)) > 2 * limit(1)


# -- the width of a value --------------------------------------------------------------------------


def levers() -> mixts.MixturePrior:
    """One component pays and one does not; with 2,000 counts a pair the widths say something."""
    pays = np.array([0.95, 0.05])
    reward = np.broadcast_to(
        2000 * np.stack([pays, 1 - pays], axis=-1)[:, None, None], (2, 2, 2, 2)
    )
    rows = np.array([[[0.7, 0.3], [0.4, 0.6]], [[0.2, 0.8], [0.5, 0.5]]])
    transition = np.broadcast_to(2000 * rows, (2, 2, 2, 2))
    return mixts.MixturePrior(TabularMDP(np.array(reward), np.array(transition), 3, [0.5, 0.5]))


def test_no_sampled_value_is_further_above_its_mean_than_the_width() -> None:
    """V_M(pi) - V_t(pi, s) <= E h sum_i (c_t + phi_t), for M ~ P_t(. | s); not for M of another."""
    prior, n, n_episodes = levers(), 300, 10
    measure, rng = EpisodeMeasure(prior.family, n_episodes, 20), np.random.default_rng(9)
    belief = prior.belief(n)
    family = prior.family
    assert isinstance(family, TabularMDP)
    gaps = {}
    for s, other in [(0, 0), (1, 1), (1, 0)]:
        latent = np.full(n, s)
        sampled = family.mdp(belief.sample_parameters(rng, np.full(n, other)))
        problem = MDPProblem(latent, sampled, rng)
        policy = problem.best_policy
        widths, value = np.zeros(n), sampled.value(policy)
        mean, error = measure.mean_value(rng, belief, latent, policy)
        for _ in range(10):
            played = Round(rng, belief, latent, Choices(), policy, problem.play(policy))
            widths += measure(played)["width"] / 10
        # Widths hardly differ along an episode, and the bound says something: it is below h.
        assert (widths < family.horizon).all()
        gaps[s, other] = (value - mean - 5 * error) / widths, (value - mean + 5 * error) / widths
    assert max(gaps[0, 0][1].max(), gaps[1, 1][1].max()) < 1
    assert gaps[1, 0][0].min() > 1
