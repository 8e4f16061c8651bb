"""How a task is identified, seen in one of them."""

from __future__ import annotations

import numpy as np

from mixts.diagnostics.identification import Identification
from mixts.experiments.base import Drawing, Findings, Measured
from mixts.experiments.paper._analysis import pm
from mixts.pages import Table
from mixts.plots import plot
from mixts.simulation import estimate


def analyse(measured: Measured, width: float) -> Findings:
    """The first task drawn; how soon the others were identified, in a table."""
    tasks = [_task(measured, run) for run in range(len(measured.parts["tasks"]["latent"]))]
    first = tasks[0]
    when = [task.identified() for task in tasks]
    known = np.array([rounds for rounds in when if rounds is not None], float)
    rounds = pm(estimate(known), 1) if len(known) > 1 else "–"
    table = Table(
        ("what", "value"),
        (
            ("tasks followed", str(len(tasks))),
            ("identified by the end", f"{len(known)} of {len(tasks)}"),
            ("rounds until then", rounds),
            ("regret of a task", pm(estimate(np.array([task.regret.sum() for task in tasks])))),
        ),
        "A task counts as identified from the round on after which the weight of its latent state "
        "stays above 0.99.",
        (False, True),
    )
    found = first.identified()
    soon = "not identified" if found is None else f"identified after {found} rounds"
    drawing = Drawing(
        "task",
        plot(first),
        f"Three panels of one task. Latent weights: the true state is {soon}, all others fall to "
        "0. Actions: others are tried before, the best one is taken from then on. Posteriors of "
        "the actions' mean rewards sharpen around the truth.",
        f"One task of the synthetic bandit at width {width:g}. Latent weights, actions taken, and "
        "what is believed of every action's mean reward at three moments.",
    )
    return Findings(
        (
            "MixTS samples a latent state, then parameters given it, and acts greedily on them. "
            "Every wrong state it samples it soon refutes; once the true one has the weight, only "
            "the action that counts is still learned about.",
        ),
        (),
        (table,),
        (drawing,),
    )


def _task(measured: Measured, run: int) -> Identification:
    arrays = {name: array[run] for name, array in measured.parts["tasks"].items()}
    return Identification(latent=int(arrays.pop("latent")), **arrays)
