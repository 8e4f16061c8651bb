"""Bounds that know the latent prior, on other problems: ``python -m studies.bounds``.

Every row plays MixTS (or another policy) on tasks from a prior and prints its regret beside the
bounds. For bandits whose steps can be measured, the last column says how many of the steps of the
proofs hold, by the rule of ``Inequality.holds``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

import mixts
from mixts import bounds
from mixts._numbers import estimate
from mixts.diagnostics import measure_latent_cost
from studies._shared import Array

Row = tuple[str, ...]
"""Problem, regret, bounds, steps."""


def pm(values: Array) -> str:
    """Return the mean of total regrets with its standard error."""
    mean, error = estimate(values)
    return f"{mean:.2f} ± {error:.2f}"


def followed(name: str, prior: mixts.MixturePrior, n: int, runs: int, about: str) -> Row:
    """Return the row of arms that are followed round by round."""
    cost = measure_latent_cost(prior, mixts.BanditEnvironment(prior), n, runs, 1, block_size=500)
    steps = cost.inequalities().values()
    held = f"{sum(step.holds for step in steps)} of {len(steps)}"
    return name, pm(cost.regret.sum(axis=1)), about, held


# -- linear bandits -------------------------------------------------------------------------------


def sphere(rng: np.random.Generator, n_tasks: int) -> Array:
    """Return eight new actions of length 1 for each task."""
    actions = rng.normal(size=(n_tasks, 8, 5))
    return actions / np.linalg.norm(actions, axis=-1, keepdims=True)


def tilted_prior(width: float) -> mixts.MixturePrior:
    """Return twelve components in five dimensions, each with a covariance of its own."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(12))
    mean = rng.normal(size=(12, 5)) / np.sqrt(5)
    covariances = []
    for _ in range(12):
        q, _ = np.linalg.qr(rng.normal(size=(5, 5)))
        covariances.append(width**2 * q @ np.diag(rng.random(5)) @ q.T)
    return mixts.MixturePrior(mixts.LinearGaussian(mean, np.array(covariances), 0.3), weights)


def linear(runs: int) -> Iterator[Row]:
    """Play linear bandits with changing action sets and unequal, tilted covariances."""
    n = 400
    for width in (0.05, 0.3, 1.0):
        prior = tilted_prior(width)
        cost = measure_latent_cost(
            prior, mixts.BanditEnvironment(prior, sphere), n, runs // 4, 1, block_size=500
        )
        found = bounds.of(prior, n, sphere(np.random.default_rng(0), 100))
        steps = cost.inequalities().values()
        about = f"entropy {found['entropy']:.1f}; Theorem 1 {found['Theorem 1, appendix']:.0f}"
        held = f"{sum(step.holds for step in steps)} of {len(steps)}"
        name = f"linear, changing sets, widths up to {width:g}, n = {n}"
        yield name, pm(cost.regret.sum(axis=1)), about, held


# -- arms -----------------------------------------------------------------------------------------


def clicks_prior(strength: float) -> mixts.MixturePrior:
    """Return ten Bernoulli arms; under state s arm s has mean 0.7, the others 0.3."""
    table = 0.3 + 0.4 * np.eye(10)
    return mixts.MixturePrior(mixts.BernoulliArms(strength * table, strength * (1 - table)))


def clicks(runs: int) -> Iterator[Row]:
    """Play Bernoulli arms with beta components."""
    n, table = 1000, 0.3 + 0.4 * np.eye(10)
    known = bounds.known_models_bound(np.full(10, 0.1), table, bounds.bernoulli_affinity(table))
    for strength in (5.0, 50.0, 1000.0):
        prior = clicks_prior(strength)
        found = bounds.of(prior, n)
        about = f"entropy {found['entropy']:.1f}; known models (width 0) {known:.2f}"
        yield followed(f"Bernoulli arms, strength {strength:g}, n = {n}", prior, n, runs, about)


ONE_KNOWN = np.array([[0.5, 0.1], [0.5, 0.9]])
"""Arm 0 does not tell the two states apart, and is the best one of state 0."""


