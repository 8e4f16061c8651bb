"""One model a family: its tasks, seen from the prior that is to be learned from them."""

from __future__ import annotations

from typing import Any

from mixts.errors import ParameterError
from mixts.families import Statistics
from mixts.learning.models.base import MODELS, Model, MomentModel
from mixts.learning.models.counts import BernoulliModel, TabularModel
from mixts.learning.models.gaussian import GaussianModel
from mixts.learning.models.linear import LinearModel
from mixts.learning.models.poisson import PoissonModel

__all__ = [
    "BernoulliModel",
    "GaussianModel",
    "LinearModel",
    "Model",
    "MomentModel",
    "PoissonModel",
    "TabularModel",
    "model_of",
]


def model_of(statistics: Statistics, **options: Any) -> Model:
    """The model of these tasks; an option that their family does not have is refused.

    An option that is None was not given.
    """
    kind = MODELS.get(type(statistics))
    if kind is None:
        raise ParameterError(f"no prior can be learned from {statistics!r}")
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in kind.options:
            raise ParameterError(f"{name} has no meaning for {statistics!r}: leave it out")
    return kind(statistics, **given)
