"""The study of the page's predictions: its rival, its verdicts, and its table."""

from __future__ import annotations

import numpy as np
import pytest
from mixts_paper.studies import predicted

import mixts
from mixts.diagnostics.bestseller import pooled_scores


def test_gaps_are_in_standard_errors() -> None:
    means = {"rival": (0.5, 0.03), "agent": (0.6, 0.03), "gain": (0.1, 0.0)}
    live = {"rival": (0.4, 0.04), "agent": (0.65, 0.04), "gain": (0.25, 0.05)}
    row = predicted.Prediction("shop", 5, "ids", True, means, live)
    assert row.gaps == pytest.approx({"rival": 2.0, "agent": -1.0, "gain": -3.0})
    assert str(row).startswith("| shop | 5 | 0.500 ± 0.030 | 0.400 ± 0.040 | +2.0 | 0.600")


def test_the_rival_is_what_scikit_learn_fits() -> None:
    data = predicted.offers(1, n_rows=30, n_tasks=40)
    fit = mixts.fit_logs(data.rows, data.columns, n_components=1, held_out=0, seed=1, engine=1)
    mine = predicted.rival_scores(fit, data, data.rows)
    page = pooled_scores(fit.learned.unimodal, fit.training_tasks)
    np.testing.assert_allclose(mine, page, atol=0.1)


@pytest.mark.slow
def test_restricted_choices_are_told_from_free_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten views of five banners are too few for five decisions, and sixty are enough."""
    monkeypatch.setattr(predicted, "HORIZONS", (5,))
    monkeypatch.setattr(predicted, "N_LIVE", 400)
    for n_views, known in ((60, True), (10, False)):
        (row,) = predicted.measure("shop", predicted.shop(1, n_views, n_tasks=250))
        assert row.known == known
        if known:
            assert max(map(abs, row.gaps.values())) < 4


def test_the_summary_counts_what_was_claimed() -> None:
    right = {"rival": (0.5, 0.03), "agent": (0.6, 0.03), "gain": (0.1, 0.03)}
    wrong = {"rival": (0.5, 0.03), "agent": (0.6, 0.03), "gain": (0.3, 0.03)}
    rows = [
        predicted.Prediction("shop", 5, "ids", True, right, right),
        predicted.Prediction("shop", 5, "ids", True, right, wrong),
        predicted.Prediction("tea", 5, "ids", False, right, wrong),
    ]
    assert predicted.summary(rows) == "5 of 6 claimed predictions are within two errors."
