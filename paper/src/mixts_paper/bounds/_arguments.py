"""Checks of the arguments of bounds, and the parts of a bound."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from mixts.errors import ParameterError, WeightsError
from mixts.extend import Array, ArrayLike, Float, checks

Form = Literal["statement", "appendix"]
"""Version of a bound: that of the theorem's statement, or that of the end of its proof."""


class BoundTerms(NamedTuple):
    """Parts of a regret bound: numbers, or arrays if n is an array.

    Attributes
    ----------
    c1 : float or array
        Factor by which a tight prior helps; it is part of ``learning``, not added.
    learning : float or array
        Regret of learning the parameters if the latent state were known (Term 1).
    identification : float or array
        Regret of identifying the latent state (Term 2).
    constant : float or array
        The rest, poly-logarithmic in n; 0 in the statements, which do not specify their c_2.

    Examples
    --------
    >>> from mixts_paper import bounds
    >>> terms = bounds.theorem1_terms(1000, 2, 5, noise_std=0.5, kappa=1, max_prior_variance=0.1)
    >>> round(terms.learning, 1), round(terms.identification, 1), round(terms.bound, 1)
    (1425.3, 185.8, 1611.2)
    """

    c1: Any
    learning: Any
    identification: Any
    constant: Any

    @property
    def bound(self) -> Any:
        """learning + identification + constant."""
        return self.learning + self.identification + self.constant


def rounds(n: ArrayLike) -> Float[Array, "..."]:
    """Return numbers of rounds or episodes as an array, which may have no axis."""
    expected = "n must be a number of rounds or episodes, or an array of them, at least 1"
    array = checks.numbers(n, expected, ParameterError)
    good = np.isfinite(array) & (array >= 1)
    if np.asarray(n).dtype.kind == "b" or not good.all():
        bad = n if array.ndim == 0 else array[~good][:1]
        raise ParameterError(f"{expected}, got {bad}")
    return array


def weights(value: ArrayLike) -> Float[Array, " L"]:
    """Return a latent prior: probabilities that sum to one."""
    array = checks.numbers(value, "weights must be numbers", WeightsError)
    if array.ndim != 1 or not array.size:
        raise WeightsError(f"weights must have shape (L,), got {array.shape}")
    return checks.weight_vector(array, len(array))


def at_least_zero(value: Any, name: str) -> float:
    """Return a finite number, at least 0."""
    array = checks.numbers(value, f"{name} must be a number", ParameterError)
    if array.ndim != 0 or not 0 <= array < np.inf:
        raise ParameterError(f"{name} must be a finite number, at least 0, got {value!r}")
    return float(array)


def as_given(terms: BoundTerms) -> BoundTerms:
    """Return plain numbers if n was a number."""
    return BoundTerms(*map(plain, terms))


def plain(value: Any) -> Any:
    """Return a plain number for an array without axes."""
    return float(value) if np.ndim(value) == 0 else value


def form(value: Any) -> Form:
    """Return the form, or raise ``ParameterError``."""
    if value not in get_args(Form):
        raise ParameterError(f'form must be "statement" or "appendix", got {value!r}')
    return value
