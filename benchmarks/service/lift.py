"""Check how often the interval of the lift misses the truth, watched after every batch of tasks.

    python benchmarks/service/lift.py streams [--streams 2000] [--seed 1] [--only WORDS]
    python benchmarks/service/lift.py tasks

``streams`` simulates streams of tasks without a lift, and a quarter as many with a lift of 10 %, in
regimes of rewards and lives of tasks, and compares the confidence sequence with the usual interval
of 1.96 errors, which is made for one look. ``tasks`` prints how many tasks tell a lift from none.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from mixts_serve.lift import LIFTS, Lift, Sums, compare, needed_information
from scipy.stats import beta

N_BATCHES = 40
LIFT = 0.1
USUAL = 1.96


class Regime(NamedTuple):
    """How tasks live, and what their decisions earn."""

    name: str
    tasks: int
    control: float
    """Share of the tasks that are held back."""
    rate: float
    """Mean probability of a reward."""
    alike: float
    """Sum of the parameters of the beta law of a task's probability."""
    sigma: float = 0.0
    """Rewards are lognormal with this sigma; 0: they are 1."""
    decisions: float = 5.0
    """Mean number of a task's decisions: in all, or in each batch if tasks go on."""
    life: str = "short"
    """short: one batch; long: from its birth on; fixed: all tasks are there from the begin."""
    heavy: bool = False
    """Whether few tasks have most of the decisions."""
    drift: bool = False
    """Whether the mean reward rises and falls by half over time."""
    delay: int = 0
    """Batches after which rewards are final."""


REGIMES = (
    Regime("clicks at 30 %, control 50 %", 20_000, 0.5, 0.3, 10),
    Regime("clicks at 30 %, control 5 %", 6_000, 0.05, 0.3, 10),
    Regime("clicks at 1 %, control 5 %", 20_000, 0.05, 0.01, 20),
    Regime("purchases at 5 %, lognormal (sigma 1), control 10 %", 15_000, 0.1, 0.05, 10, 1.0),
    Regime("purchases at 5 %, lognormal (sigma 1.5), control 30 %", 20_000, 0.3, 0.05, 10, 1.5),
    Regime("clicks at 30 %, tasks go on", 4_000, 0.1, 0.3, 10, 0, 1, "long"),
    Regime("clicks at 1 %, the same tasks all the time", 3_000, 0.1, 0.01, 200, 0, 15, "fixed"),
    Regime("few tasks have most decisions, and go on", 8_000, 0.1, 0.3, 10, 0, 1, "long", True),
    Regime(
        "rewards drift and are final late, tasks go on", 6_000, 0.05, 0.3, 10, 0, 1, "long",
        drift=True, delay=5,
    ),
    Regime("clicks at 86 %, one decision a task, control 2 %", 10_000, 0.02, 0.86, 1e6, 0, 0),
)  # fmt: skip


class Side:
    """The tasks of one side of a stream."""

    def __init__(self, regime: Regime, better: Any, rng: np.random.Generator) -> None:
        n = len(better)
        self._regime, self._better, self._rng = regime, better, rng
        born = np.arange(n) * N_BATCHES // max(n, 1)
        self._ends = np.searchsorted(born, np.arange(N_BATCHES), side="right")
        if regime.life == "fixed":
            self._ends[:] = n
        self._decisions = np.full(n, float(regime.decisions))
        if regime.heavy:
            self._decisions *= np.minimum(rng.pareto(2.0, n), 10.0)
        a, b = regime.rate * regime.alike, (1 - regime.rate) * regime.alike
        self._chances = np.minimum(rng.beta(a, b, n), max(regime.rate, 0.6))
        self._made, self._earned = np.zeros(n), np.zeros(n)
        self._open: list[tuple[slice, Any, Any]] = []

    def step(self, batch: int, drift: float) -> tuple[Sums, float]:
        """Return the sums of what is final, and the number of decisions that became so."""
        rng, before = self._rng, int(self._ends[batch - 1]) if batch else 0
        who = slice(before if self._regime.life == "short" else 0, int(self._ends[batch]))
        decisions = rng.poisson(self._decisions[who])
        decisions[before - who.start :] += batch == 0 or self._regime.life != "fixed"
        better, is_money = self._better[who], self._regime.sigma > 0
        # Clicks become more, purchases larger.
        chances = self._chances[who] * drift * (1.0 if is_money else better)
        rewards = rng.binomial(decisions, chances).astype(float)
        if is_money:
            buyers = np.repeat(np.arange(len(rewards)), rewards.astype(int))
            sizes = rng.lognormal(0, self._regime.sigma, len(buyers))
            rewards = np.bincount(buyers, sizes, len(rewards)) * better
        self._open.append((who, decisions, rewards))
        n_final = 0.0
        if len(self._open) > self._regime.delay:
            who, decisions, rewards = self._open.pop(0)
            self._made[who] += decisions
            self._earned[who] += rewards
            n_final = float(decisions.sum())
        end = int(self._ends[max(0, batch - self._regime.delay)])
        return sums(self._made[:end], self._earned[:end]), n_final


