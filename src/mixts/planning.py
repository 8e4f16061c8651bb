"""Planning: finite-horizon tabular MDPs, one or a batch, their best policies and values."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np

from mixts import _checks, _program
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.errors import MixtsError, ParameterError

__all__ = ["MDP", "Plan"]


class Plan(NamedTuple):
    """A best policy and its values.

    Attributes
    ----------
    policy : (..., h, X) array of int
        Action in every state, at every step.
    values : (..., h, X) array
        Expected reward from every step and state to the end of the episode.
    """

    policy: Int[Array, "... h X"]
    values: Float[Array, "... h X"]


class MDP:
    """Known finite-horizon MDP M = (X, A, R, T, h, rho), or a batch of MDPs  [paper: Sec. 5].

    Its arrays are read-only.

    Parameters
    ----------
    rewards
        Mean rewards, (..., X, A); the axes before X are a batch.
    transitions
        Probabilities of the next state, (..., X, A, X).
    horizon
        Number of steps of an episode, h.
    initial
        Distribution of the first state, (X,), or the one state where episodes start.

    Examples
    --------
    Two states; action 1 moves to the other state, and state 1 pays for action 0.

    >>> import mixts
    >>> stay, move = [[1, 0], [0, 1]], [[0, 1], [1, 0]]
    >>> transitions = [[stay[0], move[0]], [stay[1], move[1]]]
    >>> mdp = mixts.MDP([[0.1, 0.0], [1.0, 0.0]], transitions, horizon=3, initial=0)
    >>> plan = mdp.plan()
    >>> plan.policy
    array([[1, 0],
           [1, 0],
           [0, 0]])
    >>> mdp.value(plan.policy)
    2.0
    """

    def __init__(
        self,
        rewards: ArrayLike,
        transitions: ArrayLike,
        horizon: int,
        initial: ArrayLike,
    ) -> None:
        means = _checks.numbers(rewards, "rewards must be numbers", ParameterError)
        rows = _checks.numbers(transitions, "transitions must be numbers", ParameterError)
        if means.ndim < 2 or 0 in means.shape[-2:] or rows.shape != (*means.shape, means.shape[-2]):
            raise ParameterError(
                "rewards must have shape (..., X, A) and transitions (..., X, A, X), "
                f"got {means.shape} and {rows.shape}"
            )
        if not np.isfinite(means).all():
            raise ParameterError("rewards must be finite")
        _checks.distribution(rows, "transitions")
        batch, shape = means.shape[:-2], means.shape[-2:]
        n_pairs = math.prod(shape)
        parts = means.reshape(*batch, n_pairs), rows.reshape(*batch, n_pairs * shape[0])
        flat = np.concatenate(parts, axis=-1, dtype=float)
        start = state_distribution(initial, shape[0])
        self._set(flat, shape, _checks.count(horizon, "horizon"), start)

    def _set(self, flat: Array, shape: tuple[int, ...], horizon: int, initial: Array) -> None:
        self._flat = flat  # never written to
        self.n_states, self.n_actions = shape
        self.horizon = horizon
        self.initial: Float[Array, " X"] = initial

    @classmethod
    def of_parameters(
        cls, parameters: Array, n_states: int, n_actions: int, horizon: int, initial: Array
    ) -> Self:
        """Return the MDPs of checked rows of numbers, without a copy.

        Parameters
        ----------
        parameters
            Rows of numbers as :attr:`parameters` has them, (..., p).
        n_states, n_actions, horizon
            Sizes of every MDP.
        initial
            Distribution of the first state, (X,).

        Returns
        -------
        MDP
            The MDPs.
        """
        mdp = cls.__new__(cls)
        mdp._set(parameters, (n_states, n_actions), horizon, initial)
        return mdp

    @classmethod
    def stack(cls, mdps: Iterable[MDP]) -> Self:
        """Return a batch of MDPs that share sizes, horizon and initial distribution.

        Parameters
        ----------
        mdps
            The MDPs, or batches of one shape.

        Returns
        -------
        MDP
            The batch; its first axis counts the MDPs that were given.
        """
        mdps = list(mdps)
        if not mdps or not all(isinstance(mdp, MDP) for mdp in mdps):
            raise ParameterError(f"mdps must be some MDPs, got {mdps!r}")
        first = mdps[0]
        for mdp in mdps:
            same = (mdp.shape, mdp.n_states, mdp.n_actions, mdp.horizon) == (
                first.shape, first.n_states, first.n_actions, first.horizon,
            )  # fmt: skip
            if not same or not np.array_equal(mdp.initial, first.initial):
                raise ParameterError(
                    f"MDPs of a batch share sizes, horizon and initial distribution, got {first!r} "
                    f"and {mdp!r}"
                )
        rows = np.stack([mdp.parameters for mdp in mdps])
        return cls.of_parameters(
            rows, first.n_states, first.n_actions, first.horizon, first.initial
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Axes of the batch; () for one MDP."""
        return self._flat.shape[:-1]

    @property
    def parameters(self) -> Float[Array, "... p"]:
        """Mean rewards, then transition probabilities, as one row of numbers for each MDP."""
        view = self._flat[...]
        view.flags.writeable = False
        return view

    @property
    def rows(self) -> Float[Array, "m p"]:
        """Contiguous parameters with one axis for the batch; do not write to them."""
        flat = self._flat
        rows = flat if flat.ndim == 2 else flat.reshape(math.prod(self.shape), flat.shape[-1])
        return rows if rows.flags.c_contiguous else rows.copy()

    @property
    def rewards(self) -> Float[Array, "... X A"]:
        """Mean rewards R(x, a)."""
        n_pairs = self.n_states * self.n_actions
        part = self.parameters[..., :n_pairs]
        return part.reshape(*self.shape, self.n_states, self.n_actions)

    @property
    def transitions(self) -> Float[Array, "... X A X"]:
        """Transition probabilities T(x, a, x')."""
        n_pairs = self.n_states * self.n_actions
        part = self.parameters[..., n_pairs:]
        return part.reshape(*self.shape, self.n_states, self.n_actions, self.n_states)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("this is one MDP, not a batch: it has no length")
        return len(self._flat)

    def __getitem__(self, index: Any) -> Self:
        """Select some MDPs of the batch, or one."""
        if not self.shape:
            raise IndexError("this is one MDP, not a batch")
        # An index selects along the axes of the batch only, never inside an MDP.
        positions = np.arange(math.prod(self.shape)).reshape(self.shape)[index]
        flat = self.rows[positions]
        return self.of_parameters(flat, self.n_states, self.n_actions, self.horizon, self.initial)

    def __repr__(self) -> str:
        batch = f"{'x'.join(map(str, self.shape))} MDPs, " if self.shape else ""
        return (
            f"MDP({batch}{self.n_states} states, {self.n_actions} actions, horizon {self.horizon})"
        )

    # -- planning and evaluation --------------------------------------------------------------

    def plan(self, rng: np.random.Generator | None = None) -> Plan:
        """Return the best policy and its values, by backward induction.

        ``V_i(x) = max_a R(x, a) + sum_x' T(x, a, x') V_{i+1}(x')``.

        Parameters
        ----------
        rng
            Chooses among actions of exactly equal value; None takes the first.

        Returns
        -------
        Plan
            policy (..., h, X) and values (..., h, X).
        """
        if rng is not None and not isinstance(rng, np.random.Generator):
            raise ParameterError(f"rng must be a numpy.random.Generator or None, got {rng!r}")
        words = None if rng is None else random_words(rng, math.prod(self.shape))
        return self._plan(words)

    def best_policy(self, rng: np.random.Generator) -> Int[Array, "... h X"]:
        """Return the policy of :meth:`plan`, ties at random, without its values.

        Parameters
        ----------
        rng
            Generator that chooses among actions of exactly equal value.

        Returns
        -------
        array
            Action at every step in every state, (..., h, X).
        """
        words = random_words(rng, math.prod(self.shape))
        if _program.core is None:
            return self._plan(words).policy
        policy = np.empty((len(words), self.horizon, self.n_states), np.int64)
        _program.core.plan_mdps(self.rows, self.n_actions, words, policy, None)
        return policy if self._flat.ndim == 2 else policy.reshape(*self.shape, *policy.shape[1:])

    def _plan(self, words: Array | None) -> Plan:
        """Return the best policies and their values; words choose among equal actions."""
        if _program.core is None:
            plan = induce(self._batch.rewards, self._batch.transitions, self.horizon, words)
        else:
            rows = self.rows
            shape = (len(rows), self.horizon, self.n_states)
            plan = Plan(np.empty(shape, np.int64), np.empty(shape))
            _program.core.plan_mdps(rows, self.n_actions, words, *plan)
        return Plan(*(part.reshape(*self.shape, *part.shape[1:]) for part in plan))

    @property
    def _batch(self) -> Self:
        """The same MDPs with one axis for the batch."""
        return self.of_parameters(
            self.rows, self.n_states, self.n_actions, self.horizon, self.initial
        )

    def evaluate(self, policy: ArrayLike) -> Float[Array, "... h X"]:
        """Return the exact value of a policy from every step and state.

        Parameters
        ----------
        policy
            One policy (h, X) for all MDPs, or one for each; for one MDP any number of policies.

        Returns
        -------
        array
            (..., h, X).
        """
        policies = shaped_policy(policy, self.horizon, self.n_states, self.n_actions)
        batch = policies.shape[:-2]
        if batch and self.shape and batch != self.shape:
            raise ParameterError(
                f"expected one policy, or one for each of {self.shape} MDPs, got {batch}"
            )
        values = self.values_of(policies.reshape(math.prod(batch), *policies.shape[-2:]))
        return values.reshape(*(batch or self.shape), self.horizon, self.n_states)

    def values_of(self, policies: Int[Array, "m h X"]) -> Float[Array, "k h X"]:
        """Return the values of policies whose shape was checked.

        Parameters
        ----------
        policies
            One policy for all MDPs or one for each, (m, h, X).

        Returns
        -------
        array
            Value from every step and state, with one axis for the batch, (k, h, X).
        """
        if _program.core is None:
            checked_policy(policies, self.horizon, self.n_states, self.n_actions)
            return evaluate(self._batch.rewards, self._batch.transitions, policies)
        rows = self.rows
        n = max(len(rows), len(policies)) if len(rows) and len(policies) else 0
        values = np.empty((n, self.horizon, self.n_states))
        if n and not _program.core.evaluate_policies(rows, self.n_actions, policies, values):
            checked_policy(policies, self.horizon, self.n_states, self.n_actions)
        return values

    def value(self, policy: ArrayLike) -> Any:
        """Return V(pi), the expected reward of an episode from ``initial``  [paper: Sec. 5].

        Parameters
        ----------
        policy
            One policy (h, X) for all MDPs, or one for each; for one MDP any number of policies.

        Returns
        -------
        float or array
            The value of each policy.
        """
        values = self.evaluate(policy)[..., 0, :] @ self.initial
        return float(values) if values.ndim == 0 else values


