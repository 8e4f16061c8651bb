"""A batch of operations: reads, learns, decides and logs, in one transaction.

A batch first learns from its rewards (``outcomes``), then makes its decisions, so that decisions
use as many rewards as possible. Any other order would also be correct: all operations of a batch
were submitted before any of them had a result.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from mixts import _checks
from mixts._typing import Array, Bool, Float
from mixts.agents import BeliefAgent
from mixts.agents.belief import exhausted
from mixts.agents.offers import checked_money, checked_top
from mixts.errors import (
    ActionError,
    ConflictError,
    MaskError,
    MixtsError,
    ParameterError,
    StatisticsError,
    TaskLockedError,
)
from mixts.families import Pending, Statistics
from mixts.families.linear_statistics import check_rows
from mixts.prior import MixturePrior
from mixts.service.aside import Aside, Choice, MoreWorkError
from mixts.service.locked import (
    MOST_WAITING,
    LockedTasks,
    WaitingActions,
    taken,
    task_locked,
)
from mixts.service.offers import (
    Ids,
    has_names,
    is_named,
    named_mask,
    names_digest,
    offered_actions,
)
from mixts.service.outcomes import Outcomes
from mixts.service.policy import Policy
from mixts.service.records import (
    Changes,
    Decide,
    Decision,
    LoggedDecision,
    Operation,
    Result,
    Shown,
    TaskEntry,
    checked_name,
)
from mixts.service.rules import Rules
from mixts.service.store.base import (
    ActionSet,
    Transaction,
    TransactionConflictError,
    find_features,
    pack,
    pack_law,
    unpack,
)
from mixts.service.versions import ActivePrior
from mixts.service.writer import LOOP_SIZE

Key = tuple[str, str]
"""A task's name, and the key that identifies a request of this task."""

_FOREVER = 2**61
"""A window longer than any time, in microseconds."""


class CheckedDecide(Decide, frozen=True, kw_only=True):
    """A checked request: actions and mask are arrays, and ids are beside them."""

    ids: Ids | None


