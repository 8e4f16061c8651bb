"""Tasks whose noise differs: their prior is learned from moments of means and noise.

Given the component, the noise variance sigma^2 of a task is inverse gamma, and so is its posterior,
with ``freedom`` and ``unit`` (``families.noise``). Its moments are closed forms: the sharpness
``u = E[1 / sigma^2] = freedom / unit``, and ``E[ln sigma^2]``. Means and covariances are learned in
units of the noise, in which a task of posterior mean mu counts with the weight u. Predictions of a
task begin with its scatter; given that, rewards are Student variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import special

from mixts._typing import Array, Bool, Float, Int
from mixts.families import (
    Family,
    GaussianArms,
    GaussianStatistics,
    LinearGaussian,
    LinearStatistics,
    LinearStudent,
    Statistics,
    StudentArms,
)
from mixts.families.linear import CovarianceType
from mixts.families.noise import LEAST_DEGREES, MOST_DEGREES, expected_noise, match_noise
from mixts.families.special import whole_evidence
from mixts.learning.models.base import MomentModel, positive
from mixts.learning.models.coefficients import (
    LinearSums,
    Units,
    evidence_of_tasks,
    inverses,
    moments_of_tasks,
    outer,
)
from mixts.learning.models.gaussian import (
    ALIKE,
    ArmSums,
    GaussianModel,
    arm_moments,
    draw_rewards,
)
from mixts.learning.models.gaussian import typical_noise as arms_noise
from mixts.learning.models.linear import (
    LARGE_SQUARES,
    LinearModel,
    LinearPredictive,
    Rotated,
    spare_counts,
)
from mixts.learning.models.linear import typical_noise as linear_noise
from mixts.learning.models.predictive import ArmPredictive, Prediction
from mixts.learning.options import Noise
from mixts.prior import MixturePrior

FIRST_DEGREES = 10.0
"""Degrees of freedom of the broad centre, one pseudo-task: half of the tasks then have a noise
within a sixth of the typical one."""

_NOISE_STEPS, _NOISE_TOLERANCE = 1000, 1e-6
"""Steps of ``fit_noise``, and the relative change of the degrees that ends it."""


LEAST_NOISE = 1e-4
"""Least noise that a task shows, as a fraction of the typical noise: less counts as none."""


# -- tasks that show no noise ---------------------------------------------------------------------


def with_noise(
    statistics: Statistics, noise: Noise = "per-task", typical: float | None = None
) -> tuple[Statistics, Bool[Array, " n"]]:
    """Return tasks that all show noise, and a mask of the tasks that showed it by themselves.

    The density of rewards that repeat exactly, such as ratings or quantities, has no limit: it
    grows without end as their noise falls to zero. But such rewards have only coarse steps, and the
    task says nothing about its noise: its repetitions count as if they had the typical noise of all
    tasks. At least, every reward has ``LEAST_NOISE`` of it. A common noise is that of all tasks:
    it needs this only where no task shows any. ``typical`` is that noise, of more tasks.
    """
    if isinstance(statistics, GaussianStatistics):
        count, average = statistics.array("count"), statistics.array("average")
        n, rest = count.sum(axis=1), statistics.array("squares").sum(axis=1)
        spare = np.maximum(count - 1, 0).sum(axis=1)
        middle = (count * average).sum(axis=1) / np.maximum(n, 1)
        whole = rest + (count * (average - middle[:, None]) ** 2).sum(axis=1)
    else:
        assert isinstance(statistics, LinearStatistics)
        factor, n = statistics.array("factor"), statistics.array("count")
        rest, spare = factor[:, -1, -1] ** 2, spare_counts(statistics)
        whole = (factor[:, :, -1] ** 2).sum(axis=1)
    typical = typical_noise(statistics) if typical is None else typical
    least = n * (LEAST_NOISE * typical) ** 2
    shows = rest > least
    if noise == "common":
        if shows.any() or not spare.any():
            return statistics, np.ones(len(n), bool)
        least = np.zeros(len(n))
    # Rewards of one task that are all the same repeat, although those of different arms might not.
    repeats = np.where((whole <= least) & (n > 1), n - 1, spare)
    wanted = np.where(shows, rest, np.maximum(repeats * typical**2, least))
    return _with_rest(statistics, wanted - rest), shows | (repeats == 0)


def showing_noise(statistics: Statistics, typical: float) -> Statistics:
    """Return a part of the tasks, all of which show noise."""
    return with_noise(statistics, typical=typical)[0]


def typical_noise(statistics: Statistics) -> float:
    """Estimate the noise of all tasks together."""
    if isinstance(statistics, GaussianStatistics):
        return arms_noise(statistics)
    assert isinstance(statistics, LinearStatistics)
    return linear_noise(statistics)


def _with_rest(statistics: Any, more: Float[Array, " n"]) -> Statistics:
    """Return the same averages or coefficients of each task, with larger squared residuals."""
    if isinstance(statistics, GaussianStatistics):
        count, average, squares = statistics.stored
        part = count / np.maximum(count.sum(axis=1, keepdims=True), 1)
        squares = squares + more[:, None] * part
        return GaussianStatistics(count=count, average=average, squares=squares)
    factor = statistics.array("factor").copy()
    factor[:, -1, -1] = np.sqrt(factor[:, -1, -1] ** 2 + more)
    return LinearStatistics(count=statistics.array("count"), factor=factor)


# -- the noise of tasks ---------------------------------------------------------------------------


def noise_hyperprior(family: Any, centre: Any, pseudo: float | Array) -> float:
    """Compute the log density of the noise of pseudo-tasks drawn from the centre."""
    inverse, log = expected_noise(centre.degrees, centre.degrees * centre.noise_std**2)
    half, unit = family.degrees / 2, family.degrees * family.noise_std**2 / 2
    value = half * np.log(unit) - special.gammaln(half) - half * log - unit * inverse
    return float((pseudo * value).sum())


class NoiseSums(NamedTuple):
    """Sums over tasks, weighted by shares, (L,)."""

    tasks: Array
    """Sums of 1."""
    inverse: Array
    """Sums of E[1 / sigma^2]."""
    log: Array
    """Sums of E[ln sigma^2]."""

    @classmethod
    def of(
        cls, share: Float[Array, "n L"], noise: tuple[Float[Array, "n L"], Float[Array, "n L"]]
    ) -> NoiseSums:
        """Sum over tasks with freedom and unit of their noise under each component."""
        own = ((share * x).sum(axis=0) for x in expected_noise(*noise))
        return cls(share.sum(axis=0), *own)


def improved_noise(
    sums: NoiseSums, centre: Any, pseudo: float | Array, *, pooled: bool = False
) -> tuple[Float[Array, " L"], Float[Array, " L"]]:
    """Return noise_std and degrees that explain the shares best; ``pooled``: all the same."""
    tasks = sums.tasks + pseudo
    first = expected_noise(centre.degrees, centre.degrees * centre.noise_std**2)
    means = [
        (own + pseudo * c) / tasks for own, c in zip((sums.inverse, sums.log), first, strict=True)
    ]
    if pooled:
        means = [np.full(len(tasks), tasks @ x / tasks.sum()) for x in means]
    return match_noise(*means)


def fit_noise(
    spare: Int[Array, " n"], squares: Float[Array, " n"], centre: Any
) -> tuple[float, float]:
    """Return noise_std and degrees of tasks with these squared residuals and spare counts.

    Expectation maximisation, with one pseudo-task of the centre.
    """
    seen = spare > 0
    noise_std, degrees = centre.noise_std[:1], centre.degrees[:1]
    share = np.ones((int(seen.sum()), 1))
    for _ in range(_NOISE_STEPS):
        before = degrees
        noise = (
            degrees + spare[seen, None],
            degrees * noise_std**2 + squares[seen, None],
        )
        noise_std, degrees = improved_noise(NoiseSums.of(share, noise), centre, 1.0)
        if np.abs(degrees / before - 1) < _NOISE_TOLERANCE:
            break
    return float(noise_std[0]), float(degrees[0])


def _unpacked_noise(numbers: Float[Array, " p"], n_components: int) -> tuple[Array, Array] | None:
    """Return noise_std and degrees (L,) from logarithms: of each component, or one for all."""
    values = positive(numbers)
    if values is None:
        return None
    both = np.broadcast_to(values.reshape(2, -1), (2, n_components))
    return both[0], np.clip(both[1], LEAST_DEGREES, MOST_DEGREES)


# -- arms -----------------------------------------------------------------------------------------


class StudentModel(MomentModel):
    """Arms of tasks with Gaussian rewards and a noise of their own."""

    statistics_type: ClassVar[type[Statistics]] = GaussianStatistics
    noise: ClassVar[Noise] = "per-task"
    statistics: GaussianStatistics
    centre: StudentArms

    def __init__(self, statistics: GaussianStatistics) -> None:
        self._known = GaussianModel(statistics)
        super().__init__(statistics)

    def _prepare(self) -> None:
        self._count: Array = self.statistics.array("count")
        self._average: Array = self.statistics.array("average")

    def _broad(self) -> StudentArms:
        known = self._known.centre
        return StudentArms(known.mean, known.variance, known.noise_std, FIRST_DEGREES)

    def log_evidence(self, family: StudentArms) -> Float[Array, "n L"]:  # type: ignore[override]
        return family.log_evidence(self.statistics)

    def log_hyperprior(self, family: StudentArms) -> float:  # type: ignore[override]
        ratio, sharp = _ratio(family), self.centre.noise_std[:, None] ** -2
        about = _ratio(self.centre) + sharp * (family.mean - self.centre.mean) ** 2
        logs = np.log(ratio)
        value = -(self.pseudo * (logs + about / ratio)).sum() / 2
        joint = len(logs) * np.log((1 / ratio).mean(axis=0)).sum()
        value -= (0.0 if self.continues else ALIKE) / 2 * (logs.sum() + joint)
        return float(value) + noise_hyperprior(family, self.centre, self.pseudo_weights)

    def sums(self, family: StudentArms, share: Array) -> tuple[ArmSums, NoiseSums]:  # type: ignore[override]
        degrees, unit = family.noise_prior
        noise = degrees + self._count.sum(axis=1)[:, None], unit + family.misfit(self.statistics)
        _, arms = arm_moments(
            self._count, self._average, share, share * noise[0] / noise[1], family.mean,
            _ratio(family), 1.0,
        )  # fmt: skip
        return arms, NoiseSums.of(share, noise)

    def improved(self, family: StudentArms, sums: tuple[ArmSums, NoiseSums]) -> StudentArms:  # type: ignore[override]
        (tasks, sharp, first, second), noise = sums
        ratio = _ratio(family)
        pull = self.pseudo / self.centre.noise_std[:, None] ** 2
        start = self.centre.mean - family.mean
        step = (first + pull * start) / (sharp + pull)
        scatter = second - 2 * first * step + sharp * step**2
        scatter += self.pseudo * _ratio(self.centre) + pull * (start - step) ** 2
        shared = 1 / (1 / ratio).mean(axis=0)
        alike = 0.0 if self.continues else ALIKE
        ratio = (scatter + alike * shared) / (tasks + self.pseudo + alike)
        noise_std, degrees = improved_noise(noise, self.centre, self.pseudo_weights)
        return StudentArms(family.mean + step, ratio * noise_std[:, None] ** 2, noise_std, degrees)

    def pack(self, family: StudentArms) -> Float[Array, " p"]:  # type: ignore[override]
        logs = [np.log(_ratio(family)).ravel(), np.log(family.noise_std), np.log(family.degrees)]
        return np.concatenate([family.mean.ravel(), *logs])

    def unpack(self, numbers: Array, n_components: int) -> StudentArms | None:
        shape = (n_components, self._count.shape[1])
        size = shape[0] * shape[1]
        ratio = positive(numbers[size : 2 * size])
        noise = _unpacked_noise(numbers[2 * size :], n_components)
        if ratio is None or noise is None or not np.isfinite(numbers).all():
            return None
        variance = ratio.reshape(shape) * noise[0][:, None] ** 2
        return StudentArms(numbers[:size].reshape(shape), variance, *noise)

    def estimates(self, family: StudentArms) -> Float[Array, "n p"]:  # type: ignore[override]
        """Return posterior means minus the component's mean, which do not depend on the noise."""
        return self._known.estimates(GaussianArms(family.mean, _ratio(family), 1.0))

    def match(
        self, groups: Int[Array, " n"], n_groups: int, pooled: Family | None = None
    ) -> StudentArms:
        prior = self.centre if pooled is None else pooled
        assert isinstance(prior, StudentArms)
        typical = float(prior.noise_std[0])
        known = self._known.match(
            groups, n_groups, GaussianArms(prior.mean, prior.variance, typical)
        )
        spare = np.maximum(self._count - 1, 0).sum(axis=1)
        squares = self.statistics.array("squares").sum(axis=1)
        noise = [
            fit_noise(spare[groups == g], squares[groups == g], prior) for g in range(n_groups)
        ]
        noise_std, degrees = np.array(noise).T
        return StudentArms.match(
            known.mean, known.variance, {"noise_std": noise_std, "degrees": degrees}
        )

    def n_parameters(self, n_components: int) -> int:
        return n_components * (2 * self._count.shape[1] + 3) - 1


