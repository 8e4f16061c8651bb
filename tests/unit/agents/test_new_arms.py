"""The limits on the probability of new arms."""

from __future__ import annotations

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.agents import POLICIES
from mixts.agents.offers import NewShare


def prior() -> mixts.MixturePrior:
    family = mixts.BernoulliArms([[3.0, 2.0, 4.0]], [[20.0, 30.0, 25.0]])
    return mixts.MixturePrior(family, arm_names=["a", "b", "c"]).add_arms(["x", "y"], mean=0.4)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_new_arms_together_have_at_most_their_share(policy: str) -> None:
    free_agent, agent = (POLICIES[policy](prior(), n_tasks=4, seed=1) for _ in range(2))
    _, free, _ = free_agent.act_with_probabilities()
    _, law, _ = agent.act_with_probabilities(new_share=0.1)
    assert (free[:, 3:].sum(axis=1) > 0.3).all()
    np.testing.assert_allclose(law[:, 3:].sum(axis=1), 0.1)
    np.testing.assert_allclose(law.sum(axis=1), 1.0)
    new = free[:, 3:] / free[:, 3:].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(law[:, 3:], 0.1 * new, atol=1e-12)
    old = free[:, :3].sum(axis=1)
    if (old > 0).all():
        np.testing.assert_allclose(law[:, :3], 0.9 * free[:, :3] / old[:, None], atol=1e-12)
    else:
        np.testing.assert_allclose(law[:, :3], 0.3)


def test_the_logged_probability_is_that_of_the_draw() -> None:
    agent = mixts.MixTS(prior(), n_tasks=20_000, seed=3)
    taken, law, _ = agent.act_with_probabilities(new_share=0.1)
    share = np.bincount(taken, minlength=5) / len(taken)
    np.testing.assert_allclose(share, law[0], atol=4 * np.sqrt(0.25 / len(taken)))


def test_a_share_below_the_limit_stays() -> None:
    one, two = (mixts.MixTS(prior(), seed=3) for _ in range(2))
    _, free, _ = one.act_with_probabilities()
    _, law, _ = two.act_with_probabilities(new_share=0.999)
    np.testing.assert_array_equal(free, law)


def test_only_new_arms_on_offer_keep_their_probabilities() -> None:
    mask = [False, False, False, True, True]
    _, law, _ = mixts.MixTS(prior(), seed=3).act_with_probabilities(mask=mask, new_share=0.1)
    assert law[3:].sum() == pytest.approx(1.0)


def test_masked_arms_get_nothing_of_the_rest() -> None:
    mask = [True, False, True, True, True]
    _, law, _ = mixts.MixTS(prior(), seed=3).act_with_probabilities(mask=mask, new_share=0.0)
    assert law[1] == law[3] == law[4] == 0
    assert law.sum() == pytest.approx(1.0)


def test_a_floor_is_added_after_the_limit() -> None:
    _, law, _ = mixts.MixTS(prior(), seed=3).act_with_probabilities(floor=0.02, new_share=0.1)
    assert law[3:].sum() == pytest.approx(0.9 * 0.1 + 2 * 0.02)


def test_arms_without_any_probability_share_evenly() -> None:
    law = NewShare(0.0, 0.2).apply(
        np.array([[0.0, 0.0, 1.0]]), np.ones((1, 3), bool), np.array([False, False, True])
    )
    np.testing.assert_allclose(law, [[0.4, 0.4, 0.2]])


def test_one_task_over_the_limit_beside_one_without_any() -> None:
    given = np.array([[0.5, 0.0, 0.5], [0.75, 0.25, 0.0]])
    law = NewShare(0.0, 0.2).apply(given, np.ones((2, 3), bool), np.array([False, False, True]))
    np.testing.assert_allclose(law, [[0.8, 0.0, 0.2], given[1]])