class Batch:
    """The operations of one transaction.

    ``active`` is the active prior; ``load`` returns any version of the prior. A batch with
    ``aside`` has one operation only, whose decision is computed aside. The *place* of an operation
    is its index in the batch.
    """

    def __init__(
        self,
        transaction: Transaction,
        active: ActivePrior,
        load: Callable[[int], ActivePrior],
        rules: Rules,
        rng: np.random.Generator,
        now: int,
        aside: Aside | None = None,
    ) -> None:
        self._transaction = transaction
        self._active = active
        self._load = load
        self._rules = rules
        self._rng = rng
        self._now = now
        self._aside = aside
        self._changes = Changes()
        self._results: dict[int, Result] = {}
        """Results by place."""
        self._outcomes = Outcomes(transaction, rules, now, self._changes, self._results)
        self._taken: dict[str, set[int]] = {}
        """Arms that tasks took before, by name, if each arm is taken at most once."""
        self._digests: dict[int, bytes] = {}
        """Digests of the requests that have a key, by place."""

    def perform(self, operations: Sequence[Operation]) -> list[Result]:
        """Return a result for each operation; a refused operation changes nothing."""
        numbers = self._outcomes.match(operations)
        requests, keys = self._check_requests(operations)
        tasks = self._lock(requests, numbers)
        for place, request in requests.items():
            if not tasks.holds(request.task):
                self._results[place] = task_locked(request.task)
        requests = {place: r for place, r in requests.items() if tasks.holds(r.task)}
        # Search after locking: other writers need the same locks to use these keys or decisions.
        answered = self._transaction.find_keys(keys) if keys else {}
        self._outcomes.perform(tasks)
        self._changes.decisions = self._decide(_without_repeats(requests, answered), tasks)
        self._changes.tasks = tasks.changed()
        if self._changes.tasks:
            self._transaction.add(self._changes, self._now)
        self._answer_retries(operations, answered)
        return [self._results[place] for place in range(len(operations))]

    def _lock(self, requests: dict[int, CheckedDecide], numbers: list[int]) -> LockedTasks:
        """Lock the tasks of all operations: by name, and by number."""
        names = list(dict.fromkeys(request.task for request in requests.values()))
        entries: list[TaskEntry] = []
        if names or numbers:
            entries, n_new = self._transaction.lock_tasks(names, numbers, self._now)
            self._changes.tally.tasks = n_new
            if not self._transaction.is_active(self._active.version):
                # Another replica activated a prior before the tasks were locked: their statistics
                # may have more arms now.
                raise TransactionConflictError("the prior has changed")
        return LockedTasks(entries, self._active)

    # -- decisions ----------------------------------------------------------------------------

    def _check_requests(
        self, operations: Sequence[Operation]
    ) -> tuple[dict[int, CheckedDecide], list[Key]]:
        """Return the valid requests by place, and all keys, which may already have a decision."""
        requests, keys = {}, []
        floor = self._rules.policy.floor
        for place, operation in enumerate(operations):
            if not isinstance(operation, Decide):
                continue
            try:
                task = checked_name(operation.task, "task")
                if operation.key is not None:
                    keys.append((task, checked_name(operation.key, "key")))
                    self._digests[place] = _digest(operation)
                requests[place] = checked_request(operation, self._active.prior, floor)
            except MixtsError as error:
                self._results[place] = error
        return requests, keys

    def _decide(
        self, requests: dict[int, CheckedDecide], tasks: LockedTasks
    ) -> list[LoggedDecision]:
        """Choose the actions, and return the rows to log."""
        requests = self._computable(requests, tasks) if requests else requests
        if not requests:
            return []
        lengths = {request.task: tasks.n_bytes(request.task) for request in requests.values()}
        if self._active.sizes.learn(lengths) > LOOP_SIZE:
            raise MoreWorkError
        if self._aside is not None:
            requests = self._untaken(requests, tasks)
            if not requests:
                return []
            (request,) = requests.values()
            mark = tasks.mark(request.task, self._active.version)
            ask = partial(self._ask, request, tasks)
            choice = self._aside.choice(mark, ask, request.mask)
            new = self._log_group(requests, choice, tasks)
        else:
            new = self._decide_groups(requests, tasks)
        self._changes.tally.decisions += len(new)
        self._changes.tally.deferred += sum(decision.deferred for decision in new)
        return new

    def _computable(
        self, requests: dict[int, CheckedDecide], tasks: LockedTasks
    ) -> dict[int, CheckedDecide]:
        """Refuse the requests of tasks whose history the active prior cannot compute with."""
        family = self._active.prior.family
        row_of, statistics = self._rows(requests.values(), tasks)
        try:
            family.check_statistics(statistics)
            return requests
        except StatisticsError:
            left = {}
            for place, request in requests.items():
                try:
                    family.check_statistics(statistics[[row_of[request.task]]])
                    left[place] = request
                except StatisticsError as error:
                    self._results[place] = error
            return left

    def _decide_groups(
        self, requests: dict[int, CheckedDecide], tasks: LockedTasks
    ) -> list[LoggedDecision]:
        """Decide in this transaction."""
        row_of, statistics = self._rows(requests.values(), tasks)
        policy = self._rules.policy
        agent = policy.resume(self._active.prior, statistics, self._rng)
        waiting = self._find_waiting(row_of, tasks) if self._rules.uses_waiting else None
        new = []
        # Thompson sampling learns nothing from the silence of decisions that were just made.
        one_a_task = policy.uses_waiting or not self._active.prior.repeatable
        for members in _groups(requests, one_a_task=one_a_task):
            group = self._untaken(members, tasks)
            if not group:
                continue
            rows = [row_of[request.task] for request in group.values()]
            if waiting is not None:
                # Decisions whose rewards never come are neither observed nor wait, but were made.
                agent.n_decided = tasks.n_decided(row_of, len(statistics))
            silent = None if waiting is None else waiting.of(rows)
            choice = _choose(agent, policy, list(group.values()), rows, silent)
            new += self._log_group(group, choice, tasks)
            for request, shown in zip(group.values(), choice.shown, strict=True):
                self._taken.get(request.task, set()).update(shown)
            for (place, request), shown in zip(group.items(), choice.shown, strict=True):
                if waiting is not None and isinstance(self._results[place], Decision):
                    self._add_waiting(waiting, row_of[request.task], request, shown)
        return new

    def _untaken(
        self, requests: dict[int, CheckedDecide], tasks: LockedTasks
    ) -> dict[int, CheckedDecide]:
        """Mask arms that a task took before, if each is taken once; refuse requests without any."""
        prior = self._active.prior
        if prior.repeatable or prior.family.n_arms is None:
            return requests
        names = {request.task for request in requests.values()} - self._taken.keys()
        name_of = {tasks.number(name): name for name in names}
        self._taken |= {name: tasks.observed_arms(name) for name in names}
        for number, arm in self._transaction.find_taken(list(name_of)) if names else ():
            self._taken[name_of[number]].add(arm)
        left = {}
        for place, request in requests.items():
            mask = np.ones(prior.family.n_arms, bool) if request.mask is None else request.mask
            mask = mask & ~np.isin(np.arange(len(mask)), list(self._taken[request.task]))
            try:
                if not mask.any():
                    raise MaskError(exhausted(f"task {request.task!r}"))
                if request.top is not None:
                    checked_top(request.top, mask[None])
                left[place] = replace(request, mask=mask)
            except MixtsError as error:
                self._results[place] = error
        return left

    def _ask(self, request: CheckedDecide, tasks: LockedTasks) -> Callable[[], Choice]:
        """Return a function that makes one decision, and needs no transaction."""
        row_of, statistics = self._rows([request], tasks)
        rows, silent, n_decided = list(row_of.values()), None, None
        if self._rules.uses_waiting:
            silent = self._find_waiting(row_of, tasks).of(rows)
            n_decided = tasks.n_decided(row_of, len(statistics))
        policy, prior = self._rules.policy, self._active.prior
        # Other batches use the generator while this decision is computed.
        seed = self._rng.integers(2**63, size=4)

        def compute() -> Choice:
            agent = policy.resume(prior, statistics, np.random.default_rng(seed))
            if n_decided is not None:
                agent.n_decided = n_decided
            return _choose(agent, policy, [request], rows, silent)

        return compute

    def _rows(
        self, requests: Iterable[CheckedDecide], tasks: LockedTasks
    ) -> tuple[dict[str, int], Statistics]:
        """Return the row of each task by name, and the statistics to which the rows refer."""
        names = [request.task for request in requests]
        rows, statistics = tasks.rows(names)
        return dict(zip(names, rows.tolist(), strict=True)), statistics

    def _find_waiting(self, row_of: dict[str, int], tasks: LockedTasks) -> WaitingActions:
        """Return the actions of earlier decisions whose rewards may still come."""
        rules, now = self._rules, self._now
        model = rules.click_delay_us is not None
        waiting = WaitingActions((lambda since: rules.arrived(now - since)) if model else None)
        counts = tasks.waiting_counts(row_of)
        if not counts:
            return waiting
        # The rewards and the activations of this batch are not in the log yet.
        rewarded = {reward.decision for reward in self._changes.rewards}
        counts = {number: count + len(rewarded) for number, count in counts.items()}
        window = _FOREVER if rules.window_us is None else rules.window_us
        found = self._transaction.find_waiting(counts, MOST_WAITING, now, window)
        found += [d for d in self._outcomes.activated() if d.task in counts]
        found = [decision for decision in found if decision.seq not in rewarded]
        found.sort(key=lambda decision: decision.seq)
        features = find_features(self._transaction, found)
        row_of_number = {tasks.number(name): row for name, row in row_of.items()}
        for decision in found:
            row = row_of_number[decision.task]
            waiting.add(row, taken(decision, features), decision.since)
        return waiting

    def _add_waiting(
        self, waiting: WaitingActions, row: int, request: CheckedDecide, shown: list[int]
    ) -> None:
        """Let later groups know of a decision of this batch."""
        for action in () if request.defer else shown:
            taken_now = action if request.actions is None else request.actions[action]
            waiting.add(row, taken_now, self._now)

    def _log_group(
        self, requests: dict[int, CheckedDecide], choice: Choice, tasks: LockedTasks
    ) -> list[LoggedDecision]:
        """Return the rows to log, and set the results, of requests that were decided together."""
        active = self._active
        # Those of a group show as many actions.
        of_shown = np.take_along_axis(choice.law, np.array(choice.shown), axis=1)
        valid = np.asarray(np.isfinite(choice.law).all(axis=1) & (of_shown > 0).all(axis=1))
        new = []
        for (place, request), shown, law, belief, is_valid in zip(
            requests.items(), *choice, valid.tolist(), strict=True
        ):
            if not is_valid:
                self._results[place] = ParameterError(
                    f"version {active.version} of the prior has no probabilities for this task: "
                    "its parameters are too large, or too small, to compute with"
                )
                continue
            try:
                made = self._slate(place, request, shown, law, belief, tasks)
            except TaskLockedError as error:
                self._results[place] = error
                continue
            new += made
            self._results[place] = _response(made, request.task, active, request.ids)
        return new

    def _slate(
        self,
        place: int,
        request: CheckedDecide,
        shown: list[int],
        law: Float[Array, " K"],
        belief: Float[Array, " L"],
        tasks: LockedTasks,
    ) -> list[LoggedDecision]:
        """Return a row for each action that is shown; without ``top``, for the one action."""
        due = None if request.defer else self._rules.due(self._now)
        action_set, first = self._action_set(request), new_id(self._now)
        money = None if request.values is None else pack(np.append(request.values, request.costs))
        made = []
        for position, action in enumerate(shown):
            entry = tasks.count_decision(request, belief, self._active.version, self._now)
            row = LoggedDecision(
                seq=0, activated_at=None, id=new_id(self._now) if position else first,
                task=entry.number, at=self._now, version=self._active.version, action=action,
                propensity=float(law[action]), weights=pack(belief),
                request=self._digests.get(place), action_set=action_set,
                policy=self._rules.policy.name, deferred=int(request.defer), due=due,
                default_reward=None if due is None else self._rules.default_reward,
                slate=None if request.top is None else first, position=position,
                key=None if position else request.key, probabilities=pack_law(law), money=money,
            )  # fmt: skip
            self._changes.count_decision(row)
            made.append(row)
        return made

    def _action_set(self, request: CheckedDecide) -> int | None:
        """Store the request's action set if it is new, and return its number."""
        if request.actions is None:
            return None
        actions = ActionSet.of(request.actions, request.ids)
        return self._transaction.action_set(actions.digest, actions)

    # -- repeated requests --------------------------------------------------------------------

    def _answer_retries(
        self, operations: Sequence[Operation], answered: dict[Key, LoggedDecision]
    ) -> None:
        """Return earlier decisions to requests whose key has one, in the log or in this batch."""
        made: dict[Key, tuple[bytes, Decision]] = {}
        refused: dict[Key, Result] = {}
        for place, digest in self._digests.items():
            request = operations[place]
            assert isinstance(request, Decide)
            assert request.key is not None
            key = request.task, request.key
            result = self._results.get(place)
            if key in answered:
                self._results[place] = self._logged_result(key, digest, answered[key], result)
            elif isinstance(result, Decision):
                made[key] = digest, result
            elif result is not None:
                refused[key] = result
            elif key not in made:
                self._results[place] = refused[key]
            else:
                first, decision = made[key]
                same = first == digest
                self._results[place] = replace(decision, repeated=True) if same else _key_taken(key)

    def _logged_result(
        self, key: Key, digest: bytes, logged: LoggedDecision, result: Result | None
    ) -> Result:
        """Return the logged decision of a key, or an error if the request is a different one."""
        if logged.request == digest:
            ids = None
            if logged.action_set is not None:
                ids = self._transaction.find_action_sets([logged.action_set])[
                    logged.action_set
                ].names
            rows = [logged] if logged.slate is None else self._transaction.find_slate(logged.slate)
            return _response(rows, key[0], self._load(logged.version), ids, repeated=True)
        return result if isinstance(result, MixtsError) else _key_taken(key)


