"""Follow a task round by round while MixTS finds its latent state."""

from __future__ import annotations

import numpy as np

from mixts.environments import BanditEnvironment
from mixts.extend import estimate
from mixts.plots import plot
from mixts_paper.analysis import Identification, identify
from mixts_paper.experiments import base
from mixts_paper.experiments.paper._synthetic import arms_prior

WIDTH = 0.1
MOST_RUNS = 20
"""The figure shows one task; the table needs only a few more, whatever --runs is."""


class IdentificationBlocks(base.Blocks):
    """Runs of one task each, with the belief after every round."""

    def __init__(self, setting: base.Setting) -> None:
        self._setting = setting
        self.n_blocks = min(setting.n_runs, MOST_RUNS)
        self.cost = 2e-3 * setting.n_rounds

    def play(self, block: int) -> base.Arrays:
        prior = arms_prior(width=WIDTH)
        one = identify(
            prior, BanditEnvironment(prior), self._setting.n_rounds, self._setting.seed, run=block
        )
        names = ("truth", "weights", "means", "deviations", "sampled", "actions", "rewards")
        arrays = {name: np.asarray(getattr(one, name))[None] for name in names}
        return {**arrays, "regret": one.regret[None], "latent": np.array([one.latent])}


class IdentificationExperiment(base.Experiment):
    """A task of the synthetic bandit, followed through its first rounds  [paper: Alg. 1]."""

    title = "One task while it is identified"
    place = "Alg. 1"
    scale = base.Scale(20, 300)
    quick = base.Scale(2, 50)

    def parts(self, setting: base.Setting, once: base.Once) -> dict[str, base.Blocks]:
        return {"tasks": IdentificationBlocks(setting)}

    def analyse(self, measured: base.Measured) -> base.Analysis:
        tasks = [_task(measured, run) for run in range(len(measured.parts["tasks"]["latent"]))]
        when = [task.identified() for task in tasks]
        known = np.array([rounds for rounds in when if rounds is not None], float)
        return base.Analysis(
            {
                "width": WIDTH,
                "n_tasks": len(tasks),
                "n_identified": len(known),
                "rounds": estimate(known) if len(known) > 1 else None,
                "regret": estimate(np.array([task.regret.sum() for task in tasks])),
                "first": when[0],
            },
            figures={"task": plot(tasks[0])},
        )


def _task(measured: base.Measured, run: int) -> Identification:
    arrays = {name: array[run] for name, array in measured.parts["tasks"].items()}
    return Identification(latent=int(arrays.pop("latent")), **arrays)


EXPERIMENT = IdentificationExperiment()
