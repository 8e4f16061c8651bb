"""Clicks with features: options of learning, checks of priors, and data that say little."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.errors import ParameterError
from mixts.families import LinearBernoulliStatistics, LinearStatistics
from mixts.learning import flat_family, learn, robust_prior, statistics_of
from mixts.learning.measures import RateCalibration
from mixts.learning.models import model_of
from mixts.learning.models.predictive import Rates
from mixts.logs.fit import fit_logs
from mixts.logs.fitted import Fit
from mixts.pages.fit import FitRun, described, fit_kinds, write_fit_page
from tests.oracles.test_learned_clicks import KINDS, drawn

TASKS = drawn(KINDS, 40, 12, seed=7)
QUICK: dict[str, Any] = {"seed": 1, "n_restarts": 1, "max_iterations": 5, "engine": 1}


@pytest.fixture(autouse=True)
def _may_stop_early() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mixts.errors.ConvergenceWarning)
        yield


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_covariances_have_the_type_that_was_asked_for(kind: Any) -> None:
    for method in ("evidence", "two-stage"):
        prior = learn(TASKS, 2, method, covariance_type=kind, **QUICK).prior
        assert isinstance(prior.family, mixts.LinearBernoulli)
        assert prior.family.covariance_type == kind
        assert prior.n_components == 2
        assert np.isfinite(prior.condition(TASKS).log_evidence).all()
    model = model_of(TASKS, covariance_type=kind)
    family = model.unpack(model.pack(prior.family), 2)
    assert family is not None
    np.testing.assert_allclose(family.parameter_means(), prior.family.parameter_means())
    np.testing.assert_allclose(family.parameter_variances(), prior.family.parameter_variances())
    full = {"full": 2 * 3, "tied": 3, "diag": 2 * 2}[kind]
    assert model.n_parameters(2) == 1 + 2 * 2 + full


def test_priors_can_be_flat_or_robust() -> None:
    flat = flat_family(TASKS)
    assert isinstance(flat, mixts.LinearBernoulli)
    scales = TASKS.feature_scales**2
    np.testing.assert_allclose(flat.parameter_variances()[0] * scales, np.pi**2 / 6)
    prior = robust_prior(learn(TASKS, 1, **QUICK).prior, 0.05)
    assert prior.n_components == 2
    with pytest.raises(ParameterError, match="noise_std has no meaning"):
        learn(TASKS, 1, noise_std=1.0, **QUICK)


def test_the_limits_of_tables_stay() -> None:
    arrays = {name: TASKS.array(name) for name in TASKS.fields}
    rounded = LinearBernoulliStatistics(decimals=2, max_rows=500, **arrays)
    family = learn(rounded, 1, **QUICK).prior.family
    assert isinstance(family, mixts.LinearBernoulli)
    assert (family.decimals, family.max_rows) == (2, 500)


def test_histories_of_clicks_are_logistic() -> None:
    rows = np.array([[1.0, 0.0], [1.0, 2.0]])
    found = statistics_of([(rows, [0, 1]), (rows[:1], [1])])
    assert isinstance(found, LinearBernoulliStatistics)
    assert found.successes.tolist() == [1, 1]
    assert isinstance(statistics_of([(rows, [0, 0.5])]), LinearStatistics)
    linear = mixts.LinearGaussian.standard(2, 1.0)
    assert isinstance(statistics_of([(rows, [0, 1])], linear), LinearStatistics)


def table(rows: Any, trials: Any, won: Any, n: int) -> LinearBernoulliStatistics:
    """The same table for n tasks."""
    k = len(rows)
    return LinearBernoulliStatistics(
        size=np.full(n, k), rows=np.tile(rows, (n, 1)), trials=np.tile(trials, n),
        successes=np.tile(won, n),
    )  # fmt: skip


ODD = {
    "separable": table([[1.0, -1.0], [1.0, 1.0]], [9, 9], [0, 9], 10),
    "no clicks": table([[1.0, -1.0], [1.0, 1.0]], [9, 9], [0, 0], 10),
    "constant columns": table([[1.0, 2.0], [1.0, 2.5]], [5, 5], [2, 1], 10)
    .mapped(np.array([[1.0, 0.0], [3.0, 0.0]])),
    "a column of zeros": table([[1.0, 0.0]], [5], [2], 10),
    "one observation": drawn(KINDS, 30, 1, seed=8),
    "far apart": TASKS.mapped(np.diag([1.0, 1e6])),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_data_give_a_sound_prior(name: str) -> None:
    prior = learn(ODD[name], 1, **QUICK).prior
    assert np.isfinite(prior.family.parameter_means()).all()
    assert (prior.family.parameter_variances() > 0).all()
    assert np.isfinite(prior.condition(ODD[name]).log_evidence).all()
    again = learn(ODD[name], 2, **QUICK).prior
    assert again.weights.sum() == pytest.approx(1)


# -- checks ---------------------------------------------------------------------------------------


def test_a_right_prior_is_calibrated_and_a_wrong_one_is_not() -> None:
    tasks = drawn(KINDS, 250, 25, seed=9)
    right = mixts.check_prior(KINDS, tasks, seed=1, n_draws=49)
    assert right.calibration["rewards"].verdict == "calibrated"
    assert right.rates is not None
    assert right.rates.verdict == "calibrated"
    assert "Click rates: calibrated." in right.findings
    assert "Click rates, by class" in str(right)
    moved = KINDS.family.parameter_means() + np.array([0.7, 0.0])
    family = mixts.LinearBernoulli(moved, np.full(2, 0.2), "spherical")
    wrong = mixts.check_prior(mixts.MixturePrior(family, KINDS.weights), tasks, seed=1, n_draws=49)
    assert wrong.rates is not None
    assert "too high" in wrong.rates.verdict
    assert (
        wrong.evidence.verdict("UniTS") == "worse" or "low" in wrong.calibration["rewards"].findings
    )
    mixts.plot(right)


def test_surprising_tasks_are_found() -> None:
    tasks = drawn(KINDS, 30, 25, seed=10)
    odd = table([[1.0, 0.0]], [25], [25], 1)
    check = mixts.check_prior(KINDS, tasks.concatenate(odd), seed=1, n_draws=199)
    assert check.surprise.ranked()[0] == 30
    assert check.surprise.p_value[30] < 0.01 < check.surprise.p_value[:30].min() * 3


def test_classes_of_rates() -> None:
    rates = Rates(
        np.array([0.1, 0.3] * 5), np.full(10, 0.01), np.full(10, 4.0), np.array([1.0, 1.0] * 5)
    )
    found = RateCalibration.of(rates)
    np.testing.assert_allclose(found.predicted, [0.1] * 5 + [0.3] * 5)
    np.testing.assert_allclose(found.clicked, 0.25)
    # 4 clicks of one rate: 4 p (1 - p) + 4 * 3 * 0.01, divided by 4^2.
    np.testing.assert_allclose(found.error[:5] ** 2, (4 * 0.09 + 0.12) / 16)
    assert not found.judged  # 8 clicks are expected
    np.testing.assert_allclose(found.distances[5:], -0.05 / np.sqrt((4 * 0.21 + 0.12) / 16))


def test_many_rows_of_a_task_are_predicted_in_part() -> None:
    rows = np.column_stack([np.ones(700), np.linspace(-1, 1, 700)])
    tasks = table(rows, np.ones(700, int), np.zeros(700, int), 2)
    check = mixts.check_prior(KINDS, tasks, seed=1, n_draws=9)
    assert check.calibration["rewards"].n_predictions == 2 * 200


# -- from logs to a page --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    path = tmp_path_factory.mktemp("clicks") / "clicks.csv"
    tasks = drawn(KINDS, 60, 25, seed=11)
    lines = ["user,hours,clicked"]
    for owner, row, won in zip(
        tasks.owners, tasks.array("rows"), tasks.array("successes"), strict=True
    ):
        lines.append(f"u{owner},{2024 + row[1]:.3f},{won}")
    path.write_text("\n".join(lines) + "\n")
    columns = {"task": "user", "features": ["hours"], "reward": "clicked", "intercept": True}
    return described(fit_logs(path, columns, n_components=2, seed=1, engine=1))


def test_logs_of_clicks_give_a_logistic_prior(fit: Fit) -> None:
    assert isinstance(fit.prior.family, mixts.LinearBernoulli)
    assert fit.logs.why == "every reward is 0 or 1"
    assert fit.check is not None
    assert fit.check.rates is not None
    # Hours are around 2024: the rows are centred to learn, and the prior is not.
    rates = fit.prior.belief().mean_rewards([{"hours": 2024.0}, {"hours": 2026.0}])
    true = KINDS.belief().mean_rewards(np.array([[1.0, 0.0], [1.0, 2.0]]))
    np.testing.assert_allclose(rates, true, atol=0.12)


def test_kinds_are_described_in_odds(fit: Fit, tmp_path: Path) -> None:
    kinds = fit_kinds(fit)
    assert any("opposite effect" in kind.headline for kind in kinds)
    assert all("the odds" in " ".join((k.headline, *k.sentences)) for k in kinds)
    assert fit.prior.descriptions is not None
    page = tmp_path / "page.html"
    write_fit_page(fit, page, FitRun(Path("prior.json"), "clicked", "mixts fit", 1.0))
    text = page.read_text()
    assert "log odds" in text
    assert "Predicted click rates in ten classes" in text
