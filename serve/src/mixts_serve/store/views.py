"""What can be read from a store: counts and rows, with times in seconds since 1970."""

from __future__ import annotations

from msgspec import Struct

from mixts_serve.records import Counts


class TaskRow(Counts):
    """A line of the list of tasks."""

    task: str
    latent: int | None
    """Heaviest component of the most probable kind at the last decision; None before the first."""
    certainty: float
    """Probability of the most probable kind."""
    version: int
    """The prior's version at the last decision."""
    first_at: float
    last_at: float


class Among(Struct, frozen=True):
    """Tasks that a list is limited to."""

    version: int
    """Version of the prior at their last decision."""
    components: tuple[int, ...] = ()
    """Components one of which is the heaviest of their most probable kind; empty: any."""
    arm: int | None = None
    """Arm that some decision of theirs took; None: any."""


class DecisionRow(Struct, frozen=True):
    """A decision of a task, and its reward if one came."""

    id: str
    at: float
    action: int
    propensity: float
    weights: tuple[float, ...]
    prior_version: int
    value: float | None
    rewarded_at: float | None
    late: bool
    policy: str
    side: str = ""
    """Side of a trial: "control", "treated" or "canary"; "" without one."""
    is_default: bool = False
    """True if ``value`` is the default reward."""
    late_value: float | None = None
    """The reward that came after the default; None if none came."""
    deferred: bool = False
    activated_at: float | None = None
    """Time at which a deferred decision was activated."""
    due: float | None = None
    """End of the reward window; None if there is no window, or if it has not begun."""
    arm: str | None = None
    """Id of the action, where the request gave one."""


class ActionRow(Struct, frozen=True):
    """Number of times that a task's decisions took an action, and the sum of its rewards."""

    action: int
    decisions: int
    rewards: int
    """Number of rewards of its final decisions."""
    reward_sum: float
    """Sum of these rewards, including late ones."""


class Totals(Counts):
    """Counts of the whole store."""

    tasks: int = 0


class Unrewarded(Struct, frozen=True):
    """Counts of the decisions without a reward."""

    waiting: int
    """Decisions whose reward window is open, or that have no window."""
    deferred: int
    """Deferred decisions that are not activated: their actions were not shown."""
    given_up: int
    """Decisions whose window has ended without a reward, and that have no default reward."""
    due: int
    """Decisions whose window has ended, and whose default reward is about to be written."""


class Activity(Counts):
    """Counts of a span of time that begins at ``start``; empty spans are left out.

    Rewards count when they arrive, so that their sum here would say nothing about the decisions:
    see :class:`SpanEarnings`.
    """

    start: float


class Earnings(Counts):
    """Counts of some decisions, and of the rewards that came for them so far."""

    reward_sum: float = 0.0
    """Sum of the rewards of final decisions, including late ones and defaults, but not those after
    a default. Clicks come before the zeros of the same period: a decision is final when its window
    has ended, whether its reward came or not."""
    reward_squares: float = 0.0
    counted: int = 0
    """Number of the rewards in the sums."""

    @property
    def mean(self) -> float | None:
        """Mean reward of the final decisions; None if there is none."""
        return self.reward_sum / self.counted if self.counted else None

    @property
    def unrewarded(self) -> int:
        """Number of decisions without a reward, whatever the reason."""
        return max(0, self.decisions - self.rewards)


class ArmTraffic(Struct, frozen=True):
    """Decisions that took an arm (None: any arm) in a span of time that begins at ``start``."""

    start: float
    arm: int | None
    decisions: int


class SpanEarnings(Struct, frozen=True):
    """Rewards of the final decisions that were made in a span of time that begins at ``start``."""

    start: float
    rewards: int
    reward_sum: float


class VersionEarnings(Struct, frozen=True):
    """Decisions that a policy made under a version of the prior."""

    version: int
    policy: str
    first_at: float
    last_at: float
    earned: Earnings


class Share(Struct, frozen=True):
    """Tasks with the same ``latent``; None: no decision under this prior yet."""

    latent: int | None
    tasks: int
    sure: int
    """Number of tasks in which the most probable kind had a probability of at least 0.9."""
