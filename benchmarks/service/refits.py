"""Does a refit of a service's prior pay, and when does it do harm? Worlds with known truth.

python benchmarks/service/refits.py kinds     # reward and evidence after a refit, new kinds
python benchmarks/service/refits.py window    # all tasks, or the newest ones?
python benchmarks/service/refits.py loops     # six times: serve, refit, compare with before
python benchmarks/service/refits.py days      # false alarms of the check of data, and its power
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from mixts_serve import Decide, Decider, Decision, DecisionStore, Reward, data_check, refit
from mixts_serve.data_check import QUARTER, TREBLE, Point, Series, Totals, find_unusual, shares
from mixts_serve.refits import Learning
from mixts_serve.snapshot import Snapshot

import mixts
from mixts.extend import Array, estimate, random
from mixts.families import Statistics
from mixts.learning import mixture_evidence
from mixts.learning import refit as learn_on

N_PAST, N_LIVE, N_FRESH = 300, 1000, 800
N_KINDS, N_ARMS, N_DECISIONS = 3, 6, 12
NEW_SHARE = 0.15
N_LOOPS, N_LOOP = 6, 200
"""Number of loops, and of new tasks in each."""


def means(rng: np.random.Generator, n: int) -> Array:
    """Draw mean rewards between 0 and 1: each kind likes some arms and dislikes others."""
    return 0.05 + 0.7 * rng.beta(0.4, 0.8, (n, N_ARMS))


def _linear(mean: Array) -> mixts.Family:
    return mixts.LinearGaussian(4 * mean - 1.5, np.stack([0.15 * np.eye(N_ARMS)] * len(mean)), 1.0)


FAMILIES: dict[str, Callable[[Array], mixts.Family]] = {
    "clicks": lambda m: mixts.BernoulliArms(15 * m, 15 * (1 - m)),
    "ratings": lambda m: mixts.GaussianArms(6 * m - 2, np.full(m.shape, 0.3), 1.0),
    "counts": lambda m: mixts.PoissonArms(20 * m, np.full(m.shape, 5.0)),
    "linear": _linear,
}


def _rows(rng: np.random.Generator, n: int) -> Array:
    return rng.standard_normal((n, 8, N_ARMS))


def play(
    truth: mixts.MixturePrior, prior: mixts.MixturePrior | None, n: int, seed: int
) -> tuple[Statistics, Array]:
    """Play n tasks, at random without a prior; return their statistics and mean rewards."""
    environment = mixts.BanditEnvironment(truth, _rows if truth.family.n_arms is None else None)
    problem = environment.start(lambda name: random.stream(seed, name), n)
    agent = mixts.MixIDS(prior or truth, n, seed=seed)
    rng, reward = random.stream(seed, "choices"), np.zeros(n)
    for _ in range(N_DECISIONS):
        actions = problem.next_round().actions
        chosen = agent.act(actions) if prior else rng.integers(problem.means.shape[1], size=n)
        outcome = problem.play(chosen)
        agent.belief.update(*outcome.feedback)
        reward += outcome.values
    return agent.belief.statistics, reward / N_DECISIONS


def live_tasks(
    make: Callable[[Array], mixts.Family],
    change: str,
    root: mixts.MixturePrior,
    seed: int,
    mean: Array,
) -> tuple[Statistics, mixts.MixturePrior]:
    """Return the tasks of a service after the root was learned, and the truth at their end."""
    rng = random.stream(seed, "change")
    weights = np.array([0.5, 0.3, 0.2])
    if change == "new kind":
        both = np.concatenate([mean, means(rng, 1)])
        truth = mixts.MixturePrior(make(both), [*(weights * (1 - NEW_SHARE)), NEW_SHARE])
        return play(truth, root, N_LIVE, seed)[0], truth
    target = means(rng, N_KINDS)
    reach = {"none": 0.0, "slow drift": 0.15, "fast drift": 0.8}[change]
    parts = []
    for step in range(10):
        now = mean + (target - mean) * reach * (step + 0.5) / 10
        truth = mixts.MixturePrior(make(now), weights)
        parts.append(play(truth, root, N_LIVE // 10, 100 * seed + step)[0])
    statistics = parts[0]
    for part in parts[1:]:
        statistics = statistics.concatenate(part)
    last = mixts.MixturePrior(make(mean + (target - mean) * reach), weights)
    return statistics, last


def start(name: str, seed: int) -> tuple[Array, mixts.MixturePrior]:
    """Return the kinds of a world, and the prior that was learned from its past."""
    mean = means(random.stream(seed, "kinds"), N_KINDS)
    past, _ = play(mixts.MixturePrior(FAMILIES[name](mean), [0.5, 0.3, 0.2]), None, N_PAST, seed)
    return mean, mixts.learn_prior(past, N_KINDS, seed=1, n_restarts=2, engine=1)


def learning(root: mixts.MixturePrior, tasks: Statistics) -> Learning:
    """Return the learning of a refit of all tasks, which were born in their order."""
    order = np.arange(len(tasks))
    return Learning(root, root, Snapshot(tasks, order + 1, order, 0, 0))


def kinds(seeds: int) -> None:
    """Print gains of refits over the root, and how many new components they have."""
    print("| world | change | reward of a decision | reward | log evidence | new kinds, gone |")
    print("|---|---|---|---|---|---|")
    for name in FAMILIES:
        for change in ("none", "slow drift", "fast drift", "new kind"):
            rewards, gains, first, more = [], [], [], []
            for seed in range(1, seeds + 1):
                mean, root = start(name, seed)
                tasks, truth = live_tasks(FAMILIES[name], change, root, seed, mean)
                done = learning(root, tasks).learned()
                fresh, _ = play(truth, None, N_FRESH, 7000 + seed)
                gains.append(mixture_evidence(done.prior, fresh) - mixture_evidence(root, fresh))
                new, old = (play(truth, p, N_FRESH, 9000 + seed)[1] for p in (done.prior, root))
                rewards.append(new - old)
                first.append(old.mean())
                more.append(done.prior.n_components - N_KINDS)
            reward, gain = (estimate(np.concatenate(each)) for each in (rewards, gains))
            print(
                f"| {name} | {change} | {np.mean(first):.3f} | {reward.mean:+.4f} ± "
                f"{reward.error:.4f} | {gain.mean:+.3f} ± {gain.error:.3f} | "
                f"{' '.join(map('{:+d}'.format, more))} |",
                flush=True,
            )  # fmt: skip


def window(seeds: int) -> None:
    """Print the loss of learning from a fifth of the tasks, and of choosing by evidence."""
    print(
        "| world | change | the newest fifth | choice | chose the newest |\n|---|---|---|---|---|"
    )
    for name in ("clicks", "ratings"):
        for change in ("none", "slow drift", "fast drift"):
            found: dict[str, list[Array]] = {"window": [], "choice": []}
            n_chosen = 0
            for seed in range(1, seeds + 1):
                mean, root = start(name, seed)
                tasks, truth = live_tasks(FAMILIES[name], change, root, seed, mean)
                n = len(tasks)
                assert root.origin is not None
                few = root.origin.n_tasks / 5

                def on(
                    last: int,
                    root: mixts.MixturePrior = root,
                    few: float = few,
                    tasks: Statistics = tasks,
                ) -> tuple[mixts.MixturePrior, mixts.MixturePrior]:
                    recent = tasks[np.arange(last - N_LIVE // 5, last)]
                    return (
                        learn_on(root, tasks[np.arange(last)]).prior,
                        learn_on(root, recent, n_tasks=few).prior,
                    )

                held = tasks[np.arange(n - n // 5, n)]
                before = on(n - n // 5)
                gain = estimate(
                    mixture_evidence(before[1], held) - mixture_evidence(before[0], held)
                )
                chosen = int(gain.mean > 2 * gain.error)
                after = on(n)
                rewards = [play(truth, one, N_FRESH, 9000 + seed)[1] for one in after]
                found["window"].append(rewards[1] - rewards[0])
                found["choice"].append(rewards[chosen] - rewards[0])
                n_chosen += chosen
            cells = [estimate(np.concatenate(each)) for each in found.values()]
            text = " | ".join(f"{one.mean:+.4f} ± {one.error:.4f}" for one in cells)
            print(f"| {name} | {change} | {text} | {n_chosen} of {seeds} |", flush=True)


def loops(seeds: int) -> None:
    """Serve and refit a store six times; print what fresh tasks earn more than before.

    The truth moves a little from loop to loop ("slow drift"), or never. Fresh tasks are of the
    truth at the end, and both priors play the same ones. A cell's error is that between worlds.
    """
    print(f"| world | change | {' | '.join(map(str, range(1, N_LOOPS + 1)))} | from 0 to 6 |")
    print("|---" * (N_LOOPS + 3) + "|")
    single, cells = [], []
    for name in FAMILIES:
        for reach in (0.0, 0.15):
            found = [_gains(name, reach, seed) for seed in range(1, seeds + 1)]
            each = [[estimate(gain) for gain in gains] for gains in zip(*found, strict=True)]
            row = [estimate(np.array([gain.mean for gain in gains])) for gains in each]
            single += [gain for gains in each[:-1] for gain in gains]
            cells += row[:-1]
            text = " | ".join(f"{cell.mean:+.4f} ± {cell.error:.4f}" for cell in row)
            print(f"| {name} | {'slow drift' if reach else 'none'} | {text} |", flush=True)
    for title, gains in (("cells", cells), ("single refits", single)):
        scores = np.array([gain.mean / gain.error for gain in gains if gain.error])
        print(
            f"{len(gains)} {title}: {np.sum(scores < -2)} worse by two errors, "
            f"{np.sum(scores > 2)} better; the worst by {-scores.min():.1f} errors"
        )


def _gains(name: str, reach: float, seed: int) -> list[Array]:
    """Return what each refit of a store gains, a task, and what all of them gain together."""
    mean, root = start(name, seed)
    target = means(random.stream(seed, "change"), N_KINDS)
    names = [f"arm {k}" for k in range(N_ARMS)] if root.family.n_arms else None
    root = root.replace(arm_names=names, origin=root.origin)
    gains, prior = [], root
    with (
        tempfile.TemporaryDirectory(prefix="mixts-loops-") as folder,
        DecisionStore(Path(folder) / "decisions.db") as store,
        Decider(root, store, seed=seed) as decider,
    ):
        for loop in range(N_LOOPS):
            now = mean + (target - mean) * reach * (loop + 1) / N_LOOPS
            truth = mixts.MixturePrior(FAMILIES[name](now), [0.5, 0.3, 0.2])
            serve(decider, truth, f"loop {loop} task", 100 * seed + loop)
            refit(store)
            both = [play(truth, p, N_FRESH, 9000 + seed)[1] for p in (decider.prior, prior)]
            gains.append(both[0] - both[1])
            prior = decider.prior
        return [*gains, both[0] - play(truth, root, N_FRESH, 9000 + seed)[1]]


def serve(decider: Decider, truth: mixts.MixturePrior, prefix: str, seed: int) -> None:
    """Let a service decide for new tasks, and report their rewards."""
    environment = mixts.BanditEnvironment(truth, _rows if truth.family.n_arms is None else None)
    problem = environment.start(lambda name: random.stream(seed, name), N_LOOP)
    for _ in range(N_DECISIONS):
        actions = problem.next_round().actions
        offers = [None] * N_LOOP if truth.family.n_arms else list(actions)
        tasks = [Decide(f"{prefix} {i}", offer) for i, offer in enumerate(offers)]
        made = [one for one in decider.decide_many(tasks) if isinstance(one, Decision)]
        _, values = problem.play(np.array([one.action for one in made])).feedback
        decider.reward_many([Reward(m.id, float(v)) for m, v in zip(made, values, strict=True)])


def days(years: int) -> None:
    """Print the share of years with a false alarm, and how soon faults are found."""
    rng = np.random.default_rng(1)
    first = date(2025, 1, 1)
    for tail in ("normal", "heavy"):
        n_alarms, n_findings = 0, 0
        for _ in range(years):
            found = find_unusual(_year(rng, first, tail, 365), first, date.max)
            n_alarms += bool(found)
            n_findings += len(found)
        print(f"{tail} days: {n_alarms} of {years} years have a false alarm, {n_findings} in all")
    for fault, factor in (("rewards recorded as 0", 0.0), ("70 % lost", 0.3), ("half lost", 0.5)):
        n_found, n_days = 0, 0
        for _ in range(years):
            series = _year(rng, first, "normal", 60, factor)
            found = find_unusual(series, first, date.max)
            n_found += any(each.days.first == first + timedelta(days=50) for each in found)
            n_days += sum(
                (each.days.last - each.days.first).days + 1
                for each in found
                if each.name == "the mean reward"
            )
        print(
            f"{fault}: found on the first day in {n_found} of {years}; {n_days / years:.1f} of 7 "
            "days named"
        )


def _year(
    rng: np.random.Generator, first: date, tail: str, n_days: int, factor: float = 1.0
) -> list[Series]:
    """Draw a shop: weekends differ, days vary by 10 %, rewards grow by a quarter."""

    def effects(scale: float) -> Array:
        if tail == "normal":
            return np.exp(scale * rng.standard_normal(n_days))
        return np.exp(scale * rng.standard_t(5, n_days) * np.sqrt(3 / 5))

    dates = [first + timedelta(days=d) for d in range(n_days)]
    weekend = np.array([day.weekday() >= 5 for day in dates])
    n_tasks = rng.poisson(300 * np.where(weekend, 0.6, 1.0) * effects(0.1)) + 1
    base = 0.1 * np.where(weekend, 1.2, 1.0) * np.linspace(1.0, 1.25, n_days)
    rate = np.minimum(base * effects(0.1), 0.9)
    wrong = (np.arange(n_days) >= 50) & (np.arange(n_days) < 57)
    rate = np.where(wrong, factor * rate, rate)
    per_arm = [rng.poisson(1.5 * n_tasks) + 1 for _ in range(6)]
    own = [
        rng.binomial(n, np.minimum(rate * c, 1.0))
        for n, c in zip(per_arm, (0.5, 0.8, 1, 1, 1.2, 1.5), strict=True)
    ]
    arms = [
        {
            day: Totals(n, n, n - k, k, k)
            for day, n, k in zip(dates, ns.tolist(), ks.tolist(), strict=True)
        }
        for ns, ks in zip(per_arm, own, strict=True)
    ]
    every = {day: sum((arm[day] for arm in arms), Totals()) for day in dates}
    pooled = sum(every.values(), Totals())
    tasks = Series("the number of new tasks", TREBLE, TREBLE)
    for day, n in zip(dates, n_tasks.tolist(), strict=True):
        tasks.points[day] = Point(float(np.log(n)), 1 / n, n)
    series = [tasks, data_check.means("the mean reward", every, pooled, True, QUARTER)]
    series.append(shares("defaults", every, lambda t: (t.defaults, t.rewards)))
    for k, arm in enumerate(arms):
        series.append(
            data_check.means(f"arm {k}", arm, sum(arm.values(), Totals()), True, TREBLE, np.inf)
        )
    return series


def main() -> None:
    """Run a part, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("kinds", "window", "loops", "days"))
    parser.add_argument("--runs", type=int, default=8, help="worlds, or years")
    options = parser.parse_args()
    parts = {"kinds": kinds, "window": window, "loops": loops, "days": days}
    parts[options.part](options.runs)


if __name__ == "__main__":
    main()
