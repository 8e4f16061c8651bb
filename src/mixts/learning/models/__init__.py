"""One model a family: its tasks, seen from the prior that is to be learned from them."""

from __future__ import annotations

from mixts.errors import ParameterError
from mixts.families import (
    BernoulliStatistics,
    GaussianStatistics,
    LinearStatistics,
    PoissonStatistics,
    Statistics,
    TabularStatistics,
)
from mixts.families.linear import CovarianceType
from mixts.learning.models.base import Model
from mixts.learning.models.counts import BernoulliModel, TabularModel
from mixts.learning.models.gaussian import GaussianModel
from mixts.learning.models.linear import LinearModel
from mixts.learning.models.poisson import PoissonModel
from mixts.typing import ArrayLike

__all__ = ["Model", "model_of"]


def model_of(
    statistics: Statistics,
    *,
    noise_std: float | None = None,
    covariance_type: CovarianceType = "full",
    horizon: int | None = None,
    initial: ArrayLike | None = None,
    support: ArrayLike | None = None,
) -> Model:
    """The model of these tasks; an option that their family does not have is refused."""
    linear = isinstance(statistics, LinearStatistics)
    noisy = linear or isinstance(statistics, GaussianStatistics)
    plans = isinstance(statistics, TabularStatistics)
    _refuse("noise_std", noise_std is not None and not noisy, statistics)
    _refuse("covariance_type", covariance_type != "full" and not linear, statistics)
    for name, given in {"horizon": horizon, "initial": initial, "support": support}.items():
        _refuse(name, given is not None and not plans, statistics)
    if isinstance(statistics, LinearStatistics):
        return LinearModel(statistics, noise_std, covariance_type)
    if isinstance(statistics, GaussianStatistics):
        return GaussianModel(statistics, noise_std)
    if isinstance(statistics, BernoulliStatistics):
        return BernoulliModel(statistics)
    if isinstance(statistics, PoissonStatistics):
        return PoissonModel(statistics)
    if isinstance(statistics, TabularStatistics):
        return TabularModel(statistics, horizon, initial, support)
    raise ParameterError(f"no prior can be learned from {statistics!r}")


def _refuse(option: str, wrong: bool, statistics: Statistics) -> None:
    if wrong:
        raise ParameterError(f"{option} has no meaning for {statistics!r}: leave it out")