# -- requests -------------------------------------------------------------------------------------


def checked_request(request: Decide, prior: MixturePrior, floor: float) -> CheckedDecide:
    """Return the request with its actions and its mask as arrays, or raise an error.

    The mask of the returned request also excludes retired arms; None means that all actions are
    available.
    """
    offered, ids = offered_actions(request.actions, prior)
    actions, n_actions = prior.family.action_sets(offered, 1)
    if actions is not None:
        if actions.ndim != 2:
            raise ActionError(f"actions must be one set (K, d), got shape {actions.shape}")
        check_rows(actions, np.zeros(n_actions))
        if prior.features is not None:
            prior.features.check_ranges(actions)
        prior.family.check_learnable(actions)
    mask, names = None, prior.arm_names if ids is None else ids
    if request.mask is not None:
        mask = _checks.action_mask(named_mask(request.mask, names), 1, n_actions)[0]
    if prior.has_retired:
        mask = ~prior.retired if mask is None else mask & ~prior.retired
        if not mask.any():
            raise MaskError("mask leaves no action: all that it allows are retired")
    n_available = n_actions if mask is None else int(mask.sum())
    if floor > 1 / n_available:
        raise ActionError(
            f"{n_available} actions cannot all have the floor of {floor:g}: offer at most "
            f"{int(1 / floor)}, or lower the floor"
        )
    if not isinstance(request.defer, bool):
        raise ParameterError(f"defer must be True or False, got {request.defer!r}")
    values = costs = top = None
    if not (request.values is None and request.costs is None and request.top is None):
        available = np.ones((1, n_actions), bool) if mask is None else mask[None]
        money = checked_money(request.values, request.costs, available, prior, names)
        values, costs = (None, None) if money is None else (money.values[0], money.costs[0])
        top = None if request.top is None else checked_top(request.top, available)
    return CheckedDecide(
        request.task, actions, mask, request.key, request.defer, values, costs, top, ids=ids
    )


