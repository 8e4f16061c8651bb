"""A batch of operations: reads, learns, decides and logs, in one transaction.

A batch first learns from its rewards (``Outcomes``), then makes its decisions, so that decisions
use as many rewards as possible. Any other order would also be correct: all operations of a batch
were submitted before any of them had a result.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from mixts import Belief, MixturePrior, errors
from mixts.agents import BeliefAgent, Offer
from mixts.extend import Array, Float
from mixts.families import Statistics
from mixts_serve.offers import (
    Asked,
    Ids,
    checked_made,
    checked_request,
    made_choice,
    made_id,
    request_digest,
)
from mixts_serve.records import (
    Decide,
    Decision,
    LoggedDecision,
    MadeDecision,
    Operation,
    Result,
    Shown,
    TaskEntry,
    checked_name,
)
from mixts_serve.rules import Rules
from mixts_serve.shards import check_slot, slot_of
from mixts_serve.store.base import Changes, Transaction, TransactionConflictError, find_features
from mixts_serve.store.tables import ActionSet, pack, pack_probabilities, unpack
from mixts_serve.tasks import (
    MOST_WAITING,
    LockedTasks,
    Outcomes,
    WaitingActions,
    likeliest_kinds,
    taken,
    task_locked,
)
from mixts_serve.trials import CANARY, CONTROL, Baseline, Sides
from mixts_serve.versions import LoadedPrior
from mixts_serve.writer import SMALL, MoreWorkError

Key = tuple[str, str]
"""A task's name, and the key that identifies a request of this task."""

Group = dict[int, Asked]
"""Requests by place."""

_FOREVER = 2**61
"""A window longer than any time, in microseconds."""


FALLBACK = "fallback"
"""Policy of decisions that clients made while the service was away."""

_REPORT_US = 60_000_000
"""Time for the reward of a decision that was made elsewhere, however late that is logged."""


class Stamp(NamedTuple):
    """What a row says of the making of its decision."""

    id: bytes
    at: int
    due: int | None
    """End of the reward window."""
    digest: bytes | None
    """Digest of the request, if it has a key."""


class RequestChoice(NamedTuple):
    """What an agent chose for one request."""

    shown: list[int]
    """Actions to show."""
    probabilities: Float[Array, " K"]
    weights: Float[Array, " L"]
    """Probabilities of the components."""
    kind: tuple[int, float]
    """The heaviest component of the most probable kind, and the probability of the kind."""
    is_valid: bool
    """Whether the prior could compute the probabilities."""


class Decided(NamedTuple):
    """How the tasks on one side of a trial are decided."""

    side: str
    policy: str
    """Name of the policy in the log."""
    prior: LoadedPrior
    agent: BeliefAgent
    belief: Belief
    """What is known of the tasks; the agent of a baseline knows nothing of them."""
    uses_waiting: bool


