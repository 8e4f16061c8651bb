"""Earnings of policies on held-out tasks: greedy, Thompson sampling and IDS beside the bestseller.

Where the logs have enough rewards of held-out tasks, these are replayed. Otherwise tasks are drawn
from the learned prior.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mixts import _checks
from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Float
from mixts.agents import policy_named
from mixts.diagnostics._replays import BESTSELLER, Played, Tasks, replay, simulate_tasks
from mixts.engines import EngineLike
from mixts.errors import ParameterError
from mixts.learning import Fit

N_DECISIONS = (5, 10, 20)
"""Numbers of first decisions for which earnings are reported."""
FEWEST_TASKS = 30
"""Least number of tasks for a replay: with fewer, its standard errors are not to be trusted."""
CLEAR = 2.0
"""A difference of more than this many standard errors is called clear."""


@dataclass(frozen=True)
class Earnings:
    """Earnings of the policies over the first decisions of tasks.

    Attributes
    ----------
    n_decisions : int
        Number of first decisions.
    source : str
        "replay" of held-out tasks, or "simulation" of tasks that were drawn from the prior.
    rewards : mapping of str to (n_tasks,) array
        Mean reward per decision of each task, by policy; the bestseller is the first policy.
    n_replayable : int
        Number of held-out tasks whose recorded rewards are enough for a replay.
    n_offered : float
        Average number of arms (or rows of features) that a decision chooses from.
    bestseller : str or None
        Name of the bestseller: in a replay the arm with the highest mean reward in the training
        rows (arms that were hardly tried are left out), in a simulation the arm with the highest
        mean under the prior; None for linear tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from mixts.diagnostics import Earnings
    >>> rewards = {"bestseller": np.array([0.2, 0.4, 0.2]), "ids": np.array([0.4, 0.5, 0.5])}
    >>> earnings = Earnings(5, "replay", rewards, n_replayable=3, n_offered=4.0, bestseller="shoes")
    >>> mean, error = earnings.gain("ids")
    >>> print(f"{mean:.2f} ± {error:.2f}")
    0.20 ± 0.06
    """

    n_decisions: int
    source: Literal["replay", "simulation"]
    rewards: Mapping[str, Float[Array, " n"]]
    n_replayable: int
    n_offered: float
    bestseller: str | None

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.rewards[BESTSELLER])

    def mean(self, policy: str) -> Estimate:
        """Return the mean reward per decision of a policy, over tasks.

        Parameters
        ----------
        policy
            Name of the policy.

        Returns
        -------
        Estimate
            Mean and standard error.
        """
        return estimate(self._of(policy))

    def gain(self, policy: str, over: str = BESTSELLER) -> Estimate:
        """Return the mean reward per decision of a policy minus that of another, task by task.

        Parameters
        ----------
        policy, over
            Names of the two policies.

        Returns
        -------
        Estimate
            Mean and standard error of the difference.
        """
        return estimate(self._of(policy) - self._of(over))

    def clearly(self, policy: str, over: str) -> bool:
        """Return whether a policy earns more than another by over two standard errors.

        Parameters
        ----------
        policy, over
            Names of the two policies.

        Returns
        -------
        bool
            True if the difference is clear.
        """
        mean, error = self.gain(policy, over)
        return bool(mean > 0 and mean > CLEAR * error)

    def _of(self, policy: str) -> Float[Array, " n"]:
        if policy not in self.rewards:
            raise ParameterError(f"no policy {policy!r}; policies: {', '.join(self.rewards)}")
        return self.rewards[policy]


@dataclass(frozen=True)
class PolicyComparison:
    """Earnings of policies that start from a learned prior; result of :func:`compare_policies`.

    Attributes
    ----------
    earnings : tuple of Earnings
        Earnings over the first decisions, by increasing number of decisions.
    n_held_out : int
        Number of held-out tasks.
    n_arms : int or None
        Number of arms of the prior; None for linear tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from mixts.diagnostics import Earnings, PolicyComparison
    >>> rewards = {"bestseller": np.array([0.2, 0.4, 0.2]), "ids": np.array([0.4, 0.5, 0.5])}
    >>> earnings = Earnings(5, "replay", rewards, n_replayable=3, n_offered=4.0, bestseller="shoes")
    >>> PolicyComparison((earnings,), n_held_out=3).recommended
    'ids'
    """

    earnings: tuple[Earnings, ...]
    n_held_out: int
    n_arms: int | None = None

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies; the bestseller comes first."""
        return tuple(self.earnings[0].rewards)

    @property
    def learning(self) -> tuple[str, ...]:
        """Names of the policies that learn within a task."""
        return self.policies[1:]

    @property
    def decisive(self) -> Earnings:
        """Earnings that decide which policy is recommended: the longest replay, if there is one."""
        replayed = [one for one in self.earnings if one.source == "replay"]
        return (replayed or list(self.earnings))[-1]

    @property
    def usual(self) -> str:
        """Policy to use if no other one is clearly better: IDS, or else the last of them."""
        return "ids" if "ids" in self.learning else self.learning[-1]

    @property
    def better(self) -> tuple[str, ...]:
        """Policies that clearly earn more than the usual one, the best of them first."""
        one = self.decisive
        found = [policy for policy in self.policies if one.clearly(policy, self.usual)]
        return tuple(sorted(found, key=lambda policy: -one.mean(policy).mean))

    @property
    def recommended(self) -> str:
        """Policy to use: IDS; or if others clearly earn more, the one of them that earned most.

        Tasks that are drawn from the prior favour policies that trust it. So a simulation can only
        speak for the bestseller: if that clearly earns more than IDS, it is the one to use.
        """
        if self.decisive.source == "simulation":
            return BESTSELLER if BESTSELLER in self.better else self.usual
        return self.better[0] if self.better else self.usual

    @property
    def agent(self) -> str:
        """Policy of the agent to start with: the recommended one, if it learns.

        If the bestseller is recommended, it is the one that earned most of those that learn; but
        IDS if everything is simulated.
        """
        if self.recommended in self.learning:
            return self.recommended
        if self.decisive.source == "simulation":
            return self.usual
        return max(self.learning, key=lambda policy: self.decisive.mean(policy).mean)