def _ratio(family: StudentArms) -> Float[Array, "L K"]:
    """Return the variances in units of the noise variance."""
    return np.asarray(family.variance / family.noise_std[:, None] ** 2)


# -- linear tasks ---------------------------------------------------------------------------------


class LinearStudentModel(LinearModel):
    """Linear tasks with a noise of their own; with tied covariances all noise is alike."""

    statistics_type: ClassVar[type[Statistics]] = LinearStatistics
    noise: ClassVar[Noise] = "per-task"
    options: ClassVar[tuple[str, ...]] = ("covariance_type",)
    centre: LinearStudent  # type: ignore[assignment]

    def __init__(
        self, statistics: LinearStatistics, covariance_type: CovarianceType = "full"
    ) -> None:
        super().__init__(statistics, None, covariance_type)

    def _broad(self) -> LinearStudent:  # type: ignore[override]
        known, noise = super()._broad(), np.array([self._noise])
        relative = known.full_covariances() / self._noise**2
        return self._student(known.mean, relative, noise, np.array([FIRST_DEGREES]))

    @property
    def _pooled(self) -> bool:
        return self.covariance_type == "tied"

    def _student(
        self, mean: Array, relative: Float[Array, "G d d"], noise_std: Array, degrees: Array
    ) -> LinearStudent:
        """Return the family of covariances in units of the noise variance."""
        covariance = self.shaped(relative * (noise_std[: len(relative), None, None] ** 2))
        return LinearStudent(mean, covariance, noise_std, degrees, self.covariance_type)

    def _relative(self, family: LinearStudent) -> Float[Array, "G d d"]:
        """Return covariances in units of the noise variance; one if all components share it."""
        square = family.noise_std[:, None, None] ** 2
        if self._pooled:
            return np.asarray(family.covariance / square[:1])
        return np.asarray(family.full_covariances() / square)

    # -- the objective ------------------------------------------------------------------------

    def _posteriors(self, family: LinearStudent) -> tuple[Array, tuple[Array, Array]]:
        """Return the log evidence, and freedom and unit of the noise, of all tasks."""
        degrees, unit = family.noise_prior
        freedom = degrees + self._count[:, None]
        precision, log_det = inverses(self._relative(family))
        out, squares, largest = evidence_of_tasks(
            self._tasks, family.mean, precision, -log_det / 2, 1.0
        )
        if largest > LARGE_SQUARES * float(family.noise_std.min()) ** 2:
            uniform = np.zeros(family.n_components)
            exact = family.posterior(self.statistics, uniform)
            noise = exact.noise_posterior(np.arange(self.n_tasks)[:, None], np.arange(len(uniform)))
            return exact.log_evidence(), noise
        misfit = np.maximum(squares, 0.0) + self._rest[:, None]
        out += whole_evidence(degrees, unit, self._count[:, None], misfit)
        return out, (freedom, unit + misfit)

    def log_evidence(self, family: LinearStudent) -> Float[Array, "n L"]:  # type: ignore[override]
        return self._posteriors(family)[0]

    def log_hyperprior(self, family: LinearStudent) -> float:  # type: ignore[override]
        precision, log_det = inverses(self._relative(family))
        if self._pooled:
            n = family.n_components
            precision, log_det = np.repeat(precision, n, axis=0), np.repeat(log_det, n)
        gap = (family.mean - self.centre.mean) / self.centre.noise_std[:, None]
        about = self._relative(self.centre) + outer(gap, gap)
        pull = log_det + np.einsum("lij,lij->l", precision, about)
        value = -(self.pseudo * pull).sum() / 2
        if not self._pooled:
            joint = len(log_det) * np.linalg.slogdet(precision.mean(axis=0))[1]
            value -= self.alike / 2 * (log_det.sum() + joint)
        return float(value) + noise_hyperprior(family, self.centre, self.pseudo_weights)

    def sums(self, family: LinearStudent, share: Array) -> tuple[LinearSums, Array, NoiseSums]:  # type: ignore[override]
        if not np.isfinite(share).all():
            raise self._too_far_apart()
        _, noise = self._posteriors(family)
        sharp = share * noise[0] / noise[1]
        precision, _ = inverses(self._relative(family))
        _, sums = moments_of_tasks(self._tasks, share, sharp, family.mean, precision, 1.0)
        return sums, sharp.sum(axis=0), NoiseSums.of(share, noise)

    def improved(  # type: ignore[override]
        self, family: LinearStudent, sums: tuple[LinearSums, Array, NoiseSums]
    ) -> LinearStudent:
        moments, sharp, noises = sums
        precision, _ = inverses(self._relative(family))
        pull = self.pseudo / self.centre.noise_std**2
        units = Units(sharp, pull, self._relative(self.centre))
        mean, relative = self.maximised(family.mean, noises.tasks, moments, precision, units)
        if not (np.isfinite(mean).all() and np.isfinite(relative).all()):
            raise self._too_far_apart()
        pseudo = self.pseudo_weights
        noise = improved_noise(noises, self.centre, pseudo, pooled=self._pooled)
        return self._student(mean, relative, *noise)

    def information(self, family: LinearStudent, component: int) -> Float[Array, "n d d"]:  # type: ignore[override]
        return np.asarray(self._gram / family.noise_std[component] ** 2)

    def pack(self, family: LinearStudent) -> Float[Array, " p"]:  # type: ignore[override]
        n = 1 if self._pooled else family.n_components
        known = LinearGaussian(family.mean, self._plain(family), 1.0, self.covariance_type)
        noise = [np.log(family.noise_std[:n]), np.log(family.degrees[:n])]
        # Without the noise of the relative prior, which is always 1.
        return np.concatenate([super().pack(known)[:-1], *noise])

    def _plain(self, family: LinearStudent) -> Array:
        """Return the covariances in units of the noise variance, in the form of their type."""
        return self.shaped(self._relative(family))

    def unpack(self, numbers: Array, n_components: int) -> LinearStudent | None:  # type: ignore[override]
        n = 1 if self._pooled else n_components
        noise = _unpacked_noise(numbers[-2 * n :], n_components)
        known = super().unpack(np.append(numbers[: -2 * n], 0.0), n_components)
        if noise is None or known is None:
            return None
        return self._student(known.mean, self.distinct(known), *noise)

    # -- points and two stages ----------------------------------------------------------------

    def points(self, family: LinearStudent) -> Float[Array, "n p"]:  # type: ignore[override]
        """Return posterior means, which do not depend on the noise, in units of the spread."""
        known = LinearGaussian(family.mean, self._plain(family), 1.0, self.covariance_type)
        return super().points(known)

    def two_stage(self, n_components: int, seed: int) -> tuple[MixturePrior, MixturePrior]:
        noise_std, degrees = fit_noise(spare_counts(self.statistics), self._rest, self.centre)
        found = []
        same_noise = LinearModel(self.statistics, None, self.covariance_type)
        for prior in same_noise.two_stage(n_components, seed):
            known = prior.family
            assert isinstance(known, LinearGaussian)
            family = LinearStudent(
                known.mean, known.covariance * (1 - 2 / degrees), noise_std, degrees,
                known.covariance_type,
            )  # fmt: skip
            found.append(MixturePrior(family, prior.weights))
        return found[0], found[1]

    def n_parameters(self, n_components: int) -> int:
        # LinearModel counts one number for the noise.
        return super().n_parameters(n_components) - 1 + (2 if self._pooled else 2 * n_components)