def _groups(
    requests: dict[int, CheckedDecide], *, one_a_task: bool
) -> list[dict[int, CheckedDecide]]:
    """Split requests into groups with the same number of actions, offered and shown.

    Requests with and without values are in different groups.

    With ``one_a_task``, a group has at most one request of a task, and its second request comes in
    a later group, so that it is decided after the first.
    """
    groups: dict[tuple[int, int, int, bool], dict[int, CheckedDecide]] = {}
    turns: Counter[str] = Counter()
    for place, request in requests.items():
        n_actions = 0 if request.actions is None else len(request.actions)
        kind = (turns[request.task], n_actions, request.top or 0, request.values is None)
        groups.setdefault(kind, {})[place] = request
        if one_a_task:
            turns[request.task] += 1
    return [groups[key] for key in sorted(groups, key=lambda key: key[0])]


def _stack(
    requests: list[CheckedDecide],
) -> tuple[Float[Array, "m K d"] | None, Bool[Array, "m K"] | None]:
    """Stack the actions and masks of requests with the same number of actions."""
    actions = mask = None
    if requests[0].actions is not None:
        actions = np.stack([request.actions for request in requests])
    masks = [request.mask for request in requests]
    some_mask = next((m for m in masks if m is not None), None)
    if some_mask is not None:
        mask = np.stack([np.ones_like(some_mask) if m is None else m for m in masks])
    return actions, mask


