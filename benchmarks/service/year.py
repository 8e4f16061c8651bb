"""A year of a service in a changing world: does a weekly refit keep up, and does it ever cost?

    python benchmarks/service/year.py                 # the year
    python benchmarks/service/year.py --world still   # the same without any change
    python benchmarks/service/year.py --years 1 2 3   # more worlds, one after the other
    python benchmarks/service/year.py --parts         # what the refitted prior loses, and why

Kinds of customer drift, a new kind appears in July, items come and go, and in October the rewards
of a week are recorded as 0. The service is a ``Decider`` on a SQLite file with a clock of its own,
and ``mixts_serve.refit`` runs once a week; if it is refused because data look wrong, it is repeated
without the days that its message names. On the same customers, with the same luck, decide:

- an oracle, whose prior is the true mixture of the day, and which explores nothing besides;
- the prior of the first day, never refitted;
- "paused": the refitted prior of the end of the month before, and "in force": that of the day, both
  with the same draws, so that their difference is what the refits of the month gained or cost;
- the same service with a refit that checks nothing (``force=True``);
- the item that sold best in the last 30 days, with every tenth decision at random;
- for the parts of the loss: the oracle when it explores as the service does, the refitted prior
  when it does not, and the true mixture of all customers that the last refit could learn from.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import numpy as np
from mixts_serve import Decide, Decider, Decision, DecisionStore, Reward, refit
from mixts_serve.rules import DEFAULT_EXPLORE
from mixts_serve.store.sqlite import SQLiteBackend

import mixts
from mixts.errors import LogsError
from mixts.extend import Array, estimate, random

DAYS, MONTHS = 365, 12
LIFE, ROUNDS = 3, 4
"""Days on which a customer comes, and decisions on each of them."""
N_PAST = 1000
"""Customers from whom the first prior was learned: they saw items at random."""
EVERY = 7
"""Days between refits."""
START = datetime(2025, 1, 1, tzinfo=UTC)

ORACLE, REFIT, FIXED = "oracle", "refit", "fixed prior"
PAUSED, IN_FORCE = "paused", "in force"
UNCHECKED, BESTSELLER = "refit without checks", "bestseller of 30 days"
EXPLORING, UNEXPLORING, PAST = "exploring oracle", "refit, not exploring", "past"
SERVICES = (REFIT, UNCHECKED, ORACLE, FIXED, PAUSED, IN_FORCE, BESTSELLER)
"""The stores come first: others take the prior that is in force."""
PARTS = (REFIT, ORACLE, EXPLORING, UNEXPLORING, PAST)
PERIODS = {
    "January to June": range(182), "July to October": range(182, 304),
    "November, December": range(304, DAYS), "year": None,
}  # fmt: skip
"""A new kind comes on the first day of July."""


def month_of(day: int) -> int:
    """Return the month of a day, from 0."""
    return day * MONTHS // DAYS


# -- the world -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """What changes in the year. Days are counted from 0."""

    seed: int = 1
    weights: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
    first_items: int = 8
    reach: float = 0.3
    """How far the kinds drift in the year, on the way to kinds drawn anew."""
    new_kind: tuple[int, float] = (182, 0.15)
    """Day from which on there is one kind more, and its share of the new customers."""
    come: tuple[int, ...] = (60, 150, 240)
    """Days on which an item is added."""
    go: tuple[tuple[int, int], ...] = ((100, 2), (300, 5))
    """Days on which an item is retired, and which."""
    lost: tuple[int, int] = (276, 283)
    """Days whose rewards are recorded as 0: from the first to before the last."""

    @classmethod
    def still(cls, seed: int = 1) -> World:
        """Return a world in which nothing changes."""
        return cls(seed, reach=0.0, new_kind=(DAYS, 0.15), come=(), go=(), lost=(DAYS, DAYS))

    @property
    def n_items(self) -> int:
        """Number of items that there ever are."""
        return self.first_items + len(self.come)

    @property
    def names(self) -> list[str]:
        """Names of the items."""
        return [f"item {k}" for k in range(self.n_items)]

    def rates(self, day: int) -> Array:
        """Return the click rates of all items by kind; the kind that comes later is the last."""
        rng, shape = random.stream(self.seed, "kinds"), (len(self.weights) + 1, self.n_items)
        first, last = (0.05 + 0.7 * rng.beta(0.4, 0.8, shape) for _ in range(2))
        return np.asarray(first + (last - first) * self.reach * day / DAYS)

    def truth(self, day: int) -> mixts.MixturePrior:
        """Return the mixture from which the customers of a day are drawn."""
        begins, share = self.new_kind
        weights, rates = np.array(self.weights), self.rates(day)
        if day < begins:
            rates = rates[:-1]
        else:
            weights = np.append(weights * (1 - share), share)
        family = mixts.BernoulliArms(15 * rates, 15 * (1 - rates))
        return mixts.MixturePrior(family, weights, arm_names=self.names)

    def past(self, day: int, n_new: int) -> mixts.MixturePrior:
        """Return the mixture of the customers who came before the last refit.

        A prior that is learned from all of them is no better, however many they are.
        """
        last = max(day // EVERY * EVERY - 1, 0)
        number = np.zeros(self.truth(last).n_components)
        total = np.zeros((len(number), self.n_items))
        for each in range(last + 1):
            truth = self.truth(each)
            customers = truth.weights * (n_new if each else N_PAST)
            number[: truth.n_components] += customers
            total[: truth.n_components] += customers[:, None] * truth.family.parameter_means()
        rates = total / number[:, None]
        family = mixts.BernoulliArms(15 * rates, 15 * (1 - rates))
        return mixts.MixturePrior(family, number / number.sum(), arm_names=self.names)

    def offered(self, day: int) -> Array:
        """Return which items there are on a day."""
        items = np.arange(self.n_items) < self.first_items + np.sum(np.array(self.come) <= day)
        items[[item for since, item in self.go if since <= day]] = False
        return items

    def first_prior(self) -> mixts.MixturePrior:
        """Learn the prior of the first day from customers who saw its items at random."""
        rng = random.stream(self.seed, "past")
        _, rates = self.truth(0).draw(rng, N_PAST)
        names = self.names[: self.first_items]
        flat = mixts.MixturePrior(mixts.BernoulliArms.uniform(len(names)), arm_names=names)
        past, customers = flat.belief(n_tasks=N_PAST), np.arange(N_PAST)
        for _ in range(LIFE * ROUNDS):
            shown = rng.integers(len(names), size=N_PAST)
            past.update(shown, rng.random(N_PAST) < rates[customers, shown])
        learned = mixts.learn_prior(past.statistics, len(self.weights), seed=1, engine=1)
        return learned.replace(arm_names=names, origin=learned.origin)


@dataclass
class Cohort:
    """The customers whose first day it is, and what each of their decisions would earn."""

    day: int
    rates: Array
    luck: Array
    """(n, decisions): an item is clicked if its rate is above this."""
    earned: dict[str, Array] = field(default_factory=dict)
    """Sum of the click rates of the items that a service showed to each customer."""


# -- the services --------------------------------------------------------------------------------


class Service(Protocol):
    """A way to decide."""

    def begin(self, day: int, offered: Array) -> None:
        """Begin a day with the items that are offered."""

    def act(self, living: Sequence[Cohort]) -> Array:
        """Choose an item for each customer of these cohorts, (cohorts, n)."""

    def learn(self, living: Sequence[Cohort], items: Array, clicks: Array) -> None:
        """Learn what was recorded of these decisions."""


def explored(items: Array, offered: Array, share: float, rng: np.random.Generator) -> Array:
    """Replace a share of the items by items that are drawn evenly."""
    others = rng.choice(np.flatnonzero(offered), size=items.shape)
    return np.where(rng.random(items.shape) < share, others, items)


class InProcess:
    """The service's policy with a prior that is given for each day, without a store."""

    def __init__(
        self,
        world: World,
        prior: Callable[[int], mixts.MixturePrior],
        explore: float = DEFAULT_EXPLORE,
    ) -> None:
        self._world, self._prior, self._explore = world, prior, explore
        self._agents: dict[int, mixts.MixIDS] = {}

    def begin(self, day: int, offered: Array) -> None:
        self._day, self._offered = day, offered
        self._agents.pop(day - LIFE, None)
        self._rng = random.stream((self._world.seed << 16) + day, "explore")

    def act(self, living: Sequence[Cohort]) -> Array:
        if self._day not in self._agents:
            prior = self._prior(self._day)
            missing = self._world.names[len(prior.arm_names or ()) :]
            prior = prior.add_arms(missing) if missing else prior
            seed = (self._world.seed << 16) + self._day
            self._agents[self._day] = mixts.MixIDS(prior, len(living[-1].rates), seed=seed)
        items = np.stack([self._agents[each.day].act(mask=self._offered) for each in living])
        return explored(items, self._offered, self._explore, self._rng)

    def learn(self, living: Sequence[Cohort], items: Array, clicks: Array) -> None:
        for each, shown, clicked in zip(living, items, clicks, strict=True):
            self._agents[each.day].update(shown, clicked)


