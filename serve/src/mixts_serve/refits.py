"""Refits: learn the prior again from all tasks of the store and all that was known before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from msgspec import Struct

from mixts import MixturePrior, __version__
from mixts.errors import LogsError, ParameterError, StoreError
from mixts.extend import Array, Int, Statistics, estimate
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
from mixts_serve.records import Pedigree
from mixts_serve.rules import DEFAULT_POLICY, Policy
from mixts_serve.snapshot import Days, Snapshot
from mixts_serve.store import DecisionStore
from mixts_serve.store.base import Transaction
from mixts_serve.versions import LoadedPrior, check_decides, fitted_shape, logged_prior

HELD_OUT, MOST_HELD_OUT = 0.2, 1_000
"""Share of the tasks, the newest, on which candidates are compared, and their largest number."""
FEWEST_TASKS = 50
"""With fewer tasks the number of components stays as it is."""
MOST_NEW = 3
"""Largest number of new components."""
LEAST_OF_KIND = 4.0
"""Least number of tasks of a new component: fewer are no kind."""
PARENT = "the prior in force"

Promotion = Literal["refit", "ask"] | float


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


def refit(
    store: DecisionStore,
    *,
    exclude: Sequence[str] = (),
    promote: Promotion = "refit",
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
    promote : "refit", "ask" or number
        Activate the prior at once, upload it only, or upload it with the wish to activate it when
        the evidence for it reaches a number above 1, such as 100.
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
    wish = _checked_wish(promote)
    lineage = Lineage.of(store)
    last = lineage.last_refit
    if root_tasks is None and last is not None:
        root_tasks = last.root_tasks
    excluded = _excluded(exclude, last)
    active = lineage.load(lineage.active)
    snapshot = Snapshot.of(store, active, excluded)
    days = tuple(map(str, excluded))
    state = (len(snapshot.numbers), snapshot.rewards, days, root_tasks)
    if last is not None and state == (last.tasks, last.rewards, last.excluded, last.root_tasks):
        return lineage.unchanged("there are no new tasks and no new rewards since the last refit")
    if not snapshot.statistics.n_observations.any():
        return lineage.unchanged("the store has no rewards yet")
    root = lineage.carried(lineage.load(lineage.root).prior, active.prior)
    checked = 0 if last is None else last.checked_until
    health = check_days(store, snapshot, active.prior, excluded, checked)
    if health.findings and not force:
        raise LogsError(health.sentence)
    learned = Learning(root, active.prior, snapshot, last, root_tasks).learned()
    pedigree = Pedigree(
        "refit", lineage.active, lineage.root, len(snapshot.numbers), snapshot.rewards,
        snapshot.last_decision, int(snapshot.numbers.max(initial=0)), health.checked_until, days, root_tasks, seed,
        __version__, wish, learned.matched.sentence, _arms(active.prior, learned.prior),
        learned.verdict,
    )  # fmt: skip
    check_decides(learned.prior, Policy(DEFAULT_POLICY))
    activates = wish == "refit" and (force or learned.passed)
    version = store.transact(lambda t: _write(t, lineage, learned.prior, pedigree, activates))
    if version is None:
        return lineage.unchanged("another prior was activated meanwhile, or another refit finished")
    status = "activated" if activates else "uploaded" if learned.passed else "refused"
    new = len(snapshot.numbers) - (0 if last is None else last.tasks)
    return Refit(
        status, version, lineage.active, lineage.root, len(snapshot.numbers), new, pedigree.kinds,
        pedigree.arms, learned.verdict, "", days,
    )  # fmt: skip


def _checked_wish(promote: Promotion) -> str:
    if promote in ("refit", "ask"):
        return str(promote)
    if isinstance(promote, int | float) and 1 < promote < float("inf"):
        return f"{promote:g}"
    raise ParameterError(
        f"promote must be 'refit', 'ask' or a number above 1, such as 100, got {promote!r}"
    )


def _excluded(exclude: Sequence[str], last: Pedigree | None) -> list[Days]:
    """Return the days to leave out: those of the last refit, and those that are given."""
    if isinstance(exclude, str):
        raise ParameterError(f"exclude must be a list of days, got {exclude!r}")
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

    def load(self, version: int) -> LoadedPrior:
        """Return a version of the prior."""
        body = self.store.prior_body(version)
        if body is None:
            raise StoreError(f"{self.store.name} has lost version {version} of the prior")
        return LoadedPrior.load(version, body)

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
    if now.root != before.root or now.last_refit != before.last_refit:
        return None
    if now.active != before.active:  # its arms were changed
        prior = before.carried(prior, now.load(now.active).prior)
    moment = transaction.now_us()
    version, _ = transaction.add_prior(logged_prior(prior, moment, pedigree))
    if activates:
        transaction.activate(version, moment, fitted_shape(prior, shape))
    return version


# -- learning ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """A refitted prior, and its comparison with the prior in force."""

    prior: MixturePrior
    matched: Matched
    verdict: str
    passed: bool


@dataclass(frozen=True)
class Learning:
    """Learning of one refit."""

    root: MixturePrior
    active: MixturePrior
    snapshot: Snapshot
    last: Pedigree | None
    root_tasks: float | None

    def learned(self) -> Outcome:
        """Return the refitted prior, after the comparison on the newest tasks."""
        tasks, newest = self._ordered()
        n = len(tasks)
        n_held = min(int(HELD_OUT * n), MOST_HELD_OUT)
        older, held = tasks[np.arange(n - n_held)], tasks[np.arange(n - n_held, n)]
        n_more, candidate = 0, None
        if n >= FEWEST_TASKS:
            n_more, candidate = self.chosen(older, held)
        # Only tasks that the prior in force was not learned from can compare it.
        seen = 0 if self.last is None else self.last.last_task
        n_new = min(int((newest > seen).sum()), n_held)
        if candidate is None or n_new < n_held:
            candidate = self.on(tasks[np.arange(n - n_new)], n_more)
        fresh = tasks[np.arange(n - n_new, n)]
        both = {"this prior": candidate, PARENT: self.active}
        evidence = Evidence(
            {name: mixture_evidence(prior, fresh) for name, prior in both.items()},
            np.asarray(fresh.n_observations),
        )
        enough = n_new >= 10
        passed = not enough or evidence.verdict(PARENT) != "worse"
        verdict = evidence.comparison(PARENT)
        matched = match_components(self.active, self.on(tasks, n_more), tasks)
        prior = matched.prior
        assert prior.origin is not None
        origin = prior.origin.judged(passed, verdict)
        return Outcome(prior.replace(origin=origin), matched, verdict, passed)

    def _ordered(self) -> tuple[Statistics, Int[Array, " n"]]:
        """Return the tasks with observations, and their numbers, by the time of their birth."""
        found = np.flatnonzero(self.snapshot.statistics.n_observations)
        order = found[np.argsort(self.snapshot.first_at[found], kind="stable")]
        return self.snapshot.statistics[order], self.snapshot.numbers[order]

    def on(self, tasks: Statistics, n_more: int) -> MixturePrior:
        """Learn from tasks with more or fewer components than the root has."""
        return learn_on(self.root, tasks, n_tasks=self.root_tasks, n_more=n_more).prior

    def chosen(self, older: Statistics, held: Statistics) -> tuple[int, MixturePrior]:
        """Choose how many components more there are, by the evidence of the newest tasks."""
        best, n_more = self.on(older, 0), 0
        reached = mixture_evidence(best, held)
        while n_more < MOST_NEW:
            wider = self.on(older, n_more + 1)
            if wider.weights[-1] * len(older) < LEAST_OF_KIND:
                break
            gained = mixture_evidence(wider, held)
            gain = estimate(gained - reached)
            if not gain.mean > 2 * gain.error:
                break
            best, n_more, reached = wider, n_more + 1, gained
        while n_more <= 0 and best.origin is not None and best.origin.learned.sum() > 1:
            fewer = self.on(older, n_more - 1)
            gained = mixture_evidence(fewer, held)
            gain = estimate(gained - reached)
            if not gain.mean > 2 * gain.error:
                break
            best, n_more, reached = fewer, n_more - 1, gained
        return n_more, best
