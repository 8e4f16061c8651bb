"""MixTS against PSRL on RiverSwim."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mixts import MixturePrior
from mixts.agents import Oracle
from mixts.environments import CURRENTS, RiverSwim
from mixts.extend import Array, estimate
from mixts.families import TabularMDP
from mixts.pages import Verdict
from mixts.plots import new_panels, plot
from mixts.simulation import Observer, Recorder, Results, Round
from mixts_paper.analysis import follow_confidence_sets
from mixts_paper.bounds import theorem2
from mixts_paper.bounds.comparison import N_ERRORS
from mixts_paper.bounds.lemmas import episode_width_sum_bound
from mixts_paper.bounds.theorems import Form
from mixts_paper.experiments import base
from mixts_paper.experiments.verdicts import at_most, exceeds, times_less, weakest

BLOCK = 125
"""Runs in a block: four blocks of the paper's 500."""
FOLLOWED = 20
"""Episodes in which the probability of the true current is recorded: it is known after a few."""
MEASURED_RUNS = 50
"""Runs whose confidence widths are summed: they hardly differ."""
KNOWN = 0.99
"""Probability of the true current from which on it counts as known."""
MOST_KNOWN, KNOWN_AFTER = 0.95, 5
"""Share of runs in which the current must be known, after so many episodes."""
GREAT = 10.0
"""Factor that counts as "greatly" and as "much more quickly"."""
HARDLY = 0.1
"""Mean regret of an episode that counts as hardly any: a tenth of one reward."""
RIVALS = ("PSRL", "PSRL, neighbours")


class TruthObserver(Observer):
    """Records the probability that the agent gives to the true latent state after each round."""

    def start(self, agent: Any, problem: Any) -> Recorder:
        return _TruthRecorder(problem.latent)


class _TruthRecorder(Recorder):
    def __init__(self, latent: Array) -> None:
        self._runs, self._latent = np.arange(len(latent)), latent
        self._weights: list[Array] = []

    def after_update(self, round_: Round) -> None:
        self._weights.append(round_.belief.weights[self._runs, self._latent])

    def arrays(self) -> dict[str, Array]:
        return {"truth": np.stack(self._weights, axis=1)}


class WidthBlocks(base.Blocks):
    """The sums of App. B: each run's confidence widths, and what its confidence sets lost.

    ``widths`` is h times the sum of c_t + phi_t over all steps of all episodes; ``missed`` is true
    where the sets ever lost the true current, ``excluded`` where they lost any.
    """

    def __init__(self, river: RiverSwim, setting: base.Setting) -> None:
        self._river, self._setting = river, setting
        self._n_runs = min(MEASURED_RUNS, setting.n_runs)
        self.cost = 1e-4 * self._n_runs * setting.n_rounds

    def play(self, block: int) -> base.Arrays:
        sets = follow_confidence_sets(
            self._river.prior, self._river, self._setting.n_rounds, self._n_runs,
            self._setting.seed, n_samples=8,
        )  # fmt: skip
        return {
            "widths": sets.width.sum(axis=1),
            "missed": sets.missed(),
            "excluded": sets.excluded().any(axis=1),
        }


class RiverSwimExperiment(base.Experiment):
    """Ten states, horizon 20, 1,000 episodes, 500 runs  [paper: Sec. 6.3]."""

    title = "RiverSwim with a current of unknown direction"
    place = "Sec. 6.3, Fig. 2 right"
    scale = base.Scale(500, 1000)
    quick = base.Scale(20, 100)

    def parts(self, setting: base.Setting, once: base.Once) -> dict[str, base.Blocks]:
        river = RiverSwim()
        simulated = base.SimulationBlocks
        return {
            "agents": simulated(
                agents_of(river), river, setting, microseconds=15.0, block_size=BLOCK
            ),
            "widths": WidthBlocks(river, setting),
            "current": simulated(
                {"MixTS": river.prior}, river, setting, microseconds=20.0, block_size=BLOCK,
                n_rounds=min(FOLLOWED, setting.n_rounds), observe=TruthObserver(),
            ),
        }  # fmt: skip

    def analyse(self, measured: base.Measured) -> base.Analysis:
        river = RiverSwim()
        results = measured.results("agents")
        n = measured.setting.n_rounds
        size = (n, river.n_states, 2, river.horizon)
        bounds, lemma6 = _bounds(size, river.family.min_pseudo_count)
        known = measured.results("current").observed["MixTS"]["truth"] > KNOWN
        sums = measured.parts["widths"]
        # 2 L h / n of an episode; the share of runs that ever miss is at least that of an episode.
        allowed = 2 * 2 * river.horizon / n
        against, starts = upstream(river)
        summary = results.summary()
        return base.Analysis(
            {
                "river": river,
                "n": n,
                "n_runs": measured.setting.n_runs,
                "trivial": n * river.horizon,
                "summary": summary,
                "first100": {
                    name: estimate(results.regret[name][:, : min(100, n)].sum(axis=1))
                    for name in results.agents
                },
                "times": {
                    name: summary[name].regret.mean / summary["MixTS"].regret.mean
                    for name in RIVALS
                },
                "known": KNOWN,
                "hardly": HARDLY,
                "known_at_once": float(known[:, 0].mean()),
                "settled": {name: settled(results, name) for name in ("MixTS", *RIVALS)},
                "first_regret": float(results.regret["MixTS"][:, 0].mean()),
                "against": against,
                "bounds": bounds,
                "lemma6": lemma6,
                "sums": sums,
                "allowed": allowed,
            },
            {
                **{
                    f"great/{name}": times_less(
                        results.regret["MixTS"].sum(axis=1),
                        results.regret[name].sum(axis=1),
                        GREAT,
                    )
                    for name in RIVALS
                },
                "current": weakest(_sooner(results), _mostly_known(known)),
                "policy": "holds" if all(starts) else "does not hold",
                "bound": at_most(summary["MixTS"].regret, min(bounds.values())),
                "lemma6": (
                    "holds" if sums["widths"].max() <= lemma6["statement"] else "does not hold"
                ),
                "lemma7": at_most(estimate(sums["missed"].astype(float)), allowed),
            },
            {"regret": _figure(results)},
        )


