"""The proofs of the bounds that know the latent prior, checked without sampling error."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from mixts_paper.bounds import (
    bernoulli_affinity,
    bounded_entropy_bound,
    entropy,
    gaussian_affinity,
    known_models,
    one_sided_bound,
)

from paper.tests.oracles.known_models import Game

ROUNDING = 1e-12

GAMES = {
    "own arms": ([0.2, 0.3, 0.5], 0.2 + 0.6 * np.eye(3)),
    "random": ([0.2, 0.3, 0.5], [[0.6, 0.1, 0.5], [0.2, 0.9, 0.1], [0.4, 0.3, 0.8]]),
    "a shared best arm": ([0.3, 0.3, 0.4], [[0.9, 0.2, 0.1], [0.7, 0.4, 0.3], [0.1, 0.8, 0.5]]),
    "copies": ([0.25, 0.25, 0.5], [[0.8, 0.3], [0.8, 0.3], [0.3, 0.6]]),
    "certain rewards": ([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]]),
    "one arm": ([0.4, 0.6], [[0.2], [0.7]]),
    "one state": ([1.0], [[0.2, 0.7]]),
    "a rare state": ([1e-6, 1 - 1e-6], [[0.9, 0.1], [0.2, 0.6]]),
    "tied arms": ([0.5, 0.5], [[0.8, 0.8, 0.1], [0.8, 0.2, 0.9]]),
    "one arm known": ([0.6, 0.4], [[0.5, 0.1], [0.5, 0.9]]),
    "one arm known, rare": ([0.999, 0.001], [[0.5, 0.1], [0.5, 0.9]]),
}
N = 8


@cache
def game_of(name: str) -> Game:
    return Game(*GAMES[name])


@pytest.fixture(params=GAMES)
def game(request: pytest.FixtureRequest) -> Game:
    return game_of(request.param)


def bound(game: Game, n: int | None = None) -> float:
    return known_models(game.weights, game.means, bernoulli_affinity(game.means), n)


def test_the_oracle_counts_every_history(game: Game) -> None:
    for nodes in game.rounds(N):
        assert sum(node.chance for node in nodes) == pytest.approx(1, rel=1e-12)
        mean = sum(node.chance * node.belief for node in nodes)
        np.testing.assert_allclose(mean, game.weights, rtol=1e-12)


def test_the_bound_for_known_models(game: Game) -> None:
    regrets = [sum(node.chance * game.regret(node) for node in nodes) for nodes in game.rounds(N)]
    assert sum(regrets) <= bound(game) * (1 + ROUNDING)
    for n in range(1, N + 1):
        assert sum(regrets[:n]) <= bound(game, n) * (1 + ROUNDING)


def test_noiseless_rewards_attain_it() -> None:
    game = game_of("certain rewards")
    regret = sum(node.chance * game.regret(node) for nodes in game.rounds(N) for node in nodes)
    assert regret == pytest.approx(0.5, rel=1e-12)
    assert bound(game) == pytest.approx(0.5, rel=1e-12)


def test_a_pull_shrinks_the_root_by_the_affinity(game: Game) -> None:
    """In every belief and for every arm: E[X_{t+1} | H_t, A_t = a] = rho_a X_t."""
    rho = bernoulli_affinity(game.means)
    for nodes in game.rounds(N)[:4]:
        for node in nodes:
            roots = np.sqrt(game.products(node))
            for arm in range(game.means.shape[1]):
                np.testing.assert_allclose(
                    game.roots_after(node, arm), rho[:, :, arm] * roots, atol=1e-14
                )


def test_each_pair_costs_no_more_than_its_root(game: Game) -> None:
    """sum_t E[P_t(s) P_t(s')], by pair, against both forms."""
    sums = sum(node.chance * game.products(node) for nodes in game.rounds(N) for node in nodes)
    apart = np.einsum("rsa,ra->rs", 1 - bernoulli_affinity(game.means), game.best)
    for s, r in np.ndindex(*apart.shape):
        p, q = game.weights[s], game.weights[r]
        if s != r and apart[s, r] * apart[r, s] > 0:
            limit = math.sqrt(p * q) / (2 * math.sqrt(apart[s, r] * apart[r, s]))
            assert sums[s, r] <= limit * (1 + ROUNDING)
        if s != r:
            assert sums[s, r] <= one_sided_bound(N, p, q, apart[r, s]) * (1 + ROUNDING)


@pytest.mark.parametrize("power", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("threshold", [0.01, 0.3])
def test_one_action_tells_a_pair_apart(power: float, threshold: float) -> None:
    """The bound for any exponent and threshold, with the integral of the laws' powers."""
    for name in ("one arm known", "one arm known, rare", "random"):
        game = game_of(name)
        sums = sum(node.chance * game.products(node) for nodes in game.rounds(N) for node in nodes)
        for s, r in ((0, 1), (1, 0)):
            arm = int(game.means[r].argmax())
            laws = game.likelihood(arm)
            integral = (laws[s] ** (1 - power) * laws[r] ** power).sum()
            if integral > 1 - ROUNDING:
                continue
            p, q = game.weights[s], game.weights[r]
            limit = threshold**-power * p ** (1 - power) * q**power / (1 - integral)
            assert sums[s, r] <= limit + N * threshold * p


def test_squared_regret_against_information(game: Game) -> None:
    """In every belief: at most r / 2 times the information, on the state and on the best arm."""
    n_states, n_arms = game.means.shape
    rank = min(n_arms, n_states - 1)
    for nodes in game.rounds(N):
        for node in nodes:
            squared = game.regret(node) ** 2
            on_state = game.information(node, np.eye(n_states))
            on_arm = game.information(node, game.best)
            assert squared <= rank / 2 * on_state + ROUNDING
            assert squared <= n_arms / 2 * on_arm + ROUNDING
            # The variance that the drawn arm sees is between the two.
            assert squared <= rank * game.spread(node) + ROUNDING
            assert game.spread(node) <= on_state / 2 + ROUNDING


def test_information_adds_up_to_at_most_the_entropy(game: Game) -> None:
    labels = np.eye(len(game.weights))
    total = sum(
        node.chance * game.information(node, labels) for nodes in game.rounds(N) for node in nodes
    )
    assert total <= entropy(game.weights) + ROUNDING


def test_the_entropy_bound(game: Game) -> None:
    chance = game.best
    h = -(chance * np.log(chance, where=chance > 0, out=np.zeros_like(chance))).sum(axis=1)
    regret = 0.0
    for n, nodes in enumerate(game.rounds(N), start=1):
        regret += sum(node.chance * game.regret(node) for node in nodes)
        # Where no arm is tied this is the bound on identification alone: nothing is to be learned.
        assert regret <= bounded_entropy_bound(n, game.weights, game.means.shape[1], h) + ROUNDING


def test_gaussian_rewards_shrink_the_root_by_the_affinity() -> None:
    """E[X_{t+1}] by quadrature over the reward, for a belief over three states."""
    belief, means, noise = np.array([0.2, 0.5, 0.3]), np.array([0.4, 1.0, 0.7]), 0.3
    y = np.linspace(-3, 5, 40001)
    laws = np.exp(-((y - means[:, None]) ** 2) / (2 * noise**2)) / math.sqrt(2 * math.pi) / noise
    joint = belief[:, None] * laws
    posterior = joint / joint.sum(axis=0)
    rho = gaussian_affinity(means[:, None], noise)[:, :, 0]
    for s, r in ((0, 1), (0, 2), (1, 2)):
        after = (np.sqrt(posterior[s] * posterior[r]) * joint.sum(axis=0)).sum() * (y[1] - y[0])
        assert after == pytest.approx(rho[s, r] * math.sqrt(belief[s] * belief[r]), rel=1e-9)
