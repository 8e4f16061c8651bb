"""Descriptions of a prior's components in words, and the choice of arms to draw."""

from __future__ import annotations

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.families import BernoulliStatistics, LinearStatistics
from mixts.pages.kinds import MOST_ITEMS, descriptions_of, distinctive_items, kinds_of


def bernoulli(rates: list[list[float]], weights: list[float]) -> mixts.MixturePrior:
    mean = np.array(rates)
    return mixts.MixturePrior(mixts.BernoulliArms(50 * mean, 50 * (1 - mean)), weights)


def no_tasks(prior: mixts.MixturePrior) -> mixts.Statistics:
    return prior.belief(n_tasks=4).statistics


def test_a_kind_is_described_by_where_it_differs() -> None:
    prior = bernoulli([[0.3, 0.02, 0.1, 0.2], [0.1, 0.3, 0.1, 0.2]], [0.42, 0.58])
    first, second = kinds_of(prior, no_tasks(prior), ["shoes", "books", "hats", "music"])
    assert str(first) == (
        "Kind 1, 42 % of tasks: `shoes` has the highest mean (0.30, against 0.18 over all tasks); "
        "`books` is lower than usual (0.02, against 0.18)."
    )
    assert second.headline == (
        "`books` has the highest mean (0.30, against 0.18 over all tasks); `shoes` is lower than "
        "usual (0.10, against 0.18)."
    )
    assert first.sentences[-1] == (
        "About 2 of 4 past tasks are of this kind, 0 with a probability above 90 %. With so few "
        "tasks, its numbers are uncertain."
    )
    assert [item.name for item in first.items] == ["shoes", "books", "hats", "music"]


def test_drawings_have_one_scale() -> None:
    prior = bernoulli([[0.5, 0.1], [0.1, 0.1]], [0.5, 0.5])
    kinds = kinds_of(prior, no_tasks(prior), ["a", "b"])
    top = kinds[0].items[0]
    assert top.high == 100.0
    assert 0 < top.low < top.place < top.high
    # Every place is its number times the same.
    scale = top.place / 0.5
    for item in (item for kind in kinds for item in kind.items):
        assert item.zero == 0.0
        assert item.place == pytest.approx(scale * float(item.mean), abs=0.02)
    assert top.alt.startswith(
        "0.50, 80 % of the tasks of this kind between 0.41 and 0.59; over all tasks 0.3"
    )


def test_a_kind_like_all_others_is_described_as_such() -> None:
    prior = bernoulli([[0.3, 0.2], [0.31, 0.2]], [0.5, 0.5])
    for kind in kinds_of(prior, no_tasks(prior), ["a", "b"]):
        assert kind.sentences[0].startswith("No arm stands out")


def test_one_kind_is_compared_with_nothing() -> None:
    prior = bernoulli([[0.3, 0.2]], [1.0])
    (kind,) = kinds_of(prior, no_tasks(prior), ["a", "b"])
    assert kind.headline == "`a` has the highest mean (0.30)."
    assert "over all" not in " ".join(kind.sentences)


def test_tasks_are_counted_where_they_belong() -> None:
    prior = bernoulli([[0.9, 0.1], [0.1, 0.9]], [0.5, 0.5])
    counts = np.array([[30, 0], [30, 0], [0, 30], [0, 0]])
    tasks = BernoulliStatistics(successes=counts, failures=np.zeros((4, 2), int))
    first, second = kinds_of(prior, tasks, ["a", "b"])
    assert "About 2 of 4 past tasks are of this kind, 2 with" in first.sentences[-1]
    assert "About 2 of 4 past tasks are of this kind, 1 with" in second.sentences[-1]


def test_a_broad_component_is_no_kind() -> None:
    prior = mixts.learning.robust_prior(bernoulli([[0.3, 0.2], [0.1, 0.6]], [0.5, 0.5]))
    *kinds, other = kinds_of(prior, no_tasks(prior), ["a", "b"], 2)
    assert [kind.name for kind in kinds] == ["Kind 1", "Kind 2"]
    assert (other.name, other.percent, other.items) == ("Other", "1 %", ())
    # Means of the kinds alone.
    assert "against 0.20 over all tasks" in kinds[0].headline


@pytest.mark.parametrize(
    "family",
    [
        mixts.GaussianArms([[1.0, -5.0], [1.0, 20.0]], [[0.1, 0.1], [0.1, 0.1]], 1.0),
        mixts.PoissonArms([[4.0, 1.0], [4.0, 9.0]], [[2.0, 2.0], [2.0, 0.5]]),
    ],
    ids=["gaussian", "poisson"],
)
def test_other_rewards(family: mixts.Family) -> None:
    prior = mixts.MixturePrior(family)
    first, second = kinds_of(prior, no_tasks(prior), ["calm", "wild"])
    assert first.headline.startswith("`calm` has the highest mean (")
    assert second.headline.startswith("`wild` has the highest mean (")
    assert "`wild` is lower than usual (" in first.headline


def test_no_zero_is_negative() -> None:
    mean = np.array([[0.42, 1.0], [-0.421, 0.0]])
    prior = mixts.MixturePrior(mixts.LinearGaussian(mean, np.full(2, 0.3), 0.5, "spherical"))
    assert "`feature 0` is higher (0.42, against 0.00)" in descriptions_of(prior)[0]


