"""Logistic posteriors against grids, Polya-Gamma chains and plain numpy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from mixts import _program
from mixts.families import _logistic as logistic
from tests.oracles import logistic_references as references
from tests.programs import CORE

pytestmark = pytest.mark.usefixtures("program")

KINDS = ("random", "onehot", "silent", "separable")
CASES = [
    (d, deviation, rate, n, kind)
    for d, n, kind in (
        (1, 1, "random"),
        (1, 100, "silent"),
        (1, 10_000, "random"),
        (2, 10, "random"),
        (2, 100, "separable"),
        (2, 300, "onehot"),
        (3, 30, "random"),
        (3, 10_000, "random"),
    )
    for deviation in (0.1, 1.0, 3.0, 10.0)
    for rate in ((0.02, 0.5) if d < 3 else (0.06,))
]
NODES = {1: 2001, 2: 161, 3: 61}


def one(problem: references.Problem, tolerance: float = 0.01) -> tuple[Any, Any]:
    """Return the design and the posterior of a problem's component."""
    design = references.make_design(problem.mean[None], problem.root[None])
    return design, references.condition(problem, design, tolerance)


def moment_errors(design: Any, out: Any, mean: Any, covariance: Any) -> tuple[Any, Any]:
    """Return standard errors of posterior means and variances, as if pairs were independent.

    They are the root of the sum of the squared influences of all pairs of points.
    """
    weight, known, centre, variance, y = logistic.weighted_points(out, design.points.z, 0)
    r, direction = out.rank, out.direction[0]
    first = direction[:, :r] @ y
    moved = first + (out.location[0] + direction[:, :r] @ centre - mean)[:, None]
    square = np.diag(covariance) - (direction[:, r:] ** 2).sum(axis=1)
    before = direction[:, :r] ** 2 @ variance
    influences = (
        weight * moved - known * first,
        weight * (moved**2 - square[:, None]) - known * (first**2 - before[:, None]),
    )
    half = logistic.CHUNK // 2
    errors = []
    for influence in influences:
        pairs = influence.reshape(len(mean), -1, 2, half).sum(axis=2)
        errors.append(np.sqrt((pairs**2).sum(axis=(1, 2))))
    return errors[0], errors[1]


@cache
def case(number: int) -> tuple[references.Problem, references.Reference]:
    """Return a problem, and its posterior on a grid."""
    d, deviation, rate, n, kind = CASES[number]
    rng = np.random.default_rng([7, number])
    problem = references.draw_problem(rng, d, deviation, rate, n, kind)
    return problem, references.grid(problem, NODES[d])


@pytest.fixture
def compared(program: str) -> list[tuple[Any, ...]]:
    """Errors of evidence, means and variances over the reported error, for all cases."""
    return errors_of(program)


@cache
def errors_of(program: str) -> list[tuple[Any, ...]]:
    rows = []
    for number in range(len(CASES)):
        problem, reference = case(number)
        design, out = one(problem)
        mean, covariance = references.moments(out)
        errors = moment_errors(design, out, mean, covariance)
        gaps = mean - reference.mean, np.diag(covariance - reference.covariance)
        scale = np.sqrt(np.diag(reference.covariance))
        # Grids are no reference for less; and a variance may be off by 1 % (four times this).
        sizes = 1e-6 * scale, 0.0025 * scale**2
        rows.append(
            (
                out.log_evidence[0] - reference.log_evidence,
                out.error[0],
                *(
                    (np.abs(gap) / (error + size)).max()
                    for gap, error, size in zip(gaps, errors, sizes, strict=True)
                ),
            )
        )
    return rows


def test_reported_errors_cover_the_errors_of_the_evidence(compared: Any) -> None:
    error, reported, _, _ = np.array(compared).T
    assert (reported < 0.02).mean() > 0.9
    # Three errors cover 99 %: of 56 cases two or more lie outside once in seven runs, three once
    # in 30.
    assert (np.abs(error) > 3 * reported).sum() <= 2
    assert np.all(np.abs(error) <= 5 * reported + 1e-9)
    # Reported errors that were half as large would still cover these cases on average.
    ratio = np.abs(error) / np.maximum(reported, 1e-9)
    assert 0.1 < np.sqrt((ratio**2).mean()) < 1.0


