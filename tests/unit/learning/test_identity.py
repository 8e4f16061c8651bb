"""Components that are the same in two priors."""

from __future__ import annotations

import numpy as np
import pytest

import mixts
from mixts.errors import ParameterError
from mixts.extend import estimate
from mixts.families import BernoulliStatistics
from mixts.learning import match_components, mixture_evidence, refit_prior
from mixts.origin import Origin

RATES = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])


def _prior(rates: np.ndarray, weights: list[float], names: list[str] | None) -> mixts.MixturePrior:
    family = mixts.BernoulliArms(15 * rates, 15 * (1 - rates))
    origin = Origin(100.0, np.full(rates.shape, 30.0))
    return mixts.MixturePrior(family, weights, names, origin=origin)


def _tasks(weights: list[float], n: int, seed: int) -> BernoulliStatistics:
    """Draw tasks that tried every arm eight times."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(len(weights), size=n, p=weights)
    won = rng.binomial(8, rng.beta(15 * RATES[kind], 15 * (1 - RATES[kind])))
    return BernoulliStatistics(successes=won, failures=8 - won)


def test_names_and_order_follow_the_tasks() -> None:
    before = _prior(RATES[:2], [0.6, 0.4], ["sporty", "bookish"])
    after = _prior(RATES[[2, 1, 0]], [0.2, 0.3, 0.5], None)
    found = match_components(before, after, _tasks([0.5, 0.3, 0.2], 300, 1))
    assert found.prior.names == ("sporty", "bookish", "new kind")
    np.testing.assert_allclose(found.prior.weights, [0.5, 0.3, 0.2])
    np.testing.assert_allclose(found.prior.family.parameter_means(), RATES)
    assert found.sentence == "2 kept, 'new kind' is new"


def test_merged_and_split_components_are_named() -> None:
    tasks = _tasks([0.5, 0.3, 0.2], 300, 1)
    fine = _prior(RATES[[0, 0, 1, 2]], [0.3, 0.2, 0.3, 0.2], None)
    coarse = _prior(RATES, [0.5, 0.3, 0.2], ["a", "b", "c"])
    split = match_components(coarse, fine, tasks)
    assert split.prior.names == ("a", "b", "c", "part of a")
    assert split.split == (("part of a", "a"),)
    both = mixts.BernoulliArms([[5.0, 5.0, 1.0], [1.0, 1.0, 8.0]], [[5.0, 5.0, 9.0], [9.0, 9.0, 2]])
    merged = match_components(coarse, mixts.MixturePrior(both, [0.8, 0.2]), tasks)
    assert merged.kept == ("a", "c")
    assert merged.merged == (("b", "a"),)


def test_a_new_kind_is_found_beside_the_old_ones() -> None:
    before = _prior(RATES[:2], [0.6, 0.4], ["sporty", "bookish"])
    tasks = _tasks([0.5, 0.35, 0.15], 300, 2)
    after = refit_prior(before, tasks, n_more=1)
    np.testing.assert_allclose(after.family.parameter_means(), RATES, atol=0.08)
    assert after.weights[2] == pytest.approx(0.15, abs=0.06)
    assert after.names == ("sporty", "bookish", "new kind")
    assert after.origin is not None
    assert after.origin.n_tasks == 400
    assert 15 < after.origin.known[2].min() < 45  # of 45 tasks, each tried each arm 8 times


def test_a_new_component_has_no_weight_where_there_is_no_new_kind() -> None:
    """The pseudo-tasks for its weight follow the tasks, so nothing keeps it alive."""
    before = _prior(RATES[:2], [0.6, 0.4], None)
    tasks = _tasks([0.6, 0.4, 0.0], 300, 3)
    same, more = (refit_prior(before, tasks, n_more=n) for n in (0, 1))
    fresh = _tasks([0.6, 0.4, 0.0], 500, 4)
    gain = estimate(mixture_evidence(more, fresh) - mixture_evidence(same, fresh))
    assert gain.mean < 2 * gain.error


def test_fewer_components_join_the_most_similar_ones() -> None:
    close = np.array([[0.8, 0.1, 0.1], [0.75, 0.12, 0.1], [0.1, 0.1, 0.8]])
    before = _prior(close, [0.3, 0.4, 0.3], ["a", "b", "c"])
    after = refit_prior(before, _tasks([0.7, 0.0, 0.3], 200, 5), n_more=-1)
    assert after.names == ("b", "c")  # the name of the heavier one
    np.testing.assert_allclose(after.family.parameter_means(), RATES[[0, 2]], atol=0.05)
    with pytest.raises(ParameterError, match="n_more"):
        refit_prior(before, _tasks([0.7, 0.0, 0.3], 20, 5), n_more=-3)