# -- the plain program ----------------------------------------------------------------------------


def induce(
    rewards: Float[Array, "m X A"],
    transitions: Float[Array, "m X A X"],
    horizon: int,
    words: Array | None,
) -> Plan:
    """Plan by backward induction, ``V_i(x) = max_a R(x, a) + sum_y T(x, a, y) V_{i+1}(y)``.

    Without ``words``, the first of equal actions is taken; else each MDP's word chooses.
    """
    n, n_states, _ = rewards.shape
    policy = np.zeros((n, horizon, n_states), np.int64)
    values = np.zeros((n, horizon + 1, n_states))
    # By next state, so that sums add the states in order, as those of the compiled core.
    by_next = np.moveaxis(transitions, -1, 0).copy()
    for i in reversed(range(horizon)):
        after = values[:, i + 1].T[:, :, None, None]
        quality = rewards + (by_next * after).sum(axis=0)
        values[:, i] = quality.max(axis=-1)
        best = quality == values[:, i, :, None]
        policy[:, i] = best.argmax(axis=-1) if words is None else _drawn(best, words, i)
    return Plan(policy, values[:, :-1].copy())


def _drawn(best: Array, words: Array, step: int) -> Int[Array, "m X"]:
    """Return one of the best actions of each state: (m, X, A) says which are."""
    # The word's own stream of splitmix64 has a word for each place, a step and a state.
    places = (step * best.shape[1] + 1 + np.arange(best.shape[1])).astype(np.uint64)
    word = words[:, None] + np.uint64(0x9E3779B97F4A7C15) * places
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    rank = (word ^ (word >> np.uint64(31))) % best.sum(axis=-1).astype(np.uint64)
    return np.asarray((best.cumsum(axis=-1) > rank[..., None]).argmax(axis=-1))


