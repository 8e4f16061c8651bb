"""What facts about a person are worth to the first decisions of a task.

Run it by ``python -m mixts_paper.studies.person``.

Past tasks are logged with facts about the person. New tasks are then decided by three agents: the
*pooled model*, a regression on the item, the facts and their products, which never learns; the
*mixture* of :func:`mixts.fit_logs` without facts; and *both*, the mixture beside pooled effects
(``person=``). In simulations all items can be chosen as often as an agent likes, and the effects of
the facts are strong, weak, or none. In public data each person answered all questions, so that any
choice among those that are left has its recorded answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold

import mixts
from mixts.agents import POLICIES, policy_named
from mixts.extend import Array, random
from mixts_paper.studies import Fixed
from mixts_paper.studies.predicted import public

N_ITEMS, N_ROWS = 8, 15
N_PAST, N_NEW = 300, 200
"""Past tasks, and new ones, of a simulated world."""
STRENGTHS = {"strong": 1.0, "weak": 0.3, "none": 0.0}
"""Standard deviation of the log odds that facts explain; people of a kind vary by 0.7."""
AGENTS = ("pooled model", "mixture", "both")


@dataclass(frozen=True)
class World:
    """Past tasks, and new tasks whose rewards are known for every choice."""

    past: pd.DataFrame
    """Columns task, item, reward and the facts."""
    people: pd.DataFrame
    """Facts of each new person."""
    items: tuple[str, ...]
    outcomes: Array
    """Reward of each item at each decision of each new person, (n, K, T)."""
    once: bool
    """Whether an item is taken at most once."""

    @property
    def facts(self) -> list[str]:
        """Names of the facts."""
        return list(self.people.columns)


# -- worlds ---------------------------------------------------------------------------------------


def simulated(
    strength: float, seed: int, n_past: int = N_PAST, n_new: int = N_NEW, n_decisions: int = 20
) -> World:
    """Return clicks of people of two kinds, whose age and country matter as much as they should."""
    rng = random.stream(seed, "person")
    n = n_past + n_new
    facts = pd.DataFrame({
        "age": rng.integers(18, 80, n), "country": rng.choice(["at", "de", "fr", "it"], n),
    })  # fmt: skip
    age = (facts["age"].to_numpy() - 48.5) / 18.0
    country = pd.factorize(facts["country"], sort=True)[0]
    by_age, by_country = rng.normal(size=N_ITEMS), rng.normal(size=(4, N_ITEMS))
    known = (age[:, None] * by_age + by_country[country]) / np.sqrt(2)
    kinds = rng.normal(size=(2, N_ITEMS))
    own = kinds[rng.integers(2, size=n)] + 0.7 * rng.normal(size=(n, N_ITEMS))
    rate = 1 / (1 + np.exp(1.5 - own - strength * known))
    items = tuple(f"item {k}" for k in range(N_ITEMS))
    task, item = np.repeat(np.arange(n_past), N_ROWS), rng.integers(N_ITEMS, size=n_past * N_ROWS)
    past = facts.iloc[task].assign(
        task=task,
        item=np.array(items)[item],
        reward=(rng.random(len(task)) < rate[task, item]).astype(int),
    )
    live = rate[n_past:, :, None]
    outcomes = (rng.random((n_new, N_ITEMS, n_decisions)) < live).astype(float)
    people = facts.iloc[n_past:].reset_index(drop=True)
    return World(past.reset_index(drop=True), people, items, outcomes, False)


def verbal_aggression(seed: int) -> World:
    """316 people say of 24 situations whether they would curse, scold or shout."""
    found = public("lme4/VerbAgg").assign(reward=lambda rows: (rows["r2"] == "Y").astype(float))
    return _answered(found, "id", ["Anger", "Gender"], seed)


def personality(seed: int) -> World:
    """People rate 25 statements about themselves from 1 to 6; 600 who rated all of them."""
    found = public("psych/bfi").dropna().iloc[:600].reset_index(drop=True)
    facts = ["gender", "education", "age"]
    found = found.assign(gender=found["gender"].map({1: "male", 2: "female"}))
    long = found.rename_axis("id").reset_index().melt(["id", *facts], None, "item", "reward")
    return _answered(long, "id", facts, seed)


def _answered(rows: pd.DataFrame, task: str, facts: list[str], seed: int) -> World:
    """Divide people who answered everything into past and new ones."""
    rows = rows.rename(columns={task: "task"})[["task", "item", "reward", *facts]]
    people = rows.drop_duplicates("task").set_index("task")[facts]
    order = random.stream(seed, "person", "split").permutation(people.index.to_numpy())
    new = order[int(0.6 * len(order)) :]
    wide = rows.pivot_table(values="reward", index="task", columns="item").loc[new]
    outcomes = wide.to_numpy()[:, :, None]
    past = rows[~rows["task"].isin(new)].reset_index(drop=True)
    known = people.loc[new].reset_index(drop=True)
    return World(past, known, tuple(map(str, wide.columns)), outcomes, True)


PUBLIC: dict[str, Callable[[int], World]] = {
    "verbal aggression": verbal_aggression,
    "personality": personality,
}


# -- agents ---------------------------------------------------------------------------------------


def pooled_scores(world: World, prior: mixts.MixturePrior) -> Array:
    """Return what one regression on items, facts and their products predicts, (n, K).

    Its columns are those of the pooled effects, and scikit-learn chooses the ridge.
    """
    features = prior.features
    assert features is not None
    assert features.pooled is not None
    known = features.pooled
    wide = mixts.Features(
        features.columns,
        pooled=mixts.Pooled(known.columns, known.terms, known.person, known.means),
    )
    rows = wide.rows(world.past[["item", *world.facts]])
    if set(world.past["reward"]) == {0, 1}:
        model, name, scoring = LogisticRegression(max_iter=2000), "C", "neg_log_loss"
    else:
        model, name, scoring = Ridge(), "alpha", "neg_mean_squared_error"
    search = GridSearchCV(model, {name: np.logspace(-3, 3, 13)}, scoring=scoring, cv=GroupKFold(5))
    search.fit(rows, world.past["reward"], groups=world.past["task"])
    sets = np.stack([wide.rows(each) for each in descriptions(world)])
    return np.asarray(sets @ np.ravel(search.best_estimator_.coef_))


def descriptions(world: World) -> list[list[dict[str, Any]]]:
    """Return the items that each new person is offered, with the facts."""
    people = world.people.to_dict("records")
    return [[{"item": item, **facts} for item in world.items] for facts in people]


def earned(world: World, agent: Any, rows: Array) -> Array:
    """Return the reward of each decision of each new person, (n, T)."""
    n, n_items, n_times = world.outcomes.shape
    n_decisions = min(10, n_items) if world.once else n_times
    left, rewards = np.ones((n, n_items), bool), np.empty((n, n_decisions))
    people = np.arange(n)
    for t in range(n_decisions):
        chosen = agent.act(rows, mask=left)
        rewards[:, t] = world.outcomes[people, chosen, 0 if world.once else t]
        agent.update(rows[people, chosen], rewards[:, t])
        if world.once:
            left[people, chosen] = False
    return rewards


def play(world: World, seed: int, policy: str = "ids") -> dict[str, Array]:
    """Return what each agent earns, (n, T)."""
    columns = {"task": "task", "features": ["item"], "reward": "reward"}
    settings: dict[str, Any] = {"n_components": 2, "held_out": 0, "seed": seed, "engine": 1}
    both = mixts.fit_logs(world.past, {**columns, "person": world.facts}, **settings).prior
    mixture = mixts.fit_logs(world.past, columns, **settings).prior
    n, plain = len(world.people), [{"item": item} for item in world.items]
    kind = policy_named(policy)
    return {
        "pooled model": earned(
            world, Fixed(np.ones(1), True, n), pooled_scores(world, both)[..., None]
        ),
        "mixture": earned(world, kind(mixture, n, seed), mixture.action_rows([plain] * n)),
        "both": earned(world, kind(both, n, seed), both.action_rows(descriptions(world))),
    }


# -- the table ------------------------------------------------------------------------------------


def table(name: str, worlds: Sequence[World], firsts: Sequence[int], policy: str) -> list[str]:
    """Return a line for each number of first decisions: means over people with their errors."""
    played = [play(world, seed, policy) for seed, world in enumerate(worlds, 1)]
    lines = []
    for n in firsts:
        means = {
            agent: np.concatenate([one[agent][:, :n].mean(axis=1) for one in played])
            for agent in AGENTS
        }
        cells = [name, str(n), *(_cell(means[agent]) for agent in AGENTS)]
        cells += [_cell(means["both"] - means[agent], signed=True) for agent in AGENTS[:2]]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cell(values: Array, signed: bool = False) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():{'+' if signed else ''}.3f} ± {error:.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", choices=PUBLIC, default=list(PUBLIC))
    parser.add_argument("--worlds", type=int, default=5, help="simulated worlds of each strength")
    parser.add_argument("--policy", choices=POLICIES, default="ids", help="of both mixtures")
    options = parser.parse_args(arguments)
    print(
        "| facts | first decisions | pooled model | mixture | both | both − pooled model "
        "| both − mixture |\n|---|---:|---:|---:|---:|---:|---:|"
    )
    for name, strength in STRENGTHS.items():
        worlds = [simulated(strength, seed) for seed in range(1, options.worlds + 1)]
        print(
            *table(f"{name} (simulated)", worlds, (1, 5, 20), options.policy), sep="\n", flush=True
        )
    for name in options.data:
        print(*table(name, [PUBLIC[name](1)], (1, 5, 10), options.policy), sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
