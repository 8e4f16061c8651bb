"""Recorded decompositions, compared with an independent computation from the histories."""

from __future__ import annotations

import functools
import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from mixts_paper.analysis import (
    Decomposition,
    DecompositionObserver,
    Inequality,
    decompose_regret,
)

import mixts
from mixts import MixturePrior, _random
from mixts.environments import BanditEnvironment
from mixts.environments.bandit import BanditProblem
from mixts.errors import ParameterError
from mixts.simulation import Simulation, prepare, simulate
from mixts.simulation.simulate import assemble
from paper.tests.unit.analysis.problems import gaussian, linear

N_ROUNDS, N_RUNS, BLOCK, SEED = 7, 5, 3, 23


# -- problems --------------------------------------------------------------------------------------


def constant() -> tuple[mixts.MixturePrior, BanditEnvironment]:
    """One action set for all rounds, of features longer than 1."""
    return linear(np.random.default_rng(3).normal(size=(6, 4)))


PROBLEMS: dict[str, Callable[[], tuple[mixts.MixturePrior, BanditEnvironment]]] = {
    "gaussian": gaussian,
    "linear": linear,
    "constant": constant,
}


@functools.cache
def decomposed(name: str) -> Decomposition:
    return decompose_regret(*PROBLEMS[name](), N_ROUNDS, N_RUNS, SEED, block_size=BLOCK)


class Run(NamedTuple):
    """One run as it was played: the truth, and everything that was offered and done."""

    latent: int
    theta: Any
    sampled: list[int]
    offered: list[Any]
    chosen: list[int]
    rewards: list[float]


def play(name: str) -> list[Run]:
    """The runs of ``simulate``, by hand; arms are unit vectors."""
    prior, environment = PROBLEMS[name]()
    runs = []
    for block, start in enumerate(range(0, N_RUNS, BLOCK)):
        n = min(BLOCK, N_RUNS - start)
        problem = environment.start(partial(_random.stream, SEED, "simulate", block), n)
        agent = mixts.MixTS(
            prior, n, _random.seed_sequence(SEED, "simulate", block, "agent", "MixTS")
        )
        block_runs = [
            Run(int(problem.latent[i]), problem.parameters[i], [], [], [], []) for i in range(n)
        ]
        for _ in range(N_ROUNDS):
            offer = problem.next_round()
            chosen = agent.act(offer.actions)
            outcome = problem.play(chosen)
            for i, run in enumerate(block_runs):
                sets = np.eye(3) if offer.actions is None else offer.actions
                run.offered.append(sets if sets.ndim == 2 else sets[i])
                run.sampled.append(int(agent.last_latent[i]))
                run.chosen.append(int(chosen[i]))
                run.rewards.append(float(outcome.rewards[i]))
            agent.update(*outcome.feedback)
        runs += block_runs
    return runs


def posteriors(family: Any, run: Run, t: int) -> tuple[Any, Any]:
    """theta_{t,s} and Sigma_{t,s} of every component before round t, inverted as Eq. 4 has them."""
    means, covariances = [], []
    noise = family.noise_std**2
    for s in range(family.n_components):
        precision = np.linalg.inv(family.full_covariances()[s])
        moment = precision @ family.mean[s]
        for k in range(t):
            a = run.offered[k][run.chosen[k]]
            precision = precision + np.outer(a, a) / noise
            moment = moment + a * run.rewards[k] / noise
        covariances.append(np.linalg.inv(precision))
        means.append(covariances[-1] @ moment)
    return np.array(means), np.array(covariances)