class Batch:
    """The operations of one transaction.

    ``sides`` says which version of the prior is active, and which trials are on; ``load`` returns
    any version. The *place* of an operation is its index in the batch.
    """

    def __init__(
        self,
        transaction: Transaction,
        sides: Sides,
        load: Callable[[int], LoadedPrior],
        rules: Rules,
        rng: np.random.Generator,
        now: int,
    ) -> None:
        self._transaction = transaction
        self._sides = sides
        self._active = load(sides.deployment.version)
        self._load = load
        self._rules = rules
        self._rng = rng
        self._now = now
        self._changes = Changes()
        self._results: dict[int, Result] = {}
        """Results by place."""
        self._outcomes = Outcomes(transaction, rules, now, self._changes, self._results)
        self._taken: dict[str, set[int]] = {}
        """Arms that tasks took before, by name, if each arm is taken at most once."""
        self._plain: Asked | None = None
        """A checked request without any options."""
        self._digests: dict[int, bytes] = {}
        """Digests of the requests that have a key, by place."""

    def perform(self, operations: Sequence[Operation]) -> list[Result]:
        """Return a result for each operation; a refused operation changes nothing."""
        numbers = self._outcomes.match(operations)
        asked, keys = self._check_requests(operations)
        tasks = self._lock(asked, numbers)
        for place, one in asked.items():
            if not tasks.holds(one.request.task):
                self._results[place] = task_locked(one.request.task)
        asked = {place: one for place, one in asked.items() if tasks.holds(one.request.task)}
        # Search after locking: other writers need the same locks to use these keys or decisions.
        answered = self._transaction.find_keys(keys) if keys else {}
        self._outcomes.perform(tasks)
        made = {place: one for place, one in asked.items() if isinstance(one.request, MadeDecision)}
        asked = {place: one for place, one in asked.items() if place not in made}
        self._changes.decisions = self._decide(_without_repeats(asked, answered), tasks)
        taken_keys = {*answered, *((one.request.task, one.request.key) for one in asked.values())}
        self._changes.decisions += self._log_made(made, taken_keys, tasks)
        self._changes.tasks = tasks.changed()
        if self._changes.tasks:
            self._transaction.add(self._changes, self._now)
        self._answer_retries(operations, answered)
        return [self._results[place] for place in range(len(operations))]

    def _check_requests(self, operations: Sequence[Operation]) -> tuple[Group, list[Key]]:
        """Return the valid requests by place, and all keys, which may already have a decision."""
        asked, keys = {}, []
        for place, operation in enumerate(operations):
            if not isinstance(operation, Decide):
                continue
            try:
                task = checked_name(operation.task, "task")
                if self._rules.shard is not None:
                    self._rules.shard.check(task)
                if operation.key is not None:
                    keys.append((task, checked_name(operation.key, "key")))
                    if not isinstance(operation, MadeDecision):
                        self._digests[place] = request_digest(operation)
                asked[place] = self._checked(operation)
            except errors.MixtsError as error:
                self._results[place] = error
        return asked, keys

    def _checked(self, request: Decide) -> Asked:
        """Return a checked request; most ask for any arm, and all of these offer the same."""
        if isinstance(request, MadeDecision):
            asked = checked_made(request, self._active.prior, self._now)
            if self._rules.shard is not None:
                check_slot(request.id, request.task)
            return asked
        if not request.is_plain:
            return checked_request(request, self._active.prior, self._rules.policy)
        if self._plain is None:
            self._plain = checked_request(request, self._active.prior, self._rules.policy)
        return self._plain._replace(request=request)

    def _lock(self, asked: Group, numbers: list[int]) -> LockedTasks:
        """Lock the tasks of all operations: by name, and by number."""
        names = list(dict.fromkeys(one.request.task for one in asked.values()))
        entries: list[TaskEntry] = []
        if names or numbers:
            entries, n_new = self._transaction.lock_tasks(names, numbers, self._now)
            self._changes.tally.tasks = n_new
            if not self._transaction.is_deployed(self._sides.deployment):
                # Another replica activated a prior before the tasks were locked: their statistics
                # may have more arms now.
                raise TransactionConflictError("the prior has changed")
        return LockedTasks(entries, self._active)

    # -- decisions ----------------------------------------------------------------------------

    def _decide(self, asked: Group, tasks: LockedTasks) -> list[LoggedDecision]:
        """Choose the actions, and return the rows to log."""
        lengths = {one.request.task: tasks.n_bytes(one.request.task) for one in asked.values()}
        if lengths and self._active.sizes.learn(lengths) > SMALL:
            raise MoreWorkError
        by_side: dict[str, Group] = {}
        for place, one in asked.items():
            task = one.request.task
            by_side.setdefault(self._sides.of(task, tasks.first_at(task)), {})[place] = one
        return [
            row for side, group in by_side.items() for row in self._decide_on(side, group, tasks)
        ]

    def _decide_on(self, side: str, asked: Group, tasks: LockedTasks) -> list[LoggedDecision]:
        """Choose the actions of tasks on one side of a trial."""
        canary = self._sides.deployment.canary
        loaded = self._load(canary) if side == CANARY and canary is not None else self._active
        asked = self._computable(asked, tasks, loaded.prior)
        if not asked:
            return []
        row_of, statistics = _rows(asked.values(), tasks)
        decided = self._decided(side, loaded, statistics)
        waiting = self._find_waiting(row_of, tasks) if decided.uses_waiting else None
        new = []
        one_a_task = decided.uses_waiting or not loaded.prior.repeatable
        for members in _groups(asked, one_a_task=one_a_task):
            group = self._untaken(members, tasks)
            if not group:
                continue
            if waiting is not None:
                # Decisions whose rewards never come are neither observed nor wait, but were made.
                decided.agent.n_decided = tasks.n_decided(row_of, len(statistics))
            chosen = _choose(decided, group, row_of, waiting)
            new += self._log_group(decided, group, chosen, tasks)
            for (place, one), choice in zip(group.items(), chosen, strict=True):
                self._taken.get(one.request.task, set()).update(choice.shown)
                if waiting is not None and isinstance(self._results[place], Decision):
                    _add_waiting(waiting, row_of[one.request.task], one, choice.shown)
        return new

    def _decided(self, side: str, loaded: LoadedPrior, statistics: Statistics) -> Decided:
        """Return how tasks with these statistics are decided."""
        policy, holdback, prior = self._rules.policy, self._rules.holdback, loaded.prior
        if side == CONTROL and holdback is not None:
            baseline = Baseline(prior, len(statistics), self._rng, holdback)
            belief = prior.condition(statistics)
            return Decided(side, holdback.policy, loaded, baseline, belief, uses_waiting=False)
        agent = policy.resume(prior, statistics, self._rng)
        return Decided(side, policy.name, loaded, agent, agent.belief, policy.uses_waiting)

    def _computable(self, asked: Group, tasks: LockedTasks, prior: MixturePrior) -> Group:
        """Refuse the requests of tasks whose history the prior cannot compute with."""
        family = prior.family
        row_of, statistics = _rows(asked.values(), tasks)
        try:
            family.check_statistics(statistics)
            return asked
        except errors.StatisticsError:
            left = {}
            for place, one in asked.items():
                try:
                    family.check_statistics(statistics[[row_of[one.request.task]]])
                    left[place] = one
                except errors.StatisticsError as error:
                    self._results[place] = error
            return left

    def _untaken(self, asked: Group, tasks: LockedTasks) -> Group:
        """Mask arms that a task took before, if each is taken once; refuse requests without any."""
        prior = self._active.prior
        if prior.repeatable or prior.family.n_arms is None:
            return asked
        names = {one.request.task for one in asked.values()} - self._taken.keys()
        name_of = {tasks.number(name): name for name in names}
        self._taken |= {name: tasks.observed_arms(name) for name in names}
        for number, arm in self._transaction.find_taken(list(name_of)) if names else ():
            self._taken[name_of[number]].add(arm)
        left = {}
        for place, one in asked.items():
            task = one.request.task
            mask = one.offer.available.copy()
            mask[:, list(self._taken[task])] = False
            try:
                if not mask.any():
                    raise errors.MaskError(
                        f"task {task!r} has no arm left: it took every available arm before, and "
                        "an arm is taken at most once (repeatable is False). Add arms, or make a "
                        "prior with repeatable=True"
                    )
                offer = one.offer._replace(mask=mask).with_top(prior, one.offer.top)
                left[place] = one._replace(offer=offer)
            except errors.MixtsError as error:
                self._results[place] = error
        return left

    def _find_waiting(self, row_of: dict[str, int], tasks: LockedTasks) -> WaitingActions:
        """Return the actions of earlier decisions whose rewards may still come."""
        rules, now = self._rules, self._now
        waiting = WaitingActions()
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
            waiting.add(row_of_number[decision.task], taken(decision, features))
        return waiting

    # -- the log ------------------------------------------------------------------------------

    def _log_group(
        self, decided: Decided, asked: Group, chosen: Sequence[RequestChoice], tasks: LockedTasks
    ) -> list[LoggedDecision]:
        """Return the rows to log, and set the results, of requests that were decided together."""
        prior, new = decided.prior, []
        for (place, one), choice in zip(asked.items(), chosen, strict=True):
            if not choice.is_valid:
                self._results[place] = errors.ParameterError(
                    f"version {prior.version} of the prior has no probabilities for this task: "
                    "its parameters are too large, or too small, to compute with"
                )
                continue
            try:
                made = self._slate(decided, place, one, choice, tasks)
            except errors.TaskLockedError as error:
                self._results[place] = error
                continue
            new += made
            self._results[place] = _response(made, one.request.task, prior, one.ids)
        return new

    def _slate(
        self, decided: Decided, place: int, one: Asked, choice: RequestChoice, tasks: LockedTasks
    ) -> list[LoggedDecision]:
        """Return a row for each action that is shown; without ``top``, for the one action."""
        request, offer = one.request, one.offer
        law, rules = choice.probabilities, self._rules
        action_set, stamp = self._action_set(one), self._stamp(place, request)
        first, due = stamp.id, stamp.due
        entry, made = tasks.touch(request.task), []
        entry.latent, entry.certainty = choice.kind
        entry.version, entry.last_at = decided.prior.version, self._now
        for position, action in enumerate(choice.shown):
            row = LoggedDecision(
                seq=0, activated_at=None, id=new_id(self._now, request.task) if position else first,
                task=entry.number, at=stamp.at, version=decided.prior.version, action=action,
                propensity=float(law[action]), weights=pack(choice.weights),
                request=stamp.digest, action_set=action_set,
                policy=decided.policy, side=decided.side, deferred=int(request.defer), due=due,
                default_reward=None if due is None else rules.default_reward,
                slate=None if offer.top is None else first, position=position,
                key=None if position else request.key, probabilities=pack_probabilities(law),
                money=None if offer.money is None else pack(np.append(*offer.money)),
            )  # fmt: skip
            self._changes.count(row, entry, decisions=1, deferred=row.deferred)
            made.append(row)
        return made

    def _stamp(self, place: int, request: Decide) -> Stamp:
        """Return what a row says of the making of its decision, here and now or elsewhere."""
        rules, now = self._rules, self._now
        if not isinstance(request, MadeDecision):
            due, digest = None if request.defer else rules.due(now), self._digests.get(place)
            return Stamp(new_id(now, request.task), now, due, digest)
        id, at = made_id(request.id)
        due = rules.due(at)
        # Its reward can come only after it: a window must not have ended before.
        due = None if due is None else max(due, now + _REPORT_US)
        digest = None if request.key is None else request_digest(request)
        return Stamp(id, at, due, digest)

    def _log_made(
        self, asked: Group, taken_keys: set[tuple[str, str | None]], tasks: LockedTasks
    ) -> list[LoggedDecision]:
        """Return the rows of decisions that were made elsewhere, and set their results.

        One that is in the log is returned as it is there. If its key has another decision by now,
        it is logged without the key.
        """
        prior = self._active.prior
        asked = self._computable(asked, tasks, prior) if asked else asked
        if not asked:
            return []
        ids = [self._stamp(place, one.request).id for place, one in asked.items()]
        known = dict(self._transaction.find_decisions(ids))
        row_of, statistics = _rows(asked.values(), tasks)
        agent = self._rules.policy.resume(prior, statistics, self._rng)
        weights = agent.belief.weights
        decided = Decided("", FALLBACK, self._active, agent, agent.belief, uses_waiting=False)
        kinds = likeliest_kinds(prior, weights)
        new: list[LoggedDecision] = []
        for (place, one), id in zip(asked.items(), ids, strict=True):
            if id in known:
                self._results[place] = self._known_result(one, known[id], tasks)
                continue
            key = one.request.task, one.request.key
            if key in taken_keys:
                one = one._replace(request=replace(one.request, key=None))
            taken_keys.add(key)
            action, law = made_choice(one, prior)
            row = row_of[one.request.task]
            choice = RequestChoice([action], law, weights[row], kinds[row], True)
            new += (made := self._log_group(decided, {place: one}, [choice], tasks))
            known |= {each.id: each for each in made}
        return new

    def _known_result(self, one: Asked, logged: LoggedDecision, tasks: LockedTasks) -> Result:
        """Return the decision that the log has for an id, or an error if it is another one."""
        action, _ = made_choice(one, self._active.prior)
        request = one.request
        if (logged.task, logged.action) != (tasks.number(request.task), action):
            return errors.ConflictError(
                f"decision {logged.id.hex()} is in the log with another task or another action"
            )
        prior = self._load(logged.version)
        return _response([logged], request.task, prior, one.ids, repeated=True)

    def _action_set(self, one: Asked) -> int | None:
        """Store the request's action set if it is new, and return its number."""
        if one.offer.actions is None:
            return None
        actions = ActionSet.of(one.offer.actions, one.ids, one.known)
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
        return result if isinstance(result, errors.MixtsError) else _key_taken(key)