def test_what_new_arms_lack_is_added_evenly() -> None:
    new, mask = np.array([False, False, True, True, True]), np.ones((2, 5), bool)
    mask[1, 4] = False
    law = np.array([[0.6, 0.39, 0.01, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0]])
    found = NewShare(0.04, 0.5).apply(law, mask, new)
    scale = 0.96 / 0.99
    np.testing.assert_allclose(found[0], [0.6 * scale, 0.39 * scale, 0.02, 0.01, 0.01])
    np.testing.assert_allclose(found[1], [0.96, 0.0, 0.02, 0.02, 0.0])


def test_only_new_arms_on_offer_keep_their_probabilities_whatever_the_limits() -> None:
    law, mask = np.array([[0.0, 0.3, 0.7]]), np.array([[False, True, True]])
    found = NewShare(0.1, 0.2).apply(law, mask, np.array([False, True, True]))
    np.testing.assert_array_equal(found, law)


def unattractive() -> mixts.MixturePrior:
    """Return a prior whose new arms a policy takes hardly ever by itself."""
    family = mixts.BernoulliArms([[30.0, 20.0, 40.0]], [[20.0, 30.0, 25.0]])
    return mixts.MixturePrior(family, arm_names=["a", "b", "c"]).add_arms(["x", "y"], mean=0.01)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_new_arms_together_have_at_least_their_share(policy: str) -> None:
    _, free, _ = POLICIES[policy](unattractive(), seed=1).act_with_probabilities()
    agent = POLICIES[policy](unattractive(), seed=1)
    _, law, _ = agent.act_with_probabilities(new_share=(0.2, 0.3))
    assert free[3:].sum() < 0.1
    np.testing.assert_allclose(law[3:].sum(), 0.2)
    np.testing.assert_allclose(law[:3], 0.8 * free[:3] / free[:3].sum(), atol=1e-12)


@pytest.mark.parametrize("share", [-0.1, 1.5, True, (0.2, 0.1), (0.1,), (0.1, 0.2, 0.3), "5%"])
def test_a_bad_share_is_refused(share: object) -> None:
    with pytest.raises(errors.ParameterError, match="between 0 and 1"):
        NewShare.checked(share)


@pytest.mark.parametrize(("policy", "top"), [("ts", 1), ("ts", 2), ("ids", 2), ("greedy", 3)])
def test_a_share_of_the_rankings_has_new_arms(policy: str, top: int) -> None:
    n = 4000
    options = {} if policy == "greedy" else {"n_samples": 60}  # whatever their number
    agent = POLICIES[policy](unattractive(), n_tasks=n, seed=3, **options)
    shown, law, _ = agent.act_with_probabilities(top=top, new_share=(0.1, 0.2))
    error = np.sqrt(0.25 / n)
    assert 0.1 - 4 * error < (shown >= 3).any(axis=1).mean() < 0.2 + 4 * error
    assert all(len(set(row)) == top for row in shown.tolist())
    share = np.array([(shown == k).any(axis=1).mean() for k in range(5)])
    np.testing.assert_allclose(share, law.mean(axis=0), atol=4 * error)
    np.testing.assert_allclose(law.sum(axis=1), top)
    assert (law[:, 3:] >= 0.05 - 1e-12).all()


def test_only_a_share_of_the_rankings_has_new_arms() -> None:
    n = 4000
    agent = mixts.MixTS(prior(), n_tasks=n, seed=3, n_samples=60)
    shown, law, _ = agent.act_with_probabilities(top=2, new_share=0.1)
    has_new = (shown >= 3).any(axis=1).mean()
    assert 0.05 < has_new < 0.1 + 4 * np.sqrt(0.09 / n)
    share = np.array([(shown == k).any(axis=1).mean() for k in range(5)])
    np.testing.assert_allclose(share, law.mean(axis=0), atol=4 * np.sqrt(0.25 / n))
    np.testing.assert_allclose(law.sum(axis=1), 2.0)
