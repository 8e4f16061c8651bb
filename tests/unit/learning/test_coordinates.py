"""Learning does not depend on the units of features, nor on where they begin."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.learning.histories import mapped, moments, scaling, unmapped
from mixts.logs import read_logs
from mixts.logs.fit import fit_logs


def write(path: Path, change: Any) -> Path:
    rng = np.random.default_rng(0)
    means = np.array([[1.0, -0.5, 0.3], [0.0, 0.8, -0.4]])
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["task", "a", "b", "reward"])
        for i in range(60):
            theta = means[i % 2] + 0.1 * rng.standard_normal(3)
            for _ in range(12):
                a, b = rng.standard_normal(2)
                reward = theta @ [1, a, b] + 0.3 * rng.standard_normal()
                out.writerow([i, *map(repr, map(float, change(a, b))), reward])
    return path


COLUMNS = {"task": "task", "features": ["a", "b"], "reward": "reward", "intercept": True}


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_units_and_origins_do_not_matter(tmp_path: Path, covariance: Any) -> None:
    """A feature such as a time in seconds, which is never near 0, is learned as any other."""
    found = []
    for name, change in {
        "near": lambda a, b: (a, b),
        "far": lambda a, b: (1.7e9 + 1e5 * a, 1e-4 * (b + 30)),
    }.items():
        path = write(tmp_path / f"{name}.csv", change)
        fit = fit_logs(path, COLUMNS, n_components=2, covariance_type=covariance, seed=1)
        found.append((fit, change))
    (near, _), (far, change) = found
    assert near.check is not None
    assert far.check is not None
    for name in near.check.evidence.log_evidence:
        one, other = (fit.check.evidence.log_evidence[name] for fit in (near, far))
        np.testing.assert_allclose(one, other, rtol=1e-4)
    offer = [(0.3, -1.0), (2.0, 0.5)]
    rewards = [
        fit.prior.belief().mean_rewards([dict(zip("ab", change(*x), strict=True)) for x in offer])
        for fit, change in found
    ]
    np.testing.assert_allclose(*rewards, rtol=1e-5)
    assert far.prior.features == mixts.Features(["a", "b"], intercept=True)
    assert near.prior.family.covariance_type == far.prior.family.covariance_type == covariance


def test_a_diagonal_covariance_stays_diagonal(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", lambda a, b: (100 * a, b))
    fit = fit_logs(path, COLUMNS, n_components=2, covariance_type="diag", seed=1)
    assert fit.prior.family.covariance_type == "diag"


def test_rows_scaled_by_the_matrix_have_mean_0_and_spread_1(tmp_path: Path) -> None:
    logs = read_logs(write(tmp_path / "log.csv", lambda a, b: (3 + 5 * a, 7 * b - 40)), **COLUMNS)
    assert logs.space is not None
    matrix = scaling(logs.space, logs.statistics)
    mean, spread = moments(logs.space, mapped(logs.statistics, matrix))
    np.testing.assert_allclose(mean, 0, atol=1e-12)
    np.testing.assert_allclose(spread, [0, 1, 1], rtol=1e-10)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_a_mapped_prior_says_the_same_about_mapped_tasks(kind: Any) -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(2, 3, 3))
    full = root @ np.swapaxes(root, 1, 2)
    covariance = {"full": full, "tied": full[0], "diag": full[:, 0] ** 2, "spherical": [1.0, 2.0]}
    prior = mixts.MixturePrior(
        mixts.LinearGaussian(rng.normal(size=(2, 3)), covariance[kind], 0.5, kind), [0.3, 0.7]
    )
    rows, rewards = rng.normal(size=(8, 3)), rng.normal(size=8)
    matrix = rng.normal(size=(3, 3))
    belief = prior.belief(1)
    belief.update(rows @ matrix.T, rewards, [0] * 8)
    other = unmapped(prior, matrix).belief(1)
    other.update(rows, rewards, [0] * 8)
    np.testing.assert_allclose(belief.log_evidence, other.log_evidence, rtol=1e-10)
    moved = mapped(other.statistics, matrix)
    np.testing.assert_allclose(prior.condition(moved).log_evidence, belief.log_evidence, rtol=1e-10)


@pytest.mark.parametrize("family", ["linear", "logistic"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("value", [1.0, 2024.0, 1.7e9])
def test_a_feature_that_never_changes_does_no_harm(
    family: Any, intercept: bool, value: float, tmp_path: Path
) -> None:
    """Its coefficient and the intercept were 1e14, and cancelled each other."""
    rng = np.random.default_rng(5)
    rows = [f"{i % 12},{value!r},{'sm'[i // 12 % 2]},{rng.integers(2)}" for i in range(240)]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["task,a,size,reward", *rows]), encoding="utf-8")
    columns = {"task": "task", "reward": "reward", "intercept": intercept, "family": family}
    known, other = (
        fit_logs(log, {**columns, "features": names}, n_components=1, held_out=0, seed=1).prior
        for names in (["a", "size"], ["size"])
    )
    units = np.ones(known.family.n_features or 0)
    units[int(intercept)] = value
    assert (np.abs(known.family.mean * units) < 3).all()
    assert (np.sqrt(known.family.parameter_variances()) * units < 3).all()
    with_it = known.belief().mean_rewards([{"a": value, "size": size} for size in "sm"])
    without = other.belief().mean_rewards([{"size": size} for size in "sm"])
    np.testing.assert_allclose(with_it, without, atol=0.05)
