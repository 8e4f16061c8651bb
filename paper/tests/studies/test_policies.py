"""The comparison of policies: rivals, pairing, late rewards, and the command."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_paper.studies import BESTSELLER, Fixed, bestseller
from mixts_paper.studies import policies as study
from mixts_paper.studies.policies import Comparison, SimulatedProblem, policies, shop_prior

import mixts
from mixts.simulation import simulate

ROOT = Path(__file__).parents[3]

# -- rivals and problems ------------------------------------------------------------------------


def test_a_fixed_agent_takes_the_best_that_is_available() -> None:
    agent = Fixed(np.array([0.1, 0.7, 0.3]), False, n_tasks=2)
    assert agent.act().tolist() == [1, 1]
    assert agent.act(mask=np.array([[True, True, True], [True, False, True]])).tolist() == [1, 2]
    agent = Fixed(np.array([1.0, -1.0]), True, n_tasks=2)
    sets = np.array([[[1.0, 1.0], [1.0, 0.0]], [[0.5, 0.0], [0.0, 1.0]]])
    assert agent.act(sets).tolist() == [1, 0]
    assert agent.act(sets[0]).tolist() == [1, 1]


def test_the_bestseller_has_the_highest_mean_over_all_tasks() -> None:
    prior = shop_prior()
    _, rates = prior.draw(np.random.default_rng(0), 20_000)
    assert bestseller(prior)(n_tasks=3).act().tolist() == [int(rates.mean(axis=0).argmax())] * 3


def test_the_shop_is_the_one_of_the_readme() -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert code is not None
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code[1], names)
    ours, theirs = shop_prior(), names["prior"]
    np.testing.assert_array_equal(ours.weights, theirs.weights)
    for key, array in theirs.family.arrays().items():
        np.testing.assert_array_equal(ours.family.arrays()[key], array)


# -- comparisons --------------------------------------------------------------------------------


def test_differences_are_paired_and_positive_where_better() -> None:
    hard = np.array([1.0, 5.0, 9.0])[:, None]
    regret = {"good": hard * np.ones((3, 4)), "bad": (hard + 0.5) * np.ones((3, 4))}
    found = Comparison("problem", regret, (2, 4))
    assert found.score("good", 2).mean == pytest.approx(10)
    assert found.gain("good", "bad", 4) == (pytest.approx(2.0), pytest.approx(0.0, abs=1e-12))
    assert found.worse("good", "bad") == []
    assert [place.split(" (")[0] for place in found.worse("bad", "good")] == [
        "bad on problem, 2 rounds",
        "bad on problem, 4 rounds",
    ]
    reward = Comparison("problem", regret, (4,), rewards=True)
    assert reward.score("bad", 4).mean == pytest.approx(5.5)
    assert reward.gain("bad", "good", 4).mean == pytest.approx(0.5)
    assert reward.worse("bad", "good") == []


def test_noise_is_not_called_worse() -> None:
    values = np.random.default_rng(0).standard_normal((400, 1))
    found = Comparison("problem", {"a": values + 0.05, "b": np.zeros((400, 1))}, (1,))
    assert abs(found.gain("a", "b", 1).mean) < 2 * found.gain("a", "b", 1).error
    assert found.worse("a", "b") == []
    found = Comparison("problem", {"a": values + 0.5, "b": np.zeros((400, 1))}, (1,))
    assert len(found.worse("a", "b")) == 1


def test_runs_of_one_user_count_as_one() -> None:
    values = np.tile(np.random.default_rng(1).standard_normal((30, 1)), (4, 1))
    users, splits = np.tile(np.arange(30), 4), np.repeat(np.arange(4), 30)
    rewards = {"a": values, "b": 0 * values}
    alone = Comparison("p", rewards, (1,), rewards=True)
    clustered = Comparison("p", rewards, (1,), rewards=True, clusters=(users, splits))
    assert clustered.score("a", 1).error > 1.8 * alone.score("a", 1).error


def test_a_table_has_every_policy_once() -> None:
    regret = {name: np.full((3, 2), value) for name, value in (("a", 1.0), ("b", 2.0))}
    lines = Comparison("problem", regret, (1, 2)).table(("b",), 1).splitlines()
    assert lines[0] == "**problem**"
    assert lines[4:] == [
        "| a | 1.0 ± 0.0 | 2.0 ± 0.0 | +1.0 ± 0.0 | +2.0 ± 0.0 |",
        "| b | 2.0 ± 0.0 | 4.0 ± 0.0 |  |  |",
    ]


def test_a_wide_table_compares_early_and_at_the_end() -> None:
    regret = {name: np.full((3, 200), value) for name, value in (("a", 1.0), ("b", 2.0))}
    found = Comparison("problem", regret, (5, 20, 100, 200))
    lines = found.table(("a", "b"), 0).splitlines()
    assert lines[2] == (
        "| policy | regret, first 5 | regret, first 20 | regret, first 100 | regret, first 200 "
        "| better than a, 20 | better than a, 200 | better than b, 20 | better than b, 200 |"
    )
    assert lines[4] == "| a | 5 ± 0 | 20 ± 0 | 100 ± 0 | 200 ± 0 |  |  | +20 ± 0 | +200 ± 0 |"
    assert len(found.worse("b", "a")) == 4


# -- the command --------------------------------------------------------------------------------


def shop(n_rounds: int, n_runs: int) -> SimulatedProblem:
    prior = shop_prior()
    return SimulatedProblem("shop", prior, mixts.BanditEnvironment(prior), n_rounds, n_runs)


def test_every_policy_plays_the_same_problems() -> None:
    prior = shop_prior()
    found = shop(30, 60).play(seed=1, workers=1)
    assert list(found.values) == list(policies(prior, 30))
    again = simulate({"x": bestseller(prior)}, mixts.BanditEnvironment(prior), 30, 60, 1, engine=1)
    np.testing.assert_array_equal(found.values[BESTSELLER], again.regret["x"])
    assert found.rounds == [5, 20, 30]


def test_the_command_prints_tables_and_says_what_it_skips(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [shop(10, 20)]
    monkeypatch.setattr(study, "problems", lambda *_: iter(small))
    assert study.main(["compare", "--workers", "1"]) == 0
    out = capsys.readouterr().out
    assert "| MixIDS, horizon |" in out
    assert "CIFAR-100 was skipped: give a file of its features with --features." in out
    assert "MovieLens was skipped" in out
    assert "MixIDS worse than MixTS by more than two errors:" in out


@pytest.mark.parametrize("real", [False, True])
def test_only_real_data_are_held_against_the_bestseller(
    real: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Lost(Comparison):
        """Everything is worse than every rival."""

        def worse(self, policy: str, rival: str) -> list[str]:
            return [f"a place behind {rival}"]

    def play(self: SimulatedProblem, seed: int, workers: int) -> Comparison:
        return Lost("shop", {name: np.ones((2, 5)) for name in policies(self.prior, 5)}, (5,))

    lost = replace(shop(5, 2), real=real)
    monkeypatch.setattr(SimulatedProblem, "play", play)
    monkeypatch.setattr(study, "problems", lambda *_: iter([lost]))
    assert study.main(["compare", "--workers", "1"]) == 0
    out = capsys.readouterr().out
    assert "a place behind MixTS" in out
    assert ("a place behind bestseller" in out) == real


@pytest.mark.parametrize("scale", ["0", "2", "-1", "nan"])
def test_the_command_refuses_a_scale(scale: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert study.main(["compare", f"--scale={scale}"]) == 2
    assert "--scale must be above 0 and at most 1" in capsys.readouterr().err


def test_the_command_refuses_what_is_no_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert study.main(["compare", "--movielens", str(tmp_path / "none")]) == 2
    captured = capsys.readouterr()
    assert "neither a folder nor a file" in captured.err
    assert captured.out == ""