# -- predictions ----------------------------------------------------------------------------------


class NoiseBelief:
    """Freedom and unit of the noise of each task under each component, as parts are predicted."""

    def __init__(self, noise_prior: tuple[Array, Array], n_tasks: int) -> None:
        self.freedom, self.unit = (np.tile(x, (n_tasks, 1)) for x in noise_prior)

    def scatter(self, spare: Int[Array, " n"], squares: Float[Array, " n"]) -> Prediction:
        """Return the part of squared residuals, and learn from them.

        With ``spare`` degrees of freedom and noise sigma they are sigma^2 times a chi-squared
        variable; divided by the unit, a beta prime variable.
        """
        tasks = np.flatnonzero(spare)
        freedom, unit = self.freedom[tasks], self.unit[tasks]
        more, own = spare[tasks, None], squares[tasks, None]
        less = special.betainc(more / 2, freedom / 2, own / (unit + own))
        # Without the terms that all components share.
        log = special.gammaln((freedom + more) / 2) - special.gammaln(freedom / 2)
        log -= 0.5 * (more * np.log(unit) + (freedom + more) * np.log1p(own / unit))
        self._learn(tasks, more, own)
        return Prediction("noise", tasks, log, less, np.zeros_like(less))

    def reward(
        self, tasks: Int[Array, " m"], gap: Float[Array, "m L"], alpha: Float[Array, "m L"]
    ) -> Prediction:
        """Return the part of a reward that is ``gap`` from its mean, and learn from it.

        ``alpha`` is its variance in units of the noise variance.
        """
        freedom, unit, square = self.freedom[tasks], self.unit[tasks], gap * gap / alpha
        log = -special.betaln(freedom / 2, 0.5) - 0.5 * np.log(unit * alpha)
        log -= 0.5 * (freedom + 1) * np.log1p(square / unit)
        less = special.stdtr(freedom, gap / np.sqrt(alpha * unit / freedom))
        self._learn(tasks, np.ones(1), square)
        return Prediction("rewards", tasks, log, less, np.zeros_like(less))

    def _learn(self, tasks: Int[Array, " m"], n: Array, misfit: Array) -> None:
        self.freedom[tasks] += n
        self.unit[tasks] += misfit


