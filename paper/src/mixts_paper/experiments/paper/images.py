"""Image classification as a bandit: learn priors from past tasks, then play new tasks with them.

A task is a class: in each round an agent sees some images and earns most with one of that class.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mixts import MixturePrior
from mixts.agents import CorralExp4, Exp4
from mixts.environments import ClassificationBandit
from mixts.extend import Array, Estimate, Float, Int, estimate, random
from mixts.families import LinearGaussian
from mixts.learning import (
    gaussian_of_estimates,
    mixture_of_estimates,
    one_blas_thread,
    ridge_coefficients,
)
from mixts.pages import Verdict
from mixts.plots import plot
from mixts.simulation import Results
from mixts_paper.experiments import base
from mixts_paper.experiments.features import ImageFeatures
from mixts_paper.experiments.verdicts import exceeds, greatly, weakest

NOISE = 0.5
"""Noise of the agents' model. Rewards are 0 or 1, so a Gaussian model is wrong, as in the paper."""
BLOCK = 10
"""Runs in a block; the paper's 100 runs are ten blocks."""
N_TASKS, N_IMAGES = 1000, 500
"""Past tasks, and training images of each, drawn without replacement."""
EARLY = 100
"""Number of rounds that count as the cold start."""
GREAT = 0.08
"""Least lead in mean reward that counts as "greatly": a tenth of the gap between the mean rewards
of images of the right class and of others."""


def _losses(eta: float) -> dict[str, Any]:
    return {"gamma": 0.0, "eta": eta, "estimates": "losses"}


TUNED: dict[str, dict[str, dict[str, Any]]] = {
    "Exp4": {
        **{f"Exp4, losses {eta:g}": _losses(eta) for eta in (0.1, 0.2, 0.5, 1.0)},
        "Exp4, rewards 0.1": {"gamma": 0.1, "eta": 0.1, "estimates": "rewards"},
    },
    # Slow, because every expert learns in every round: only the setting that suits Exp4 best.
    "CorralExp4": {"CorralExp4, losses 0.5": _losses(0.5)},
}
"""Variants tuned by hand, by agent and name; the name gives the form of the estimates, and eta."""


class ImagesExperiment(base.Experiment):
    """Ten images a round, at least one of them of the task's class  [paper: Sec. 6.2]."""

    title = "Image classification as a bandit"
    place = "Sec. 6.2, Fig. 1 right"
    scale = base.Scale(100, 500)
    quick = base.Scale(10, 100)
    options = ("features",)

    def choices(self, features: str | Path | None = None, **_: Any) -> dict[str, str]:
        """Return the hash of the file of features: results depend on its content, not its path."""
        if features is None:
            return {}
        ImageFeatures.load(features)  # raises an error if this is not a file of features
        return {"features": f"sha256 {_hash(Path(features))}"}

    def parts(self, setting: base.Setting, once: base.Once) -> dict[str, base.Blocks]:
        images = features_of(setting)
        coefficients = once(
            "coefficients",
            partial(past_coefficients, images.train_features, images.train_labels, setting.seed),
        )
        fitted = once(
            "prior",
            partial(prior_arrays, coefficients["coefficients"], images.n_classes, setting.seed),
        )
        return {
            "agents": base.SimulationBlocks(
                agents_of(*priors_of(fitted)),
                ClassificationBandit(images.test_features, images.test_labels),
                setting, block_size=BLOCK,
                microseconds=20 + 0.003 * images.n_classes * images.n_features,
            )
        }  # fmt: skip

    def analyse(self, measured: base.Measured) -> base.Analysis:
        results = measured.results("agents")
        leads = {name: lead_of(results, name) for name in results.agents if name != "MixTS"}
        best = {kind: _best(results, tuple(names)) for kind, names in TUNED.items()}
        early = {kind: _best(results, tuple(names), EARLY) for kind, names in TUNED.items()}
        n_classes, n_features = measured.kept["prior"]["mean"].shape
        verdicts = {f"great/{name}": _great(leads[name]) for name in ("UniTS", "TS")}
        for kind in TUNED:
            verdicts[f"better/{kind}"] = exceeds(leads[kind].whole)
            verdicts[f"tuned/{kind}"] = exceeds(leads[best[kind]].whole)
        return base.Analysis(
            {
                "source": source_of(measured.setting),
                "n_classes": n_classes,
                "n_features": n_features,
                "n_rounds": measured.setting.n_rounds,
                "n_runs": measured.setting.n_runs,
                "n_early": min(EARLY, measured.setting.n_rounds),
                "great": GREAT,
                "rewards": {name: _rewards(results, name) for name in results.agents},
                "leads": leads,
                "best": best,
                "best_early": early,
                "clusters": _clusters(measured),
            },
            verdicts,
            {"reward": _figure(results, best["Exp4"])},
        )


def features_of(setting: base.Setting) -> ImageFeatures:
    """Return the images of the given file of features, or the digits if there is no file."""
    path = setting.sources.get("features")
    return ImageFeatures.digits() if path is None else ImageFeatures.load(path)


def source_of(setting: base.Setting) -> str:
    """Return the origin of the images, for readers of a report."""
    path = setting.sources.get("features")
    return "scikit-learn's digits" if path is None else Path(path).name


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


# -- the prior, from past tasks ------------------------------------------------------------------


