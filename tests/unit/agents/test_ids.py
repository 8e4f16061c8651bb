"""MixIDS: terms, the distribution that minimises the ratio, horizon, bad input."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.agents.ids import least_ratio

pytestmark = pytest.mark.usefixtures("program")

N_DRAWS = 200_000


def some_priors() -> dict[str, mixts.MixturePrior]:
    rng = np.random.default_rng(11)
    weights = [0.6, 0.3, 0.1]
    families: dict[str, Any] = {
        "bernoulli": mixts.BernoulliArms(rng.uniform(0.5, 9, (3, 4)), rng.uniform(0.5, 9, (3, 4))),
        "gaussian": mixts.GaussianArms(rng.normal(size=(3, 4)), rng.uniform(0.1, 1, (3, 4)), 0.5),
        "poisson": mixts.PoissonArms(rng.uniform(1, 9, (3, 4)), rng.uniform(1, 3, (3, 4))),
        "linear": mixts.LinearGaussian(
            rng.normal(size=(3, 3)), np.stack([np.eye(3) * v for v in (0.3, 1.0, 0.1)]), 0.5
        ),
    }
    return {name: mixts.MixturePrior(family, weights) for name, family in families.items()}


PRIORS = some_priors()
ROWS = np.random.default_rng(12).normal(size=(4, 3))
priors = pytest.mark.parametrize("name", PRIORS)


def offer(name: str) -> Any:
    return ROWS if name == "linear" else None


def draws(agent: Any, name: str, n: int) -> tuple[Any, Any]:
    """Components and mean rewards of the belief, drawn by Algorithm 1's two steps."""
    rng, belief = np.random.default_rng(13), agent.belief
    latent = rng.choice(len(belief.weights), size=n, p=belief.weights)
    copies = belief.prior.condition(belief.statistics)
    theta = copies.posterior.sample(rng, np.zeros(n, np.int64), latent)
    return latent, belief.prior.family.mean_rewards(theta, offer(name))


def within(found: Any, drawn: Any, n_errors: float = 5.0) -> Any:
    """Whether numbers are the means of draws (n, K), within errors."""
    error = drawn.std(axis=0) / math.sqrt(len(drawn))
    return np.abs(found - drawn.mean(axis=0)) < n_errors * error + 1e-12


def learned(name: str, **settings: Any) -> Any:
    agent = mixts.MixIDS(PRIORS[name], seed=1, **settings)
    for a, y in ((0, 1.0), (2, 0.0), (0, 1.0)):
        agent.update(ROWS[a] if name == "linear" else a, y)
    return agent


# -- terms ----------------------------------------------------------------------------------------


@priors
def test_terms_are_those_of_a_large_sample(name: str) -> None:
    agent = learned(name, n_samples=4000)
    regret, information = agent.terms(offer(name))
    _, theta = draws(agent, name, N_DRAWS)
    tolerance = 0.02 * regret.max() if name == "linear" else 0.0
    gap = theta.max(axis=1, keepdims=True) - theta
    assert (within(regret, gap) | (np.abs(regret - gap.mean(axis=0)) < tolerance)).all()
    squares = (theta - theta.mean(axis=0)) ** 2
    assert within(information, squares).all()


@priors
def test_masked_actions_have_no_terms_and_no_probability(name: str) -> None:
    agent, mask = learned(name, n_samples=4000), np.array([False, True, True, False])
    regret, information = agent.terms(offer(name), mask=mask)
    assert np.isnan(regret[~mask]).all()
    assert np.isnan(information[~mask]).all()
    _, theta = draws(agent, name, N_DRAWS)
    gap = theta[:, mask].max(axis=1, keepdims=True) - theta[:, mask]
    tolerance = 0.02 * np.nanmax(regret) if name == "linear" else 0.0
    close = np.abs(regret[mask] - gap.mean(axis=0)) < tolerance
    assert (within(regret[mask], gap) | close).all()
    assert (agent.action_probabilities(offer(name), mask=mask)[0][~mask] == 0).all()


def test_retired_arms_have_no_terms() -> None:
    agent = learned("bernoulli")
    agent.retire_arms([1])
    regret, _ = agent.terms()
    twin = learned("bernoulli")
    np.testing.assert_array_equal(regret, twin.terms(mask=[True, False, True, True])[0])


# -- the least ratio ------------------------------------------------------------------------------


def least_by_search(regret: Any, information: Any) -> float:
    """The least ratio over all pairs of actions and a fine grid of probabilities."""
    q = np.linspace(0, 1, 2001)
    best = np.inf
    for i, j in itertools.product(range(len(regret)), repeat=2):
        d = regret[i] + q * (regret[j] - regret[i])
        g = information[i] + q * (information[j] - information[i])
        best = min(best, float((d * d / g).min()))
    return best


