"""Earnings of policies on past tasks: greedy, Thompson sampling and IDS beside the bestseller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from mixts import _checks
from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Float
from mixts.agents import policy_named
from mixts.diagnostics._replays import BESTSELLER, PastTasks, replay
from mixts.diagnostics.bestseller import pooled_scores
from mixts.engines import EngineLike
from mixts.errors import ParameterError
from mixts.logs.fitted import Fit

N_DECISIONS = (5, 10, 20)
"""Numbers of first decisions for which earnings are reported."""
FEWEST_TASKS = 30
"""Least number of tasks for a replay: with fewer, its standard errors are not to be trusted."""
CLEAR = 2.0
"""A difference of more than this many standard errors is called clear."""
PICKED = 3.0
"""A policy that is picked from several by its earnings must be better by this many errors: the best
of some equal policies is often better than another by two."""

Outcome = Literal["gain", "unclear", "loss", "none"]
"""A clear gain over the bestseller, no clear difference, a clear loss, or nothing was replayed."""


@dataclass(frozen=True)
class Earnings:
    """Earnings of the policies over the first decisions of past tasks that were replayed.

    Attributes
    ----------
    n_decisions : int
        Number of first decisions.
    rewards : mapping of str to (n_tasks,) array
        Mean reward per decision of each task, by policy; the bestseller is the first policy.
    logged : (n_tasks,) array
        Mean of all recorded rewards of each of these tasks: what the logged choices earned.
    n_offered : float
        Average number of arms (or rows of features) that a task's first decision chooses from.
    bestseller : str or None
        Name of the arm with the highest mean reward in the training rows (arms that were hardly
        tried are left out); None for linear tasks.
    missed : mapping of str to (n_tasks,) array
        By policy: how much more the best arm of all was expected to give, per decision, than the
        best arm that had a recorded reward left. Live decisions may choose every arm, and would
        earn about so much more. Empty for linear tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from mixts.diagnostics import Earnings
    >>> rewards = {"bestseller": np.array([0.2, 0.4, 0.2]), "ids": np.array([0.4, 0.5, 0.5])}
    >>> earnings = Earnings(5, rewards, np.array([0.1, 0.3, 0.2]), n_offered=4.0, bestseller="hats")
    >>> mean, error = earnings.gain("ids")
    >>> print(f"{mean:.2f} ± {error:.2f}")
    0.20 ± 0.06
    """

    n_decisions: int
    rewards: Mapping[str, Float[Array, " n"]]
    logged: Float[Array, " n"]
    n_offered: float
    bestseller: str | None
    missed: Mapping[str, Float[Array, " n"]] = field(default_factory=dict)

    @property
    def n_tasks(self) -> int:
        """Number of tasks that were replayed."""
        return len(self.logged)

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

    def relative_gain(self, policy: str) -> Estimate | None:
        """Return the gain over the bestseller as a share of what the bestseller earns.

        The standard error is that of a ratio of means (the delta method).

        Parameters
        ----------
        policy
            Name of the policy.

        Returns
        -------
        Estimate or None
            Share and standard error; None if the bestseller's mean is not clearly above 0.
        """
        mine, other = self._of(policy), self._of(BESTSELLER)
        mean, error = estimate(other)
        if not mean > 2 * CLEAR * error:
            return None
        ratio = float(mine.mean() / mean)
        return Estimate(ratio - 1, estimate((mine - ratio * other) / mean).error)

    def clearly(self, policy: str, over: str, n_errors: float = CLEAR) -> bool:
        """Return whether a policy earns more than another by over two standard errors.

        Parameters
        ----------
        policy, over
            Names of the two policies.
        n_errors
            Another number of standard errors.

        Returns
        -------
        bool
            True if the difference is clear.
        """
        mean, error = self.gain(policy, over)
        return bool(mean > 0 and mean > n_errors * error)

    def restricts(self, policy: str) -> bool:
        """Return whether the recorded rewards restricted the choices of a policy noticeably.

        Parameters
        ----------
        policy
            Name of the policy.

        Returns
        -------
        bool
            True if live decisions, which may choose every arm, would be expected to earn more by
            over a standard error of the policy's mean reward.
        """
        if policy not in self.missed:
            return False
        return bool(self.missed[policy].mean() > self.mean(policy).error)

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
        Earnings over the first decisions, by increasing number of decisions; without those for
        which fewer than 30 tasks have enough recorded rewards.
    n_replayable : mapping of int to int
        By number of decisions: the number of past tasks with enough recorded rewards.
    n_past : int
        Number of past tasks that may be replayed.
    crossed : bool
        Whether every past task was held out once, and its prior learned from the others; otherwise
        only the held-out tasks of the fit may be replayed.
    adaptive : bool
        Whether a service chose the logged actions by earlier rewards of the task. Then a replay is
        only approximate: an arm has many recorded rewards where it paid.
    needed : str
        What a task must have to be replayed, in words, with a place for twice the number of
        decisions.

    Examples
    --------
    >>> import numpy as np
    >>> from mixts.diagnostics import Earnings, PolicyComparison
    >>> rewards = {"bestseller": np.array([0.2, 0.4, 0.2]), "ids": np.array([0.4, 0.5, 0.5])}
    >>> earnings = Earnings(5, rewards, np.array([0.1, 0.3, 0.2]), n_offered=4.0, bestseller="hats")
    >>> PolicyComparison((earnings,), {5: 3}, n_past=3).outcome
    'gain'
    """

    earnings: tuple[Earnings, ...]
    n_replayable: Mapping[int, int]
    n_past: int
    crossed: bool = True
    adaptive: bool = False
    needed: str = "{} recorded rewards"

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies, the bestseller first; none if nothing was replayed."""
        return tuple(self.earnings[0].rewards) if self.earnings else ()

    @property
    def rival(self) -> str:
        """Name of the policy that never learns, in words: what a team has without a prior."""
        linear = bool(self.earnings) and self.earnings[0].bestseller is None
        return "the pooled model" if linear else "the bestseller"

    @property
    def learning(self) -> tuple[str, ...]:
        """Names of the policies that learn within a task."""
        return self.policies[1:]

    @property
    def decisive(self) -> Earnings:
        """Earnings that decide: of the most decisions whose choices were not restricted.

        If recorded rewards restricted all of them noticeably: of the fewest decisions.
        """
        if not self.earnings:
            raise ParameterError("nothing was replayed: `outcome` is 'none'")
        free = [one for one in self.earnings if not self.restricts(one)]
        return free[-1] if free else self.earnings[0]

    @property
    def is_weak(self) -> bool:
        """Whether the decisive replay says little about live decisions."""
        return self.adaptive or self.restricted

    @property
    def restricted(self) -> bool:
        """Whether live decisions would be expected to earn more than the decisive replay."""
        return bool(self.earnings) and self.restricts(self.decisive)

    def restricts(self, one: Earnings) -> bool:
        """Return whether recorded rewards restricted the agent or the bestseller noticeably.

        Parameters
        ----------
        one
            Earnings of this comparison.

        Returns
        -------
        bool
            True if live decisions would be expected to earn more: the replay cannot know how much.
        """
        return one.restricts(BESTSELLER) or one.restricts(self._agent(one))

    @property
    def agent(self) -> str:
        """Policy of the agent to start with: IDS, unless another one earns more by three errors.

        If several do, the one of them that earns most.
        """
        return self._agent(self.decisive) if self.earnings else "ids"

    def _agent(self, one: Earnings) -> str:
        usual = "ids" if "ids" in self.learning else self.learning[-1]
        better = [p for p in self.learning if one.clearly(p, usual, PICKED)]
        return max(better, key=lambda policy: one.mean(policy).mean, default=usual)

    @property
    def outcome(self) -> Outcome:
        """Result of the decisive replay: the agent to start with, beside the bestseller."""
        if not self.earnings:
            return "none"
        one = self.decisive
        if one.clearly(self.agent, BESTSELLER):
            return "gain"
        return "loss" if one.clearly(BESTSELLER, self.agent) else "unclear"


def compare_policies(
    fit: Fit,
    n_decisions: Sequence[int] = N_DECISIONS,
    *,
    policies: Sequence[str] = ("greedy", "ts", "ids"),
    seed: int | None = None,
    engine: EngineLike = None,
) -> PolicyComparison:
    """Measure what policies would have earned in the first decisions of past tasks.

    The policies start each task from a prior that was learned without it, and learn within the
    task. Their rival is the bestseller: always the arm with the highest mean reward in the same
    training rows; arms that were hardly tried (less than a tenth as often as the average arm) are
    left out. With features the rival is one regression on all training rows, logistic for clicks:
    it takes the row with the highest predicted reward. It has the pooled effects of the fit, too.

    Recorded rewards are replayed. A chosen arm gives one of the rewards that the task recorded for
    it, in random order; an arm without rewards left cannot be chosen: see
    :class:`mixts.environments.ReplayArms`. Rows of features are dealt to the decisions at random,
    at most ten for each, and every decision chooses one of its rows. A replay of n decisions takes
    tasks with at least 2n recorded rewards, so it speaks for tasks with many. At most 500 tasks are
    replayed, or 100 linear tasks; if there are fewer, each is replayed up to ten times in other
    random orders, and its mean counts. With fewer than 30 tasks nothing is replayed.

    Held-out tasks of the fit come first. If these are not enough, the training tasks are divided
    into up to four parts, and for each part a prior is learned without it; but not if the logs have
    times, because then the held-out tasks are the latest, nor if the fit has pooled effects, which
    were learned from all training tasks.

    Parameters
    ----------
    fit
        Result of :func:`mixts.fit_logs` with held-out tasks. Its files are read again, if
        there is something to replay.
    n_decisions
        Numbers of first decisions.
    policies
        Names of the policies that learn, as in ``mixts.agents.POLICIES``.
    seed
        Seed of all that is random; by default that of the fit.
    engine
        Where files are read, priors learned and tasks replayed, as in :func:`mixts.simulate`. The
        numbers do not depend on it.

    Returns
    -------
    PolicyComparison
        Mean rewards per decision with standard errors, and what they show.

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
    0.47 0.65
    """
    horizons = sorted({_checks.count(n, "n_decisions") for n in n_decisions})
    if not horizons or not policies:
        raise ParameterError("n_decisions and policies must name at least one each, got none")
    if not len(fit.held_out):
        raise ParameterError("policies are compared on held-out tasks, but none were held out")
    kinds = {name: policy_named(name) for name in policies}
    number = fit.settings.seed if seed is None else seed
    past = PastTasks(fit, kinds, number, engine)
    played = replay(past, horizons, FEWEST_TASKS)
    best = None
    if not past.linear:
        scores = pooled_scores(fit.learned.unimodal, fit.training_tasks)[past.arms]
        best = fit.items[past.arms[int(np.argmax(scores))]]
    earnings = tuple(
        Earnings(n, one.rewards, one.logged, one.n_offered, best, one.missed)
        for n, one in played.items()
        if one.rewards
    )
    n_replayable = {n: one.n_found for n, one in played.items()}
    n_past = len(fit.logs.tasks) if past.crossed else len(fit.held_out)
    return PolicyComparison(
        earnings, n_replayable, n_past, past.crossed, fit.logs.schema.exported, past.needed
    )
