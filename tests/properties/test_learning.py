"""Whatever the tasks and wherever it starts: the penalised evidence never falls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mixts
from mixts.learning.climbing import Patience, climb
from mixts.learning.models import model_of
from tests.oracles.learning_references import (
    COVARIANCE_TYPES,
    HORIZON,
    KINDS,
    MDPS,
    SUPPORT,
    case_of,
)

pytestmark = pytest.mark.usefixtures("program")


def bad_start(kind: str, rng: np.random.Generator, n: int) -> Any:
    """Components that have nothing to do with the tasks: sure or vague, near or far."""

    def positive(*shape: int) -> Any:
        return 10 ** rng.uniform(-2, 3, (n, *shape))

    if kind in MDPS:
        counts = positive(3, 2, 3)
        possible = SUPPORT if kind == "support" else np.ones_like(SUPPORT)
        return mixts.TabularMDP(
            positive(3, 2, 2), np.where(possible, counts, 0.0), HORIZON, np.full(3, 1 / 3)
        )
    if kind == "bernoulli":
        return mixts.BernoulliArms(positive(3), positive(3))
    if kind == "poisson":
        return mixts.PoissonArms(positive(3), positive(3))
    noise = float(10 ** rng.uniform(-1, 1))
    if kind == "gaussian":
        return mixts.GaussianArms(5 * rng.normal(size=(n, 3)), positive(3), noise)
    covariance = {
        "full": lambda: np.array([np.diag(row) for row in positive(2)]),
        "tied": lambda: np.diag(positive(2)[0]),
        "diag": lambda: positive(2),
    }[kind]()
    return mixts.LinearGaussian(5 * rng.normal(size=(n, 2)), covariance, noise, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4)
@given(
    seed=st.integers(0, 10**6),
    lengths=st.lists(st.sampled_from([1, 1, 2, 3, 8, 60]), min_size=1, max_size=8),
    n_components=st.integers(1, 3),
    noise_is_given=st.booleans(),
)
def test_the_objective_never_falls(
    kind: str, seed: int, lengths: list[int], n_components: int, noise_is_given: bool
) -> None:
    """Sums of some hundred terms, each exact but for the last digits of what it is made of.

    Logarithms of gamma functions of counts up to 1e4 are of size 1e5, so that the bound is 1e-16
    times 1e5 for each term, and the same relative to what the sum itself is.
    """
    rng = np.random.default_rng(seed)
    case = case_of(kind, n_tasks=len(lengths), lengths=lengths, seed=seed)
    gaussian = kind == "gaussian" or kind in COVARIANCE_TYPES
    noise = {"noise_std": 0.5} if gaussian and noise_is_given else {}
    start = bad_start(kind, rng, n_components)
    if noise:
        start = type(start).restore({**start.settings(), "noise_std": 0.5}, start.arrays())
    model = model_of(case.statistics, **case.options, **noise)
    weights = rng.dirichlet(np.full(n_components, 0.3)) + 1e-9
    history = climb(model, start, weights / weights.sum(), Patience(30, 1e-9)).history
    objective = history.objective
    assert np.isfinite(objective).all()
    slack = 1e-9 + 1e-12 * np.abs([history.log_evidence, history.log_hyperprior]).max()
    assert np.diff(objective).min(initial=0.0) >= -slack
