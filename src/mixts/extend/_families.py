"""The contract of families: problems, rules, and the check that runs them."""

from __future__ import annotations

import functools
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # loads a submodule when it is first used

from mixts.belief import Belief
from mixts.errors import ObservationError, StatisticsError, TaskError
from mixts.extend._comparisons import (
    N_ERRORS,
    ROUNDING,
    answer,
    keep,
    refused,
    same_numbers,
)
from mixts.families import ArmFamily, Statistics, Trajectory
from mixts.families.choice import best_rows
from mixts.families.marginals import LOG_2PI_E, Marginal
from mixts.families.rewards import IndependentRewards
from mixts.planning import MDP
from mixts.prior import MixturePrior

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
    keep(FAMILY_RULES, FamilyProblem(prior, conjugate=conjugate))


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

    @functools.cached_property
    def rounding(self) -> float:
        """Relative rounding error of numbers that are computed from rewards.

        A reward that is x of its standard deviations long has lost log2(x) bits beside them: it is
        given to 2^-53 x deviations, and dozens of such rewards make a number.
        """
        family: Any = self.prior.family
        longest, rng = 0.0, np.random.default_rng(9)
        for s in range(0 if self.mdp else self.prior.n_components):
            for action in self.actions if self.linear else np.arange(family.n_arms):
                theta = family.draw(rng, np.full(100, s))
                rewards = self.outcomes(rng, theta, np.full((100, *np.shape(action)), action))
                if (spread := float(np.std(rewards))) > 0:
                    longest = max(longest, float(np.abs(rewards).max()) / spread)
        return ROUNDING + 100 * 2.0**-53 * longest

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
        else:
            actions = rng.integers(family.n_arms, size=n)
        return actions, self.outcomes(rng, np.repeat(theta, n, axis=0), actions)

    def outcomes(self, rng: np.random.Generator, theta: Any, actions: Any) -> Any:
        """Draw the reward of each action (n,) or (n, d) given the parameters of its task (n, p)."""
        family: Any = self.prior.family
        if self.linear:
            chosen = np.arange(len(theta))
            means = family.mean_rewards(theta, actions[:, None])[:, 0]
        else:
            chosen, means = actions, theta[np.arange(len(theta)), actions]
        return family.outcomes(rng, family.reward_parameters(theta, chosen, means))

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


# -- comparisons -----------------------------------------------------------------------------------


def same_belief(one: Belief, other: Belief, what: str, rounding: float = ROUNDING) -> None:
    """Assert that two beliefs say the same."""
    for name in READINGS:
        same_numbers(getattr(one, name), getattr(other, name), f"{what}: {name}", rounding)


def same_statistics(one: Any, other: Any, what: str, rounding: float) -> None:
    """Assert that two statistics are equal up to rounding."""
    assert one.shape == other.shape, what
    for name in one.fields:
        same_numbers(one.array(name), other.array(name), f"{what}: {name}", rounding)


def _with_expectation(draws: Any, expectation: Any, what: str) -> None:
    """Assert that the average of draws (n, ...) is near its expectation, by standard errors."""
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    gap = np.abs(np.mean(draws, axis=0) - expectation)
    most = float(np.max(gap - N_ERRORS * error))
    assert most <= ROUNDING, f"{what}: {most:.3g} beyond {N_ERRORS:g} standard errors"


def _a_share(found: Any, expectation: Any, n: int, what: str) -> None:
    """Assert that a share of n draws is near its probability, by Bernstein's inequality."""
    spread = np.sqrt(np.clip(expectation * (1 - expectation), 0, None) / n)
    gap = np.abs(found - expectation) - N_ERRORS * spread - N_ERRORS**2 / (3 * n)
    most = float(np.max(gap))
    assert most <= ROUNDING, f"{what}: {most:.3g} beyond {N_ERRORS:g} standard errors"


