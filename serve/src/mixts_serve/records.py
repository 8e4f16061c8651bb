"""Records of the decision service: the same values on the wire, in process and in the store.

Requests and responses are encoded to JSON as they are; msgspec checks the types of a request when
it decodes it, and nothing when Python code makes one, so arrays may be numpy's in process. Rows are
what a transaction reads and writes: ``store.tables`` makes the tables and the statements of both
databases from their fields. Times in rows are whole microseconds since 1970, and arrays are bytes;
all other times are seconds since 1970.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

from msgspec import Meta, Struct, field

from mixts.errors import MixtsError, OutcomeError, ParameterError
from mixts.extend import checks

MAX_NAME = 256
"""The longest name of a task and the longest key, in characters."""

MOST_METRICS = 20
"""Most metrics that one report may have."""

Name = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_NAME, extra_json_schema={"pattern": "^[^\\u0000]+$"}),
]

# -- requests -------------------------------------------------------------------------------------


if TYPE_CHECKING:  # in process, anything that makes an array or a mapping
    Described: TypeAlias = Any
    Facts: TypeAlias = Any
else:  # on the wire
    Described = dict[str, float | bool | str] | list[float]
    Facts = dict[str, float | bool | str | None] | None


class Offered(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An action that a request offers, with an id and features.

    Parameters
    ----------
    features : dict or list of float
        Values by the names of the prior's features, or a row of numbers.
    id : str, optional
        The caller's id of the action; ids differ within a request.
    score : float, optional
        What another model says of the action, for a prior that learned how much its score counts.
    """

    features: Described
    id: Name | None = None
    score: float | None = None


if TYPE_CHECKING:  # in process, anything that makes an array, or a list of offered actions
    Rows: TypeAlias = Any
    Mask: TypeAlias = Any
    Amounts: TypeAlias = Any
else:  # on the wire
    Rows = list[list[float] | Offered] | None
    Mask = list[bool | Name] | None
    Amounts = list[float] | dict[str, float] | None