# -- requests -------------------------------------------------------------------------------------


def _rows(asked: Iterable[Asked], tasks: LockedTasks) -> tuple[dict[str, int], Statistics]:
    """Return the row of each task by name, and the statistics to which the rows refer."""
    names = [one.request.task for one in asked]
    rows, statistics = tasks.rows(names)
    return dict(zip(names, rows.tolist(), strict=True)), statistics


def _groups(asked: Group, *, one_a_task: bool) -> list[Group]:
    """Split requests into groups that can be one offer.

    With ``one_a_task``, a group has at most one request of a task, and its second request comes in
    a later group, so that it is decided after the first.
    """
    groups: dict[tuple[int, int, int, bool], Group] = {}
    turns: Counter[str] = Counter()
    for place, one in asked.items():
        task, offer = one.request.task, one.offer
        kind = (turns[task], offer.n_actions, offer.top or 0, offer.money is None)
        groups.setdefault(kind, {})[place] = one
        if one_a_task:
            turns[task] += 1
    return [groups[key] for key in sorted(groups, key=lambda key: key[0])]


def _choose(
    decided: Decided, group: Group, row_of: dict[str, int], waiting: WaitingActions | None
) -> list[RequestChoice]:
    """Decide a group of requests by one call of the agent."""
    rows = np.array([row_of[one.request.task] for one in group.values()])
    offer = Offer.join([one.offer for one in group.values()], rows)
    silent = None if waiting is None else waiting.of(rows.tolist())
    if silent is not None:
        offer = offer._replace(waiting=decided.belief.checked_waiting(*silent))
    if decided.side == CONTROL:  # nothing but the baseline decides
        offer = offer._replace(explore=0.0, new_share=None)
    choice = decided.agent.decide(offer)
    shown, weights = choice.actions.reshape(len(rows), -1), decided.belief.working_weights(rows)
    of_shown = np.take_along_axis(choice.probabilities, shown, axis=1)
    is_valid = np.asarray(
        np.isfinite(choice.probabilities).all(axis=1) & (of_shown > 0).all(axis=1)
    )
    kinds = likeliest_kinds(decided.prior.prior, weights)
    each = zip(shown.tolist(), choice.probabilities, weights, kinds, is_valid.tolist(), strict=True)
    return [RequestChoice(*one) for one in each]


