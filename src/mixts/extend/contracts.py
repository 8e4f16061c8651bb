"""The contracts of families and agents, as checks that an author runs on a class of their own.

:func:`check_family` and :func:`check_agent` raise ``AssertionError`` if a rule is broken. Each rule
is a function of ``FAMILY_RULES`` or ``AGENT_RULES``; mixts's own tests run the same functions over
every family and every agent of the library.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts.agents import Agent, BeliefAgent, Offer
from mixts.belief import Belief
from mixts.errors import FeedbackError, MixtsError, ObservationError, StatisticsError, TaskError
from mixts.families import ArmFamily, Statistics, Trajectory
from mixts.families.marginals import Marginal
from mixts.planning import MDP
from mixts.prior import MixturePrior

__all__ = [
    "AGENT_RULES",
    "FAMILY_RULES",
    "AgentProblem",
    "FamilyProblem",
    "check_agent",
    "check_family",
]

ROUNDING = 1e-10
"""Relative: dozens of operations on well-scaled numbers lose a few of sixteen digits."""

N_ERRORS = 6.0
"""Standard errors by which an average of draws may differ from its expectation."""

N_DRAWS = 2000
"""Draws for such an average."""

READINGS = (
    "log_evidence", "weights", "component_mean", "component_covariance", "mean", "covariance",
)  # fmt: skip
"""What can be read of a belief."""

History = tuple[Any, ...]
"""The arguments of ``update``: actions and outcomes of some rounds, or a trajectory of episodes."""


def check_family(prior: MixturePrior, *, conjugate: bool = True) -> None:
    """Check the rules of families on a prior; raise ``AssertionError`` where one is broken.

    Parameters
    ----------
    prior
        A prior of the family, with at least two components that differ.
    conjugate
        Whether posteriors are distributions of the family, so that a posterior is a prior.

    Examples
    --------
    >>> import mixts
    >>> from mixts.extend.contracts import check_family
    >>> check_family(mixts.MixturePrior(mixts.PoissonArms([[1, 4], [5, 2]], [[1, 1], [1, 1]])))
    """
    problem = FamilyProblem(prior, conjugate=conjugate)
    for rule in FAMILY_RULES:
        _keep(rule, problem)


def check_agent(
    build: Callable[[int | None, Any], Any],
    prior: MixturePrior,
    *,
    step_by_step: bool = False,
) -> None:
    """Check the rules of agents; raise ``AssertionError`` where one is broken.

    Parameters
    ----------
    build
        Function of ``n_tasks`` and ``seed`` that returns an agent of a subclass of ``Agent``.
    prior
        The prior of the agent, or another one of the same actions.
    step_by_step
        Whether each decision needs its own update, before the next decision of the task.

    Examples
    --------
    >>> import mixts
    >>> from mixts.extend.contracts import check_agent
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> check_agent(lambda n_tasks, seed: mixts.Greedy(prior, n_tasks, seed), prior)
    """
    problem = AgentProblem(FamilyProblem(prior), build, step_by_step=step_by_step)
    for rule in AGENT_RULES:
        _keep(rule, problem)


def _keep(rule: Callable[[Any], None], problem: Any) -> None:
    """Run a rule; raise ``AssertionError`` that names it for any error."""
    try:
        rule(problem)
    except Exception as error:
        found = str(error).strip() if isinstance(error, AssertionError) else repr(error)
        name, meaning = rule.__name__.replace("_", " "), (rule.__doc__ or "").strip()
        raise AssertionError(f'the rule "{name}" is broken: {found}\n({meaning})') from error


# -- problems --------------------------------------------------------------------------------------


class FamilyProblem:
    """A prior, and histories of tasks that are drawn from it.

    Parameters
    ----------
    prior
        A prior of the family.
    conjugate
        Whether posteriors are in the family, and mean rewards linear in the parameters.
    """

    N_ROWS = 5
    """Number of actions on offer, of families with features."""

    def __init__(self, prior: MixturePrior, *, conjugate: bool = True) -> None:
        self.prior, self.conjugate = prior, conjugate

    @property
    def linear(self) -> bool:
        """Whether actions are rows of features."""
        return self.prior.family.n_features is not None

    @property
    def mdp(self) -> bool:
        """Whether decisions are policies."""
        return bool(self.prior.family.plans)

    @property
    def n_steps(self) -> int:
        """Number of observations in a round."""
        return int(self.prior.family.horizon) if self.mdp else 1  # type: ignore[attr-defined]

    @property
    def actions(self) -> Any:
        """Action sets for ``mean_rewards`` and ``act``."""
        size = self.prior.family.n_features
        return None if size is None else np.random.default_rng(8).normal(size=(self.N_ROWS, size))

    @property
    def n_actions(self) -> int:
        """Number of actions on offer; of MDPs, in a state."""
        family: Any = self.prior.family
        if self.linear:
            return self.N_ROWS
        return int(family.reward.shape[2] if self.mdp else family.n_arms)

    def history(self, seed: int, n: int) -> History:
        """Return n rounds of one task drawn from the prior, under random actions."""
        rng = np.random.default_rng(seed)
        family: Any = self.prior.family
        _, theta = self.prior.draw(rng, 1)
        if self.mdp:
            return (random_episodes(rng, family.mdp(theta[0]), n),)
        actions: Any
        if self.linear:
            actions = rng.normal(size=(n, family.n_features))
            means, chosen = family.mean_rewards(theta[0], actions), np.arange(n)
        else:
            actions = chosen = rng.integers(family.n_arms, size=n)
            means = theta[0, actions]
        parameters = family.reward_parameters(np.repeat(theta, n, axis=0), chosen, means)
        return actions, family.outcomes(rng, parameters)

    def belief(self, seed: int, n: int) -> Belief:
        """Return the belief about one task after n rounds."""
        belief = self.prior.belief()
        belief.update(*self.history(seed, n))
        return belief

    def tasks(self, seed: int, n_tasks: int, n: int) -> Belief:
        """Return the belief about several tasks that share n rounds, some perhaps with none."""
        belief: Any = self.prior.belief(n_tasks)
        owners = np.random.default_rng(seed + 1).integers(n_tasks, size=n)
        belief.update(*self.history(seed, n), tasks=owners)
        return belief


def some(history: History, index: Any) -> History:
    """Return those rounds of a history; an integer gives one round without an axis for more."""
    return tuple(
        Trajectory(part.states[index], part.actions[index], part.rewards[index])
        if isinstance(part, Trajectory)
        else part[index]
        for part in history
    )


def random_episodes(rng: np.random.Generator, mdp: MDP, n: int) -> Trajectory:
    """Return n episodes of an MDP under random actions, with the state after the last step."""
    states = np.empty((n, mdp.horizon + 1), int)
    actions = rng.integers(mdp.n_actions, size=(n, mdp.horizon))
    rewards = np.empty(actions.shape)
    for i in range(n):
        states[i, 0] = rng.choice(mdp.n_states, p=mdp.initial)
        for j, action in enumerate(actions[i]):
            x = states[i, j]
            rewards[i, j] = rng.random() < mdp.rewards[x, action]
            states[i, j + 1] = rng.choice(mdp.n_states, p=mdp.transitions[x, action])
    return Trajectory(states, actions, rewards)


class AgentProblem:
    """An agent, and what it decides about: an arm, a row of an action set, or a policy.

    Parameters
    ----------
    family
        The problem of its actions.
    build
        Function of ``n_tasks`` and ``seed`` that returns an agent.
    step_by_step
        Whether each decision needs its own update, before the next decision of the task.
    """

    def __init__(
        self,
        family: FamilyProblem,
        build: Callable[[int | None, Any], Any],
        *,
        step_by_step: bool = False,
    ) -> None:
        self.family, self._build, self.step_by_step = family, build, step_by_step

    def build(self, n_tasks: int | None, seed: Any = 0) -> Any:
        """Return a new agent."""
        return self._build(n_tasks, seed)

    @property
    def decision_shape(self) -> tuple[int, ...]:
        """Shape of the decision of one task."""
        family: Any = self.family.prior.family
        return (family.horizon, family.reward.shape[1]) if self.family.mdp else ()

    def offer(self, rng: np.random.Generator, n_rows: int | None = None) -> Any:
        """Return fresh action sets, one for each decision; None where actions are fixed."""
        if not self.family.linear:
            return None
        shape: Any = (self.family.N_ROWS, self.family.prior.family.n_features)
        return rng.normal(size=shape if n_rows is None else (n_rows, *shape))

    def taken(self, offered: Any, chosen: Any) -> Any:
        """Return the argument of ``update`` for a decision: the arm, or the features of the row."""
        if offered is None:
            return chosen
        if offered.ndim == 2:
            return offered[chosen]
        return offered[np.arange(len(chosen)), chosen]

    def rewards(self, rng: np.random.Generator, chosen: Any) -> Any:
        """Return rewards that most families and every agent accept: 0 and 1."""
        draws = (rng.random(np.shape(chosen)) < 0.6).astype(float)
        return float(draws) if draws.ndim == 0 else draws

    def feedback(self, rng: np.random.Generator, offered: Any, chosen: Any) -> History:
        """Return the arguments of ``update`` after a decision."""
        if self.family.mdp:
            return (self.episode(rng, chosen),)
        return self.taken(offered, chosen), self.rewards(rng, chosen)

    def episode(self, rng: np.random.Generator, policy: Any) -> Trajectory:
        """Follow policies (..., h, X) from state to state at random."""
        horizon, n_states = self.decision_shape
        states = rng.integers(n_states, size=(*policy.shape[:-2], horizon))
        actions = np.take_along_axis(policy, states[..., None], axis=-1)[..., 0]
        return Trajectory(states, actions, self.rewards(rng, actions))

    def play(self, agent: Any, rounds: int, seed: int = 1, **how: Any) -> list[Any]:
        """Return the decisions of some rounds of act and update."""
        rng, decisions = np.random.default_rng(seed), []
        for _ in range(rounds):
            offered = self.offer(rng, agent.n_tasks)
            chosen = agent.act(offered, **how)
            agent.update(*self.feedback(rng, offered, chosen))
            decisions.append(chosen)
        return decisions


def readings(agent: Any) -> list[Any]:
    """Return everything that can be read of what an agent has learned."""
    found = []
    if hasattr(agent, "belief"):
        statistics = agent.belief.statistics.copy()
        found += [agent.belief.log_evidence, agent.belief.component_mean]
        found += [statistics.array(name) for name in statistics.fields]
    if hasattr(agent, "weights"):
        found.append(agent.weights)
    return found


# -- what a rule compares --------------------------------------------------------------------------


def same_numbers(one: Any, other: Any, what: str, rounding: float = 0.0) -> None:
    """Assert that two arrays are equal, to the bit unless a rounding error is allowed."""
    np.testing.assert_allclose(one, other, rtol=rounding, atol=rounding, err_msg=what)


def same_belief(one: Belief, other: Belief, what: str, rounding: float = ROUNDING) -> None:
    """Assert that two beliefs say the same."""
    for name in READINGS:
        same_numbers(getattr(one, name), getattr(other, name), f"{what}: {name}", rounding)


def same_statistics(one: Any, other: Any, what: str) -> None:
    """Assert that two statistics are equal up to rounding."""
    assert one.shape == other.shape, what
    for name in one.fields:
        same_numbers(one.array(name), other.array(name), f"{what}: {name}", ROUNDING)


def unchanged(
    agent: Any, before: list[Any], what: str = "readings changed", rounding: float = 0.0
) -> None:
    """Assert that an agent has learned nothing since the readings."""
    for one, other in zip(readings(agent), before, strict=True):
        same_numbers(one, other, what, rounding)


def refused(call: Callable[[], Any], errors: tuple[type[MixtsError], ...], what: str) -> None:
    """Assert that a call raises one of these errors."""
    names = " or ".join(error.__name__ for error in errors)
    try:
        call()
    except errors:
        return
    except Exception as error:
        raise AssertionError(f"{what}: expected {names}, got {error!r}") from error
    raise AssertionError(f"{what}: expected {names}, nothing was raised")


def answer(owner: Any, method: str, shape: tuple[int, ...], *arguments: Any) -> Any:
    """Return the array, or arrays, that a method returns; assert that each has this shape."""
    found = getattr(owner, method)(*arguments)
    for part in found if isinstance(found, tuple) else (found,):
        what = f"{type(owner).__name__}.{method} returned shape {np.shape(part)}, expected {shape}"
        assert np.shape(part) == shape, what
    return found


def _with_expectation(draws: Any, expectation: Any, what: str) -> None:
    """Assert that the average of draws (n, ...) is near its expectation, by standard errors."""
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    gap = np.abs(np.mean(draws, axis=0) - expectation)
    most = float(np.max(gap - N_ERRORS * error))
    assert most <= ROUNDING, f"{what}: {most:.3g} beyond {N_ERRORS:g} standard errors"


# -- rules of families -----------------------------------------------------------------------------


def arm_distributions(problem: FamilyProblem) -> list[Any]:
    """Return the distributions of all arms' means, before and after a history; else nothing."""
    family = problem.prior.family
    if not isinstance(family, ArmFamily):
        return []
    latent = np.arange(family.n_components)
    histories = (family.empty_statistics(1), problem.tasks(5, 1, 8).statistics)
    return [family.marginals(h, np.zeros_like(latent), latent) for h in histories]


