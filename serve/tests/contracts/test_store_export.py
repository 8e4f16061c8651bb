"""Every store exports exactly the decisions that were made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mixts_serve import Decide, Decider, DecisionStore, Reward
from mixts_serve.records import PriorVersion
from mixts_serve.store.export import Exported, export

import mixts
from mixts import errors
from mixts.logs.decisions import DecisionLog, rewards_of
from serve.tests.contracts.stores import ACTIONS, arms, linear

parquet = pytest.importorskip("pyarrow.parquet")


def test_arms(store: DecisionStore, tmp_path: Path) -> None:
    with Decider(arms(), store, seed=1) as decider:
        made = decider.decide_many([Decide("a"), Decide("b"), Decide("a")])
        decider.reward_many([Reward(made[0].id, 1.0), Reward(made[2].id, 0.0)])
    done = export(store, tmp_path / "log.parquet")
    rows = parquet.read_table(tmp_path / "log.parquet").to_pylist()
    assert done == Exported(3, 2)
    assert [row["id"] for row in rows] == [decision.id for decision in made]
    assert [row["task"] for row in rows] == ["a", "b", "a"]
    assert [row["action"] for row in rows] == [decision.action for decision in made]
    assert [row["pscore"] for row in rows] == [decision.propensity for decision in made]
    assert [tuple(row["weights"]) for row in rows] == [decision.weights for decision in made]
    assert [row["reward"] for row in rows] == [1.0, None, 0.0]
    assert [row["action_dist"][row["action"]] for row in rows] == [row["pscore"] for row in rows]
    history = store.history("a")
    assert rows[0]["timestamp"].timestamp() == pytest.approx(history[0].at, abs=1e-6)
    assert rows[0]["rewarded_at"].timestamp() == pytest.approx(history[0].rewarded_at, abs=1e-6)


def test_features(store: DecisionStore, tmp_path: Path) -> None:
    offers = [ACTIONS, ACTIONS[:2], ACTIONS]
    with Decider(linear(), store, seed=1) as decider:
        made = decider.decide_many([Decide("a", offer) for offer in offers])
    export(store, tmp_path / "log.parquet")
    rows = {row["id"]: row for row in parquet.read_table(tmp_path / "log.parquet").to_pylist()}
    ordered = [rows[decision.id] for decision in made]
    assert [row["action_context"] for row in ordered] == offers
    assert [row["n_actions"] for row in ordered] == [3, 2, 3]
    assert [len(row["action_dist"]) for row in ordered] == [3, 2, 3]


def test_a_span_of_time(store: DecisionStore, tmp_path: Path) -> None:
    with Decider(arms(), store, seed=1) as decider:
        ids = [decider.decide("a").id for _ in range(4)]
    times = [row.at for row in store.history("a")]
    parts = []
    for since, until in ((None, times[1]), (times[1], times[3]), (times[3], None)):
        export(store, tmp_path / "part.parquet", since=since, until=until)
        parts.append(parquet.read_table(tmp_path / "part.parquet")["id"].to_pylist())
    assert parts == [ids[:1], ids[1:3], ids[3:]]


def test_a_prior_that_is_activated_meanwhile(
    store: DecisionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = store.priors

    def then_another() -> list[PriorVersion]:
        rows = listed()
        monkeypatch.undo()
        decider.activate_prior(decider.upload_prior(arms(scale=2.0)))
        assert decider.decide("a").prior_version == 2
        return rows

    with Decider(arms(), store, seed=1) as decider:
        first = decider.decide("a")
        monkeypatch.setattr(store, "priors", then_another)
        assert export(store, tmp_path / "log.parquet").n_rows == 1
    assert parquet.read_table(tmp_path / "log.parquet")["id"].to_pylist() == [first.id]
    assert export(store, tmp_path / "log.parquet").n_rows == 2


def test_a_summary(store: DecisionStore) -> None:
    assert store.priors() == []
    with Decider(arms(), store, seed=1) as decider:
        decider.decide("a")
        decider.upload_prior(arms(scale=2.0))
    assert store.backend.schema_version() >= 1
    assert store.backend.n_bytes() > 10_000
    assert store.totals().decisions == 1
    assert [(row.version, row.active) for row in store.priors()] == [(1, True), (2, False)]
    assert store.backend.database in ("SQLite", "PostgreSQL")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("moment", ["2024-05-31", True, np.inf, 1e12])
def test_a_moment_is_a_number_of_seconds(
    store: DecisionStore, tmp_path: Path, moment: float
) -> None:
    with Decider(arms(), store, seed=1) as decider:
        decider.decide("a")
    with pytest.raises(errors.ParameterError, match="since must be seconds since 1970"):
        export(store, tmp_path / "log.parquet", since=moment)
    assert list(tmp_path.glob("*.parquet")) == []


def test_silence(store: DecisionStore, tmp_path: Path) -> None:
    window = {"reward_window": 1e-6, "default_reward": 0.0}
    with Decider(arms(), store, seed=1) as decider:
        hidden, shown, waiting = (decider.decide("a", defer=i < 2) for i in range(3))
        decider.activate(shown.id)
    with Decider(None, store, **window) as decider:
        silent, late = decider.decide("a"), decider.decide("a")
        while store.has_open_defaults():
            decider.end_windows()
        decider.reward(late.id, 1.0)
    done = export(store, tmp_path / "log.parquet")
    rows = parquet.read_table(tmp_path / "log.parquet").to_pylist()
    assert [row["id"] for row in rows] == [d.id for d in (hidden, shown, waiting, silent, late)]
    assert [row["reward"] for row in rows] == [None, None, None, 0.0, 0.0]
    assert [row["reward_is_default"] for row in rows] == [False] * 3 + [True] * 2
    assert [row["late_reward"] for row in rows] == [None] * 4 + [1.0]
    assert [row["deferred"] for row in rows] == [True] * 2 + [False] * 3
    assert [row["activated_at"] is None for row in rows] == [True, False, True, True, True]
    assert done.n_rewards == 2
    for batch in DecisionLog(tmp_path / "log.parquet").batches(["reward"]):
        assert rewards_of(batch, None)[1].tolist() == [False] * 3 + [True] * 2
        values, known = rewards_of(batch, 0.5)
        assert known.tolist() == [False] + [True] * 4  # one was never shown
        assert values[known].tolist() == [0.5, 0.5, 0.0, 0.0]


def test_sparse_laws_of_many_arms_are_exported_whole(store: DecisionStore, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    mean = rng.uniform(0.1, 0.9, size=(2, 2000))
    prior = mixts.MixturePrior(mixts.BernoulliArms(5 * mean, 5 * (1 - mean)))
    laws = {}
    for policy in ("ids", "ts"):
        with Decider(prior, store, policy=policy, seed=1) as decider:
            laws[decider.decide("a").id] = policy
    query = "SELECT policy, LENGTH(probabilities) FROM decisions"
    sizes = dict(store.backend.query(query, ()))
    assert sizes["ids"] < 50
    assert sizes["ts"] <= 2000 * 8
    export(store, tmp_path / "log.parquet")
    rows = parquet.read_table(tmp_path / "log.parquet").to_pylist()
    assert len(rows) == 2
    for row in rows:
        law = np.array(row["action_dist"])
        assert len(law) == row["n_actions"] == 2000
        assert law.sum() == pytest.approx(1.0)
        assert law[row["action"]] == row["pscore"] > 0
        assert np.sum(law != np.median(law)) <= 2 or laws[row["id"]] == "ts"
