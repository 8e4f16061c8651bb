"""Figures of priors and beliefs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

import mixts
from mixts import errors
from mixts.plots.prior import (
    MOST_COMPONENTS,
    MOST_ITEMS,
    distinct_items,
    draw_tasks,
    family_intervals,
    largest_components,
    sorted_weights,
    standardized,
)
from mixts.plots.style import new_axes

MEANS = np.array([[0.5, 0.1, 0.2], [0.1, 0.4, 0.2]])


def arm_prior() -> mixts.MixturePrior:
    family = mixts.BernoulliArms(30 * MEANS, 30 * (1 - MEANS))
    return mixts.MixturePrior(family, [0.7, 0.3], ["night owls", "regulars"], ["a", "b", "c"])


def mdp_prior() -> mixts.MixturePrior:
    reward = np.ones((2, 3, 2, 2))
    reward[0, :, 1, 0] = 5
    return mixts.MixturePrior(mixts.TabularMDP(reward, np.ones((2, 3, 2, 3)), 4, [1.0, 0.0, 0.0]))


def tick_labels(ax: Any) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


# -- data -----------------------------------------------------------------------------------------


def test_intervals_are_quantiles_of_the_family() -> None:
    found = family_intervals(arm_prior().family, 0.8, ("a", "b", "c"))
    assert found.items == ("a", "b", "c")
    np.testing.assert_allclose(found.mean, MEANS)
    beta = stats.beta(30 * MEANS, 30 * (1 - MEANS))
    np.testing.assert_allclose(found.low, beta.ppf(0.1))
    np.testing.assert_allclose(found.high, beta.ppf(0.9))


def test_items_without_names_have_numbers() -> None:
    assert family_intervals(arm_prior().family, 0.5).items == ("arm 0", "arm 1", "arm 2")
    linear = mixts.LinearGaussian(np.zeros((1, 2)), [np.eye(2)], 1.0)
    assert family_intervals(linear, 0.5).items == ("feature 0", "feature 1")


def test_features_are_drawn_in_standard_deviations_from_the_mean() -> None:
    mean = np.array([[5000.0, 3.0], [5000.0, -3.0]])
    prior = mixts.MixturePrior(mixts.LinearGaussian(mean, [np.eye(2) * 16] * 2, 1.0))
    found = standardized(family_intervals(prior.family, 0.8), prior)
    # The variance of the mixture is 16 within kinds, and 9 between them in the second feature.
    np.testing.assert_allclose(found.mean, [[0.0, 0.6], [0.0, -0.6]], atol=1e-12)
    np.testing.assert_allclose(found.high[:, 0], stats.norm.ppf(0.9))
    figure = mixts.plot(prior)
    assert figure.axes[1].get_xlabel() == "standard deviations from the mixture's mean"


def test_of_an_mdp_rewards_are_drawn() -> None:
    found = family_intervals(mdp_prior().family, 0.8)
    assert found.items[:3] == ("state 0, action 0", "state 0, action 1", "state 1, action 0")
    assert found.mean.shape == (2, 6)
    np.testing.assert_allclose(found.mean[0], [1 / 2, 5 / 6] * 3)


@pytest.mark.parametrize("level", [0.0, 1.0, 80.0])
def test_a_level_is_a_probability(level: float) -> None:
    with pytest.raises(errors.ParameterError, match="level must be a probability"):
        mixts.plot(arm_prior(), level=level)


def test_of_many_the_largest_components_and_the_most_distinct_items_are_drawn() -> None:
    weights = np.full(20, 0.01)
    weights[[3, 17]] = 0.41
    shown = largest_components(weights)
    assert len(shown) == MOST_COMPONENTS
    assert {3, 17} <= set(shown.tolist())
    assert (np.diff(shown) > 0).all()
    mean = np.zeros((2, 50))
    mean[0, [7, 40]] = 1.0
    items = distinct_items(mean)
    assert len(items) == MOST_ITEMS
    assert {7, 40} <= set(items.tolist())


def test_tasks_are_sorted_by_their_most_likely_component() -> None:
    weights = np.array([[0.2, 0.8], [0.6, 0.4], [0.1, 0.9], [0.9, 0.1]])
    np.testing.assert_array_equal(sorted_weights(weights), weights[[3, 1, 2, 0]])
    many = np.random.default_rng(0).dirichlet([1.0, 1.0], 10_000)
    thin = sorted_weights(many)
    assert len(thin) == 2000
    assert thin[:, 0].mean() == pytest.approx(many[:, 0].mean(), abs=0.01)


# -- drawing --------------------------------------------------------------------------------------


def test_a_prior_has_weights_and_intervals() -> None:
    left, right = mixts.plot(arm_prior()).axes
    assert [bar.get_width() for bar in left.patches] == [0.7, 0.3]
    assert tick_labels(left) == ["night owls", "regulars"]
    assert tick_labels(right) == ["a", "b", "c"]
    dots = [line.get_xdata() for line in right.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(dots, MEANS)
    assert right.get_title(loc="left") == "mean reward, 80 % intervals"


@pytest.mark.parametrize("n_components", [1, 12])
def test_priors_of_other_families(n_components: int) -> None:
    rng = np.random.default_rng(0)
    family = mixts.LinearGaussian(
        rng.normal(size=(n_components, 20)), [np.eye(20)] * n_components, 1.0
    )
    left, right = mixts.plot(mixts.MixturePrior(family)).axes
    assert len(left.patches) == min(n_components, MOST_COMPONENTS)
    assert right.get_title(loc="left") == "coefficient, 80 % intervals, 12 of 20 features"
    mixts.plot(mdp_prior()).canvas.draw()


def test_a_belief_of_one_task_stands_beside_the_prior() -> None:
    prior = arm_prior()
    belief = prior.belief()
    belief.update(np.array([1] * 8), np.array([1.0] * 8))
    left, right = mixts.plot(belief).axes
    np.testing.assert_allclose([bar.get_width() for bar in left.patches], belief.weights)
    (marks,) = left.collections
    np.testing.assert_allclose([line[0, 0] for line in marks.get_segments()], prior.weights)
    before, now = (line.get_xdata() for line in right.lines if line.get_marker() == "o")
    np.testing.assert_allclose(before, prior.weights @ MEANS)
    np.testing.assert_allclose(now, belief.mean_rewards())


def test_a_belief_of_many_tasks_shows_their_weights() -> None:
    belief = arm_prior().belief(n_tasks=3)
    belief.update(np.array([0, 1]), np.array([1.0, 1.0]), tasks=np.array([0, 2]))
    ax = new_axes()
    draw_tasks(ax, belief)
    first, second = (patch.get_data() for patch in ax.patches)
    np.testing.assert_allclose(first.values, sorted_weights(belief.weights)[:, 0])
    np.testing.assert_allclose(second.values, np.ones(3))
    np.testing.assert_allclose(second.baseline, first.values)
    texts = [text.get_text() for text in ax.texts]
    assert [text.replace("\n", " ")[:10] for text in texts] == ["night owls", "regulars 3"]
    left, _ = mixts.plot(belief, task=2).axes
    np.testing.assert_allclose([bar.get_width() for bar in left.patches], belief.weights[2])


def test_subclasses_are_drawn_as_their_base() -> None:
    class Named(mixts.MixturePrior):
        """A prior of somebody's own."""

    named = Named(arm_prior().family)
    assert len(mixts.plot(named).axes) == 2

    environment = mixts.BanditEnvironment(arm_prior())
    results = mixts.simulate({"MixTS": arm_prior()}, environment, 5, 2, seed=0)

    @dataclass(frozen=True)
    class Mine(mixts.Results):
        """Results of somebody's own."""

    mine = Mine(**{name: getattr(results, name) for name in results.__dataclass_fields__})
    assert len(mixts.plot(mine).axes[0].lines) == 1