def arrays_have_the_expected_shapes(problem: FamilyProblem) -> None:
    """Distributions of arms' means return arrays (components, arms), ``outcomes`` (rewards,)."""
    family: Any = problem.prior.family
    if not isinstance(family, ArmFamily):
        return
    shape, rng = (family.n_components, family.n_arms), np.random.default_rng(0)
    one = family.prior_marginal(np.arange(family.n_components))
    mean, variance = answer(one, "mean", shape), answer(one, "variance", shape)
    middle = answer(one, "quantile", shape, np.full(shape, 0.5))
    answer(one, "cdf", shape, middle)
    answer(one, "sample", shape, rng)
    answer(one, "reward_entropy", shape, mean, variance)
    if isinstance(one, Marginal):
        answer(one, "draw_averages", shape, rng, mean, np.ones(shape, int))
        after, evidence = one.observe(mean, np.ones(shape, int))
        answer(after, "mean", shape)
        what = f"{type(one).__name__}.observe returned log evidence of shape"
        assert np.shape(evidence) == shape, f"{what} {np.shape(evidence)}, expected {shape}"
    _, theta = problem.prior.draw(rng, 7)
    laws = family.reward_parameters(theta, np.zeros(7, int), theta[:, 0])
    answer(family, "outcomes", (7,), rng, laws)