def past_coefficients(
    features: Float[Array, "n d"], labels: Int[Array, " n"], seed: int
) -> base.Arrays:
    """Fit a linear model to each past task: reward 1 for its class, 0 otherwise  [paper: Sec. 6.2].

    Returns
    -------
    ``coefficients`` (n_tasks, d), and ``tasks`` (n_tasks,), the class of each task.
    """
    rng = random.stream(seed, "paper/images", "past")
    n_images = min(N_IMAGES, len(labels))
    n_classes = int(labels.max()) + 1
    tasks = rng.integers(n_classes, size=N_TASKS)
    coefficients = np.empty((N_TASKS, features.shape[1]))
    with one_blas_thread():
        for i, task in enumerate(tasks):
            shown = rng.choice(len(labels), n_images, replace=False)
            rewards = (labels[shown] == task).astype(float)
            coefficients[i] = ridge_coefficients(features[shown], rewards)
    return {"coefficients": coefficients, "tasks": tasks}


def prior_arrays(coefficients: Float[Array, "n d"], n_classes: int, seed: int) -> base.Arrays:
    """Fit a mixture, and one Gaussian, to the coefficients of the past tasks."""
    # scikit-learn accepts seeds of 32 bits.
    state = int(random.seed_sequence(seed, "paper/images", "mixture").generate_state(1)[0])
    mixture = mixture_of_estimates(coefficients, n_classes, NOISE, state).family.arrays()
    one = gaussian_of_estimates(coefficients, NOISE).family.arrays()
    return {**mixture, **{f"unimodal_{name}": array for name, array in one.items()}}


def priors_of(arrays: base.Arrays) -> tuple[MixturePrior, MixturePrior]:
    """Return the prior of MixTS, with equally likely components, and the prior of UniTS."""
    mixture = LinearGaussian(arrays["mean"], arrays["covariance"], NOISE)
    one = LinearGaussian(arrays["unimodal_mean"], arrays["unimodal_covariance"], NOISE)
    return MixturePrior(mixture), MixturePrior(one)


def agents_of(prior: MixturePrior, unimodal: MixturePrior) -> dict[str, Any]:
    """Return MixTS, the paper's four baselines, and the variants tuned by hand."""
    means = prior.family.parameter_means()
    flat = MixturePrior(LinearGaussian.standard(means.shape[1], NOISE))
    kinds: dict[str, Any] = {
        "Exp4": partial(Exp4, means),
        "CorralExp4": partial(CorralExp4, prior),
    }
    tuned = {
        name: partial(kinds[kind], **options)
        for kind, variants in TUNED.items()
        for name, options in variants.items()
    }
    return {"MixTS": prior, "UniTS": unimodal, "TS": flat, **kinds, **tuned}


# -- analysis -----------------------------------------------------------------------------------


class Lead(NamedTuple):
    """Mean reward per round of MixTS minus that of another agent, on the same images."""

    early: Estimate
    later: Estimate
    whole: Estimate
    fading: Estimate | None
    """Early minus later, run by run; None where there are no later rounds."""


def lead_of(results: Results, name: str) -> Lead:
    """Return the lead of MixTS over an agent."""
    gap = results.reward["MixTS"] - results.reward[name]
    early, whole = gap[:, :EARLY].mean(axis=1), estimate(gap.mean(axis=1))
    if gap.shape[1] <= EARLY:
        return Lead(estimate(early), estimate(early), whole, None)
    later = gap[:, EARLY:].mean(axis=1)
    return Lead(estimate(early), estimate(later), whole, estimate(early - later))


def _great(lead: Lead) -> Verdict:
    """Judge "greatly outperforms, especially during the cold start"."""
    fading = "direction only" if lead.fading is None else exceeds(lead.fading)
    return weakest(exceeds(lead.whole), fading, greatly(lead.early, GREAT))


def _best(results: Results, names: Sequence[str], n_rounds: int | None = None) -> str:
    return max(names, key=lambda name: float(results.reward[name][:, :n_rounds].mean()))


def _rewards(results: Results, name: str) -> dict[str, Estimate]:
    reward = results.reward[name]
    return {
        "early": estimate(reward[:, :EARLY].mean(axis=1)),
        "whole": estimate(reward.mean(axis=1)),
    }


def _clusters(measured: base.Measured) -> Mapping[str, float]:
    """Return how well the components of the mixture match the classes of the past tasks.

    Each past task belongs to the component with the nearest mean. ``pure`` is the fraction of tasks
    whose class is the most frequent one in their component, ``owned`` the number of classes that
    are the most frequent one in some component.
    """
    past, mean = measured.kept["coefficients"], measured.kept["prior"]["mean"]
    # Squared distances, without the term |coefficients|^2 that all components share.
    distance = (mean**2).sum(axis=1) - 2 * past["coefficients"] @ mean.T
    nearest = distance.argmin(axis=1)
    n_classes = len(mean)
    counts = np.zeros((n_classes, n_classes), int)
    np.add.at(counts, (nearest, past["tasks"]), 1)
    owned = np.unique(counts.argmax(axis=1)[counts.sum(axis=1) > 0])
    pure = float(counts.max(axis=1).sum() / len(nearest))
    return {"n_tasks": len(nearest), "pure": pure, "owned": len(owned)}


def _figure(results: Results, best: str) -> Any:
    """Draw the rewards of the paper's agents and of the best tuned Exp4."""
    labels = {"MixTS": "MixTS", "UniTS": "UniTS", best: "Exp4, tuned", "TS": "TS"}
    labels |= {"CorralExp4": "CorralExp4", "Exp4": "Exp4"}
    labelled = Results(
        {label: results.regret[name] for name, label in labels.items()},
        {label: results.reward[name] for name, label in labels.items()},
        results.latent,
        results.settings,
    )
    return plot(labelled, quantity="reward")


EXPERIMENT = ImagesExperiment()
