"""Clicks with features: rewards 0 or 1, logistic in a'theta, a Gaussian prior on theta."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from mixts import _checks
from mixts._typing import Array, ArrayLike, Float
from mixts.errors import ActionError, MixtsError, StatisticsError
from mixts.families._linear_bernoulli_posterior import (
    LinearBernoulliPosterior,
    click_tasks,
    logistic,
    task_bytes,
)
from mixts.families._logistic import Design, fixed_points, posterior_moments
from mixts.families.base import Posterior
from mixts.families.coefficients import CoefficientFamily, CovarianceType
from mixts.families.linear_bernoulli_statistics import (
    MAX_ROWS,
    LinearBernoulliStatistics,
    checked_limits,
)
from mixts.families.statistics import WORD, Statistics

LARGEST_ODDS = 1e10
"""Largest log odds under the prior: rounding moves them by 1e-6, and the evidence by as little."""


class LinearBernoulli(CoefficientFamily):
    """Family of clicks with features and Gaussian coefficients, for L components.

    Rewards are 0 or 1 with P(1 | a, theta) = 1 / (1 + exp(-a'theta)), theta ~ N(mean, covariance).
    Let theta = mean + C u, where C C' is the covariance. With k_i successes in n_i trials of the
    distinct feature rows x_i of X, the log posterior of u is, up to a constant::

        l(u) = -|u|^2 / 2 + sum_i [k_i eta_i - n_i ln(1 + exp(eta_i))]
        eta_i = x_i'theta

    *Evidence*: ``(2 pi)^(-d/2)`` times the integral of exp(l)  [paper: Alg. 1]. It comes from
    importance sampling around the mode u_0, where the click rates are p_i. Points are
    ``u_j = u_0 + T'^-1 y_j``, with y_j from a density q near N(0, I). Laplace's evidence, corrected
    by the weights w_j of the points, is::

        ln p(history) = l(u_0) - ln det T + ln mean_j w_j
        T T' = I + C'X'W X C,  W = diag n_i p_i (1 - p_i)
        w_j = exp(l(u_j) - l(u_0)) / ((2 pi)^(d/2) q(y_j))

    *Posterior*: the points ``theta_j = mean + C u_j`` with weights w_j / sum w.

    *Draws*: a point by weight, then four Metropolis moves that leave the exact posterior invariant
    (``_logistic.PointPosterior.draw``).

    *Mean reward of a*: ``sum_j w_j logistic(a'theta_j) / sum w``; variance likewise. A control
    variate makes the mean more precise (``_logistic.PointPosterior.action_moments``).

    ``_logistic`` has the steps, and the density q.

    The statistics of a task are its distinct feature rows with their numbers of trials and
    successes, so that beliefs depend on the prior and the history only. ``belief.evidence_error``
    has the standard error of the evidence, mostly below 0.01. Draws and moments of theta come from
    finitely many fixed points: variances may be off by a few per cent.

    Parameters
    ----------
    mean
        Prior means of theta, (L, d): log odds for a feature of 1.
    covariance
        Prior covariances: (L, d, d) for the type "full", (d, d) for "tied", or variances, (L, d)
        for "diag" and (L,) for "spherical". A singular covariance is allowed: the component knows
        some direction of theta exactly.
    covariance_type
        Form of ``covariance``.
    decimals
        Round features to this many decimals before counting; None: no rounding. Fewer distinct
        rows make smaller statistics and faster beliefs.
    max_rows
        Most distinct feature rows of a task. An observation beyond them is refused.

    Examples
    --------
    >>> import numpy as np
    >>> import mixts
    >>> family = mixts.LinearBernoulli([[1.0, -2.0], [-1.0, 0.5]], [0.1, 0.1], "spherical")
    >>> agent = mixts.MixTS(mixts.MixturePrior(family), seed=1)
    >>> offers = np.array([[1.0, 0.2], [1.0, 0.9]])
    >>> row = agent.act(offers)
    >>> agent.update(offers[row], 1)
    >>> agent.belief.mean_rewards(offers).shape
    (2,)
    """

    kind: ClassVar[str] = "linear-bernoulli"
    statistics_type: ClassVar[type[Statistics]] = LinearBernoulliStatistics
    posterior_type: ClassVar[type[Posterior]] = LinearBernoulliPosterior
    reward_range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    link: ClassVar[str] = "logit"

    def __init__(
        self,
        mean: ArrayLike,
        covariance: ArrayLike,
        covariance_type: CovarianceType = "full",
        *,
        decimals: int | None = None,
        max_rows: int = MAX_ROWS,
    ) -> None:
        self._set_moments(mean, covariance, covariance_type)
        self.decimals, self.max_rows = checked_limits(decimals, max_rows)

    @classmethod
    def standard(cls, n_features: int) -> Self:
        """Return one component N(0, I), an uninformative prior for features of about unit size.

        Parameters
        ----------
        n_features
            Dimension d of theta.

        Returns
        -------
        LinearBernoulli
            A family of one component.
        """
        d = _checks.count(n_features, "n_features")
        return cls(np.zeros((1, d)), np.ones(1), covariance_type="spherical")

    def with_moments(
        self, mean: ArrayLike, covariance: ArrayLike, covariance_type: CovarianceType = "full"
    ) -> Self:
        return type(self)(
            mean, covariance, covariance_type, decimals=self.decimals, max_rows=self.max_rows
        )

    def __repr__(self) -> str:
        return (
            f"LinearBernoulli({self.n_components} components, {self.n_features} features, "
            f"covariance_type={self.covariance_type!r})"
        )

    def settings(self) -> dict[str, Any]:
        limits = {"decimals": self.decimals, "max_rows": self.max_rows}
        return {"covariance_type": self.covariance_type, **limits}

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a task's table: the features, the trials and the successes."""
        return WORD * (self.n_features + 2)

    @property
    def task_bytes(self) -> int:
        """Memory for the posterior of one task, in bytes."""
        return task_bytes(self.n_components, self.n_features)

    @cached_property
    def design(self) -> Design:
        """Prior moments with dense roots, and the fixed points of integration."""
        roots = self.roots
        points = fixed_points(self.n_features)
        return Design(self.mean, roots.matrices(), roots.group_of, points)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the design, which is large and can be made again."""
        return {name: value for name, value in self.__dict__.items() if name != "design"}

    # -- limits ---------------------------------------------------------------------------------

    @cached_property
    def _coefficient_sizes(self) -> Float[Array, " d"]:
        """Mean plus deviation of each coefficient, the largest of all components."""
        return (np.abs(self.mean) + np.sqrt(self.parameter_variances())).max(axis=0)

    def check_odds(
        self, rows: Float[Array, "... d"], error: type[MixtsError] = ActionError, of: str = ""
    ) -> None:
        """Raise an error if the prior gives a row log odds that double precision cannot resolve.

        Rows that are not finite are left to other checks.

        Parameters
        ----------
        rows
            Rows of features.
        error
            Class of the error.
        of
            Words about the rows for the message.
        """
        odds = np.abs(rows) * self._coefficient_sizes
        total = odds.sum(axis=-1)
        if (np.isfinite(total) & (total > LARGEST_ODDS)).any():
            row = np.unravel_index(np.where(np.isfinite(total), total, 0.0).argmax(), total.shape)
            j = int(odds[row].argmax())
            raise error(
                f"the prior must expect log odds below {LARGEST_ODDS:g}, got {total[row]:.2g}{of}: "
                f"feature {j} is {rows[row][j]:g} and its coefficient may be "
                f"{self._coefficient_sizes[j]:.2g}; scale the feature (a time in days, not in "
                "milliseconds), or give its coefficient a smaller mean and variance"
            )

    def check_learnable(self, actions: Float[Array, "K d"]) -> None:
        """Raise ``ActionError`` if the prior gives an action log odds beyond 1e10."""
        super().check_learnable(actions)
        self.check_odds(actions)

    def check_statistics(self, statistics: Any) -> None:
        """Raise ``StatisticsError`` unless the statistics have this family's kind, shape, limits.

        Parameters
        ----------
        statistics
            The statistics.
        """
        super().check_statistics(statistics)
        self.check_odds(statistics.array("rows"), StatisticsError, " from observed features")

    # -- statistics and posteriors --------------------------------------------------------------

    def empty_statistics(self, n_tasks: int | None) -> LinearBernoulliStatistics:
        """Return the statistics of tasks without observations, with this family's limits."""
        return LinearBernoulliStatistics.empty(
            self.statistics_shape, n_tasks, decimals=self.decimals, max_rows=self.max_rows
        )

    def log_evidence(self, statistics: Statistics) -> Float[Array, "n L"]:
        """Return log p(history | s) of each task; posteriors are not kept.

        ``PointPosterior.find_modes`` has Laplace's evidence, ``integrate`` the mean weight.
        """
        self.check_statistics(statistics)
        assert isinstance(statistics, LinearBernoulliStatistics)
        return posterior_moments(self.design, click_tasks(statistics), moments=False).log_evidence

    def _reward_moments(self, statistics: Statistics, actions: Array) -> tuple[Array, Array]:
        """Return means and variances of click rates, from ``PointPosterior.action_moments``."""
        uniform = np.full(self.n_components, -np.log(self.n_components))
        posterior = self.posterior(statistics, uniform, allow_dormant=False)
        moments = posterior.action_moments(np.arange(len(statistics)), actions, every=True)
        mean, variance = np.swapaxes(moments[:2], 2, 3)
        return mean, variance

    # -- acting and simulating ------------------------------------------------------------------

    def mean_rewards(
        self, parameters: Float[Array, "... p"], actions: Array | None = None
    ) -> Float[Array, "... K"]:
        """Return the click rate 1 / (1 + exp(-a'theta)) of every action."""
        return logistic(self.products(parameters, actions))

    def outcomes(self, rng: np.random.Generator, means: Float[Array, " n"]) -> Float[Array, " n"]:
        return (rng.random(means.shape) < means).astype(float)
