"""Compare decisions for described actions with and without pooled effects of facts and a score.

python -m benchmarks.facts
python -m benchmarks.facts --repeats 21

Each decision is about new actions and a new person. Both sides take turns, and the time is that of
the processor: the table has the microseconds without and with 201 pooled numbers, and the median
ratio, of ``features.rows``, of ``act`` and of ``update``.
"""

from __future__ import annotations

import argparse
from time import process_time
from typing import Any, NamedTuple

import numpy as np

import mixts

ROUNDS, TASK_NUMBERS, COMPONENTS = 200, 20, 5
PARTS = ("rows", "act", "update")
LEVELS = tuple(f"level {i}" for i in range(TASK_NUMBERS))
LANDS = ("at", "ch", "de", "fr", "it")
ACTIONS, FACTS = (10, 30), ("10 numbers", "5 numbers, 5 levels")


class Side(NamedTuple):
    """A prior, and the offer and the facts of each decision."""

    prior: mixts.MixturePrior
    offers: list[list[dict[str, Any]]]
    people: list[dict[str, Any]]


def sides(items: bool, facts: str, n_actions: int) -> tuple[Side, Side]:
    """Return the same decisions without pooled effects and with 201 of them."""
    rng = np.random.default_rng(1)
    own: list[Any] = [mixts.LevelFeature("item", LEVELS)]
    if not items:
        own = [mixts.NumberFeature(f"x{i}", 0.1, 2.0, (-9, 9)) for i in range(TASK_NUMBERS)]
    known: list[Any] = [mixts.NumberFeature(f"fact {i}", 40, 10, (0, 99)) for i in range(10)]
    if facts != FACTS[0]:
        known = [*known[:5], mixts.LevelFeature("land", LANDS)]
    terms = [*((fact.name, one.name) for fact in known for one in own), ("score",)]
    columns = [*known, mixts.NumberFeature("score"), *own]
    person = [fact.name for fact in known]
    means = rng.uniform(0.0, 0.1, sum(column.n_numbers for column in columns))
    pooled = mixts.Pooled(columns, terms, person, means, rng.normal(size=201) / 50)

    offers: list[list[dict[str, Any]]] = [
        [{one.name: value(rng, one) for one in own} for _ in range(n_actions)]
        for _ in range(ROUNDS)
    ]
    scored = [[{**one, "score": float(rng.normal())} for one in offer] for offer in offers]
    people = [{one.name: value(rng, one) for one in known} for _ in range(ROUNDS)]
    root = rng.normal(size=(COMPONENTS, TASK_NUMBERS, TASK_NUMBERS)) / 5
    covariance = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(TASK_NUMBERS)
    family = mixts.LinearGaussian(rng.normal(size=(COMPONENTS, TASK_NUMBERS)), covariance, 0.5)
    plain = mixts.MixturePrior(family, features=mixts.Features(own))
    both = mixts.MixturePrior(family.with_offset(), features=mixts.Features(own, pooled=pooled))
    return Side(plain, offers, [{}] * ROUNDS), Side(both, scored, people)


def value(rng: np.random.Generator, column: Any) -> Any:
    """Return a random value of a column."""
    if isinstance(column, mixts.LevelFeature):
        return str(rng.choice(column.levels))
    return float(rng.uniform(*column.learned))


def play(side: Side) -> list[float]:
    """Return the microseconds of ``features.rows``, ``act`` and ``update``, means over rounds."""
    features, seconds = side.prior.features, np.zeros(len(PARTS))
    assert features is not None
    agent = mixts.MixTS(side.prior, seed=1)
    contexts = [{"context": person} if person else {} for person in side.people]
    for i, offer in enumerate(side.offers):
        started = process_time()
        features.rows(offer, **contexts[i - 2])  # facts of no decision before or after
        made = process_time()
        chosen = agent.act(offer, **contexts[i])
        acted = process_time()
        agent.update(offer[chosen], 0.5, **contexts[i])
        seconds += made - started, acted - made, process_time() - acted
    return (seconds / ROUNDS * 1e6).tolist()


def main() -> None:
    """Measure all cases, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.facts", description=__doc__)
    parser.add_argument("--repeats", type=int, default=11)
    repeats = parser.parse_args().repeats
    print(f"| features | facts | actions | {' | '.join(f'{p}, us: ratio' for p in PARTS)} |")
    print("|---" * (3 + len(PARTS)) + "|")
    for name, items in (("an item of 20 levels", True), ("20 numbers", False)):
        for facts in FACTS:
            for n_actions in ACTIONS:
                both = sides(items, facts, n_actions)
                times = np.array([[play(side) for side in both] for _ in range(repeats + 1)])[1:]
                ratios = np.median(times[:, 1] / times[:, 0], axis=0)
                middle = np.median(times, axis=0)
                cells = (
                    f"{a:.0f}, {b:.0f}: {r:.2f}" for a, b, r in zip(*middle, ratios, strict=True)
                )
                print(f"| {name} | {facts} | {n_actions} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
