"""The options of learning: one record, checked once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, Self, get_args

from mixts import _checks
from mixts._typing import ArrayLike
from mixts.errors import ParameterError
from mixts.families.linear import CovarianceType

Method = Literal["evidence", "two-stage"]
Noise = Literal["common", "per-task"]
"""Whether all tasks have the same noise, or each its own."""
NoiseRule = Literal["common", "per-task", "auto"]
"""One noise for all tasks, a noise of each task, or whichever predicts better."""
Rule = Literal["stack", "best", "one-standard-error"]
"""What becomes of mixtures with different numbers of components: join those that predict best
together, or take the one that predicts best, or the smallest within one standard error of it."""

_OF_MODELS = ("noise_std", "noise", "covariance_type", "horizon", "initial", "support", "offset")


@dataclass(frozen=True, kw_only=True)
class LearningOptions:
    """How a prior is learned; the keyword arguments of :func:`mixts.learn_prior`.

    Attributes
    ----------
    method
        "evidence" maximises ``sum over tasks of ln sum_s w_s p(task | s)``, the exact marginal
        likelihood, with a weak hyperprior; every task counts by how much was observed of it. For
        clicks with features the likelihood is that of the family, known to its own small error.
        "two-stage" is the paper's method: a point estimate of each task, then a mixture of the
        estimates; with "auto" it uses the number of components that the evidence selects.
    noise_std
        Noise of Gaussian rewards; learned unless given.
    noise
        For Gaussian and linear rewards: "common" if all tasks have the same noise, or "per-task"
        if each has its own. With "per-task" the prior is of :class:`mixts.StudentArms` or
        :class:`mixts.LinearStudent`, with between 2.1 and 10,000 degrees of freedom.
    covariance_type
        For tasks with features: "full" (the default), "tied" or "diag".
    horizon, initial, support
        For MDPs: the length of an episode (required), the distribution of the first state, and
        which transitions are possible, boolean (X, A, X). Learned counts are exactly zero only
        where ``support`` is false.
    offset
        For tasks with features: whether the last number of a row is an offset, whose coefficient is
        1 in every task, such as the log odds of another model. The learned prior says so: that
        coefficient has the mean 1 and no variance.
    n_restarts
        For "evidence": number of starts; None: 5 on all tasks, 2 on all but those of one fold.
    max_iterations, tolerance
        For "evidence": largest number of iterations of each restart, and the improvement of the
        objective per task below which it stops.
    select
        For "auto": "stack" joins the mixtures that together predict held-out tasks best, with the
        weights that do; "best" takes the one that predicts best; "one-standard-error" takes the
        smallest that is within one standard error of the best.
    max_components, n_folds
        For "auto": largest number of components that is compared, and number of folds of the
        cross-validation.
    robust
        Weight of an additional broad component for tasks unlike any seen, see
        :func:`mixts.learning.robust_prior`; 0 adds none.
    """

    method: Method = "evidence"
    noise_std: float | None = None
    noise: NoiseRule = "common"
    covariance_type: CovarianceType | None = None
    horizon: int | None = None
    initial: ArrayLike | None = None
    support: ArrayLike | None = None
    offset: bool = False
    n_restarts: int | None = None
    max_iterations: int = 1000
    tolerance: float = 1e-5
    select: Rule = "stack"
    max_components: int = 10
    n_folds: int = 5
    robust: float = 0.0

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Return the record of keyword arguments; raise ``TypeError`` for one that is no option."""
        _checks.known_options(given, (each.name for each in fields(cls)))
        return cls(**given)

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise ParameterError(f"method must be one of {get_args(Method)}, got {self.method!r}")
        if self.select not in get_args(Rule):
            raise ParameterError(f"select must be one of {get_args(Rule)}, got {self.select!r}")
        if self.n_restarts is not None:
            _checks.count(self.n_restarts, "n_restarts")
        _checks.count(self.max_iterations, "max_iterations")
        _checks.positive_number(self.tolerance, "tolerance")
        _checks.count(self.max_components, "max_components")
        _checks.count(self.n_folds, "n_folds", least=2)
        if not 0 <= self.robust < 1:
            raise ParameterError(f"robust must be a weight from 0 to below 1, got {self.robust!r}")

    @property
    def of_model(self) -> dict[str, Any]:
        """Options of the tasks' model, see ``mixts.learning.models.model_of``."""
        return {name: getattr(self, name) for name in _OF_MODELS}