# -- rules -----------------------------------------------------------------------------------------


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
    for one in arm_distributions(problem):
        name, mean, variance = type(one).__name__, one.mean(), one.variance()
        for step in STEPS:
            levels, quantiles = _quantiles(one, step)
            gaps = _moment_gaps(one, levels, quantiles)
            if all((gap <= 1e-4).all() for gap in gaps.values()):
                break
        for moment, gap in gaps.items():
            text = f"{name}: {moment} differs from the integral of quantile"
            assert (gap <= 1e-4).all(), text
        rng = np.random.default_rng(12)
        draws = np.stack([one.sample(rng) for _ in range(N_DRAWS)])
        levels, quantiles = (x[8:21] for x in _quantiles(one, STEPS[0]))
        for i, (p, x) in enumerate(zip(levels, quantiles, strict=True)):
            # A quantile is rounded, and many draws may be rounded to the same number.
            room = 4 * np.finfo(float).eps * np.abs(x) + np.finfo(float).tiny
            ends = [np.clip(x + side * room, one.lowest, one.highest) for side in (-1, 1)]
            found = np.clip(p, *(one.cdf(end) for end in ends))
            same_numbers(found, np.full(x.shape, p), f"{name}: cdf(quantile({p:.3f}))", 1e-6)
            if i in (4, 6, 8):
                shares = (draws < ends[0]).mean(axis=0), (draws <= ends[1]).mean(axis=0)
                gap = np.max(np.abs(np.clip(p, *shares) - p)) / np.sqrt(p * (1 - p) / N_DRAWS)
                text = f"{name}: draws below quantile({p:.3f}): {gap:.3g} standard errors off"
                assert gap <= N_ERRORS, text
        entropy = one.reward_entropy(mean, variance)
        assert np.isfinite(entropy).all(), f"{name}.reward_entropy returned {entropy}"


STEPS = 0.5, 0.1, 0.02
"""Steps between quantiles in normal coordinates. Smooth distributions, even with heavy tails, need
the first; those with almost all mass at two ends, such as Beta(0.01, 0.01), the last."""


def _quantiles(one: Any, step: float) -> tuple[Any, Any]:
    """Return probabilities at equal steps of normal coordinates, and the quantiles there."""
    n = round(7.0 / step)
    levels = scipy.special.ndtr(step * np.arange(-n, n + 1))
    return levels, np.stack([one.quantile(np.full(one.mean().shape, p)) for p in levels])


def _moment_gaps(one: Any, levels: Any, quantiles: Any) -> dict[str, Any]:
    """Return how far mean and variance are from the integrals of quantiles, in deviations.

    A moment is an integral over quantiles. Room for the tails beyond the last quantiles, with a
    variance that is almost infinite, is subtracted.
    """
    mean, variance = one.mean(), one.variance()
    density = np.exp(-0.5 * scipy.special.ndtri(levels) ** 2)
    gaps = (quantiles - mean) / np.sqrt(np.where(variance == 0, 1.0, variance))
    average, square = (np.einsum("z,zlk->lk", density / density.sum(), gaps**k) for k in (1, 2))
    rest = 20 * levels[0] * (gaps[0] ** 2 + gaps[-1] ** 2)
    return {
        "mean": np.abs(average) - rest,
        "variance": np.abs(square - (variance > 0)) - rest,
    }


def the_form_fits_the_draws(problem: FamilyProblem) -> None:
    """P(arm is best), which is computed by ``form``, is its share of draws of the arms' means."""
    for one in arm_distributions(problem):
        if not isinstance(one, Marginal):
            continue
        n_components, n_arms = one.mean().shape
        mask, rng = np.ones((n_components, n_arms), bool), np.random.default_rng(13)
        rewards = IndependentRewards(np.ones((n_components, 1)), one.expand(1))
        best, _ = rewards.best(rng, mask, 1)
        wins = sum(
            np.eye(n_arms)[best_rows(rng, one.sample_mapped(rng), None)] for _ in range(N_DRAWS)
        )
        what = f"{type(one).__name__}.form: share of draws in which an arm is the best"
        _a_share(wins / N_DRAWS, best, N_DRAWS, what)


