"""Films for new users of MovieLens, with priors learned from other users."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mixts.errors import FormatError, ParameterError
from mixts.extend import Array
from mixts.pages import Verdict
from mixts.plots import draw_intervals, new_axes, plot
from mixts.simulation import Estimate, Results
from mixts_paper.bounds.comparison import N_ERRORS
from mixts_paper.experiments import Analysis, Blocks, Experiment, Measured, Scale, Setting
from mixts_paper.experiments.base import Arrays, Once
from mixts_paper.experiments.verdicts import exceeds, not_worse, weakest
from mixts_paper.studies import BESTSELLER, IDS
from mixts_paper.studies.movielens.ratings import (
    CONTENT,
    Ratings,
    digests,
    parse,
    read_files,
)
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
    SplitBlocks,
)

EARLY = 5
"""Number of rounds that count as the cold start."""


class MovieLensExperiment(Experiment):
    """A run is a split of the users: priors are learned from some and used for the others."""

    title = "Cold start with real people"
    place = "not in the paper"
    scale = Scale(10, 20)
    quick = Scale(2, 20)
    options = ("ratings",)

    def choices(self, ratings: str | Path | None = None, **_: Any) -> dict[str, str]:
        """Return the hash of the data; that of the published data is known before the download."""
        if ratings is None:
            return {"ratings": described(CONTENT)}
        files = read_files(ratings)
        parse(files)  # raises an error if these are not MovieLens files
        return {"ratings": described(digests(files))}

    def parts(self, setting: Setting, once: Once) -> dict[str, Blocks]:
        if setting.n_rounds > LEAST_RATINGS:
            raise ParameterError(
                f"users have at least {LEAST_RATINGS} ratings, and every round takes one: play "
                f"{LEAST_RATINGS} rounds at most, got {setting.n_rounds}"
            )
        ratings = ratings_of(setting)
        return {"splits": SplitBlocks(ratings, setting.n_runs, setting.n_rounds, setting.seed)}

    def analyse(self, measured: Measured) -> Analysis:
        published = measured.setting.choices["ratings"] == described(CONTENT)
        return analyse(measured, published=published)


def described(sums: dict[str, str]) -> str:
    """Return the text that names the data in a report's settings."""
    name = "ml-latest-small, " if sums == CONTENT else ""
    return f"{name}sha256 " + ", ".join(one[:16] for one in sums.values())


def ratings_of(setting: Setting) -> Ratings:
    """Return the ratings of the user's path, or the published ones."""
    files = read_files(setting.sources.get("ratings"))
    if described(digests(files)) != setting.choices["ratings"]:
        raise FormatError(
            f"the ratings are {described(digests(files))}, expected {setting.choices['ratings']}: "
            "the files changed since the command began, or the published data set changed"
        )
    return parse(files)


# -- analysis -------------------------------------------------------------------------------------


def analyse(measured: Measured, *, published: bool) -> Analysis:
    """Compare the rewards and the held-out evidence of all agents, paired by user and split."""
    arrays = measured.parts["splits"]
    pairs = Pairs(arrays)
    leads = {name: pairs.scores(MIXTURE, name) for name in AGENTS if name != MIXTURE}
    one = pairs.scores(ONE, TWO_STAGE)
    n_splits = len(np.unique(arrays["split"]))
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
            "ends": {name: _user_means(arrays, "reward", name).mean() for name in AGENTS},
        },
        verdicts,
        {
            "reward": _reward_figure(measured, arrays),
            "evidence": _evidence_figure(leads),
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


def _evidence_figure(leads: dict[str, Scores]) -> Any:
    """Draw how much more evidence the mixture has."""
    axes, shown = new_axes(height=1.9), (UNI, TWO_STAGE, ONE)
    rows, found = [f"over {name}" for name in shown], [leads[name].evidence for name in shown]
    draw_intervals(axes, rows, {MIXTURE: found}, "more log evidence a rating", lines={"": 0.0})
    return axes.figure


EXPERIMENT = MovieLensExperiment()