def distributions_of_means_agree(problem: FamilyProblem) -> None:
    """Moments, quantiles, distribution functions and draws of an arm's mean fit each other."""
    # A moment is an integral over quantiles; in normal coordinates even heavy tails are smooth, and
    # sums of equal steps are exact to exp(-2 pi^2 / step^2).
    z = np.linspace(-7.0, 7.0, 57)
    levels, density = scipy.special.ndtr(z), np.exp(-0.5 * z * z)
    density /= density.sum()
    for one in arm_distributions(problem):
        name, mean, variance = type(one).__name__, one.mean(), one.variance()
        certain, scale = variance == 0, np.where(variance == 0, 1.0, variance)
        quantiles = np.stack([one.quantile(np.full(mean.shape, p)) for p in levels])
        gaps = (quantiles - mean) / np.sqrt(scale)
        average, square = (np.einsum("z,zlk->lk", density, gaps**power) for power in (1, 2))
        # The tails beyond the last quantiles, with room for a variance that is almost infinite.
        rest = 20 * levels[0] * (gaps[0] ** 2 + gaps[-1] ** 2)
        text = "differs from the integral of quantile"
        assert np.all(np.abs(average) <= 1e-4 + rest), f"{name}: mean {text}"
        assert np.all(np.abs(square - ~certain) <= 1e-4 + rest), f"{name}: variance {text}"
        for p, x in zip(levels[16:41:2], quantiles[16:41:2], strict=True):
            what = f"{name}: cdf(quantile({p:.3f}))"
            same_numbers(np.where(certain, p, one.cdf(x)), np.full(x.shape, p), what, 1e-6)
        rng = np.random.default_rng(12)
        draws = np.stack([one.sample(rng) for _ in range(N_DRAWS)])
        for p, x in zip(levels[[24, 28, 32]], quantiles[[24, 28, 32]], strict=True):
            below = np.where(certain, p, draws <= x)
            _with_expectation(below, p, f"{name}: draws below quantile({p:.3f})")
        entropy = one.reward_entropy(mean, variance)
        assert np.isfinite(entropy).all(), f"{name}.reward_entropy returned {entropy}"


