"""The law of drawn MDPs and of planned ties, against numpy's own samplers and known moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import mixts
from tests.statistical.standard_errors import FALSE_ALARM, assert_within, of_frequency, of_mean
from tests.statistical.tabular_identities import dirichlet

# -- drawn MDPs ------------------------------------------------------------------------------------


def one_pair(transition: Any, reward: Any = (1.0, 1.0)) -> mixts.TabularMDP:
    """One component, one action, every state alike."""
    n = len(transition)
    return mixts.TabularMDP(
        np.tile(np.array(reward), (1, n, 1, 1)), np.tile(np.array(transition), (1, n, 1, 1)), 2, 0
    )


def rows_of(family: mixts.TabularMDP, seed: int, n: int) -> tuple[Any, Any]:
    """n drawn MDPs: rewards (n, X), transitions (n, X, X)."""
    parameters = family.draw(np.random.default_rng(seed), np.zeros(n, int))
    mdps = family.mdp(parameters)
    return mdps.rewards[:, :, 0], mdps.transitions[:, :, 0]


def history_belief() -> mixts.Belief:
    """Three components after a few episodes; some outcomes are impossible."""
    rng = np.random.default_rng(4)
    reward, transition = rng.uniform(0.3, 3.0, (3, 3, 2, 2)), rng.uniform(0.3, 3.0, (3, 3, 2, 3))
    transition[:, 0, 0, 2] = 0.0
    reward[1, 2, 1, 0] = 0.0
    prior = mixts.MixturePrior(mixts.TabularMDP(reward, transition, 4, 0))
    belief = prior.belief()
    belief.update(
        mixts.Trajectory(
            [[0, 1, 2, 2, 1], [1, 1, 0, 0, 1], [2, 0, 1, 1, 1]],
            [[0, 1, 0, 1], [0, 1, 0, 0], [0, 1, 1, 0]],
            [[0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 1.0]],
        )
    )
    return belief


@pytest.mark.parametrize("component", [0, 1, 2])
def test_posterior_draws_have_the_components_moments(component: int) -> None:
    """All means and all 24 x 24 products: rows are independent, entries of a row are not."""
    belief, n = history_belief(), 8000
    # One task each, all with the same history.
    many = belief.prior.condition(belief.statistics.concatenate()[np.zeros(n, int)])
    draws = many.sample_parameters(np.random.default_rng(5), np.full(n, component))
    mean, covariance = belief.component_mean[component], belief.component_covariance[component]
    assert_within(of_mean(draws, mean))
    gaps = draws - mean
    assert_within(of_mean(gaps[:, :, None] * gaps[:, None, :], covariance))
    impossible = mean == 0
    assert impossible.sum() >= 1
    assert np.all(draws[:, impossible] == 0)
    rows = draws[:, 6:].reshape(n, 6, 3).sum(axis=2)
    np.testing.assert_allclose(rows, 1.0, rtol=1e-14)


@pytest.mark.parametrize("counts", [
    (2.0, 0.5), (0.3, 0.2), (0.09, 0.05), (0.099, 0.2), (30.0, 0.05), (1e6, 2e6), (0.02, 0.09),
], ids=str)  # fmt: skip
def test_rows_of_two_follow_beta_laws(counts: tuple[float, float]) -> None:
    """Below, above and across what is drawn by logarithms: Kolmogorov-Smirnov, half by half.

    Near 1 floats are too coarse, so each entry is looked at below 1/2, where they are not, and the
    frequency of that is known.
    """
    n = 20_000
    rewards, rows = rows_of(one_pair(counts, counts), 6, n)
    law, mirrored = stats.beta(*counts), stats.beta(*counts[::-1])
    samples = [(rewards[:, 0], law), (rows[:, 0, 0], law), (rows[:, 1, 1], mirrored)]
    for draws, expected in samples:
        share = expected.cdf(0.5)
        low = draws[draws < 0.5]
        assert_within(of_frequency([len(low)], n, [share]))
        if len(low) > 100:
            fit = stats.kstest(low, lambda x, law=expected, share=share: law.cdf(x) / share)
            assert fit.pvalue > FALSE_ALARM / len(samples)


@pytest.mark.parametrize("scale", [1e-3, 1e-8, 1e-74])
def test_tiny_counts_give_vertices_with_the_right_frequencies(scale: float) -> None:
    """As counts vanish a row is certain, of each outcome with the share of its count.

    At 1e-3 the chance of anything in between is of the order of 1e-3 times the logarithm of what
    counts as between; means and squares are exact at every scale.
    """
    n, shares = 20_000, np.array([0.5, 0.0, 0.2, 0.3])
    rewards, rows = rows_of(one_pair(scale * shares, (0.25 * scale, 0.75 * scale)), 7, n)
    for draws in (rewards, rows):
        assert np.isfinite(draws).all()
        assert np.all((draws >= 0) & (draws <= 1))
    np.testing.assert_allclose(rows.sum(axis=-1), 1.0, rtol=1e-14)
    assert np.all(rows[..., 1] == 0)
    square = shares * (shares * scale + 1) / (scale + 1)
    assert_within(of_mean(rows, shares))
    assert_within(of_mean(rows**2, square))
    assert_within(of_mean(rewards, 0.25))
    if scale < 1e-5:
        counts = (rows == 1).sum(axis=0)
        assert counts.sum() == 4 * n
        assert_within(of_frequency(counts, n, shares))
        assert_within(of_frequency((rewards == 1).sum(axis=0), n, 0.25))
        # States are drawn independently of each other.
        both = (rows[:, 0, 0] == 1) & (rows[:, 1, 0] == 1)
        assert_within(of_frequency([both.sum()], n, [0.25]))


def test_a_tiny_row_beside_ordinary_ones_and_after_observations() -> None:
    """What is seen once of a faint row is nearly certain, and the others' law does not change."""
    transition = np.array([[[[1e-8, 1e-8]], [[2.0, 3.0]]]])
    family = mixts.TabularMDP(np.ones((1, 2, 1, 2)), transition, 1, 0)
    prior, n = mixts.MixturePrior(family), 20_000
    belief = prior.belief(n)
    mdps = family.mdp(belief.sample(np.random.default_rng(8))[1])
    assert_within(of_frequency([(mdps.transitions[:, 0, 0, 0] == 1).sum()], n, [0.5]))
    assert stats.kstest(mdps.transitions[:, 1, 0, 0], stats.beta(2, 3).cdf).pvalue > FALSE_ALARM
    belief.update(mixts.Trajectory([[0, 1]] * n, [[0]] * n, [[1.0]] * n))
    seen = family.mdp(belief.sample(np.random.default_rng(9))[1])
    # Beta(1e-8, 1): above one half with a probability of 7e-9.
    assert np.all(seen.transitions[:, 0, 0, 1] > 0.5)
    assert stats.kstest(seen.transitions[:, 1, 0, 0], stats.beta(2, 3).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(seen.rewards[:, 0, 0], stats.beta(2, 1).cdf).pvalue > FALSE_ALARM


def test_the_posterior_is_the_prior_reweighted_by_the_likelihood() -> None:
    """Without conjugacy: MDPs from numpy's samplers, weighted by the probability of the history."""
    rng, n = np.random.default_rng(10), 200_000
    reward, transition = rng.uniform(0.5, 3.0, (2, 2, 1, 2)), rng.uniform(0.5, 3.0, (2, 2, 1, 2))
    weights = np.array([0.3, 0.7])
    states, rewards = [0, 1, 1, 0], [1.0, 0.0, 1.0]
    prior = mixts.MixturePrior(mixts.TabularMDP(reward, transition, 3, 0), weights)
    belief = prior.belief(20_000)
    belief.update(mixts.Trajectory([states] * 20_000, [[0] * 3] * 20_000, [rewards] * 20_000))
    latent = rng.choice(2, size=n, p=weights)
    means, rows = np.empty((n, 2)), np.empty((n, 2, 2))
    for s in range(2):
        mine = latent == s
        for x in range(2):
            means[mine, x] = dirichlet(rng, reward[s, x, 0], mine.sum())[:, 0]
            rows[mine, x] = dirichlet(rng, transition[s, x, 0], mine.sum())
    likelihood = np.ones(n)
    for i, r in enumerate(rewards):
        x, y = states[i], states[i + 1]
        likelihood *= (means[:, x] if r else 1 - means[:, x]) * rows[:, x, y]
    features = np.column_stack([latent, means, rows[:, :, 0], means[:, 0] * rows[:, 0, 1]])
    share = likelihood / likelihood.mean()
    expected = (share[:, None] * features).mean(axis=0)
    error = np.std(share[:, None] * (features - expected), axis=0) / np.sqrt(n)
    drawn, parameters = belief.sample(np.random.default_rng(11))
    mdps = prior.family.mdp(parameters)
    r, t = mdps.rewards[:, :, 0], mdps.transitions[:, :, 0]
    ours = np.column_stack([drawn, r, t[:, :, 0], r[:, 0] * t[:, 0, 1]])
    own_error = np.std(ours, axis=0) / np.sqrt(len(ours))
    assert_within((ours.mean(axis=0) - expected) / np.sqrt(error**2 + own_error**2))


# -- PSRL ------------------------------------------------------------------------------------------


def psrl_policies(rng: np.random.Generator, reward: Any, transition: Any, h: int, n: int) -> Any:
    """n policies of PSRL, written from its definition: draw an MDP, iterate values backwards."""
    n_states, n_actions = reward.shape[:2]
    means = np.empty((n, n_states, n_actions))
    rows = np.empty((n, n_states, n_actions, n_states))
    for x, a in np.ndindex(n_states, n_actions):
        means[:, x, a] = rng.beta(*reward[x, a], size=n)
        rows[:, x, a] = dirichlet(rng, transition[x, a], n)
    policy, after = np.empty((n, h, n_states), int), np.zeros((n, n_states))
    for i in reversed(range(h)):
        action_values = means + np.einsum("nxay,ny->nxa", rows, after)
        policy[:, i], after = action_values.argmax(axis=2), action_values.max(axis=2)
    return policy


@pytest.mark.parametrize("told", [False, True], ids=["flat", "told the neighbours"])
def test_one_uniform_component_is_psrl(told: bool) -> None:
    """The same policies equally often, each one as a whole, after the same two episodes."""
    support = np.ones((3, 2, 3), bool)
    if told:
        support[0, :, 2] = support[2, :, 0] = False
    family = mixts.TabularMDP.uniform(3, 2, 3, 0, support if told else None)
    states, actions = [[0, 1, 2, 2], [0, 1, 1, 0]], [[0, 1, 1], [1, 0, 1]]
    rewards, n = [[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]], 20_000
    agent = mixts.MixTS(mixts.MixturePrior(family), n, seed=12)
    reward, transition = np.ones((3, 2, 2)), support.astype(float)
    for x, a, r in zip(states, actions, rewards, strict=True):
        agent.update(mixts.Trajectory([x] * n, [a] * n, [r] * n))
        for i in range(3):
            reward[x[i], a[i], int(1 - r[i])] += 1
            transition[x[i], a[i], x[i + 1]] += 1
    theirs = psrl_policies(np.random.default_rng(13), reward, transition, 3, n)
    digits = 2 ** np.arange(9)
    codes = [p.reshape(n, 9) @ digits for p in (agent.act(), theirs)]
    table = np.array([np.bincount(code, minlength=512) for code in codes])
    # Policies that hardly anybody follows are counted together.
    rare = table.sum(axis=0) < 40
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    assert table.shape[1] > 30
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


# -- ties ------------------------------------------------------------------------------------------


def assert_uniform(codes: Any, n_codes: int) -> None:
    """A chi-square test at the level of FALSE_ALARM."""
    counts = np.bincount(np.ravel(codes), minlength=n_codes)
    assert len(counts) == n_codes
    expected = counts.sum() / n_codes
    assert ((counts - expected) ** 2).sum() / expected < stats.chi2.isf(FALSE_ALARM, n_codes - 1)


@pytest.mark.parametrize("n_actions", [2, 3, 5])
@pytest.mark.parametrize("verb", ["plan", "act"])
def test_ties_are_broken_uniformly_and_independently(n_actions: int, verb: str) -> None:
    """All actions equal: between actions, steps, states and MDPs nothing is preferred."""
    n, n_states, h = 4000, 3, 4
    if verb == "plan":
        rows = np.tile([0.5, 0.25, 0.25], (n, n_states, n_actions, 1))
        mdps = mixts.MDP(np.full((n, n_states, n_actions), 0.5), rows, h, 0)
        chosen = mdps.plan(np.random.default_rng(14)).policy
    else:
        # Never a reward: every policy is worth nothing, whatever is drawn.
        reward = np.tile([0.0, 1.0], (1, n_states, n_actions, 1))
        family = mixts.TabularMDP(reward, np.ones((1, n_states, n_actions, n_states)), h, 0)
        chosen = mixts.MixTS(mixts.MixturePrior(family), n, seed=15).act()
    assert_uniform(chosen, n_actions)
    for i, x in np.ndindex(h, n_states):
        assert_uniform(chosen[:, i, x], n_actions)
    for one, other in [
        (chosen[:, 0::2], chosen[:, 1::2]),
        (chosen[:, :, 0], chosen[:, :, 1]),
        (chosen[0::2], chosen[1::2]),
        (chosen[:, 0], chosen[:, -1]),
    ]:
        assert_uniform(n_actions * one + other, n_actions**2)


def test_some_of_the_actions_are_tied() -> None:
    """The third and the last of four: each half the time, the others never."""
    n = 20_000
    rewards = np.tile([0.1, 0.5, 0.7, 0.7], (n, 2, 1))
    mdps = mixts.MDP(rewards, np.full((n, 2, 4, 2), 0.5), 2, 0)
    chosen = mdps.plan(np.random.default_rng(16)).policy
    assert set(np.unique(chosen)) == {2, 3}
    assert_within(of_frequency((chosen == 2).sum(axis=0), n, 0.5))