def evaluate(
    rewards: Float[Array, "m X A"],
    transitions: Float[Array, "m X A X"],
    policies: Int[Array, "k h X"],
) -> Float[Array, "n h X"]:
    """Return the values of policies, ``V_i(x) = R(x, a) + sum_y T(x, a, y) V_{i+1}(y)``.

    Here a = pi_i(x). One MDP or one policy may serve all. Sums add the states in order, as those of
    the compiled core.
    """
    n = max(len(rewards), len(policies)) if len(rewards) and len(policies) else 0
    horizon, n_states = policies.shape[1:]
    mdp, states = np.arange(n)[:, None] % max(len(rewards), 1), np.arange(n_states)
    policies = np.broadcast_to(policies, (n, horizon, n_states)) if n else policies[:0]
    values = np.zeros((n, horizon + 1, n_states))
    for i in reversed(range(horizon)):
        chosen = mdp, states, policies[:, i]
        rest = transitions[chosen] * values[:, i + 1, None]
        values[:, i] = rewards[chosen] + rest.cumsum(axis=-1)[..., -1]
    return values[:, :-1].copy()


# -- checks ---------------------------------------------------------------------------------------


def shaped_policy(
    policy: ArrayLike,
    horizon: int,
    n_states: int,
    n_actions: int,
    error: type[MixtsError] = ParameterError,
) -> Int[Array, "... h X"]:
    """Return policies as an array of integers, or raise unless their shape fits these sizes."""
    expected = _expected(horizon, n_states, n_actions)
    array = _checks.integers(policy, expected, error)
    if array.shape[-2:] != (horizon, n_states):
        raise error(f"{expected}, got shape {array.shape}")
    return array