def _add_waiting(waiting: WaitingActions, row: int, one: Asked, shown: list[int]) -> None:
    """Let later groups know of a decision of this batch."""
    actions = one.offer.actions
    for action in () if one.request.defer else shown:
        waiting.add(row, action if actions is None else actions[action])


def _without_repeats(asked: Group, answered: dict[Key, LoggedDecision]) -> Group:
    """Leave out requests whose key has a decision or came earlier in the batch."""
    seen: set[Key] = set()
    left = {}
    for place, one in asked.items():
        if one.request.key is not None:
            key = one.request.task, one.request.key
            if key in answered or key in seen:
                continue
            seen.add(key)
        left[place] = one
    return left


# -- responses ------------------------------------------------------------------------------------


def new_id(now: int, task: str) -> bytes:
    """Return a new id: the time in ms, so that indices grow at their end, random bits, the slot."""
    return (now // 1000).to_bytes(6, "big") + os.urandom(8) + slot_of(task)


def _response(
    logged: Sequence[LoggedDecision],
    task: str,
    prior: LoadedPrior,
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


def _key_taken(key: Key) -> errors.ConflictError:
    return errors.ConflictError(
        f"key {key[1]!r} of task {key[0]!r} was used for a request with other actions, another "
        "mask or context, other values, costs or top, or another defer: take a new key for a new "
        "decision"
    )