class Bestseller:
    """The item with the highest click rate of the last 30 days, and at times another one."""

    def __init__(self, n_items: int, seed: int, n_days: int = 30, explore: float = 0.1) -> None:
        self._n, self._explore = n_items, explore
        self._rng = random.stream(seed, "bestseller")
        self._counts: deque[Array] = deque(maxlen=n_days)

    def begin(self, day: int, offered: Array) -> None:
        shown, clicked = sum(self._counts, np.zeros((2, self._n)))
        rate = np.where(offered, (clicked + 0.2) / (shown + 1), -1.0)
        self._offered, self._best = offered, int(rate.argmax())
        self._counts.append(np.zeros((2, self._n)))

    def act(self, living: Sequence[Cohort]) -> Array:
        best = np.full((len(living), len(living[0].rates)), self._best)
        return explored(best, self._offered, self._explore, self._rng)

    def learn(self, living: Sequence[Cohort], items: Array, clicks: Array) -> None:
        for row, weights in zip(self._counts[-1], (None, clicks.ravel()), strict=True):
            row += np.bincount(items.ravel(), weights, self._n)


class Served:
    """A real ``Decider``, its store, and its refits."""

    def __init__(self, world: World, prior: mixts.MixturePrior, path: Path, force: bool) -> None:
        self._world, self._force, self._seconds = world, force, START.timestamp()
        clock = lambda: int(1e6 * self._seconds)  # noqa: E731
        self.store = DecisionStore(SQLiteBackend(path, synchronous="OFF", clock=clock))
        self.decider = Decider(prior, self.store, seed=world.seed)
        self.log: list[str] = []

    def begin(self, day: int, offered: Array) -> None:
        self._seconds, self._made = START.timestamp() + 86_400 * day, list[str]()
        if day and day % EVERY == 0:
            done = refit_unattended(self.store, self._force)
            date = (START + timedelta(days=day)).date()
            self.log += [f"{date} {line}" for line in done]
        arms = self.decider.arms().arms
        known = [arm.name for arm in arms]
        add = [name for name in self._world.names[: _last(offered) + 1] if name not in known]
        gone = [arm.name for arm in arms if not (offered[arm.index] or arm.retired) and arm.name]
        if add or gone:
            self.decider.change_arms(add=add, retire=gone)

    def act(self, living: Sequence[Cohort]) -> Array:
        self._seconds += 3600
        tasks = [Decide(f"{each.day}/{i}") for each in living for i in range(len(each.rates))]
        made = [one for one in self.decider.decide_many(tasks) if isinstance(one, Decision)]
        self._made = [one.id for one in made]
        return np.array([one.action for one in made]).reshape(len(living), -1)

    def learn(self, living: Sequence[Cohort], items: Array, clicks: Array) -> None:
        self._seconds += 60
        pairs = zip(self._made, clicks.ravel().tolist(), strict=True)
        self.decider.reward_many([Reward(id, float(click)) for id, click in pairs])

    def close(self) -> None:
        """Close the decider and the store."""
        self.decider.close()
        self.store.close()


