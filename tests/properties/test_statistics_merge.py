"""Statistics are a monoid, and survive a file bit for bit."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.agreement import assert_same
from tests.properties.strategies import FEWER, Problem, problems


def pieces(problem: Problem, cuts: list[int]) -> list[Any]:
    """The statistics of consecutive parts of the history."""
    rounds = np.split(np.arange(problem.n_rounds), sorted(cuts))
    return [problem.part(piece).belief().statistics for piece in rounds]


def cuts(n: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, n), min_size=2, max_size=2)


@FEWER
@given(problems())
def test_condition_is_the_belief(problem: Problem) -> None:
    belief = problem.incremental()
    assert_same(problem.prior.condition(belief.statistics), belief)


@FEWER
@given(problems(), st.data())
def test_merging_is_the_whole_history(problem: Problem, data: st.DataObject) -> None:
    a, b, c = pieces(problem, data.draw(cuts(problem.n_rounds)))
    condition, whole = problem.prior.condition, problem.belief()
    assert_same(condition(a + b + c), whole)
    assert_same(condition(a + (b + c)), whole)
    assert_same(condition(c + b + a), whole)


@FEWER
@given(problems())
def test_no_history_is_neutral(problem: Problem) -> None:
    nothing, some = problem.prior.belief().statistics, problem.belief().statistics
    for merged in (nothing + some, some + nothing):
        assert_same(problem.prior.condition(merged), problem.belief())
        assert merged.n_observations == problem.n_rounds


@FEWER
@given(problems(), st.data())
def test_merging_leaves_its_parts_alone(problem: Problem, data: st.DataObject) -> None:
    a, b, _ = pieces(problem, data.draw(cuts(problem.n_rounds)))
    before = a.copy(), b.copy()
    a + b
    a.concatenate(b)
    assert (a, b) == before


@FEWER
@given(problems(), st.data())
def test_concatenated_tasks_are_found_again(problem: Problem, data: st.DataObject) -> None:
    parts = pieces(problem, data.draw(cuts(problem.n_rounds)))
    together = parts[0].concatenate(*parts[1:])
    assert len(together) == len(parts)
    for task, part in enumerate(parts):
        assert together[task] == part
    index = np.array(data.draw(st.lists(st.integers(0, 2), max_size=5)), dtype=int)
    chosen = together[index]
    assert len(chosen) == len(index)
    for row, task in enumerate(index):
        assert chosen[row] == parts[task]


@FEWER
@given(problems(), st.data())
def test_conditioning_tasks_together_is_conditioning_each(
    problem: Problem, data: st.DataObject
) -> None:
    parts = pieces(problem, data.draw(cuts(problem.n_rounds)))
    together = problem.prior.condition(parts[0].concatenate(*parts[1:]))
    for task, part in enumerate(parts):
        alone = problem.prior.condition(part)
        np.testing.assert_allclose(together.log_evidence[task], alone.log_evidence, rtol=1e-12)
        np.testing.assert_allclose(together.mean[task], alone.mean, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["statistics.mixts", "statistics.json", "statistics"])
@FEWER
@given(problem=problems(), many=st.booleans())
def test_a_file_gives_them_back_bit_for_bit(name: str, problem: Problem, many: bool) -> None:
    statistics = problem.incremental().statistics
    if many:
        statistics = statistics.concatenate(problem.belief().statistics)
    with tempfile.TemporaryDirectory() as folder:
        statistics.save(Path(folder) / name)
        loaded = type(statistics).load(Path(folder) / name)
    assert type(loaded) is type(statistics)
    assert loaded == statistics
    ours, theirs = (problem.prior.condition(s).log_evidence for s in (loaded, statistics))
    assert ours.tobytes() == theirs.tobytes()


@FEWER
@given(problems(rounds=(2, 16)))
def test_statistics_are_of_the_moment_they_were_read(problem: Problem) -> None:
    """A later update does not reach into statistics that somebody holds."""
    half = problem.n_rounds // 2
    belief = problem.part(np.arange(half)).belief()
    held = belief.statistics
    before = held.copy()
    for action, outcome in zip(problem.actions[half:], problem.outcomes[half:], strict=True):
        belief.update(action, outcome)
    assert held == before


@FEWER
@given(problems(rounds=(2, 16)))
def test_a_conditioned_belief_has_statistics_of_its_own(problem: Problem) -> None:
    half = problem.n_rounds // 2
    statistics = problem.part(np.arange(half)).belief().statistics
    before = statistics.copy()
    belief = problem.prior.condition(statistics)
    belief.update(problem.actions[half:], problem.outcomes[half:])
    assert statistics == before
    assert_same(belief, problem.belief())