def compare_policies(
    fit: Fit,
    n_decisions: Sequence[int] = N_DECISIONS,
    *,
    policies: Sequence[str] = ("greedy", "ts", "ids"),
    seed: int | None = None,
    engine: EngineLike = None,
) -> PolicyComparison:
    """Measure what policies would have earned in the first decisions of held-out tasks.

    The policies start each task from ``fit.prior`` and learn within the task. Their rival is the
    bestseller: always the arm with the highest mean reward in the training rows; arms that were
    hardly tried (less than a tenth as often as the average arm) are left out. For linear tasks it
    is the row with the highest reward by the coefficients that fit all training rows best.

    The recorded rewards of held-out tasks are replayed. In a replay of n decisions of arms, a task
    offers the arms for which it recorded at least n rewards, if these are two or more: see
    :class:`mixts.environments.ReplayArms`. In a replay of linear tasks each decision chooses one of
    ten recorded rows that were not chosen yet. If fewer than 30 held-out tasks have enough rewards,
    tasks are drawn from the prior instead, and the bestseller is the arm with the highest mean
    under the prior. At most 500 tasks are played, or 100 linear tasks; if there are fewer, each is
    replayed up to ten times in other random orders, and its mean counts. Tasks with few recorded
    rewards cannot be replayed, so a replay speaks for tasks with many.

    Parameters
    ----------
    fit
        Result of :func:`mixts.learning.fit_logs` with held-out tasks. Its files are read again, if
        there is something to replay.
    n_decisions
        Numbers of first decisions.
    policies
        Names of the policies that learn, as in ``mixts.agents.POLICIES``.
    seed
        Seed of all that is random; by default that of the fit.
    engine
        Where files are read and tasks are replayed, as in :func:`mixts.simulate`. The numbers do
        not depend on it.

    Returns
    -------
    PolicyComparison
        Mean rewards per decision with standard errors, and the recommended policy.

    Examples
    --------
    Clicks of 200 users on two items; users of one kind like the first item, others the second.

    >>> import numpy as np
    >>> from mixts import diagnostics, fit_logs
    >>> user, item = np.repeat(np.arange(200), 20), np.tile([0, 1], 2000)
    >>> clicked = np.random.default_rng(1).random(4000) < np.where((user + item) % 2, 0.8, 0.2)
    >>> rows = np.c_[user, item, clicked]
    >>> np.savetxt("clicks.csv", rows, "%d", ",", header="user,item,clicked", comments="")
    >>> columns = {"task": "user", "arm": "item", "reward": "clicked"}
    >>> fit = fit_logs("clicks.csv", columns, n_components=2, seed=1)
    >>> (earnings,) = diagnostics.compare_policies(fit, n_decisions=[5]).earnings
    >>> print(round(earnings.mean("bestseller").mean, 2), round(earnings.mean("ids").mean, 2))
    0.52 0.67
    """
    horizons = sorted({_checks.count(n, "n_decisions") for n in n_decisions})
    if not horizons or not policies:
        raise ParameterError("n_decisions and policies must name at least one each, got none")
    if not len(fit.held_out):
        raise ParameterError("policies are compared on held-out tasks, but none were held out")
    number = fit.settings.seed if seed is None else seed
    tasks = Tasks(fit, {name: policy_named(name) for name in policies}, number, engine)
    horizons = sorted({tasks.most_decisions(n) for n in horizons})
    replayed = replay(tasks, horizons, FEWEST_TASKS)
    short = [n for n, played in replayed.items() if played.n_found < FEWEST_TASKS]
    simulated = simulate_tasks(tasks, max(short)) if short else None
    earnings = [
        _earnings(n, played, simulated if n in short else None) for n, played in replayed.items()
    ]
    n_arms = None if fit.logs.arms is None else len(fit.logs.arms)
    return PolicyComparison(tuple(earnings), len(fit.held_out), n_arms)


def _earnings(n: int, replayed: Played, simulated: Played | None) -> Earnings:
    used = replayed if simulated is None else simulated
    rewards = {name: reward[:, :n].mean(axis=1) for name, reward in used.rewards.items()}
    source: Literal["replay", "simulation"] = "replay" if simulated is None else "simulation"
    return Earnings(n, source, rewards, replayed.n_found, used.n_offered, used.bestseller)
