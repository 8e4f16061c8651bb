"""Decisions for live tasks: safe to ask from many threads, durable before they are answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from mixts import _checks, _random
from mixts._typing import Array, Float, Seed
from mixts.belief import Belief
from mixts.errors import (
    MixtsError,
    ParameterError,
    StoreError,
    StoreUnavailableError,
    UnknownTaskError,
)
from mixts.prior import MixturePrior
from mixts.service.encoding import now_us, prior_digest, unpack
from mixts.service.group import Group
from mixts.service.offers import Rules
from mixts.service.queue import Done, GroupWriter, Later, Take
from mixts.service.records import (
    ActionPosteriors,
    Decide,
    Decision,
    Health,
    Operation,
    PriorVersion,
    Receipt,
    Result,
    Reward,
    TaskState,
    checked_name,
)
from mixts.service.store import DecisionStore
from mixts.service.store.backend import Transaction, TransactionConflictError
from mixts.service.versions import (
    ActivePrior,
    check_arms,
    check_decides,
    check_servable,
    fitted_shape,
)

R = TypeVar("R")

_ATTEMPTS = 8
"""How often a group is tried when other writers are in the way."""

_N_DRAWS = 2000
"""Draws behind the 5 and 95 % points of a posterior: their error is 0.5 % of probability."""

_FEWEST_DRAWS, _MOST_NUMBERS = 200, 1_000_000
"""Where thousands of actions are offered, fewer draws must do."""


class Decider:
    """MixTS for tasks that live in a store, under the store's active version of a prior.

    ``prior`` is stored as a version of its own if it is new to the store, and becomes the active
    one then; one that the store knows changes nothing (``activate`` does), and None takes the
    active one. ``floor`` is the least probability of every action: full support is promised only
    with it. A reward that comes more than ``reward_window`` seconds after its decision is logged,
    not learned from. ``max_pending`` operations may wait for the writer.
    """

    def __init__(
        self,
        prior: MixturePrior | None,
        store: DecisionStore,
        *,
        floor: float = 0.0,
        reward_window: float | None = None,
        seed: Seed = None,
        max_pending: int = 10_000,
    ) -> None:
        if prior is not None:
            check_servable(prior)
        self.store = store
        self._rules = _rules(floor, reward_window)
        self._rng = _random.generator(seed, "decider")
        self._versions: dict[int, ActivePrior] = {}
        max_pending = _checks.count(max_pending, "max_pending")
        store.claim(self)
        self._writer = GroupWriter(self._perform, store.backend.probe, max_pending)
        try:
            self._writer.run(lambda: self._begin(prior))
        except BaseException:
            self.close()
            raise

    # -- deciding -----------------------------------------------------------------------------

    def decide(
        self, task: str, actions: Any = None, mask: Any = None, key: str | None = None
    ) -> Decision:
        """Choose an action for a task; with a ``key``, repeating the call changes nothing."""
        return self._wait(Decide(task, actions, mask, key), Decision)

    def reward(self, decision_id: str, value: float) -> Receipt:
        """Say what came of a decision; late, twice and in any order if need be."""
        return self._wait(Reward(decision_id, value), Receipt)

    def decide_many(self, requests: Sequence[Decide]) -> list[Decision | MixtsError]:
        """Decide for many at once, in one commit; what is refused is returned as its error."""
        return self._wait_all(requests, Decide)

    def reward_many(self, rewards: Sequence[Reward]) -> list[Receipt | MixtsError]:
        """Take many rewards at once, in one commit; what is refused is returned as its error."""
        return self._wait_all(rewards, Reward)

    def submit(
        self, operations: Sequence[Operation], done: Done, later: Later | None = None
    ) -> None:
        """Hand operations to the writer, all or (OverloadedError) none.

        ``done`` is called once, when they are durable, with a Decision, a Receipt or an error for
        each: in the writer's thread or, with ``later``, perhaps in this one. An event loop gives
        its ``call_soon`` for that, and has groups performed between its other work: two threads
        that both compute wait for each other at every statement. What may take long is left to the
        writer's thread all the same: anything in PostgreSQL, whose locks others hold.
        """
        self._writer.submit(operations, done, later)

    def _wait_all(self, operations: Sequence[Any], kind: type) -> list[Any]:
        if not all(isinstance(operation, kind) for operation in operations):
            raise ParameterError(f"expected a list of {kind.__name__}, got {operations!r}")
        if not operations:
            return []
        future: Future[list[Result]] = Future()
        self._writer.submit(operations, future.set_result)
        return future.result()

    def _wait(self, operation: Operation, kind: type[R]) -> R:
        (result,) = self._wait_all([operation], type(operation))
        if isinstance(result, MixtsError):
            raise result
        assert isinstance(result, kind)
        return result

    def _perform(self, take: Take, wait: bool) -> list[Result]:
        def work(transaction: Transaction) -> list[Result]:
            version = transaction.active_version()
            assert version is not None
            group = Group(
                transaction, self._load(version), self._load, self._rules, self._rng, now_us()
            )
            return group.perform(take())

        return self._transact(work, wait=wait)

    def _transact(self, work: Callable[[Transaction], R], *, wait: bool = True) -> R:
        """In one transaction, which is tried again when other writers are in the way."""
        for _ in range(_ATTEMPTS):
            try:
                with self.store.backend.transaction(wait=wait) as transaction:
                    return work(transaction)
            except TransactionConflictError as error:
                conflict = error
        raise StoreUnavailableError(
            f"{self.store.name}: other writers were in the way {_ATTEMPTS} times ({conflict}); "
            "nothing was changed"
        ) from conflict

    # -- the prior ----------------------------------------------------------------------------

    @property
    def prior_version(self) -> int:
        """The version in force; another replica may have activated it."""
        version = self.store.active_version()
        if version is None:
            raise StoreError(f"{self.store.name} has no prior: give one")
        return version

    @property
    def active(self) -> ActivePrior:
        """The version in force, with what deciding needs."""
        return self._load(self.prior_version)

    @property
    def prior(self) -> MixturePrior:
        """The prior in force."""
        return self.active.prior

    def priors(self) -> list[PriorVersion]:
        """Every version of the prior."""
        return self.store.priors()

    def upload_prior(self, prior: MixturePrior, activate: bool = False) -> int:
        """Store a prior that fits the tasks, and activate it if asked to; return its version."""
        version = self.upload(prior)
        if activate:
            self.activate_prior(version)
        return version

    def activate_prior(self, version: int) -> None:
        """Decide with this version from now on; tasks keep their statistics."""
        self.activate(version)

    def ready(self) -> bool:
        """Return whether decisions can be written."""
        return self._writer.failure is None

    def upload(self, prior: MixturePrior) -> int:
        """Store a prior that fits the tasks, without using it yet; returns its version."""
        check_servable(prior)
        check_decides(prior)
        version: int = self._writer.run(
            lambda: self._transact(lambda transaction: self._store(transaction, prior)[0])
        )
        return version

    def activate(self, version: int) -> None:
        """Decide with this version from now on; tasks keep their statistics."""
        version = _checks.count(version, "version")
        if self.store.prior_body(version) is None:
            known = [row.version for row in self.priors()]
            raise ParameterError(f"there is no version {version} of the prior; known: {known}")
        prior = self._load(version).prior
        self._writer.run(
            lambda: self._transact(
                lambda transaction: self._put_in_force(transaction, version, prior)
            )
        )

    def _begin(self, prior: MixturePrior | None) -> None:
        if prior is None:
            self._check_floor(self.prior)
            return
        check_decides(prior)
        self._check_floor(prior)
        self._transact(lambda transaction: self._begin_with(transaction, prior))

    def _begin_with(self, transaction: Transaction, prior: MixturePrior) -> None:
        version, is_new = self._store(transaction, prior)
        if is_new or transaction.active_version() is None:
            self._put_in_force(transaction, version, prior)

    def _store(self, transaction: Transaction, prior: MixturePrior) -> tuple[int, bool]:
        self._fit(transaction, prior)
        return transaction.add_prior(
            prior_digest(prior), now_us(), prior.family.kind, prior.n_components, prior.to_bytes()
        )

    def _put_in_force(self, transaction: Transaction, version: int, prior: MixturePrior) -> None:
        self._check_floor(prior)
        transaction.activate(version, now_us(), self._fit(transaction, prior))

    def _fit(self, transaction: Transaction, prior: MixturePrior) -> str:
        """The shape of statistics under a prior that can go on from those of the tasks."""
        shape = fitted_shape(prior, transaction.shape())
        active = transaction.active_version()
        check_arms(prior, None if active is None else self._load(active).prior)
        return shape

    def _check_floor(self, prior: MixturePrior) -> None:
        n_arms = prior.family.n_arms
        if n_arms is not None and self._rules.floor > 1 / n_arms:
            raise ParameterError(
                f"floor must be at most 1 / {n_arms} arms, got {self._rules.floor!r}"
            )

    def _load(self, version: int) -> ActivePrior:
        active = self._versions.get(version)
        if active is None:
            body = self.store.prior_body(version)
            if body is None:
                raise StoreError(f"{self.store.name} has lost version {version} of the prior")
            active = self._versions.setdefault(version, ActivePrior.load(version, body))
        return active

    # -- looking ------------------------------------------------------------------------------

    def state(self, task: str) -> TaskState:
        """Return the counts and the belief of a task: an older name of ``task``."""
        return self.task(task)

    def task(self, task: str) -> TaskState:
        """Return the counts and the belief of a task."""
        row = self.store.task(checked_name(task, "task"))
        if row is None:
            raise UnknownTaskError(f"no decision was made for a task {task!r} yet")
        active, belief = self._belief(task)
        offered = self._offered(task, active)
        needs_offer = active.prior.family.n_arms is None
        known = () if needs_offer and offered is None else belief.mean_rewards(offered)[0]
        return TaskState(
            task, row.decisions, row.rewards, row.late, tuple(belief.weights[0].tolist()),
            tuple(float(mean) for mean in known), active.version, active.prior.names,
        )  # fmt: skip

    def posterior(self, task: str) -> ActionPosteriors:
        """Each action's mean reward as a task's belief has it; linear: of those last offered."""
        active, belief = self._belief(task)
        offered = self._offered(task, active)
        family = active.prior.family
        if family.n_arms is None and offered is None:
            return ActionPosteriors((), (), ())
        n_actions = family.n_arms or 0 if offered is None else len(offered)
        n_draws = max(_FEWEST_DRAWS, min(_N_DRAWS, _MOST_NUMBERS // n_actions))
        # The same draws at every look: a page that is refreshed does not flicker.
        rng, same = _random.stream(0, "decider", "posterior"), np.zeros(n_draws, np.int64)
        draws = belief.sample_parameters(rng, belief.sample_latent(rng, same), same)
        low, high = np.quantile(family.mean_rewards(draws, offered), [0.05, 0.95], axis=0)
        (mean,) = belief.mean_rewards(offered)
        return ActionPosteriors(tuple(mean.tolist()), tuple(low.tolist()), tuple(high.tolist()))

    def health(self) -> Health:
        """Whether decisions can be written, and how many wait."""
        reason = self._writer.failure
        return Health(reason is None, reason, self._writer.pending)

    @property
    def groups(self) -> tuple[int, int]:
        """How many groups were written, and how many operations in all of them."""
        return self._writer.groups, self._writer.group_operations

    def _belief(self, task: str) -> tuple[ActivePrior, Belief]:
        """Of the one task, with the task axis."""
        content = self.store.statistics(checked_name(task, "task"))
        if content is None:
            raise UnknownTaskError(f"no decision was made for a task {task!r} yet")
        active = self.active
        return active, active.prior.condition(active.codec.decode([content]))

    def _offered(self, task: str, active: ActivePrior) -> Float[Array, "K d"] | None:
        if active.prior.family.n_arms is not None:
            return None
        offer = self.store.last_offer(task)
        return None if offer is None else unpack(offer[2]).reshape(offer[:2])

    # -- ending -------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish what was accepted; the store stays open, also for another decider."""
        self._writer.close()
        self.store.release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _rules(floor: float, reward_window: float | None) -> Rules:
    number = isinstance(floor, (int, float, np.number)) and not isinstance(floor, bool)
    if not number or not 0 <= floor <= 1:
        raise ParameterError(f"floor must be a number between 0 and 1, got {floor!r}")
    if reward_window is None:
        return Rules(float(floor), None)
    number = isinstance(reward_window, (int, float)) and not isinstance(reward_window, bool)
    if not number or not 0 < reward_window < 1e9:
        raise ParameterError(f"reward_window must be seconds above 0, got {reward_window!r}")
    return Rules(float(floor), int(reward_window * 1e6))
