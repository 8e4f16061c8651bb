"""The figures: ratings over rounds, and differences of held-out evidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixts.experiments.base import Drawing, Measured
from mixts.experiments.paper._analysis import pm
from mixts.experiments.verdicts import N_BETTER
from mixts.plots import new_axes, plot
from mixts.simulation import Estimate, Results
from studies._shared import Array
from studies.coldstart.movielens.paired import Pairs, Scores
from studies.coldstart.movielens.priors import AGENTS, FLAT, MIXTURE, ONE, TWO_STAGE, UNI


def signed(value: Estimate, digits: int) -> str:
    """A mean with its sign, and its error."""
    text = pm(value, digits)
    return text.replace("-", "−", 1) if value.mean < 0 else f"+{text}"


def reward_drawing(measured: Measured, pairs: Pairs) -> Drawing:
    """The mean rating so far of each agent."""
    arrays = pairs.arrays
    users, place = np.unique(arrays["latent"], return_inverse=True)
    counts = np.bincount(place)

    def of_users(kind: str, name: str) -> Array:
        """The mean of each user over the splits in which it is held out."""
        values = arrays[f"{kind}/{name}"]
        total = np.zeros((len(users), values.shape[1]))
        np.add.at(total, place, values)
        return total / counts[:, None]

    results = Results(
        {name: of_users("regret", name) for name in AGENTS},
        {name: of_users("reward", name) for name in AGENTS},
        users,
        {
            "n_runs": len(users), "n_rounds": measured.setting.n_rounds,
            "seed": measured.setting.seed,
        },
    )  # fmt: skip
    figure = plot(results, new_axes(height=2.8), quantity="reward")
    figure.axes[0].set_ylabel("mean rating so far")
    ends = ", ".join(f"{name} {results.reward[name].mean():.2f}" for name in AGENTS)
    return Drawing(
        "reward",
        figure,
        f"Line chart of the mean rating so far over rounds; at the end: {ends}.",
        "Mean rating of the films taken so far. Here every user counts once, however often it was "
        "held out; bands are one standard error over users. Agents have the same users, so their "
        "differences are surer than the bands: see the table.",
    )


def evidence_drawing(pairs: Pairs, leads: dict[str, Scores]) -> Drawing:
    """How much more the mixture says of held-out users, in each split and on average."""
    shown = (UNI, TWO_STAGE, ONE)
    axes = new_axes(height=1.9)
    n_splits = len(pairs.arrays["chosen"])
    for row, name in enumerate(shown):
        _draw_lead(axes, row, leads[name].evidence)
        points = [pairs.split_lead(split, MIXTURE, name) for split in range(n_splits)]
        axes.plot(points, np.full(n_splits, row - 0.25), ".", color="#767676", markersize=3)
    axes.axvline(0, color="#333333", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [f"over {name}" for name in shown])
    axes.set_ylim(len(shown) - 0.5, -0.6)
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color="#e4e4e4", linewidth=0.5)
    axes.set_xlabel("more log evidence a rating")
    words = ", ".join(f"over {name} {signed(leads[name].evidence, 4)}" for name in shown)
    return Drawing(
        "evidence",
        axes.figure,
        f"Dots with bars: what MixTS has more in held-out log evidence a rating, {words}.",
        "How much more log evidence a rating MixTS gives to held-out users: the mean with two "
        "standard errors, and above it the splits. The flat prior is far off, at "
        f"{signed(leads[FLAT].evidence, 3)}.",
    )


def _draw_lead(axes: Any, row: int, lead: Estimate) -> None:
    axes.errorbar(
        lead.mean, row, xerr=N_BETTER * lead.error, fmt="o", color="#0072B2", markersize=4,
        elinewidth=1.2, capsize=2,
    )  # fmt: skip