def averages_teach_like_their_rewards(problem: FamilyProblem) -> None:
    """``observe`` learns from an average what the family learns from its rewards."""
    family, n = problem.prior.family, 4
    one = next(iter(arm_distributions(problem)), None)
    if not isinstance(one, Marginal):
        return
    name, shape, rng = type(one).__name__, one.mean().shape, np.random.default_rng(14)
    arms = np.repeat(np.arange(shape[1]), n)
    theta = np.repeat(problem.prior.draw(rng, 1)[1], len(arms), axis=0)
    rewards = problem.outcomes(rng, theta, arms)
    belief, latent = problem.prior.belief(), np.arange(shape[0])
    belief.update(arms, rewards)
    average = np.broadcast_to(rewards.reshape(-1, n).mean(axis=1), shape)
    found, evidence = one.observe(average, np.full(shape, n))
    expected = family.as_arms.marginals(belief.statistics, np.zeros_like(latent), latent)
    same, _ = one.observe(average, np.zeros(shape, int))
    for after, law, what in ((found, expected, f"{n} rewards"), (same, one, "no rewards")):
        for moment in ("mean", "variance"):
            numbers = getattr(after, moment)(), getattr(law, moment)()
            same_numbers(*numbers, f"{name}.observe: {moment} after {what}", 1e-8)
    total, right = evidence.sum(axis=1), belief.log_evidence
    total += (right - total)[right.argmax()]  # a constant, which is left out
    same_numbers(total, right, f"{name}.observe: log evidence", max(1e-8, problem.rounding))


def averages_are_drawn_like_rewards(problem: FamilyProblem) -> None:
    """``draw_averages`` has the moments of averages; ``reward_entropy`` fits those of a reward."""
    prior, n, rng = problem.prior, 3, np.random.default_rng(15)
    one = next(iter(arm_distributions(problem)), None)
    if not isinstance(one, Marginal):
        return
    name, (n_components, n_arms) = type(one).__name__, one.mean().shape
    mean, variance = one.mean(), one.variance()
    entropy = one.reward_entropy(mean, variance)
    statistics: Any = prior.family.empty_statistics(1)
    for s in range(n_components):
        theta = prior.family.draw(rng, np.full(N_DRAWS, s))
        drawn = one.draw_averages(rng, theta, np.full(theta.shape, n)) - theta
        rewards = np.stack(
            [
                problem.outcomes(rng, np.repeat(theta, n, axis=0), np.full(n * N_DRAWS, arm))
                for arm in range(n_arms)
            ],
            axis=1,
        )
        squares = drawn**2 - (rewards.reshape(-1, n, n_arms).mean(axis=1) - theta) ** 2
        _with_expectation(drawn, 0.0, f"{name}.draw_averages: gaps to the means")
        _with_expectation(squares, 0.0, f"{name}.draw_averages: squares of the gaps")
        what = f"{name}.reward_entropy of component {s}"
        if not statistics.accepts(np.array([0.5, 2.0])).any():  # rewards are 0 and 1
            expected = scipy.special.entr(mean[s]) + scipy.special.entr(1 - mean[s])
            same_numbers(entropy[s], expected, what, ROUNDING)
        else:  # that of a normal variable with the variance of a reward
            expected = np.exp(2 * entropy[s] - LOG_2PI_E)
            _with_expectation((rewards[::n] - mean[s]) ** 2, expected, f"{what}: variance")


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
    for n in (0, 1, size - 1, size, 2 * size + 1, 40):
        history = problem.history(1, n)
        order = np.random.default_rng(n).permutation(n)
        stepwise, batch, shuffled = (problem.prior.belief() for _ in range(3))
        for i in range(n):
            stepwise.update(*some(history, i))
        batch.update(*history)
        shuffled.update(*some(history, order))
        same_belief(stepwise, batch, f"{n} rounds in one batch", problem.rounding)
        same_belief(stepwise, shuffled, f"{n} rounds in another order", problem.rounding)
        for belief in (stepwise, batch):
            again = problem.prior.condition(belief.statistics)
            same_belief(stepwise, again, f"from the statistics of {n} rounds", problem.rounding)


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


