"""The page "Learn when only clicks are reported", as a reader follows it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from mixts_serve import Decider, DecisionStore
from mixts_serve.store.export import export
from mixts_serve.store.rebuild import rebuild

import mixts
from mixts.logs import read_logs
from tests.end_to_end.reader import (
    free_port,
    page_blocks,
    serving,
    shell,
    with_kinds,
    write_scripts,
)

parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.slow

PAGE = "click-only-events.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder but for the scripts that the page shows."""
    folder = tmp_path_factory.mktemp("reader")
    write_scripts(PAGE, folder)
    return folder


@pytest.fixture(scope="module")
def printed(folder: Path) -> str:
    """Serve, run the shop, stop the service, and return what the shop printed."""
    port = free_port(folder / "shop.py")
    serve, shop, after = page_blocks(PAGE, "sh")
    with serving(with_kinds(serve, 3), folder, port) as said:
        assert "serving" in said
        output = shell(shop, folder, folder / "bin")
    (folder / "after.txt").write_text(shell(with_kinds(after, 1), folder, folder / "bin"))
    return output


def test_the_shop_prints_what_the_page_says(printed: str) -> None:
    assert printed == page_blocks(PAGE, "text")[0]


def test_the_export_is_the_shop_s_own_log(printed: str, folder: Path) -> None:
    events = json.loads((folder / "events.json").read_text())
    rows = parquet.read_table(folder / "shop.parquet").to_pylist()
    assert len(rows) == 960
    for row in rows:
        clicked = events.get(row["id"])
        assert row["reward"] == clicked  # None where nothing was shown
        assert row["reward_is_default"] == (clicked == 0)
        assert (row["activated_at"] is None) == (clicked is None or not row["deferred"])
        assert (row["late"], row["late_reward"]) == (False, None)


def test_beliefs_are_those_of_the_full_log(printed: str, folder: Path) -> None:
    """Exactly: silence and the clicks are all that a belief depends on."""
    events = json.loads((folder / "events.json").read_text())
    prior = mixts.MixturePrior.load(folder / "prior.json")
    rows = parquet.read_table(folder / "shop.parquet").to_pylist()
    with (
        DecisionStore(folder / "shop.db") as store,
        Decider(None, store) as decider,
    ):
        for visitor in sorted({row["task"] for row in rows}):
            seen = [row for row in rows if row["task"] == visitor and row["id"] in events]
            belief = prior.belief()
            belief.update([row["action"] for row in seen], [events[row["id"]] for row in seen])
            state = decider.task(visitor)
            assert state.weights == pytest.approx(belief.weights, abs=1e-12)
            assert state.mean_rewards == pytest.approx(belief.mean_rewards(), abs=1e-12)
        found = rebuild(store, write=False)
        assert (found.differing, found.windows) == (0, 0)


def test_mean_rewards_are_those_of_the_shop(printed: str, folder: Path) -> None:
    """Within four standard errors; from clicks alone, every item would seem certain."""
    events = json.loads((folder / "events.json").read_text())
    rows = parquet.read_table(folder / "shop.parquet").to_pylist()
    seen = [row for row in rows if row["id"] in events]
    values = np.array([events[row["id"]] for row in seen if row["arm"] == "books"])
    assert len(values) > 100
    error = np.sqrt(0.4 * 0.6 / len(values))
    assert abs(values.mean() - 0.4) < 4 * error
    first, following = (
        mixts.MixturePrior.load(folder / f"{name}.json") for name in ("prior", "next")
    )
    books = list(first.arm_names or ()).index("books")
    before, after = (one.belief().mean_rewards()[books] for one in (first, following))
    # 60 visitors like books more than the users of the past logs: they move the mean.
    assert before + 0.02 < after < values.mean()


def test_the_store_says_what_is_missing(printed: str, folder: Path) -> None:
    said = (folder / "after.txt").read_text()
    assert re.search(r"960 decisions, \d+ rewards, \d+ of them defaults", said)
    assert re.search(r"decisions without a reward: \d+ were deferred and not activated", said)


def test_the_next_prior_can_replace_the_first(printed: str, folder: Path, tmp_path: Path) -> None:
    """Also if the service hardly showed some items; a CSV file gives the same prior."""
    first, following = (
        mixts.MixturePrior.load(folder / f"{name}.json") for name in ("prior", "next")
    )
    assert following.arm_names == first.arm_names
    copy = tmp_path / "shop.db"  # other tests read the store with its first prior
    copy.write_bytes((folder / "shop.db").read_bytes())
    with DecisionStore(copy) as store:
        export(store, folder / "shop.csv")
        with Decider(None, store) as decider:
            decider.activate_prior(decider.upload_prior(following))
            assert decider.task("visitor 1").prior_version == 2
    columns = {"task": "task", "arm": "arm", "reward": "reward", "arms": first}
    logs = [read_logs(folder / f"shop.{end}", **columns) for end in ("parquet", "csv")]
    for name in ("successes", "failures"):
        assert np.array_equal(*(each.statistics.array(name) for each in logs))