def _last(offered: Array) -> int:
    return int(np.flatnonzero(offered)[-1])


def refit_unattended(store: DecisionStore, force: bool = False) -> list[str]:
    """Refit as a person would who only reads the messages; return what happened, in words."""
    exclude: list[str] = []
    lines = []
    for _ in range(3):
        try:
            return [*lines, " | ".join(refit(store, exclude=exclude, force=force).lines)]
        except LogsError as error:
            lines.append(str(error))
            exclude = re.findall(r"--exclude ([\d.-]+\d)", str(error))
    return lines


# -- the year ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Year:
    """What each service earned of each customer."""

    born: Array
    """Day of each customer's first decision, (n,)."""
    earned: dict[str, Array]
    """Mean click rate of the items that were shown to each customer, (n,)."""
    logs: dict[str, list[str]]
    """What the refits said."""

    @property
    def months(self) -> Array:
        """Month of each customer's first decision, from 0."""
        return self.born * MONTHS // DAYS

    def inside(self, period: int | range | None) -> Array:
        """Return which customers came first in a month, on some days, or in the year."""
        if isinstance(period, range):
            return np.isin(self.born, period)
        return np.ones(len(self.born), bool) if period is None else self.months == period


def save(years: Sequence[Year], path: Path) -> None:
    """Save the rewards of years, for the picture."""
    found = {
        f"{name}/{k}": values for k, y in enumerate(years) for name, values in y.earned.items()
    }
    np.savez_compressed(path, born=np.stack([year.born for year in years]), **found)


