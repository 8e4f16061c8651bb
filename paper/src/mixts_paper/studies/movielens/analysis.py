"""Analysis of the study: scores of the priors for held-out users, verdicts and figures."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixts.extend import Array
from mixts.pages import Verdict
from mixts.plots import new_axes, plot
from mixts.simulation import Estimate, Results
from mixts_paper.experiments import Analysis, Measured
from mixts_paper.experiments.base import Arrays
from mixts_paper.experiments.verdicts import N_ERRORS, exceeds, not_worse, weakest
from mixts_paper.studies.movielens.splits import (
    AGENTS,
    COMPONENTS,
    FLAT,
    LEAST_RATINGS,
    MIXTURE,
    N_OFFERED,
    N_PLAYS,
    ONE,
    RIDGES,
    TWO_STAGE,
    UNI,
)
from mixts_paper.studies.policies.agents import BESTSELLER, IDS

EARLY = 5
"""Number of rounds that count as the cold start."""


def analyse(measured: Measured, *, published: bool) -> Analysis:
    """Compare the rewards and the held-out evidence of all agents, paired by user and split."""
    arrays = measured.parts["splits"]
    pairs = Pairs(arrays)
    leads = {name: pairs.scores(MIXTURE, name) for name in AGENTS if name != MIXTURE}
    one = pairs.scores(ONE, TWO_STAGE)
    n_splits = len(arrays["chosen"])
    verdicts: dict[str, Verdict] = {
        f"evidence over {name}": weakest(
            exceeds(leads[name].evidence), exceeds(leads[name].by_user)
        )
        for name in (ONE, TWO_STAGE)
    }
    verdicts["rewards"] = _rewards_not_worse(leads[TWO_STAGE])
    for name in (FLAT, UNI, TWO_STAGE, ONE):
        verdicts[f"early over {name}"] = exceeds(leads[name].early)
    acted = {name: pairs.rewards(IDS, name) for name in (MIXTURE, BESTSELLER)}
    verdicts["directed over MixTS"] = weakest(*map(exceeds, acted[MIXTURE]))
    verdicts["directed and bestseller"] = _rewards_not_worse(acted[BESTSELLER])
    verdicts["one Gaussian"] = weakest(_rewards_not_worse(one), exceeds(one.evidence))
    return Analysis(
        {
            "published": published,
            "n_splits": n_splits,
            "per_split": len(arrays["latent"]) // n_splits,
            "n_users": len(np.unique(arrays["latent"])),
            "least_ratings": LEAST_RATINGS,
            "n_offered": N_OFFERED,
            "n_plays": N_PLAYS,
            "ridges": RIDGES,
            "components": COMPONENTS,
            "n_early": min(EARLY, measured.setting.n_rounds),
            "n_rounds": measured.setting.n_rounds,
            "n_errors": N_ERRORS,
            "scores": {name: pairs.scores(name) for name in AGENTS},
            "leads": leads,
            "one": one,
            "acted": acted,
            "acting": {name: pairs.rewards(name) for name in (BESTSELLER, MIXTURE, IDS)},
            "splits": [_split(pairs, split) for split in range(n_splits)],
            "kinds": _kinds(arrays, measured.kept["names"]),
            "ends": {name: _user_means(arrays, "reward", name).mean() for name in AGENTS},
        },
        verdicts,
        {
            "reward": _reward_figure(measured, arrays),
            "evidence": _evidence_figure(pairs, leads, n_splits),
        },
    )


def _rewards_not_worse(lead: Scores | Rewards) -> Verdict:
    return weakest(not_worse(lead.early), not_worse(lead.whole))


# -- means over users ---------------------------------------------------------------------------


class Scores(NamedTuple):
    """Scores of an agent, or differences between two agents."""

    early: Estimate
    """Mean rating of the films taken in the first rounds."""
    whole: Estimate
    """Mean rating over all rounds."""
    evidence: Estimate
    """Held-out log evidence of a rating, over all ratings."""
    by_user: Estimate
    """Held-out log evidence of a rating, with the same weight for every user."""


class Rewards(NamedTuple):
    """Mean ratings of an agent's films, or differences between two agents."""

    early: Estimate
    whole: Estimate


class Pairs(NamedTuple):
    """Measurements of users in the splits in which they are held out."""

    arrays: Arrays

    def scores(self, name: str, other: str | None = None) -> Scores:
        """Return the scores of an agent, or of its difference to another, pair by pair."""
        a = self.arrays
        evidence = a[f"evidence/{name}"]
        if other is not None:
            evidence = evidence - a[f"evidence/{other}"]
        n = a["n_ratings"].astype(float)
        rewards = self.rewards(name, other)
        return Scores(*rewards, self._mean(evidence / n, n), self._mean(evidence / n))

    def rewards(self, name: str, other: str | None = None) -> Rewards:
        """Return the ratings of an agent's films, or their difference to another agent's."""
        reward = self.arrays[f"reward/{name}"]
        if other is not None:
            reward = reward - self.arrays[f"reward/{other}"]
        return Rewards(self._mean(reward[:, :EARLY].mean(axis=1)), self._mean(reward.mean(axis=1)))

    def _mean(self, values: Array, weights: Array | None = None) -> Estimate:
        return clustered(values, self.arrays["latent"], self.arrays["split"], weights)

    def split_lead(self, split: int, name: str, other: str) -> float:
        """Return the difference of two agents in evidence of a rating, in one split."""
        a, inside = self.arrays, self.arrays["split"] == split
        gap = a[f"evidence/{name}"] - a[f"evidence/{other}"]
        return float(gap[inside].sum() / a["n_ratings"][inside].sum())


