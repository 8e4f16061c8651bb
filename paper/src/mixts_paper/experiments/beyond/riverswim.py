"""RiverSwim under other priors: how much of MixTS's lead over PSRL comes from counts of zero."""

from __future__ import annotations

from typing import Any, NamedTuple

from mixts import MixturePrior
from mixts.environments import MDPEnvironment, RiverSwim
from mixts.extend import Estimate, estimate
from mixts.families import TabularMDP
from mixts.plots import draw_intervals, new_axes
from mixts_paper.experiments import base
from mixts_paper.experiments.paper import riverswim as paper
from mixts_paper.experiments.paper.riverswim import GREAT, RIVALS
from mixts_paper.experiments.verdicts import exceeds, times_less, weakest

BLOCK = 20
"""Runs in a block: two blocks of the 40 runs."""
LEAST_GROWTH = 5.0
"""Counts of zero matter if adding 0.1 to all counts multiplies the regret by more than this."""


class CountChange(NamedTuple):
    """A change of the paper's counts: ``factor`` times the counts, plus constants."""

    name: str
    factor: float = 1.0
    rewards: float = 0.0
    transitions: float = 0.0


PAPER = CountChange("the paper's counts")
ADDED = CountChange("+ 0.1 everywhere", rewards=0.1, transitions=0.1)
MORE = CountChange("+ 1 everywhere", rewards=1.0, transitions=1.0)
CHANGES = (
    PAPER,
    CountChange("counts / 10", 0.1),
    CountChange("counts × 10", 10.0),
    CountChange("+ 0.01 everywhere", rewards=0.01, transitions=0.01),
    ADDED,
    CountChange("+ 0.1, rewards only", rewards=0.1),
    CountChange("+ 0.1, transitions only", transitions=0.1),
    MORE,
)
"""Priors of the agents; the tasks come from the paper's prior."""
STRENGTHS = CHANGES[1:3]
POSSIBLE = "tasks from + 0.1"
"""Name of the part whose tasks, too, come from counts without zeros."""


class RiverSwimPriorsExperiment(base.Experiment):
    """MixTS and UniTS with other counts on the tasks of Sec. 6.3, beside PSRL."""

    title = "RiverSwim with other priors"
    place = "Sec. 6.3"
    scale = base.Scale(40, 1000)
    quick = base.Scale(8, 100)
    uses = (paper,)

    def parts(self, setting: base.Setting, once: base.Once) -> dict[str, base.Blocks]:
        river = RiverSwim()
        rivals = {name: paper.agents_of(river)[name] for name in RIVALS}
        tasks = MDPEnvironment(changed_prior(river, ADDED))
        agents = {**agents_of(river, ADDED), "PSRL": rivals["PSRL"]}
        played: dict[str, Any] = {c.name: (agents_of(river, c), river) for c in CHANGES}
        played |= {"rivals": (rivals, river), POSSIBLE: (agents, tasks)}
        return {
            name: base.SimulationBlocks(
                agents, where, setting, block_size=BLOCK, microseconds=25.0, rewards=False
            )
            for name, (agents, where) in played.items()
        }

    def analyse(self, measured: base.Measured) -> base.Analysis:
        totals = {
            part: {name: regret.sum(axis=1) for name, regret in one.regret.items()}
            for part, one in ((part, measured.results(part)) for part in measured.parts)
        }
        regret = {
            part: {name: estimate(values) for name, values in each.items()}
            for part, each in totals.items()
        }
        psrl = totals["rivals"]["PSRL"]
        times = {
            part: {name: float(psrl.mean() / values.mean()) for name, values in each.items()}
            for part, each in totals.items()
            if part != POSSIBLE
        }
        plain, added, possible = (totals[name] for name in (PAPER.name, ADDED.name, POSSIBLE))
        return base.Analysis(
            {
                "n": measured.setting.n_rounds,
                "n_runs": measured.setting.n_runs,
                "strength": RiverSwim().strength,
                "rows": [change.name for change in CHANGES],
                "regret": regret,
                "times": times,
                "paper": PAPER.name,
                "added": ADDED.name,
                "more": MORE.name,
                "strengths": [change.name for change in STRENGTHS],
                "possible": POSSIBLE,
                "possible_times": float(possible["PSRL"].mean() / possible["MixTS"].mean()),
                "growth": float(added["MixTS"].mean() / plain["MixTS"].mean()),
            },
            {
                "strength": weakest(
                    *(times_less(totals[change.name]["MixTS"], psrl, GREAT) for change in STRENGTHS)
                ),
                "units": times_less(plain["UniTS"], psrl, GREAT),
                "zeros": exceeds(estimate(added["MixTS"] - LEAST_GROWTH * plain["MixTS"])),
                "added": times_less(added["MixTS"], psrl, GREAT),
                "possible": times_less(possible["MixTS"], possible["PSRL"], GREAT),
            },
            {"regret": _figure(regret)},
        )


def changed_prior(river: RiverSwim, change: CountChange) -> MixturePrior:
    """Return the prior of the river with other counts."""
    family = river.family
    return MixturePrior(
        TabularMDP(
            change.factor * family.reward + change.rewards,
            change.factor * family.transition + change.transitions,
            family.horizon,
            family.initial,
        ),
        names=river.prior.names,
    )


def agents_of(river: RiverSwim, change: CountChange) -> dict[str, MixturePrior]:
    """Return MixTS and UniTS with the changed counts."""
    prior = changed_prior(river, change)
    return {"MixTS": prior, "UniTS": prior.collapse()}


def _figure(regret: dict[str, dict[str, Estimate]]) -> Any:
    axes = new_axes(5.4, 3.0)
    rows = [change.name for change in CHANGES]
    estimates = {name: [regret[row][name] for row in rows] for name in ("MixTS", "UniTS")}
    lines = {name: float(regret["rivals"][name].mean) for name in RIVALS}
    draw_intervals(axes, rows, estimates, "cumulative regret", log=True, lines=lines)
    return axes.figure


EXPERIMENT = RiverSwimPriorsExperiment()
