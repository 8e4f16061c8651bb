"""Play the policies of agents in gymnasium's environments with discrete spaces."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from math import prod
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from mixts import _checks, _random
from mixts._typing import Array, ArrayLike, Float, Int, Seed
from mixts.errors import ActionError, ObservationError, OutcomeError, ParameterError
from mixts.families.tabular import TabularMDP
from mixts.families.trajectory import Trajectory
from mixts.planning import MDP, checked_policy
from mixts.prior import MixturePrior


class Numbering:
    """Numbering of a discrete space's elements, from 0 to ``size - 1``.

    Entries of ``MultiDiscrete`` and ``Tuple`` spaces are digits of a number, the last one fastest.

    Parameters
    ----------
    space
        A ``Discrete`` or ``MultiDiscrete`` space, or a ``Tuple`` of such.
    role
        Name of the space in messages.
    """

    def __init__(self, space: spaces.Space[Any], role: str = "given") -> None:
        self.space = space
        self._role = role
        self._ranges = list(self._entries(space))
        self.size = prod(n for n, _ in self._ranges)

    def _entries(self, space: spaces.Space[Any]) -> Iterator[tuple[int, int]]:
        """Yield the number of values of each entry, and the least value."""
        if isinstance(space, spaces.Discrete):
            yield int(space.n), int(space.start)
        elif isinstance(space, spaces.MultiDiscrete):
            yield from zip(space.nvec.ravel().tolist(), space.start.ravel().tolist(), strict=True)
        elif isinstance(space, spaces.Tuple):
            for part in space.spaces:
                yield from self._entries(part)
        else:
            raise ParameterError(
                f"the {self._role} space must be discrete (Discrete, MultiDiscrete or a Tuple of "
                f"such), got {space}; a wrapper of gymnasium can divide it into cells"
            )

    def index(self, element: Any) -> int:
        """Return the number of an element."""
        number = 0
        try:
            digits = list(_digits(self.space, element))
            for (n, start), digit in zip(self._ranges, digits, strict=True):
                if not start <= digit < start + n:
                    raise ValueError
                number = number * n + digit - start
        except (TypeError, ValueError) as error:
            raise ObservationError(
                f"expected an element of the {self._role} space {self.space}, got {element!r}"
            ) from error
        return number

    def element(self, index: int) -> Any:
        """Return the element with a number."""
        if not 0 <= index < self.size:
            raise ParameterError(f"expected a number from 0 to {self.size - 1}, got {index}")
        digits = []
        for n, start in reversed(self._ranges):
            index, digit = divmod(index, n)
            digits.append(start + digit)
        return _assembled(self.space, reversed(digits))


def _digits(space: spaces.Space[Any], element: Any) -> Iterator[int]:
    if isinstance(space, spaces.Tuple):
        for part, entry in zip(space.spaces, element, strict=True):
            yield from _digits(part, entry)
    elif isinstance(space, spaces.MultiDiscrete):
        array = np.asarray(element)
        if array.shape != space.shape:
            raise ValueError
        yield from map(operator.index, array.ravel().tolist())
    else:
        yield operator.index(element)


def _assembled(space: spaces.Space[Any], digits: Iterator[int]) -> Any:
    if isinstance(space, spaces.Tuple):
        return tuple(_assembled(part, digits) for part in space.spaces)
    if isinstance(space, spaces.MultiDiscrete):
        flat = [next(digits) for _ in range(space.nvec.size)]
        return np.array(flat, space.dtype).reshape(space.shape)
    return next(digits)


KNOWN = 1e6
"""Prior count of an outcome that is practically certain, where 0 and 1 cannot express it."""


class RewardScale:
    """Conversion of an environment's rewards to the 0 and 1 that a tabular MDP learns from.

    Without ``binarize`` rewards must be 0 or 1. With ``binarize=(low, high)`` the probability of a
    1 is ``(reward - low) / (high - low)``. All returns over a fixed number of steps are rescaled
    alike, so the best policy stays the best; but a drawn 0 or 1 carries less information than the
    number, so posteriors are wider than they need be.

    Parameters
    ----------
    binarize
        Least and largest reward. 0 must lie between them: every step after the end of an episode
        gives 0.
    """

    def __init__(self, binarize: tuple[float, float] | None = None) -> None:
        self.binarize = binarize
        self._low, self._high = 0.0, 1.0
        if binarize is not None:
            self._low, self._high = _range(binarize)

    def mean(self, reward: Any) -> float:
        """Return the probability of a 1, or raise `OutcomeError` for a reward out of range."""
        number = float(reward)
        if self.binarize is None and number not in (0.0, 1.0):
            raise OutcomeError(
                f"rewards must be 0 or 1, got {reward!r}: with binarize=(low, high) others are "
                "rescaled and drawn"
            )
        if not self._low <= number <= self._high:
            raise OutcomeError(
                f"binarize expects rewards from {self._low:g} to {self._high:g}, got "
                f"{reward!r}: make the range wider"
            )
        return (number - self._low) / (self._high - self._low)

    def draw(self, reward: Any, rng: np.random.Generator) -> float:
        """Draw 0 or 1 with the mean of the reward."""
        mean = self.mean(reward)
        return mean if mean in (0.0, 1.0) else float(rng.random() < mean)


def _range(binarize: Any) -> tuple[float, float]:
    try:
        low, high = map(float, binarize)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"binarize must be (low, high), got {binarize!r}") from error
    if not -np.inf < low <= 0 <= high < np.inf or low == high:
        raise ParameterError(
            "binarize=(low, high) must be finite, low below high, and contain 0, which is the "
            f"reward after the end of an episode; got {binarize!r}"
        )
    return low, high


class EpisodePlayer:
    """A player of policies (h, X) in a ``gymnasium.Env``; each episode becomes a trajectory.

    States and actions are numbered (:class:`Numbering`), and one absorbing state is added, the
    last: an episode that terminates enters it and stays in it with reward 0 up to the horizon.
    After a truncation no more steps are counted: the trajectory's ``lengths`` give their number.

    Parameters
    ----------
    env
        An environment with discrete observations and actions.
    horizon
        Number of steps of an episode.
    binarize
        Range of the rewards if they are not 0 and 1; changes the likelihood, see
        :class:`RewardScale`.
    seed
        Seed of the first reset of the environment and of drawn rewards. Later resets have no seed,
        so that an environment that draws its model from the seed keeps it.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        horizon: int,
        binarize: tuple[float, float] | None = None,
        seed: Seed = None,
    ) -> None:
        if not isinstance(env, gymnasium.Env):
            raise ParameterError(f"env must be one gymnasium.Env, got {type(env).__name__}")
        self.env = env
        self.horizon = _checks.count(horizon, "horizon")
        self.states = Numbering(env.observation_space, "observation")
        self.actions = Numbering(env.action_space, "action")
        self.n_actions = self.actions.size
        self.n_states = self.states.size + 1
        """Number of states of the environment and the absorbing one."""
        self.absorbing = self.states.size
        """Index of the state after the end of an episode."""
        self.scale = RewardScale(binarize)
        self.last_return: float | None = None
        """Sum of the last episode's rewards as the environment gave them."""
        self.last_length: int | None = None
        """Number of steps of the last episode in the environment."""
        self._rng = _random.generator(seed, "player")
        self._seed = None if seed is None else int(self._rng.integers(2**31))

    def play(self, policy: ArrayLike) -> Trajectory:
        """Play one episode and return it; its h + 1 states include the one after the last step."""
        choices = self._checked(policy)
        states = np.full(self.horizon + 1, self.absorbing)
        actions, rewards = choices[:, self.absorbing].copy(), np.zeros(self.horizon)
        observation, _ = self.env.reset(seed=self._seed)
        self._seed = None
        total, n_steps, terminated, truncated = 0.0, 0, False, False
        while not terminated and not truncated and n_steps < self.horizon:
            x = self.states.index(observation)
            a = int(choices[n_steps, x])
            taken = self.actions.element(a)
            observation, reward, terminated, truncated, _ = self.env.step(taken)
            states[n_steps], actions[n_steps] = x, a
            rewards[n_steps] = self.scale.draw(reward, self._rng)
            total += float(reward)
            n_steps += 1
        self.last_return, self.last_length = total, n_steps
        if terminated:
            for i in range(n_steps, self.horizon):
                rewards[i] = self.scale.draw(0.0, self._rng)
            return Trajectory(states, actions, rewards)
        states[n_steps] = self.states.index(observation)
        return Trajectory(states, actions, rewards, None if n_steps == self.horizon else n_steps)

    def uniform_prior(self) -> MixturePrior:
        """Return the prior of PSRL: one component that knows only the absorbing state.

        Every first state of the environment is equally likely.
        """
        flat = TabularMDP.uniform(self.n_states, self.n_actions, self.horizon)
        first = np.append(np.full(self.states.size, 1 / self.states.size), 0.0)
        return MixturePrior(self._absorbed(flat.reward, flat.transition, first))

    def with_absorbing(self, prior: MixturePrior) -> MixturePrior:
        """Return a prior over the environment's own states with the absorbing state added.

        For environments that never terminate, such as those of mixts: no state leads to it.
        """
        family, own = prior.family, (self.states.size, self.n_actions, self.horizon)
        if not family.plans or own != (*family.statistics_shape, family.settings()["horizon"]):
            raise ParameterError(
                f"expected a prior of a TabularMDP of {own[0]} states, {own[1]} actions and "
                f"horizon {own[2]}, got {family!r}"
            )
        arrays = family.arrays()
        reward = np.pad(arrays["reward"], [(0, 0), (0, 1), (0, 0), (0, 0)])
        transition = np.pad(arrays["transition"], [(0, 0), (0, 1), (0, 0), (0, 1)])
        added = self._absorbed(reward, transition, np.append(arrays["initial"], 0.0))
        return MixturePrior(added, prior.weights, prior.names, kinds=prior.kinds)

    def _absorbed(self, reward: Array, transition: Array, initial: Array) -> TabularMDP:
        """Return counts in which the last state is known to stay and to give reward 0."""
        reward, transition = reward.copy(), transition.copy()
        zero = self.scale.mean(0.0)
        reward[:, self.absorbing] = KNOWN * zero, KNOWN * (1 - zero)
        transition[:, self.absorbing] = 0.0
        transition[:, self.absorbing, :, self.absorbing] = KNOWN
        return TabularMDP(reward, transition, self.horizon, initial)

    def model(self) -> MDP:
        """Return the MDP that is played, if the environment shows it: :func:`tabular_model`."""
        return tabular_model(self.env, self.horizon, self.scale.binarize)

    def _checked(self, policy: ArrayLike) -> Int[Array, "h X"]:
        array = checked_policy(policy, self.horizon, self.n_states, self.n_actions, ActionError)
        if array.ndim != 2:
            raise ActionError(f"an episode has one policy (h, X), got shape {array.shape}")
        return array


