"""Any order and any batching give the same belief."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.agreement import assert_same
from tests.properties.strategies import FEWER, Problem, batches, problems


@FEWER
@given(problems(), st.data())
def test_any_order_and_batching(problem: Problem, data: st.DataObject) -> None:
    belief = problem.prior.belief()
    for batch in data.draw(batches(problem.n_rounds)):
        belief.update(problem.actions[batch], problem.outcomes[batch])
    assert_same(belief, problem.belief())


@FEWER
@given(problems(), st.data())
def test_one_at_a_time_in_any_order(problem: Problem, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(problem.n_rounds)))
    assert_same(problem.part(np.array(order)).incremental(), problem.belief())


@FEWER
@given(problems(), st.data())
def test_reading_in_between_changes_nothing(problem: Problem, data: st.DataObject) -> None:
    names = ["weights", "log_evidence", "mean", "covariance", "component_mean", "statistics"]
    belief = problem.prior.belief()
    for action, outcome in zip(problem.actions, problem.outcomes, strict=True):
        for name in data.draw(st.lists(st.sampled_from(names), max_size=2)):
            getattr(belief, name)
        belief.update(action, outcome)
    assert_same(belief, problem.belief())


@FEWER
@given(problems(["bernoulli"]), st.data())
def test_counts_do_not_know_their_order(problem: Problem, data: st.DataObject) -> None:
    """Bit for bit: sums of integers."""
    order = np.array(data.draw(st.permutations(range(problem.n_rounds))))
    assert problem.part(order).incremental().statistics == problem.belief().statistics


@FEWER
@given(problems())
def test_an_empty_update_changes_nothing(problem: Problem) -> None:
    belief, nothing = problem.belief(), np.arange(0)
    before = belief.statistics
    belief.update(problem.actions[nothing], problem.outcomes[nothing])
    assert belief.statistics == before
    assert_same(belief, problem.belief())
