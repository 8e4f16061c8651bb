"""The paper's synthetic bandit (d = 30, L = 30, unit vectors): what its regret must be.

Component s has mean 0.9 at its own arm and 0.1 at all others; the rewards' noise is 0.1.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import mixts
from mixts.environments import BanditEnvironment
from mixts.simulation import Results, simulate

N = 30
MEANS = 0.1 + 0.8 * np.eye(N)
NOISE = 0.1


def arms(width: float) -> mixts.MixturePrior:
    return mixts.MixturePrior(mixts.GaussianArms(MEANS, np.full((N, N), width**2), NOISE))


def linear(width: float) -> mixts.MixturePrior:
    family = mixts.LinearGaussian(MEANS, np.full(N, width**2), NOISE, covariance_type="spherical")
    return mixts.MixturePrior(family)


@pytest.mark.parametrize(
    ("width", "n_rounds"),
    [
        (0.2, 300),
        pytest.param(0.2, 1000, marks=pytest.mark.slow),
        pytest.param(0.05, 1000, marks=pytest.mark.slow),
    ],
)
def test_arms_and_linear_have_the_same_mean_regret(width: float, n_rounds: int) -> None:
    """Two implementations of the posteriors, on independent seeds."""
    # In one block: the checks of shapes while tests run cost most per call.
    play = partial(simulate, n_rounds=n_rounds, n_runs=200, block_size=200)
    by_arms = play({"MixTS": arms(width)}, BanditEnvironment(arms(width)), seed=1)
    by_rows = play({"MixTS": linear(width)}, BanditEnvironment(linear(width), np.eye(N)), seed=2)
    one, other = by_arms.summary()["MixTS"].regret, by_rows.summary()["MixTS"].regret
    assert abs(one.mean - other.mean) < 4 * np.hypot(one.error, other.error)
    # The comparison could tell: the regret is many standard errors from nothing.
    assert min(one.mean / one.error, other.mean / other.error) > 8


@pytest.mark.parametrize("kind", ["arms", "linear"])
def test_without_width_regret_is_one_wrong_arm_after_another(kind: str) -> None:
    """0.8 times a number of wrong arms that is uniform on 0, ..., L - 1: mean 0.8 (L - 1) / 2.

    The arms' two means are 8 standard deviations of the noise apart, so one reward tells.
    """
    n_runs = 1000
    if kind == "arms":
        prior = arms(0.0)
        environment = BanditEnvironment(prior)
    else:
        prior = linear(0.0)
        environment = BanditEnvironment(prior, np.eye(N))
    results = simulate({"MixTS": prior}, environment, n_rounds=60, n_runs=n_runs, seed=3)
    wrong = results.regret["MixTS"].sum(axis=1) / 0.8
    np.testing.assert_allclose(wrong, np.round(wrong), atol=1e-9)
    assert set(np.round(wrong)) == set(range(N))
    error = np.sqrt((N**2 - 1) / 12 / n_runs)
    assert abs(wrong.mean() - (N - 1) / 2) < 4 * error


@pytest.fixture(scope="module")
def comparison() -> Results:
    prior = arms(0.2)
    agents = {
        "MixTS": prior,
        "Exp4": partial(mixts.Exp4, MEANS),
        "CorralExp4": partial(mixts.CorralExp4, prior),
        "Oracle": partial(mixts.Oracle, prior),
    }
    environment = BanditEnvironment(prior)
    return simulate(agents, environment, n_rounds=300, n_runs=100, seed=4, block_size=100)


def test_knowing_the_latent_state_helps_and_is_not_all(comparison: Results) -> None:
    gain, error = comparison.difference("MixTS", "Oracle")
    assert gain > 4 * error
    regret, error = comparison.summary()["Oracle"].regret
    assert regret > 4 * error


@pytest.mark.parametrize("other", ["Exp4", "CorralExp4"])
def test_votes_cost_more_than_a_belief(comparison: Results, other: str) -> None:
    loss, error = comparison.difference(other, "MixTS")
    assert loss > 4 * error


def test_the_example_prints_a_line_for_each_agent(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "examples" / "synthetic_bandit.py"
    options = ["--runs", "3", "--rounds", "20", "--csv", str(tmp_path / "rounds.csv")]
    done = subprocess.run(
        [sys.executable, str(script), *options],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    head, _, *lines = done.stdout.splitlines()
    assert head == "Results of 3 runs of 20 rounds, seed 1"
    names = [line.split()[0] for line in lines[:6]]
    assert names == ["Oracle", "MixTS", "UniTS", "TS", "CorralExp4", "Exp4"]
    assert len((tmp_path / "rounds.csv").read_text().splitlines()) == 1 + 6 * 3 * 20