def one_component_keeps_the_moments(problem: FamilyProblem) -> None:
    """``collapse`` keeps the means and variances of the mixture's mean rewards."""
    family: Any = problem.prior.family
    n = family.n_features or (np.prod(family.reward.shape[1:3]) if problem.mdp else family.n_arms)
    mixture, one = problem.prior.belief(), problem.prior.collapse().belief()
    found, expected = (np.diag(belief.covariance)[:n] for belief in (one, mixture))
    scale = np.where(expected == 0, 1.0, expected)
    gap = (one.mean[:n] - mixture.mean[:n]) / np.sqrt(scale)
    same_numbers(gap, np.zeros(n), "means of the collapsed prior, in standard deviations", 1e-6)
    gap = (found - expected) / scale
    same_numbers(gap, np.zeros(n), "variances of the collapsed prior, relative", 1e-6)


def batches_do_not_matter(problem: FamilyProblem) -> None:
    """One by one, in one batch, in another order, and from the statistics: the same belief."""
    size = len(problem.prior.belief().mean)
    for n in (0, 1, size - 1, size, 2 * size + 1, 60):
        history = problem.history(1, n)
        order = np.random.default_rng(n).permutation(n)
        stepwise, batch, shuffled = (problem.prior.belief() for _ in range(3))
        for i in range(n):
            stepwise.update(*some(history, i))
        batch.update(*history)
        shuffled.update(*some(history, order))
        same_belief(stepwise, batch, f"{n} rounds in one batch")
        same_belief(stepwise, shuffled, f"{n} rounds in another order")
        for belief in (stepwise, batch):
            again = problem.prior.condition(belief.statistics)
            same_belief(stepwise, again, f"from the statistics of {n} rounds")


def no_history_is_the_prior(problem: FamilyProblem) -> None:
    """Without history the evidence is 0 and the weights are the prior's."""
    belief = problem.prior.belief()
    same_numbers(belief.log_evidence, np.zeros(problem.prior.n_components), "log evidence")
    same_numbers(belief.weights, problem.prior.weights, "weights", 1e-15)


def evidence_is_a_sum_of_predictions(problem: FamilyProblem) -> None:
    """Log evidences of single rounds, each under the posterior so far as a prior, add up."""
    if not problem.conjugate:
        return
    n = 12
    history, whole = problem.history(3, n), problem.belief(3, n)
    prior, total = problem.prior, np.zeros(problem.prior.n_components)
    for i in range(n):
        belief = prior.belief()
        belief.update(*some(history, i))
        total, prior = total + belief.log_evidence, belief.as_prior()
    same_numbers(total, whole.log_evidence, "sum of log predictive densities", 1e-8)
    last = prior.belief()
    for name in ("weights", "mean", "covariance"):
        same_numbers(
            getattr(last, name), getattr(whole, name), f"posterior as a prior: {name}", 1e-8
        )


def beliefs_are_right_on_average(problem: FamilyProblem) -> None:
    """Over tasks of the prior, posterior weights and means have the prior's as expectation."""
    prior, n_tasks, n = problem.prior, 300, 4
    belief: Any = prior.belief(n_tasks)
    rng = np.random.default_rng(21)
    for task in range(n_tasks):
        belief.update(*problem.history(int(rng.integers(2**40)), n), tasks=np.full(n, task))
    _with_expectation(belief.weights, prior.weights, "weights over tasks of the prior")
    _with_expectation(belief.mean, prior.belief().mean, "means over tasks of the prior")
    moved = np.abs(belief.weights - prior.weights).max()
    assert moved > 0.05, "histories do not move the weights"


def draws_have_the_moments(problem: FamilyProblem) -> None:
    """Parameters drawn given a component have the means and covariances that the belief states."""
    for belief in (
        problem.prior.belief(1),
        problem.prior.condition(problem.tasks(5, 1, 8).statistics),
    ):
        for s in range(problem.prior.n_components):
            rng, tasks = np.random.default_rng(s), np.zeros(N_DRAWS, int)
            draws = belief.sample_parameters(rng, np.full(N_DRAWS, s), tasks=tasks)
            mean, covariance = belief.component_mean[0, s], belief.component_covariance[0, s]
            _with_expectation(draws, mean, f"draws of component {s}")
            squares = (draws - mean) ** 2
            _with_expectation(squares, np.diag(covariance), f"squares of component {s}")


