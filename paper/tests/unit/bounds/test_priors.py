"""Which bounds apply to a prior, and what is said of those that do not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from mixts_paper import bounds

import mixts
from mixts.errors import ParameterError
from paper.tests.unit.bounds.paper_setting import (
    NOISE,
    K,
    N,
    covariances,
    means,
    narrow,
    terms,
    uniform,
    zipf,
)

NEW = ["entropy", "counts", "known models", "narrow components"]
THEOREM_1 = ["Theorem 1, statement", "Theorem 1, appendix"]
THEOREM_2 = ["Theorem 2, statement", "Theorem 2, appendix"]


def arms(width: float, weights: Any = None) -> mixts.MixturePrior:
    table = means(len(weights) if weights is not None else K)
    return mixts.MixturePrior(
        mixts.GaussianArms(table, np.full_like(table, width**2), NOISE), weights
    )


def linear(width: float) -> mixts.MixturePrior:
    family = mixts.LinearGaussian(means(), np.full(K, width**2), NOISE, covariance_type="spherical")
    return mixts.MixturePrior(family)


def test_arms_without_width() -> None:
    found = bounds.of(arms(0.0), N)
    assert list(found.applicable) == [*NEW, *THEOREM_1, "entropy, MixIDS"]
    assert found["known models"] == pytest.approx(11.603893, rel=1e-5)
    assert found["narrow components"] == pytest.approx(11.603893, rel=1e-5)
    assert found["entropy"] == terms(0.0).bound
    assert found["counts"] == bounds.count_bound(N, uniform(), NOISE, 1.0, 0.0, 0.8)
    size = (N, K, K, NOISE, 1.0, 0.0)
    assert [found[name] for name in THEOREM_1] == [
        bounds.theorem1(*size, form=form) for form in ("statement", "appendix")
    ]
    assert found.least is not None
    assert found.least.name in ("known models", "narrow components")


def test_arms_with_width() -> None:
    found = bounds.of(arms(0.2, zipf(1)), N)
    assert list(found.conditions) == ["known models", *THEOREM_2]
    assert "width 0" in found.conditions["known models"]
    t = terms(0.2, zipf(1))
    assert found["entropy"] == pytest.approx(t.bound, rel=1e-12)
    counted = bounds.count_bound(N, zipf(1), NOISE, 1.0, 0.04, 0.8)
    assert found["counts"] == pytest.approx(t.learning + counted, rel=1e-12)
    assert found["narrow components"] == pytest.approx(
        narrow(N, zipf(1), means(), 0.2, NOISE).bound, rel=1e-12
    )
    assert found["entropy, MixIDS"] == terms(0.2, zipf(1), with_arms=False).joint
    with pytest.raises(KeyError, match="does not apply: it needs components of width 0"):
        found["known models"]
    with pytest.raises(KeyError, match="no bound 'best'"):
        found["best"]


def test_unit_vectors_are_arms() -> None:
    ours, theirs = bounds.of(linear(0.1), N, np.eye(K)), bounds.of(arms(0.1), N)
    assert ours.applicable == pytest.approx(theirs.applicable, rel=1e-9)


def test_features_need_their_actions() -> None:
    found = bounds.of(linear(0.1), N)
    assert not found.applicable
    assert found.least is None
    assert "actions (K, d)" in found.conditions["entropy"]


def test_action_sets() -> None:
    rng = np.random.default_rng(0)
    sets = rng.normal(size=(5, 8, K))
    changing, fixed = bounds.of(linear(0.1), N, sets), bounds.of(linear(0.1), N, sets[0])
    kappa = np.linalg.norm(sets, axis=-1).max()
    expected = bounds.entropy_terms(N, uniform(), means(), covariances(0.1), NOISE, kappa, 8).bound
    assert changing["entropy"] == pytest.approx(expected, rel=1e-12)
    assert "same in every round" in changing.conditions["narrow components"]
    assert "unit vectors" in fixed.conditions["narrow components"]
    assert "arms" in fixed.conditions["entropy, MixIDS"]
    known = bounds.of(linear(0.0), N, sets[0])
    values = means() @ sets[0].T
    limit = bounds.known_models(uniform(), values, bounds.gaussian_affinity(values, NOISE))
    assert known["known models"] == pytest.approx(limit, rel=1e-9)
    assert "same in every round" in bounds.of(linear(0.0), N, sets).conditions["known models"]
    with pytest.raises(ParameterError, match="shape"):
        bounds.of(linear(0.1), N, np.eye(3))


def test_unequal_and_tilted_covariances() -> None:
    tilted = np.array([[1.0, 0.5], [0.5, 1.0]])
    for covariance in (np.stack([tilted, tilted]), np.stack([np.eye(2), 2 * np.eye(2)])):
        family = mixts.LinearGaussian(np.eye(2), covariance, 0.5)
        found = bounds.of(mixts.MixturePrior(family), 100, np.eye(2))
        assert list(found.applicable) == ["entropy", *THEOREM_1, "entropy, MixIDS"]
        assert "any distance apart" in found.conditions["counts"]
        assert "one width" in found.conditions["narrow components"]


def test_a_pair_that_one_action_does_not_tell_apart() -> None:
    family = mixts.GaussianArms([[0.5, 0.1], [0.5, 0.9]], np.zeros((2, 2)), 0.5)
    found = bounds.of(mixts.MixturePrior(family), 1000)
    assert "both best actions" in found.conditions["known models"]


def test_bernoulli_arms() -> None:
    strength = 50
    table = 0.3 + 0.4 * np.eye(10)
    prior = mixts.MixturePrior(mixts.BernoulliArms(strength * table, strength * (1 - table)))
    found = bounds.of(prior, N)
    assert list(found.applicable) == ["entropy", *THEOREM_2, "entropy, MixIDS"]
    assert 101.79 < found["entropy"] < 107.30
    assert "Gaussian noise" in found.conditions["counts"]
    size = (N, 1, 10, 1, 10, 50.0)
    assert found["Theorem 2, appendix"] == pytest.approx(
        bounds.theorem2(*size, form="appendix"), rel=1e-9
    )
    told = math.log(10) + 10 * math.log(1001)
    assert found["entropy, MixIDS"] == pytest.approx(math.sqrt(10 * N * told / 2))


def test_mdps() -> None:
    prior = mixts.RiverSwim().prior
    found = bounds.of(prior, N)
    assert list(found.applicable) == [*THEOREM_2, "entropy, identification alone"]
    assert found["entropy, identification alone"] == pytest.approx(
        20 * math.sqrt(N * math.log(2) / 2)
    )
    # Two deterministic MDPs of two states: one step to the right or to the left is worth 1.
    move = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    reward = np.zeros((2, 2, 2, 2))
    reward[0, :, :, 0], reward[0, :, :, 1] = [[1, 0], [1, 0]], [[0, 1], [0, 1]]
    reward[1] = reward[0][..., ::-1]
    family = mixts.TabularMDP(reward, np.stack([move, move]), 3, [1.0, 0.0])
    known = bounds.of(mixts.MixturePrior(family), N)
    assert known["known models"] == pytest.approx(6 * 0.5 / 2)
    assert known["entropy"] == pytest.approx(3 * math.sqrt(N * math.log(2) / 2))


def test_other_families_and_arguments() -> None:
    poisson = mixts.MixturePrior(mixts.PoissonArms([[1.0, 2.0]], [[1.0, 2.0]]))
    assert not bounds.of(poisson, 10).applicable
    with pytest.raises(ParameterError, match="leave actions out"):
        bounds.of(poisson, 10, np.eye(2))
    with pytest.raises(ParameterError, match="n must be"):
        bounds.of(poisson, 0)


def test_states_and_arms_that_cannot_occur_do_not_count() -> None:
    table = np.vstack([means(4), means(5)[4]])
    family = mixts.GaussianArms(table, np.full_like(table, 0.01), NOISE)
    with_it = bounds.of(mixts.MixturePrior(family, [0.25] * 4 + [0.0]), N)
    assert with_it.applicable == pytest.approx(bounds.of(arms(0.1, uniform(4)), N).applicable)


def test_the_table() -> None:
    text = repr(bounds.of(arms(0.05), N))
    lines = text.split("\n")
    assert lines[0].startswith("Bounds on the Bayes regret of 1,000 rounds, GaussianArms(30")
    assert len(lines) == 10
    assert any("narrow components" in line and "11.62" in line for line in lines)
    assert any(line.strip().startswith("known models") and " - " in line for line in lines)
    assert [row.name for row in bounds.of(arms(0.05), N)][:4] == NEW
