"""Parts of the study: learn priors from past tasks and measure how far they are from the truth."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mixts.experiments.base import Arrays, Part, Setting
from mixts.families import Statistics
from mixts.learning import Learned, flat_family, learn, mixture_evidence
from mixts.prior import MixturePrior
from mixts.simulation import prepare
from studies._shared import Array, stream
from studies.coldstart.known_truth.truths import Histories, Truth

NAME = "coldstart/known-truth"
"""First name of the random streams."""
EVIDENCE, AUTO, ONE = "MixTS", "MixTS, L found", "TS, learned"
TWO_STAGE, UNITS = "MixTS, two-stage", "UniTS"
FLAT, TRUE, SURER = "TS", "true prior", "true prior, too sure"
"""Names of the agents in figures. Their priors are learned by the evidence (first line), learned in
two stages (second line), or not learned (third line)."""

MOST_TASKS, LONGEST = 2000, 100
"""Number and length of the past tasks that a repetition draws. A point of a sweep uses the first
tasks and their first observations, so the points of a repetition have their random numbers in
common."""
MIXED_LENGTHS = (1, 2, 5, 10, 20, 50, 100)
"""Lengths of the tasks at the point of mixed length, equally frequent."""
N_HELD_OUT, HELD_OUT_LENGTH = 1000, 50
MAX_COMPONENTS = 6
"""Largest number of components to choose from. The choice takes most of the study's time."""


class Point(NamedTuple):
    """Point of a sweep: number and length of the past tasks."""

    n_tasks: int
    length: int | None
    """Observations per task; None: mixed."""
    auto: bool = False
    """Whether to learn the number of components as well."""

    @property
    def name(self) -> str:
        return f"{self.n_tasks} tasks of {'mixed length' if self.length is None else self.length}"

    def lengths(self, rng: np.random.Generator) -> Array:
        if self.length is None:
            return rng.choice(MIXED_LENGTHS, size=self.n_tasks)
        return np.full(self.n_tasks, self.length)


@dataclass(frozen=True)
class _TruthPart(Part):
    """Repetitions, one in each block, with their own past, held-out and new tasks."""

    truth: Truth
    setting: Setting
    n_new: int
    """Tasks that agents play in a repetition."""

    @property
    def n_blocks(self) -> int:
        return self.setting.n_runs

    def stream(self, repetition: int, role: str) -> np.random.Generator:
        return stream(self.setting.seed, NAME, self.truth.name, repetition, role)

    def past(self, repetition: int) -> Histories:
        return self.truth.histories(self.stream(repetition, "past"), MOST_TASKS, LONGEST)

    def held_out(self, repetition: int) -> Statistics:
        rng = self.stream(repetition, "held out")
        histories = self.truth.histories(rng, N_HELD_OUT, HELD_OUT_LENGTH)
        return histories.statistics(np.full(N_HELD_OUT, HELD_OUT_LENGTH))

    def measure(self, repetition: int, priors: dict[str, MixturePrior]) -> Arrays:
        """Return the log evidence per held-out task that each prior loses, and its regret."""
        held_out = self.held_out(repetition)
        best = mixture_evidence(self.truth.prior, held_out)
        arrays: Arrays = {}
        for name, prior in priors.items():
            lost = (best - mixture_evidence(prior, held_out)).mean()
            arrays |= {
                f"lost/{name}": np.array([lost]),
                f"regret/{name}": np.array([self.regret(repetition, prior)]),
            }
        return arrays

    def regret(self, repetition: int, prior: MixturePrior) -> float:
        """Return the mean regret on new tasks; all priors play the same tasks and noise."""
        # All priors play under one name, which gives their agents the same random numbers, too.
        simulation = prepare(
            {"MixTS": prior}, self.truth.environment, self.setting.n_rounds,
            self.n_new * self.n_blocks, self.setting.seed, block_size=self.n_new,
        )  # fmt: skip
        return float(simulation.play(repetition).regret["MixTS"].sum(axis=1).mean())


@dataclass(frozen=True)
class KnownPart(_TruthPart):
    """Agents to compare with: MixTS with the true or an overconfident prior, TS with a flat one."""

    cost: float = 0.3

    def play(self, block: int) -> Arrays:
        statistics = self.past(block).statistics(np.full(MOST_TASKS, LONGEST))
        flat = MixturePrior(flat_family(statistics, noise_std=self.truth.noise_std))
        priors = {TRUE: self.truth.prior, SURER: self.truth.surer, FLAT: flat}
        return self.measure(block, priors)


@dataclass(frozen=True)
class LearnedPart(_TruthPart):
    """Priors learned from the past tasks of one point of a sweep."""

    point: Point
    cost: float = 1.0

    def play(self, block: int) -> Arrays:
        lengths = self.point.lengths(self.stream(block, "lengths"))
        statistics = self.past(block).statistics(lengths)
        number = self.truth.prior.n_components
        seed = int(self.stream(block, "learn").integers(2**31))
        noise = self.truth.noise_std
        with warnings.catch_warnings():
            # The study records convergence itself; scikit-learn warns about its own iterations.
            warnings.simplefilter("ignore")
            evidence = learn(statistics, number, seed=seed, noise_std=noise, engine=1)
            two_stage = learn(statistics, number, "two-stage", seed=seed, noise_std=noise)
            found = self._learn_auto(statistics, seed) if self.point.auto else None
        priors = {
            EVIDENCE: evidence.prior, ONE: evidence.unimodal,
            TWO_STAGE: two_stage.prior, UNITS: two_stage.unimodal,
        }  # fmt: skip
        arrays = _convergence(evidence)
        if found is not None:
            priors[AUTO] = found.prior
            arrays["found"] = np.array([found.prior.n_components])
        return {**self.measure(block, priors), **arrays}

    def _learn_auto(self, statistics: Statistics, seed: int) -> Learned:
        return learn(
            statistics, "auto", seed=seed, noise_std=self.truth.noise_std, engine=1,
            max_components=MAX_COMPONENTS, select="one-standard-error",
        )  # fmt: skip


def _convergence(learned: Learned) -> Arrays:
    """Return the number of iterations of learning, and whether it converged."""
    assert learned.history is not None
    return {
        "iterations": np.array([learned.history.n_iterations]),
        "converged": np.array([learned.history.converged]),
    }