def statistics_are_a_monoid(problem: FamilyProblem) -> None:
    """Statistics merge in any order, and those of nothing change nothing."""
    a, b, c = (problem.tasks(seed, 3, 12).statistics for seed in (11, 12, 13))
    empty = problem.prior.belief(3).statistics
    assert a + empty == a == empty + a, "statistics of nothing change others"
    same_statistics((a + b) + c, a + (b + c), "(a + b) + c")
    same_statistics(a + b, b + a, "a + b")
    assert (a + b).n_observations.sum() == 24 * problem.n_steps, "observations of a + b"
    assert a + b != a, "statistics that differ are equal"
    other = problem.prior.belief(2).statistics
    refused(lambda: other + a, (StatisticsError,), "statistics of other numbers of tasks")


def merging_is_conditioning_on_both(problem: FamilyProblem) -> None:
    """The belief of merged statistics is that of both histories, one after the other."""
    history, whole = problem.history(11, 20), problem.belief(11, 20)
    first, second = problem.prior.belief(), problem.prior.belief()
    first.update(*some(history, slice(7)))
    second.update(*some(history, slice(7, None)))
    merged = first.statistics + second.statistics
    same_statistics(merged, whole.statistics, "merged statistics")
    same_belief(problem.prior.condition(merged), whole, "belief of merged statistics")


def concatenation_and_indexing_undo_each_other(problem: FamilyProblem) -> None:
    """Tasks are put together and taken out again unchanged."""
    a, b = (problem.tasks(seed, 3, 12).statistics for seed in (11, 12))
    both = a.concatenate(b)
    assert len(both) == 6, "number of tasks"
    assert both[:3] == a, "tasks by a slice"
    assert both[np.arange(3, 6)] == b, "tasks by indices"
    assert both[np.arange(6) < 3] == a, "tasks by a mask"
    assert both[[5, 0, 5]] == b[[2]].concatenate(a[[0]], b[[2]]), "tasks by repeated indices"
    one, same = problem.prior.condition(both[4]), problem.prior.condition(b[1])
    same_belief(one, same, "belief of one task")
    assert one.weights.shape == (problem.prior.n_components,), "a task by a number has no task axis"
    refused(lambda: both[6], (TaskError,), "a task that does not exist")


def statistics_are_a_snapshot(problem: FamilyProblem) -> None:
    """Statistics that were read never change, and beliefs made from them do not write to them."""
    belief = problem.tasks(4, 2, 10)
    taken = belief.statistics
    before, evidence = taken.copy(), belief.log_evidence
    belief.update(*problem.history(5, 2))
    assert belief.statistics != before, "an update does not reach the statistics"
    problem.prior.condition(taken).update(*problem.history(6, 2))
    assert taken == before, "statistics changed after they were read"
    again = problem.prior.condition(taken).log_evidence
    same_numbers(again, evidence, "evidence of the snapshot", ROUNDING)


def new_tasks_leave_the_old_ones_alone(problem: FamilyProblem) -> None:
    """New tasks begin with the prior and learn what a task alone would learn."""
    belief: Any = problem.tasks(4, 2, 14)
    before, snapshot = belief.log_evidence, belief.statistics
    assert belief.add_tasks(3).tolist() == [2, 3, 4], "indices of new tasks"
    assert (belief.n_tasks, len(belief.statistics), len(snapshot)) == (5, 5, 2), "numbers of tasks"
    same_numbers(belief.weights[2:], np.tile(problem.prior.weights, (3, 1)), "new weights", 1e-15)
    history = problem.history(5, 8)
    belief.update(*history, tasks=np.full(8, 3))
    alone = problem.prior.belief()
    alone.update(*history)
    same_numbers(belief.log_evidence[3], alone.log_evidence, "evidence of a new task", ROUNDING)
    same_numbers(belief.log_evidence[:2], before, "evidence of the old tasks")
    same_belief(belief, problem.prior.condition(belief.statistics), "from the statistics")


def a_refused_update_changes_no_belief(problem: FamilyProblem) -> None:
    """An update with a bad reward, of an unknown arm or task, changes nothing, to the bit."""
    belief: Any = problem.tasks(1, 2, 6)
    history = problem.history(2, 4)
    statistics, before = belief.statistics, [getattr(belief, name) for name in READINGS]
    *head, last = history
    if isinstance(last, Trajectory):
        rewards = last.rewards.copy()
        rewards[-1, -1] = np.nan
        bad: Any = Trajectory(last.states, last.actions, rewards)
    else:
        bad = np.append(last[:-1], np.nan)
    errors = (ObservationError, TaskError)
    refused(lambda: belief.update(*head, bad, tasks=[0, 1, 0, 1]), errors, "a reward of NaN")
    refused(lambda: belief.update(*history, tasks=[0, 1, 0, 2]), errors, "an unknown task")
    if isinstance(problem.prior.family, ArmFamily):
        # A long batch is counted before its evidence is computed, a short one while it is.
        for n in (1, 4, 20 * problem.n_actions):
            for arm in (-1, problem.n_actions):
                arms, rewards = problem.history(2, n)
                arms = np.append(arms[:-1], arm)
                update = arms, rewards, np.arange(n) % 2
                refused(lambda u=update: belief.update(*u), errors, f"arm {arm} of {n}")  # type: ignore[misc]
    assert belief.statistics == statistics, "a refused update changed the statistics"
    for name, value in zip(READINGS, before, strict=True):
        same_numbers(getattr(belief, name), value, f"after refused updates: {name}")