class StudentPredictive(ArmPredictive):
    """Predictions of squared deviations, then of the averages of arms."""

    family_type: ClassVar[type[Family]] = StudentArms

    def parts(self) -> Iterator[Prediction]:
        noise = NoiseBelief(self.family.noise_prior, len(self.pulls))
        spare = np.maximum(self.pulls - 1, 0).sum(axis=1)
        yield noise.scatter(spare, self.statistics.array("squares").sum(axis=1))
        ratio = self.family.variance / self.family.noise_std[:, None] ** 2
        for arm in range(self.pulls.shape[1]):
            tasks = np.flatnonzero(self.pulls[:, arm])
            alpha = ratio[:, arm] + 1 / self.pulls[tasks, arm, None]
            average = self.statistics.array("average")[tasks, arm, None]
            yield noise.reward(tasks, average - self.family.mean[:, arm], alpha)

    def _draw(self, rng: np.random.Generator, pulls: Array, means: Array) -> Statistics:
        return draw_rewards(rng, pulls, means[:, :-1], means[:, -1:])


class LinearStudentPredictive(LinearPredictive):
    """Predictions of the residual noise, then of rotated rewards, in units of the noise."""

    family_type: ClassVar[type[Family]] = LinearStudent

    def parts(self) -> Iterator[Prediction]:
        noise = NoiseBelief(self.family.noise_prior, len(self.count))
        yield noise.scatter(self.spare, self.residual)
        for rotated in self._blocks(np.arange(len(self.count))):
            innovation = rotated.innovations(rotated.rewards[..., None])[..., 0]
            scale = np.exp(rotated.log_scale)
            for j in range(rotated.real.shape[1]):
                rows = np.flatnonzero(rotated.real[:, j])
                wide = scale[rows, :, j]
                yield noise.reward(rotated.tasks[rows], innovation[rows, :, j] * wide, wide**2)

    def _split(self, parameters: Float[Array, "m b p"]) -> tuple[Array, Array]:
        return parameters[..., :-1], parameters[..., -1]

    def _score(
        self, rotated: Rotated, rewards: Float[Array, "m r b"], residual: Float[Array, "m b"]
    ) -> Float[Array, "m b"]:
        degrees, unit = (x[:, None] for x in self.family.noise_prior)
        real = rotated.real[:, None, :, None]
        misfit = (rotated.innovations(rewards) ** 2 * real).sum(axis=2) + residual[:, None]
        n = (self.spare[rotated.tasks] + rotated.real.sum(axis=1))[:, None, None]
        log = special.gammaln((degrees + n) / 2) - special.gammaln(degrees / 2)
        log = log - 0.5 * (n * np.log(np.pi * unit) + (degrees + n) * np.log1p(misfit / unit))
        log = log - (rotated.log_scale[..., None] * real).sum(axis=2)
        return np.asarray(special.logsumexp(self.prior.log_weights[:, None] + log, axis=1))