# -- what is recorded, from histories --------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_both_parts_and_all_norms_from_histories(name: str) -> None:
    prior, _ = PROBLEMS[name]()
    family = prior.family.to_linear() if name == "gaussian" else prior.family
    assert isinstance(family, mixts.LinearGaussian)
    measured = decomposed(name)
    close = partial(pytest.approx, rel=1e-9, abs=1e-12)
    for i, run in enumerate(play(name)):
        squares, largest, kappa = np.zeros(3), 0.0, 0.0
        for t in range(N_ROUNDS):
            means, covariances = posteriors(family, run, t)
            values = run.offered[t] @ run.theta
            best, taken = run.offered[t][np.argmax(values)], run.offered[t][run.chosen[t]]
            s, truth = run.sampled[t], run.latent
            assert measured.sampled[i, t] == s
            assert measured.first[i, t] == close(values.max() - best @ means[truth])
            assert measured.second[i, t] == close(taken @ means[s] - taken @ run.theta)
            assert measured.regret[i, t] == close(values.max() - taken @ run.theta)
            assert measured.norm[i, t] ** 2 == close(taken @ covariances[s] @ taken)
            assert measured.best_norm[i, t] ** 2 == close(best @ covariances[truth] @ best)
            norms = np.einsum("d,sde,e->s", taken, covariances, taken)
            squares += norms
            largest += math.sqrt(norms.max())
            kappa = max(kappa, np.linalg.norm(run.offered[t], axis=1).max())
        _, covariances = posteriors(family, run, N_ROUNDS)
        before = np.linalg.slogdet(family.full_covariances()).logabsdet
        ratios = before - np.linalg.slogdet(covariances).logabsdet
        np.testing.assert_allclose(measured.squared_norms[i], squares, rtol=1e-9)
        np.testing.assert_allclose(measured.log_determinant_ratios[i], ratios, rtol=1e-9)
        assert measured.largest_norms[i] == close(largest)
        assert measured.kappa[i] == close(kappa)
        assert measured.latent[i] == run.latent
    assert len(np.unique(measured.sampled)) == 3


def test_widths_and_the_gap() -> None:
    measured = decomposed("linear")
    scale = math.sqrt(2 * 4 * math.log(4 * N_ROUNDS))
    np.testing.assert_allclose(measured.width, scale * measured.norm)
    np.testing.assert_allclose(measured.best_width, scale * measured.best_norm)
    total = measured.first + measured.second
    np.testing.assert_array_equal(measured.gap, total - measured.regret)
    mean, error = measured.total("sum")
    assert mean == pytest.approx(total.sum(axis=1).mean())
    assert error == pytest.approx(total.sum(axis=1).std(ddof=1) / math.sqrt(N_RUNS))
    curve = measured.curve("first")
    assert curve.mean.shape == curve.error.shape == (N_ROUNDS,)
    assert curve.mean[-1] == pytest.approx(measured.total("first").mean)
    gap = measured.total("gap")
    assert measured.deviation == pytest.approx(gap.mean / gap.error)


def test_what_is_printed() -> None:
    text = str(decomposed("gaussian"))
    head, *rows = text.splitlines()
    assert head == "Decomposition of the regret of 5 runs of 7 rounds, seed 23"
    assert [row.split()[0] for row in rows] == ["first:", "second:", "sum:", "regret:", "gap:"]
    mean, error = decomposed("gaussian").total("regret")
    assert f"{mean:.2f} ± {error:.2f}" in rows[3]
    assert rows[4].endswith("standard errors from 0")


# -- the runs are those of simulate ----------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_runs_are_those_of_simulate(name: str) -> None:
    prior, environment = PROBLEMS[name]()
    results = simulate({"MixTS": prior}, environment, N_ROUNDS, N_RUNS, SEED, block_size=BLOCK)
    measured = decomposed(name)
    np.testing.assert_array_equal(measured.regret, results.regret["MixTS"])
    np.testing.assert_array_equal(measured.results.reward["MixTS"], results.reward["MixTS"])
    np.testing.assert_array_equal(measured.latent, results.latent)
    assert measured.results.settings == results.settings


def simulation(prior: MixturePrior, environment: BanditEnvironment) -> Simulation:
    observer = DecompositionObserver(prior)
    return prepare(
        {"MixTS": prior}, environment, N_ROUNDS, N_RUNS, SEED, block_size=BLOCK, observe=observer
    )