def tabular_model(
    env: gymnasium.Env[Any, Any],
    horizon: int,
    binarize: tuple[float, float] | None = None,
    initial: ArrayLike | None = None,
) -> MDP:
    """Return the MDP that an :class:`EpisodePlayer` of an environment plays.

    The model is read from ``env.unwrapped.P``, which FrozenLake, CliffWalking and Taxi have:
    ``P[state][action]`` lists (probability, next state, reward, terminated). A transition that
    terminates leads to the absorbing state, the last. A time limit is not part of the model.

    Parameters
    ----------
    env
        The environment.
    horizon
        Number of steps of an episode.
    binarize
        Range of the rewards, as in :class:`RewardScale`.
    initial
        Distribution of the environment's first state; ``env.unwrapped.initial_state_distrib`` if
        None.
    """
    states = Numbering(env.observation_space, "observation")
    actions = Numbering(env.action_space, "action")
    scale = RewardScale(binarize)
    n = states.size + 1
    rewards = np.full((n, actions.size), scale.mean(0.0))
    transitions = np.zeros((n, actions.size, n))
    transitions[-1, :, -1] = 1.0
    table = _attribute(env, "P")
    for x in range(states.size):
        for a in range(actions.size):
            rows = _entry(table, states.element(x), actions.element(a))
            mean = sum(p * scale.mean(reward) for p, _, reward, _ in rows)
            rewards[x, a] = min(1.0, mean)  # probabilities may sum to a little more by rounding
            for p, following, _, terminated in rows:
                transitions[x, a, -1 if terminated else states.index(following)] += p
    first = _attribute(env, "initial_state_distrib") if initial is None else initial
    return MDP(rewards, transitions, horizon, _with_absorbing(first, states.size))


def _attribute(env: gymnasium.Env[Any, Any], name: str) -> Any:
    value = getattr(env.unwrapped, name, None)
    if value is None:
        raise ParameterError(
            f"{env.unwrapped} does not show its model: it has no attribute {name!r}"
            + (", so give initial" if name != "P" else "")
        )
    return value


def _entry(table: Any, state: Any, action: Any) -> Any:
    try:
        return table[state][action]
    except (KeyError, IndexError, TypeError) as error:
        raise ParameterError(
            f"expected P[state][action] for every pair; {state!r} and {action!r} are missing"
        ) from error


def _with_absorbing(initial: ArrayLike, n_states: int) -> Float[Array, " X"]:
    array = np.asarray(initial, float)
    if array.shape != (n_states,):
        raise ParameterError(
            f"initial must be the probabilities of the environment's {n_states} states, got shape "
            f"{array.shape}"
        )
    return np.append(array, 0.0)
