"""The joint law of a decision: its latent state is drawn once, then all arms given it.

Drawing a component for each arm is another algorithm whose marginals look the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from tests.statistical import settings
from tests.statistical.laws import best_action_law
from tests.statistical.standard_errors import assert_within, of_frequency, of_mean

N = 100_000
ZEROS = np.zeros(N, int)

# -- what no decision can look like ----------------------------------------------------------------

LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
OPPOSITES = np.array([[HIGH, LOW, MIDDLE], [LOW, HIGH, MIDDLE]])
"""One of the first two arms is high, the other low; the third is never best."""


def opposites(kind: str) -> tuple[mixts.MixturePrior, Any]:
    """Standard deviations of at most 0.016: the values are 25 of them apart."""
    tight = np.full(OPPOSITES.shape, 1e-4)
    family, actions = {
        "bernoulli": (mixts.BernoulliArms(1000 * OPPOSITES, 1000 * (1 - OPPOSITES)), None),
        "gaussian": (mixts.GaussianArms(OPPOSITES, tight, 1.0), None),
        "poisson": (mixts.PoissonArms(4000 * OPPOSITES, np.full(OPPOSITES.shape, 4e3)), None),
        "linear": (mixts.LinearGaussian(OPPOSITES, tight, 1.0, "diag"), np.eye(3)),
    }[kind]
    return mixts.MixturePrior(family, weights=[0.4, 0.6]), actions


@pytest.mark.parametrize("kind", ["bernoulli", "gaussian", "poisson", "linear"])
def test_no_decision_mixes_components(kind: str) -> None:
    """Drawn arm by arm, both would be low in a quarter of the decisions, and the third be taken."""
    prior, actions = opposites(kind)
    agent = mixts.MixTS(prior, n_tasks=1, seed=1)
    chosen = agent.act(actions, tasks=ZEROS)
    np.testing.assert_array_equal(chosen, agent.last_latent)
    assert_within(of_frequency(np.bincount(chosen, minlength=3), N, [0.4, 0.6, 0.0]))
    latent, theta = prior.belief(N).sample(np.random.default_rng(2))
    assert abs(theta - OPPOSITES[latent]).max() < 0.1
    truths, drawn = prior.draw(np.random.default_rng(3), N)
    assert abs(drawn - OPPOSITES[truths]).max() < 0.1


# -- after a history -------------------------------------------------------------------------------

SETTINGS = {
    "bernoulli": settings.bernoulli(),
    "gaussian": settings.gaussian(),
    "poisson": settings.poisson(),
    "linear": settings.linear(0.3, noise_std=1.5),
}
kinds = pytest.mark.parametrize("kind", SETTINGS)


def history(kind: str, n: int) -> tuple[Any, Any]:
    """Rounds of a task of the second component, played at random."""
    setting, rng = SETTINGS[kind], np.random.default_rng(20)
    theta = setting.draw(rng, np.array([1]))[0]
    actions = rng.normal(size=(n, 4)) if kind == "linear" else rng.integers(4, size=n)
    means = actions @ theta if kind == "linear" else theta[actions]
    return actions, setting.reward(rng, means)


@kinds
@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
def test_latent_state_and_action_together(kind: str, masked: bool) -> None:
    belief, agent = SETTINGS[kind].prior.belief(), mixts.MixTS(SETTINGS[kind].prior, 1, seed=4)
    taken, outcomes = history(kind, 3)
    belief.update(taken, outcomes)
    agent.update(taken, outcomes, tasks=np.zeros(3, int))
    assert belief.weights.min() > 0.02  # every component still matters
    actions = np.random.default_rng(21).normal(size=(3, 4)) if kind == "linear" else None
    mask = np.arange(3 if kind == "linear" else 4) != 1 if masked else None
    law = best_action_law(belief, actions, mask)
    chosen = agent.act(actions, tasks=ZEROS, mask=mask)
    table = np.zeros(law.shape)
    np.add.at(table, (agent.last_latent, chosen), 1)
    assert_within(of_frequency(table, N, np.clip(law, 0, 1)))


def moments(latent: Any, theta: Any, belief: mixts.Belief) -> list[Any]:
    """Deviations of draws from every first and second moment that the belief states."""
    gap = theta - belief.mean
    found = [of_mean(gap), of_mean(gap[:, :, None] * gap[:, None, :], belief.covariance)]
    found.append(of_frequency(np.bincount(latent, minlength=3), N, belief.weights))
    for s in range(3):
        inside = theta[latent == s] - belief.component_mean[s]
        squares = inside[:, :, None] * inside[:, None, :]
        found += [of_mean(inside), of_mean(squares, belief.component_covariance[s])]
    return found


@kinds
def test_prior_draws_have_the_moments(kind: str) -> None:
    prior = SETTINGS[kind].prior
    draws = prior.draw(np.random.default_rng(5), N)
    assert_within(np.concatenate([np.ravel(z) for z in moments(*draws, prior.belief())]))


@kinds
@pytest.mark.parametrize("n", [2, 7], ids=["few", "many"])
def test_posterior_draws_have_the_moments(kind: str, n: int) -> None:
    """After fewer observations than dimensions, and after more."""
    prior = SETTINGS[kind].prior
    actions, outcomes = history(kind, n)
    one, many = prior.belief(), prior.belief(2)
    for action, outcome in zip(actions, outcomes, strict=True):
        one.update(action, outcome)
        many.update(action[None], np.array([outcome]), tasks=[1])
    rng, tasks = np.random.default_rng(6), np.ones(N, int)
    latent = many.sample_latent(rng, tasks=tasks)
    theta = many.sample_parameters(rng, latent, tasks=tasks)
    assert_within(np.concatenate([np.ravel(z) for z in moments(latent, theta, one)]))


# -- rewards ---------------------------------------------------------------------------------------

MEANS = np.array([0.2, 0.7, 0.95])
VARIANCES = {
    "bernoulli": MEANS * (1 - MEANS),
    "gaussian": np.full(3, 0.7**2),
    "poisson": MEANS,
    "linear": np.full(3, 1.5**2),
}


@kinds
def test_rewards_have_their_moments(kind: str) -> None:
    family = SETTINGS[kind].family
    rewards = family.outcomes(np.random.default_rng(7), np.tile(MEANS, N)).reshape(N, 3)
    gap = rewards - MEANS
    assert_within(np.array([of_mean(gap), of_mean(gap**2, VARIANCES[kind])]))
    assert_within(of_mean(gap * np.roll(gap, 1, axis=1)))