@pytest.mark.parametrize("seed", range(20))
def test_the_ratio_is_the_least_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    regret, information = rng.exponential(size=(2, 1, 7))
    if seed % 2:
        regret, information = regret.round(1) + 0.1, information.round(1) + 0.1
    law = least_ratio(regret, information, np.ones((1, 7), bool))
    assert law.sum() == pytest.approx(1)
    assert len(np.unique(np.stack([regret, information])[:, law > 0], axis=1).T) <= 2
    ratio = (law @ regret[0]) ** 2 / (law @ information[0])
    searched = least_by_search(regret[0], information[0])
    assert ratio <= searched * (1 + 1e-12)
    assert ratio == pytest.approx(searched, rel=1e-4)


@pytest.mark.parametrize(
    ("regret", "information", "expected"),
    [
        ([0.0, 1.0], [0.0, 1.0], [1, 0]),  # certainly best
        ([0.0, 1.0], [0.5, 1.0], [1, 0]),
        ([0.3, 0.2], [0.0, 0.0], [0, 1]),  # nothing to learn
        ([0.2, 0.2, 0.4], [0.1, 0.1, 0.1], [0.5, 0.5, 0]),  # equal actions share
        ([0.2, 0.2], [0.1, 0.3], [0, 1]),  # the more informative one
        ([0.5], [0.1], [1]),
    ],
)
def test_simple_ratios(regret: Any, information: Any, expected: Any) -> None:
    mask = np.ones((1, len(regret)), bool)
    law = least_ratio(np.array([regret]), np.array([information]), mask)
    np.testing.assert_allclose(law[0], expected)


@priors
def test_actions_come_from_the_logged_probabilities(name: str) -> None:
    agent = mixts.MixIDS(PRIORS[name], 1, seed=3)
    tasks = np.zeros(1000, np.int64)
    actions, law, errors_ = agent.act_with_probabilities(offer(name), tasks, floor=0.05)
    assert (errors_ == 0).all()
    assert law.min() >= 0.05 - 1e-12
    frequency = np.bincount(actions, minlength=4) / 1000
    spread = np.sqrt((law * (1 - law)).mean(axis=0) / 1000)
    assert (np.abs(frequency - law.mean(axis=0)) < 5 * spread).all()


# -- horizon --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [mixts.MixTS, mixts.MixIDS, mixts.BayesUCB])
@priors
def test_the_last_decision_is_greedy(name: str, kind: Any) -> None:
    agent, greedy = kind(PRIORS[name], 2, seed=1, horizon=3), mixts.Greedy(PRIORS[name], 2)
    rows = [ROWS[0], ROWS[1], ROWS[1]] if name == "linear" else [0, 1, 1]
    for a in (agent, greedy):
        a.update(rows, [1.0, 0.0, 1.0], tasks=[0, 0, 1])
    law, best = (a.action_probabilities(offer(name))[0] for a in (agent, greedy))
    np.testing.assert_allclose(law[0], best[0])
    # A decision that waits counts: the other task has one reward and one decision without.
    waiting = (rows[:1], [1])
    law = agent.action_probabilities(offer(name), waiting=waiting)[0]
    expected = greedy.action_probabilities(offer(name), waiting=waiting)[0]
    if kind is not mixts.MixTS:  # which does not imagine the reward
        np.testing.assert_allclose(law[1], expected[1])
    assert (np.sort(law[1]) == [0, 0, 0, 1]).all()


def test_a_far_horizon_is_none() -> None:
    """With a million decisions to come, the terms are those without a horizon, within errors."""
    far = learned("gaussian", horizon=10**6, n_samples=50_000).terms()
    free = learned("gaussian").terms()
    for found, expected in zip(far, free, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.01)


# -- waiting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [mixts.MixIDS, mixts.Greedy, mixts.BayesUCB])
def test_waiting_decisions_spread_later_ones(kind: Any) -> None:
    """Two equal arms: an expected reward moves neither mean, but UCB and IDS turn to the other."""
    prior = mixts.MixturePrior(mixts.BernoulliArms([[5.0, 5.0]], [[5.0, 5.0]]))
    agent = kind(prior, seed=0)
    law, _ = agent.action_probabilities(waiting=[0] * 20)
    if kind is mixts.Greedy:
        np.testing.assert_allclose(law, [0.5, 0.5])
    else:
        np.testing.assert_allclose(law, [0, 1])


def test_waiting_decisions_concern_their_task_only() -> None:
    agent = mixts.MixIDS(PRIORS["bernoulli"], 3, seed=1)
    alone = agent.terms()
    found = agent.terms(waiting=([2, 2], [1, 1]))
    for a, b in zip(alone, found, strict=True):
        np.testing.assert_array_equal(a[[0, 2]], b[[0, 2]])
    assert found[1][1, 2] < alone[1][1, 2]
    nobody = agent.terms(tasks=[0], waiting=([2, 2], [1, 1]))
    np.testing.assert_array_equal(nobody[0][0], alone[0][0])


