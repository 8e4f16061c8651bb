from __future__ import annotations

import numpy as np
import pytest

from mixts.errors import ParameterError
from mixts.simulation import Results
from mixts.simulation.results import Sweep


def one_result(*regret: list[list[float]]) -> Results:
    """Runs of two rounds of agents "one" and "two"."""
    arrays = dict(zip(("one", "two"), map(np.array, regret), strict=False))
    n_runs = len(regret[0])
    settings = {"n_runs": n_runs, "n_rounds": 2, "seed": 0}
    return Results(arrays, arrays, np.zeros(n_runs, np.int64), settings)


@pytest.fixture
def sweep() -> Sweep:
    """Three runs at two values; sums 1, 3, 8 and 2, 6, 4 of the first agent."""
    first = one_result([[1.0, 0.0], [2.0, 1.0], [8.0, 0.0]], [[0.0, 0.0]] * 3)
    second = one_result([[1.0, 1.0], [3.0, 3.0], [4.0, 0.0]], [[0.5, 0.5]] * 3)
    return Sweep.of("width", [0.1, 0.25], [first, second])


def test_totals_are_sums_over_rounds(sweep: Sweep) -> None:
    np.testing.assert_array_equal(sweep.totals["one"], [[1, 3, 8], [2, 6, 4]])
    np.testing.assert_array_equal(sweep.totals["two"], [[0, 0, 0], [1, 1, 1]])
    np.testing.assert_array_equal(sweep.values, [0.1, 0.25])
    assert sweep.agents == ["one", "two"]
    assert sweep.n_runs == 3


def test_means_errors_and_medians(sweep: Sweep) -> None:
    mean, error = sweep.regret("one")
    np.testing.assert_allclose(mean, [4, 4])
    # Deviations -3, -1, 4 and -2, 2, 0: variances 26 / 2 and 8 / 2, divided by 3 runs.
    np.testing.assert_allclose(error, np.sqrt([13 / 3, 4 / 3]))
    np.testing.assert_array_equal(sweep.median("one"), [3, 4])


def test_growth_is_a_ratio_run_by_run(sweep: Sweep) -> None:
    ratio, error = sweep.growth("one")
    assert ratio == 1.0
    # Differences 1, 3, -4 about 0: variance 26 / 2, error sqrt(13 / 3), relative to a mean of 4.
    assert error == pytest.approx(np.sqrt(13 / 3) / 4)
    doubled = Sweep("width", np.array([0.0, 1.0]), {"x": np.array([[1.0, 3.0], [2.0, 6.0]])})
    assert doubled.growth("x") == (2.0, 0.0)


def test_growth_from_nothing(sweep: Sweep) -> None:
    mean, error = sweep.growth("two")
    assert mean == float("inf")
    assert np.isnan(error)
    assert np.isnan(Sweep("w", np.ones(1), {"x": np.zeros((1, 2))}).growth("x").mean)


def test_the_error_of_growth_is_that_of_simulated_ratios() -> None:
    rng = np.random.default_rng(0)
    n, n_sweeps = 400, 1000
    shared = rng.normal(size=(n_sweeps, n))
    first = 10 + shared + rng.normal(size=shared.shape)
    last = 20 + 2 * shared + rng.normal(size=shared.shape)
    growths = [
        Sweep("w", np.arange(2.0), {"x": np.stack(pair)}).growth("x")
        for pair in zip(first, last, strict=True)
    ]
    spread = np.std([growth.mean for growth in growths])
    # A standard deviation from 1,000 numbers has a relative error of 1 / sqrt(2,000) = 2.2%.
    assert np.mean([growth.error for growth in growths]) == pytest.approx(spread, rel=4 * 0.0224)


def test_the_table_is_tidy(sweep: Sweep) -> None:
    table = sweep.table()
    assert list(table) == ["agent", "value", "run", "regret"]
    assert {len(column) for column in table.values()} == {2 * 2 * 3}
    rows = list(zip(*table.values(), strict=True))
    assert len({row[:3] for row in rows}) == 12
    for agent, value, run, regret in rows:
        assert regret == sweep.totals[agent][[0.1, 0.25].index(value), run]


def test_repr_is_a_small_table(sweep: Sweep) -> None:
    assert repr(sweep).splitlines() == [
        "Sweep over width, 3 runs at each value",
        "  width          one  median          two  median",
        "    0.1  4.00 ± 2.08    3.00  0.00 ± 0.00    0.00",
        "   0.25  4.00 ± 1.15    4.00  1.00 ± 0.00    1.00",
    ]


def test_one_run_has_no_error() -> None:
    single = Sweep("w", np.array([1.0, 2.0]), {"x": np.array([[1.0], [3.0]])})
    assert np.isnan(single.regret("x").error).all()
    assert single.growth("x").mean == 3.0
    assert np.isnan(single.growth("x").error)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("values", "totals", "message"),
    [
        ([0.2, 0.1], {"x": np.ones((2, 3))}, r"must increase, got \[0.2, 0.1\]"),
        ([0.1, 0.1], {"x": np.ones((2, 3))}, "must increase"),
        ([0.1, np.inf], {"x": np.ones((2, 3))}, "values must be finite, got inf"),
        ([], {"x": np.ones((0, 3))}, "values is empty"),
        ([0.1], {}, r"equally many runs for every agent, got shapes \{\}"),
        ([0.1], {"x": np.ones((2, 3))}, r"each of the 1 values .* \{'x': \(2, 3\)\}"),
        ([0.1], {"x": np.ones((1, 3)), "y": np.ones((1, 4))}, "equally many runs"),
        ([0.1], {"x": np.ones(3)}, r"one row for each of the 1 values .* \{'x': \(3,\)\}"),
        ([0.1], {"x": np.full((1, 3), np.nan)}, "totals must be finite"),
        ([0.1], {"x": [["a"]]}, "the totals of 'x' must be numbers"),
    ],
)
def test_what_is_not_a_sweep(values: list[float], totals: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Sweep("width", values, totals)  # type: ignore[arg-type]


@pytest.mark.usefixtures("unchecked")
def test_results_that_do_not_belong_together(sweep: Sweep) -> None:
    first = one_result([[1.0, 0.0]], [[0.0, 0.0]])
    with pytest.raises(ParameterError, match="one row for each of the 2 values"):
        Sweep.of("width", [0.1, 0.2], [first])
    more = one_result([[1.0, 0.0]] * 2, [[0.0, 0.0]] * 2)
    with pytest.raises(ParameterError, match=r"with 1 at first, \['one', 'two'\] with 2 later"):
        Sweep.of("width", [0.1, 0.2], [first, more])
    with pytest.raises(ParameterError, match="same agents"):
        Sweep.of("width", [0.1, 0.2], [first, one_result([[1.0, 0.0]])])
    with pytest.raises(ParameterError, match=r"no agent 'three'; agents: \['one', 'two'\]"):
        sweep.median("three")
