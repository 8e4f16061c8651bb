"""Components are a set with weights: their order, their splitting, and a single one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.agreement import assert_same_evidence, assert_same_weights
from tests.properties.strategies import COVARIANCE_TYPES, FEWER, Problem, problems


@FEWER
@given(problems(n_components=(2, 5)), st.data())
def test_permuting_components_permutes_results(problem: Problem, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(problem.n_components)))
    original = problem.incremental()
    permuted = problem.with_components(order, problem.weights[order]).incremental()
    evidence = original.log_evidence[order]
    assert_same_evidence(permuted.log_evidence, evidence)
    assert_same_weights(permuted.weights, original.weights[order], evidence)
    for name in ("component_mean", "component_covariance"):
        expected = getattr(original, name)[order]
        np.testing.assert_allclose(getattr(permuted, name), expected, rtol=1e-9, atol=1e-10)
    for name in ("mean", "covariance"):
        expected = getattr(original, name)
        np.testing.assert_allclose(getattr(permuted, name), expected, rtol=1e-7, atol=1e-8)


@FEWER
@given(problems(), st.data())
def test_splitting_a_component_in_two_equal_halves_changes_nothing(
    problem: Problem, data: st.DataObject
) -> None:
    chosen = data.draw(st.integers(0, problem.n_components - 1))
    index = [*range(problem.n_components), chosen]
    weights = problem.weights[index].copy()
    weights[[chosen, -1]] /= 2
    whole, split = problem.incremental(), problem.with_components(index, weights).incremental()
    assert_same_evidence(split.log_evidence, whole.log_evidence[index])
    assert split.weights[chosen] == split.weights[-1]
    summed = split.weights[:-1].copy()
    summed[chosen] += split.weights[-1]
    assert_same_weights(summed, whole.weights, whole.log_evidence)
    for name in ("mean", "covariance"):
        expected = getattr(whole, name)
        np.testing.assert_allclose(getattr(split, name), expected, rtol=1e-7, atol=1e-8)
    features = None if problem.kind not in COVARIANCE_TYPES else np.eye(problem.first.shape[1])
    np.testing.assert_allclose(
        split.mean_rewards(features), whole.mean_rewards(features), rtol=1e-7, atol=1e-8
    )


@FEWER
@given(problems(n_components=(1, 1)))
def test_one_component_is_plain_thompson_sampling(problem: Problem) -> None:
    """Its weight is one whatever happens, and its posterior is the textbook's."""
    belief = problem.prior.belief()
    for action, outcome in zip(problem.actions, problem.outcomes, strict=True):
        belief.update(action, outcome)
        assert belief.weights.tolist() == [1.0]
    mean, covariance = textbook_posterior(problem)
    for ours, expected in (
        (belief.mean, mean),
        (belief.component_mean[0], mean),
        (belief.covariance, covariance),
        (belief.component_covariance[0], covariance),
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-10)
    latent, parameters = belief.sample(np.random.default_rng(0))
    assert latent == 0
    assert parameters.shape == mean.shape


def textbook_posterior(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    first, second, noise = problem.first[0], problem.second, problem.noise_std**2
    if problem.kind in COVARIANCE_TYPES:
        prior = {
            "full": lambda: second[0],
            "tied": lambda: second,
            "diag": lambda: np.diag(second[0]),
            "spherical": lambda: second[0] * np.eye(len(first)),
        }[problem.kind]()
        rows, residuals = problem.actions, problem.outcomes - problem.actions @ first
        gain = np.linalg.solve(rows @ prior @ rows.T + noise * np.eye(len(rows)), rows @ prior).T
        return first + gain @ residuals, prior - gain @ rows @ prior
    n = np.bincount(problem.actions, minlength=len(first)).astype(float)
    total = np.bincount(problem.actions, problem.outcomes, minlength=len(first))
    if problem.kind == "bernoulli":
        a, b = first + total, second[0] + n - total
        mean = a / (a + b)
        return mean, np.diag(mean * (1 - mean) / (a + b + 1))
    if problem.kind == "poisson":
        a, b = first + total, second[0] + n
        return a / b, np.diag(a / b**2)
    precision = 1 / second[0] + n / noise
    return (first / second[0] + total / noise) / precision, np.diag(1 / precision)