def one_known_prior(rare: float = 0.5) -> mixts.MixturePrior:
    """Return two known models; ``rare`` is the probability of the second."""
    family = mixts.GaussianArms(ONE_KNOWN, np.zeros((2, 2)), 0.5)
    return mixts.MixturePrior(family, [1 - rare, rare])


def one_known(runs: int) -> Iterator[Row]:
    """Play two states that only one of their best arms tells apart."""
    prior = one_known_prior()
    divergence = (ONE_KNOWN[:, None] - ONE_KNOWN) ** 2 / (2 * 0.5**2)
    rho = bounds.gaussian_affinity(ONE_KNOWN, 0.5)
    for n in (100, 1000, 5000):
        results = mixts.simulate(
            {"MixTS": prior}, mixts.BanditEnvironment(prior), n, 8 * runs, 1, block_size=4000
        )
        closed = bounds.known_models_bound([0.5, 0.5], ONE_KNOWN, rho, n)
        best = 0.8 * bounds.gaussian_one_sided_bound(n, 0.5, 0.5, 0.8, 0.5)
        least = bounds.lower_bound(n, [0.5, 0.5], ONE_KNOWN, divergence)
        about = f"one-sided {closed:.2f}, best form {best:.2f}; any policy at least {least:.2f}"
        yield f"one arm known, n = {n}", pm(results.regret["MixTS"].sum(axis=1)), about, "–"


# -- MDPs -----------------------------------------------------------------------------------------


def river(runs: int) -> Iterator[Row]:
    """Play RiverSwim with priors that hardly doubt their mean MDPs, and weaker ones."""
    swim = mixts.RiverSwim()
    mdps = mixts.MDP.stack([swim.mean_mdp(current) for current in ("left", "right")])
    known = bounds.known_mdps_bound([0.5, 0.5], mdps)
    n = 100
    for strength in (1e6, 100.0):
        task = mixts.RiverSwim(strength=strength)
        results = mixts.simulate({"MixTS": task.prior}, task, n, runs, 1, block_size=250)
        alone = bounds.of(task.prior, n)["entropy, identification alone"]
        regret = results.regret["MixTS"]
        about = f"known MDPs {known:.4f}; entropy, identification alone {alone:.0f}"
        shown = f"{pm(regret.sum(axis=1))}, first episode {pm(regret[:, 0])}"
        yield f"RiverSwim, strength {strength:g}, {n} episodes", shown, about, "–"


# -- other policies -------------------------------------------------------------------------------


def policies(runs: int) -> Iterator[Row]:
    """Play MixIDS, BayesUCB and Greedy beside MixTS."""
    problems = {
        "5 Gaussian arms, means 0.9 / 0.1, width 0.2, noise 0.5": mixts.MixturePrior(
            mixts.GaussianArms(0.1 + 0.8 * np.eye(5), np.full((5, 5), 0.04), 0.5)
        ),
        "one arm known, P₀ = (0.6, 0.4)": one_known_prior(0.4),
    }
    n = 300
    for name, prior in problems.items():
        ids = bounds.of(prior, n)["entropy, MixIDS"]
        for kind in (mixts.MixTS, mixts.MixIDS, mixts.BayesUCB, mixts.Greedy):
            played = mixts.simulate(
                {kind.__name__: partial(kind, prior)}, mixts.BanditEnvironment(prior), n, runs, 1,
                block_size=500,
            )  # fmt: skip
            about = {
                "MixTS": f"entropy {bounds.of(prior, n)['entropy']:.1f}",
                "MixIDS": f"entropy, MixIDS {ids:.1f}",
            }
            label = kind.__name__
            regret = pm(played.regret[label].sum(axis=1))
            yield f"{name}, n = {n}: {label}", regret, about.get(label, "none"), "–"


PARTS: dict[str, Callable[[int], Iterator[Row]]] = {
    "linear": linear, "clicks": clicks, "one-known": one_known, "river": river,
    "policies": policies,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.bounds", description=main.__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[], help="all by default")
    parser.add_argument("--runs", type=int, default=1000, help="runs of each row (default: 1000)")
    options = parser.parse_args(arguments)
    print("| problem | regret | bounds | steps that hold |\n|---|---|---|---|")
    for name in options.parts or PARTS:
        for row in PARTS[name](options.runs):
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