def test_what_cannot_be_drawn_is_named() -> None:
    with pytest.raises(errors.ParameterError, match=r"plot draws Results, .* got ndarray"):
        mixts.plot(np.zeros(3))
    with pytest.raises(errors.ParameterError, match=r"plt.subplots\(1, 2\), got 1"):
        mixts.plot(arm_prior(), new_axes())
    with pytest.raises(errors.ParameterError, match=r"a prior.* got 2: \[1, 2\]"):
        mixts.plot(arm_prior(), [1, 2])
    with pytest.raises(errors.ParameterError, match="needs ax to be axes"):
        mixts.plot(arm_prior().belief(2), new_axes().figure)


def test_axes_may_be_given() -> None:
    prior = arm_prior()
    own = new_axes().figure
    left, right = mixts.plot(prior, ax=own.subplots(1, 2))
    assert (left.figure, right.figure) == (own, own)
    assert left.patches
    belief = prior.belief(3)
    one = new_axes()
    assert mixts.plot(belief, one) is one
    panels = own.subplots(1, 2)
    assert list(mixts.plot(belief, list(panels), task=1)) == list(panels)


def test_pyplot_learns_nothing() -> None:
    """No figure is opened, and no setting of matplotlib changes."""
    import matplotlib
    from matplotlib import pyplot

    # Another test of this process may have left figures open: drawing in a notebook does.
    before, opened = dict(matplotlib.rcParams), pyplot.get_fignums()
    mixts.plot(arm_prior())
    mixts.plot(arm_prior().belief(3))
    assert pyplot.get_fignums() == opened
    assert dict(matplotlib.rcParams) == before
