"""Logistic posteriors by other means: grids in few dimensions, Polya-Gamma chains in more."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from polyagamma import random_polyagamma
from scipy import optimize
from scipy.special import expit, logit
from scipy.stats import qmc

from mixts.families import _logistic as logistic


class Problem(NamedTuple):
    """One task's table, and one component's mean and root."""

    rows: Any
    trials: Any
    successes: Any
    mean: Any
    root: Any

    def log_density(self, u: Any) -> Any:
        """Return log likelihood plus log N(u; 0, I) but for its constant, at u (d, n)."""
        eta = self.rows @ (self.mean[:, None] + self.root @ u)
        fit = self.successes @ eta - self.trials @ np.logaddexp(0.0, eta)
        return fit - 0.5 * (u * u).sum(axis=0)


def draw_problem(
    rng: np.random.Generator, d: int, deviation: float, rate: float, n: int, kind: str = "random"
) -> Problem:
    """Draw a table of n trials in at most 50 rows; ``kind`` random, onehot, silent, separable."""
    n_rows = min(n, 50)
    rows = rng.standard_normal((n_rows, d)) / np.sqrt(max(d - 1, 1))
    rows[:, 0] = 1.0
    mean = np.zeros(d)
    mean[0] = logit(rate)
    if kind == "onehot":
        rows, mean = np.eye(d)[: min(n_rows, d)], np.full(d, logit(rate))
    root = deviation * np.tril(np.eye(d) + 0.2 * rng.standard_normal((d, d)))
    trials = rng.multinomial(n, np.full(len(rows), 1.0 / max(len(rows), 1))) if n else np.zeros(0)
    theta = mean + root @ rng.standard_normal(d)
    successes = rng.binomial(trials.astype(int), expit(rows @ theta))
    if kind == "silent":
        successes = 0 * trials
    if kind == "separable":
        score = rows @ rng.standard_normal(d)
        successes = trials * (score > np.median(score))
    return Problem(rows, trials.astype(float), successes.astype(float), mean, root)


def make_design(mean: Any, root: Any, n: int = 256, seed: int = 0) -> Any:
    """Return the prior (L, d), (G, d, d) with points from 8 scrambled Sobol' sequences."""
    blocks = [
        qmc.MultivariateNormalQMC(
            np.zeros(mean.shape[1]),
            engine=qmc.Sobol(mean.shape[1], seed=np.random.default_rng([seed, b])),
        ).random(n)
        for b in range(logistic.N_BLOCKS)
    ]
    groups = np.arange(len(mean)) % len(root)
    points = logistic.make_points(np.array(blocks))
    return logistic.Design(mean, np.ascontiguousarray(root), groups, points)


def condition(problem: Problem, design: Any, tolerance: float = 0.01) -> Any:
    """Return the posteriors of all components given the problem's table."""
    most = design.points.z.shape[1]
    out, every = logistic.new_posterior(design, most), np.ones(len(design.mean), bool)
    out.find_modes(*table(problem), every)
    out.integrate(*table(problem), every, tolerance, most)
    return out


def table(problem: Problem) -> Any:
    """Return rows, trials and successes."""
    return problem.rows, problem.trials, problem.successes


def moments(out: Any, s: int = 0) -> tuple[Any, Any]:
    """Return mean and covariance of theta given component s."""
    d = out.location.shape[1]
    mean, covariance = np.empty(d), np.empty((d, d))
    out.parameter_moments(s, mean, covariance)
    return mean, covariance


def mode(problem: Problem) -> tuple[Any, Any]:
    """Return the mode of u and the lower root of the inverse Hessian there."""
    block = problem.rows @ problem.root

    def gradient(u: Any) -> Any:
        p = expit(problem.rows @ problem.mean + block @ u)
        return u - block.T @ (problem.successes - problem.trials * p)

    def hessian(u: Any) -> Any:
        p = expit(problem.rows @ problem.mean + block @ u)
        return np.eye(len(u)) + (block.T * (problem.trials * p * (1 - p))) @ block

    found = optimize.minimize(
        lambda u: -problem.log_density(u[:, None])[0],
        np.zeros(len(problem.mean)),
        jac=gradient,
        hess=hessian,
        method="trust-exact",
    )
    return found.x, np.linalg.cholesky(np.linalg.inv(hessian(found.x)))