def load(path: Path) -> list[Year]:
    """Load the rewards of years; what their refits said is not kept."""
    with np.load(path) as found:
        names = [name.rpartition("/")[0] for name in found if name.endswith("/0")]
        return [
            Year(born, {name: found[f"{name}/{k}"] for name in names}, {})
            for k, born in enumerate(found["born"])
        ]


def run(world: World, n_new: int, n_days: int = DAYS, only: Sequence[str] = SERVICES) -> Year:
    """Run the services on the same customers, ``n_new`` new ones a day."""
    first, rng = world.first_prior(), random.stream(world.seed, "customers")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mixts-year-")))
        served = {}
        for name in {REFIT, UNCHECKED} & set(only):
            served[name] = Served(world, first, folder / f"{name}.db", name == UNCHECKED)
            stack.callback(served[name].close)
        at_month: dict[int, mixts.MixturePrior] = {}

        def paused(day: int) -> mixts.MixturePrior:
            return at_month[month_of(day)]

        services: dict[str, Service] = {
            ORACLE: InProcess(world, world.truth, 0.0),
            PAUSED: InProcess(world, paused),
            IN_FORCE: InProcess(world, lambda day: served[REFIT].decider.prior),
            FIXED: InProcess(world, lambda day: first),
            BESTSELLER: Bestseller(world.n_items, world.seed),
            EXPLORING: InProcess(world, world.truth),
            UNEXPLORING: InProcess(world, lambda day: served[REFIT].decider.prior, 0.0),
            PAST: InProcess(world, lambda day: world.past(day, n_new), 0.0),
            **served,
        }
        services = {name: services[name] for name in only}
        living: deque[Cohort] = deque(maxlen=LIFE)
        cohorts = []
        for day in range(n_days):
            if PAUSED in only and month_of(day) not in at_month:
                at_month[month_of(day)] = served[REFIT].decider.prior
            _, rates = world.truth(day).draw(rng, n_new)
            living.append(Cohort(day, rates, rng.random((n_new, LIFE * ROUNDS))))
            cohorts.append(living[-1])
            _serve_day(world, day, services, living)
        logs = {name: each.log for name, each in served.items()}
    whole = cohorts[: n_days - LIFE + 1]
    born = np.repeat([cohort.day for cohort in whole], n_new)
    means = {
        name: np.concatenate([each.earned[name] for each in whole]) / (LIFE * ROUNDS)
        for name in only
    }
    return Year(born, means, logs)


