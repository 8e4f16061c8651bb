"""The study of revenue: its customers, its table, and what it compares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from studies import spend
from studies._shared import stream


def test_customers_earn_their_mean() -> None:
    rng = stream(1, "test")
    customers = spend.draw_customers(spend.draw_world(rng), 3, rng)
    n = 400_000
    rows, arms = np.repeat(np.arange(3), n), np.repeat([0, 4, 7], n)
    spent = customers.spend(rows, arms, rng.random(3 * n), rng.standard_normal(3 * n))
    found = spent.reshape(3, n)
    error = found.std(axis=1) / np.sqrt(n)
    assert (np.abs(found.mean(axis=1) - customers.mean[[0, 1, 2], [0, 4, 7]]) < 4 * error).all()


def test_the_best_offer_earns_the_best() -> None:
    rng = stream(2, "test")
    customers = spend.draw_customers(spend.draw_world(rng), 20, rng)

    class Best(spend.Bestseller):
        def __init__(self) -> None:
            self._arms = customers.mean.argmax(axis=1)

    found = spend.play(Best(), customers, rng)
    np.testing.assert_allclose(found, np.repeat(customers.mean.max(axis=1)[:, None], 3, axis=1))


def test_gains_are_paired_with_one_component() -> None:
    keys = [(spend.BASE, "MixTS"), ("spend, auto", "MixTS"), ("", spend.BESTSELLER)]
    one = spend.Measured({}, {key: np.full(3, float(i)) for i, key in enumerate(keys)}, 9.0)
    two = replace(one, revenue={**one.revenue, keys[1]: np.array([1.0, 3.0, 5.0])})
    mean, error = spend.gain([one, two], keys[1])
    np.testing.assert_allclose(mean, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(error, [0.0, 1.0, 2.0])
    np.testing.assert_allclose(spend.gain([one, two], keys[2])[0], 2.0)


def test_the_study_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {**spend.LEARNING, "max_components": 2, "n_folds": 2, "tolerance": 0.01}
    monkeypatch.setattr(spend, "LEARNING", small)
    monkeypatch.setattr(spend, "HORIZONS", (1, 2))
    spend.main(["--worlds", "2", "--past", "40", "--new", "20"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[2:-1:3]] == [
        "spend, auto", spend.BASE, "Gaussian, auto",
    ]  # fmt: skip
    assert len(lines) == 12
    assert all(("±" in line) == (spend.BASE not in line) for line in lines[1:-1])
    with pytest.raises(SystemExit):
        spend.main(["--worlds", "1"])


def test_one_order_raises_the_mean_of_its_offer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spend, "LEARNING", {**spend.LEARNING, "tolerance": 0.01})
    monkeypatch.setattr(spend, "HORIZONS", (1, 2))
    spend.main(["--worlds", "2", "--past", "40", "--new", "20", "--order", "1e5"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    usual, distorted, clipped = (float(line[14:32]) for line in lines[1:])
    assert distorted > 1.5 * usual
    assert clipped < distorted