def files_keep_everything(problem: FamilyProblem) -> None:
    """A prior and statistics come back from files of both encodings, and from pickles."""
    prior = problem.prior
    tasks, one = problem.tasks(11, 3, 12).statistics, problem.belief(11, 5).statistics
    with tempfile.TemporaryDirectory() as folder:
        for name in ("saved.json", "saved.npz", "saved"):
            path = Path(folder, name)
            prior.save(path)
            again = MixturePrior.load(path)
            assert repr(again) == repr(prior), f"the prior of {name} is another"
            same_numbers(again.weights, prior.weights, f"weights of {name}")
            for statistics in (tasks, one):
                statistics.save(path)
                read = Statistics.load(path)
                assert type(read) is type(statistics), f"the type of statistics of {name}"
                assert read == statistics, f"statistics of {name}"
                found, expected = (
                    p.condition(s).log_evidence for p, s in ((again, read), (prior, statistics))
                )
                same_numbers(found, expected, f"evidence of {name}")
    belief: Any = problem.tasks(4, 2, 10)
    copied = pickle.loads(pickle.dumps(belief))
    for each in (belief, copied):
        each.update(*problem.history(4, 6), tasks=[0, 1, 1, 0, 1, 1])
    same_belief(copied, belief, "a pickled belief", rounding=0.0)


def components_are_taken_in_any_order(problem: FamilyProblem) -> None:
    """``select`` and ``append`` keep the evidence of each component."""
    prior, statistics = problem.prior, problem.belief(11, 9).statistics
    order = [prior.n_components - 1, 0]
    part, whole = prior.select(order).condition(statistics), prior.condition(statistics)
    same_numbers(part.log_evidence, whole.log_evidence[order], "selected evidence", ROUNDING)
    same_numbers(part.component_mean, whole.component_mean[order], "selected means", ROUNDING)
    family = prior.family
    joined = family.append(family.select([order[0]]))
    expected = family.log_evidence(statistics)[:, [*range(prior.n_components), order[0]]]
    same_numbers(joined.log_evidence(statistics), expected, "appended evidence", ROUNDING)


def parameters_cannot_be_written_to(problem: FamilyProblem) -> None:
    """The arrays of a prior are read-only."""
    for name, array in {"weights": problem.prior.weights, **problem.prior.family.arrays()}.items():
        assert not array.flags.writeable, f"{name} can be written to"


FAMILY_RULES: tuple[Callable[[FamilyProblem], None], ...] = (
    arrays_have_the_expected_shapes,
    batches_do_not_matter,
    no_history_is_the_prior,
    evidence_is_a_sum_of_predictions,
    beliefs_are_right_on_average,
    draws_have_the_moments,
    distributions_of_means_agree,
    one_component_keeps_the_moments,
    statistics_are_a_monoid,
    merging_is_conditioning_on_both,
    concatenation_and_indexing_undo_each_other,
    statistics_are_a_snapshot,
    new_tasks_leave_the_old_ones_alone,
    a_refused_update_changes_no_belief,
    files_keep_everything,
    components_are_taken_in_any_order,
    parameters_cannot_be_written_to,
)
"""Rules that every family keeps."""


# -- rules of agents -------------------------------------------------------------------------------

NUMBERS_OF_TASKS = (None, 1, 3)


def probabilities_have_the_shape_of_the_offer(problem: AgentProblem) -> None:
    """``probabilities`` returns two arrays (decisions, actions)."""
    agent, n = problem.build(7), 7
    assert isinstance(agent, Agent), f"{type(agent).__name__} does not derive from Agent"
    if problem.family.mdp or not isinstance(agent, BeliefAgent):
        return
    offer = Offer.of(agent.prior, np.arange(n), problem.offer(np.random.default_rng(0), n))
    shape = (n, problem.family.n_actions)
    answer(agent, "probabilities", shape, agent.rewards(offer), offer)


def every_task_gets_a_decision(problem: AgentProblem) -> None:
    """Decisions have the shapes and the range of tasks and actions, and updates return None."""
    for n_tasks in NUMBERS_OF_TASKS:
        agent = problem.build(n_tasks)
        assert agent.n_tasks == n_tasks, "n_tasks"
        for chosen in problem.play(agent, 3):
            if n_tasks is None and not problem.decision_shape:
                assert type(chosen) is int, f"the decision of one task is {type(chosen)}, not int"
            else:
                leading = () if n_tasks is None else (n_tasks,)
                assert chosen.shape == leading + problem.decision_shape, "shape of decisions"
                assert chosen.dtype.kind == "i", "type of decisions"
            within = (np.asarray(chosen) >= 0) & (np.asarray(chosen) < problem.family.n_actions)
            assert np.all(within), "an action that does not exist"
    agent, rng = problem.build(None), np.random.default_rng(0)
    offered = problem.offer(rng)
    answer = agent.update(*problem.feedback(rng, offered, agent.act(offered)))
    assert answer is None, "update returns something"


def only_feedback_teaches(problem: AgentProblem) -> None:
    """Decisions change no belief; feedback does."""
    for n_tasks in NUMBERS_OF_TASKS:
        agent, rng = problem.build(n_tasks), np.random.default_rng(0)
        blank = readings(agent)
        problem.play(agent, 5)
        before = readings(agent)
        learned = any(not np.array_equal(a, b) for a, b in zip(before, blank, strict=True))
        assert learned, "feedback teaches nothing"
        for _ in range(3):
            agent.act(problem.offer(rng, n_tasks))
        unchanged(agent, before, "a decision changed what the agent has learned")


