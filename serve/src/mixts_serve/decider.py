"""Decisions for live tasks: called from many threads, durable before they are returned."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Self, TypeVar

import numpy as np
from msgspec.structs import replace

from mixts import Belief, MixturePrior, errors
from mixts.extend import Seed, checks, random
from mixts_serve import versions
from mixts_serve.agreement import Agreements, PriorWatch
from mixts_serve.batch import Batch
from mixts_serve.calls import Calls, Value
from mixts_serve.challenger import Account
from mixts_serve.imagine import Outcome, Outlook, imagined, outlook
from mixts_serve.periodic import WindowCloser, silence_warning
from mixts_serve.promotion import Promoter, Promotion, Trial
from mixts_serve.records import (
    ActionPosteriors,
    Erased,
    Health,
    Operation,
    Pedigree,
    PriorVersion,
    Result,
    TaskState,
    checked_name,
)
from mixts_serve.rules import DEFAULT_EXPLORE, DEFAULT_POLICY, Policy, Rules
from mixts_serve.shards import keep_shard
from mixts_serve.store import DecisionStore
from mixts_serve.store.base import (
    FIND_META,
    TRIAL_KEY,
    Transaction,
)
from mixts_serve.store.tables import ActionSet
from mixts_serve.trials import HoldbackTimes, Sides
from mixts_serve.worth import Worth, WorthWatch
from mixts_serve.writer import MAX_WORK, BatchWriter, Done

R = TypeVar("R")


class Decider(Calls):
    """Decisions for tasks in a store, by one policy and the store's active version of a prior.

    Every decision and every reward is durable before its method returns. All methods may be called
    from any thread; operations that wait at the same time share one transaction. ``Client`` has the
    same methods for a service in another process.

    Parameters
    ----------
    prior : MixturePrior or None
        A prior that is new to the store is stored as a new version and activated; one that the
        store knows changes nothing (``activate_prior`` does). None: the active one.
    store : DecisionStore
        Where tasks and decisions are kept; only one decider may write to it.
    policy : str
        How to act on the belief: "ids", information-directed sampling; "ts", Thompson sampling;
        "greedy", the highest mean reward; "ucb", the highest upper quantile. See
        ``mixts.agents.POLICIES``. Every decision is logged with its policy.
    explore : float
        Share of the decisions that is drawn evenly among the available actions, whatever the
        policy prefers. With 0, actions may have probability 0, and off-policy evaluation has no
        full support; the deterministic policies "greedy" and "ucb" need a share above 0.
    horizon : int, optional
        Expected number of decisions of a task: exploration fades towards its end.
    new_item_share : float or (float, float), optional
        Largest probability that all new arms together (``prior.arms.new``) have in a decision, or
        the smallest and the largest; the rest goes to the other arms in proportion. Decisions
        that are drawn evenly do not count.
    reward_window : float, optional
        Seconds after a decision, or its activation, in which its reward is learned from; later
        ones are only logged.
    default_reward : float, optional
        Reward of a decision if no other comes within the reward window, which it needs: 0 where
        only clicks are reported. Both are stored with the decision when its window begins, so new
        settings apply to new decisions.
    holdback : float
        Share of the tasks that are decided by the baseline, to measure what the policy earns
        beside it. A task stays in this control group, in all replicas and under all priors.
    baseline : str, optional
        How the control group is decided, none of it drawn evenly: "bestseller" (the default), the
        action with the highest mean reward of a new task under the prior; "uniform"; or "arm:" and
        the name of an arm.
    shard : str, optional
        The part of all tasks that this store has, such as "2/16", where tasks are divided over
        several stores; tasks of others are refused. The store remembers it.
    promote : "refit", "ask" or number
        When a refit that passed its checks is deployed: at once, when a person activates it, or
        when the evidence for it reaches a number, such as 100 (see :meth:`account`).
    canary : float
        Share of the new tasks that try a refit before it is activated for all; it is withdrawn
        by itself if it earns less.
    seed : optional
        Seed of the actions' random draws. The store counts the deciders that had a seed, so that a
        restart with the same seed goes on with other draws; the same seed and the same count
        give the same draws. A ``numpy.random.Generator`` is used as it is.
    max_pending : int
        The number of operations that may wait for the writer; more raise ``OverloadedError``.
    max_work : int
        The work that may be submitted together, and that may wait in large submissions. An ordinary
        operation is one unit; see ``Sizes`` for those with many actions, arms or features.
    max_numbers : int, optional
        Largest prior that may be uploaded and activated: its arms, or squared features, times its
        components; None: of any size.
    force : bool
        Whether to begin with ``prior`` even if it failed its check (``prior.origin``).

    Examples
    --------
    >>> import mixts
    >>> from mixts_serve import Decider, DecisionStore
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(3))
    >>> with DecisionStore("decisions.db") as store:
    ...     with Decider(prior, store) as decider:
    ...         decision = decider.decide("user 17")
    ...         decider.reward(decision.id, 1)
    Receipt(duplicate=False, late=False)
    """

    def __init__(
        self,
        prior: MixturePrior | None,
        store: DecisionStore,
        *,
        policy: str = DEFAULT_POLICY,
        explore: float = DEFAULT_EXPLORE,
        horizon: int | None = None,
        new_item_share: float | tuple[float, float] | None = None,
        reward_window: float | None = None,
        default_reward: float | None = None,
        holdback: float = 0.0,
        baseline: str | None = None,
        shard: str | None = None,
        promote: str | float = "refit",
        canary: float = 0.0,
        seed: Seed = None,
        max_pending: int = 10_000,
        max_work: int = MAX_WORK,
        max_numbers: int | None = None,
        force: bool = False,
    ) -> None:
        if prior is not None:
            versions.check_servable(prior)
        self.store = store
        self.policy = Policy.checked(policy, horizon, explore, new_item_share)
        """The policy in force, with its horizon and the share that is drawn evenly."""
        self.rules = Rules.checked(
            self.policy, reward_window, default_reward, holdback, baseline, shard
        )
        """The policy, reward window, default reward, holdback and shard in force."""
        self.promotion = Promotion.checked(promote, canary)
        """When refits are deployed."""
        self._seed = int(seed) if isinstance(seed, np.integer) else seed
        self._rng = random.generator(seed, "decider")
        self._trial_key = b""
        self._loaded: dict[int, versions.LoadedPrior] = {}
        self._max_numbers = max_numbers
        max_pending = checks.count(max_pending, "max_pending")
        max_work = checks.count(max_work, "max_work")
        store.claim(self)
        backend = store.backend
        self._sizes = versions.Sizes()
        self._writer = BatchWriter(
            self._perform, backend.probe, max_pending, max_work, backend.watch,
            lambda operation: self._sizes.of(operation),
        )  # fmt: skip
        has_default = self.rules.default_reward is not None
        self._closer = WindowCloser(store, self.submit, has_default)
        self._watch = PriorWatch(store, self._load)
        self._promoter = Promoter(store, self._load, self.deploy)
        self._worth = WorthWatch(store)
        try:
            self._writer.run(lambda: self._begin(prior, force))
            self._sizes = self.active.sizes
            self._closer.start()
            self._watch.start()
            self._promoter.start()
            self._worth.start()
        except BaseException:
            self.close()
            raise

    # -- decisions and rewards ----------------------------------------------------------------

    def end_windows(self) -> int:
        """Write all default rewards that are due; a thread does this about once a second.

        Returns
        -------
        int
            The number of default rewards that were written.
        """
        return self._closer.end_windows()

    def submit(
        self, operations: Sequence[Operation], done: Done, loop: AbstractEventLoop | None = None
    ) -> None:
        """Pass operations to the writer, all or (``OverloadedError``) none, without waiting.

        Parameters
        ----------
        operations : sequence of Decide, Reward or Activate
            What to write.
        done : callable
            Called once, when the operations are durable, with a Decision, a Receipt or an error for
            each, in the writer's thread or in the event loop.
        loop : asyncio.AbstractEventLoop, optional
            The event loop that calls this; it then writes small batches to a file itself.
        """
        self._writer.submit(operations, done, loop if self.store.backend.is_quick else None)

    def erase(self, task: str) -> Erased:
        """Erase a task with everything about it; what comes under its name later is a new task.

        Counts of tasks, decisions and rewards are then those without it. A file has no byte of it
        when this returns, unless ``overwritten`` is False; what PostgreSQL keeps is its server's.

        Parameters
        ----------
        task : str
            The task's name; one that the store does not know changes nothing.

        Returns
        -------
        Erased
            Whether the task was known, and how many decisions it had.
        """
        names = [checked_name(task, "task")]
        if self.rules.shard is not None:
            self.rules.shard.check(task)
        found: Erased = self._writer.run(
            lambda: self._transact(lambda transaction: transaction.erase(names))
        )
        return replace(found, overwritten=self.store.backend.purge())

    def _many(self, operations: Sequence[Any], kind: type) -> list[Any]:
        if not all(isinstance(operation, kind) for operation in operations):
            raise errors.ParameterError(f"expected a list of {kind.__name__}, got {operations!r}")
        if not operations:
            return []
        future: Future[list[Result]] = Future()
        self._writer.submit(operations, future.set_result)
        return future.result()

    def _one(self, operation: Operation, kind: type[Value]) -> Value:
        (result,) = self._many([operation], type(operation))
        if isinstance(result, errors.MixtsError):
            raise result
        assert isinstance(result, kind)
        return result

    def _perform(self, operations: list[Operation], wait: bool) -> list[Result]:
        def work(transaction: Transaction) -> list[Result]:
            deployment = transaction.deployment()
            assert deployment is not None
            self._sizes = self._load(deployment.version).sizes
            sides = Sides(self.rules.holdback, deployment, self._trial_key)
            now = transaction.now_us()
            batch = Batch(transaction, sides, self._load, self.rules, self._rng, now)
            return batch.perform(operations)

        return self._transact(work, wait)

    def _transact(self, work: Callable[[Transaction], R], wait: bool = True) -> R:
        return self.store.backend.transact(work, wait)

    # -- the prior ----------------------------------------------------------------------------

    @property
    def prior_version(self) -> int:
        """The active version of the prior; another replica may have activated it."""
        version = self.store.active_version()
        if version is None:
            raise errors.StoreError(
                f"{self.store.name} has no prior: give one (mixts serve --prior prior.json)"
            )
        return version

    @property
    def active(self) -> versions.LoadedPrior:
        """The active version of the prior, ready to decide with."""
        return self._load(self.prior_version)

    @property
    def prior(self) -> MixturePrior:
        """The active prior."""
        return self.active.prior

    def priors(self) -> list[PriorVersion]:
        """Return every version of the prior.

        Returns
        -------
        list of PriorVersion
            The versions, oldest first.
        """
        return self.store.priors()

    def upload_prior(self, prior: MixturePrior, activate: bool = False, force: bool = False) -> int:
        """Store a prior that fits the tasks of the store.

        Parameters
        ----------
        prior : MixturePrior
            Of the same family, with no fewer arms.
        activate : bool
            Whether to decide with it from now on.
        force : bool
            Whether to activate it even if it failed its check (``prior.origin``).

        Returns
        -------
        int
            Its version; a prior that the store has keeps its version.
        """
        versions.check_servable(prior)
        if activate:
            versions.check_passed(prior, force)
        self._check_size(prior)
        versions.check_decides(prior, self.policy)
        version: int = self._writer.run(
            lambda: self._transact(lambda transaction: self._add_version(transaction, prior)[0])
        )
        if activate:
            self.activate_prior(version, force)
        return version

    def activate_prior(self, version: int, force: bool = False) -> None:
        """Decide with this version from now on; tasks keep their statistics.

        Parameters
        ----------
        version : int
            One of ``priors()``.
        force : bool
            Whether to activate it even if it failed its check (``prior.origin``).
        """
        version = checks.count(version, "version")
        prior = self._known_version(version).prior
        versions.check_passed(prior, force)
        self._writer.run(
            lambda: self._transact(lambda transaction: self._activate(transaction, version, prior))
        )

    def start_canary(self, version: int, share: float) -> None:
        """Let a version decide for a share of the tasks born from now on.

        The other tasks, and all that were born before, stay with the active version. Activating a
        version, or changing arms, ends the canary.

        Parameters
        ----------
        version : int
            One of ``priors()``, not the active one; with the arms of that.
        share : float
            Share of the new tasks, above 0 and below 1.
        """
        version = checks.count(version, "version")
        if not isinstance(share, int | float | np.number) or not 0 < share < 1:
            raise errors.ParameterError(f"share must be above 0 and below 1, got {share!r}")
        share = float(share)
        prior = self._known_version(version).prior
        versions.check_passed(prior, force=False)

        def start(transaction: Transaction) -> None:
            transaction.shape()  # locks: no other writer activates a prior meanwhile
            self._check_canary(transaction, version, prior)
            transaction.set_canary(version, transaction.now_us(), share)

        self._writer.run(lambda: self._transact(start))

    def end_canary(self, reason: str) -> int | None:
        """Withdraw the canary: its tasks go on under the active version.

        Parameters
        ----------
        reason : str
            Why, for the log.

        Returns
        -------
        int or None
            The version that was withdrawn; None if there was no canary.
        """

        def end(transaction: Transaction) -> int | None:
            transaction.shape()
            deployment = transaction.deployment()
            if deployment is None or deployment.canary is None:
                return None
            transaction.set_canary(deployment.canary, transaction.now_us(), 0.0, reason)
            return deployment.canary

        found: int | None = self._writer.run(lambda: self._transact(end))
        return found

    def deploy(self, last: int, version: int, share: float, reason: str) -> bool:
        """Deploy a version unless another one was activated, tried or withdrawn meanwhile.

        Parameters
        ----------
        last : int
            Number of the last row of ``activations`` when this was decided.
        version : int
            One of ``priors()``.
        share : float
            1: activate it; between 0 and 1: begin its canary; 0: withdraw it.
        reason : str
            Why, for the pages.

        Returns
        -------
        bool
            Whether it was deployed; False if somebody else was faster.
        """
        prior = self._known_version(version).prior

        def work(transaction: Transaction) -> bool:
            transaction.shape()  # locks: no other writer deploys a prior meanwhile
            if transaction.last_activation() != last:
                return False
            if share == 1:
                self._activate(transaction, version, prior, reason)
            else:
                if share:
                    self._check_canary(transaction, version, prior)
                transaction.set_canary(version, transaction.now_us(), share, reason)
            return True

        done: bool = self._writer.run(lambda: self._transact(work))
        return done

    def _check_canary(self, transaction: Transaction, version: int, prior: MixturePrior) -> None:
        """Raise ``ParameterError`` for a version that cannot decide beside the active one."""
        active = transaction.active_version()
        assert active is not None
        if version == active:
            raise errors.ParameterError(f"version {version} is active: nothing to try")
        versions.check_same_arms(prior, self._load(active).prior)
        self.rules.check(prior)

    def _known_version(self, version: int) -> versions.LoadedPrior:
        """Return a version of the prior; raise ``ParameterError`` if there is none."""
        if self.store.prior_body(version) is None:
            known = [row.version for row in self.priors()]
            raise errors.ParameterError(
                f"there is no version {version} of the prior; known: {known}"
            )
        return self._load(version)

    def arms(self) -> versions.ArmList:
        """Return the arms of the active prior: names, and which are retired or new.

        Returns
        -------
        ArmList
            The version of the prior, and its arms.
        """
        active = self.active
        return versions.ArmList.of(active.version, active.prior)

    def change_arms(
        self,
        add: Sequence[str] = (),
        retire: Sequence[str] = (),
        restore: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
    ) -> versions.ArmList:
        """Change the arms of the active prior: make a version with the changes, and activate it.

        All changes happen at once, in one transaction, whatever other replicas do meanwhile.
        Changes that were made before are skipped, so a repeated call changes nothing.

        Parameters
        ----------
        add : sequence of str
            Names of new arms; they look like the other arms of each component
            (``prior.arm_prior``).
        retire : sequence of str
            Arms to take no more; their observations still count.
        restore : sequence of str
            Retired arms to take again.
        rename : mapping of str to str
            New names by present names; an arm keeps its data, and its history shows the new name.

        Returns
        -------
        ArmList
            The arms after the changes.
        """
        changes = versions.ArmChanges.checked(add, retire, restore, rename)

        def change(transaction: Transaction) -> versions.ArmList:
            shape = transaction.shape()  # locks: no other writer activates a prior meanwhile
            version = transaction.active_version()
            assert version is not None
            before = self._load(version).prior
            prior = changes.applied(before)
            if prior is not before:
                self._check_size(prior)
                versions.check_decides(prior, self.policy)
                self.rules.check(prior)
                now = transaction.now_us()
                made = Pedigree("arms", version, version)
                version, _ = transaction.add_prior(versions.logged_prior(prior, now, made))
                transaction.activate(version, now, versions.fitted_shape(prior, shape))
            return versions.ArmList.of(version, prior)

        found: versions.ArmList = self._writer.run(lambda: self._transact(change))
        return found

    def _begin(self, prior: MixturePrior | None, force: bool) -> None:
        """Store and activate a prior that is new, and count this decider if it has a seed."""
        known = self.store.backend.value(FIND_META, (TRIAL_KEY,))
        if known is None:
            self._trial_key = self._transact(lambda transaction: transaction.trial_key())
        else:
            self._trial_key = bytes.fromhex(known)
        shard = keep_shard(self.store, self.rules.shard, self._transact)
        self.rules = replace(self.rules, shard=shard)
        if prior is not None:
            versions.check_decides(prior, self.policy)
            self._transact(lambda transaction: self._activate_if_new(transaction, prior, force))
        self.rules.check(self.prior)  # which has the arms that were added since
        if Promotion.of(self.store) != self.promotion:
            self._transact(self.promotion.keep)
        if not self.rules.is_kept(self.store):
            self._transact(self.rules.keep)
        held = HoldbackTimes.of(self.store)
        if held.after(self.rules.holdback, 0) != held:
            self._transact(lambda transaction: HoldbackTimes.note(transaction, self.rules.holdback))
        if isinstance(self._seed, int | np.random.SeedSequence):
            life = self._transact(lambda transaction: transaction.begin_life())
            self._rng = _generator_of_life(self._seed, life)

    def _activate_if_new(self, transaction: Transaction, prior: MixturePrior, force: bool) -> None:
        version, is_new = self._add_version(transaction, prior)
        if is_new or transaction.active_version() is None:
            versions.check_passed(prior, force)
            self._activate(transaction, version, prior)

    def _add_version(self, transaction: Transaction, prior: MixturePrior) -> tuple[int, bool]:
        row = versions.logged_prior(prior, transaction.now_us())
        transaction.shape()  # for its lock
        # One that is known may have fewer arms than the tasks have by now.
        if transaction.find_prior(row.digest) is None:
            self._checked_shape(transaction, prior)
        return transaction.add_prior(row)

    def _check_size(self, prior: MixturePrior) -> None:
        if self._max_numbers is not None:
            versions.check_size(prior, self._max_numbers)

    def _activate(
        self, transaction: Transaction, version: int, prior: MixturePrior, reason: str = ""
    ) -> None:
        self._check_size(prior)
        self.rules.check(prior)
        shape = self._checked_shape(transaction, prior)
        transaction.activate(version, transaction.now_us(), shape, reason)

    def _checked_shape(self, transaction: Transaction, prior: MixturePrior) -> str:
        """Return the shape of statistics under a prior; raise if it does not fit the tasks."""
        shape = versions.fitted_shape(prior, transaction.shape())
        active = transaction.active_version()
        before = None if active is None else self._load(active).prior
        versions.check_arms(prior, before)
        versions.check_features(prior, before)
        return shape

    def _load(self, version: int) -> versions.LoadedPrior:
        active = self._loaded.get(version)
        if active is None:
            found = versions.LoadedPrior.of(self.store, version)
            active = self._loaded.setdefault(version, found)
        return active

    # -- reading ------------------------------------------------------------------------------

    def task(self, name: str) -> TaskState:
        """Return the counts and the belief of a task.

        Parameters
        ----------
        name : str
            The task's name; one without decisions raises ``UnknownTaskError``.

        Returns
        -------
        TaskState
            Numbers of decisions and rewards, weights of the components, and mean rewards.
        """
        row = self.store.task(checked_name(name, "task"))
        if row is None:
            raise _unknown(name)
        active, belief = self._belief(name)
        offered = self._offered(name, active)
        has_actions = active.prior.family.n_arms is not None or offered is not None
        rows = None if offered is None else offered.rows
        means = belief.mean_rewards(rows)[0].tolist() if has_actions else ()
        return TaskState(
            name, row.decisions, row.rewards, row.late, tuple(belief.weights[0].tolist()),
            tuple(means), active.version, active.prior.names, row.defaults, row.deferred,
            None if offered is None else offered.names,
            {} if offered is None else offered.facts.context,
        )  # fmt: skip

    def posterior(self, task: str, best: int | None = None) -> ActionPosteriors:
        """Return the posterior of each action's mean reward.

        Parameters
        ----------
        task : str
            The task's name.
        best : int, optional
            Only so many actions, those with the highest means; all, unless given.

        Returns
        -------
        ActionPosteriors
            Linear priors: of the actions last offered.
        """
        active, belief = self._belief(task)
        last = self._offered(task, active)
        offered = None if last is None else last.rows
        if active.prior.family.n_arms is None and offered is None:
            return ActionPosteriors((), (), (), (), 0)
        return versions.action_posteriors(belief, offered, best)

    def imagine(self, task: str, outcomes: Sequence[Outcome] = ()) -> tuple[Outlook, Outlook]:
        """Return what would be believed and chosen after outcomes, which are not logged.

        Parameters
        ----------
        task : str
            The task's name; one without decisions raises ``UnknownTaskError``.
        outcomes : sequence of (int, float)
            Actions, by their indices, and imagined rewards. Linear priors: of the actions last
            offered.

        Returns
        -------
        tuple of Outlook
            The belief and the next decision as they are, and after the outcomes. Decisions whose
            rewards have not come are left out.
        """
        active, belief = self._belief(task)
        last = self._offered(task, active)
        offered = None if last is None else last.rows
        if active.prior.family.n_arms is None and offered is None:
            raise errors.ActionError(f"no actions were offered to task {task!r} yet")
        prior, now = active.prior, belief.statistics
        after = imagined(prior, now, offered, outcomes)
        before = outlook(prior, now, offered, self.policy)
        return before, outlook(prior, after, offered, self.policy) if outcomes else before

    def health(self) -> Health:
        """Return whether decisions can be written, how many operations wait, and a warning.

        Returns
        -------
        Health
            The state of the writer.
        """
        reason, value = self._writer.trouble, self._closer.only_value
        warning = None if value is None else silence_warning(value)
        return Health(reason is None, reason, self._writer.pending, warning, self._watch.warning)

    def agreements(self, version: int | None = None) -> Agreements | None:
        """Return what the prior expected, and what the same decisions earned.

        A thread reads the rewards that are final from the log, every few seconds.

        Parameters
        ----------
        version : int, optional
            A version of the prior; the active one, unless given.

        Returns
        -------
        Agreements or None
            None if no decision of this version is final, or the log was not read whole yet.
        """
        return self._watch.agreements(self.prior_version if version is None else version)

    def account(self) -> Account | None:
        """Return the evidence for the challenger from the final decisions of new tasks.

        A thread reads the log again and again. If the champion is right, the evidence ever reaches
        100 to 1 with a probability of at most 1 %.

        Returns
        -------
        Account or None
            None if there is one version of the prior only, or nothing was read yet.
        """
        return self._promoter.account

    def trial(self) -> Trial | None:
        """Return how the canary compares with the active version.

        Returns
        -------
        Trial or None
            None if there is no canary, or nothing was read yet.
        """
        return self._promoter.trial

    def worth(self) -> Worth | None:
        """Return the lift over the tasks that are held back, as a thread read it last.

        Returns
        -------
        Worth or None
            None if none of the last thousand decisions was held back, or nothing was read yet.
        """
        return self._worth.worth

    def ready(self) -> bool:
        """Return whether decisions can be written.

        Returns
        -------
        bool
            True if they can.
        """
        return self.health().writable

    @property
    def batches(self) -> tuple[int, int]:
        """Number of batches that were written, and of operations in all of them."""
        return self._writer.batches

    def weights(self, tasks: Sequence[str]) -> list[tuple[float, ...]]:
        """Return the present probabilities of the components, of many tasks at once.

        Parameters
        ----------
        tasks : sequence of str
            Names of tasks; one without decisions raises ``UnknownTaskError``.

        Returns
        -------
        list of tuple of float
            P_t(s) under the active prior, in the order of the tasks; empty for a task whose
            history the active prior cannot compute with.
        """
        if not tasks:
            return []
        try:
            _, belief = self._belief(*tasks)
            return [tuple(row) for row in belief.weights.tolist()]
        except errors.StatisticsError:
            if len(tasks) == 1:
                return [()]
            return [found for task in tasks for found in self.weights([task])]

    def _belief(self, *tasks: str) -> tuple[versions.LoadedPrior, Belief]:
        """Return the active prior and the belief of tasks, with the task axis."""
        contents = self.store.statistics([checked_name(task, "task") for task in tasks])
        for task in tasks:
            if task not in contents:
                raise _unknown(task)
        active = self.active
        statistics = active.codec.decode([contents[task] for task in tasks])
        return active, active.prior.condition(statistics)

    def _offered(self, task: str, active: versions.LoadedPrior) -> ActionSet | None:
        return None if active.prior.family.n_arms is not None else self.store.last_offer(task)

    # -- closing ------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what was accepted; the store stays open, also for another decider."""
        self._closer.close()
        self._watch.close()
        self._promoter.close()
        self._worth.close()
        try:
            self._writer.close()
        finally:
            self.store.release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _generator_of_life(seed: int | np.random.SeedSequence, life: int) -> np.random.Generator:
    """Return the generator of the decider with this number; the first one is number 0."""
    if life == 0:
        return random.generator(seed, "decider")
    if isinstance(seed, np.random.SeedSequence):
        key = (*seed.spawn_key, life)
        return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))
    return random.stream(int(seed), "decider", life)


def _unknown(task: str) -> errors.UnknownTaskError:
    return errors.UnknownTaskError(f"no decision was made for a task {task!r} yet")