def test_moments_are_as_accurate_as_their_points(compared: Any) -> None:
    _, _, mean, variance = np.array(compared).T
    # Of 112 numbers four standard errors cover all but once in 140 runs.
    assert np.all(mean < 4)
    assert np.all(variance < 4)


@cache
def chain_of(number: int, chosen: tuple[Any, ...], n_rounds: int) -> tuple[references.Problem, Any]:
    """Return a problem, and a chain of its posterior."""
    rng = np.random.default_rng([11, number])
    problem = references.draw_problem(rng, *chosen)
    return problem, references.chain(problem, n_rounds, rng)


def check_against_chain(n_rounds: int, cases: Any) -> None:
    for number, chosen in enumerate(cases):
        problem, reference = chain_of(number, chosen, n_rounds)
        design, out = one(problem)
        mean, covariance = references.moments(out)
        error = np.hypot(out.error[0], reference.log_evidence_error)
        assert abs(out.log_evidence[0] - reference.log_evidence) < 4 * error
        own, _ = moment_errors(design, out, mean, covariance)
        gap = np.abs(mean - reference.mean)
        assert np.all(gap < 4.5 * np.hypot(own, reference.mean_error))


def test_chain_agrees_in_ten_dimensions() -> None:
    check_against_chain(4000, [(10, 1.0, 0.06, 100, "random"), (10, 0.1, 0.5, 10_000, "random")])


@pytest.mark.slow
def test_long_chains_agree_in_ten_dimensions() -> None:
    cases = [
        (10, deviation, rate, n, kind)
        for deviation in (0.1, 1.0, 3.0)
        for rate in (0.02, 0.06, 0.5)
        for n, kind in ((30, "random"), (1000, "random"), (10_000, "random"), (300, "separable"))
    ]
    check_against_chain(40_000, cases)


def test_weights_agree_with_plain_numpy() -> None:
    for number, (d, n, kind) in enumerate(
        [(1, 10, "random"), (20, 7, "random"), (20, 1000, "random"), (5, 100, "silent")]
    ):
        problem = references.draw_problem(np.random.default_rng(number), d, 1.0, 0.06, n, kind)
        design, out = one(problem)
        r, n_points = out.rank, out.n_points[0]
        centre, spread, bend, _ = out.shape[0]
        z = design.points.z[:, :n_points].copy()
        y = z.copy()
        size = np.sqrt(1 + z[:r] ** 2)
        y[:r] = centre[:r, None] + spread[:r, None] * z[:r] + bend[:r, None] * size
        # Coordinates beyond the rank do not change the weights.
        inverse = np.linalg.inv(problem.root)
        u = inverse @ (out.location[0] - problem.mean)[:, None] + (inverse @ out.direction[0] @ y)
        slope = spread[:r, None] + bend[:r, None] * z[:r] / size
        volume = np.linalg.slogdet(inverse @ out.direction[0])[1]
        expected = problem.log_density(u) + 0.5 * (z**2).sum(axis=0) + np.log(slope).sum(axis=0)
        log_mean = np.log(np.mean(np.exp(expected - expected.max()))) + expected.max() + volume
        assert out.log_evidence[0] == pytest.approx(log_mean, rel=1e-11)
        log_weight = out.log_weight[0, :n_points]
        np.testing.assert_allclose(
            log_weight - log_weight[0], expected - expected[0], atol=1e-11 * abs(log_mean) + 1e-11
        )


