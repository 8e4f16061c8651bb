"""Confidence sets for any eta, against their definition written out with loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from mixts_paper.analysis.confidence import ConfidenceSets

from mixts.errors import ParameterError
from mixts.simulation import Results


def handmade(seed: int, n_runs: int = 4, n_rounds: int = 12, n: int = 3) -> ConfidenceSets:
    rng = np.random.default_rng(seed)
    shape = (n_runs, n_rounds)
    results = Results({}, {}, rng.integers(n, size=n_runs), {})
    return ConfidenceSets(
        sampled=rng.integers(n, size=shape),
        excess=rng.normal(0.3, 1, shape),
        width=rng.uniform(0.1, 1, shape),
        error=rng.uniform(0, 0.1, shape),
        radius_factor=0.4,
        n_components=n,
        results=results,
    )


@pytest.mark.parametrize("eta", [-0.3, 0.0, 0.2, 1.0, math.sqrt(2)])
def test_counts_gaps_and_sets(eta: float) -> None:
    sets = handmade(0)
    for run in range(4):
        for t in range(13):
            for s in range(3):
                before = [i for i in range(t) if sets.sampled[run, i] == s]
                gap = sum(sets.excess[run, i] - eta * sets.width[run, i] for i in before)
                error = math.sqrt(sum(sets.error[run, i] ** 2 for i in before))
                at = run, t, s
                assert sets.counts[at] == len(before)
                assert sets.gap(eta)[at] == pytest.approx(gap)
                assert sets.total_error[at] == pytest.approx(error)
                assert sets.radius[at] == pytest.approx(0.4 * math.sqrt(len(before)))
                assert sets.contains(eta)[at] == (gap <= 0.4 * math.sqrt(len(before)))


def test_the_default_eta_is_the_proofs() -> None:
    sets = handmade(0)
    np.testing.assert_array_equal(sets.gap(), sets.gap(math.sqrt(2)))
    np.testing.assert_array_equal(sets.contains(), sets.contains(math.sqrt(2)))
    np.testing.assert_array_equal(sets.excluded(), sets.excluded(math.sqrt(2)))
    np.testing.assert_array_equal(sets.missed(), sets.missed(math.sqrt(2)))


@pytest.mark.parametrize("seed", range(5))
def test_ever_excluded_ever_missed_and_the_sweep(seed: int) -> None:
    sets = handmade(seed)
    etas = [0.0, 0.1, 0.3, 0.5, 1.0]
    table = sets.sweep(etas)
    assert list(table) == ["eta", "excluded", "missed", "size", "missed_rounds"]
    for row, eta in enumerate(etas):
        inside = sets.contains(eta)
        lost = {(r, s) for r in range(4) for s in range(3) if not all(inside[r, :, s])}
        assert {tuple(map(int, at)) for at in np.argwhere(sets.excluded(eta))} == lost
        truly = [(r, int(sets.latent[r])) in lost for r in range(4)]
        assert sets.missed(eta).tolist() == truly
        assert table["eta"][row] == eta
        assert table["excluded"][row] == len({r for r, _ in lost}) / 4
        assert table["missed"][row] == sum(truly) / 4
        assert table["size"][row] == pytest.approx(inside[:, :12].sum() / 48)
        without = sum(not inside[r, t, sets.latent[r]] for r in range(4) for t in range(12))
        assert table["missed_rounds"][row] == without / 4


@pytest.mark.parametrize("seed", range(5))
def test_thresholds_are_where_states_are_first_lost(seed: int) -> None:
    sets = handmade(seed)
    up, down = 1 + 1e-12, 1 - 1e-12
    for threshold, lost in ((sets.exclusion, sets.excluded), (sets.miss, sets.missed)):
        above, below = sorted((threshold.eta * up, threshold.eta * down))[::-1]
        assert not lost(above).any()
        assert lost(below).any()
        at = threshold.run, threshold.round, threshold.state
        assert sets.contains(above)[at]
        assert not sets.contains(below)[at]
        assert threshold.error == pytest.approx(sets.total_error[at] / sets.total_width[at])
    assert sets.miss.state == sets.latent[sets.miss.run]
    assert sets.miss.eta <= sets.exclusion.eta


def test_what_is_certain_is_refuted_at_every_eta_or_at_none() -> None:
    """Widths of zero: a component whose means are known exactly."""
    results = Results({}, {}, np.array([0, 0]), {})
    zero = np.zeros((2, 2))
    sets = ConfidenceSets(
        np.array([[0, 1], [0, 0]]), np.array([[0.1, 5.0], [0.2, 0.2]]), zero, zero, 1.0, 2, results
    )
    assert sets.exclusion == (math.inf, 0.0, 0, 2, 1)
    assert sets.miss.eta == -math.inf
    assert sets.excluded(1e300).tolist() == [[False, True], [False, False]]


def test_what_is_shown() -> None:
    sets = handmade(1)
    lines = repr(sets).splitlines()
    assert lines[0] == "ConfidenceSets of 4 runs of 12 rounds, 3 latent states"
    eta, error, run, t, state = sets.exclusion
    assert lines[1] == (
        f"  exclude a state below eta {eta:.4g} ± {error:.2g} (state {state} in round {t} of run "
        f"{run})"
    )
    assert lines[2].startswith(f"  miss the true state below eta {sets.miss.eta:.4g}")
    modest = replace(sets, excess=sets.excess - 9, error=0 * sets.error)
    assert repr(modest).splitlines()[1:] == [
        f"  exclude a state below eta {modest.exclusion.eta:.4g}: never for eta > 0",
        f"  miss the true state below eta {modest.miss.eta:.4g}: never for eta > 0",
    ]


@pytest.mark.usefixtures("unchecked")
def test_an_invalid_eta_is_refused() -> None:
    sets = handmade(0)
    for eta in (math.nan, math.inf, "1", None, True):
        with pytest.raises(ParameterError, match="eta must be a finite number, got"):
            sets.gap(eta)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="etas must be numbers"):
        sets.sweep("all")
    with pytest.raises(ParameterError, match="eta must be a finite number, got nan"):
        sets.sweep([0.1, math.nan])
