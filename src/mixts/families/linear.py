"""Linear rewards: a'theta plus Gaussian noise, which is known, or of a task and unknown."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mixts import _checks, _program
from mixts._numbers import LOG_2PI
from mixts._typing import Array, ArrayLike, Bool, Float, Int
from mixts.errors import ActionError, ParameterError
from mixts.families._linear_rewards import LinearRewards
from mixts.families.base import Posterior, Waiting
from mixts.families.coefficients import CoefficientFamily, CovarianceType
from mixts.families.linear_statistics import LinearStatistics
from mixts.families.rewards import RewardBelief, reweighed
from mixts.families.statistics import Statistics

__all__ = ["CovarianceType", "LinearFamily", "LinearGaussian"]

MOST_PRODUCTS = 10**11
"""Limit of a decision's draws times features of all actions (about 20 s), because the core's loop
cannot be interrupted."""

# -- the posterior --------------------------------------------------------------------------------


class Solution(NamedTuple):
    """Posteriors of m pairs of a task and a component, theta ~ N(mean, root root')."""

    mean: Float[Array, "m d"]
    root: Float[Array, "m d d"]
    half_log_det: Float[Array, " m"]
    """ln det M / 2, M = I + C'VC / sigma^2."""
    misfit: Float[Array, " m"]
    """rss / sigma^2 + q = (y - A theta_0)' (sigma^2 I + A Sigma_0 A')^-1 (y - A theta_0)."""


def solve(
    factor: Float[Array, "m p p"],
    theta_0: Float[Array, "m d"],
    root: Float[Array, "m d d"],
    sigma: float,
) -> Solution:
    """Condition components N(theta_0, C C') on histories  [paper: Eq. 4].

    The paper's posterior is ``Sigma_t = (Sigma_0^-1 + V / sigma^2)^-1`` with the mean
    ``Sigma_t (Sigma_0^-1 theta_0 + B / sigma^2)``, where V = A'A = R'R and B = A'y = R'z. To keep
    all digits, and to allow singular covariances, the code avoids sums and inverses: the QR
    factorisation of::

        [[I, 0], [R C / sigma, (z - R theta_0) / sigma]]

    is a triangle [[T, g], [0, sqrt(q)]] with T'T = M = I + C'VC / sigma^2. Then
    ``Sigma_t = C M^-1 C'`` has the root ``C T^-1``, and the mean is ``theta_0 + C T^-1 g``.

    Parameters
    ----------
    factor
        Triangle [[R, z], [0, sqrt(rss)]] of each history.
    theta_0, root
        Prior mean and a root C of the prior covariance.
    sigma
        Standard deviation of the noise.

    Returns
    -------
    Solution
        The posteriors.
    """
    m, d = theta_0.shape
    r, z = factor[:, :d, :d], factor[:, :d, d]
    rest = factor[:, d, d] / sigma
    stacked = np.zeros((m, 2 * d, d + 1))
    stacked[:, :d, :d] = np.eye(d)
    stacked[:, d:, :d] = r @ root / sigma
    stacked[:, d:, d] = (z - (r @ theta_0[..., None])[..., 0]) / sigma
    both = np.asarray(np.linalg.qr(stacked, mode="r"))
    t, g, q = both[:, :d, :d], both[:, :d, d:], both[:, d, d] ** 2
    # C T^-1 is the transpose of the solution of T'X = C'.
    after = np.swapaxes(np.linalg.solve(np.swapaxes(t, 1, 2), np.swapaxes(root, 1, 2)), 1, 2)
    half_log_det = np.log(np.abs(np.diagonal(t, axis1=1, axis2=2))).sum(axis=1)
    return Solution(theta_0 + (after @ g)[..., 0], after, half_log_det, rest**2 + q)


_NUMBERS_AT_ONCE = 1 << 22
"""Numbers in the largest array of one pass over pairs of tasks and components."""


def _parts(n: int, size: int) -> Iterator[slice]:
    """Yield slices of n rows of this size that fit into one pass."""
    step = max(1, _NUMBERS_AT_ONCE // size)
    for start in range(0, n, step):
        yield slice(start, start + step)


class LinearPosterior(Posterior):
    """Posteriors of every component for each task, computed from the statistics when read."""

    prior: LinearFamily

    def __init__(
        self,
        prior: LinearFamily,
        statistics: Statistics,
        log_weights: Float[Array, " L"],
        *,
        allow_dormant: bool = True,
    ) -> None:
        super().__init__(prior, statistics, log_weights, allow_dormant=allow_dormant)
        self._log_weights = log_weights
        n, n_components = len(statistics), prior.n_components
        self._evidence, self._misfit = np.zeros((n, n_components)), np.zeros((n, n_components))
        self._is_stale = statistics.array("count") > 0

    def _solve(self, tasks: Int[Array, " m"], latent: Int[Array, " m"]) -> Solution:
        """Condition pairs of a task and a component."""
        factor, family = self.statistics.array("factor"), self.prior
        roots = family.roots.matrices()[family.roots.group_of[latent]]
        return solve(factor[tasks], family.mean[latent], roots, family.unit_noise)

    # -- evidence and updates -------------------------------------------------------------------

    def _evaluate(self) -> None:
        """Compute the evidence of tasks that have learned since it was last read."""
        stale, n = np.flatnonzero(self._is_stale), self.prior.n_components
        self._is_stale[stale] = False
        tasks, latent = np.repeat(stale, n), np.tile(np.arange(n), len(stale))
        for part in _parts(len(tasks), 2 * (self.prior.n_features + 1) ** 2):
            found, own = self._solve(tasks[part], latent[part]), (tasks[part], latent[part])
            self._misfit[own] = found.misfit
            count = self.statistics.array("count")[tasks[part]]
            density = self.prior.log_density(latent[part], count, found.misfit)
            self._evidence[own] = density - found.half_log_det

    @property
    def relative_evidence(self) -> Float[Array, "n L"]:  # type: ignore[override]
        """log p(history | s).

        With known noise it is as follows, see ``solve``::

            -n/2 ln(2 pi sigma^2) - ln det M / 2 - (rss / sigma^2 + q) / 2
        """
        self._evaluate()
        return self._evidence

    def log_evidence(self) -> Float[Array, "n L"]:
        """Return log p(history | s) = log_density - ln det M / 2."""
        return self.relative_evidence.copy()

    def misfit(self, tasks: Array, latent: Array) -> Array:
        """Return ``Solution.misfit`` for tasks and components, which broadcast."""
        self._evaluate()
        return np.asarray(self._misfit[tasks, latent])

    def update(self, tasks: Int[Array, " m"], observed: tuple[Array, ...]) -> None:
        """Add observations to the statistics, all or none."""
        self.statistics.observe(tasks, observed)
        self._is_stale[tasks] = True

    def add_tasks(self, n: int) -> None:
        """Append tasks with no history."""
        self.statistics = self.statistics.extend(n)
        self._evidence = np.pad(self._evidence, ((0, n), (0, 0)))
        self._misfit = np.pad(self._misfit, ((0, n), (0, 0)))
        self._is_stale = np.pad(self._is_stale, (0, n))

    # -- parameters -----------------------------------------------------------------------------

    def sample(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], latent: Int[Array, " m"]
    ) -> Float[Array, "m p"]:
        """Draw theta ~ N(mean, covariance) of the component of each task."""
        return self._place(tasks, latent, rng.standard_normal((len(tasks), self.prior.n_features)))

    def _place(
        self, tasks: Int[Array, " m"], latent: Int[Array, " m"], x: Float[Array, "m d"]
    ) -> Float[Array, "m d"]:
        """Turn standard normals into parameters, ``mean + root x``."""
        n, theta = self.prior.n_components, np.empty_like(x)
        pairs, place = np.unique(tasks * n + latent, return_inverse=True)
        order = np.argsort(place, kind="stable")
        for part in _parts(len(order), 2 * (x.shape[1] + 1) ** 2):
            rows = order[part]
            own, where = np.unique(place[rows], return_inverse=True)
            found = self._solve(*np.divmod(pairs[own], n))
            theta[rows] = found.mean[where] + (found.root[where] @ x[rows, :, None])[..., 0]
        return theta

    def _every(self, tasks: Int[Array, " m"]) -> tuple[Float[Array, "m L d"], Array]:
        """Return means (m, L, d) and roots (m, L, d, d) of every component."""
        n, d = self.prior.n_components, self.prior.n_features
        found = self._solve(np.repeat(tasks, n), np.tile(np.arange(n), len(tasks)))
        return found.mean.reshape(-1, n, d), found.root.reshape(-1, n, d, d)

    def _means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L d"]:
        """Return E[theta | history, s]."""
        return self._every(tasks)[0]

    def component_means(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p"]:
        """Return E[theta | history, s]."""
        return self._means(tasks)

    def component_covariances(self, tasks: Int[Array, " m"]) -> Float[Array, "m L p p"]:
        """Return Cov[theta | history, s]."""
        root = self._every(tasks)[1]
        return root @ np.swapaxes(root, 2, 3)

    def component_roots(self, tasks: Int[Array, " m"]) -> Float[Array, "m L d d"]:
        """Return C_t', C_t C_t' = Cov[theta | history, s]; for ``LinearStudent`` Cov / sigma^2."""
        return np.swapaxes(self._every(tasks)[1], 2, 3)

    def family(self, task: int) -> LinearFamily:
        """Return the posterior of one task as a prior."""
        mean, root = (part[0] for part in self._every(np.array([task])))
        covariance = root @ np.swapaxes(root, 1, 2)
        covariance = (covariance + np.swapaxes(covariance, 1, 2)) / 2
        return self.prior.with_moments(mean, covariance)

    # -- mean rewards of actions ----------------------------------------------------------------

    def action_moments(self, tasks: Int[Array, " m"], actions: Array) -> Float[Array, "2 m L K"]:
        """Return mean a'mean and variance |root'a|^2 of a'theta.

        ``actions`` is one set (K, d) for all, or one for each decision, (m, K, d).
        """
        mean, root = self._every(tasks)
        sets = actions if actions.ndim == 2 else actions[:, None]
        return np.stack([(sets @ mean[..., None])[..., 0], ((sets @ root) ** 2).sum(axis=3)])

    def action_means(self, tasks: Int[Array, " m"], actions: Array) -> Float[Array, "m L K"]:
        """Return the mean of a'theta for all actions."""
        return np.asarray(self.action_moments(tasks, actions)[0])

    def best_in_draws(
        self,
        rng: np.random.Generator,
        tasks: Int[Array, " m"],
        weights: Float[Array, "m L"],
        actions: Array,
        mask: Bool[Array, "m K"],
        n_samples: int,
    ) -> Float[Array, "3 m K"]:
        """Estimate P(action is best), the variance of that estimate, and regrets, without bias.

        The regret is E[max_b X_b] - E[X_a], X_a = a'theta. Only E[max_b X_b - X_lead] is sampled,
        where lead is the action of the highest mean: the other differences come from exact means.

        Components are summed exactly, and parameters are sampled. Component s gets
        ``2 + n_samples w_s / 2`` pairs of samples, a number fixed by the history, so that the
        estimate ``sum_s w_s (mean over s's samples)`` has the right expectation. The samples of a
        pair lie opposite each other about the mean, which mostly makes the error smaller.
        """
        most = MOST_PRODUCTS // (100 + actions.shape[-2] * actions.shape[-1])
        if n_samples > most:
            raise ParameterError(
                f"n_samples must be at most {most} for sets of {actions.shape[-2]} actions with "
                f"{actions.shape[-1]} features, got {n_samples}: its decisions would take too long"
            )
        pairs = 2 + (n_samples / 2 * weights).astype(np.int64)
        pairs[(weights <= 0) | np.isneginf(self.relative_evidence[tasks])] = 0
        sets = actions[None] if actions.ndim == 2 else actions
        with np.errstate(invalid="ignore"):
            found, bad = self._vote(rng, tasks, weights, pairs, sets, mask)
        if bad >= 0:
            raise ActionError(f"the actions of decision {bad} must have finite features")
        return found

    def _vote(
        self, rng: np.random.Generator, tasks: Int[Array, " m"], weights: Float[Array, "m L"],
        pairs: Int[Array, "m L"], sets: Array, mask: Bool[Array, "m K"],
    ) -> tuple[Float[Array, "3 m K"], int]:  # fmt: skip
        """Return the estimates of ``best_in_draws``, and a decision with bad scores, or -1."""
        found = np.zeros((3, *mask.shape))
        for i, task in enumerate(tasks):
            rows = sets[i % len(sets)][mask[i]]
            means, roots = (part[0] for part in self._every(np.array([task])))
            used = pairs[i] > 0
            mixture = np.einsum("kd,d->k", rows, (weights[i] * used) @ means)
            lead, gain, vote, variance = mixture.argmax(), 0.0, 0.0, 0.0
            for s in self.prior.roots.members[used[self.prior.roots.members]]:
                n, w = pairs[i, s], weights[i, s]
                x = self._draw_steps(rng, int(task), int(s), int(n))
                # einsum gives equal rows equal bits, so that they tie; BLAS does not.
                center = np.einsum("kd,d->k", rows, means[s])
                step = np.einsum("nd,kd->nk", x, np.einsum("kd,de->ke", rows, roots[s]))
                both = np.stack([center + step, center - step])
                top = both.max(axis=2, keepdims=True)
                is_best = both == top
                votes = (is_best / np.maximum(is_best.sum(axis=2, keepdims=True), 1)).mean(axis=0)
                vote = vote + w * votes.mean(axis=0)
                variance = variance + w**2 * votes.var(axis=0) / (n - 1)
                gain += w * float((top[..., 0] - both[:, :, lead]).mean())
            if not math.isfinite(gain + mixture.sum()):
                return found, i
            found[:, i, mask[i]] = vote, variance, gain + (mixture[lead] - mixture)
        return found, -1

    def _draw_steps(
        self, rng: np.random.Generator, task: int, s: int, n: int
    ) -> Float[Array, "n d"]:
        """Draw n vectors x; parameters are ``mean + root x``."""
        return rng.standard_normal((n, self.prior.n_features))

    def rewards(
        self,
        tasks: Int[Array, " m"],
        weights: Float[Array, "m L"],
        actions: Array | None,
        waiting: Waiting | None = None,
    ) -> RewardBelief:
        """Return the belief about a'theta of the offered actions."""
        assert actions is not None
        if waiting is None or not np.isin(waiting.tasks, tasks).any():
            return self._rewards(tasks, weights, actions)
        distinct, rows = np.unique(tasks, return_inverse=True)
        place, features = waiting.among(distinct)
        first = np.unique(rows, return_index=True)[1]
        theta = np.einsum("ml,mld->md", weights[first], self._means(distinct))
        statistics = self.statistics[distinct]
        self._expect(statistics, place, (features, (features * theta[place]).sum(axis=1)))
        after = self.prior.posterior(statistics, self._log_weights)
        before = self.relative_evidence[distinct][rows]
        weights = reweighed(weights, after.relative_evidence[rows], before)
        belief: RewardBelief = after._rewards(rows, weights, actions)
        return belief

    def _rewards(
        self, tasks: Int[Array, " m"], weights: Float[Array, "m L"], actions: Array
    ) -> RewardBelief:
        return LinearRewards(self, tasks, weights, actions)

    def _expect(
        self, statistics: Statistics, tasks: Int[Array, " w"], observed: tuple[Array, ...]
    ) -> None:
        """Count rewards that are expected, but have not come."""
        statistics.observe(tasks, observed)


# -- the families ---------------------------------------------------------------------------------


class LinearFamily(CoefficientFamily):
    """Rewards a'theta + noise, with a location and a covariance of theta for L components."""

    statistics_type: ClassVar[type[Statistics]] = LinearStatistics
    posterior_type: ClassVar[type[Posterior]] = LinearPosterior
    unit_noise: float
    """The sigma of ``solve``: the noise, or 1 if it is unknown (the roots are then those of
    covariance / noise_std^2)."""
    noise_prior: tuple[Array, Array] = (np.empty(0), np.empty(0))
    """Degrees of freedom and unit of an unknown noise variance; empty: the noise is known."""

    @abstractmethod
    def log_density(
        self, latent: Int[Array, " m"], count: Int[Array, " m"], misfit: Float[Array, " m"]
    ) -> Float[Array, " m"]:
        """Return the log density of histories under components, without ln det M / 2.

        Parameters
        ----------
        latent
            Component of each history.
        count
            Number of rewards of each history.
        misfit
            ``Solution.misfit`` of each history.

        Returns
        -------
        array
            Log densities, (m,).
        """

    def posterior(
        self, statistics: Statistics, log_weights: Float[Array, " L"], *, allow_dormant: bool = True
    ) -> Any:
        if _program.core is None:
            return super().posterior(statistics, log_weights, allow_dormant=allow_dormant)
        from mixts.families._core_linear import CORE_POSTERIORS

        self.check_statistics(statistics)
        kind = CORE_POSTERIORS[self.posterior_type]
        return kind(self, statistics, log_weights, allow_dormant=allow_dormant)

    @property
    def task_bytes(self) -> int:
        """Memory for the roots and means of one task, in bytes."""
        n_groups, d = len(self.roots.values), self.n_features
        # The core has four roots side by side, unless there are fewer.
        lanes = n_groups if n_groups < 4 else -(-n_groups // 4) * 4
        per_lane, per_component = d * (d + 1) // 2 + d + 4, 2 * d + 4
        return 8 * (lanes * per_lane + self.n_components * per_component + d)

    def _reward_moments(self, statistics: Statistics, actions: Array) -> tuple[Array, Array]:
        every = np.arange(len(statistics))
        uniform = np.full(self.n_components, -np.log(self.n_components))
        posterior = self.posterior(statistics, uniform)
        d = self.n_features
        mean = actions @ np.swapaxes(posterior.component_means(every)[..., :d], 1, 2)
        # One product for each task and component: (n, 1, m, d) with (n, L, d, d).
        product = actions[:, None] @ posterior.component_covariances(every)[..., :d, :d]
        variance = (product * actions[:, None]).sum(axis=3)
        # Rounding may leave the variance of an exactly known direction below zero.
        return mean, np.swapaxes(np.maximum(variance, 0), 1, 2)

    def mean_rewards(
        self, parameters: Float[Array, "... p"], actions: Array | None = None
    ) -> Float[Array, "... K"]:
        """Return a'theta for every action; ``actions`` is one set (K, d), or one for each theta."""
        return self.products(parameters, actions)


class LinearGaussian(LinearFamily):
    """Family of linear rewards with Gaussian noise and Gaussian coefficients, for L components.

    A reward of features a is a'theta + N(0, sigma^2), where sigma is ``noise_std``, with
    theta ~ N(mean, covariance)  [paper: Sec. 4.2]. Let C C' be the covariance. With n rewards y of
    the feature rows A, these are for a task and a component:

    *Log evidence*::

        -n/2 ln(2 pi sigma^2) - ln det M / 2 - S / 2

        M = I + C'A'A C / sigma^2
        S = least of |y - A (mean + C x)|^2 / sigma^2 + |x|^2 over all x

    *Posterior of theta*: normal with the mean m and covariance, which ``linear.solve`` computes::

        m = mean + C M^-1 C'A'(y - A mean) / sigma^2
        C M^-1 C'

    They are the paper's theta_t and Sigma_t (Eq. 4), also where the covariance is singular.

    *Mean reward a'theta*: normal with mean a'm and variance ``a'C M^-1 C'a``.

    Parameters
    ----------
    mean
        Prior means, (L, d).
    covariance
        Prior covariances: (L, d, d) for the type "full", (d, d) for "tied", or variances, (L, d)
        for "diag" and (L,) for "spherical". A singular covariance is allowed: the component knows
        some direction of theta exactly.
    noise_std
        Standard deviation of the noise.
    covariance_type
        Form of ``covariance``.

    Examples
    --------
    >>> import mixts
    >>> family = mixts.LinearGaussian(
    ...     [[1.0, 0.0], [0.0, 1.0]], [0.1, 0.1], noise_std=0.5, covariance_type="spherical"
    ... )
    >>> belief = mixts.MixturePrior(family).belief()
    >>> belief.update([[0.9, 0.1], [0.2, 0.8]], [1.1, 0.3])
    >>> belief.weights.round(3)
    array([0.877, 0.123])
    """

    kind: ClassVar[str] = "linear-gaussian"

    def __init__(
        self,
        mean: ArrayLike,
        covariance: ArrayLike,
        noise_std: float,
        covariance_type: CovarianceType = "full",
    ) -> None:
        self._set_moments(mean, covariance, covariance_type)
        self.noise_std: float = _checks.positive_number(noise_std, "noise_std")

    def with_moments(
        self, mean: ArrayLike, covariance: ArrayLike, covariance_type: CovarianceType = "full"
    ) -> Self:
        return type(self)(mean, covariance, self.noise_std, covariance_type)

    @classmethod
    def standard(cls, n_features: int, noise_std: float) -> Self:
        """Return one component N(0, I), the uninformative prior of TS  [paper: Sec. 6.2].

        Parameters
        ----------
        n_features
            Dimension d of theta.
        noise_std
            Standard deviation of the noise.

        Returns
        -------
        LinearGaussian
            A family of one component.
        """
        d = _checks.count(n_features, "n_features")
        return cls(np.zeros((1, d)), np.ones(1), noise_std, covariance_type="spherical")

    def __repr__(self) -> str:
        return (
            f"LinearGaussian({self.n_components} components, {self.n_features} features, "
            f"noise_std={self.noise_std!r}, covariance_type={self.covariance_type!r})"
        )

    def settings(self) -> dict[str, Any]:
        return {"noise_std": self.noise_std, "covariance_type": self.covariance_type}

    def learning_settings(self) -> dict[str, Any]:
        return {"noise_std": self.noise_std, **super().learning_settings()}

    @property
    def unit_noise(self) -> float:  # type: ignore[override]
        """Noise of rewards, ``noise_std``."""
        return self.noise_std

    @property
    def max_prior_variance(self) -> float:
        """Largest eigenvalue of any component's covariance, lambda_0,max  [paper: Thm 1]."""
        if self.covariance_type in ("full", "tied"):
            d = self.n_features
            return float(np.linalg.eigvalsh(self.covariance.reshape(-1, d, d)).max())
        return float(self.covariance.max())

    def to_linear(self) -> LinearGaussian:
        """Return this family."""
        return self

    def log_density(
        self, latent: Int[Array, " m"], count: Int[Array, " m"], misfit: Float[Array, " m"]
    ) -> Float[Array, " m"]:
        """Return -n/2 ln(2 pi sigma^2) - misfit / 2."""
        constant = LOG_2PI + 2 * math.log(self.noise_std)
        return np.asarray(-0.5 * (count * constant + misfit))

    def outcomes(self, rng: np.random.Generator, means: Float[Array, " n"]) -> Float[Array, " n"]:
        return means + self.noise_std * rng.standard_normal(means.shape)