def checked_policy(
    policy: ArrayLike,
    horizon: int,
    n_states: int,
    n_actions: int,
    error: type[MixtsError] = ParameterError,
) -> Int[Array, "... h X"]:
    """Return policies as an array of integers, or raise unless they fit MDPs of these sizes."""
    array = shaped_policy(policy, horizon, n_states, n_actions, error)
    if array.size and (array.min() < 0 or array.max() >= n_actions):
        expected = _expected(horizon, n_states, n_actions)
        raise error(f"{expected}, got {int(array.min())} to {int(array.max())}")
    return array


@functools.cache
def _expected(horizon: int, n_states: int, n_actions: int) -> str:
    """Return the beginning of messages about policies; every episode needs it."""
    return (
        f"a policy is actions (integers from 0 to {n_actions - 1}) of shape "
        f"(..., {horizon}, {n_states}): step, state"
    )


def random_words(rng: np.random.Generator, n: int) -> Array:
    """Return a random word for each of n MDPs: the bits of uniform numbers."""
    return rng.random(n).view(np.uint64)


def state_distribution(initial: ArrayLike, n_states: int) -> Float[Array, " X"]:
    """Return the distribution of the first state, given as such or as one state; read-only."""
    array = np.array(_checks.numbers(initial, "initial must be numbers", ParameterError))
    if array.ndim == 0:
        start = _checks.count(initial, "initial", least=0)
        if start >= n_states:
            raise ParameterError(f"initial must be a state from 0 to {n_states - 1}, got {start}")
        array = np.zeros(n_states)
        array[start] = 1.0
    if array.shape != (n_states,):
        raise ParameterError(
            f"initial must be a state or probabilities of {n_states} states, got shape "
            f"{array.shape}"
        )
    _checks.distribution(array, "initial")
    array.flags.writeable = False
    return array