class Decide(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request for a decision.

    Parameters
    ----------
    task : str
        The task's name.
    actions : (K, d) array_like or list of Offered, optional
        The feature rows that are offered, or actions with ids and named features; only for linear
        priors, which need them.
    mask : (K,) array_like of bool or list of str, optional
        True where an action is available, or the names of these arms, or the ids of these
        actions; all are, unless given.
    key : str, optional
        Makes the request safe to repeat: the same key for the same task returns the same decision.
    defer : bool
        The action may never be shown: the reward window begins when the decision is activated.
    values, costs : (K,) array_like or dict of str to float, optional
        Maximise value * mean reward - cost; a dictionary has numbers by arm name or id.
    top : int, optional
        Show so many actions, the best first: each is a decision with an id of its own.
    context : dict, optional
        Facts of the person by name, for priors that learned their effects. They are kept with the
        decision. A fact that is left out, or null, is not known; facts may change from decision to
        decision.
    """

    task: Name
    actions: Rows = None
    mask: Mask = None
    key: Name | None = None
    defer: bool = False
    values: Amounts = None
    costs: Amounts = None
    top: int | None = None
    context: Facts = None

    @property
    def is_plain(self) -> bool:
        """Whether the request has no options that its check depends on."""
        return (
            self.actions is None and self.mask is None and self.values is None
            and self.costs is None and self.top is None and self.defer is False
            and self.context is None
        )  # fmt: skip


class MadeDecision(
    Decide, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """A decision that a client made while the service was away, to be logged.

    The fields of ``Decide`` say what the client was asked; ``defer`` and ``top`` must be left out.

    Parameters
    ----------
    id : str
        The client's id of the decision, of 32 hexadecimal digits: the first 12 are the time, in
        milliseconds since 1970. The same decision again, by its id, changes nothing.
    action : int or str
        The arm or the row that was taken, or its name or id.
    probabilities : (K,) array_like, optional
        Probability of each action; None: the action was certain.
    """

    id: Name
    action: int | Name
    probabilities: list[float] | None = None


class Reward(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The reward of a decision, other metrics of it, or both.

    Parameters
    ----------
    decision : str
        The decision's id (``id`` on the wire).
    value : float, optional
        The reward; may be left out if there are metrics.
    metrics : dict of str to float, optional
        Other numbers to watch, such as ``{"returned": 1}``: they are compared between the sides of
        a trial and never learned from. They may come at any time, each once for a decision.
    """

    decision: Name = field(name="id")
    value: float | None = None
    metrics: dict[Name, float] | None = None


class Activate(Struct, frozen=True, forbid_unknown_fields=True):
    """Report that the action of a deferred decision was shown: its reward window begins.

    Parameters
    ----------
    decision : str
        The decision's id (``id`` on the wire).
    """

    decision: Name = field(name="id")


class Expire(Struct, frozen=True):
    """End of a decision's reward window: the decider itself asks for the default reward."""

    decision: str


Operation = Decide | MadeDecision | Reward | Activate | Expire

# -- responses ------------------------------------------------------------------------------------


class Shown(Struct, frozen=True, omit_defaults=True):
    """One of several actions that are shown together; its reward is reported by its id."""

    id: str
    action: int
    propensity: float
    """The probability that this action is among those shown."""
    # A factory: ``omit_defaults`` would leave out the first position.
    position: int = field(default_factory=lambda: 0)
    """Place of the action, from 0."""
    arm: str | None = None


class Decision(Struct, frozen=True, omit_defaults=True):
    """An action for a task, durable before anybody sees it.

    Attributes
    ----------
    id : str
        Id of the decision, by which its reward is reported.
    task : str
        Name of the task.
    action : int
        The arm's index, or the row of the actions that were offered.
    propensity : float
        The probability of this action in the vector that it was drawn from; never 0.
    weights : tuple of float
        P_t(s) of the components when the decision was made.
    prior_version : int
        Version of the prior that decided: the active one, or a canary.
    arm : str or None
        The arm's name, where the prior names its arms; or the id of the action, where it has one.
    repeated : bool
        True for an earlier decision that is returned again because the key is the same.
    policy : str
        Short name of the policy that chose the action, such as "ids".
    deferred : bool
        True if the reward window begins when the decision is activated.
    shown : tuple of Shown
        With ``top``: all actions that are shown, this one first.

    Examples
    --------
    >>> import mixts
    >>> from mixts_serve import Decider, DecisionStore
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(3), arm_names=["a", "b", "c"])
    >>> with DecisionStore("decisions.db") as store, Decider(prior, store) as decider:
    ...     decision = decider.decide("user 17", mask=["b"])
    >>> decision.arm, decision.action, decision.propensity, decision.prior_version
    ('b', 1, 1.0, 1)
    """

    id: str
    task: str
    action: int
    propensity: float
    weights: tuple[float, ...]
    prior_version: int
    arm: str | None = None
    repeated: bool = False
    # A factory: ``omit_defaults`` would leave out a default, and every response names the policy.
    policy: str = field(default_factory=lambda: "ts")
    deferred: bool = False
    shown: tuple[Shown, ...] = ()


class Receipt(Struct, frozen=True, omit_defaults=True):
    """Confirmation that a reward, or an activation, is durable and counted once."""

    duplicate: bool
    """The same reward had come before, or the decision was active already; nothing changed."""
    late: bool = False
    """The reward came after the reward window: it was logged, not learned from."""


class Erased(Struct, frozen=True):
    """Result of erasing tasks; nothing of them is left in the store.

    Attributes
    ----------
    tasks : int
        Number of tasks that were known, and are erased.
    decisions : int
        Number of their decisions that are erased: from the log and, if ``mixts store erase`` got
        an ``--archive``, from its files.
    unknown : int
        Number of names of which the store knows nothing.
    archived : int
        Number of their decisions that were archived and are not erased: they are in files outside
        the store, from which ``mixts store erase --archive`` erases them.
    overwritten : bool
        False if a long read, such as an export, keeps the file's log from being emptied: the
        erased rows cannot be read any more, but their bytes are there until the next erasure.
    """

    tasks: int = 0
    decisions: int = 0
    unknown: int = 0
    archived: int = 0
    overwritten: bool = True

    def __add__(self, other: Erased) -> Erased:
        """Return the sum of the counts."""
        return Erased(
            self.tasks + other.tasks, self.decisions + other.decisions,
            self.unknown + other.unknown, self.archived + other.archived,
            self.overwritten and other.overwritten,
        )  # fmt: skip


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
    defaults: int = 0
    """Number of rewards that are defaults: no other came within the window."""
    deferred: int = 0
    """Number of deferred decisions that are not activated."""
    ids: tuple[str, ...] | None = None
    """Ids of the actions last offered, in the order of ``mean_rewards``."""
    context: dict[str, float | bool | str] = {}
    """Facts of the person that were known when actions were last offered."""


class Pedigree(Struct, frozen=True, omit_defaults=True):
    """Where a version of the prior comes from, if nobody uploaded it.

    Attributes
    ----------
    change : str
        "refit", or "arms" if arms of the parent were added, retired or renamed.
    parent : int
        The version that was active then.
    root : int
        The uploaded version that learning began with, and all its tasks; of "arms" the parent.
    tasks, rewards : int
        Number of tasks of the store that were learned from, and of their rewards.
    last_decision, last_task : int
        Numbers of the last decision and of the last task by then.
    checked_until : int
        Time before which the days' data have passed their check, in microseconds since 1970.
    excluded : tuple of str
        Days that were left out, such as "2026-03-01..2026-03-07".
    root_tasks : float or None
        Number of tasks that the root was counted as; None: as many as it was learned from.
    seed : int
        Seed of the check.
    mixts : str
        The version of mixts.
    promote : str
        Wish for its activation: "refit" (at once), "ask" (by a person), or the evidence that it
        must reach, such as "100".
    asked : float or None
        The window that was asked for, in seconds.
    window : float
        Seconds: only tasks that were no older were learned from; 0: all were.
    kinds, arms, verdict : str
        What became of the kinds and of new arms, and the comparison with the parent, in words.
    canary : float
        Share of the new tasks that are to try it before its activation; 0: none.
    """

    change: str
    parent: int
    root: int
    tasks: int = 0
    rewards: int = 0
    last_decision: int = 0
    last_task: int = 0
    checked_until: int = 0
    excluded: tuple[str, ...] = ()
    root_tasks: float | None = None
    seed: int = 0
    mixts: str = ""
    promote: str = ""
    asked: float | None = None
    window: float = 0.0
    kinds: str = ""
    arms: str = ""
    verdict: str = ""
    canary: float = 0.0

    @property
    def sentence(self) -> str:
        """The pedigree in a line."""
        if self.change == "arms":
            return f"version {self.parent} with other arms"
        without = f", without {', '.join(self.excluded)}" if self.excluded else ""
        which = f"all {self.tasks:,} tasks"
        if self.window:
            which = f"the tasks of {self.window / 86_400:g} days"
        return (
            f"refit of version {self.root} with {which}, up to decision {self.last_decision:,}"
            f"{without}; kinds: {self.kinds}"
        )


class PriorVersion(Struct, frozen=True):
    """A version of the prior in the store."""

    version: int
    uploaded_at: float
    active: bool
    family: str
    n_components: int
    pedigree: Pedigree | None = None
    """Where it comes from; None if it was uploaded."""


class Activation(Struct, frozen=True):
    """A version of the prior, and whether it is the active one."""

    version: int
    active: bool


class ActionPosteriors(Struct, frozen=True):
    """The mean reward of actions under a task's belief."""

    mean: tuple[float, ...]
    low: tuple[float, ...]
    """The 5 % points."""
    high: tuple[float, ...]
    """The 95 % points."""
    indices: tuple[int, ...]
    """The actions, in their order; not all of them if only the best were asked for."""
    n_actions: int
    """Number of all actions."""


class Health(Struct, frozen=True):
    """State of the writer: can the service write decisions?"""

    writable: bool
    reason: str | None
    """Reason why decisions cannot be written; None if they can."""
    pending: int
    """Number of operations that wait for the writer."""
    warning: str | None = None
    """What seems to be wrong with the rewards, such as clicks without silence; else None."""
    prior_alarm: str | None = None
    """How the rewards disagree with the active prior; None if they agree, as far as is known."""


# -- counts ---------------------------------------------------------------------------------------


class Counts(Struct, kw_only=True):
    """Counts of some decisions, and of the rewards that came for them."""

    decisions: int = 0
    rewards: int = 0
    """Number of decisions with a reward, a default one included."""
    late: int = 0
    """Number of rewards that came after the window, beside a default reward or without one."""
    defaults: int = 0
    """Number of default rewards."""
    deferred: int = 0
    """Number of deferred decisions that are not activated."""


COUNTED = Counts.__struct_fields__
"""Names of the counts."""

# -- rows: the fields of a record are the columns of its table ------------------------------------


class Known(Struct, frozen=True, omit_defaults=True):
    """What the pooled effects of offered actions were computed from, beside their features."""

    context: dict[str, float | bool | str] = {}
    """Facts of the person that were known."""
    scores: dict[str, list[float | bool | str]] = {}
    """Scores of all actions, by the name of the score."""


class MetaEntry(Struct, frozen=True):
    """A row of ``meta``: a fact about the whole store."""

    name: str
    value: str


class LoggedPrior(Struct, frozen=True):
    """A row of ``priors``; ``version`` is 0 before the row is inserted."""

    version: int
    digest: bytes
    uploaded_at: int
    family: str
    n_components: int
    body: bytes
    pedigree: str = ""
    """A ``Pedigree`` in JSON; "" if the prior was uploaded."""


class PriorActivation(Struct, frozen=True):
    """A row of ``activations``: from ``at`` on, this version of the prior is active.

    A share below 1 begins a canary: so many of the tasks born from now on are decided by this
    version, the others by the active one. A share of 0 withdraws it.
    """

    version: int
    at: int
    share: float = 1.0
    reason: str = ""
    """Why the service did this by itself, or why a canary was withdrawn; "" if a person did it."""


class Deployment(Struct, frozen=True):
    """The versions of the prior that decide."""

    version: int
    """The active version."""
    canary: int | None = None
    """The version that decides for a share of the new tasks; None without a canary."""
    share: float = 0.0
    """Share of the tasks born since ``since`` that the canary decides."""
    since: int = 0
    """Time at which the canary began, in microseconds since 1970."""


class TaskEntry(Counts):
    """A row of ``tasks``, locked by the transaction that changes it."""

    number: int
    name: str
    first_at: int
    last_at: int
    latent: int | None = None
    certainty: float = 0.0
    version: int = 0
    statistics: bytes = b""


class TaskBase(Counts):
    """A row of ``bases``: the part of a task's counts and statistics that archived rows had."""

    seq: int
    task: int
    statistics: bytes = b""


class Removal(Struct):
    """A row of ``removed``: the rows of a numbered table that were erased or archived.

    They leave gaps in the numbers, and no number is given twice.
    """

    seq: int
    name: str
    """Name of the table."""
    n: int = 0
    """Number of the rows."""
    total: int = 0
    """Sum of their numbers, modulo 2^62."""
    last: int = 0
    """The largest of their numbers."""


class LoggedDecision(Struct, frozen=True):
    """A row of ``decisions``; ``seq`` is 0 before the row is inserted."""

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
    side: str = ""
    """Side of a trial that the task was on: "control", "treated" or "canary"; "" without one."""
    deferred: int = 0
    """1 if the decision was deferred."""
    due: int | None = None
    """End of the reward window; None if there is no window, or if it has not begun."""
    default_reward: float | None = None
    """Reward of the decision if no other comes until ``due``; None: there is none."""
    slate: bytes | None = None
    """Id of the first of the decisions that are shown together; None for one decision alone."""
    position: int = 0
    """Place of the decision in its slate."""
    key: str | None = None
    """Key of the request; of a slate, only the first decision has it."""
    activated_at: int | None = None
    """Time at which a deferred decision was activated; the table ``activated`` has it."""
    probabilities: bytes = b""
    """Probability of each action; in a slate, that the action is shown. Not read again."""
    money: bytes | None = None
    """Values, then costs of all actions; None if the request had neither. Not read again."""

    @property
    def is_active(self) -> bool:
        """True unless the decision is deferred and was not activated."""
        return not self.deferred or self.activated_at is not None

    @property
    def window(self) -> OpenWindow | None:
        """The row of ``open_windows`` that the decision has until its reward comes."""
        if self.due is None:
            return None
        return OpenWindow(int(self.default_reward is not None), self.due, self.seq)


class OpenWindow(NamedTuple):
    """A row of ``open_windows``: a reward window that has begun, of a decision without a reward."""

    has_default: int
    """1 if the decision gets a default reward when the window ends."""
    due: int
    decision: int


class KeyedDecision(LoggedDecision, frozen=True):
    """A decision that was found by the name of its task and its key."""

    task_name: str = ""


class WaitingDecision(NamedTuple):
    """A decision whose reward has not come."""

    seq: int
    task: int
    action: int
    action_set: int | None


class LoggedReward(Struct, frozen=True):
    """A row of ``rewards`` or of ``late_rewards``, which come after the default reward."""

    decision: int
    """``seq`` of the decision."""
    at: int
    value: float
    late: int = 0
    """1 if the reward came too late to be learned from."""
    is_default: int = 0
    """1 if this is the default reward, because no other came within the window."""
    late_value: float | None = None
    """The reward that came after the default; the table ``late_rewards`` has it."""


class LoggedMetric(Struct, frozen=True):
    """A row of ``metrics``: a number that was reported beside the reward of a decision."""

    decision: int
    """``seq`` of the decision."""
    name: str
    at: int
    value: float


class LoggedActivation(Struct, frozen=True):
    """A row of ``activated``: the reward window of a deferred decision begins."""

    decision: int
    at: int
    due: int | None
    default_reward: float | None


class Tally(Counts):
    """A row of ``activity``: what one writer added to the counts in ten seconds."""

    start: int = 0
    writer: str = ""
    """Replicas count apart: none waits for the rows of another."""
    tasks: int = 0


class SpanCount(Counts):
    """A row of ``counts``: decisions of a span of time, and the rewards that came for them."""

    span: int
    """Length of the span."""
    start: int
    arm: int
    """The arm that the decisions took; ``NO_ARM`` for features."""
    version: int
    policy: str
    first_at: int
    last_at: int
    """Times of the first and of the last of the decisions."""
    writer: str = ""
    reward_sum: float = 0.0
    reward_squares: float = 0.0


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


def checked_outcome(given: Any, expected: str) -> float:
    """Return a reward or a metric; raise ``OutcomeError`` unless it is one finite number."""
    value = checks.numbers(given, expected, OutcomeError)
    if value.ndim or not math.isfinite(value):
        raise OutcomeError(f"{expected}, got {given!r}")
    return float(value)


def checked_metrics(report: Reward) -> dict[str, float]:
    """Return the metrics of a report; raise an error for wrong ones, and for an empty report."""
    given = report.metrics
    if given is not None and not isinstance(given, Mapping):
        raise OutcomeError(f"metrics must be numbers by their names, got {given!r}")
    if report.value is None and not given:
        raise OutcomeError("expected a value, metrics or both, got neither")
    if len(given or {}) > MOST_METRICS:
        raise OutcomeError(
            f"a decision has at most {MOST_METRICS} metrics in one report, got {len(given or {})}"
        )
    return {
        checked_name(name, "the name of a metric"): checked_outcome(
            number, f"metric {name!r} must be a finite number"
        )
        for name, number in (given or {}).items()
    }


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
