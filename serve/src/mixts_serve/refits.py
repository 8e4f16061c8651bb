"""Refits: learn the prior again from all tasks of the store and all that was known before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct

from mixts import MixturePrior, __version__
from mixts.errors import LogsError, MixtsError, ParameterError, StoreError
from mixts.extend import Array, Float, Int, checks, estimate
from mixts.learning import (
    Evidence,
    Matched,
    match_components,
    mixture_evidence,
)
from mixts.learning import (
    refit as learn_on,
)
from mixts_serve.data_check import check_days
from mixts_serve.promotion import ASK, Promotion
from mixts_serve.records import Pedigree
from mixts_serve.refitter import RefitNote, set_note
from mixts_serve.rules import DEFAULT_POLICY, Policy
from mixts_serve.snapshot import Days, Snapshot
from mixts_serve.store import DecisionStore
from mixts_serve.store.base import Transaction
from mixts_serve.versions import LoadedPrior, check_decides, fitted_shape, logged_prior

HELD_OUT, MOST_HELD_OUT = 0.2, 1_000
"""Share of the tasks, the newest, on which candidates are compared, and their largest number."""
FEWEST_TASKS = 50
"""With fewer tasks the number of components stays as it is."""
FEWEST_COMPARED = 10
"""With fewer new tasks the prior is not compared with the one in force."""
ENOUGH_COMPARED = 100
"""With fewer tasks since the last refit, earlier ones that the prior in force has not seen count,
too: after a refusal a few new tasks alone would let the same prior pass."""
MOST_NEW = 3
"""Largest number of new components."""
MOST_COMPARED = 5_000
"""Largest number of tasks from which numbers of components are learned to compare them: the newest.
The chosen number is then learned from all tasks."""
LEAST_GAIN = 0.005
"""Least gain of a task's log evidence for a new component, which costs time in every decision, and
least difference that makes a prior better or worse than the one in force."""
LEAST_OF_KIND = 4.0
"""Least number of tasks of a new component: fewer are no kind."""
PARENT = "the prior in force"


class Refit(Struct, frozen=True):
    """Result of a refit.

    Attributes
    ----------
    status : str
        "activated"; "uploaded", if it waits for a person or for evidence; "refused", if it was
        uploaded and not activated because it predicts worse; "unchanged", if there was nothing
        to learn or another refit was faster.
    version : int
        The new version of the prior; if nothing changed, the active one.
    parent, root : int
        The version that was active before, and the one that learning began with.
    tasks, new_tasks : int
        Number of tasks that were learned from, and of those that are new since the last refit.
    kinds, arms, verdict : str
        What became of the kinds and of new arms, and the comparison with the parent, in words.
    reason : str
        Why nothing changed; "" if something did.
    excluded : tuple of str
        Days that were left out.
    window : float
        Seconds: only tasks that are no older were learned from; 0: all were.
    """

    status: str
    version: int
    parent: int
    root: int
    tasks: int = 0
    new_tasks: int = 0
    kinds: str = ""
    arms: str = ""
    verdict: str = ""
    reason: str = ""
    excluded: tuple[str, ...] = ()
    window: float = 0.0

    @property
    def lines(self) -> list[str]:
        """The result in words, the verdict first."""
        version = f"version {self.version}"
        if self.status == "unchanged":
            return [f"nothing changed: {self.reason}; {version} stays active"]
        stays = f"version {self.parent} stays active"
        first = {
            "activated": f"refitted: {version} is active",
            "uploaded": f"refitted: {version} is stored, and {stays}",
            "refused": f"refused: {version} predicts worse and was not activated; {stays}",
        }[self.status]
        new = f"{self.new_tasks:,} of them new since the last refit"
        parts = [
            f"{first}; learned from version {self.root} and {self.tasks:,} tasks, {new}",
            self.verdict,
            f"kinds: {self.kinds}",
            f"arms {self.arms}" if self.arms else "",
            f"days left out: {', '.join(self.excluded)}" if self.excluded else "",
            f"only tasks of the last {self.window / 86_400:g} days count" if self.window else "",
        ]
        return [part for part in parts if part]


def refit(
    store: DecisionStore,
    *,
    exclude: Sequence[str] = (),
    promote: Literal["refit", "ask"] | float | None = None,
    window: float | None = None,
    root_tasks: float | None = None,
    seed: int = 1,
    force: bool = False,
) -> Refit:
    """Learn the prior again, and activate it unless it predicts worse than the prior in force.

    Learning begins with the last prior that was uploaded, counted as the tasks that it was learned
    from, and takes all tasks of the store: so no task counts twice, however often one refits. Arms
    that were added, retired or renamed since stay so. The service may go on meanwhile; it decides
    with the new prior from the next decision on.

    Parameters
    ----------
    store : DecisionStore
        A store with a prior.
    exclude : sequence of str
        Days to leave out, such as "2026-03-01" or "2026-03-01..2026-03-07", besides those that the
        last refit left out; "none" takes these back.
    promote : "refit", "ask" or number, optional
        Activate the prior at once, upload it only, or upload it with the wish to activate it when
        the evidence for it reaches a number above 1, such as 100; by default, as the service that
        was started last on this store says. If that says so, the prior has a canary before.
    window : float, optional
        Also try to learn only from tasks that are at most so many seconds old, and use that if it
        predicts the newest tasks better by two standard errors.
    root_tasks : float, optional
        Number of tasks that the uploaded prior counts for, if it does not say from how many it was
        learned.
    seed : int
        Seed of all that is random.
    force : bool
        Whether to learn from days whose data look wrong, and to activate a prior that predicts
        worse.

    Returns
    -------
    Refit
        What was done, and what changed.
    """
    if window is not None:
        window = checks.positive_number(window, "window")
    if root_tasks is not None:
        root_tasks = checks.positive_number(root_tasks, "root_tasks")
    seed = checks.count(seed, "seed", least=0)
    wish = Promotion.of(store)
    if promote is not None:
        wish = Promotion.checked(promote, wish.canary)
    request = _Request(wish, tuple(exclude), window, root_tasks, seed, force)
    if isinstance(exclude, str):
        raise ParameterError(f"exclude must be a list of days, got {exclude!r}")
    try:
        found = _refit(store, request)
    except MixtsError as error:
        _keep(store, f"nothing was learned: {error}")
        raise
    _keep(store, "\n".join(found.lines))
    return found


def _keep(store: DecisionStore, result: str) -> None:
    store.backend.transact(lambda t: set_note(t, RefitNote(t.now_us() / 1e6, result)))


@dataclass(frozen=True)
class _Request:
    """What a refit was asked for."""

    wish: Promotion
    exclude: tuple[str, ...]
    window: float | None
    root_tasks: float | None
    seed: int
    force: bool


def _refit(store: DecisionStore, request: _Request) -> Refit:
    lineage = Lineage.of(store)
    last, root_tasks = lineage.last_refit, request.root_tasks
    if root_tasks is None and last is not None:
        root_tasks = last.root_tasks
    excluded = _excluded(request.exclude, last)
    active = lineage.load(lineage.active)
    try:
        snapshot = Snapshot.of(store, active, excluded)
    except StoreError:
        now = Lineage.of(store)
        if now.active == lineage.active:
            raise
        return now.unchanged("the prior or its arms were changed meanwhile")
    days = tuple(map(str, excluded))
    state = (snapshot.rewards, days, request.window, root_tasks)
    if last is not None and state == (last.rewards, last.excluded, last.asked, last.root_tasks):
        return lineage.unchanged("no rewards have come since the last refit")
    if not snapshot.statistics.n_observations.any():
        return lineage.unchanged("there are no rewards to learn from")
    root = lineage.carried(lineage.load(lineage.root).prior, active.prior)
    if root.origin is None and root_tasks is None:
        raise ParameterError(
            f"version {lineage.root} of the prior does not say from how many tasks it was learned: "
            "give the number that it counts for (--root-tasks 50; later refits keep it)"
        )
    checked = 0 if last is None else last.checked_until
    health = check_days(store, snapshot, active.prior, excluded, checked)
    if health.findings and not request.force:
        raise LogsError(health.sentence)
    last_task = 0 if last is None else last.last_task
    learning = Learning(
        root, active.prior, snapshot, last_task, lineage.learned_until, root_tasks,
        request.seed, request.window,
    )  # fmt: skip
    learned = learning.learned()
    check_decides(learned.prior, Policy(DEFAULT_POLICY))
    passed = request.force or learned.passed
    wish = request.wish if passed else Promotion(ASK)
    pedigree = Pedigree(
        change="refit", parent=lineage.active, root=lineage.root, tasks=len(snapshot.numbers),
        rewards=snapshot.rewards, last_decision=snapshot.last_decision,
        last_task=int(snapshot.numbers.max(initial=0)), checked_until=health.checked_until,
        excluded=days, root_tasks=root_tasks, seed=request.seed, mixts=__version__,
        promote=wish.rule, canary=wish.canary, asked=request.window,
        window=learned.window,
        kinds=learned.matched.sentence, arms=_arms(active.prior, learned.prior),
        verdict=learned.verdict,
    )  # fmt: skip
    version = store.backend.transact(
        lambda t: _write(t, lineage, learned.prior, pedigree, wish.is_at_once)
    )
    if version is None:
        return Lineage.of(store).unchanged("another prior or another refit came first")
    return Refit(
        status="activated" if wish.is_at_once else "uploaded" if passed else "refused",
        version=version, parent=lineage.active, root=lineage.root, tasks=pedigree.tasks,
        new_tasks=int((snapshot.numbers > last_task).sum()),
        kinds=pedigree.kinds, arms=pedigree.arms, verdict=learned.verdict, excluded=days,
        window=learned.window,
    )  # fmt: skip


def _excluded(exclude: Sequence[str], last: Pedigree | None) -> list[Days]:
    """Return the days to leave out: those of the last refit, and those that are given."""
    kept = () if last is None or "none" in exclude else last.excluded
    return sorted({Days.parse(text) for text in (*kept, *exclude) if text != "none"})


def _arms(before: MixturePrior, after: MixturePrior) -> str:
    """Return in words which new arms the prior has learned about."""
    if before.family.n_arms is None:
        return ""
    names = after.arm_names or tuple(f"arm {k}" for k in range(before.family.n_arms))
    found = np.flatnonzero(before.arms.new & ~after.arms.new).tolist()
    shown = ", ".join(repr(names[k]) for k in found[:5]) + ", ..." * (len(found) > 5)
    return f"learned from data for the first time: {shown}" if found else ""


# -- which priors there are ----------------------------------------------------------------------


@dataclass(frozen=True)
class Lineage:
    """Versions of the prior: the active one, and the uploaded one that it comes from."""

    store: DecisionStore
    pedigrees: dict[int, Pedigree | None]
    active: int

    @classmethod
    def of(cls, store: DecisionStore) -> Lineage:
        """Read the versions of a store."""
        versions = store.priors()
        active = next((each.version for each in versions if each.active), None)
        if active is None:
            raise StoreError(f"{store.name} has no prior yet: mixts serve --prior brings one")
        return cls(store, {each.version: each.pedigree for each in versions}, active)

    @property
    def root(self) -> int:
        """The uploaded version from which the active one comes."""
        return self.root_of(self.active)

    def root_of(self, version: int) -> int:
        """Return the uploaded version from which a version comes."""
        made = self.pedigrees[version]
        while made is not None:
            version = made.root
            made = self.pedigrees[version]
        return version

    @property
    def last_refit(self) -> Pedigree | None:
        """The pedigree of the newest refit that began with the same version."""
        root = self.root
        refits = [
            made
            for version, made in sorted(self.pedigrees.items())
            if made is not None and made.change == "refit" and self.root_of(version) == root
        ]
        return refits[-1] if refits else None

    @property
    def learned(self) -> int:
        """The version that the active one is, but for changes of its arms."""
        version = self.active
        while (made := self.pedigrees[version]) is not None and made.change == "arms":
            version = made.parent
        return version

    @property
    def learned_until(self) -> int:
        """Number of the last task that the active version was learned from; 0: none is known."""
        made = self.pedigrees[self.learned]
        return 0 if made is None else made.last_task

    def load(self, version: int) -> LoadedPrior:
        """Return a version of the prior."""
        return LoadedPrior.of(self.store, version)

    @staticmethod
    def carried(prior: MixturePrior, active: MixturePrior) -> MixturePrior:
        """Return a prior with the arms of the active one: added, retired and renamed as they are.

        Both have the same arms in the same places; the active one may have more.
        """
        n, family = prior.family.n_arms, active.family
        if n is None or family.n_arms is None:
            return prior
        names = active.arm_names
        carried = prior if names is None else prior.replace(arm_names=names[:n])
        if family.n_arms > n:
            carried = carried.add_arms(family.n_arms - n if names is None else names[n:])
        retired, gone = active.arms.retired, carried.arms.retired
        if (retired & ~gone).any():
            carried = carried.retire_arms(np.flatnonzero(retired & ~gone).tolist())
        if (gone & ~retired).any():
            carried = carried.restore_arms(np.flatnonzero(gone & ~retired).tolist())
        return carried

    def unchanged(self, reason: str) -> Refit:
        """Return the result of a refit that changes nothing."""
        return Refit("unchanged", self.active, self.active, self.root, reason=reason)


def _write(
    transaction: Transaction,
    before: Lineage,
    prior: MixturePrior,
    pedigree: Pedigree,
    activates: bool,
) -> int | None:
    """Store a prior, and activate it; return None if other priors came meanwhile.

    The lock of ``shape`` keeps other writers of priors out until the transaction ends.
    """
    shape = transaction.shape()
    now = Lineage.of(before.store)
    if (now.learned, now.last_refit) != (before.learned, before.last_refit):
        return None
    if now.active != before.active:  # its arms were changed
        prior = before.carried(prior, now.load(now.active).prior)
    moment = transaction.now_us()
    version, _ = transaction.add_prior(logged_prior(prior, moment, pedigree))
    if activates:
        transaction.activate(
            version, moment, fitted_shape(prior, shape), "its refit passed its checks"
        )
    return version


# -- learning ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """A refitted prior, and its comparison with the prior in force."""

    prior: MixturePrior
    matched: Matched
    verdict: str
    passed: bool
    window: float
    """Seconds: only tasks that are no older were learned from; 0: all were."""


class _Plan(NamedTuple):
    """How to learn: how many components more, and from tasks of which age."""

    n_more: int = 0
    window: float = 0.0


@dataclass(frozen=True)
class Learning:
    """Learning of one refit."""

    root: MixturePrior
    active: MixturePrior
    snapshot: Snapshot
    last_task: int = 0
    """Number of the last task by the last refit."""
    learned_until: int = 0
    """Number of the last task that the prior in force was learned from."""
    root_tasks: float | None = None
    seed: int = 1
    window: float | None = None

    def learned(self) -> Outcome:
        """Return the refitted prior, after the comparison on the newest tasks."""
        order = self._order
        n_held = min(int(HELD_OUT * len(order)), MOST_HELD_OUT)
        plan = _Plan() if len(order) < FEWEST_TASKS else self.chosen(order[:-n_held], n_held)
        # Only tasks that the prior in force was not learned from can compare it.
        numbers = self.snapshot.numbers[order]
        n_unseen = int((numbers > self.learned_until).sum())
        n_new = max(int((numbers > self.last_task).sum()), min(n_unseen, ENOUGH_COMPARED))
        n_new = min(n_new, n_unseen, n_held)
        fresh = self.snapshot.statistics[order[len(order) - n_new :]]
        candidate = self.on(order[: len(order) - n_new], plan) if n_new else self.root
        evidence = Evidence(
            {
                "this prior": mixture_evidence(candidate, fresh),
                PARENT: mixture_evidence(self.active, fresh),
            },
            np.asarray(fresh.n_observations),
            LEAST_GAIN,
        )
        passed = n_new < FEWEST_COMPARED or evidence.verdict(PARENT) != "worse"
        verdict = evidence.comparison(PARENT)
        tasks = self.snapshot.statistics[order]
        matched = match_components(self.active, self.on(order, plan), tasks)
        origin = matched.prior.origin
        assert origin is not None
        prior = matched.prior.replace(origin=origin.judged(passed, verdict))
        return Outcome(prior, matched, verdict, passed, plan.window)

    @property
    def _order(self) -> Int[Array, " n"]:
        """Tasks with observations, by the time of their birth."""
        found = np.flatnonzero(self.snapshot.statistics.n_observations)
        return found[np.argsort(self.snapshot.first_at[found], kind="stable")]

    def on(self, tasks: Int[Array, " n"], plan: _Plan) -> MixturePrior:
        """Learn from tasks in the order of their birth.

        With a window the root counts as the part of its tasks that the window has of the others.
        """
        n_tasks = self.root_tasks
        if plan.window:
            born = self.snapshot.first_at[tasks]
            recent = born >= born[-1] - plan.window * 1e6
            whole = n_tasks or (self.root.origin.n_tasks if self.root.origin else None)
            n_tasks = whole and float(whole * recent.mean())
            tasks = tasks[recent]
        some = self.snapshot.statistics[tasks]
        return learn_on(self.root, some, n_tasks=n_tasks, n_more=plan.n_more, seed=self.seed).prior

    def chosen(self, older: Int[Array, " n"], n_held: int) -> _Plan:
        """Choose a plan by the evidence of the newest tasks.

        A plan replaces the simpler one before it if it is better by two standard errors.
        """
        held = self.snapshot.statistics[self._order[-n_held:]]
        few = older[-MOST_COMPARED:]
        plan, reached = _Plan(), mixture_evidence(self.on(few, _Plan()), held)
        while True:
            more = _Plan(plan.n_more + 1)
            tried = self._tried(few, more) if more.n_more <= MOST_NEW else None
            if tried is None or tried.weights[-1] * len(few) < LEAST_OF_KIND:
                break
            gained = mixture_evidence(tried, held)
            if not _is_better(gained, reached, LEAST_GAIN):
                break
            plan, reached = more, gained
        while plan.n_more <= 0:
            fewer = _Plan(plan.n_more - 1)
            tried = self._tried(few, fewer)
            gained = reached if tried is None else mixture_evidence(tried, held)
            if not _is_better(gained, reached):
                break
            plan, reached = fewer, gained
        if self.window is not None:
            recent = _Plan(plan.n_more, self.window)
            tried, every = self._tried(older, recent), self._tried(older, plan)
            if tried is not None and every is not None:
                reached = mixture_evidence(every, held)
                plan = recent if _is_better(mixture_evidence(tried, held), reached) else plan
        return plan

    def _tried(self, tasks: Int[Array, " n"], plan: _Plan) -> MixturePrior | None:
        """Learn by a plan; return None where that is impossible: the refit goes on without it."""
        try:
            return self.on(tasks, plan)
        except (MixtsError, ArithmeticError, np.linalg.LinAlgError):
            return None


def _is_better(gained: Float[Array, " n"], reached: Float[Array, " n"], least: float = 0.0) -> bool:
    gain = estimate(gained - reached)
    return bool(gain.mean > max(2 * gain.error, least))