def agents_of(river: RiverSwim) -> dict[str, Any]:
    """Return MixTS, the oracle, UniTS, and PSRL: MixTS with one uniform component.

    "PSRL, neighbours" knows which states can follow each other.
    """
    size = (river.n_states, 2, river.horizon, river.start_state)
    transition = river.prior.family.arrays()["transition"]
    neighbours = np.asarray((transition > 0).any(axis=0))
    return {
        "Oracle": partial(Oracle, river.prior),
        "MixTS": river.prior,
        "UniTS": river.prior.collapse(),
        "PSRL, neighbours": MixturePrior(TabularMDP.uniform(*size, neighbours)),
        "PSRL": MixturePrior(TabularMDP.uniform(*size)),
    }


# -- analysis -----------------------------------------------------------------------------------


def _bounds(
    size: tuple[int, int, int, int], least: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Return Theorem 2 and the bound of Lemma 6, each as stated and as its proof ends."""
    forms: tuple[Form, ...] = ("statement", "appendix")
    regret: dict[str, float] = {}
    widths: dict[str, float] = {}
    for form in forms:
        regret[form] = float(theorem2(*size, 2, least, form=form))
        widths[form] = float(episode_width_sum_bound(*size, least, form=form))
    return regret, widths


def settled(results: Results, agent: str, n_errors: float = 0.0) -> int | None:
    """Return the episode, from 1, from which on the mean regret stays below ``HARDLY``.

    ``n_errors`` standard errors are added to the mean of each episode. None: never.
    """
    mean, error = estimate(results.regret[agent])
    large = np.flatnonzero(mean + n_errors * error >= HARDLY)
    after = int(large[-1]) + 2 if large.size else 1
    return after if after <= results.settings["n_rounds"] else None


def _sooner(results: Results) -> Verdict:
    """Judge whether MixTS settles ten times sooner than both kinds of PSRL."""
    never = results.settings["n_rounds"] + 1

    def times(agent: str, n_errors: float) -> int:
        return settled(results, agent, n_errors) or never

    latest, earliest = times("MixTS", N_ERRORS), times("MixTS", -N_ERRORS)
    if all(GREAT * latest <= times(name, -N_ERRORS) for name in RIVALS):
        return "holds"
    if any(GREAT * earliest > times(name, N_ERRORS) for name in RIVALS):
        return "does not hold"
    return "undecided"


def _mostly_known(known: Array) -> Verdict:
    after = min(KNOWN_AFTER, known.shape[1]) - 1
    return exceeds(estimate(known[:, after].astype(float)), MOST_KNOWN)


def upstream(river: RiverSwim) -> tuple[dict[str, int], list[bool]]:
    """Count, for each current, the states in which the best policy first swims against it.

    The second value says for each current whether the starting state is one of them.
    """
    # Actions are to the left and to the right, in this order.
    against: dict[str, Array] = {
        current: river.mean_mdp(current).plan().policy[0] == (0 if current == "right" else 1)
        for current in CURRENTS
    }
    counts = {current: int(states.sum()) for current, states in against.items()}
    return counts, [bool(states[river.start_state]) for states in against.values()]


def _figure(results: Results) -> Any:
    left, right = new_panels(2)
    plot(results, left, agents=["MixTS", "PSRL, neighbours", "PSRL"], rounds="episode")
    plot(results, right, log=True, rounds="episode", bottom=0.1)
    return right.figure


EXPERIMENT = RiverSwimExperiment()
