"""What becomes of silence: the reward window, the default reward and the delay of clicks."""

from __future__ import annotations

import logging
import math

import numpy as np
from msgspec import Struct

from mixts.agents.rehearsal import example_of, rehearse, some_actions
from mixts.errors import MixtsError, ParameterError
from mixts.prior import MixturePrior
from mixts.service.policy import Policy
from mixts.service.posteriors import action_posteriors
from mixts.service.versions import StatisticsCodec, check_default

log = logging.getLogger("mixts.service")


class Rules(Struct, frozen=True):
    """Settings of the decider that every batch follows."""

    policy: Policy
    window_us: int | None = None
    """Microseconds after a decision in which its reward is on time; None: always."""
    default_reward: float | None = None
    """Reward of a decision if no other comes within the window; None: there is none."""
    click_delay_us: float | None = None
    """Mean delay of a click; None: silence within the window says nothing."""

    @classmethod
    def checked(
        cls,
        policy: Policy,
        reward_window: float | None = None,
        default_reward: float | None = None,
        click_delay: float | None = None,
    ) -> Rules:
        """Return the settings, from times in seconds; raise ``ParameterError`` for wrong ones."""
        window = _seconds(reward_window, "reward_window")
        if default_reward is not None:
            default_reward = _default(default_reward)
            if window is None:
                raise ParameterError(
                    "default_reward needs a reward_window, after which silence counts: give both, "
                    "such as reward_window=1800 (mixts serve --reward-window 30m)"
                )
        delay = _seconds(click_delay, "click_delay")
        if delay is not None and default_reward != 0:
            raise ParameterError(
                "click_delay needs the default reward 0, which says that silence means no click: "
                "give both, such as default_reward=0 and reward_window=1800 (mixts serve "
                "--default-reward 0 --reward-window 30m)"
            )
        return cls(
            policy, None if window is None else int(window * 1e6), default_reward,
            None if delay is None else delay * 1e6,
        )  # fmt: skip

    def check(self, prior: MixturePrior) -> None:
        """Raise ``ParameterError`` for a prior that these settings do not fit."""
        check_default(prior, self.default_reward)
        if self.click_delay_us is not None:
            prior.family.check_clicks()

    def rehearse(self, prior: MixturePrior) -> None:
        """Compile, or load, all that operations with a prior may need, so that no client waits."""
        example = example_of(prior)
        codec, policy = StatisticsCodec(example.family), self.policy
        tasks = codec.decode([b""])
        try:
            with np.errstate(all="ignore"):
                rehearse(
                    example, lambda tasks: policy.resume(example, tasks, 0), tasks, policy.floor,
                    clicks=self.click_delay_us is not None,
                )  # fmt: skip
                codec.encode(tasks)
                action_posteriors(example.condition(tasks), some_actions(example), None)
        except (MixtsError, ZeroDivisionError) as error:
            log.warning("the first requests will be slow: %s", error)

    @property
    def uses_waiting(self) -> bool:
        """Whether decisions depend on earlier ones whose rewards have not come."""
        return self.policy.uses_waiting or self.click_delay_us is not None

    def arrived(self, age: int) -> float:
        """Return the probability that a click has come by now, if it comes within the window.

        Delays are exponential. At the end of the window the probability is 1: silence then says as
        much as the default reward that follows.
        """
        assert self.click_delay_us is not None
        assert self.window_us is not None
        age = min(max(age, 0), self.window_us)
        return math.expm1(-age / self.click_delay_us) / math.expm1(
            -self.window_us / self.click_delay_us
        )

    def due(self, start: int) -> int | None:
        """Return the end of a window that begins at ``start``, or None if there is no window."""
        return None if self.window_us is None else start + self.window_us


def _seconds(given: float | None, name: str) -> float | None:
    """Return a time, or raise ``ParameterError`` if it is none."""
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if given is not None and (not number or not 0 < given < 1e9):
        raise ParameterError(f"{name} must be seconds above 0, got {given!r}")
    return given


def _default(given: float) -> float:
    number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if not number or not math.isfinite(given):
        raise ParameterError(f"default_reward must be a finite number, got {given!r}")
    return float(given) + 0.0  # -0.0 is stored as 0.0
