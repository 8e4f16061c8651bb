"""MABWiser: its order of calls (fit, partial_fit, predict) for a mixture prior and any policy.

A program that was written for ``mabwiser.mab.MAB`` needs another constructor; its other calls stay
as they are. MABWiser itself need not be installed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from mixts import _checks, _random
from mixts._tables import is_table, matrix
from mixts._typing import Array, ArrayLike, Bool, Float, Int, Seed
from mixts.agents import BeliefAgent, MixTS, policy_named
from mixts.agents.greedy import ScoringAgent
from mixts.belief import Belief
from mixts.errors import ActionError, ObservationError, ParameterError
from mixts.prior import MixturePrior

__all__ = [
    "MAB",
]

Arm = Hashable
"""An arm as MABWiser has them: a text, a number, or another key of dictionaries."""

Rows = Callable[[Float[Array, "n c"]], Float[Array, "n K d"]]
"""Function from contexts to the features of each arm in each context."""


class MAB:
    """A mixture prior with the calls of ``mabwiser.mab.MAB``.

    Differences: predictions need no ``fit``, because there is a prior; ``fit`` forgets all
    observations, but not the prior; one object may hold many tasks, which ``tasks`` tells apart.

    Parameters
    ----------
    arms
        The arms, in the order of the prior's arms. If the prior has ``arm_names``, these names in
        any order.
    prior
        The mixture prior. A linear prior needs contexts. Its coefficients are those of the first
        arm, then those of the second ..., unless ``rows`` says otherwise.
    policy
        "ts", "ids", "greedy" or "ucb": see :func:`mixts.agents.policy_named`.
    seed
        Seed of the random numbers.
    n_tasks
        Number of tasks; None for one task.
    rows
        Only for linear priors: a function from contexts (n, c) to the features (n, K, d) of the K
        arms in each context.
    **options
        Further arguments of the policy, such as ``horizon``.

    Examples
    --------
    >>> import mixts
    >>> from mixts.bridges.mabwiser import MAB
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> mab = MAB(["left", "right"], prior, "greedy", seed=1)
    >>> mab.fit(["left", "left", "right"], [0, 0, 1])
    >>> mab.predict()
    'right'
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        prior: MixturePrior,
        policy: str = "ts",
        seed: Seed = None,
        n_tasks: int | None = None,
        rows: Rows | None = None,
        **options: Any,
    ) -> None:
        self.arms: list[Arm] = _arms(arms)
        """The arms that can be chosen."""
        self.is_contextual = prior.family.n_features is not None
        """Whether ``fit`` and ``predict`` need contexts."""
        if prior.family.plans or (rows is not None and not self.is_contextual):
            raise ParameterError(
                f"the prior must have arms, or linear rewards if rows is given, got {prior!r}"
            )
        self._places = _places(self.arms, prior)
        self._n_columns = prior.family.n_arms or len(self.arms)
        self._rows = rows
        self._single = n_tasks is None
        self._n_tasks = 1 if n_tasks is None else _checks.count(n_tasks, "n_tasks")
        self._rng = _random.generator(seed, "agent")
        self._options = options
        self._policy = policy_named(policy)
        # Names of arms are this object's business: MABWiser's may be numbers.
        self.agent: BeliefAgent = self._new_agent(prior.replace(arm_names=None))
        """The agent, which always has the task axis."""

    def _new_agent(self, prior: MixturePrior) -> BeliefAgent:
        return self._policy(prior, n_tasks=self._n_tasks, seed=self._rng, **self._options)

    def __repr__(self) -> str:
        return f"MAB({self.arms!r}, {self.agent!r})"

    @property
    def belief(self) -> Belief:
        """The belief about the tasks, with the task axis."""
        return self.agent.belief

    # -- learning -----------------------------------------------------------------------------

    def fit(
        self,
        decisions: ArrayLike,
        rewards: ArrayLike,
        contexts: Any = None,
        tasks: ArrayLike | None = None,
    ) -> None:
        """Forget all observations, and learn from these.

        Parameters
        ----------
        decisions
            The arm of each observation.
        rewards
            The reward of each observation.
        contexts
            The context of each observation, (n, c), if the prior is linear: an array, lists or a
            table.
        tasks
            The task of each observation, if there are many tasks.
        """
        agent = self._new_agent(self.agent.prior)
        agent.update(*self._observations(decisions, rewards, contexts, tasks))
        self.agent = agent  # now, because refused observations change nothing

    def partial_fit(
        self,
        decisions: ArrayLike,
        rewards: ArrayLike,
        contexts: Any = None,
        tasks: ArrayLike | None = None,
    ) -> None:
        """Learn from more observations.

        Parameters
        ----------
        decisions, rewards, contexts, tasks
            As for :meth:`fit`.
        """
        self.agent.update(*self._observations(decisions, rewards, contexts, tasks))

    def _observations(
        self, decisions: ArrayLike, rewards: ArrayLike, contexts: Any, tasks: ArrayLike | None
    ) -> tuple[Array, Any, Any]:
        """Return the arguments of the agent's update."""
        listed = _listed(decisions)
        if not isinstance(listed, list):
            raise ObservationError(f"decisions must be a list of arms, got {decisions!r}")
        index = np.array([self._place(arm) for arm in listed], np.int64)
        owners = self._owners(tasks, len(index))
        if not self.is_contextual:
            if contexts is not None:
                raise ObservationError("this prior has arms without features: leave contexts out")
            return index, rewards, owners
        offered = self._offered(contexts)
        if len(offered) != len(index):
            raise ObservationError(
                f"expected a context for each decision, got {len(index)} and {len(offered)}"
            )
        return offered[np.arange(len(index)), index], rewards, owners

    # -- deciding -----------------------------------------------------------------------------

    def predict(self, contexts: Any = None, tasks: Any = None) -> Any:
        """Choose an arm.

        Parameters
        ----------
        contexts
            A context for each decision, (n, c). Without features they only say how many decisions
            to make, as in MABWiser.
        tasks
            If there are many tasks: the task of each decision, or one task; None for all tasks.

        Returns
        -------
        arm or list of arms
            One arm for one decision, else a list.
        """
        index, offered, single = self._decisions(contexts, tasks)
        chosen = self.agent.act(offered, tasks=index, mask=self._mask())
        arms = {place: arm for arm, place in self._places.items()}
        return _first([arms[int(place)] for place in chosen], single)

    def predict_expectations(self, contexts: Any = None, tasks: Any = None) -> Any:
        """Return what the policy expects of each arm.

        Thompson sampling: mean rewards under one draw from the belief, a new one at each call. UCB:
        quantiles. Greedy and information-directed sampling: posterior means.

        Parameters
        ----------
        contexts, tasks
            As for :meth:`predict`.

        Returns
        -------
        dict or list of dicts
            A number for each arm; one dictionary for one decision, else a list.
        """
        index, offered, single = self._decisions(contexts, tasks)
        values = self._expected(index, offered)
        found = [{arm: float(row[place]) for arm, place in self._places.items()} for row in values]
        return _first(found, single)

    def _expected(
        self, index: Int[Array, " m"], offered: Float[Array, "m K d"] | None
    ) -> Float[Array, "m K"]:
        agent = self.agent
        if isinstance(agent, MixTS):
            family = agent.prior.family
            _, theta = agent.belief.sample(self._rng, index)
            sets, _ = family.action_sets(offered, len(index))
            return family.mean_rewards(theta, sets)
        offer = agent.offer(offered, index, self._mask())
        rewards = agent.rewards(offer)
        return agent.scores(rewards, offer) if isinstance(agent, ScoringAgent) else rewards.means()

    def _decisions(
        self, contexts: Any, tasks: Any
    ) -> tuple[Int[Array, " m"], Float[Array, "m K d"] | None, bool]:
        """Return the task and the features of each decision, and whether the result is no list."""
        n = None if contexts is None else len(_rows_of(contexts))
        offered = self._offered(contexts) if self.is_contextual else None
        if self._single:
            n = 1 if n is None else n
            return self._owners(tasks, n), offered, n == 1
        if tasks is None:
            index = np.arange(self._n_tasks)
        else:
            index = _checks.task_indices(np.atleast_1d(tasks), self._n_tasks)
        if n is not None and n != len(index):
            raise ActionError(f"expected a context for each of {len(index)} tasks, got {n}")
        return index, offered, tasks is not None and np.ndim(tasks) == 0

    def _owners(self, tasks: ArrayLike | None, n: int) -> Any:
        """Return the task of each observation, or of each decision about one task."""
        if not self._single:
            return tasks
        if tasks is not None:
            raise ParameterError(
                "this has one task: leave tasks out, or create it with n_tasks=..."
            )
        return np.zeros(n, np.int64)

    def _offered(self, contexts: Any) -> Float[Array, "n K d"]:
        """Return the features of each arm in each context."""
        if contexts is None:
            raise ActionError("a linear prior needs contexts, (n, c): give one for each decision")
        given = _checks.numbers(_rows_of(contexts), "contexts must be numbers", ActionError)
        n_arms, d = self._n_columns, self.agent.prior.family.n_features or 0
        if given.ndim != 2:
            raise ActionError(f"contexts must have shape (n, c), got {given.shape}")
        if self._rows is not None:
            return np.asarray(self._rows(given), float)
        if given.shape[1] * n_arms != d:
            raise ActionError(
                f"a prior of {d} coefficients for {n_arms} arms needs contexts of "
                f"{d / n_arms:g} numbers, got {given.shape[1]}; other models need rows="
            )
        # Arm k has the context in block k, and zeros elsewhere.
        return np.einsum("kj,nc->nkjc", np.eye(n_arms), given).reshape(len(given), n_arms, d)

    # -- arms ---------------------------------------------------------------------------------

    def add_arm(self, arm: Arm) -> None:
        """Add an arm without data: its prior is ``prior.arm_prior``, learned from the other arms.

        Parameters
        ----------
        arm
            The new arm. A removed arm that is added again starts anew.
        """
        if arm is None or not isinstance(arm, Hashable) or arm in self._places:
            raise ParameterError(f"the new arm must differ from all others, got {arm!r}")
        if self.is_contextual:
            raise ParameterError(
                "a linear prior says nothing about the coefficients of a new arm: make another MAB"
            )
        self.agent.use_prior(self.agent.prior.add_arms(1))
        self._places[arm] = self._n_columns
        self._n_columns += 1
        self.arms.append(arm)

    def remove_arm(self, arm: Arm) -> None:
        """Remove an arm. Its observations still tell which kind of task this is.

        Parameters
        ----------
        arm
            The arm, which is never chosen again.
        """
        self._place(arm)
        if len(self.arms) == 1:
            raise ParameterError(f"{arm!r} is the only arm left: it must remain")
        del self._places[arm]
        self.arms.remove(arm)

    def _mask(self) -> Bool[Array, " K"] | None:
        """Return which of the prior's arms can be chosen; None if all can."""
        if len(self._places) == self._n_columns:
            return None
        mask = np.zeros(self._n_columns, bool)
        mask[list(self._places.values())] = True
        return mask

    def _place(self, arm: Arm) -> int:
        try:
            return self._places[arm]
        except (KeyError, TypeError):  # a list, for example, is no key
            raise ActionError(f"unknown arm {arm!r}; arms: {self.arms}") from None