def _choose(
    agent: BeliefAgent,
    policy: Policy,
    requests: list[CheckedDecide],
    rows: list[int],
    waiting: Pending | tuple[Array, Array] | None,
) -> Choice:
    """Decide a group of requests, whose tasks are in these rows, by one call of the agent."""
    actions, mask = _stack(requests)
    chosen, law, _ = agent.act_with_probabilities(
        actions, rows, mask, policy.floor, waiting, new_share=policy.new_item_share,
        **_money_and_top(requests),
    )  # fmt: skip
    weights = agent.belief.working_weights(np.array(rows))
    return Choice(chosen.reshape(len(rows), -1).tolist(), law, weights)


def _money_and_top(requests: list[CheckedDecide]) -> dict[str, Any]:
    """Return the values, the costs and the length of the ranking of a group."""
    if requests[0].values is None:
        return {"top": requests[0].top}
    values = np.stack([request.values for request in requests])
    costs = np.stack([request.costs for request in requests])
    return {"values": values, "costs": costs, "top": requests[0].top}


def _without_repeats(
    requests: dict[int, CheckedDecide], answered: dict[Key, LoggedDecision]
) -> dict[int, CheckedDecide]:
    """Leave out requests whose key has a decision or came earlier in the batch."""
    seen: set[Key] = set()
    left = {}
    for place, request in requests.items():
        if request.key is not None:
            key = request.task, request.key
            if key in answered or key in seen:
                continue
            seen.add(key)
        left[place] = request
    return left