def test_click_rates_agree_with_grids() -> None:
    rng = np.random.default_rng(3)
    for d, n in ((1, 30), (2, 100), (3, 1), (3, 2), (3, 100)):
        problem = references.draw_problem(rng, d, 1.0, 0.06, n)
        actions = rng.standard_normal((6, d))
        _, out = one(problem, tolerance=0.003)
        found = np.empty((4, 1, 6))
        out.action_moments(actions, found)
        rate, variance, mean, spread = found[:, 0]
        top, root = references.mode(problem)
        axis = np.linspace(-9.0, 9.0, 41)
        mesh = np.array([x.ravel() for x in np.meshgrid(*[axis] * d, indexing="ij")])
        u = top[:, None] + root @ mesh
        weight = np.exp(problem.log_density(u) - problem.log_density(top[:, None]))
        weight /= weight.sum()
        eta = actions @ (problem.mean[:, None] + problem.root @ u)
        exact, deviation = expit(eta) @ weight, np.sqrt(eta**2 @ weight - (eta @ weight) ** 2)
        width = np.sqrt(expit(eta) ** 2 @ weight - exact**2)
        # Points vary by one deviation of the rate each, but for what control variates take away.
        few = 3 / np.sqrt(out.n_points[0])
        assert np.all(np.abs(rate - exact) < 0.3 * few * width)
        np.testing.assert_allclose(np.sqrt(variance), width, rtol=6 * few)
        assert np.all(np.abs(mean - eta @ weight) < 0.3 * few * deviation)
        np.testing.assert_allclose(np.sqrt(spread), deviation, rtol=few)
        mask, gain = np.array([True, True, False, True, True, True]), np.empty(1)
        out.gains(actions, mask, 1, gain)
        gaps = expit(eta[mask].max(axis=0)) - expit(eta[1])
        assert abs(gain[0] - gaps @ weight) < few * np.sqrt(gaps**2 @ weight - (gaps @ weight) ** 2)
        out.gains(actions, np.arange(6) == 1, 1, gain)
        assert gain[0] == 0.0


def test_no_history_leaves_the_prior() -> None:
    problem = references.draw_problem(np.random.default_rng(0), 4, 1.0, 0.5, 0)
    _, out = one(problem)
    assert out.log_evidence[0] == 0.0
    assert out.error[0] == 0.0
    mean, covariance = references.moments(out)
    np.testing.assert_allclose(mean, problem.mean)
    np.testing.assert_allclose(covariance, problem.root @ problem.root.T)


def test_certain_parameters_give_the_likelihood() -> None:
    problem = references.draw_problem(np.random.default_rng(0), 3, 1.0, 0.5, 100)
    problem = problem._replace(root=np.zeros((3, 3)))
    _, out = one(problem)
    eta = problem.rows @ problem.mean
    expected = problem.successes @ eta - problem.trials @ np.logaddexp(0.0, eta)
    assert out.log_evidence[0] == pytest.approx(expected, rel=1e-13)
    assert out.error[0] < 1e-7  # the root of a difference of rounded numbers
    assert references.moments(out)[1].max() < 1e-25


def test_extreme_tables_stay_finite() -> None:
    rng = np.random.default_rng(0)
    problem = references.draw_problem(rng, 3, 1.0, 0.5, 50)
    zeros = problem._replace(rows=0.0 * problem.rows)
    assert one(zeros)[1].log_evidence[0] == pytest.approx(50 * np.log(0.5), rel=1e-13)
    for scale, trials in ((1e4, 1.0), (1e4, 1e6), (1.0, 1e6), (1e-6, 1e6)):
        many = trials * problem.trials
        hard = problem._replace(
            rows=scale * problem.rows,
            trials=many,
            successes=rng.binomial(many.astype(int), 0.3) / 1.0,
        )
        _, out = one(hard)
        assert np.isfinite(out.log_evidence).all()
        assert np.isfinite(out.error).all()
        assert np.isfinite(out.direction).all()
    long = references.draw_problem(rng, 5, 1.0, 0.06, 50)
    rows = np.concatenate([long.rows] * 200)
    spread = long._replace(
        rows=rows, trials=np.tile(long.trials, 200), successes=np.tile(long.successes, 200)
    )
    merged = long._replace(trials=200 * long.trials, successes=200 * long.successes)
    assert one(spread)[1].log_evidence[0] == pytest.approx(
        one(merged)[1].log_evidence[0], rel=1e-10
    )


