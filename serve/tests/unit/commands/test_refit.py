"""``mixts refit``, and the thread that runs it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore, Reward
from mixts_serve.refits import note_of
from mixts_serve.refitter import Refitter

import mixts
from mixts.cli import main
from mixts.origin import Origin


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A store with thirty tasks."""
    rates = np.array([[0.8, 0.2], [0.2, 0.7]])
    family = mixts.BernoulliArms(10 * rates, 10 * (1 - rates))
    prior = mixts.MixturePrior(family, origin=Origin(50.0, np.full((2, 2), 20.0)))
    rng, path = np.random.default_rng(1), str(tmp_path / "shop.db")
    with DecisionStore(path) as store, Decider(prior, store, seed=1) as decider:
        made = decider.decide_many([Decide(f"u{i}") for i in range(30)])
        decider.reward_many([Reward(m.id, float(rng.random() < 0.5)) for m in made])  # type: ignore[union-attr]
    return path


def test_the_verdict_comes_first(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refit", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("refitted: version 2 is active; learned from version 1 and 30 tasks")
    assert lines[-1] == "kinds: 2 kept"
    assert len(lines) <= 10
    assert main(["refit", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "unchanged"
    main(["store", "show", path])
    shown = capsys.readouterr().out
    assert "refit of version 1 with all 30 tasks, up to decision 30; kinds: 2 kept" in shown
    assert "UTC: nothing changed: no rewards have come since the last refit" in shown


def test_errors_are_told(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refit", "missing.db"]) == 2
    assert "there is no store missing.db" in capsys.readouterr().err
    assert main(["refit", path, "--exclude", "yesterday"]) == 2
    assert "days must be as 2026-03-01" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["refit", path, "--promote", "soon"])
    assert "expected refit, ask or a number" in capsys.readouterr().err


def test_a_service_refits_once_a_period(
    path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first refit is due a period after the first look, for all replicas and restarts."""
    with DecisionStore(path) as store, caplog.at_level(logging.INFO, "mixts_serve"):
        now = store.backend.now_us()
        monkeypatch.setattr("mixts_serve.store.sqlite.SQLiteTransaction.now_us", lambda self: now)
        first, second = (Refitter(store, path, 86_400.0) for _ in range(2))
        assert first.work() == second.work() == 60.0
        assert store.active_version() == 1
        now += 86_400_000_000
        first.work()
        assert store.active_version() == 2
        assert "refitted: version 2 is active" in caplog.text
        caplog.clear()
        second.work()
        assert not caplog.text
        note = note_of(store)
        assert note is not None
        assert note.result.startswith("refitted")
