"""Every agent that chooses among actions: values, costs and rankings, or a clear refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.extend._agents import readings, unchanged
from tests.contracts.agents import CASES, OFFERED_CASES, AgentCase, over
from tests.statistical.standard_errors import assert_within, of_frequency, quotient

pytestmark = pytest.mark.usefixtures("program")

BELIEF_CASES = [case for case in OFFERED_CASES if not case.traits.step_by_step]
offered_cases = over(BELIEF_CASES)
counts = pytest.mark.parametrize("n_tasks", [None, 1, 3])
VERBS = ("act", "action_probabilities", "act_with_probabilities")


def prices(case: AgentCase, rng: np.random.Generator) -> dict[str, Any]:
    values = rng.uniform(-1.0, 3.0, case.n_actions)
    values[0] = 0.0
    return {"values": values, "costs": rng.uniform(-0.5, 0.5, case.n_actions)}


def of_logged(hit: Any, logged: Any) -> Any:
    """Indicators of n decisions against the probabilities that were logged with them."""
    error = np.sqrt((logged * (1 - logged)).mean(axis=0) / len(hit))
    return quotient((hit - logged).mean(axis=0), error)


@over(c for c in CASES if c not in BELIEF_CASES)
@pytest.mark.parametrize("how", [{"values": [1.0] * 4}, {"costs": [0.0] * 4}, {"top": 1}])
def test_who_cannot_says_so(case: AgentCase, how: dict[str, Any]) -> None:
    agent, rng = case.build(None), np.random.default_rng(0)
    before, (name,) = readings(agent), how
    for verb in VERBS:
        with pytest.raises(errors.ParameterError, match=name):
            getattr(agent, verb)(case.offer(rng), **how)
    unchanged(agent, before)


@offered_cases
@counts
def test_shapes(case: AgentCase, n_tasks: int | None) -> None:
    agent, rng = case.build(n_tasks), np.random.default_rng(1)
    case.play(agent, 3)
    offered, before, how = case.offer(rng, n_tasks), readings(agent), prices(case, rng)
    lead = () if n_tasks is None else (n_tasks,)
    chosen, law, law_errors = agent.act_with_probabilities(offered, **how)
    assert np.shape(chosen) == np.shape(agent.act(offered, **how)) == lead
    assert law.shape == law_errors.shape == (*lead, case.n_actions)
    np.testing.assert_allclose(law.sum(axis=-1), 1.0)
    for k in (1, 2, case.n_actions):
        ranked, included, _ = agent.act_with_probabilities(offered, top=k, **how)
        again = agent.act(offered, top=k)
        assert ranked.shape == again.shape == (*lead, k)
        assert included.shape == (*lead, case.n_actions)
        np.testing.assert_allclose(included.sum(axis=-1), k)
        for row in np.concatenate([ranked.reshape(-1, k), again.reshape(-1, k)]):
            assert len(set(row)) == k
        shown = np.take_along_axis(included, ranked, axis=-1)
        assert np.all(shown > 0)
    unchanged(agent, before)


@offered_cases
def test_neutral_prices_change_no_law(case: AgentCase) -> None:
    agent, rng = case.build(None), np.random.default_rng(2)
    case.play(agent, 4)
    offered = case.offer(rng)
    plain, errors_ = agent.action_probabilities(offered)
    ones, zeros = np.ones(case.n_actions), np.zeros(case.n_actions)
    for how in ({"values": 2 * ones}, {"costs": zeros}, {"costs": 7 * ones}, {"top": 1}):
        found, found_errors = agent.action_probabilities(offered, **how)
        sampled = np.sqrt(errors_**2 + found_errors**2)
        priced = case.agent.startswith("MixIDS") and "top" not in how
        if case.agent.startswith(("MixIDS", "BayesUCB")) and (
            priced or case.linear or "horizon" in case.agent
        ):
            continue  # the terms behind the law are sampled, and the law's own error is zero
        np.testing.assert_allclose(found, plain, atol=float(1e-8 + 6 * sampled.max()))


@offered_cases
def test_a_cost_that_is_too_high_rules_an_action_out(case: AgentCase) -> None:
    agent, rng = case.build(None), np.random.default_rng(3)
    case.play(agent, 2)
    offered, costs = case.offer(rng), np.zeros(case.n_actions)
    costs[1] = 1000.0
    assert agent.action_probabilities(offered, costs=costs)[0][1] < 1e-12
    k = case.n_actions
    ranked, included, _ = agent.act_with_probabilities(offered, costs=costs, top=k)
    assert ranked[-1] == 1 or "IDS" in case.agent
    np.testing.assert_allclose(included, 1.0)
    others = agent.action_probabilities(offered, costs=costs, top=k - 1)[0]
    np.testing.assert_allclose(others, np.arange(k) != 1, atol=1e-12)


@offered_cases
def test_logged_probabilities_are_those_of_the_decisions(case: AgentCase) -> None:
    """Inclusion and first actions against frequencies; each row has its own draws behind it."""
    agent, rng = case.build(1), np.random.default_rng(4)
    case.play(agent, 4)
    offered, how, n = case.offer(rng), prices(case, rng), 750
    tasks = np.zeros(n, int)
    for k in (None, 2):
        shown, logged, _ = agent.act_with_probabilities(offered, tasks, top=k, **how)
        hit = (shown.reshape(n, -1)[:, :, None] == np.arange(case.n_actions)).sum(axis=1)
        assert_within(of_logged(hit, logged))
        acted = agent.act(offered, tasks, top=k, **how)
        hit = (acted.reshape(n, -1)[:, :, None] == np.arange(case.n_actions)).sum(axis=1)
        if np.all(logged == logged[0]):
            assert_within(of_frequency(hit.sum(axis=0), n, logged[0]))
        else:
            # By the law, not by the hits: those of a rare action may be none, and vary by nothing.
            law = logged.mean(axis=0)
            error = np.sqrt((law * (1 - law) + logged.var(axis=0)) / n) + 1e-12
            assert_within((hit.mean(axis=0) - law) / error)


@offered_cases
@pytest.mark.parametrize("of", ["each", "all"])
def test_a_floor_of_rankings(case: AgentCase, of: str) -> None:
    """A floor of each action, or the same as a share of all decisions."""
    agent, rng = case.build(1), np.random.default_rng(5)
    case.play(agent, 4)
    offered, n, k, floor = case.offer(rng), 750, 2, 0.1
    mask = np.arange(case.n_actions) != 0
    asked = agent.offer(offered, np.zeros(n, int), mask, top=k, **prices(case, rng))
    limits = {"floor": floor} if of == "each" else {"explore": float(floor * mask.sum())}
    shown, logged, _ = agent.decide(asked._replace(**limits))
    assert np.all(logged[:, 1:] >= k * floor - 1e-12)
    assert np.all(logged[:, 0] == 0)
    np.testing.assert_allclose(logged.sum(axis=1), k)
    hit = (shown[:, :, None] == np.arange(case.n_actions)).sum(axis=1)
    assert_within(of_logged(hit, logged))
    for position in range(k):
        often = np.bincount(shown[:, position], minlength=case.n_actions)[1:] / n
        assert np.all(often > floor - 5 * np.sqrt(floor / n))


@offered_cases
@pytest.mark.usefixtures("unchecked")
def test_bad_money_is_refused(case: AgentCase) -> None:
    agent, rng = case.build(2), np.random.default_rng(6)
    case.play(agent, 2)
    before, offered, k = readings(agent), case.offer(rng), case.n_actions
    wrong: list[Any] = [
        [1.0] * (k - 1), [1.0] * (k - 1) + [np.nan], [np.inf] * k, ["a"] * k, 3.0,
        np.ones((3, k)), {"shoes": 1.0}, {}, [[1.0], [1.0, 2.0]],
    ]  # fmt: skip
    for verb in VERBS:
        for money in wrong:
            for name in ("values", "costs"):
                with pytest.raises(errors.ParameterError, match=name):
                    getattr(agent, verb)(offered, **{name: money})
        for top in (0, -1, 1.5, True, "2"):
            with pytest.raises(errors.ParameterError, match="top"):
                getattr(agent, verb)(offered, top=top)
        with pytest.raises(errors.ActionError, match=f"top is {k}, but decision 0 has {k - 1}"):
            getattr(agent, verb)(offered, mask=np.arange(k) > 0, top=k)
    unchanged(agent, before)


@offered_cases
def test_padding_has_no_price(case: AgentCase) -> None:
    """Numbers of masked actions are ignored, NaN included."""
    agent, rng = case.build(None), np.random.default_rng(7)
    values = np.ones(case.n_actions)
    values[2] = np.nan
    mask = np.arange(case.n_actions) != 2
    offered = case.offer(rng)
    assert 2 not in agent.act(offered, mask=mask, values=values, top=2)
    assert agent.action_probabilities(offered, mask=mask, values=values)[0][2] == 0


def test_every_decision_has_its_own_prices() -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2, 4]], [[2, 8, 4]]))
    agent = mixts.Greedy(prior, n_tasks=3, seed=0)
    values = [[1.0, 1.0, 1.0], [1.0, 9.0, 1.0], [-1.0, -1.0, -1.0]]
    assert agent.act(values=values).tolist() == [0, 1, 1]
    assert agent.act(costs=np.eye(3)).tolist() == [2, 0, 0]


def test_an_item_sold_at_a_loss_has_the_quantile_of_its_lower_tail() -> None:
    """Of two arms of mean 0, the wider one has the higher quantile, whatever the sign."""
    family = mixts.GaussianArms([[0.0, 0.0, 0.0]], [[0.01, 1.0, 1.0]], 1.0)
    agent = mixts.BayesUCB(mixts.MixturePrior(family), seed=0)
    agent.update([2] * 50, [0.0] * 50)
    for value in (1.0, -1.0):
        assert agent.act(mask=[True, True, False], values=[value] * 3) == 1


# -- names -----------------------------------------------------------------------------------------

NAMES = ["strong", "cheap", "local"]


def named(retired: list[int | str]) -> mixts.MixTS:
    family = mixts.BernoulliArms([[8, 6, 4]], [[2, 4, 4]])
    prior = mixts.MixturePrior(family, arm_names=NAMES)
    return mixts.MixTS(prior.retire_arms(retired) if retired else prior, seed=0)


def test_money_by_name() -> None:
    agent = named([])
    by_name = agent.action_probabilities(costs={"cheap": 0.001, "strong": 0.2, "local": 0.0})
    listed = named([]).action_probabilities(costs=[0.2, 0.001, 0.0])
    np.testing.assert_array_equal(by_name, listed)
    with pytest.raises(errors.ParameterError, match=r"missing: \['cheap', 'local'\]"):
        agent.act(costs={"strong": 1.0})
    with pytest.raises(errors.ParameterError, match=r"unknown arms \['hats'\]"):
        agent.act(values={"hats": 1.0})
    # An arm that is not on offer needs no price.
    assert agent.act(costs={"strong": 1.0}, mask=["strong"]) == 0
    assert named(["cheap", "local"]).act(values={"strong": 1.0}) == 0


def test_masks_by_name() -> None:
    agent = named(["local"])
    for mask in (["cheap"], ("cheap",), np.array(["cheap"]), ["cheap", "local"]):
        assert agent.act(mask=mask) == 1
        assert agent.action_probabilities(mask=mask)[0].tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(errors.MaskError, match="unknown arm 'hats'"):
        agent.act(mask=["cheap", "hats"])
    with pytest.raises(errors.MaskError, match="leaves no action"):
        agent.act(mask=["local"])
    plain = mixts.MixTS(mixts.MixturePrior(mixts.BernoulliArms.uniform(2)), seed=0)
    with pytest.raises(errors.MaskError, match="arm_names"):
        plain.act(mask=["cheap"])