def the_same_seed_makes_the_same_decisions(problem: AgentProblem) -> None:
    """Equal seeds give equal decisions; a generator is used as it is."""
    for n_tasks in NUMBERS_OF_TASKS:
        one, other = (problem.play(problem.build(n_tasks, 5), 15) for _ in range(2))
        same_numbers(one, other, "decisions of one seed")
    sources = [np.random.default_rng(5), np.random.SeedSequence(5), 5, np.int64(5)]
    runs = [problem.play(problem.build(None, source), 10) for source in sources]
    same_numbers(runs[0], runs[1], "a generator and its seed sequence")
    same_numbers(runs[2], runs[3], "an integer and numpy's")


def feedback_of_some_tasks_leaves_the_others_alone(problem: AgentProblem) -> None:
    """Tasks learn from their own outcomes only."""
    agent, rng = problem.build(4), np.random.default_rng(3)
    problem.play(agent, 3)
    before, tasks = readings(agent), np.array([3, 1])
    for _ in range(5):
        offered = problem.offer(rng, 2)
        chosen = agent.act(offered, tasks=tasks)
        agent.update(*problem.feedback(rng, offered, chosen), tasks=tasks)
    pairs = list(zip(readings(agent), before, strict=True))
    for new, old in pairs:
        same_numbers(new[[0, 2]], old[[0, 2]], "tasks without feedback")
    assert any((new[tasks] != old[tasks]).any() for new, old in pairs), "feedback teaches nothing"


def outcomes_come_in_any_batches(problem: AgentProblem) -> None:
    """Two outcomes of a task count as two, except where each decision needs its own update."""
    agent, rng = problem.build(3), np.random.default_rng(3)
    problem.play(agent, 2)
    tasks, before = np.array([1, 1]), readings(agent)
    offered = problem.offer(rng, 2)
    chosen = agent.act(offered, tasks=tasks)
    update = problem.feedback(rng, offered, chosen)
    if problem.step_by_step:
        refused(lambda: agent.update(*update, tasks=tasks), (FeedbackError,), "a task twice")
        unchanged(agent, before, "a task twice")
    else:
        agent.update(*update, tasks=tasks)
        expected = np.array([2, 4, 2]) * problem.family.n_steps
        same_numbers(agent.belief.statistics.n_observations, expected, "numbers of observations")


def spoiled_rounds(taken: Any, good: Any) -> list[History]:
    """Return actions and outcomes of three tasks with something wrong, at the end or in shape."""
    return [
        (taken, [1.0, 0.0, np.nan]),
        (taken, [1.0, 0.0, np.inf]),
        (taken, [1.0, 0.0, "one"]),
        (taken, [1.0, [0.0, 1.0], 1.0]),
        (taken, good[:2]),
        (taken[:2], good),
        ("abc", good),
        ([[0], [1, 1], [2]], good),
        (None, good),
        (taken,),
    ]


def spoiled_episodes(good: Trajectory, n_states: int) -> list[History]:
    """Return the same of trajectories."""

    def last(array: Any, value: float) -> Any:
        changed = array.copy()
        changed[-1, -1] = value
        return changed

    x, a, r = good.states, good.actions, good.rewards
    return [
        (Trajectory(x, a, last(r, np.nan)),),
        (Trajectory(x, a, last(r, 0.5)),),
        (Trajectory(last(x, n_states), a, r),),
        (Trajectory(x, last(a, -1), r),),
        (Trajectory(x[:2], a[:2], r[:2]),),
        (Trajectory(x[:, 1:], a[:, 1:], r[:, 1:]),),
        (a, r),
        (good, r, [0, 1, 2]),
        ("abc",),
        (None,),
    ]


def a_refused_update_changes_nothing(problem: AgentProblem) -> None:
    """An agent that saw only the good calls has the same belief and makes the same decisions."""
    agent, twin = problem.build(3), problem.build(3)
    rng = np.random.default_rng(4)
    for who in (agent, twin):
        problem.play(who, 3)
    offered = problem.offer(rng, 3)
    chosen = agent.act(offered)
    same_numbers(twin.act(offered), chosen, "decisions of twins")
    good, before = problem.feedback(rng, offered, chosen), readings(agent)
    if problem.family.mdp:
        spoiled = spoiled_episodes(good[0], problem.decision_shape[1])
    else:
        spoiled = spoiled_rounds(*good)
    for i, update in enumerate(spoiled):
        refused(lambda u=update: agent.update(*u), (ObservationError,), f"spoiled update {i}")  # type: ignore[misc]
        unchanged(agent, before, f"spoiled update {i}")
    for tasks in ([0, 1], [0, 1, 3], [[0, 1, 2]]):
        errors = (ObservationError, TaskError)
        refused(lambda t=tasks: agent.update(*good, tasks=t), errors, f"tasks {tasks}")  # type: ignore[misc]
        unchanged(agent, before, f"tasks {tasks}")
    for who in (agent, twin):
        who.update(*good)
    # Only the agent was read in between, which may settle how a belief is rounded.
    unchanged(agent, readings(twin), "after refused updates", ROUNDING)
    same_numbers(agent.act(offered), twin.act(offered), "decisions after refused updates")


def a_loaded_agent_continues(problem: AgentProblem) -> None:
    """With the same decisions, in the middle of a round too: a decision waits for its outcome."""
    with tempfile.TemporaryDirectory() as folder:
        for n_tasks in NUMBERS_OF_TASKS:
            for suffix in ("json", "agent"):
                _continue_from(problem, n_tasks, Path(folder, f"saved.{suffix}"))


