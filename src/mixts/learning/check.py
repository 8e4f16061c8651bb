"""Is a prior any good? Held-out evidence, calibration, surprising tasks and unused components."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from mixts import _checks
from mixts._random import generator
from mixts._typing import Array, Float, Int, Seed
from mixts.errors import ParameterError, StatisticsError
from mixts.families import (
    BernoulliArms,
    Family,
    GaussianArms,
    LinearGaussian,
    PoissonArms,
    Statistics,
    TabularMDP,
)
from mixts.learning.checking import arms, linear, tabular
from mixts.learning.checking.calibration import Calibration
from mixts.learning.checking.evidence import Evidence, component_evidence, fitting, mixture_evidence
from mixts.learning.checking.predictive import Predictive, transform
from mixts.learning.checking.summary import findings, summary
from mixts.learning.checking.surprise import Surprise, scores_beside
from mixts.learning.checking.usage import Usage
from mixts.learning.learn import flat_family
from mixts.learning.raw import statistics_of
from mixts.prior import MixturePrior

N_DRAWS = 999
"""Tasks drawn from the prior beside each one that looks surprising: p-values down to 0.001."""

_PREDICTIVES: dict[type[Family], Callable[[MixturePrior, Statistics], Predictive]] = {
    BernoulliArms: arms.BernoulliPredictive,
    GaussianArms: arms.GaussianPredictive,
    PoissonArms: arms.PoissonPredictive,
    LinearGaussian: linear.LinearPredictive,
    TabularMDP: tabular.TabularPredictive,
}


@dataclass(frozen=True, repr=False)
class PriorCheck:
    """What held-out tasks say of a prior; printing it gives a summary, ``plot`` a figure."""

    prior: MixturePrior
    n_observations: Int[Array, " n"]
    """Of each task."""
    evidence: Evidence
    """Held-out log evidence beside UniTS and TS."""
    calibration: Mapping[str, Calibration]
    """Of predictions of rewards and, where there are some, of transitions and noise."""
    surprise: Surprise
    """Tasks that no component explains."""
    usage: Usage
    """Components, and how many tasks come from each."""
    component: Int[Array, " n"]
    """The most likely component of each task; -1 where none is possible."""

    @property
    def n_tasks(self) -> int:
        """How many tasks were held out."""
        return len(self.n_observations)

    @property
    def findings(self) -> list[str]:
        """What there is to say, in sentences; the first is about the evidence."""
        return findings(self)

    def __repr__(self) -> str:
        return summary(self)


def check_prior(
    prior: MixturePrior,
    held_out_tasks: Any,
    *,
    unimodal: MixturePrior | None = None,
    flat: MixturePrior | None = None,
    seed: Seed = None,
    n_draws: int = N_DRAWS,
) -> PriorCheck:
    """Compare a prior with tasks that it was not learned from, given as :func:`learn_prior` takes
    them: statistics, best of all; histories are read as the prior's family says.

    - Evidence: ln sum_s w_s p(task | s), beside that of ``unimodal`` (UniTS; by default the prior
      collapsed) and of ``flat`` (TS; by default what knows nothing but the scale of these tasks'
      rewards, :func:`mixts.learning.flat_family`).
    - Calibration: every part of a task's statistics is predicted from its earlier parts.
    - Surprise: each task's probability beside up to ``n_draws`` tasks drawn from the prior.
    - Usage: how many tasks come from each component.

    Calibration and p-values take as given how often everything was tried. They are exact where
    that did not depend on the outcomes, as in logs of random or fixed choices; where it did, as in
    logs of bandit algorithms and of MDPs, they are approximate. Evidence and usage are exact
    however actions were chosen.
    """
    statistics = _tasks(prior, held_out_tasks)
    n_draws = _checks.count(n_draws, "n_draws")
    rng = generator(seed, "check_prior")
    others = {
        "UniTS": prior.collapse() if unimodal is None else unimodal,
        _flat_name(prior): _flat(prior, statistics) if flat is None else flat,
    }
    component = component_evidence(prior, statistics)
    joint = prior.log_weights + component
    values = {"this prior": np.asarray(special.logsumexp(joint, axis=1))}
    for name, other in others.items():
        _same_tasks(other, statistics, name)
        values[name] = mixture_evidence(other, statistics)
    n = np.asarray(statistics.n_observations)
    evidence = Evidence(values, n)
    possible = np.isfinite(evidence.log_evidence["this prior"])
    seen = n > 0
    best = np.where(possible, joint.argmax(axis=1), -1)
    return PriorCheck(
        prior,
        n,
        evidence,
        _calibration(prior, statistics, np.flatnonzero(seen & possible), rng),
        _surprise(prior, statistics, evidence, n_draws, rng),
        _usage(prior, joint[seen & possible]),
        best,
    )


def _tasks(prior: MixturePrior, given: Any) -> Statistics:
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
    statistics = statistics_of(given, prior.family)
    fitting(prior, statistics)
    if not int(np.sum(statistics.n_observations)):
        raise StatisticsError(
            f"a check needs held-out tasks with observations, got {len(statistics)} tasks with none"
        )
    return statistics[np.arange(len(statistics))]


def _same_tasks(other: MixturePrior, statistics: Statistics, name: str) -> None:
    if not isinstance(other, MixturePrior):
        raise ParameterError(f"the prior of {name} must be a MixturePrior, got {other!r}")
    fitting(other, statistics)


def _flat_name(prior: MixturePrior) -> str:
    return "PSRL, flat" if prior.family.plans else "TS, flat"


def _flat(prior: MixturePrior, statistics: Statistics) -> MixturePrior:
    """What TS knows of such tasks: the noise, and the scale of their rewards."""
    settings = prior.family.settings()
    initial = prior.family.initial if isinstance(prior.family, TabularMDP) else None
    return MixturePrior(
        flat_family(
            statistics,
            noise_std=settings.get("noise_std"),
            horizon=settings.get("horizon"),
            initial=initial,
        )
    )


def _predictive(prior: MixturePrior, statistics: Statistics) -> Predictive:
    make = _PREDICTIVES.get(type(prior.family))
    if make is None:
        *names, last = (kind.__name__ for kind in _PREDICTIVES)
        raise ParameterError(
            f"check_prior knows what {', '.join(names)} and {last} predict, got {prior.family!r}"
        )
    return make(prior, statistics)


def _calibration(
    prior: MixturePrior, statistics: Statistics, tasks: Int[Array, " m"], rng: np.random.Generator
) -> dict[str, Calibration]:
    predictive = _predictive(prior, statistics[tasks])
    found = transform(predictive, len(tasks), rng)
    return {name: Calibration(name, u.values, tasks[u.tasks]) for name, u in found.items()}


def _surprise(
    prior: MixturePrior,
    statistics: Statistics,
    evidence: Evidence,
    n_draws: int,
    rng: np.random.Generator,
) -> Surprise:
    tasks = np.flatnonzero(evidence.n_observations)
    own, _, flat = evidence.log_evidence.values()
    score, expected, spread = (np.zeros(len(own)) for _ in range(3))
    p_value, log_factor = np.ones(len(own)), np.zeros(len(own))
    if len(tasks):
        predictive = _predictive(prior, statistics[tasks])
        score[tasks] = predictive.scores()
        beside = scores_beside(predictive, score[tasks], n_draws, rng)
        expected[tasks], spread[tasks], p_value[tasks] = beside
    p_value[np.isneginf(score)] = 0.0
    # Where neither can explain a task none is better.
    either = np.isfinite(own) | np.isfinite(flat)
    log_factor[either] = flat[either] - own[either]
    return Surprise(score, expected, spread, p_value, log_factor, evidence.n_observations)


def _usage(prior: MixturePrior, joint: Float[Array, "m L"]) -> Usage:
    share = special.softmax(joint, axis=1) if len(joint) else joint
    names = prior.names or tuple(str(s) for s in range(prior.n_components))
    largest = share.max(axis=0, initial=0.0)
    return Usage(names, prior.weights, len(joint), share.sum(axis=0), largest)
