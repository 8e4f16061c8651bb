"""Trajectories: observed episodes of an MDP."""

from __future__ import annotations

from typing import Self

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.errors import TrajectoryError


class Trajectory:
    """States, actions and rewards of one episode or many  [paper: Sec. 5].

    Many episodes have their axis first.

    Parameters
    ----------
    states
        (h,), or (h + 1,) with the state after the last step. The paper's history leaves that state
        out; if it is given, one more transition is counted.
    actions, rewards
        (h,) each.
    lengths
        Number of steps that count, for episodes that ended before the horizon and are padded with
        any values; None if all count.

    Examples
    --------
    >>> import mixts
    >>> agent = mixts.MixTS(mixts.RiverSwim(n_states=4, horizon=3).prior, seed=1)
    >>> episode = mixts.Trajectory(states=[2, 3, 3, 2], actions=[1, 1, 0], rewards=[0, 1, 0])
    >>> agent.update(episode)
    >>> episode
    Trajectory(3 steps, return 1)
    """

    def __init__(
        self,
        states: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        lengths: ArrayLike | None = None,
    ) -> None:
        # Copies: callers often reuse the buffers of episodes.
        x = np.array(_checks.integers(states, "states must be integers", TrajectoryError))
        a = np.array(_checks.integers(actions, "actions must be integers", TrajectoryError))
        r = np.array(_checks.numbers(rewards, "rewards must be numbers", TrajectoryError))
        good = a.ndim in (1, 2) and r.shape == a.shape and x.ndim == a.ndim
        if (
            not good
            or x.shape[:-1] != a.shape[:-1]
            or x.shape[-1] - a.shape[-1] not in (0, 1)
            or a.shape[-1] == 0
        ):
            raise TrajectoryError(
                "an episode of h steps has states (h,) or (h + 1,), actions (h,) and rewards (h,), "
                "and several episodes have one more axis, first; got shapes "
                f"{x.shape}, {a.shape} and {r.shape}"
            )
        self.states: Int[Array, "... i"] = x
        self.actions: Int[Array, "... h"] = a
        self.rewards: Float[Array, "... h"] = r
        self.lengths: Int[Array, "..."] | None = None
        if lengths is not None:
            self.lengths = self._checked_lengths(lengths)

    @classmethod
    def of_checked(cls, states: Array, actions: Array, rewards: Array) -> Self:
        """Return the trajectory of fresh arrays, without checks and copies.

        Parameters
        ----------
        states, actions, rewards
            Arrays as for the constructor.

        Returns
        -------
        Trajectory
            The trajectory.
        """
        trajectory = cls.__new__(cls)
        trajectory.states, trajectory.actions, trajectory.rewards = states, actions, rewards
        trajectory.lengths = None
        return trajectory

    def _checked_lengths(self, lengths: ArrayLike) -> Int[Array, "..."]:
        n, steps = self.actions.shape[:-1], self.n_steps
        expected = f"lengths must be whole numbers from 0 to {steps}, of shape {n}"
        array = np.array(_checks.integers(lengths, expected, TrajectoryError))
        if array.shape != n or (array.size and (array.min() < 0 or array.max() > steps)):
            raise TrajectoryError(f"{expected}, got {lengths!r}")
        return array

    @property
    def n_steps(self) -> int:
        """Number of steps of the arrays."""
        return self.actions.shape[-1]

    @property
    def single(self) -> bool:
        """Whether this is one episode without an axis for episodes."""
        return self.actions.ndim == 1

    @property
    def returns(self) -> Float[Array, "..."]:
        """Sum of each episode's rewards over the steps that count."""
        if self.lengths is None:
            return np.asarray(self.rewards.sum(axis=-1))
        counts = np.arange(self.n_steps) < self.lengths[..., None]
        return np.asarray(np.where(counts, self.rewards, 0.0).sum(axis=-1))

    def __repr__(self) -> str:
        if self.single:
            return f"Trajectory({self.n_steps} steps, return {self.returns:.4g})"
        n = len(self.actions)
        mean = f", mean return {np.mean(self.returns):.4g}" if n else ""
        return f"Trajectory({n} episodes, {self.n_steps} steps{mean})"