def _continue_from(problem: AgentProblem, n_tasks: int | None, path: Path) -> None:
    agent, rng = problem.build(n_tasks, seed=3), np.random.default_rng(5)
    problem.play(agent, 6)
    offered = problem.offer(rng, n_tasks)
    chosen = agent.act(offered)
    agent.save(path)
    again = Agent.load(path)
    assert type(again) is type(agent), "the loaded agent is of another class"
    assert again.n_tasks == n_tasks, "the loaded agent has other tasks"
    assert repr(again) == repr(agent), "the loaded agent has other settings"
    feedback = problem.feedback(rng, offered, chosen)
    for who in (agent, again):
        who.update(*feedback)
    same_numbers(problem.play(again, 10), problem.play(agent, 10), "decisions after loading")
    for one, other in zip(readings(again), readings(agent), strict=True):
        same_numbers(one, other, "readings after loading", ROUNDING)


def a_copy_continues(problem: AgentProblem) -> None:
    """Copies and pickles make the same decisions, and saving changes nothing."""
    for n_tasks in NUMBERS_OF_TASKS:
        for pickled in (False, True):
            agent = problem.build(n_tasks, seed=3)
            problem.play(agent, 3)
            again = pickle.loads(pickle.dumps(agent)) if pickled else copy.deepcopy(agent)
            same_numbers(problem.play(again, 10), problem.play(agent, 10), "decisions of a copy")
            unchanged(again, readings(agent), "readings of a copy")
    agent, twin = problem.build(3, seed=3), problem.build(3, seed=3)
    for who in (agent, twin):
        problem.play(who, 4)
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder, "saved"))
    same_numbers(problem.play(agent, 5), problem.play(twin, 5), "decisions after saving")
    unchanged(agent, readings(twin), "readings after saving")


def decisions_follow_the_probabilities(problem: AgentProblem) -> None:
    """Over many decisions, actions come as often as ``action_probabilities`` says."""
    if problem.family.mdp:
        return
    agent, rng, n, n_calls = problem.build(1, seed=7), np.random.default_rng(6), 50, 40
    problem.play(agent, 4)
    offered, tasks = problem.offer(rng), np.zeros(n, int)
    # Probabilities may be estimates, other ones for each decision: both sides average as many.
    probabilities = np.stack(
        [agent.action_probabilities(offered, tasks)[0].mean(axis=0) for _ in range(n_calls)]
    )
    shares = np.stack(
        [
            np.bincount(agent.act(offered, tasks=tasks), minlength=probabilities.shape[1])
            for _ in probabilities
        ]
    )
    same_numbers(probabilities.sum(axis=1), np.ones(n_calls), "sum of probabilities", 1e-6)
    gap, average = shares / n - probabilities, probabilities.mean(axis=0)
    least = average * (1 - average) / (n * n_calls) + 1e-12
    spread = np.sqrt(np.maximum(gap.var(axis=0) / n_calls, least))
    worst = float(np.max(np.abs(gap.mean(axis=0)) / spread))
    assert worst < N_ERRORS, f"shares of actions differ by {worst:.1f} standard errors"


def masked_actions_are_never_taken(problem: AgentProblem) -> None:
    """Actions outside the mask, and retired arms, have probability 0 and are not taken."""
    if problem.family.mdp:
        return
    n, n_actions = 40, problem.family.n_actions
    agent, rng = problem.build(n), np.random.default_rng(3)
    for _ in range(5):
        offered, mask = problem.offer(rng, n), rng.random((n, n_actions)) < 0.5
        mask[np.arange(n), rng.integers(n_actions, size=n)] = True
        _within(agent, offered, mask, mask)
        chosen, _, _ = agent.act_with_probabilities(offered, mask=mask)
        agent.update(*problem.feedback(rng, offered, chosen))
    if not problem.family.linear and hasattr(agent, "retire_arms"):
        agent.retire_arms([0])
        _within(agent, None, None, np.tile(np.arange(n_actions) > 0, (n, 1)))


def _within(agent: Any, offered: Any, mask: Any, available: Any) -> None:
    """Assert that all decisions, and all probabilities, are of the available actions."""
    rows = np.arange(len(available))
    law, errors = agent.action_probabilities(offered, mask=mask)
    decided, logged, _ = agent.act_with_probabilities(offered, mask=mask)
    for name, chosen in (
        ("act", agent.act(offered, mask=mask)),
        ("act_with_probabilities", decided),
    ):
        assert available[rows, chosen].all(), f"{name} takes actions that are not available"
    for name, array in (
        ("action_probabilities", law),
        ("standard errors of action_probabilities", errors),
        ("probabilities of act_with_probabilities", logged),
    ):
        assert np.all(array[~available] == 0), f"{name}: not 0 for actions that are not available"
    same_numbers(law.sum(axis=1), np.ones(len(law)), "sum of probabilities under a mask", 1e-12)


AGENT_RULES: tuple[Callable[[AgentProblem], None], ...] = (
    probabilities_have_the_shape_of_the_offer,
    every_task_gets_a_decision,
    only_feedback_teaches,
    the_same_seed_makes_the_same_decisions,
    feedback_of_some_tasks_leaves_the_others_alone,
    outcomes_come_in_any_batches,
    a_refused_update_changes_nothing,
    a_loaded_agent_continues,
    a_copy_continues,
    decisions_follow_the_probabilities,
    masked_actions_are_never_taken,
)
"""Rules that every agent keeps."""
