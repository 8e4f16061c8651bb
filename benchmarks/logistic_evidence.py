"""Evidence of logistic rewards: how accurate are proposals for importance sampling, at what cost?

The integral over a component's parameters has no closed form. The study draws problems, builds
several proposals for each, and prints the squared coefficient of variation of their weights: n
independent points have a standard error of sqrt(value / n) nats. The last columns are those of the
family: the error that they report, the error over the reported one, the number of points
and the time for one component. The second table counts how often the error is covered.

    python benchmarks/logistic_evidence.py
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logit, ndtr, ndtri
from scipy.stats import qmc

from mixts._typing import Array
from mixts.families import _logistic as logistic

N_POINTS = 1 << 13
CASES = [
    (1, 1.0, 0.06, 10, "dense"),
    (1, 3.0, 0.06, 10, "dense"),
    (1, 10.0, 0.02, 100, "silent"),
    (3, 1.0, 0.06, 100, "dense"),
    (3, 3.0, 0.06, 100, "dense"),
    (3, 10.0, 0.06, 100, "silent"),
    (3, 10.0, 0.5, 100, "separable"),
    (10, 0.1, 0.06, 100, "dense"),
    (10, 1.0, 0.06, 30, "dense"),
    (10, 1.0, 0.5, 1000, "dense"),
    (10, 3.0, 0.06, 300, "dense"),
    (10, 10.0, 0.06, 300, "dense"),
    (10, 3.0, 0.06, 100, "silent"),
    (10, 3.0, 0.5, 100, "separable"),
    (10, 1.0, 0.06, 100, "onehot"),
    (10, 3.0, 0.06, 1000, "onehot"),
    (20, 1.0, 0.06, 10, "dense"),
    (20, 1.0, 0.06, 100, "dense"),
    (20, 1.0, 0.06, 10_000, "dense"),
    (20, 3.0, 0.06, 300, "dense"),
    (20, 1.0, 0.06, 300, "onehot"),
]
"""Dimension, prior deviation, prior click rate, trials, and kind of table."""
N_SEEDS = 3
FAR = np.array([0.5, 1.0, 2.0, 4.0])


class Problem(NamedTuple):
    """A table, and a component in the coordinates that it tells about."""

    rows: Array
    trials: Array
    successes: Array
    mean: Array
    root: Array
    block: Array
    start: Array

    def log_density(self, v: Array) -> Array:
        """Return the log posterior, not normalised, at v (r, n)."""
        eta = self.start[:, None] + self.block @ v
        fit: Array = self.successes @ eta - self.trials @ np.logaddexp(0.0, eta)
        return fit - 0.5 * (v * v).sum(axis=0)


def draw_problem(rng: np.random.Generator, case: Any) -> Problem:
    """Draw a table with at most 50 rows."""
    d, deviation, rate, n, kind = case
    rows = rng.standard_normal((min(n, 50), d)) / np.sqrt(max(d - 1, 1))
    rows[:, 0] = 1.0
    mean = np.where(np.arange(d) == 0, logit(rate), 0.0)
    if kind == "onehot":
        rows, mean = np.eye(d)[: min(n, d)], np.full(d, logit(rate))
    trials = rng.multinomial(n, np.full(len(rows), 1 / len(rows)))
    theta = mean + deviation * rng.standard_normal(d)
    successes = rng.binomial(trials, expit(rows @ theta))
    if kind == "silent":
        successes = 0 * trials
    if kind == "separable":
        score = rows @ rng.standard_normal(d)
        successes = trials * (score > np.median(score))
    root = deviation * np.eye(d)
    block = rows @ root
    if len(rows) < d:
        block = np.linalg.qr(block.T)[1].T
    start = rows @ mean
    return Problem(rows, trials / 1.0, successes / 1.0, mean, root, block, start)


def climb(problem: Problem) -> tuple[Array, Array]:
    """Return mode and Hessian, by damped Newton steps."""
    v = np.zeros(problem.block.shape[1])
    while True:
        p = expit(problem.start + problem.block @ v)
        weight = problem.trials * p * (1 - p)
        hessian = np.eye(len(v)) + (problem.block.T * weight) @ problem.block
        gradient = problem.block.T @ (problem.successes - problem.trials * p) - v
        step = np.linalg.solve(hessian, gradient)
        length, value = 1.0, problem.log_density(v[:, None])[0]
        if gradient @ step < 1e-13 * (1.0 + abs(value)):
            return v, hessian
        while (
            length > 1e-9
            and problem.log_density((v + length * step)[:, None])[0]
            < value + 0.1 * length * gradient @ step
        ):
            length /= 2
        v = v + length * step


def propagate(problem: Problem, sweeps: int = 15) -> tuple[Array, Array]:
    """Return mean and covariance by expectation propagation, with 1-d quadrature of each row."""
    n_rows, r = problem.block.shape
    x, w = np.polynomial.legendre.leggauss(200)
    precision, shift = np.zeros(n_rows), np.zeros(n_rows)
    covariance, mean = np.eye(r), np.zeros(r)
    for _ in range(sweeps):
        for i in range(n_rows):
            b, n, k, c = problem.block[i], problem.trials[i], problem.successes[i], problem.start[i]
            reach = covariance @ b
            variance = b @ reach
            cavity = 1 / max(variance, 1e-12) - precision[i]
            if variance < 1e-12 or cavity <= 0:
                continue
            middle = (b @ mean / variance - shift[i]) / cavity
            width = 1 / np.sqrt(cavity)
            for zoom in (10.0, 10.0):
                nodes = middle + zoom * width * x
                log_tilt = k * (c + nodes) - n * np.logaddexp(0, c + nodes)
                log_tilt -= 0.5 * cavity * (nodes - (b @ mean / variance - shift[i]) / cavity) ** 2
                tilt = w * np.exp(log_tilt - log_tilt.max())
                middle = (tilt * nodes).sum() / tilt.sum()
                width = np.sqrt((tilt * (nodes - middle) ** 2).sum() / tilt.sum() + 1e-12)
            new = max(1 / width**2 - cavity, 0.0)
            change = new - precision[i]
            shift[i] = middle / width**2 - cavity * (b @ mean / variance - shift[i]) / cavity
            precision[i] = new
            covariance = covariance - np.outer(reach, reach) * change / (1 + change * variance)
            mean = covariance @ (problem.block.T @ shift)
    return mean, covariance


def variation(log_weight: Array) -> float:
    """Return the squared coefficient of variation of weights."""
    weight = np.exp(log_weight - log_weight.max())
    return float(weight.var() / weight.mean() ** 2)


def proposals(problem: Problem, rng: np.random.Generator) -> dict[str, float]:
    """Return the variation of weights of each proposal."""
    top, hessian = climb(problem)
    r, best = len(top), problem.log_density(top[:, None])[0]
    root = np.linalg.inv(np.linalg.cholesky(hessian)).T
    half = rng.standard_normal((r, N_POINTS // 2))
    z = np.concatenate([half, -half], axis=1)
    square = 0.5 * (z * z).sum(axis=0)
    result = {"Laplace": variation(problem.log_density(top[:, None] + root @ z) + square)}
    scale = np.sqrt(6 / rng.chisquare(6, N_POINTS // 2))
    heavy = z * np.concatenate([scale, scale])
    tail = gammaln((6 + r) / 2) - (6 + r) / 2 * np.log1p((heavy * heavy).sum(axis=0) / 6)
    result["t, 6 df"] = variation(problem.log_density(top[:, None] + root @ heavy) - tail)
    axes, vectors = np.linalg.eigh(hessian)
    for name, columns in (("split", root), ("split, eigen", vectors / np.sqrt(axes))):
        slopes = []
        for sign in (-1, 1):
            far = [problem.log_density(top[:, None] + sign * f * columns) for f in FAR]
            drop = np.maximum(best - np.array(far), 1e-10)
            slopes.append((FAR[:, None] / np.sqrt(2 * drop)).max(axis=0)[:, None])
        below, above = slopes
        u, share = ndtr(z), below / (below + above)
        left = below * ndtri(np.minimum(u / (2 * share), 0.5))
        y = np.where(u < share, left, -above * ndtri(np.minimum((1 - u) / (2 - 2 * share), 0.5)))
        density = -0.5 * ((y / np.where(y < 0, below, above)) ** 2).sum(axis=0)
        result[name] = variation(problem.log_density(top[:, None] + columns @ y) - density)
    mean, covariance = propagate(problem)
    moved = mean[:, None] + np.linalg.cholesky(covariance) @ z
    result["EP"] = variation(problem.log_density(moved) + square)
    return result


def make_design(problem: Problem, n: int, seed: int, copies: int = 1) -> logistic.Design:
    """Return the prior with 16 n points; with n = 0, the points of the family."""
    d = len(problem.mean)
    blocks = [
        ndtri(qmc.Sobol(d, seed=np.random.default_rng([seed, b])).random(n))
        for b in range(logistic.N_BLOCKS)
    ]
    points = logistic.make_points(np.array(blocks)) if n else logistic.fixed_points(d)
    mean, groups = np.tile(problem.mean, (copies, 1)), np.zeros(copies, np.int64)
    return logistic.Design(mean, problem.root[None], groups, points)


def condition(problem: Problem, design: logistic.Design, tolerance: float) -> tuple[Any, float]:
    """Return the posterior and the median time in microseconds of some repetitions."""
    most, every = design.points.z.shape[1], np.ones(len(design.mean), bool)
    out, times = logistic.new_posterior(design, most), []
    table = problem.rows, problem.trials, problem.successes
    for _ in range(5):
        begin = time.perf_counter()
        out.find_modes(*table, every)
        out.integrate(*table, every, tolerance, most)
        times.append(time.perf_counter() - begin)
    return out, 1e6 * float(np.median(times))


def evidence(problem: Problem, seed: int) -> tuple[float, float, float, int, float]:
    """Return error, reported error, error of the reference, points and microseconds.

    The points are those of the family, the reference has others.
    """
    out, took = condition(problem, make_design(problem, 0, seed), 0.01)
    others = [
        condition(problem, make_design(problem, 512, 1000 * (seed + 1) + b), 0.0)[0]
        for b in range(4)
    ]
    values = np.array([other.log_evidence[0] for other in others])
    share = np.exp(values - values.max())
    reference = values.max() + np.log(share.mean())
    spread = share.std(ddof=1) / share.mean() / 2
    gap = out.log_evidence[0] - reference
    return float(gap), float(out.error[0]), float(spread), int(out.n_points[0]), took


def compare() -> None:
    """Print the table of proposals and of the family."""
    names: list[str] = []
    for number, case in enumerate(CASES):
        rows, loops = [], []
        for seed in range(N_SEEDS):
            rng = np.random.default_rng([number, seed])
            problem = draw_problem(rng, case)
            found = proposals(problem, rng)
            names = list(found)
            loops.append(evidence(problem, seed))
            out, _ = condition(problem, make_design(problem, 256, 99), 0.0)
            rows.append([*found.values(), variation(out.log_weight[0])])
        if number == 0:
            heads = [*names, "chosen", "reported", "ratio", "points", "us"]
            print(f"{'d, deviation, rate, n, kind':34s}" + "".join(f"{x:>13s}" for x in heads))
        means = np.exp(np.log(np.array(rows) + 1e-12).mean(axis=0))
        gap, reported, _, n, took = np.array(loops).T
        ratio = np.abs(gap / np.maximum(reported, 1e-12)).max()
        tail = (
            f"{np.median(reported):13.4f}{ratio:13.2f}{np.median(n):13.0f}{np.median(took):13.0f}"
        )
        label = ", ".join(str(x) for x in case)
        print(f"{label:34s}" + "".join(f"{x:13.3g}" for x in means) + tail, flush=True)


def cover(n_problems: int, seed: int) -> None:
    """Print how often three reported errors cover the error, over random problems."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n_problems):
        case = (
            int(rng.choice([1, 2, 3, 5, 10, 20])),
            float(rng.choice([0.1, 1.0, 3.0, 10.0])),
            float(rng.choice([0.02, 0.06, 0.5])),
            int(rng.choice([1, 3, 10, 30, 100, 300, 1000, 10_000])),
            str(rng.choice(["dense", "dense", "onehot", "silent", "separable"])),
        )
        rows.append((case[1], *evidence(draw_problem(rng, case), i)))
    deviation, gap, reported, spread, _, _ = np.array(rows).T
    print(f"{'deviation':>10s}{'problems':>10s}{'within 3':>10s}{'|gap|':>10s}{'above 0.01':>12s}")
    for value in (0.1, 1.0, 3.0, 10.0):
        chosen = deviation == value
        inside = np.abs(gap[chosen]) <= 3 * np.hypot(reported[chosen], spread[chosen])
        large = (reported[chosen] > 0.01).mean()
        size = np.median(np.abs(gap[chosen]))
        print(f"{value:10}{chosen.sum():10d}{inside.mean():10.3f}{size:10.4f}{large:12.3f}")


def clock() -> None:
    """Print the time of the evidence of 5 components with d = 20 and R = 50."""
    problem = draw_problem(np.random.default_rng(0), (20, 1.0, 0.06, 1000, "dense"))
    for tolerance in (0.03, 0.02, 0.01):
        out, took = condition(problem, make_design(problem, 256, 0, copies=5), tolerance)
        print(f"tolerance {tolerance}: {out.n_points[0]} points, {took:.0f} us for 5 components")


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=300, help="problems of the second table")
    parser.add_argument("--seed", type=int, default=5, help="seed of the problems of that table")
    parser.add_argument("--only", choices=["compare", "cover", "clock"], help="one table only")
    arguments = parser.parse_args()
    if arguments.only in (None, "compare"):
        compare()
    if arguments.only in (None, "cover"):
        cover(arguments.problems, arguments.seed)
    if arguments.only in (None, "clock"):
        clock()


if __name__ == "__main__":
    main()
