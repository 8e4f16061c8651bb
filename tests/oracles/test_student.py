"""Families with unknown noise, beside today's Gaussian families integrated over the variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import mixts

pytestmark = pytest.mark.usefixtures("program")

NOISE, DEGREES = np.array([0.5, 0.9, 0.5]), np.array([3.0, 12.0, 60.0])
# Of ln sigma^2. The trapezoid rule errs by |Gamma(a + 2 pi i / step) / Gamma(a)| for a posterior of
# shape a, which is 2e-17 for this step and the largest shape, (60 + 25) / 2. Beyond 8 the smallest
# shape, (3 + 7) / 2, has less than 1e-12 of the whole.
GRID = 0.14 * np.arange(-57, 58)
KINDS = ("arms", "full", "tied", "diag", "spherical")


def _covariance(kind: str, rng: np.random.Generator, d: int) -> Any:
    if kind in ("full", "tied"):
        root = rng.normal(size=(3 if kind == "full" else 1, d, d))
        matrix = root @ np.swapaxes(root, 1, 2) / d + 0.05 * np.eye(d)
        matrix = (matrix + np.swapaxes(matrix, 1, 2)) / 2
        return matrix if kind == "full" else matrix[0]
    return rng.uniform(0.2, 1.5, 3 if kind == "spherical" else (3, d))


class Problem:
    """A prior of one kind, a history, and the same Gaussian prior at any noise."""

    def __init__(self, kind: str, n: int = 25, shift: float = 0.0, scale: float = 1.0) -> None:
        rng, self.kind, self.size = np.random.default_rng(len(kind) + n), kind, 3
        self.noise = scale * NOISE
        self.mean = scale * rng.normal(size=(3, self.size)) + shift
        if kind == "arms":
            self.variance = scale**2 * rng.uniform(0.2, 1.5, (3, self.size))
            family: Any = mixts.StudentArms(self.mean, self.variance, self.noise, DEGREES)
            self.actions = rng.integers(self.size, size=n)
            rows = np.eye(self.size)[self.actions]
        else:
            self.variance = scale**2 * _covariance(kind, rng, self.size)
            family = mixts.LinearStudent(self.mean, self.variance, self.noise, DEGREES, kind)
            self.actions = rows = rng.normal(size=(n, self.size))
        self.prior = mixts.MixturePrior(family, [0.5, 0.2, 0.3])
        self.outcomes = rows @ (self.mean[1] + 0.3 * scale) + 0.7 * scale * rng.normal(size=n)

    def belief(self) -> mixts.Belief:
        belief = self.prior.belief()
        belief.update(self.actions, self.outcomes)
        return belief

    def gaussian(self, s: int, square: float) -> mixts.MixturePrior:
        """Component s if its noise variance were known."""
        ratio, sigma = square / self.noise[s] ** 2, float(np.sqrt(square))
        mean = self.mean[s : s + 1]
        if self.kind == "arms":
            known: Any = mixts.GaussianArms(mean, ratio * self.variance[s : s + 1], sigma)
        else:
            tied = self.kind == "tied"
            variance = self.variance if tied else self.variance[s : s + 1]
            known = mixts.LinearGaussian(mean, ratio * variance, sigma, self.kind)
        return mixts.MixturePrior(known)

    def log_density(self, s: int, log_square: Any) -> Any:
        """Prior log density of ln sigma^2 under component s."""
        shape, scale = DEGREES[s] / 2, DEGREES[s] * self.noise[s] ** 2 / 2
        log = shape * np.log(scale) - special.gammaln(shape) - shape * log_square
        return log - scale * np.exp(-log_square)

    def integrate(
        self, s: int, read: Callable[[mixts.Belief], Any]
    ) -> tuple[float, list[tuple[float, float, Any]]]:
        """Log evidence, and for each noise its weight, sigma^2 and what was read."""
        # Around the typical noise, in steps of 1/7.
        grid = GRID + 2 * np.log(self.noise[s])
        # Statistics do not depend on the prior.
        seen = self.gaussian(s, 1.0).belief()
        seen.update(self.actions, self.outcomes)
        logs, found = np.empty(len(grid)), []
        for i, log_square in enumerate(grid):
            belief = self.gaussian(s, np.exp(log_square)).condition(seen.statistics)
            logs[i] = self.log_density(s, log_square) + belief.log_evidence[0]
            found.append((float(np.exp(log_square)), read(belief)))
        total = special.logsumexp(logs)
        weights = np.exp(logs - total)
        triples = [(w, v, x) for w, (v, x) in zip(weights, found, strict=True)]
        return float(total + np.log(grid[1] - grid[0])), triples


@pytest.mark.parametrize("kind", KINDS)
def test_evidence_and_moments_are_integrals_over_the_noise(kind: str) -> None:
    problem = Problem(kind)
    belief, d = problem.belief(), problem.size
    for s in range(3):
        log_evidence, found = problem.integrate(
            s, lambda b: (b.component_mean[0], b.component_covariance[0])
        )
        assert belief.log_evidence[s] == pytest.approx(log_evidence, rel=1e-9, abs=1e-9)
        mean = sum(w * x[0] for w, _, x in found)
        within = sum(w * x[1] for w, _, x in found)
        between = sum(w * np.outer(x[0] - mean, x[0] - mean) for w, _, x in found)
        sigma = sum(w * np.sqrt(v) for w, v, _ in found)
        square = sum(w * v for w, v, _ in found)
        np.testing.assert_allclose(belief.component_mean[s, :d], mean, rtol=1e-9, atol=1e-9)
        assert belief.component_mean[s, d] == pytest.approx(sigma, rel=1e-9)
        ours = belief.component_covariance[s]
        np.testing.assert_allclose(ours[:d, :d], within + between, rtol=1e-8, atol=1e-9)
        assert ours[d, d] == pytest.approx(square - sigma**2, rel=1e-7)
        assert not ours[d, :d].any()


@pytest.mark.parametrize("kind", KINDS)
def test_steps_batches_and_merged_parts_agree(kind: str) -> None:
    problem = Problem(kind, 400)
    whole, steps = problem.belief(), problem.prior.belief()
    for action, outcome in zip(problem.actions, problem.outcomes, strict=True):
        steps.update(action, outcome)
    parts = [problem.prior.belief() for _ in range(2)]
    order = np.random.default_rng(1).permutation(400)
    parts[0].update(problem.actions[order[:150]], problem.outcomes[order[:150]])
    parts[1].update(problem.actions[order[150:]], problem.outcomes[order[150:]])
    merged = problem.prior.condition(parts[0].statistics + parts[1].statistics)
    for other in (steps, merged):
        np.testing.assert_allclose(other.log_evidence, whole.log_evidence, rtol=1e-11)
        np.testing.assert_allclose(other.component_mean, whole.component_mean, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_repeated_actions_agree_with_the_whole_history(kind: str) -> None:
    problem = Problem(kind, 6)
    steps = problem.prior.belief()
    for action, outcome in zip(problem.actions, problem.outcomes, strict=True):
        for more in range(4):
            steps.update(action, outcome + 0.1 * more)
    whole = problem.prior.condition(steps.statistics)
    np.testing.assert_allclose(steps.log_evidence, whole.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(steps.component_mean, whole.component_mean, rtol=1e-10)


def test_the_probability_that_an_arm_is_best_is_an_integral_over_the_noise() -> None:
    problem = Problem("arms", 7)
    agent = mixts.MixTS(problem.prior, seed=1)
    agent.update(problem.actions, problem.outcomes)
    ours, error = agent.action_probabilities()
    assert not error.any()
    expected, rng = np.zeros(problem.size), np.random.default_rng(0)
    everything = np.ones((1, problem.size), bool)
    for s, weight in enumerate(agent.belief.weights):
        _, found = problem.integrate(s, lambda b: b.posterior)
        for w, _, posterior in found:
            if w > 1e-12:
                one = np.zeros(1, np.int64)
                rewards = posterior.rewards(one, np.ones((1, 1)), None)
                chance, _ = rewards.best(rng, everything, 0)
                expected += weight * w * chance[0]
    np.testing.assert_allclose(ours, expected, atol=1e-7)


@pytest.mark.parametrize("kind", ["arms", "full"])
@pytest.mark.parametrize("n", [0, 7])
def test_decisions_agree_with_draws(kind: str, n: int) -> None:
    """Brute force: parameters drawn from the belief, their best actions counted."""
    problem, rng = Problem(kind, max(n, 1)), np.random.default_rng(2)
    actions = None if kind == "arms" else rng.normal(size=(4, problem.size))
    agent = mixts.MixTS(problem.prior, seed=1, n_samples=20000)
    if n:
        agent.update(problem.actions, problem.outcomes)
    size = 100_000
    belief = problem.prior.condition(agent.belief.statistics)
    latent = rng.choice(3, size=size, p=belief.weights)
    posterior = belief.posterior
    means = problem.prior.family.mean_rewards(
        posterior.sample(rng, np.zeros(size, np.int64), latent), actions
    )
    counted = np.bincount(means.argmax(axis=1), minlength=means.shape[1]) / size
    ours, error = agent.action_probabilities(actions)
    spread = np.sqrt(counted * (1 - counted) / size + error**2)
    assert (np.abs(ours - counted) < 5 * spread + 1e-4).all()
    ids = mixts.MixIDS(problem.prior, seed=1, n_samples=20000)
    if n:
        ids.update(problem.actions, problem.outcomes)
    regret, _ = ids.terms(actions)
    gaps = means.max(axis=1, keepdims=True) - means
    assert (np.abs(regret - gaps.mean(axis=0)) < 0.02 * gaps.std(axis=0).max() + 0.01).all()
    ucb = mixts.BayesUCB(problem.prior, seed=1)
    rewards = posterior.rewards(
        np.zeros(1, np.int64), belief.weights[None], None if actions is None else actions
    )
    level = np.array([0.9])
    below = (means <= rewards.quantiles(level)[0]).mean(axis=0)
    assert (np.abs(below - 0.9) < 5 * np.sqrt(0.09 / size)).all()
    assert ucb.act(actions) in range(means.shape[1])


def test_information_is_that_of_draws() -> None:
    problem, rng = Problem("arms", 3), np.random.default_rng(5)
    belief = problem.belief()
    weights, size = belief.weights, 400_000
    latent = rng.choice(3, size=size, p=weights)
    posterior = belief.posterior
    means = posterior.sample(rng, np.zeros(size, np.int64), latent)[:, : problem.size]
    rewards = posterior.rewards(np.zeros(1, np.int64), weights[None], None)
    np.testing.assert_allclose(rewards.variances()[0], means.var(axis=0), rtol=0.03)


@pytest.mark.parametrize("kind", ["arms", "full"])
def test_with_many_degrees_the_noise_is_known(kind: str) -> None:
    problem = Problem(kind, 12)
    if kind == "arms":
        student: Any = mixts.StudentArms(problem.mean, problem.variance, 0.7, 1e8)
        known: Any = mixts.GaussianArms(problem.mean, problem.variance, 0.7)
    else:
        student = mixts.LinearStudent(problem.mean, problem.variance, 0.7, 1e8)
        known = mixts.LinearGaussian(problem.mean, problem.variance, 0.7)
    actions = None if kind == "arms" else np.random.default_rng(1).normal(size=(4, problem.size))
    agents = [mixts.MixTS(mixts.MixturePrior(f), seed=3, n_samples=400) for f in (student, known)]
    for agent in agents:
        agent.update(problem.actions, problem.outcomes)
    ours, theirs = (agent.belief for agent in agents)
    np.testing.assert_allclose(ours.log_evidence, theirs.log_evidence, atol=1e-5)
    n = problem.size
    np.testing.assert_allclose(ours.mean[:n], theirs.mean, rtol=1e-6)
    np.testing.assert_allclose(ours.covariance[:n, :n], theirs.covariance, rtol=1e-5, atol=1e-9)
    assert ours.mean[n] == pytest.approx(0.7, rel=1e-6)
    (first, error), (second, _) = (agent.action_probabilities(actions) for agent in agents)
    assert (np.abs(first - second) < 1e-6 + 5 * error).all()


@pytest.mark.parametrize("kind", ["arms", "full", "diag"])
def test_extreme_scales_keep_their_digits(kind: str) -> None:
    """Noise near 1e-3 and rewards near 1000: as if they were near 0, in units of the noise."""
    small = Problem(kind, 30, scale=1e-3)
    plain = Problem(kind, 30)
    shift = 1000.0 if kind == "arms" else 0.0
    mean = small.mean + shift
    if kind == "arms":
        family: Any = mixts.StudentArms(mean, small.variance, small.noise, DEGREES)
    else:
        # A constant feature takes the shift.
        mean = np.column_stack([mean, np.full(3, 1000.0)])
        wide = np.zeros((3, 4, 4))
        covariance = small.variance if kind == "full" else small.variance[..., None] * np.eye(3)
        wide[:, :3, :3] = covariance
        wide[:, 3, 3] = 1e-12
        family = mixts.LinearStudent(mean, wide, small.noise, DEGREES)
    belief = mixts.MixturePrior(family).belief()
    if kind == "arms":
        belief.update(small.actions, small.outcomes + 1000.0)
    else:
        belief.update(np.column_stack([small.actions, np.ones(30)]), small.outcomes + 1000.0)
    expected = plain.prior.belief()
    expected.update(plain.actions, plain.outcomes)
    # One observation loses 1e-13 of 1000 beside noise of 1e-3: some 1e-10 of a deviation each.
    gap = belief.log_evidence - (expected.log_evidence - 30 * np.log(1e-3))
    tolerance = 1e-6 if kind == "arms" else 1e-3  # the constant has a variance of its own
    assert np.abs(gap).max() < tolerance


@pytest.mark.parametrize("kind", ["arms", "tied"])
def test_draws_are_calibrated(kind: str) -> None:
    """Ranks of the true parameters among posterior draws are uniform, for theta and sigma."""
    problem, rng = Problem(kind), np.random.default_rng(11)
    prior, n_tasks, n_draws = problem.prior, 3000, 19
    family = prior.family
    _, parameters = prior.draw(rng, n_tasks)
    belief = prior.belief(n_tasks)
    tasks = np.arange(n_tasks)
    for _ in range(6):
        if kind == "arms":
            actions: Any = rng.integers(problem.size, size=n_tasks)
            means = parameters[tasks, actions]
        else:
            actions = rng.normal(size=(n_tasks, problem.size))
            means = (actions * parameters[:, : problem.size]).sum(axis=1)
        laws = family.reward_parameters(parameters, actions if kind == "arms" else tasks, means)
        belief.update(actions, family.outcomes(rng, laws))
    rank = np.zeros(parameters.shape, int)
    for _ in range(n_draws):
        _, drawn = belief.sample(rng)
        rank += drawn < parameters
    for column in range(parameters.shape[1]):
        counts = np.bincount(rank[:, column], minlength=n_draws + 1)
        assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["arms", "full"])
def test_waiting_decisions_shrink_means_and_not_the_noise(kind: str) -> None:
    problem, rng = Problem(kind, 10), np.random.default_rng(4)
    agent = mixts.BayesUCB(problem.prior, seed=1)
    agent.update(problem.actions, problem.outcomes)
    actions = None if kind == "arms" else rng.normal(size=(4, problem.size))
    waited = np.zeros(20, int) if actions is None else np.repeat(actions[:1], 20, axis=0)
    from mixts.families.base import Waiting

    posterior, weights = agent.belief.posterior, agent.belief.weights[None]
    one = np.zeros(1, np.int64)
    before = posterior.rewards(one, weights, actions)
    after = posterior.rewards(one, weights, actions, Waiting(np.zeros(20, np.int64), waited))
    assert after.variances()[0, 0] < 0.3 * before.variances()[0, 0]
    assert after.means()[0, 0] == pytest.approx(before.means()[0, 0], abs=0.1)
    ratio = after.marginal.noise() / before.marginal.noise()
    assert (ratio >= 1 - 1e-12).all()
    assert (ratio < 1.3).all()
    assert agent.act(actions, waiting=waited) in range(4)


def test_the_noise_of_a_posterior_is_read_from_it() -> None:
    """A posterior as a prior: the same predictions as with the history before."""
    for kind in KINDS:
        problem = Problem(kind, 20)
        belief = problem.belief()
        again = belief.as_prior().belief()
        belief_more = problem.belief()
        belief_more.update(problem.actions[:9], problem.outcomes[:9])
        again.update(problem.actions[:9], problem.outcomes[:9])
        gain = belief_more.log_evidence - belief.log_evidence
        np.testing.assert_allclose(again.log_evidence, gain, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("degrees", [2.0, 1.0, -3.0, np.nan])
def test_too_few_degrees_are_refused(degrees: float) -> None:
    with pytest.raises(mixts.errors.ParameterError, match="degrees"):
        mixts.StudentArms([[0.0, 1.0]], [[1.0, 1.0]], 1.0, degrees)
    with pytest.raises(mixts.errors.ParameterError, match="degrees"):
        mixts.LinearStudent([[0.0, 1.0]], [1.0], 1.0, degrees, "spherical")


def test_new_arms_share_the_noise() -> None:
    family = mixts.StudentArms([[0.0, 1.0]], [[1.0, 2.0]], 0.5, 6.0)
    prior = mixts.MixturePrior(family)
    joined = prior.with_arms(mixts.StudentArms([[3.0]], [[0.5]], 0.5, 6.0)).family
    assert joined.mean.tolist() == [[0.0, 1.0, 3.0]]
    with pytest.raises(mixts.errors.ParameterError, match="share its noise"):
        prior.with_arms(mixts.StudentArms([[3.0]], [[0.5]], 0.7, 6.0))
    assert prior.arm_prior.noise_std.tolist() == [0.5]
