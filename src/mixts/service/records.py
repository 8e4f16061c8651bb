"""Records of the decision service: the same values on the wire, in process and in the store.

Requests and responses are encoded to JSON as they are; msgspec checks the types of a request when
it decodes it, and nothing when Python code makes one, so arrays may be numpy's in process. The
rows are what a transaction reads and writes; times in them are whole microseconds since 1970, and
arrays are bytes. All other times are seconds since 1970.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

from mixts.errors import MissingExtraError, MixtsError, ParameterError

try:
    from msgspec import Meta, Struct, field
except ImportError as error:  # pragma: no cover - the extra is always there in tests
    raise MissingExtraError(
        "the decision service needs msgspec: pip install 'mixts[serve]', or 'mixts[client]' for "
        "a client alone"
    ) from error

MAX_NAME = 256
"""The longest name of a task and the longest key, in characters."""

FIRST_POLICY = "ts"
"""Policy of decisions from before there was a choice: Thompson sampling."""

Name = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_NAME, extra_json_schema={"pattern": "^[^\\u0000]+$"}),
]

if TYPE_CHECKING:  # in process, anything that makes an array
    Rows: TypeAlias = Any
    Mask: TypeAlias = Any
else:  # on the wire
    Rows = list[list[float]] | None
    Mask = list[bool] | None

# -- requests -------------------------------------------------------------------------------------


class Decide(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request for a decision.

    Parameters
    ----------
    task : str
        The task's name.
    actions : (K, d) array_like, optional
        The feature rows that are offered; only for linear priors, which need them.
    mask : (K,) array_like of bool, optional
        True where an action is available; all are, unless given.
    key : str, optional
        Makes the request safe to repeat: the same key for the same task returns the same decision.
    """

    task: Name
    actions: Rows = None
    mask: Mask = None
    key: Name | None = None


class Reward(Struct, frozen=True, forbid_unknown_fields=True):
    """The reward of a decision.

    Parameters
    ----------
    decision : str
        The decision's id (``id`` on the wire).
    value : float
        The reward.
    """

    decision: Name = field(name="id")
    value: float


Operation = Decide | Reward

# -- responses ------------------------------------------------------------------------------------


class Decision(Struct, frozen=True, omit_defaults=True):
    """An action for a task, durable before anybody sees it."""

    id: str
    task: str
    action: int
    """The arm's index, or the row of the actions that were offered."""
    propensity: float
    """The probability of this action in the vector that it was drawn from; never 0."""
    weights: tuple[float, ...]
    """P_t(s) of the components when the decision was made."""
    prior_version: int
    arm: str | None = None
    """The arm's name, where the prior names its arms."""
    repeated: bool = False
    """True for an earlier decision that is returned again because the key is the same."""
    # A factory: ``omit_defaults`` would leave out a default, and every response names the policy.
    policy: str = field(default_factory=lambda: FIRST_POLICY)
    """Short name of the policy that chose the action, such as "ids"."""


class Receipt(Struct, frozen=True, omit_defaults=True):
    """Confirmation that a reward is durable, and counted once."""

    duplicate: bool
    """The same reward had come before; nothing changed."""
    late: bool = False
    """The reward came after the reward window: it was logged, not learned from."""


Result = Decision | Receipt | MixtsError


class TaskState(Struct, frozen=True, omit_defaults=True):
    """Counts and belief of one task."""

    task: str
    decisions: int
    rewards: int
    late: int
    weights: tuple[float, ...]
    """P_t(s) under the active prior."""
    mean_rewards: tuple[float, ...]
    """Mean reward of each arm under the mixture; linear: of the actions last offered, empty before
    any."""
    prior_version: int
    names: tuple[str, ...] | None = None
    """Names of the components, where the prior has them."""


class PriorVersion(Struct, frozen=True):
    """A version of the prior in the store."""

    version: int
    uploaded_at: float
    active: bool
    family: str
    n_components: int


class ActionPosteriors(Struct, frozen=True):
    """The mean reward of each action under a task's belief."""

    mean: tuple[float, ...]
    low: tuple[float, ...]
    """The 5 % points."""
    high: tuple[float, ...]
    """The 95 % points."""


class Health(Struct, frozen=True):
    """State of the writer: can the service write decisions?"""

    writable: bool
    reason: str | None
    """Reason why decisions cannot be written; None if they can."""
    pending: int
    """Number of operations that wait for the writer."""


# -- rows that a transaction reads and writes -----------------------------------------------------


class TaskEntry(Struct):
    """A row of ``tasks``, locked by the transaction that changes it."""

    number: int
    name: str
    decisions: int
    rewards: int
    late: int
    latent: int | None
    certainty: float
    version: int
    first_at: int
    last_at: int
    statistics: bytes


class LoggedDecision(Struct, frozen=True):
    """A row of ``decisions``; ``seq`` is 0 before the row is inserted.

    Rewards and retries do not need ``key`` and ``probabilities``: they are not read again.
    """

    seq: int
    id: bytes
    task: int
    at: int
    version: int
    action: int
    propensity: float
    weights: bytes
    request: bytes | None
    """Digest of the actions and the mask that a key stands for."""
    action_set: int | None
    policy: str
    key: str | None = None
    probabilities: bytes = b""


class WaitingDecision(NamedTuple):
    """A decision whose reward has not come."""

    seq: int
    task: int
    action: int
    action_set: int | None


class LoggedReward(Struct, frozen=True):
    """A row of ``rewards``."""

    decision: int
    """``seq`` of the decision."""
    at: int
    value: float
    late: int
    """1 if the reward came too late to be learned from."""


class Tally(Struct):
    """Counts that a batch adds to its span of time in ``activity``."""

    tasks: int = 0
    decisions: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    late: int = 0


# -- what can be read from a store ----------------------------------------------------------------


class TaskRow(Struct, frozen=True):
    """A line of the list of tasks."""

    task: str
    decisions: int
    rewards: int
    late: int
    latent: int | None
    """The most probable component at the last decision; None before the first decision."""
    certainty: float
    """Weight of the most probable component."""
    version: int
    """The prior's version at the last decision."""
    first_at: float
    last_at: float


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


class ActionRow(Struct, frozen=True):
    """Number of times that a task's decisions took an action, and the sum of its rewards."""

    action: int
    decisions: int
    rewards: int
    reward_sum: float
    """Sum of all rewards, including late ones."""


class Totals(Struct, frozen=True):
    """Counts of the whole store."""

    tasks: int
    decisions: int
    rewards: int
    late: int


class Activity(Struct, frozen=True):
    """Counts of a span of time that begins at ``start``; empty spans are left out."""

    start: float
    decisions: int
    rewards: int
    reward_sum: float
    """Sum of the rewards that arrived in this span, including late ones."""
    late: int


class Share(Struct, frozen=True):
    """Tasks with the same most probable component; None: no decision under this prior yet."""

    latent: int | None
    tasks: int
    sure: int
    """Number of tasks in which that component's weight was at least 0.9."""


# -- names ----------------------------------------------------------------------------------------


def checked_name(name: object, what: str) -> str:
    """Return a name, or raise ``ParameterError`` if some database could not store it."""
    if not isinstance(name, str):
        raise ParameterError(f"{what} must be a string, got {name!r}")
    if not 0 < len(name) <= MAX_NAME:
        raise ParameterError(f"{what} must have 1 to {MAX_NAME} characters, got {len(name)}")
    if "\0" in name or not (name.isascii() or _is_text(name)):
        raise ParameterError(f"{what} must not contain NUL or half of a surrogate pair: {name!r}")
    return name


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
