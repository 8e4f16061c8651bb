"""A study with known truth: learned priors are compared with the prior that the tasks come from."""

from __future__ import annotations

from mixts.experiments import Analysis, Experiment, Measured, Part, Scale, Setting
from mixts.experiments.base import Once
from studies.coldstart.known_truth.analysis import analyse
from studies.coldstart.known_truth.parts import KnownPart, LearnedPart, Point
from studies.coldstart.known_truth.truths import TRUTHS

LENGTH, N_TASKS = 10, 500
"""Observations per task and number of tasks, where the sweep varies the other one."""
NUMBERS = (20, 50, 100, 200, 500, 1000, 2000)
LENGTHS = (1, 2, 5, 10, 20, 50, 100)
AUTO = ((100, LENGTH), (N_TASKS, 2), (N_TASKS, LENGTH))
"""Points (number of tasks, length) at which the number of components is learned as well."""
N_NEW = 100

FEW = 4
"""With fewer repetitions the sweep is small, to see that it works."""
FEW_NUMBERS, FEW_LENGTHS, FEW_TASKS, FEW_NEW = (20, 40), (3, LENGTH), 40, 20
FEW_AUTO = ((FEW_TASKS, LENGTH),)


def sweep(n_runs: int) -> tuple[Point, ...]:
    """Return all points: over the number of tasks, over their length, and one of mixed length."""
    few = n_runs < FEW
    n_tasks = FEW_TASKS if few else N_TASKS
    auto = FEW_AUTO if few else AUTO
    pairs = [(n, LENGTH) for n in (FEW_NUMBERS if few else NUMBERS)]
    pairs += [(n_tasks, m) for m in (FEW_LENGTHS if few else LENGTHS)]
    points = [Point(n, m, (n, m) in auto) for n, m in dict.fromkeys(pairs)]
    return (*points, Point(n_tasks, None))


class KnownTruthExperiment(Experiment):
    """Past tasks from a known mixture; each run is a repetition with its own past tasks."""

    title = "Learned priors beside the true one"
    place = "not in the paper"
    scale = Scale(10, 50)
    quick = Scale(3, 20)

    def parts(self, setting: Setting, once: Once) -> dict[str, Part]:
        points = sweep(setting.n_runs)
        n_new = FEW_NEW if setting.n_runs < FEW else N_NEW
        parts: dict[str, Part] = {}
        for truth in TRUTHS:
            parts[f"{truth.name}, known"] = KnownPart(truth, setting, n_new)
            for point in points:
                cost = 0.5 + point.n_tasks / 500 + 5 * point.auto
                parts[f"{truth.name}, {point.name}"] = LearnedPart(
                    truth, setting, n_new, point, cost
                )
        return parts

    def analyse(self, measured: Measured) -> Analysis:
        return analyse(measured, sweep(measured.setting.n_runs), TRUTHS)


EXPERIMENT = KnownTruthExperiment()