def test_features_count_by_their_size() -> None:
    """A coefficient of 0.1 of a feature near 100 says more than one of 2 of a feature near 1."""
    mean = np.array([[5.0, 0.1, 2.0], [5.0, -0.1, 2.0]])
    prior = mixts.MixturePrior(mixts.LinearGaussian(mean, [np.eye(3) * 1e-4] * 2, 1.0))
    factor = np.zeros((2, 4, 4))
    factor[:, 0] = [[1, 100, 1, 1], [1, -100, 1, 1]]  # one row a task
    tasks = LinearStatistics(count=[1, 1], factor=factor)
    first, second = kinds_of(prior, tasks, ["intercept", "income", "age"])
    assert first.headline == "`income` is higher than usual (0.10, against 0.00 over all tasks)."
    assert second.headline == "`income` is lower than usual (−0.10, against 0.00 over all tasks)."

    assert first.sentences[:2] == (
        "`income` matters most (0.10, against 0.00 over all tasks), then `age` (2.0, against 2.0).",
        "The base level is 5.0, against 5.0.",
    )


def test_features_are_drawn_by_their_differences() -> None:
    """The base level is the same for both kinds, and does not flatten the rest."""
    mean = np.array([[5000.0, 0.1, 2.0], [5000.0, -0.1, 2.0]])
    prior = mixts.MixturePrior(mixts.LinearGaussian(mean, [np.eye(3) * 1e-4] * 2, 1.0))
    first, second = kinds_of(prior, no_tasks(prior), ["intercept", "income", "age"])
    # Coefficients of 0.1 and -0.1 are one standard deviation of all tasks apart from their mean.
    for kind, sign in ((first, 1), (second, -1)):
        base, income, age = kind.items
        assert base.place == age.place == base.overall_place == income.overall_place == base.zero
        assert sign * (income.place - income.zero) > 25
    assert (first.items[0].mean, first.items[0].overall) == ("5000", "5000")
    (only,) = kinds_of(prior.select([0]), no_tasks(prior), ["intercept", "income", "age"])
    assert only.items[0].place == only.items[0].zero, "without observations, scales are unknown"


# -- sentences of a prior -------------------------------------------------------------------------


def test_a_prior_without_sentences_gets_those_of_its_parameters() -> None:
    prior = bernoulli([[0.3, 0.02, 0.1, 0.2], [0.1, 0.3, 0.1, 0.2]], [0.42, 0.58])
    items = ["shoes", "books", "hats", "music"]
    kinds = kinds_of(prior, no_tasks(prior), items)
    assert descriptions_of(prior.replace(arm_names=items)) == tuple(kind.headline for kind in kinds)
    assert descriptions_of(prior)[0].startswith("`arm 0` has the highest mean (0.30, against")
    own = prior.with_descriptions(["They buy shoes.", "They buy books."])
    assert descriptions_of(own) == ("They buy shoes.", "They buy books.")
    counts = np.ones((1, 2, 2, 2))
    mdp = mixts.MixturePrior(mixts.TabularMDP(counts, counts, 3, [1.0, 0.0]))
    assert descriptions_of(mdp) == ()


def test_features_without_names_are_described_too() -> None:
    mean = np.array([[1.0, 3.0], [1.0, -3.0]])
    prior = mixts.MixturePrior(mixts.LinearGaussian(mean, [np.eye(2)] * 2, 1.0))
    assert descriptions_of(prior) == (
        "`feature 1` is higher than usual (3.0, against 0.0 over all tasks).",
        "`feature 1` is lower than usual (−3.0, against 0.0 over all tasks).",
    )


def test_of_many_arms_the_distinctive_ones_are_drawn() -> None:
    rng = np.random.default_rng(1)
    distance = 0.01 * rng.standard_normal((2, 200))
    distance[:, 150] = [2.0, -2.0]
    distance[0, 7] = 1.0
    means = np.full((2, 200), 0.1)
    means[1, 42] = 0.2
    shown = distinctive_items(distance, np.array([0.5, 0.5]), means).tolist()
    assert len(shown) == MOST_ITEMS
    assert shown == sorted(shown)
    assert {7, 42, 150} <= set(shown)
    prior = bernoulli((0.1 + 0.01 * rng.random((2, 200))).tolist(), [0.5, 0.5])
    kinds = kinds_of(prior, no_tasks(prior), [f"arm {k}" for k in range(200)])
    assert {len(kind.items) for kind in kinds} == {MOST_ITEMS}


def test_names_must_fit() -> None:
    prior = bernoulli([[0.3, 0.2]], [1.0])
    with pytest.raises(errors.ParameterError, match="a name for each of 2, got 1"):
        kinds_of(prior, no_tasks(prior), ["a"])


def test_a_prior_of_mdps_has_no_kinds() -> None:
    counts = np.ones((1, 2, 2, 2))
    prior = mixts.MixturePrior(mixts.TabularMDP(counts, counts, 3, [1.0, 0.0]))
    with pytest.raises(errors.ParameterError, match="only priors of arms or features"):
        kinds_of(prior, no_tasks(prior), ["a", "b"])