def test_waiting_arms_may_have_names() -> None:
    family = PRIORS["bernoulli"].family
    prior = mixts.MixturePrior(family, arm_names=["a", "b", "c", "d"])
    agent = mixts.MixIDS(prior, seed=1)
    np.testing.assert_array_equal(agent.terms(waiting=["c"]), agent.terms(waiting=[2]))
    np.testing.assert_array_equal(agent.terms(waiting="c"), agent.terms(waiting=2))
    np.testing.assert_array_equal(agent.terms(waiting=[]), agent.terms())


@pytest.mark.parametrize(
    ("kind", "waiting", "error"),
    [
        (mixts.MixIDS, [0, 1], errors.ParameterError),
        (mixts.MixTS, 3, errors.ParameterError),
        (mixts.MixIDS, ([4], [0]), errors.ActionError),
        (mixts.MixTS, ([-1], [0]), errors.ActionError),
        (mixts.Greedy, ([0.5], [0]), errors.ActionError),
        (mixts.BayesUCB, ([0, 1], [0]), errors.ObservationError),
        (mixts.MixIDS, ([0], [7]), errors.TaskError),
        (mixts.MixIDS, ([], [0, 1]), errors.ObservationError),
    ],
)
def test_waiting_decisions_that_cannot_be(kind: Any, waiting: Any, error: Any) -> None:
    agent = kind(PRIORS["bernoulli"], 2, seed=1)
    with pytest.raises(error):
        agent.act(waiting=waiting)
    assert (agent.belief.statistics.n_observations == 0).all()


def test_features_that_cannot_wait() -> None:
    agent = mixts.MixIDS(PRIORS["linear"], seed=1)
    for bad in (ROWS[:, :2], [[np.nan, 0, 0]], ROWS[None], "row"):
        with pytest.raises(errors.ActionError):
            agent.act(ROWS, waiting=bad)
    with pytest.raises(errors.ActionError, match="policies"):
        mixts.MixTS(mixts.MixturePrior(mixts.TabularMDP.uniform(2, 2, 3))).act(waiting=[0])


def test_baselines_take_no_waiting_decisions() -> None:
    agent = mixts.CorralExp4(PRIORS["bernoulli"], 10, seed=1)
    with pytest.raises(errors.ParameterError, match="no waiting decisions"):
        agent.act_with_probabilities(waiting=[0])


# -- settings and refusals ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [mixts.MixIDS, mixts.Greedy, mixts.BayesUCB])
def test_policies_of_an_mdp_are_too_many(kind: Any) -> None:
    prior = mixts.MixturePrior(mixts.TabularMDP.uniform(2, 2, 3))
    with pytest.raises(errors.ParameterError, match="too many policies to compare"):
        kind(prior)


@pytest.mark.parametrize(
    "settings",
    [{"horizon": 0}, {"horizon": -3}, {"horizon": 10**30}, {"n_samples": 1}],
)
def test_settings_that_cannot_be(settings: dict[str, Any]) -> None:
    with pytest.raises(errors.ParameterError):
        mixts.MixIDS(PRIORS["bernoulli"], **settings)


def test_an_mdp_has_its_own_horizon() -> None:
    prior = mixts.MixturePrior(mixts.TabularMDP.uniform(2, 2, 3))
    with pytest.raises(errors.ParameterError, match="whole episodes"):
        mixts.MixTS(prior, horizon=5)


def test_files_keep_the_settings(tmp_path: Path) -> None:
    agent = learned("bernoulli", horizon=30, n_samples=64)
    agent.save(tmp_path / "agent")
    again = mixts.Agent.load(tmp_path / "agent")
    assert isinstance(again, mixts.MixIDS)
    assert again._settings() == agent._settings()
    np.testing.assert_array_equal(again.terms(), agent.terms())


def test_resume_refuses_unknown_settings() -> None:
    prior = PRIORS["bernoulli"]
    said = r"Greedy takes the settings \['repeatable'\], got"
    with pytest.raises(errors.ParameterError, match=said):
        mixts.Greedy.resume(prior, prior.belief(2).statistics, horizon=5)


def test_the_error_names_the_decision() -> None:
    agent = mixts.MixIDS(PRIORS["linear"], 6, seed=1, n_samples=400_000, horizon=3)
    sets = np.stack([ROWS] * 6)
    sets[5, 2, 1] = np.nan
    with pytest.raises(errors.ActionError, match="decision 5"):
        agent.act(sets)


def test_policies_have_short_names() -> None:
    assert mixts.agents.policy_named("ids") is mixts.MixIDS
    assert [p.deterministic for p in mixts.agents.POLICIES.values()] == [False, False, True, True]
    with pytest.raises(errors.ParameterError, match="ids, ts, greedy, ucb, got 'best'"):
        mixts.agents.policy_named("best")
