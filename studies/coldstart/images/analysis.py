"""What learning by the evidence gains on the image bandit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mixts.experiments.base import Drawing, Findings, Measured
from mixts.experiments.paper._analysis import pm
from mixts.experiments.paper.images.analysis import EARLY
from mixts.experiments.verdicts import N_BETTER, better, weaker
from mixts.pages import Claim, Table, Verdict
from mixts.plots import new_axes, plot
from mixts.simulation import Estimate, estimate
from studies._shared import Array
from studies.coldstart.images.priors import (
    FLAT,
    LOGS,
    MIXTURE,
    N_HELD_OUT,
    N_IMAGES,
    N_TASKS,
    ONE,
    TWO_STAGE,
    UNI,
)

_PLACE = "not in the paper"
_WORDS = {
    "rewards": "logged rewards, noise learned",
    "labels": "logged labels, σ = 0.5",
}


def analyse(measured: Measured) -> Findings:
    """Held-out evidence and rewards, for both kinds of logs."""
    path = measured.setting.sources.get("features")
    source = "scikit-learn's digits" if path is None else Path(path).name
    early = {logs: _reward(measured, logs, MIXTURE, EARLY).mean() for logs in LOGS}
    two = {logs: _reward(measured, logs, TWO_STAGE, EARLY).mean() for logs in LOGS}
    return Findings(
        _paragraphs(measured, source),
        tuple(claim for logs in LOGS for claim in _claims(measured, logs)),
        tuple(_table(measured, logs) for logs in LOGS),
        tuple(_drawing(measured, logs, source) for logs in LOGS),
        f"On {source} MixTS earns {early['rewards']:.2f} a round in the first {EARLY} with a prior "
        f"learned by the evidence, {two['rewards']:.2f} with one of two stages.",
    )


def _paragraphs(measured: Measured, source: str) -> tuple[str, ...]:
    arrays = measured.kept["priors-rewards"]
    n, d = arrays[f"{MIXTURE}/mean"].shape
    tied = f"{MIXTURE}/tied" in arrays
    shape = (
        f"one covariance for all components, because {N_TASKS // n} tasks a component are fewer "
        f"than {d} dimensions"
        if tied
        else "a covariance for each component"
    )
    return (
        f"The bandit of `paper/images` on {source}, L = {n} and d = {d}. From "
        f"{N_TASKS:,} past tasks of {N_IMAGES} training images each, priors are learned by the "
        f"evidence (with {shape}) and in the paper's two stages (full covariances), and scored on "
        f"{N_HELD_OUT} further tasks of test images, each with the noise that it acts with.",
        "Logs are of two kinds. Rewards: 1 with probability 0.9 for images of the task's class and "
        "0.1 for others, as agents get them; the noise is learned, in the two stages from what "
        "least squares leave over. Labels: whether the image is of the class, without noise, and "
        "the model's σ = 0.5, as in the paper: the model is wrong on purpose.",
        "One draw of past tasks serves all runs: ± does not contain what another would change.",
    )


def _reward(measured: Measured, logs: str, name: str, n_rounds: int | None = None) -> Array:
    return np.asarray(measured.results(logs).reward[name][:, :n_rounds].mean(axis=1))


def _claims(measured: Measured, logs: str) -> list[Claim]:
    scores = measured.kept[f"scores-{logs}"]
    claims = []
    for name, what in ((ONE, "its one-component form"), (TWO_STAGE, "the two stages")):
        gap = estimate(scores[MIXTURE] - scores[name])
        claims.append(
            Claim(
                _PLACE,
                f"{_WORDS[logs].capitalize()}: held-out evidence of the evidence-learned mixture "
                f"is not below that of {what}.",
                f"{scores[MIXTURE].mean():.4f} against {scores[name].mean():.4f} an observation, "
                f"difference {pm(gap, 4)}",
                "holds" if gap.mean >= 0 else "does not hold",
            )
        )
    gaps = {
        n: estimate(_reward(measured, logs, MIXTURE, n) - _reward(measured, logs, TWO_STAGE, n))
        for n in (EARLY, None)
    }
    claims.append(
        Claim(
            _PLACE,
            f"{_WORDS[logs].capitalize()}: no reward is worse than that of the two stages.",
            f"difference {pm(gaps[EARLY], 3)} in the first {EARLY} rounds, {pm(gaps[None], 3)} in "
            "all",
            weaker(*(_not_worse(gap) for gap in gaps.values())),
            f"Holds unless it is worse by more than {N_BETTER:g} standard errors.",
        )
    )
    return claims


def _not_worse(gap: Estimate) -> Verdict:
    worse = better(Estimate(-gap.mean, gap.error)) == "holds"
    return "does not hold" if worse else "holds"


def _table(measured: Measured, logs: str) -> Table:
    scores = measured.kept[f"scores-{logs}"]
    arrays = measured.kept[f"priors-{logs}"]
    rows = []
    for name in (MIXTURE, TWO_STAGE, ONE, UNI, FLAT):
        noise = float(arrays.get(f"{name}/noise", arrays[f"{TWO_STAGE}/noise"]))
        gap = estimate(scores[MIXTURE] - scores[name])
        rows.append(
            (
                name,
                f"{noise:.3f}",
                pm(estimate(scores[name]), 4),
                "" if name == MIXTURE else pm(gap, 4),
                pm(estimate(_reward(measured, logs, name, EARLY)), 3),
                pm(estimate(_reward(measured, logs, name)), 3),
            )
        )
    columns = (
        "agent", "σ", "held-out log evidence an observation", "MixTS has more",
        f"reward, first {EARLY}", "reward, all rounds",
    )  # fmt: skip
    return Table(
        columns,
        tuple(rows),
        f"{_WORDS[logs].capitalize()}. “{ONE}” is one component learned by the evidence. ± is one "
        "standard error, over held-out tasks and over runs.",
    )


def _drawing(measured: Measured, logs: str, source: str) -> Drawing:
    results = measured.results(logs)
    ax = new_axes()
    plot(results, ax, quantity="reward", agents=[MIXTURE, TWO_STAGE, ONE, UNI, FLAT])
    last = {name: float(results.reward[name].mean()) for name in results.agents}
    words = ", ".join(f"{name} {value:.3f}" for name, value in last.items())
    return Drawing(
        f"images-{logs}",
        ax.figure,
        f"Mean reward so far over rounds on {source}. At the end: {words}.",
        f"{_WORDS[logs].capitalize()}: mean reward so far, with a band of one standard error.",
    )