def _serve_day(
    world: World, day: int, services: dict[str, Service], living: Sequence[Cohort]
) -> None:
    offered, is_lost = world.offered(day), world.lost[0] <= day < world.lost[1]
    rates = np.stack([each.rates for each in living])
    for name, service in services.items():
        service.begin(day, offered)
        for decision in range(ROUNDS):
            items = service.act(living)
            shown = np.take_along_axis(rates, items[..., None], axis=2)[..., 0]
            luck = [each.luck[:, (day - each.day) * ROUNDS + decision] for each in living]
            service.learn(living, items, (luck < shown) & (not is_lost))
            for each, earned in zip(living, shown, strict=True):
                each.earned[name] = each.earned.get(name, 0.0) + earned


# -- the table -----------------------------------------------------------------------------------


def gain(
    years: Sequence[Year], name: str, other: str, period: int | range | None
) -> tuple[float, float]:
    """Return what a service earned more than another in a month, in days, or in the year.

    It is in per cent of what the oracle earned, with its standard error.
    """
    inside = [year.inside(period) for year in years]
    pairs = list(zip(years, inside, strict=True))
    gaps = estimate(
        np.concatenate([(year.earned[name] - year.earned[other])[some] for year, some in pairs])
    )
    best = np.concatenate([year.earned[ORACLE][some] for year, some in pairs]).mean()
    return 100 * gaps.mean / best, 100 * gaps.error / best


def table(years: Sequence[Year]) -> str:
    """Return the table by month: the oracle's reward, and the others in per cent of it."""
    rivals = [name for name in (REFIT, FIXED, UNCHECKED, BESTSELLER) if name in years[0].earned]
    head = ["month", ORACLE, *rivals, "gain of the month's refits"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    months = sorted(set(years[0].months.tolist()))
    for month in [*months, None]:
        title = "year" if month is None else f"{START.replace(month=month + 1):%B}"
        best = np.concatenate([year.earned[ORACLE][year.inside(month)] for year in years]).mean()
        cells = [title, f"{best:.4f}"]
        for name in rivals:
            gap, error = gain(years, name, ORACLE, month)
            cells.append(f"{100 + gap:.1f} ± {error:.1f} %")
        gap, error = gain(years, IN_FORCE, PAUSED, month)
        lines.append(f"| {' | '.join(cells)} | {gap:+.1f} ± {error:.1f} % |")
    return "\n".join(lines)


def parts(years: Sequence[Year]) -> str:
    """Return the table of what the refitted prior loses, in per cent of the oracle's reward."""
    pairs = {
        "refit": (REFIT, ORACLE), "exploring": (REFIT, UNEXPLORING),
        "learning": (UNEXPLORING, PAST), "past customers differ": (PAST, ORACLE),
        "(exploring, of the oracle)": (EXPLORING, ORACLE),
    }  # fmt: skip
    lines = [f"| period | {' | '.join(pairs)} |", "|---" * (len(pairs) + 1) + "|"]
    for title, days in PERIODS.items():
        gaps = [gain(years, *pair, days) for pair in pairs.values()]
        cells = [f"{gap:+.1f} ± {error:.1f} %" for gap, error in gaps]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run years, and print the table and what the refits said."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--world", choices=("changes", "still"), default="changes")
    parser.add_argument("--years", type=int, nargs="+", default=[1], help="seeds of worlds")
    parser.add_argument("--new", type=int, default=24, help="new customers a day")
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--parts", action="store_true", help="print why the refitted prior loses")
    parser.add_argument("--save", type=Path, help="file for the picture, year.npz")
    options = parser.parse_args()
    make = World if options.world == "changes" else World.still
    started, years = time.process_time(), []
    for seed in options.years:
        only = PARTS if options.parts else SERVICES
        years.append(run(make(seed), options.new, options.days, only))
        for name, lines in years[-1].logs.items():
            print(f"{name}, world {seed}:", *lines, sep="\n  ", flush=True)
        print(f"world {seed} ended", flush=True)
    print(parts(years) if options.parts else table(years))
    if options.save is not None:
        save(years, options.save)
    print(f"{time.process_time() - started:.0f} s of processor time")


if __name__ == "__main__":
    main()
