"""What goes into the decision service and what comes out: plain values, with no behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mixts.errors import MixtsError

# -- what is asked for ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decide:
    """Choose an action for a task.

    ``actions`` are feature rows (K, d) for linear priors and None for arms; ``mask`` is true where
    an action is available. A ``key`` makes the request safe to repeat: the same key for the same
    task returns the same decision.
    """

    task: str
    actions: Any = None
    mask: Any = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Reward:
    """What came of a decision."""

    decision: str
    value: float


Operation = Decide | Reward

# -- what is answered -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decision:
    """An action, and with which probability it was taken; durable before anybody sees it."""

    id: str
    task: str
    action: int
    """The arm's index, or the row of the actions that were offered."""
    propensity: float
    """The probability of this action in the vector that it was drawn from; never 0."""
    weights: tuple[float, ...]
    """P_t(s) of the latent states when it was made."""
    prior_version: int
    arm: str | None = None
    """The arm's name, where the prior names its arms."""
    repeated: bool = False
    """Whether this is an earlier decision, returned again for its key."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """A reward is durable, and counted once."""

    duplicate: bool
    """The same reward had come before; nothing changed."""
    late: bool = False
    """It came after the window: logged, not learned from."""


Result = Decision | Receipt | MixtsError

# -- what can be read -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskState:
    """What is known and believed of one task."""

    task: str
    decisions: int
    rewards: int
    late: int
    weights: tuple[float, ...]
    """P_t(s) under the active prior."""
    mean_rewards: tuple[float, ...]
    """Of each arm under the mixture; linear: of the actions last offered, empty before any."""
    prior_version: int


@dataclass(frozen=True, slots=True)
class ActionPosteriors:
    """The mean reward of each action under a task's belief."""

    mean: tuple[float, ...]
    low: tuple[float, ...]
    """The 5 % points."""
    high: tuple[float, ...]
    """The 95 % points."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A line of the list of tasks; times are seconds since 1970."""

    task: str
    decisions: int
    rewards: int
    late: int
    latent: int | None
    """The likeliest latent state at the last decision, None before any."""
    certainty: float
    """Its weight."""
    version: int
    """The prior's version at the last decision."""
    first_at: float
    last_at: float


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A decision of a task, and its reward if it came."""

    id: str
    at: float
    action: int
    propensity: float
    weights: tuple[float, ...]
    prior_version: int
    value: float | None
    rewarded_at: float | None
    late: bool


@dataclass(frozen=True, slots=True)
class ActionRow:
    """How often a task's decisions took an action, and what came of it."""

    action: int
    decisions: int
    rewards: int
    reward_sum: float
    """Late ones included."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Of the whole store."""

    tasks: int
    decisions: int
    rewards: int
    late: int


@dataclass(frozen=True, slots=True)
class Activity:
    """What happened in a span of time that begins at ``start``; empty spans are left out."""

    start: float
    decisions: int
    rewards: int
    reward_sum: float
    """Of the rewards that came in this span, late ones included."""
    late: int


@dataclass(frozen=True, slots=True)
class Share:
    """Tasks whose likeliest latent state this is; None: not decided for under this prior yet."""

    latent: int | None
    tasks: int
    sure: int
    """Those of them whose weight was at least 0.9."""


@dataclass(frozen=True, slots=True)
class PriorRow:
    """A version of the prior in the store."""

    version: int
    uploaded_at: float
    active: bool
    family: str
    n_components: int


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the service can do its work."""

    writable: bool
    reason: str | None
    """Why not."""
    pending: int
    """Operations that wait for the writer."""
