from __future__ import annotations

import csv
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mixts.environments import BanditEnvironment
from mixts.errors import MissingExtraError, ParameterError
from mixts.simulation import Estimate, Results, simulate
from mixts.simulation import results as module
from tests.unit.simulation.simulated_agents import FixedArm, prior

COLUMNS = ["agent", "run", "round", "latent", "regret", "reward"]


@pytest.fixture
def results() -> Results:
    """Three runs of two rounds, numbers chosen so that sums can be done in the head."""
    regret = {
        "one": np.array([[1.0, 0.0], [2.0, 1.0], [8.0, 0.0]]),
        "other, too": np.array([[0.0, 0.0], [1.0, 1.0], [7.0, 0.0]]),
    }
    reward = {name: 10 - 2 * array for name, array in regret.items()}
    settings = {"n_runs": 3, "n_rounds": 2, "seed": 7, "environment": "by hand", "block_size": 3}
    return Results(regret, reward, np.array([1, 0, 1]), settings)


def test_summary(results: Results) -> None:
    summary = results.summary()
    assert list(summary) == results.agents == ["one", "other, too"]
    one = summary["one"]
    # Totals 1, 3, 8: mean 4, deviations -3, -1, 4, variance 26 / 2, error sqrt(13 / 3).
    assert one.regret == (4.0, pytest.approx(np.sqrt(13 / 3)))
    assert one.median_regret == 3.0
    # Rewards per round 9, 7, 2: mean 6, the same deviations.
    assert one.reward == (6.0, pytest.approx(np.sqrt(13 / 3)))
    assert isinstance(one.regret.mean, float)
    assert isinstance(one.regret.error, float)


def test_curves(results: Results) -> None:
    regret = results.curve("one")
    np.testing.assert_allclose(regret.mean, [11 / 3, 4])
    spread = np.std([1, 2, 8], ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(regret.error, [spread, np.sqrt(13 / 3)])
    reward = results.curve("one", "reward")
    np.testing.assert_allclose(reward.mean, [10 - 22 / 3, 6])
    np.testing.assert_allclose(reward.error, [2 * spread, np.sqrt(13 / 3)])


def test_the_difference_is_paired(results: Results) -> None:
    # 1 - 0, 3 - 2, 8 - 7: no spread at all, though each agent alone has much.
    assert results.difference("one", "other, too") == (1.0, 0.0)
    assert results.difference("other, too", "one").mean == -1.0


def test_the_error_of_one_run_is_unknown() -> None:
    agents = {"x": partial(FixedArm, 0)}
    single = simulate(agents, BanditEnvironment(prior("gaussian")), 4, 1, seed=0)
    assert np.isnan(single.summary()["x"].regret.error)
    assert np.isnan(single.curve("x").error).all()
    assert single.curve("x").error.shape == (4,)
    assert "± nan" in repr(single)


@pytest.mark.usefixtures("unchecked")
def test_unknown_agents_and_quantities_are_refused(results: Results) -> None:
    with pytest.raises(ParameterError, match=r"no agent 'two'; agents: \['one', 'other, too'\]"):
        results.curve("two")
    with pytest.raises(ParameterError, match='expected "regret" or "reward", got \'latent\''):
        results.curve("one", "latent")


def test_repr_is_a_small_table(results: Results) -> None:
    assert repr(results).splitlines() == [
        "Results of 3 runs of 2 rounds, seed 7",
        "  agent       regret         median  reward/round",
        "  one           4.00 ± 2.08    3.00        6.0000 ± 2.0817",
        "  other, too    3.00 ± 2.08    2.00        7.0000 ± 2.0817",
    ]


def test_the_table_is_tidy(results: Results) -> None:
    table = results.table()
    assert list(table) == COLUMNS
    assert {len(column) for column in table.values()} == {2 * 3 * 2}
    for name, run, round_, latent, regret, reward in zip(*table.values(), strict=True):
        assert regret == results.regret[name][run, round_]
        assert reward == results.reward[name][run, round_]
        assert latent == results.latent[run]
    keys = set(zip(table["agent"], table["run"], table["round"], strict=True))
    assert len(keys) == 12


@pytest.fixture
def played() -> Results:
    """Real numbers, with all their digits."""
    gaussian = prior("gaussian")
    agents = {"MixTS": gaussian, "die Fünf": partial(FixedArm, 1)}
    return simulate(agents, BanditEnvironment(gaussian), 9, 11, seed=3, executor=1)


def test_csv_reads_back_to_the_bit(
    played: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 50)
    played.to_csv(tmp_path / "table.csv")
    with open(tmp_path / "table.csv", newline="", encoding="utf-8") as stream:
        head, *rows = csv.reader(stream)
    assert head == COLUMNS
    columns = dict(zip(head, zip(*rows, strict=True), strict=True))
    for name, column in played.table().items():
        np.testing.assert_array_equal(np.array(columns[name]).astype(column.dtype), column)


def test_a_failed_export_leaves_the_old_file(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.csv"
    results.to_csv(path)
    before = path.read_bytes()
    ragged = {**results.table(), "more": np.arange(3)}
    monkeypatch.setattr(Results, "table", lambda self: ragged)
    with pytest.raises(ValueError, match="zip"):
        results.to_csv(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_estimate_unpacks() -> None:
    mean, error = Estimate(1.0, 0.5)
    assert (mean, error) == (1.0, 0.5)


# -- data frames ----------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_are_the_table(results: Results, library: str) -> None:
    pytest.importorskip(library)
    frame = getattr(results, f"to_{library}")()
    assert list(frame.columns) == COLUMNS
    for name, column in results.table().items():
        assert frame[name].to_numpy().tolist() == column.tolist()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_without_its_library_says_what_to_install(
    results: Results, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'mixts\[{library}\]'"):
        getattr(results, f"to_{library}")()