def test_tasks_together_are_tasks_alone() -> None:
    rng = np.random.default_rng(5)
    problems = [references.draw_problem(rng, 4, 1.0, 0.2, n) for n in (0, 3, 40, 200)]
    mean = np.stack([problems[0].mean + 0.3 * s for s in range(10)])
    root = np.stack([problem.root for problem in problems[:2]])
    design = references.make_design(mean, root)
    offsets = np.cumsum([0] + [len(problem.rows) for problem in problems])
    joint = (
        np.concatenate([getattr(problem, name) for problem in problems])
        for name in ("rows", "trials", "successes")
    )
    found = logistic.posterior_moments(design, logistic.ClickTasks(offsets, *joint))
    for i, problem in enumerate(problems):
        alone = references.condition(problem, design, logistic.TOLERANCE)
        np.testing.assert_array_equal(found.log_evidence[i], alone.log_evidence)
        np.testing.assert_array_equal(found.error[i], alone.error)
        for s in range(10):
            wanted = references.moments(alone, s)
            np.testing.assert_allclose(found.mean[i, s], wanted[0], atol=1e-12)
            np.testing.assert_allclose(found.covariance[i, s], wanted[1], atol=1e-12)


def test_starts_of_the_search_leave_modes_where_they_are() -> None:
    rng = np.random.default_rng(6)
    problem = references.draw_problem(rng, 4, 1.0, 0.2, 60)
    design = references.make_design(problem.mean + rng.normal(size=(5, 4)), problem.root[None])
    n = len(problem.rows)
    tasks = logistic.ClickTasks(np.array([0, n, n + 2]), *(
        np.concatenate([x, x[:2]]) for x in (problem.rows, problem.trials, problem.successes)
    ))  # fmt: skip
    cold = logistic.posterior_moments(design, tasks, 0)
    starts = [cold.mean, cold.mean + rng.normal(size=cold.mean.shape), 1e9 * cold.mean]
    for start in (*starts, np.full_like(cold.mean, np.nan)):
        found = logistic.posterior_moments(design, tasks, 0, start=start)
        # Steps end within 1e-4 deviations of the mode, and those of the prior are about 1.
        np.testing.assert_allclose(found.mean, cold.mean, atol=4e-4)
        np.testing.assert_allclose(found.log_evidence, cold.log_evidence, atol=4e-4)


@pytest.mark.parametrize("most_points", [0, 256])
def test_pairs_that_are_not_wanted_keep_their_means(most_points: int) -> None:
    rng = np.random.default_rng(7)
    problem = references.draw_problem(rng, 3, 1.0, 0.2, 20)
    design = references.make_design(problem.mean + rng.normal(size=(2, 3)), problem.root[None])
    tasks = logistic.ClickTasks(np.array([0, 7, len(problem.rows)]), *references.table(problem))
    wanted = np.array([[True, False], [False, True]])
    every = logistic.posterior_moments(design, tasks, most_points)
    some = logistic.posterior_moments(design, tasks, most_points, wanted=wanted)
    for found, full in zip(some, every, strict=True):
        np.testing.assert_array_equal(found[wanted], full[wanted])
    assert not some.log_evidence[~wanted].any()
    np.testing.assert_array_equal(some.mean[~wanted], design.mean[::-1])


@pytest.mark.skipif(CORE is None, reason="the compiled core is not installed")
@pytest.mark.parametrize("program", ["core"], indirect=True)
def test_both_programs_take_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    cases = [*CASES, *((8, x, 0.2, n, kind) for x in (0.3, 3.0) for n in (1, 5, 60)
                       for kind in KINDS)]  # fmt: skip
    for d, deviation, rate, n, kind in cases:
        problem = references.draw_problem(rng, d, deviation, rate, n, kind)
        actions, every = rng.standard_normal((3, d)), np.array([1024])
        found = []
        for core in (CORE, None):
            monkeypatch.setattr(_program, "core", core)
            _, out = one(problem)
            out.weigh(*references.table(problem), every)
            rates, gain = np.empty((4, 1, 3)), np.empty(1)
            out.action_moments(actions, rates)
            out.gains(actions, np.array([True, False, True]), 0, gain)
            found.append((out, rates, gain, *references.moments(out)))
        (fast, *moments), (plain, *others) = found
        size = 1.0 + abs(plain.log_evidence[0])
        assert fast.n_points[0] == plain.n_points[0]
        assert abs(fast.log_evidence[0] - plain.log_evidence[0]) < 1e-10 * size
        np.testing.assert_allclose(fast.error, plain.error, rtol=1e-6, atol=1e-7)
        for one_, other in zip(moments, others, strict=True):
            np.testing.assert_allclose(one_, other, atol=1e-7 * np.abs(other).max())
