"""MDPs drawn from a prior, played an episode at a time; RiverSwim, a chain of states."""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

import numpy as np

from mixts import _checks, _program
from mixts._typing import Array, Float, Int
from mixts.environments.base import Choices, Environment, Outcome, Problem, Streams
from mixts.errors import ActionError, ParameterError
from mixts.families.tabular import TabularMDP
from mixts.families.trajectory import Trajectory
from mixts.planning import MDP, shaped_policy
from mixts.prior import MixturePrior


class MDPEnvironment(Environment):
    """MDPs whose latent state and parameters are drawn from ``prior``  [paper: Sec. 5].

    A round is an episode: agents choose a policy (h, X) for each run, and learn from its
    trajectory. The true value of a policy is computed exactly, never sampled.

    Parameters
    ----------
    prior
        A prior of :class:`TabularMDP`.
    last_state
        Whether trajectories include the state after the last step; the paper's history does not.

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.RiverSwim(n_states=4, horizon=8).prior
    >>> environment = mixts.MDPEnvironment(prior)
    >>> results = mixts.simulate({"MixTS": prior}, environment, n_rounds=5, n_runs=3, seed=1)
    >>> results.reward["MixTS"].shape
    (3, 5)
    """

    def __init__(self, prior: MixturePrior, *, last_state: bool = True) -> None:
        if not isinstance(prior, MixturePrior) or not prior.family.plans:
            raise ParameterError(f"prior must be a MixturePrior of a TabularMDP, got {prior!r}")
        self.prior = prior
        self.family = cast(TabularMDP, prior.family)
        self.last_state = bool(last_state)

    def __repr__(self) -> str:
        return f"MDPEnvironment({self.family!r})"

    @property
    def task_bytes(self) -> int:
        return self.family.task_bytes

    def start(self, streams: Streams, n_tasks: int) -> MDPProblem:
        """Draw MDPs from the prior; episodes have a stream of their own."""
        latent, parameters = self._tasks().draw(streams("tasks"), n_tasks)
        mdps = self.family.mdp(parameters)
        return MDPProblem(latent, mdps, streams("episodes"), self.last_state)

    def _tasks(self) -> MixturePrior:
        """Return the distribution of tasks."""
        return self.prior


class MDPProblem(Problem):
    """One MDP for each run."""

    def __init__(
        self,
        latent: Int[Array, " n"],
        mdps: MDP,
        rng: np.random.Generator,
        last_state: bool = True,
    ) -> None:
        self.latent = latent
        self.mdps = mdps
        self._rng = rng
        self._last_state = last_state
        self._shape = len(mdps), mdps.horizon, mdps.n_states
        self._ones = np.ones(mdps.horizon)
        self.best_policy = mdps.plan().policy
        """pi*, the best policy of each run."""
        self._best = mdps.value(self.best_policy)

    def next_round(self) -> Choices:
        return Choices()

    def play(self, chosen: Any) -> Outcome:
        """Play an episode of each run, and compute the exact value of its policy."""
        mdps = self.mdps
        policy = self._shaped(chosen)
        try:  # before the policies are followed: this finds actions that do not exist
            values = mdps.values_of(policy)[:, 0].dot(mdps.initial)
        except ParameterError as error:
            raise self._refused(error) from error
        uniform = self._rng.random((self._shape[0], 2 * mdps.horizon + 1))
        trajectory = play_episodes(mdps, mdps.initial, policy, uniform, self._last_state)
        # A product sums few numbers faster than a reduction; sums of zeros and ones are exact.
        return Outcome((trajectory,), trajectory.rewards.dot(self._ones), values, self._best)

    def _shaped(self, chosen: Any) -> Int[Array, "n h X"]:
        """Return a policy for each run; one policy may serve all of them."""
        mdps, shape = self.mdps, self._shape
        try:
            policy = shaped_policy(chosen, mdps.horizon, mdps.n_states, mdps.n_actions)
        except ParameterError as error:
            raise self._refused(error) from error
        if policy.ndim == 2:
            one = policy[None]
            policy = one if shape[0] == 1 else np.array(np.broadcast_to(one, shape), order="C")
        if policy.shape != shape:
            raise self._refused(f"got {policy.shape}")
        return policy

    def _refused(self, reason: Any) -> ActionError:
        return ActionError(f"act must choose policies of shape {self._shape}: {reason}")


def play_episodes(
    mdps: MDP,
    initial: Float[Array, " X"],
    policy: Int[Array, "n h X"],
    uniform: Float[Array, "n k"],
    last_state: bool = True,
) -> Trajectory:
    """Play an episode of each MDP under its policy, from 2 h + 1 uniform numbers.

    These decide about the first state, then about reward and next state of each step.
    """
    n, horizon = policy.shape[:2]
    states = np.empty((n, horizon + last_state), np.int64)
    actions, rewards = np.empty((n, horizon), np.int64), np.empty((n, horizon))
    if _program.core is not None:
        _program.core.play_episodes(
            mdps.rows, initial, policy, uniform, states, actions, rewards, mdps.n_actions
        )
        return Trajectory.of_checked(states, actions, rewards)
    run, means, rows = np.arange(n), mdps.rewards, mdps.transitions
    x = _entries(np.broadcast_to(initial, (n, len(initial))), uniform[:, 0])
    for i in range(horizon):
        states[:, i] = x
        actions[:, i] = policy[run, i, x]
        pair = run, x, actions[:, i]
        rewards[:, i] = uniform[:, 2 * i + 1] < means[pair]
        x = _entries(rows[pair], uniform[:, 2 * i + 2])
    if last_state:
        states[:, horizon] = x
    return Trajectory.of_checked(states, actions, rewards)


def _entries(probabilities: Float[Array, "n X"], uniform: Float[Array, " n"]) -> Int[Array, " n"]:
    """Return the entry of each row in which a uniform number falls; never one of probability zero.

    Rounding may leave a remainder at the end: then the last possible entry is taken.
    """
    rest = np.subtract.accumulate(np.column_stack([uniform, probabilities]), axis=1)[:, 1:]
    last = probabilities.shape[1] - 1 - (probabilities[:, ::-1] > 0).argmax(axis=1)
    return np.where((rest < 0).any(axis=1), (rest < 0).argmax(axis=1), last)


# -- RiverSwim ------------------------------------------------------------------------------------

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