def _digest(request: Decide) -> bytes:
    """Return a digest of the request without its names, which must be the same in a retry."""
    actions, mask, more = request.actions, request.mask, _more(request)
    if actions is None and mask is None and not request.defer and not more:
        return _NO_ACTIONS
    named = names_digest(actions, mask)
    try:
        rows = None if actions is None or has_names(actions) else np.asarray(actions, float)
        available = None if mask is None or is_named(mask) else np.asarray(mask, bool)
        rest = json.dumps(more, sort_keys=True).encode() if more else b""
    except (TypeError, ValueError, OverflowError):
        return b"malformed"
    return _digest_of(rows, available, prefix=(b"defer" if request.defer else b"") + named + rest)


def _more(request: Decide) -> dict[str, Any]:
    """Return values, costs and top of a request, as JSON has them, without those not given."""
    given = {"values": request.values, "costs": request.costs, "top": request.top}
    return {
        name: amount if isinstance(amount, Mapping | int) else np.asarray(amount, float).tolist()
        for name, amount in given.items()
        if amount is not None
    }


def _digest_of(*arrays: Array | None, prefix: bytes = b"") -> bytes:
    content = hashlib.sha256(prefix)
    for array in arrays:
        content.update(b"-" if array is None else repr(array.shape).encode() + array.tobytes())
    return content.digest()[:16]


_NO_ACTIONS = _digest_of(None, None)


# -- responses ------------------------------------------------------------------------------------


def new_id(now: int) -> bytes:
    """Return a new id: the time in ms, so that indices grow at their end, and 80 random bits."""
    return (now // 1000).to_bytes(6, "big") + os.urandom(10)


def _response(
    logged: Sequence[LoggedDecision],
    task: str,
    prior: ActivePrior,
    ids: Ids | None,
    *,
    repeated: bool = False,
) -> Decision:
    first, all_shown = logged[0], []
    for row in logged:
        arm = prior.arm_name(row.action) if ids is None else ids[row.action]
        all_shown.append(Shown(row.id.hex(), row.action, row.propensity, row.position, arm))
    return Decision(
        first.id.hex(), task, first.action, first.propensity,
        tuple(unpack(first.weights).tolist()), first.version, all_shown[0].arm,
        repeated, first.policy, bool(first.deferred),
        () if first.slate is None else tuple(all_shown),
    )  # fmt: skip


def _key_taken(key: Key) -> ConflictError:
    return ConflictError(
        f"key {key[1]!r} of task {key[0]!r} was used for a request with other actions, another "
        "mask, other values, costs or top, or another defer: take a new key for a new decision"
    )
