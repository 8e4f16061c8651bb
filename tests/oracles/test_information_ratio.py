"""The information ratio that MixIDS minimises, against its bound and against Thompson sampling's.

MixIDS takes the law p that minimises (p . regret)^2 divided by
(p . variance). The law of the best action, which is MixTS's, has a ratio of at most r = min(d, K):
so the minimum has no larger one.
"""

from __future__ import annotations

import numpy as np
import pytest

import mixts

pytestmark = pytest.mark.usefixtures("program")

TASKS = 40


def gaussian(width: float) -> mixts.MixturePrior:
    rng = np.random.default_rng(1)
    return mixts.MixturePrior(
        mixts.GaussianArms(rng.normal(size=(3, 5)), np.full((3, 5), width**2), 0.7), [0.5, 0.3, 0.2]
    )


def bernoulli() -> mixts.MixturePrior:
    rng = np.random.default_rng(2)
    return mixts.MixturePrior(mixts.BernoulliArms(*rng.uniform(0.5, 6, size=(2, 3, 4))))


PRIORS = {"no width": gaussian(0.0), "wide": gaussian(0.8), "bernoulli": bernoulli()}


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("n_seen", [0, 1, 8])
def test_the_ratio_is_at_most_the_rank(name: str, n_seen: int) -> None:
    prior = PRIORS[name]
    rng = np.random.default_rng(5)
    ids = mixts.MixIDS(prior, n_tasks=TASKS, seed=0)
    ts = mixts.MixTS(prior, n_tasks=TASKS, seed=0)
    _, truth = prior.draw(rng, TASKS)
    for _ in range(n_seen):
        arms = rng.integers(truth.shape[1], size=TASKS)
        rewards = prior.family.outcomes(rng, truth[np.arange(TASKS), arms])
        ids.update(arms, rewards)
        ts.update(arms, rewards)
    regret, told = ids.terms()
    law, drawn = ids.action_probabilities()[0], ts.action_probabilities()[0]
    rank = truth.shape[1]
    if name == "no width":
        rank = min(rank, prior.n_components - 1)
    paid, learned = (law * regret).sum(axis=1), (law * told).sum(axis=1)
    assert (paid**2 <= rank * learned * (1 + 1e-6) + 1e-12).all()
    # The minimum is below Thompson sampling's ratio, which has the same bound.
    theirs, seen = (drawn * regret).sum(axis=1), (drawn * told).sum(axis=1)
    assert (theirs**2 <= rank * seen * (1 + 1e-6) + 1e-12).all()
    assert (paid**2 * seen <= theirs**2 * learned * (1 + 1e-6) + 1e-12).all()


def test_greedy_has_no_such_bound() -> None:
    """It keeps to a known arm that is worth more on average, and never learns better."""
    prior = mixts.MixturePrior(
        mixts.GaussianArms([[0.5, 0.1], [0.5, 0.9]], np.zeros((2, 2)), 0.5), [0.6, 0.4]
    )
    greedy = mixts.Greedy(prior, seed=0)
    law = greedy.action_probabilities()[0]
    regret, variance = mixts.MixIDS(prior, seed=0).terms()
    assert law.tolist() == [1, 0]
    assert law @ regret == pytest.approx(0.4 * 0.4)
    assert law @ variance == 0
    results = mixts.simulate({"Greedy": greedy_of}, mixts.BanditEnvironment(prior), 50, 40, 1)
    paid = results.regret["Greedy"].sum(axis=1)
    assert set(np.round(paid, 9)) == {0.0, round(50 * 0.4, 9)}


def greedy_of(n_tasks: int, seed: int) -> mixts.Greedy:
    prior = mixts.MixturePrior(
        mixts.GaussianArms([[0.5, 0.1], [0.5, 0.9]], np.zeros((2, 2)), 0.5), [0.6, 0.4]
    )
    return mixts.Greedy(prior, n_tasks=n_tasks, seed=seed)


def test_bayes_ucb_has_no_such_bound() -> None:
    """At first its quantile is the median: a state less likely than one half does not count."""
    prior = mixts.MixturePrior(
        mixts.GaussianArms([[0.5, 0.1], [0.5, 0.9]], np.zeros((2, 2)), 0.5), [0.6, 0.4]
    )
    law = mixts.BayesUCB(prior, seed=0).action_probabilities()[0]
    regret, variance = mixts.MixIDS(prior, seed=0).terms()
    assert law @ regret > 0
    assert law @ variance == 0
