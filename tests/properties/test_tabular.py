"""Tabular MDPs: episodes in any order and any batches, and whole refusals."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import mixts
from mixts import errors
from mixts.families import TabularStatistics
from tests.properties.agreement import assert_same
from tests.properties.strategies import batches

pytestmark = pytest.mark.usefixtures("program")


@dataclass(frozen=True)
class Problem:
    """Counts of a prior, and episodes with an owner each."""

    reward: Any
    transition: Any
    weights: Any
    states: Any
    actions: Any
    rewards: Any
    lengths: Any

    @property
    def shape(self) -> tuple[int, int]:
        return self.reward.shape[1:3]

    @property
    def n_episodes(self) -> int:
        return len(self.actions)

    @property
    def prior(self) -> mixts.MixturePrior:
        family = mixts.TabularMDP(self.reward, self.transition, self.actions.shape[1], 0)
        return mixts.MixturePrior(family, self.weights)

    def trajectory(self, index: Any = slice(None)) -> mixts.Trajectory:
        return mixts.Trajectory(
            self.states[index], self.actions[index], self.rewards[index], self.lengths[index]
        )

    def outcomes(self, episode: int) -> list[tuple[Any, ...]]:
        """Return the observations of one episode, in order: (kind, state, action, outcome)."""
        found: list[tuple[Any, ...]] = []
        n, extra = self.lengths[episode], self.states.shape[1] - self.actions.shape[1]
        x, a, r = self.states[episode], self.actions[episode], self.rewards[episode]
        for j in range(n):
            found.append(("reward", x[j], a[j], 0 if r[j] == 1 else 1))
            if j < n - 1 + extra:
                found.append(("transition", x[j], a[j], x[j + 1]))
        return found

    def possible(self, episodes: Any) -> Any:
        """Return the components that can explain all of these episodes."""
        counts = {"reward": self.reward, "transition": self.transition}
        result = self.weights > 0
        for episode in episodes:
            for what, x, a, outcome in self.outcomes(episode):
                result = result & (counts[what][:, x, a, outcome] > 0)
        return result


@st.composite
def problems(draw: st.DrawFn, zeros: bool = False) -> Problem:
    """With ``zeros`` some prior counts and perhaps some weights are zero.

    Sizes are drawn one by one, so that they shrink; what fills the arrays comes from a seed.
    """
    n_components, n_states, n_actions = (draw(st.integers(1, 3)) for _ in range(3))
    n, horizon, extra = draw(st.integers(1, 6)), draw(st.integers(1, 4)), draw(st.integers(0, 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    counts = []
    for size in (2, n_states):
        rows = rng.uniform(0.1, 20.0, (n_components, n_states, n_actions, size))
        if zeros:
            rows *= rng.random(rows.shape) < draw(st.sampled_from([0.5, 0.8, 0.95]))
            rows[..., 0] += rows.sum(axis=-1) == 0
        counts.append(rows)
    shares = rng.uniform(0.01, 1.0, n_components)
    if zeros:
        shares[1:] *= rng.random(n_components - 1) < 0.7
    return Problem(
        *counts,
        shares / shares.sum(),
        rng.integers(n_states, size=(n, horizon + extra)),
        rng.integers(n_actions, size=(n, horizon)),
        rng.integers(2, size=(n, horizon)).astype(float),
        rng.integers(horizon + 1, size=n),
    )


def counted(problem: Problem, episodes: Any) -> tuple[Any, Any]:
    """The counts of rewards and transitions, made one by one."""
    tally = Counter(outcome for e in episodes for outcome in problem.outcomes(e))
    n_states, n_actions = problem.shape
    rewards = np.zeros((n_states, n_actions, 2), int)
    transitions = np.zeros((n_states, n_actions, n_states), int)
    for (what, *where), n in tally.items():
        (rewards if what == "reward" else transitions)[tuple(where)] = n
    return rewards, transitions


# -- histories -------------------------------------------------------------------------------------


@given(problems())
def test_statistics_are_counts(problem: Problem) -> None:
    belief = problem.prior.belief()
    belief.update(problem.trajectory())
    rewards, transitions = counted(problem, range(problem.n_episodes))
    np.testing.assert_array_equal(belief.statistics.rewards, rewards)
    np.testing.assert_array_equal(belief.statistics.transitions, transitions)
    assert belief.statistics.n_observations == problem.lengths.sum()


@given(problems(), st.data())
def test_order_and_batches_do_not_matter(problem: Problem, data: st.DataObject) -> None:
    whole, pieces = problem.prior.belief(), problem.prior.belief()
    whole.update(problem.trajectory())
    for part in data.draw(batches(problem.n_episodes)):
        pieces.update(problem.trajectory(part))
    assert pieces.statistics == whole.statistics
    assert_same(pieces, whole)
    assert_same(problem.prior.condition(whole.statistics), whole)


@given(problems(), st.data())
def test_tasks_own_episodes(problem: Problem, data: st.DataObject) -> None:
    """Repeats, gaps and any order; each task as if it were alone."""
    owners = np.array(data.draw(st.lists(st.integers(0, 2), min_size=problem.n_episodes,
                                         max_size=problem.n_episodes)))  # fmt: skip
    belief = problem.prior.belief(3)
    belief.update(problem.trajectory(), tasks=owners)
    for task in range(3):
        alone = problem.prior.belief()
        alone.update(problem.trajectory(owners == task))
        assert belief.statistics[task] == alone.statistics
        np.testing.assert_array_equal(belief.log_evidence[task], alone.log_evidence)


@given(problems())
def test_without_its_last_state_an_episode_has_one_transition_less(problem: Problem) -> None:
    """Also where it ended early: the state after its last step is then there, but padding."""
    assume(problem.states.shape[1] > problem.actions.shape[1])
    long, short = problem.prior.belief(), problem.prior.belief()
    long.update(problem.trajectory())
    short.update(
        mixts.Trajectory(problem.states[:, :-1], problem.actions, problem.rewards, problem.lengths)
    )
    np.testing.assert_array_equal(long.statistics.rewards, short.statistics.rewards)
    gap = long.statistics.transitions - short.statistics.transitions
    assert gap.min() >= 0
    assert gap.sum() == (problem.lengths > 0).sum()


@given(problems(), st.integers(-5, 99), st.sampled_from([np.nan, 0.5, -3.0, np.inf]))
def test_padding_is_not_looked_at(problem: Problem, index: int, number: float) -> None:
    steps = np.arange(problem.actions.shape[1])
    padding = steps >= problem.lengths[:, None]
    states, actions, rewards = (
        array.copy() for array in (problem.states, problem.actions, problem.rewards)
    )
    extra = states.shape[1] - actions.shape[1]
    ends = problem.lengths + extra * (problem.lengths > 0)
    states[np.arange(states.shape[1]) >= ends[:, None]] = index
    actions[padding], rewards[padding] = index, number
    clean, dirty = problem.prior.belief(), problem.prior.belief()
    clean.update(problem.trajectory())
    dirty.update(mixts.Trajectory(states, actions, rewards, problem.lengths))
    assert clean.statistics == dirty.statistics
    np.testing.assert_array_equal(clean.log_evidence, dirty.log_evidence)


# -- what is impossible ----------------------------------------------------------------------------


@given(problems(zeros=True), st.data())
def test_a_history_is_refused_exactly_if_nothing_explains_it(
    problem: Problem, data: st.DataObject
) -> None:
    """Episodes come one by one, for two tasks; a refused one leaves no trace, to the bit."""
    prior, belief = problem.prior, problem.prior.belief(2)
    absorbed: list[list[int]] = [[], []]
    for episode in range(problem.n_episodes):
        task = data.draw(st.integers(0, 1))
        before = belief.log_evidence, belief.statistics.copy()
        if problem.possible([*absorbed[task], episode]).any():
            belief.update(problem.trajectory([episode]), tasks=[task])
            absorbed[task].append(episode)
        else:
            with pytest.raises(errors.TrajectoryError, match=rf"left for task {task}: state \d"):
                belief.update(problem.trajectory([episode]), tasks=[task])
            np.testing.assert_array_equal(belief.log_evidence, before[0])
            assert belief.statistics == before[1]
    for task in range(2):
        possible = problem.possible(absorbed[task])
        np.testing.assert_array_equal(belief.weights[task] > 0, possible)
        assert belief.weights[task].sum() == pytest.approx(1.0)
        rewards, transitions = counted(problem, absorbed[task])
        np.testing.assert_array_equal(belief.statistics[task].rewards, rewards)
        np.testing.assert_array_equal(belief.statistics[task].transitions, transitions)
    assert not np.isnan(belief.log_evidence).any()
    again = prior.condition(belief.statistics)
    np.testing.assert_allclose(again.log_evidence, belief.log_evidence, rtol=1e-12, atol=1e-12)


@given(problems(zeros=True), st.lists(st.integers(0, 1), min_size=6, max_size=6))
def test_a_batch_is_refused_whole(problem: Problem, owners: list[int]) -> None:
    """All episodes at once: taken exactly if each task has a component that explains all of its."""
    tasks = np.array(owners)[: problem.n_episodes]
    explained = [problem.possible(np.flatnonzero(tasks == task)).any() for task in range(2)]
    belief = problem.prior.belief(2)
    rows = [counted(problem, np.flatnonzero(tasks == task)) for task in range(2)]
    counts = TabularStatistics(
        rewards=np.array([row[0] for row in rows]), transitions=np.array([row[1] for row in rows])
    )
    if all(explained):
        belief.update(problem.trajectory(), tasks=tasks)
        assert belief.statistics == counts
        problem.prior.condition(counts)
    else:
        with pytest.raises(errors.TrajectoryError, match="impossible"):
            belief.update(problem.trajectory(), tasks=tasks)
        assert belief.statistics == problem.prior.belief(2).statistics
        assert np.all(belief.log_evidence == 0)
        with pytest.raises(errors.StatisticsError, match=f"task {explained.index(False)} "):
            problem.prior.condition(counts)


@given(problems(zeros=True), st.integers(0, 2**32))
def test_what_is_impossible_is_never_drawn(problem: Problem, seed: int) -> None:
    """Zeros of the prior stay zeros of every drawn MDP, and rows are distributions."""
    belief = problem.prior.belief()
    chosen = [e for e in range(problem.n_episodes) if problem.possible([e])[0]][:1]
    belief.update(problem.trajectory(chosen))
    latent, parameters = belief.sample(np.random.default_rng(seed))
    mdp = problem.prior.family.mdp(parameters)
    assert belief.weights[latent] > 0
    np.testing.assert_array_equal(mdp.transitions == 0, problem.transition[latent] == 0)
    assert np.all(mdp.rewards[problem.reward[latent][..., 0] == 0] == 0)
    assert np.all(mdp.rewards[problem.reward[latent][..., 1] == 0] == 1)
    np.testing.assert_allclose(mdp.transitions.sum(axis=-1), 1.0, rtol=1e-14)
    assert np.all((mdp.parameters >= 0) & (mdp.parameters <= 1))