def watch(
    regime: Regime, lift: float, rng: np.random.Generator, *, shuffled: bool = False
) -> Iterator[tuple[float, Lift]]:
    """Yield the true mean reward of control's decisions and the measured lift after each batch."""
    n_control = rng.binomial(regime.tasks, regime.control)
    better = np.where(np.arange(regime.tasks) < n_control, 1.0, 1.0 + lift)
    if shuffled:
        better = rng.permutation(better)
    sides = [Side(regime, own, rng) for own in (better[:n_control], better[n_control:])]
    mean, weighted, n = regime.rate * math.exp(regime.sigma**2 / 2), 0.0, 0.0
    drifts = 1 + 0.5 * np.sin(np.arange(N_BATCHES) / 4) * regime.drift
    for batch, drift in enumerate(drifts):
        found = [side.step(batch, drift) for side in sides]
        if batch >= regime.delay:
            n_final = sum(n for _, n in found)
            n, weighted = n + n_final, weighted + n_final * drifts[batch - regime.delay]
            yield mean * weighted / n, compare(found[0][0], found[1][0])


def sums(made: Any, earned: Any) -> Sums:
    """Return the sums over tasks from their numbers of decisions and sums of positive rewards."""
    tasks, n, total = len(made), made.sum(), earned.sum()
    if not n:
        return Sums()
    of_decisions = earned - total / n * made
    of_tasks = earned - total / tasks
    of_decisions *= of_decisions
    of_tasks *= of_tasks
    squares = (of_decisions.sum(), np.square(of_decisions).sum())
    squares += (of_tasks.sum(), np.square(of_tasks).sum())
    return Sums(tasks, int(n), float(total), float(total), *map(float, squares))


class Missed(NamedTuple):
    """Whether the intervals of one stream ever missed the truth; the usual one, too."""

    known: bool
    difference: bool
    per_task: bool
    relative: bool
    usual: bool
    excludes: bool
    """Whether the interval ever excluded zero."""


def missed(regime: Regime, lift: float, rng: np.random.Generator, **options: bool) -> Missed:
    """Watch one stream."""
    known = difference = per_task = relative = usual = excludes = False
    truth = 0.0 if options else lift
    for mean, found in watch(regime, lift, rng, **options):
        one, other = found.per_decision, found.per_task
        if one is not None and one.interval is not None:
            known = True
            low, high = one.interval
            # The truth of streams that drift is about the mean of the time so far.
            difference |= not low <= truth * mean <= high
            half = _error(found) * USUAL
            usual |= abs(one.difference - truth * mean) > half
            excludes |= one.direction != 0
            relative |= one.relative is not None and not (
                one.relative[0] <= truth <= one.relative[1]
            )
        if other is not None and other.relative is not None:
            per_task |= not other.relative[0] <= truth <= other.relative[1]
    return Missed(known, difference, per_task, relative, usual, excludes)


def _error(found: Lift) -> float:
    return math.sqrt(
        sum(
            side.decision_squares / side.decisions**2 * side.tasks / (side.tasks - 1)
            for side in (found.control, found.treated)
        )
    )


def share(n: int, of: int) -> str:
    """Return a share in per cent with its exact 95 % interval."""
    low = beta.ppf(0.025, n, of - n + 1) if n else 0.0
    high = beta.ppf(0.975, n + 1, of - n) if n < of else 1.0
    return f"{100 * n / of:.2f} % ({100 * low:.2f} to {100 * high:.2f})"


def run_streams(options: argparse.Namespace) -> None:
    """Print how often the intervals missed the truth in each regime."""
    for lift, streams in ((0.0, options.streams), (LIFT, -(-options.streams // 4))):
        for number, regime in enumerate(REGIMES):
            if options.only not in regime.name:
                continue
            began = time.monotonic()
            found = np.array(
                [
                    missed(regime, lift, np.random.default_rng([options.seed, number, i]))
                    for i in range(streams)
                ]
            )
            n = {name: int(found[:, i].sum()) for i, name in enumerate(Missed._fields)}
            print(f"lift {lift:.0%}, {regime.name} ({time.monotonic() - began:.0f} s)")
            print(f"    known in the end {share(n['known'], streams)}")
            for name in ("difference", "relative", "per_task"):
                print(f"    {name} ever missed {share(n[name], streams)}")
            print(f"    usual interval ever missed {share(n['usual'], streams)}")
            print(f"    zero ever excluded {share(n['excludes'], streams)}", flush=True)


def run_tasks() -> None:
    """Print the number of tasks, on both sides together, that tell lifts from none."""
    shares = (0.05, 0.1, 0.2, 0.5)
    print("lift    errors  " + "".join(f"{share:>12.0%}" for share in shares))
    for name, variation in (
        ("5 decisions at 30 %", 0.7 / 0.3 / 5),
        ("5 decisions at 1 %", 0.99 / 0.01 / 5),
    ):
        print(f"{name}, independent")
        for lift in LIFTS:
            needed = needed_information(lift) * variation
            cells = "".join(f"{needed / share / (1 - share):>12,.0f}" for share in shares)
            print(f"{lift:>6.1%} {math.sqrt(1 / needed_information(lift)):>8.2%}{cells}")


def main() -> None:
    """Run the study, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("streams", "tasks"))
    parser.add_argument("--streams", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if options.what == "tasks":
        run_tasks()
    else:
        run_streams(options)


if __name__ == "__main__":
    main()
