"""Files of every version of the tables are kept, and every later mixts reads them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import mixts
from mixts.service import Decide, Decider, Decision, DecisionStore, Receipt, Reward
from mixts.service.store._sqlite_file import MIGRATIONS
from mixts.service.store.rebuild import rebuild
from tests.contracts.stores import arms

ASSETS = Path(__file__).parents[3] / "assets"
FILES = sorted(ASSETS.glob("decisions-*-v*.db"))
N_VERSIONS = len(MIGRATIONS)
SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def asset(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copy(request.param, tmp_path))


def responses(path: Path) -> dict[str, Any]:
    """Return the responses that clients received when the file was written."""
    content: dict[str, Any] = json.loads((ASSETS / path.with_suffix(".json").name).read_text())
    return content


def test_there_are_small_files_of_each_kind() -> None:
    names = {f"decisions-{kind}-v{n + 1}" for kind in ("arms", "linear") for n in range(N_VERSIONS)}
    assert names == {path.stem for path in FILES}
    assert all(path.stat().st_size < 200_000 for path in FILES)


def test_an_old_file_has_every_acknowledged_operation(asset: Path) -> None:
    entries = responses(asset)["told"]
    with DecisionStore(asset) as store, Decider(None, store) as decider:
        for entry in entries:
            decision = entry["decision"]
            rows = {row.id: row for row in store.history(decision["task"])}
            row = rows[decision["id"]]
            assert (row.action, row.propensity) == (decision["action"], decision["propensity"])
            assert row.weights == tuple(decision["weights"])
            assert row.prior_version == decision["prior_version"]
            assert row.policy == decision.get("policy", "ts")
            assert row.arm == (decision["arm"] if "linear" in asset.stem else None)
            assert row.value == entry.get("default", entry["value"])
            assert row.is_default == ("default" in entry)
            assert row.deferred == entry["asked"].get("defer", False)
        assert store.totals().decisions == len(entries)
        assert store.totals().late == 1
        for state in responses(asset)["states"]:
            known = decider.task(state["task"])
            assert (known.decisions, known.rewards) == (state["decisions"], state["rewards"])
            assert known.weights == pytest.approx(state["weights"], abs=1e-12)
            assert known.mean_rewards == pytest.approx(state["mean_rewards"], abs=1e-12)


def test_an_old_files_statistics_are_those_of_its_log(asset: Path) -> None:
    with DecisionStore(asset) as store:
        found = rebuild(store, write=False)
    assert (found.differing, found.windows) == (0, 0)
    assert found.decisions == len(responses(asset)["told"])


def test_what_is_repeated_in_an_old_file_changes_nothing(asset: Path) -> None:
    entries = responses(asset)["told"]
    with DecisionStore(asset) as store, Decider(None, store) as decider:
        before = store.totals()
        keyed = [entry for entry in entries if entry["asked"]["key"] is not None]
        again = decider.decide_many([Decide(**entry["asked"]) for entry in keyed])
        for entry, decision in zip(keyed, again, strict=True):
            assert isinstance(decision, Decision)
            assert decision.repeated
            assert decision.id == entry["decision"]["id"]
            assert decision.arm == entry["decision"]["arm"]
        rewarded = [entry for entry in entries if entry["value"] is not None]
        rewards = [Reward(entry["decision"]["id"], entry["value"]) for entry in rewarded]
        for receipt in decider.reward_many(rewards):
            assert isinstance(receipt, Receipt)
            assert receipt.duplicate
        assert store.totals() == before


def test_an_old_file_is_used_further(asset: Path) -> None:
    entries = responses(asset)["told"]
    with DecisionStore(asset) as store, Decider(None, store) as decider:
        fresh = next(entry for entry in entries if entry["value"] is None)
        assert decider.reward(fresh["decision"]["id"], 1.0) == Receipt(duplicate=False)
        decider.decide("somebody new", fresh["asked"]["actions"])
        assert store.totals().decisions == len(entries) + 1
        assert rebuild(store, write=False).differing == 0


def test_an_old_file_gets_the_tables_of_a_new_one(asset: Path, tmp_path: Path) -> None:
    with DecisionStore(asset) as old, DecisionStore(tmp_path / "new.db") as new:
        assert old.backend.query(SCHEMA) == new.backend.query(SCHEMA)
        (version,) = new.backend.query("PRAGMA user_version")
        assert old.backend.query("PRAGMA user_version") == [version]


def test_a_new_file_is_served_under_any_name(tmp_path: Path) -> None:
    # Made under another name at first, of which nothing is left.
    path = tmp_path / "decisions of *today* %41.db"
    with mixts.DecisionStore(path) as store, Decider(arms(), store) as decider:
        decider.decide("a")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    with mixts.DecisionStore(path) as store:
        assert store.totals().decisions == 1