def test_blocks_are_plain_arrays_that_travel() -> None:
    """Played by a copy, last block first, and put together again."""
    prepared = simulation(*linear())
    copy = pickle.loads(pickle.dumps(prepared))
    blocks = [copy.play(block) for block in reversed(range(prepared.n_blocks))]
    for block, n in zip(blocks, (2, 3), strict=True):
        observed = block.observed["MixTS"].values()
        assert all(type(array) is np.ndarray and len(array) == n for array in observed)
    prior = linear()[0]
    together, expected = Decomposition.of(prior, assemble(prepared, blocks)), decomposed("linear")
    for field in ("first", "second", "regret", "sampled", "norm", "best_norm", "latent",
                  "squared_norms", "largest_norms", "log_determinant_ratios", "kappa"):  # fmt: skip
        np.testing.assert_array_equal(getattr(together, field), getattr(expected, field))
    for bad in ([], blocks[:1], [*blocks, blocks[0]]):
        with pytest.raises(ParameterError, match="expected every run from 0 to 4 once"):
            assemble(prepared, bad)


def test_progress_counts_every_decision() -> None:
    prepared = simulation(*gaussian())
    made: list[float] = []
    for block in range(prepared.n_blocks):
        prepared.play(block, made.append)
    assert sum(made) == N_RUNS * N_ROUNDS


# -- what the environment tells --------------------------------------------------------------------


def test_retired_arms_are_never_best() -> None:
    prior, _ = gaussian()
    retired = prior.retire_arms([0])
    problem = BanditEnvironment(retired).start(partial(_random.stream, 1), 50)
    assert isinstance(problem, BanditProblem)
    means = problem.means
    assert (means.argmax(axis=1) == 0).any()
    np.testing.assert_array_equal(problem.best_action, 1 + means[:, 1:].argmax(axis=1))
    with pytest.raises(ValueError, match="read-only"):
        means[0, 0] = 5.0
    measured = decompose_regret(retired, BanditEnvironment(retired), 5, 20, 0)
    np.testing.assert_array_equal(
        measured.regret,
        simulate({"MixTS": retired}, BanditEnvironment(retired), 5, 20, 0).regret["MixTS"],
    )
    assert (measured.regret >= 0).all()


# -- limits ----------------------------------------------------------------------------------------


def synthetic(width: float, n_components: int, n_arms: int) -> mixts.MixturePrior:
    means = 0.1 + 0.8 * np.eye(n_arms)[:n_components]
    variances = np.full((n_components, n_arms), width**2)
    return mixts.MixturePrior(mixts.GaussianArms(means, variances, 0.1))


def test_certain_components_leave_only_the_second_part() -> None:
    """Width 0: every mean is known given the state, and a wrong state promises 0.8 too much."""
    prior = synthetic(0.0, 6, 6)
    measured = decompose_regret(prior, BanditEnvironment(prior), 20, 40, 3)
    assert (measured.first == 0).all()
    assert (measured.norm == 0).all()
    wrong = measured.sampled != measured.latent[:, None]
    np.testing.assert_allclose(measured.second, 0.8 * wrong)
    np.testing.assert_allclose(measured.gap, 0, atol=1e-15)
    assert measured.deviation == 0
    steps = measured.inequalities()
    assert all(step.holds for step in steps.values())
    assert steps["squares"].tightness == 1
    assert steps["widths"].means[1].mean == 0


def test_with_one_component_only_actions_differ() -> None:
    prior = synthetic(0.5, 1, 4)
    measured = decompose_regret(prior, BanditEnvironment(prior), 10, 30, 3)
    assert (measured.sampled == 0).all()
    assert measured.norm.shape == (30, 10)
    np.testing.assert_allclose(measured.largest_norms, measured.norm.sum(axis=1))
    np.testing.assert_allclose(measured.squared_norms[:, 0], (measured.norm**2).sum(axis=1))


def test_a_single_run_has_no_error() -> None:
    measured = decompose_regret(*gaussian(), 4, 1, 0)
    assert math.isnan(measured.total("gap").error)
    assert math.isnan(measured.deviation)


# -- inequalities ----------------------------------------------------------------------------------


