"""Check a prior on held-out tasks: evidence, calibration, surprising tasks, unused components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np
from scipy import special

from mixts import _checks
from mixts._html import MOST_ROWS, card, label, more, table
from mixts._random import generator
from mixts._typing import Array, Float, Int, Seed
from mixts.errors import ParameterError, StatisticsError
from mixts.families import Statistics
from mixts.learning.findings import findings, summary
from mixts.learning.histories import statistics_of
from mixts.learning.learn import flat_family
from mixts.learning.measures import (
    Calibration,
    Evidence,
    RateCalibration,
    Remedies,
    Surprise,
    Usage,
    scores_beside,
)
from mixts.learning.models import predictive_of
from mixts.learning.models.predictive import mixture_evidence, transform
from mixts.prior import MixturePrior

N_DRAWS = 999
"""Default number of tasks drawn beside each surprising task: p-values down to 0.001."""


@dataclass(frozen=True, repr=False)
class PriorCheck:
    """Result of :func:`check_prior`. Print it for a summary; ``mixts.plot`` draws it.

    Attributes
    ----------
    prior : MixturePrior
        The prior that was checked.
    n_observations : (n,) array of int
        Number of observations of each task.
    evidence : Evidence
        Held-out log evidence, beside that of UniTS and TS.
    calibration : mapping of str to Calibration
        Calibration of predictions: of "rewards" and, where the family has them, of "transitions"
        and "noise".
    surprise : Surprise
        Surprise of each task.
    usage : Usage
        Number of tasks that come from each kind.
    component : (n,) array of int
        Most likely kind of each task; -1 where no component is possible. A kind is a component,
        unless ``prior.kinds`` says that several components describe one kind.
    rates : RateCalibration or None
        Predicted click rates beside the share of clicks; None unless rewards are clicks with
        features.
    remedies : Remedies
        What may be done about faults, in words.

    Examples
    --------
    >>> import mixts
    >>> from mixts.families import BernoulliStatistics
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> tasks = BernoulliStatistics(successes=[[9, 1], [1, 7]], failures=[[1, 8], [6, 2]])
    >>> check = mixts.check_prior(prior, tasks, seed=1)
    >>> check.n_tasks, check.component.tolist()
    (2, [0, 1])
    >>> check.findings[0]
    'Held-out evidence: better than UniTS and TS, flat (by two standard errors).'
    """

    prior: MixturePrior
    n_observations: Int[Array, " n"]
    evidence: Evidence
    calibration: Mapping[str, Calibration]
    surprise: Surprise
    usage: Usage
    component: Int[Array, " n"]
    rates: RateCalibration | None = None
    remedies: Remedies = field(default_factory=Remedies)

    @property
    def n_tasks(self) -> int:
        """Number of held-out tasks."""
        return len(self.n_observations)

    @property
    def unused(self) -> str:
        """Say that held-out tasks hardly use some of the learned kinds; "" if they use all."""
        unused = self.usage.unused[: self.remedies.n_kinds]
        if not unused.any():
            return ""
        n_used = int((~unused).sum())
        return "held-out tasks hardly use some of its kinds" + (
            f": try --components {n_used}" if n_used else ""
        )

    def with_remedies(self, remedies: Remedies) -> PriorCheck:
        """Return the check with what may be done about faults.

        Parameters
        ----------
        remedies
            The remedies that are left, in words.

        Returns
        -------
        PriorCheck
            The same check.
        """
        calibration = {
            name: replace(one, remedies=remedies) for name, one in self.calibration.items()
        }
        return replace(self, calibration=calibration, remedies=remedies)

    @property
    def findings(self) -> list[str]:
        """Findings in sentences; the first is about the evidence."""
        return findings(self)

    def __repr__(self) -> str:
        return summary(self)

    def _repr_html_(self) -> str:
        gains = {name: self.evidence.gain(name) for name in self.evidence.names[1:]}
        usage = self.usage
        kinds = list(zip(usage.names, usage.found, usage.expected, strict=True))
        return card(
            f"PriorCheck of {self.prior.family!r} on {self.n_tasks:,} held-out tasks",
            "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in self.findings) + "</ul>",
            table(
                ["gain of log evidence per task", "", ""],
                [
                    [f"over {label(name)}", f"{gain.mean:+.3g}", f"± {gain.error:.2g}"]
                    for name, gain in gains.items()
                ],
            ),
            table(
                ["kind", "tasks found", "expected"],
                [[label(name), f"{n:.1f}", f"{m:.1f}"] for name, n, m in kinds[:MOST_ROWS]],
                [more(len(kinds) - MOST_ROWS, "kind")],
            ),
        )


def check_prior(
    prior: MixturePrior,
    held_out_tasks: Any,
    *,
    unimodal: MixturePrior | None = None,
    flat: MixturePrior | None = None,
    seed: Seed = None,
    n_draws: int = N_DRAWS,
) -> PriorCheck:
    """Compare a prior with tasks that it was not learned from.

    - Evidence: ln sum_s w_s p(task | s), beside that of ``unimodal`` and of ``flat``.
    - Calibration: every part of a task's statistics is predicted from its earlier parts.
    - Click rates, of clicks with features: predicted rates beside the share of clicks.
    - Surprise: each task's probability beside tasks drawn from the prior.
    - Usage: how many tasks come from each kind.

    Calibration and p-values take as given how often everything was tried. They are exact where that
    did not depend on the outcomes, as in logs of random or fixed choices; in logs of bandit
    algorithms and of MDPs they are approximate. Evidence and usage are exact however actions were
    chosen.

    Parameters
    ----------
    prior
        The prior to check.
    held_out_tasks
        Statistics of tasks, or histories, which are read as the prior's family says; see
        :func:`mixts.learning.statistics_of`.
    unimodal
        Prior of UniTS to compare with; by default the prior collapsed to one component.
    flat
        Prior of TS to compare with; by default one that knows only the scale of these tasks'
        rewards, :func:`mixts.learning.flat_family`.
    seed
        Seed of random draws.
    n_draws
        Largest number of tasks drawn from the prior beside each task.

    Returns
    -------
    PriorCheck
        Print it for a summary; ``mixts.plot`` draws it.

    Examples
    --------
    >>> import mixts
    >>> from mixts.families import BernoulliStatistics
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
    >>> tasks = BernoulliStatistics(successes=[[9, 1], [1, 7]], failures=[[1, 8], [6, 2]])
    >>> check = mixts.check_prior(prior, tasks, seed=1)
    >>> check.component.tolist()
    [0, 1]
    """
    statistics = _tasks(prior, held_out_tasks)
    n_draws = _checks.count(n_draws, "n_draws")
    rng = generator(seed, "check_prior")
    others = {
        "UniTS": prior.collapse() if unimodal is None else unimodal,
        _flat_name(prior): _flat(prior, statistics) if flat is None else flat,
    }
    joint = prior.log_weights + prior.family.log_evidence(statistics)
    values = {"this prior": np.asarray(special.logsumexp(joint, axis=1))}
    for name, other in others.items():
        if not isinstance(other, MixturePrior):
            raise ParameterError(f"the prior of {name} must be a MixturePrior, got {other!r}")
        other.family.check_statistics(statistics)
        values[name] = mixture_evidence(other, statistics)
    n = np.asarray(statistics.n_observations)
    evidence = Evidence(values, n)
    possible = np.isfinite(evidence.log_evidence["this prior"])
    seen = n > 0
    by_kind = _by_kind(prior, joint)
    calibration, rates = _calibration(prior, statistics, np.flatnonzero(seen & possible), rng)
    best = np.where(possible, by_kind.argmax(axis=1), -1)
    return PriorCheck(
        prior,
        n,
        evidence,
        calibration,
        _surprise(prior, statistics, evidence, n_draws, rng),
        _usage(prior, by_kind[seen & possible]),
        best,
        rates,
    )


def _tasks(prior: MixturePrior, given: Any) -> Statistics:
    if not isinstance(prior, MixturePrior):
        raise ParameterError(f"prior must be a MixturePrior, got {type(prior).__name__}")
    statistics = statistics_of(given, prior.family)
    prior.family.check_statistics(statistics)
    if not int(np.sum(statistics.n_observations)):
        raise StatisticsError(
            f"a check needs held-out tasks with observations, got {len(statistics)} tasks with none"
        )
    return statistics[np.arange(len(statistics))]


def _flat_name(prior: MixturePrior) -> str:
    return "PSRL, flat" if prior.family.plans else "TS, flat"


def _flat(prior: MixturePrior, statistics: Statistics) -> MixturePrior:
    """Return the prior of TS: it knows the noise (or the horizon) and the scale of rewards."""
    return MixturePrior(flat_family(statistics, **prior.family.learning_settings()))


def _calibration(
    prior: MixturePrior, statistics: Statistics, tasks: Int[Array, " m"], rng: np.random.Generator
) -> tuple[dict[str, Calibration], RateCalibration | None]:
    predictive = predictive_of(prior, statistics[tasks])
    found, rates = transform(predictive, len(tasks), rng), predictive.rates()
    groups = {name: Calibration(name, u.values, tasks[u.tasks]) for name, u in found.items()}
    return groups, None if rates is None else RateCalibration.of(rates)


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
        predictive = predictive_of(prior, statistics[tasks])
        score[tasks] = predictive.scores()
        beside = scores_beside(predictive, score[tasks], n_draws, rng)
        expected[tasks], spread[tasks], p_value[tasks] = beside
    p_value[np.isneginf(score)] = 0.0
    # The factor of a task that neither prior can explain stays 1.
    either = np.isfinite(own) | np.isfinite(flat)
    log_factor[either] = flat[either] - own[either]
    return Surprise(score, expected, spread, p_value, log_factor, evidence.n_observations)


def _by_kind(prior: MixturePrior, joint: Float[Array, "m L"]) -> Float[Array, "m G"]:
    """Return ln P(kind, task) from ln P(component, task)."""
    if prior.kinds is None:
        return joint
    index = np.array(prior.kind_indices)
    parts = [special.logsumexp(joint[:, index == g], axis=1) for g in range(index.max() + 1)]
    return np.stack(parts, axis=1)


def _usage(prior: MixturePrior, joint: Float[Array, "m G"]) -> Usage:
    share = special.softmax(joint, axis=1) if len(joint) else joint
    unnamed = prior.kinds is None and prior.names is None
    names = tuple(map(str, range(prior.n_components))) if unnamed else prior.kind_names
    largest = share.max(axis=0, initial=0.0)
    weights = prior.sum_by_kind(prior.weights)
    return Usage(names, weights, len(joint), share.sum(axis=0), largest)