def clustered(values: Array, users: Array, splits: Array, weights: Array | None = None) -> Estimate:
    """Return the weighted mean of (user, split) pairs and its error, clustered both ways.

    Pairs of the same user are correlated, and so are pairs of the same split, which share a prior.
    The residuals are e = w (v - mean) / sum w. Let V_user be the variance from their sums within
    users, V_split from their sums within splits, and V_pair from the residuals themselves. The
    variance of the mean is V_user + V_split - V_pair (Cameron, Gelbach and Miller, 2011). In small
    samples this may be less than V_user or V_split; then the larger of those is used. The error
    leaves out errors that all splits share, because their training users overlap.
    """
    w = np.ones(len(values)) if weights is None else weights
    mean = float(w @ values / w.sum())
    residual = w * (values - mean) / w.sum()
    by_user, by_split = _variance(residual, users), _variance(residual, splits)
    both = by_user + by_split - float(residual @ residual)
    return Estimate(mean, float(np.sqrt(max(both, by_user, by_split))))


def _variance(residual: Array, clusters: Array) -> float:
    """Return the variance of the mean of clustered values; 0 for a single cluster."""
    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], residual)
    return float(sums @ sums) * len(sums) / (len(sums) - 1) if len(sums) > 1 else 0.0


# -- splits and kinds of people -----------------------------------------------------------------


class Split(NamedTuple):
    """Choices made on the training users of one split."""

    chosen: int
    gaps: list[float]
    two_stage: int
    ridge: float
    noise: float
    over_one: float
    over_two_stage: float


def _split(pairs: Pairs, split: int) -> Split:
    a = pairs.arrays
    gaps = a["selection/gap"][split]
    return Split(
        int(a["chosen"][split]),
        gaps[~np.isnan(gaps)].tolist(),
        int(a["two_stage/components"][split]),
        float(a["two_stage/ridge"][split]),
        float(a["noise"][split, AGENTS.index(MIXTURE)]),
        pairs.split_lead(split, MIXTURE, ONE),
        pairs.split_lead(split, MIXTURE, TWO_STAGE),
    )


class Kind(NamedTuple):
    """One kind of people in the first split."""

    weight: float
    mean: float
    taste: float
    spread: float
    likes: list[str]
    dislikes: list[str]
    films: list[str]


def _kinds(arrays: Arrays, names: Arrays) -> list[Kind]:
    genres, titles = (names[key].tobytes().decode().split("\n") for key in ("genres", "titles"))
    n = int(arrays["chosen"][0])
    weight, mean, spread, taste, named = (
        arrays[f"kinds/{key}"][0, :n] for key in ("weight", "mean", "spread", "taste", "named")
    )
    liking = arrays["kinds/genre"][0, :n] - mean[:, None]
    compared = liking - weight @ liking if n > 1 else liking
    kinds = []
    for k in range(n):
        order = np.argsort(-compared[k], kind="stable")
        kinds.append(
            Kind(
                float(weight[k]), float(mean[k]), float(taste[k]), float(spread[k]),
                [genres[i] for i in order[:3]], [genres[i] for i in order[::-1][:3]],
                [titles[int(i)] for i in named[k]],
            )
        )  # fmt: skip
    return kinds


# -- figures --------------------------------------------------------------------------------------


def _user_means(arrays: Arrays, quantity: str, name: str) -> Array:
    """Return the mean of each user over the splits in which it is held out."""
    users, place = np.unique(arrays["latent"], return_inverse=True)
    values = arrays[f"{quantity}/{name}"]
    total = np.zeros((len(users), values.shape[1]))
    np.add.at(total, place, values)
    return np.asarray(total / np.bincount(place)[:, None])


def _reward_figure(measured: Measured, arrays: Arrays) -> Any:
    users = np.unique(arrays["latent"])
    setting = measured.setting
    results = Results(
        {name: _user_means(arrays, "regret", name) for name in AGENTS},
        {name: _user_means(arrays, "reward", name) for name in AGENTS},
        users,
        {"n_runs": len(users), "n_rounds": setting.n_rounds, "seed": setting.seed},
    )
    figure = plot(results, new_axes(height=2.8), quantity="reward").figure
    figure.axes[0].set_ylabel("mean rating so far")
    return figure


def _evidence_figure(pairs: Pairs, leads: dict[str, Scores], n_splits: int) -> Any:
    """Draw how much more evidence the mixture has, in each split and on average."""
    shown = (UNI, TWO_STAGE, ONE)
    axes = new_axes(height=1.9)
    for row, name in enumerate(shown):
        lead = leads[name].evidence
        axes.errorbar(
            lead.mean, row, xerr=N_ERRORS * lead.error, fmt="o", color="#0072B2", markersize=4,
            elinewidth=1.2, capsize=2,
        )  # fmt: skip
        points = [pairs.split_lead(split, MIXTURE, name) for split in range(n_splits)]
        axes.plot(points, np.full(n_splits, row - 0.25), ".", color="#767676", markersize=3)
    axes.axvline(0, color="#333333", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [f"over {name}" for name in shown])
    axes.set_ylim(len(shown) - 0.5, -0.6)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color="#e4e4e4", linewidth=0.5)
    axes.set_xlabel("more log evidence a rating")
    return axes.figure