def _arms(arms: Any) -> list[Arm]:
    """Check a list of different arms."""
    listed = _listed(arms)
    if not isinstance(listed, list) or not all(isinstance(arm, Hashable) for arm in listed):
        raise ParameterError(f"arms must be a list of texts, numbers or other keys, got {arms!r}")
    if not listed or len(set(listed)) < len(listed):
        raise ParameterError(f"arms must differ, and be at least one, got {listed}")
    return listed


def _places(arms: list[Arm], prior: MixturePrior) -> dict[Arm, int]:
    """Return the index of each arm in the prior."""
    names, n_arms = prior.arm_names, prior.family.n_arms
    if names is not None:
        if sorted(names) != sorted(map(str, arms)):
            raise ParameterError(f"arms must be the prior's arms {list(names)}, got {arms}")
        return {arm: names.index(str(arm)) for arm in arms}
    if n_arms is not None and len(arms) != n_arms:
        raise ParameterError(f"the prior has {n_arms} arms, got {len(arms)}: {arms}")
    return {arm: place for place, arm in enumerate(arms)}


def _listed(arms: Any) -> Any:
    """Return a list of arms as Python values; what is no list, as it is."""
    return list(arms) if isinstance(arms, (list, tuple)) else np.asarray(arms).tolist()


def _rows_of(contexts: Any) -> Array:
    rows = matrix(contexts) if is_table(contexts) else np.asarray(contexts)
    if rows.ndim == 0:
        raise ActionError(f"contexts must have shape (n, c), got {contexts!r}")
    return rows


def _first(found: list[Any], single: bool) -> Any:
    return found[0] if single else found
