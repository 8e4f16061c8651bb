"""Draws from beliefs as ArviZ takes them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.bridges.arviz import to_inference_data

RATES = np.array([[0.8, 0.2, 0.1], [0.1, 0.2, 0.8]])


def arm_belief(n_tasks: int | None = None) -> mixts.Belief:
    prior = mixts.MixturePrior(
        mixts.BernoulliArms(9 * RATES, 9 * (1 - RATES)), [0.6, 0.4], ["sporty", "homely"],
        arm_names=["shoes", "books", "tools"],
    )  # fmt: skip
    belief = prior.belief(n_tasks)
    belief.update([0, 0, 2], [0, 0, 1], tasks=None if n_tasks is None else [1, 1, 1])
    return belief


# -- plain arrays --------------------------------------------------------------------------------


def test_draws_have_axes_of_chains_and_draws() -> None:
    rng = np.random.default_rng(0)
    one = arm_belief().draws(rng, 50, n_chains=3)
    assert {name: array.shape for name, array in one.items()} == {
        "latent": (3, 50), "mean_reward": (3, 50, 3),
    }  # fmt: skip
    many = arm_belief(4).draws(rng, 50, tasks=[1, 3])
    assert many["latent"].shape == (1, 50, 2)
    assert many["mean_reward"].shape == (1, 50, 2, 3)
    river = mixts.RiverSwim(n_states=4, horizon=5).prior.belief(2).draws(rng, 7)
    assert river["mean_reward"].shape == (1, 7, 2, 4, 2)
    assert river["transition"].shape == (1, 7, 2, 4, 2, 4)
    np.testing.assert_allclose(river["transition"].sum(axis=-1), 1)
    linear = mixts.MixturePrior(mixts.LinearGaussian(np.eye(2), np.ones(2), 1.0, "spherical"))
    assert linear.belief().draws(rng, 5)["coefficient"].shape == (1, 5, 2)
    with pytest.raises(errors.ParameterError, match="n must be"):
        linear.belief().draws(rng, 0)


def test_draws_follow_the_belief() -> None:
    """The second task has observations, the first has none; each keeps its own draws."""
    belief, n = arm_belief(2), 20_000
    draws = belief.draws(np.random.default_rng(1), n)
    share = (draws["latent"][0] == 0).mean(axis=0)
    expected = belief.weights[:, 0]
    assert (np.abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / n)).all()
    assert abs(expected[0] - expected[1]) > 0.3
    means = draws["mean_reward"][0].mean(axis=0)
    deviation = np.sqrt(np.diagonal(belief.covariance, axis1=1, axis2=2))
    assert (np.abs(means - belief.mean_rewards()) < 5 * deviation / np.sqrt(n)).all()
    # Parameters belong to the latent state beside them.
    first = draws["mean_reward"][0, :, 0, 0]
    gap = first[draws["latent"][0, :, 0] == 0].mean() - first[draws["latent"][0, :, 0] == 1].mean()
    assert gap == pytest.approx(0.7, abs=0.02)


# -- ArviZ ---------------------------------------------------------------------------------------


def variables(found: Any, group: str) -> Any:
    """The data set of a group, of an InferenceData or a DataTree."""
    part = found[group]
    return part.to_dataset() if hasattr(part, "to_dataset") else part


def test_axes_have_names() -> None:
    pytest.importorskip("xarray")
    belief = arm_belief(4)
    found = to_inference_data(belief, 25, seed=1, tasks=[3, 1], task_names=["ann", "bob"])
    posterior = variables(found, "posterior")
    assert dict(posterior.sizes) == {"chain": 4, "draw": 25, "task": 2, "arm": 3}
    assert posterior["latent"].dims == ("chain", "draw", "task")
    assert posterior["mean_reward"].dims == ("chain", "draw", "task", "arm")
    assert posterior["arm"].values.tolist() == ["shoes", "books", "tools"]
    assert posterior["task"].values.tolist() == ["ann", "bob"]
    same = to_inference_data(belief, 25, seed=1, tasks=[3, 1])
    again = variables(same, "posterior")
    np.testing.assert_array_equal(again["mean_reward"].values, posterior["mean_reward"].values)
    assert again["task"].values.tolist() == [3, 1]
    exact = variables(found, "constant_data")
    assert exact["weight"].dims == ("task", "component")
    np.testing.assert_array_equal(
        exact["weight"].sel(task="bob", component="homely"), belief.weights[1, 1]
    )
    np.testing.assert_array_equal(exact["log_evidence"].values, belief.log_evidence[[3, 1]])


def test_one_task_has_no_axis_of_tasks() -> None:
    pytest.importorskip("xarray")
    posterior = variables(to_inference_data(arm_belief(), 10, n_chains=2), "posterior")
    assert posterior["mean_reward"].dims == ("chain", "draw", "arm")
    features = mixts.Features(["price"], intercept=True)
    family = mixts.LinearGaussian(np.eye(2), np.ones(2), 1.0, "spherical")
    linear = mixts.MixturePrior(family, features=features).belief()
    posterior = variables(to_inference_data(linear, 10), "posterior")
    assert posterior["feature"].values.tolist() == ["intercept", "price"]
    river = mixts.RiverSwim(n_states=4, horizon=5).prior.belief()
    posterior = variables(to_inference_data(river, 10), "posterior")
    assert posterior["transition"].dims == ("chain", "draw", "state", "action", "next")
    with pytest.raises(errors.ParameterError, match="task_names must be"):
        to_inference_data(arm_belief(), 10, task_names=["ann"])
    with pytest.raises(errors.ParameterError, match="for each of 4 tasks"):
        to_inference_data(arm_belief(4), 10, task_names=["ann"])


@pytest.mark.filterwarnings("ignore")  # of ArviZ and its libraries
def test_arviz_summarises_the_draws() -> None:
    arviz = pytest.importorskip("arviz")
    belief = arm_belief()
    table = arviz.summary(to_inference_data(belief, 2000, seed=1), round_to="none")
    means = [float(table.loc[f"mean_reward[{arm}]", "mean"]) for arm in ("shoes", "books", "tools")]
    deviation = np.sqrt(np.diagonal(belief.covariance))
    assert (np.abs(means - belief.mean_rewards()) < 5 * deviation / np.sqrt(8000)).all()
    # Independent draws: the effective number is about the number of draws.
    assert float(table.loc["mean_reward[shoes]", "ess_bulk"]) > 6000


def test_without_arviz_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(errors.MissingExtraError, match=r"pip install 'mixts\[arviz\]'"):
        to_inference_data(arm_belief())