class Reference(NamedTuple):
    """Log evidence, mean and covariance of theta, and their standard errors (None if exact)."""

    log_evidence: float
    mean: Any
    covariance: Any
    log_evidence_error: float = 0.0
    mean_error: Any = 0.0


def grid(problem: Problem, n: int) -> Reference:
    """Integrate by the trapezoidal rule on n^d nodes, which converges exponentially here.

    The box, along the axes of Laplace's root, is enlarged until the density at its faces is
    negligible. Half as many nodes along each axis must give almost the same evidence: then the
    error of all nodes is much smaller.
    """
    top, root = mode(problem)
    best, d = problem.log_density(top[:, None])[0], len(top)
    ends = np.tile([-6.0, 6.0], (d, 1))
    while True:
        weight = _density(problem, top, root, [np.linspace(*end, 41) for end in ends], best)[0]
        faces = np.array(
            [[np.take(weight, side, axis=k).max() for side in (0, -1)] for k in range(d)]
        )
        if faces.max() < 1e-10:
            break
        ends[faces >= 1e-10] *= 1.25
    axes = [np.linspace(*end, n) for end in ends]
    weight, u = _density(problem, top, root, axes, best)
    cell = np.prod([axis[1] - axis[0] for axis in axes]) * np.prod(np.diag(root))
    coarse = weight[(slice(None, None, 2),) * d].sum() * 2**d / weight.sum()
    assert abs(coarse - 1.0) < 1e-3
    log_evidence = best + np.log(weight.sum() * cell) - 0.5 * d * np.log(2 * np.pi)
    theta, share = problem.mean[:, None] + problem.root @ u, weight.ravel() / weight.sum()
    mean = theta @ share
    centred = theta - mean[:, None]
    return Reference(log_evidence, mean, (centred * share) @ centred.T)


def _density(problem: Problem, top: Any, root: Any, axes: Any, best: float) -> tuple[Any, Any]:
    """Return the density over its value at the mode on a grid, and the nodes u (d, n)."""
    mesh = np.array([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])
    u = top[:, None] + root @ mesh
    parts = [problem.log_density(u[:, i : i + 50_000]) for i in range(0, u.shape[1], 50_000)]
    return np.exp(np.concatenate(parts) - best).reshape([len(axis) for axis in axes]), u


def chain(problem: Problem, n: int, rng: np.random.Generator) -> Reference:
    """Run Polson, Scott and Windle's Gibbs sampler for n rounds after n / 10; evidence by Chib.

    Given the Polya-Gamma variables the posterior of u is normal, so its density at the mode is
    averaged over rounds. Errors are from 20 batches.
    """
    used = problem.trials > 0
    problem = problem._replace(
        rows=problem.rows[used], trials=problem.trials[used], successes=problem.successes[used]
    )
    d = len(problem.mean)
    block, start = problem.rows @ problem.root, problem.rows @ problem.mean
    point, _ = mode(problem)
    offset, u = problem.successes - 0.5 * problem.trials, point.copy()
    log_at, draws = np.empty(n), np.empty((n, d))
    means = np.empty((n, d))
    for t in range(-(n // 10), n):
        omega = random_polyagamma(problem.trials, start + block @ u, random_state=rng)
        factor = np.linalg.cholesky(np.eye(d) + (block.T * omega) @ block)
        centre = np.linalg.solve(
            factor.T, np.linalg.solve(factor, block.T @ (offset - omega * start))
        )
        u = centre + np.linalg.solve(factor.T, rng.standard_normal(d))
        if t >= 0:
            whitened = factor.T @ (point - centre)
            log_at[t] = np.log(np.diag(factor)).sum() - 0.5 * whitened @ whitened
            draws[t], means[t] = u, centre
    top = log_at.max()
    density = np.exp(log_at - top)
    batches = density.reshape(20, -1).mean(axis=1) / density.mean()
    # The constants of the two normal densities at the point cancel.
    log_evidence = problem.log_density(point[:, None])[0] - top - np.log(density.mean())
    theta = problem.mean + draws @ problem.root.T
    fitted = problem.mean + means @ problem.root.T
    error = fitted.reshape(20, -1, d).mean(axis=1).std(axis=0, ddof=1) / np.sqrt(20)
    return Reference(
        log_evidence,
        fitted.mean(axis=0),
        np.cov(theta.T),
        batches.std(ddof=1) / np.sqrt(20),
        error,
    )