def evidence_of_one_reward_is_its_probability(problem: FamilyProblem) -> None:
    """The evidence of one reward, over a range of rewards, adds up to the share of draws there."""
    if problem.mdp:
        return
    family: Any = problem.prior.family
    rng, action = np.random.default_rng(22), problem.actions[0] if problem.linear else 0
    for s in range(problem.prior.n_components):
        draws = []
        for _ in range(2):
            theta = family.draw(rng, np.full(N_DRAWS, s))
            actions = np.full((N_DRAWS, *np.shape(action)), action)
            draws.append(problem.outcomes(rng, theta, actions))
        points, sizes, inside = _range_of(*draws)
        belief: Any = problem.prior.belief(len(points))
        belief.update(
            np.full((len(points), *np.shape(action)), action), points, np.arange(len(points))
        )
        total = float(np.exp(belief.log_evidence[:, s]) @ sizes)
        what = f"log_evidence of one reward of component {s} adds up to {total:.4f}"
        _a_share(total, inside, N_DRAWS, what)


def _range_of(draws: Any, others: Any) -> tuple[Any, Any, float]:
    """Return points of a range of rewards, their sizes in a sum, and the share of others in it.

    Rewards that come repeatedly have a probability, and others a density.
    """
    values, counts = np.unique(draws, return_counts=True)
    points, rest = values[counts > 1], values[counts == 1]
    if (values == np.floor(values)).all():
        low, high = np.quantile(draws, [0.01, 0.99], method="nearest")
        points, rest = np.arange(low, min(high, low + N_DRAWS) + 1), rest[:0]
    if len(rest) < len(draws) / 10:
        return points, np.ones(len(points)), float(np.isin(others, points).mean())
    edges = np.quantile(rest, np.linspace(0.01, 0.99, 99))
    nodes, sizes = np.polynomial.legendre.leggauss(5)
    half = np.diff(edges)[:, None] / 2
    inside = np.isin(others, points) | ((others >= edges[0]) & (others <= edges[-1]))
    return (
        np.append(points, edges[:-1, None] + half * (1 + nodes)),
        np.append(np.ones(len(points)), half * sizes),
        float(inside.mean()),
    )


def beliefs_are_right_on_average(problem: FamilyProblem) -> None:
    """Over tasks of the prior, posterior weights and means have the prior's as expectation."""
    prior, n_tasks, n = problem.prior, 200, 4
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
    same_statistics((a + b) + c, a + (b + c), "(a + b) + c", problem.rounding)
    same_statistics(a + b, b + a, "a + b", problem.rounding)
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
    same_statistics(merged, whole.statistics, "merged statistics", problem.rounding)
    same_belief(
        problem.prior.condition(merged), whole, "belief of merged statistics", problem.rounding
    )


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
    same_belief(one, same, "belief of one task", problem.rounding)
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
    same_numbers(again, evidence, "evidence of the snapshot", problem.rounding)


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
    same_numbers(
        belief.log_evidence[3], alone.log_evidence, "evidence of a new task", problem.rounding
    )
    same_numbers(belief.log_evidence[:2], before, "evidence of the old tasks")
    same_belief(
        belief, problem.prior.condition(belief.statistics), "from the statistics", problem.rounding
    )


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
    same_numbers(
        part.log_evidence, whole.log_evidence[order], "selected evidence", problem.rounding
    )
    same_numbers(part.component_mean, whole.component_mean[order], "selected means", ROUNDING)
    family = prior.family
    joined = family.append(family.select([order[0]]))
    expected = family.log_evidence(statistics)[:, [*range(prior.n_components), order[0]]]
    same_numbers(joined.log_evidence(statistics), expected, "appended evidence", problem.rounding)


def parameters_cannot_be_written_to(problem: FamilyProblem) -> None:
    """The arrays of a prior are read-only."""
    for name, array in {"weights": problem.prior.weights, **problem.prior.family.arrays()}.items():
        assert not array.flags.writeable, f"{name} can be written to"


FAMILY_RULES: tuple[Callable[[FamilyProblem], None], ...] = (
    arrays_have_the_expected_shapes,
    batches_do_not_matter,
    no_history_is_the_prior,
    evidence_is_a_sum_of_predictions,
    evidence_of_one_reward_is_its_probability,
    beliefs_are_right_on_average,
    draws_have_the_moments,
    distributions_of_means_agree,
    the_form_fits_the_draws,
    averages_teach_like_their_rewards,
    averages_are_drawn_like_rewards,
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