def test_inequalities_are_of_what_was_measured() -> None:
    """Each side once more, from the definitions in App. A."""
    measured = decomposed("linear")
    family = linear()[0].family
    assert isinstance(family, mixts.LinearGaussian)
    values = np.linalg.eigvalsh(family.covariance)
    largest, traces = values.max(axis=1), (1 / values).sum(axis=1)
    n, d, s2 = N_ROUNDS, 4, 0.25
    k2, top = measured.kappa.max() ** 2, largest.max()
    log_dn, widths = math.log(d * n), measured.width.sum(axis=1)
    growth = math.log(1 + n * k2 * top / (s2 * d))
    norms = math.sqrt((s2 + k2 * top) * n * d * growth)
    most = math.sqrt(2 * k2 * top * d * log_dn) + math.sqrt(k2)
    root = np.sqrt(n * measured.squared_norms.max(axis=1))
    identification = 2 * math.sqrt(s2 * 3 * n * math.log(n))
    tail = math.sqrt(k2 * top * d / (2 * math.pi))
    theorem = 4 * math.sqrt(d * log_dn) * norms + identification
    theorem += 9 * math.sqrt(2 * k2 * top * d * log_dn) + 2 * tail + 12 * math.sqrt(k2)
    expected = {
        "regret": (measured.regret.sum(axis=1), theorem),
        "first": (measured.first.sum(axis=1), measured.best_width.sum(axis=1) + tail),
        "second": (
            measured.second.sum(axis=1), math.sqrt(2) * widths + identification + 9 * most
        ),
        "widths": (widths, math.sqrt(2 * d * log_dn) * norms),
        "norms": (measured.norm.sum(axis=1), measured.largest_norms),
        "maxima": (measured.largest_norms, root),
        "root": (root, norms),
        "squares": (measured.squared_norms, (s2 + k2 * largest) * measured.log_determinant_ratios),
        "trace": (measured.log_determinant_ratios, d * np.log(1 + n * k2 / s2 / traces)),
        "determinant": (measured.log_determinant_ratios, d * growth),
    }  # fmt: skip
    steps = measured.inequalities()
    assert list(steps) == list(expected)
    for name, (left, right) in expected.items():
        np.testing.assert_allclose(steps[name].left, left, rtol=1e-9, err_msg=name)
        both = np.broadcast_to(right, np.shape(left))
        np.testing.assert_allclose(steps[name].right, both, rtol=1e-9, err_msg=name)
        assert steps[name].in_expectation == (name in ("regret", "first", "second"))
    needed = set(steps) - {"maxima", "trace"}
    assert all(steps[name].holds for name in needed)


def test_an_inequality_counts_cases() -> None:
    step = Inequality("a <= b", "here", np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([2.0, 1.0]))
    assert step.share == 0.5
    assert not step.holds
    assert step.tightness == 2.0
    assert [mean for mean, _ in step.means] == [1.5, 1.5]
    assert str(step) == (
        "a <= b (here): 1.5 <= 1.5 on average, tightness 2, holds in 50.0% of all cases"
    )


def test_an_inequality_of_expectations_allows_for_errors() -> None:
    """Differences 1.0 and 3.0 have the mean 2 and the standard error 1."""
    left = np.array([5.0, 7.0])
    assert Inequality("a", "b", left, np.array([4.0, 4.0]), True).holds
    assert not Inequality("a", "b", left, np.array([3.9, 3.9]), True).holds
    step = Inequality("a", "b", left, np.array([24.0, 24.0]), True)
    assert step.tightness == 0.25
    assert str(step).endswith("tightness 0.25, holds")


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_named() -> None:
    prior, environment = gaussian()
    poisson = mixts.MixturePrior(mixts.PoissonArms([[1.0, 2.0]], [[1.0, 1.0]]))
    few = prior.select([0])
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((prior.family, environment, 5, 5, 0), "prior must be a MixturePrior, got GaussianArms"),
        (
            (poisson, BanditEnvironment(poisson), 5, 5, 0),
            "GaussianArms or LinearGaussian, got Pois",
        ),
        ((prior, mixts.RiverSwim(), 5, 5, 0), "must be a BanditEnvironment, which knows"),
        ((few, environment, 5, 9, 0), "must be the prior's components, 0 to 0, got"),
        ((prior, environment, 0, 5, 0), "n_rounds must be .* got 0"),
        ((prior, environment, 5, 0.5, 0), "n_runs must be .* got 0.5"),
        ((prior, environment, 5, 5, -1), "seed must be .* got -1"),
    ]
    for arguments, message in cases:
        with pytest.raises(ParameterError, match=message):
            decompose_regret(*arguments)
