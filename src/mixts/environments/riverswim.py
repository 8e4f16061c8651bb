"""RiverSwim: a chain of states, and a current that is to the left or to the right."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from mixts import _checks
from mixts.environments.mdp import MDPEnvironment
from mixts.errors import ParameterError
from mixts.families.tabular import TabularMDP
from mixts.planning import MDP
from mixts.prior import MixturePrior

Current = Literal["left", "right"]
CURRENTS: tuple[Current, ...] = get_args(Current)
"""The two latent states, in order; the actions, to swim left or right, have the same order."""

FORWARD, STAY, BACK = 0.35, 0.6, 0.05
"""Probabilities of swimming against the current, away from both ends."""
SMALL_REWARD, LARGE_REWARD = 0.005, 0.9
"""Mean rewards: with the current at its end, and against it at the other end."""


def mean_mdp(n_states: int, current: Current, horizon: int, start: int) -> MDP:
    """Return the MDP of the figure, for any number of states  [paper: Fig. 2].

    With the current to the left, swimming left always succeeds; swimming right moves 0.35 forward,
    stays 0.6, falls 0.05 back; at the first state 0.4 forward and 0.6 stay, at the last 0.6 stay
    and 0.4 back. Swimming left at the first state gives 0.005, right at the last 0.9. The other
    current is the mirror image.
    """
    if current not in CURRENTS:
        raise ParameterError(f"current must be 'left' or 'right', got {current!r}")
    rewards = np.zeros((n_states, 2))
    transitions = np.zeros((n_states, 2, n_states))
    states = np.arange(n_states)
    transitions[states, 0, np.maximum(states - 1, 0)] = 1.0
    inner = states[1:-1]
    transitions[inner, 1, inner + 1] = FORWARD
    transitions[inner, 1, inner] = STAY
    transitions[inner, 1, inner - 1] = BACK
    transitions[0, 1, [0, 1]] = STAY, 1 - STAY
    transitions[-1, 1, [-1, -2]] = STAY, 1 - STAY
    rewards[0, 0], rewards[-1, 1] = SMALL_REWARD, LARGE_REWARD
    if current == "right":
        rewards, transitions = rewards[::-1, ::-1], transitions[::-1, ::-1, ::-1]
    return MDP(rewards, transitions, horizon, start)


class RiverSwim(MDPEnvironment):
    """Swim against a current of unknown direction to a large reward  [paper: Sec. 6.3].

    Tasks are MDPs around the figure's, drawn from :attr:`prior`, which has one component for each
    current.

    Parameters
    ----------
    n_states
        Number of states.
    current
        "left", "right", or None: then each run draws its current, with equal probability.
    horizon
        Steps of an episode.
    strength
        The prior's total count for each pair of state and action.
    start
        First state of an episode; by default the middle, or with an even number of states the one
        right of it.
    last_state
        As in :class:`MDPEnvironment`.

    Examples
    --------
    >>> import mixts
    >>> river = mixts.RiverSwim(n_states=10, horizon=20)
    >>> river.prior.names
    ('left', 'right')
    >>> agent = mixts.MixTS(river.prior, seed=1)
    >>> agent.act().shape
    (20, 10)
    """

    prior: MixturePrior
    """Both currents with equal weights, even if all tasks have the same current."""

    def __init__(
        self,
        n_states: int = 10,
        current: Current | None = None,
        *,
        horizon: int = 20,
        strength: float = 30.0,
        start: int | None = None,
        last_state: bool = True,
    ) -> None:
        self.n_states = _checks.count(n_states, "n_states", least=2)
        if current is not None and current not in CURRENTS:
            raise ParameterError(f"current must be 'left', 'right' or None, got {current!r}")
        self.current: Current | None = current
        self.horizon = _checks.count(horizon, "horizon")
        self.strength = _checks.positive_number(strength, "strength")
        self.start_state = (
            n_states // 2 if start is None else _checks.count(start, "start", least=0)
        )
        if self.start_state >= self.n_states:
            raise ParameterError(f"start must be a state below {n_states}, got {start}")
        means = MDP.stack([self.mean_mdp(c) for c in CURRENTS])
        both = TabularMDP.from_means(means, self.strength)
        super().__init__(MixturePrior(both, names=CURRENTS), last_state=last_state)

    def mean_mdp(self, current: Current) -> MDP:
        """Return the mean MDP under one current.

        Parameters
        ----------
        current
            "left" or "right".

        Returns
        -------
        MDP
            The MDP.
        """
        return mean_mdp(self.n_states, current, self.horizon, self.start_state)

    def __repr__(self) -> str:
        current = "either" if self.current is None else self.current
        return (
            f"RiverSwim({self.n_states} states, current {current}, horizon {self.horizon}, "
            f"strength {self.strength:g})"
        )

    def _tasks(self) -> MixturePrior:
        if self.current is None:
            return self.prior
        weights = [float(current == self.current) for current in CURRENTS]
        return MixturePrior(self.prior.family, weights, CURRENTS)
