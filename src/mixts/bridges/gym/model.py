"""The model of an environment that shows it: gymnasium's toy-text convention."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from mixts._typing import Array, ArrayLike, Float
from mixts.bridges.gym.rewards import RewardScale
from mixts.bridges.gym.spaces import Numbering
from mixts.errors import ParameterError
from mixts.planning import MDP


def tabular_model(
    env: gymnasium.Env[Any, Any],
    horizon: int,
    binarize: tuple[float, float] | None = None,
    initial: ArrayLike | None = None,
) -> MDP:
    """The MDP that an :class:`EpisodePlayer` of this environment plays, with its absorbing state.

    Reads ``env.unwrapped.P``, as FrozenLake, CliffWalking and Taxi have it: ``P[state][action]``
    lists (probability, next state, reward, terminated). Where a transition terminates, its next
    state is the absorbing one, the last. ``initial`` is the distribution of the environment's first
    state; without it ``env.unwrapped.initial_state_distrib`` is read. A time limit is no part of
    the model.
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
