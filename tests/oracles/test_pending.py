"""Clicks that are still to come, against the enumeration of all outcomes."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.families.bernoulli import BernoulliPosterior

RATES = np.array([[0.6, 0.3, 0.1, 0.2], [0.1, 0.5, 0.3, 0.3], [0.3, 0.1, 0.6, 0.4]])
PRIOR = mixts.MixturePrior(mixts.BernoulliArms(12 * RATES, 12 * (1 - RATES)), [0.5, 0.3, 0.2])
SEEN = ([1, 1, 2, 1], [0.0, 1.0, 0.0, 1.0])
ACTIONS = np.array([0, 3, 0, 1, 0, 2, 0])
ARRIVED = np.array([0.3, 1.0, 0.95, 0.0, 0.9, 0.7, 0.8])
PENDING = mixts.Pending(ACTIONS, ARRIVED)
AGENTS = [mixts.MixTS, mixts.MixIDS, mixts.Greedy, mixts.BayesUCB]


def history() -> mixts.Belief:
    belief = PRIOR.belief()
    belief.update(*SEEN)
    return belief


@functools.cache
def completions() -> list[tuple[float, mixts.Belief]]:
    """P(no click has come yet | outcomes) and the belief after them, for all 2^m outcomes."""
    found = []
    for outcomes in itertools.product([0.0, 1.0], repeat=len(ACTIONS)):
        silent = np.where(np.array(outcomes) == 1, 1 - ARRIVED, 1.0).prod()
        belief = history()
        belief.update(ACTIONS, outcomes)
        found.append((float(silent), belief))
    return found


def test_weights_evidence_and_means_are_those_of_the_enumeration() -> None:
    evidence, means = np.zeros(3), np.zeros(4)
    for silent, belief in completions():
        joint = silent * np.exp(belief.log_evidence)
        evidence += joint
        means += PRIOR.weights * joint @ belief.component_mean
    weights = PRIOR.weights * evidence / (PRIOR.weights @ evidence)
    found = history().given_silence(PENDING)
    np.testing.assert_allclose(found.log_evidence, np.log(evidence), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.weights, weights, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        found.mean_rewards, means / (PRIOR.weights @ evidence), rtol=0, atol=1e-12
    )


def test_a_click_that_could_not_come_yet_says_nothing() -> None:
    belief = history()
    found = belief.given_silence(mixts.Pending(ACTIONS, 0.0))
    np.testing.assert_allclose(found.weights, belief.weights, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.log_evidence, belief.log_evidence, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.mean_rewards, belief.mean_rewards(), rtol=0, atol=1e-14)
    for some in (belief.given_silence(mixts.Pending([], [])), found):
        assert some.weights.shape == (3,)
        assert some.mean_rewards.shape == (4,)


def test_a_click_that_would_have_come_is_a_reward_of_zero() -> None:
    belief, other = history(), history()
    other.update(ACTIONS, np.zeros(len(ACTIONS)))
    pending = mixts.Pending(ACTIONS, 1.0)
    found = belief.given_silence(pending)
    np.testing.assert_allclose(found.log_evidence, other.log_evidence, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.weights, other.weights, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.mean_rewards, other.mean_rewards(), rtol=0, atol=1e-14)
    for kind in AGENTS:
        silent = kind.resume(PRIOR, belief.statistics, 1).action_probabilities(waiting=pending)
        known = kind.resume(PRIOR, other.statistics, 1).action_probabilities()
        np.testing.assert_allclose(silent[0], known[0], rtol=0, atol=1e-12, err_msg=kind.__name__)
        assert silent[1].max() < 1e-15


def test_hundreds_of_decisions_and_large_counts_keep_their_digits() -> None:
    """An integral over theta is the evidence; no alternating sum would survive."""
    n, arrived = 400, np.linspace(0.01, 0.99, 400)
    prior = mixts.MixturePrior(mixts.BernoulliArms([[2.0], [3e9]], [[5.0], [7e9]]))
    found = prior.belief().given_silence(mixts.Pending(np.zeros(n, int), arrived))
    nodes, weights = np.polynomial.legendre.leggauss(300)  # exact up to degree 599
    theta = (nodes + 1) / 2
    with np.errstate(over="raise"):
        logs = np.log1p(-np.outer(theta, arrived)).sum(axis=1) + np.log(theta * (1 - theta) ** 4)
    wide = np.log((np.exp(logs - logs.max()) * weights / 2).sum() * 30) + logs.max()
    # 3e9 of 10e9: theta is 0.3, up to 5e-6, so that the likelihood is that of 0.3.
    sharp = np.log1p(-0.3 * arrived).sum()
    assert found.log_evidence == pytest.approx([wide, sharp], abs=1e-6)
    assert found.log_evidence[0] == pytest.approx(wide, abs=1e-11)


def test_tasks_are_independent_and_may_come_in_any_order() -> None:
    belief = PRIOR.belief(3)
    belief.update(*SEEN, tasks=[1] * 4)
    order = np.random.default_rng(1).permutation(2 * len(ACTIONS))
    tasks = np.repeat([1, 2], len(ACTIONS))
    pending = mixts.Pending(np.tile(ACTIONS, 2)[order], np.tile(ARRIVED, 2)[order], tasks[order])
    found = belief.given_silence(pending)
    one, two = history().given_silence(PENDING), PRIOR.belief().given_silence(PENDING)
    for every, first, second in zip(found, one, two, strict=True):
        np.testing.assert_allclose(every[1], first, rtol=0, atol=1e-13)
        np.testing.assert_allclose(every[2], second, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.weights[0], PRIOR.weights, rtol=0, atol=1e-15)
    agent = mixts.MixIDS.resume(PRIOR, belief.statistics, 1)
    regret, _ = agent.terms(tasks=[2, 0, 1, 2], waiting=pending)
    alone = mixts.MixIDS.resume(PRIOR, history().statistics, 1).terms(waiting=PENDING)[0]
    np.testing.assert_allclose(regret[2], alone, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(regret[0], regret[3])


# -- agents ---------------------------------------------------------------------------------------


def test_greedy_takes_the_highest_mean_given_the_silence() -> None:
    belief = history()
    agent = mixts.Greedy.resume(PRIOR, belief.statistics, 1)
    means = agent._rewards(agent._request(None, None, None, PENDING, None, None)).means()
    np.testing.assert_allclose(
        means[0], belief.given_silence(PENDING).mean_rewards, rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("kind", [mixts.MixIDS, mixts.Greedy, mixts.BayesUCB])
def test_deterministic_laws_are_equal_bit_for_bit(kind: Any) -> None:
    one, two = (kind.resume(PRIOR, history().statistics, seed) for seed in (1, 2))
    law = one.action_probabilities(waiting=PENDING)
    np.testing.assert_array_equal(law, two.action_probabilities(waiting=PENDING))
    plain = kind.resume(PRIOR, history().statistics, 1)
    assert (
        kind is not mixts.MixIDS
        or (plain.terms(waiting=ACTIONS)[0] != one.terms(waiting=PENDING)[0]).all()
    )


@pytest.fixture(scope="module")
def law() -> Any:
    """The law of Thompson sampling given the silence: a mixture of 2^m exact laws."""
    law, total = np.zeros(4), 0.0
    for silent, belief in completions():
        weight = silent * float(PRIOR.weights @ np.exp(belief.log_evidence))
        if weight > 0:
            agent = mixts.MixTS.resume(PRIOR, belief.statistics, 1)
            law += weight * agent.action_probabilities()[0]
            total += weight
    return law / total


def test_actions_of_mixts_follow_the_law_given_the_silence(law: Any) -> None:
    n = 20_000
    agent = mixts.MixTS.resume(PRIOR, PRIOR.belief(1).statistics, 2)
    agent.update(*SEEN, tasks=[0] * 4)
    pending = mixts.Pending(ACTIONS, ARRIVED, [0] * len(ACTIONS))
    taken = agent.act(tasks=np.zeros(n, int), waiting=pending)
    shares = np.bincount(taken, minlength=4) / n
    assert (np.abs(shares - law) < 4 * np.sqrt(law * (1 - law) / n)).all()
    weights = np.bincount(agent.last_latent, minlength=3) / n
    exact = history().given_silence(PENDING).weights
    assert (np.abs(weights - exact) < 4 * np.sqrt(exact * (1 - exact) / n)).all()
    # Without the silence the law is another one: the test could fail.
    plain = agent.action_probabilities()[0][0]
    assert (np.abs(plain - law) > 8 * np.sqrt(law * (1 - law) / n)).any()


@pytest.mark.parametrize("how", [{}, {"values": [1.0] * 4}, {"top": 1}])
def test_propensities_of_mixts_are_unbiased_and_their_errors_honest(law: Any, how: Any) -> None:
    n = 300
    agent = mixts.MixTS.resume(PRIOR, PRIOR.belief(1).statistics, 3)
    agent.update(*SEEN, tasks=[0] * 4)
    pending = mixts.Pending(ACTIONS, ARRIVED, [0] * len(ACTIONS))
    taken, found, errors_ = agent.act_with_probabilities(
        tasks=np.zeros(n, int), waiting=pending, **how
    )
    spread = found.std(axis=0, ddof=1)
    assert (np.abs(found.mean(axis=0) - law) < 4 * spread / np.sqrt(n)).all()
    # The spread of a number over the draws is the standard error that comes with it.
    np.testing.assert_allclose(np.sqrt((errors_**2).mean(axis=0)), spread, rtol=0.25)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-9)
    shares = np.bincount(taken.reshape(-1), minlength=4) / n
    assert (np.abs(shares - law) < 4 * np.sqrt(law * (1 - law) / n)).all()


def test_the_last_decision_before_the_horizon_does_not_explore() -> None:
    n = len(SEEN[0]) + len(ACTIONS) + 1
    agent = mixts.MixTS.resume(PRIOR, history().statistics, 1, horizon=n)
    best = int(history().given_silence(PENDING).mean_rewards.argmax())
    assert {agent.act(waiting=PENDING) for _ in range(20)} == {best}
    law, _ = agent.action_probabilities(waiting=PENDING)
    assert law[best] == 1


def test_the_horizon_and_the_oracle_count_the_silence_too() -> None:
    sure = mixts.Pending([0] * 60, 1.0)
    other = history()
    other.update([0] * 60, np.zeros(60))
    agents = (
        mixts.MixTS.resume(PRIOR, history().statistics, 1, horizon=66),
        mixts.MixTS.resume(PRIOR, other.statistics, 1, horizon=66),
    )
    law = [agents[0].action_probabilities(waiting=sure)[0], agents[1].action_probabilities()[0]]
    assert law[0][0] < 0.02
    # 1,000 draws for each: 4 standard errors of their difference.
    assert np.abs(law[0] - law[1]).max() < 4 * np.sqrt(0.5 / 1000)
    oracle = mixts.Oracle(PRIOR, 0, seed=1)
    assert oracle.action_probabilities()[0][0] > 0.9
    assert oracle.action_probabilities(waiting=sure)[0][0] < 0.1
    assert sum(oracle.act(waiting=sure) == 0 for _ in range(50)) <= 6, "0.57 on average"


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pending", "message"),
    [
        (mixts.Pending([0, 1], [0.5]), "2 actions and shape"),
        (mixts.Pending([0, 1], 1.5), "from 0 to 1"),
        (mixts.Pending([0, 1], [np.nan, 0.2]), "from 0 to 1"),
        (mixts.Pending([0], "late"), "probabilities"),
    ],
)
def test_impossible_probabilities(pending: Any, message: str) -> None:
    for kind in AGENTS:
        with pytest.raises(errors.ParameterError, match=message):
            kind(PRIOR).act(waiting=pending)
    with pytest.raises(errors.ParameterError, match=message):
        PRIOR.belief().given_silence(pending)


def test_only_clicks_may_be_still_to_come() -> None:
    gaussian = mixts.MixturePrior(mixts.GaussianArms([[0.0, 1.0]], [[1.0, 1.0]], 1.0))
    for kind in AGENTS:
        with pytest.raises(errors.ParameterError, match="Bernoulli arms"):
            kind(gaussian).act(waiting=mixts.Pending([0], 0.5))
    with pytest.raises(errors.ParameterError, match="Bernoulli arms"):
        gaussian.belief().given_silence(mixts.Pending([0], 0.5))
    with pytest.raises(errors.TaskError):
        mixts.MixTS(PRIOR).act(waiting=mixts.Pending([0], 0.5, [0]))
    with pytest.raises(errors.ActionError):
        mixts.MixTS(PRIOR).act(waiting=mixts.Pending([4], 0.5))


@pytest.mark.usefixtures("unchecked")
def test_silence_needs_probabilities() -> None:
    with pytest.raises(errors.ParameterError, match=r"must be mixts\.Pending"):
        PRIOR.belief().given_silence([0])  # type: ignore[arg-type]


def test_drawn_outcomes_are_added_to_the_history() -> None:
    belief = history()
    posterior = belief.posterior
    assert isinstance(posterior, BernoulliPosterior)
    waiting = belief.checked_pending(PENDING)
    assert waiting is not None
    rng, index = np.random.default_rng(5), np.zeros(50, np.int64)
    drawn = posterior.draw_outcomes(rng, index, np.tile(PRIOR.weights, (50, 1)), waiting)
    pulls = posterior.statistics.pulls[0] + np.bincount(ACTIONS, minlength=4)
    np.testing.assert_array_equal(drawn.pulls, np.tile(pulls, (50, 1)))
    assert (drawn.successes[:, 3] == 0).all(), "a click on arm 3 would have come"
