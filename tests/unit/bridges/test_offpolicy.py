"""Exported decisions as Open Bandit Pipeline and Vowpal Wabbit take them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import DecisionStore
from mixts_serve.store.export import export

from mixts import errors
from mixts._typing import Array
from mixts.bridges.obp import bandit_feedback
from mixts.bridges.vw import Written, dsjson_lines, write_dsjson
from serve.tests.unit.sample_decisions import NAMES, fill_arms, fill_linear, known_log

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small logs of arms and features, exported."""
    folder = tmp_path_factory.mktemp("offpolicy")
    for name, fill in (("arms", fill_arms), ("linear", fill_linear)):
        fill(folder / f"{name}.db")
        with DecisionStore(folder / f"{name}.db") as store:
            export(store, folder / f"{name}.parquet")
    return folder


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Array]:
    """A log of 400 decisions, and the rates of its 40 tasks."""
    return known_log(tmp_path_factory.mktemp("known"))


def first_version(folder: Path) -> Any:
    """The decisions over three arms: rewards 1, 0, none and 1."""
    table = parquet.read_table(folder / "arms.parquet")
    return table.filter(pa.compute.equal(table["prior_version"], 1))


def uniform_value(feedback: dict[str, Any]) -> tuple[float, float]:
    """Inverse propensity weighting of the uniform policy, and its standard error."""
    terms = feedback["reward"] / feedback["pscore"] / feedback["n_actions"]
    return terms.mean(), terms.std(ddof=1) / np.sqrt(len(terms))


# -- Open Bandit Pipeline -------------------------------------------------------------------------


def test_feedback_has_the_shapes_that_obp_checks(folder: Path) -> None:
    table = first_version(folder)
    rows = [row for row in table.to_pylist() if row["reward"] is not None]
    feedback = bandit_feedback(table)
    assert (feedback["n_rounds"], feedback["n_actions"]) == (3, 3)
    assert feedback["n_without_reward"] == 1
    assert feedback["action"].tolist() == [row["action"] for row in rows]
    assert feedback["action"].dtype.kind == feedback["position"].dtype.kind == "i"
    assert feedback["position"].tolist() == [0, 0, 0]
    assert feedback["reward"].tolist() == [1.0, 0.0, 1.0]
    assert feedback["pscore"].tolist() == [row["pscore"] for row in rows]
    assert feedback["pi_b"][:, :, 0].tolist() == [row["action_dist"] for row in rows]
    assert feedback["pi_b"].shape == (3, 3, 1)
    assert feedback["context"].tolist() == [row["weights"] for row in rows]
    assert np.array_equal(feedback["action_context"], np.eye(3))


def test_a_reward_that_never_came_may_stand_for_something(folder: Path) -> None:
    feedback = bandit_feedback(first_version(folder), missing_reward=-2)
    assert feedback["reward"].tolist() == [1.0, 0.0, -2.0, 1.0]
    assert feedback["n_without_reward"] == 0


def test_versions_have_contexts_of_their_own(folder: Path) -> None:
    """Two versions with as many actions: the first has two latent states, the second three."""
    table = parquet.read_table(folder / "arms.parquet")
    rows = table.filter(pa.compute.is_in(table["reward"], pa.array([0.0, 1.0]))).to_pylist()
    narrow = [{**row, "n_actions": 3, "action_dist": row["action_dist"][:3]} for row in rows]
    feedback = bandit_feedback(pa.Table.from_pylist(narrow, schema=table.schema))
    context = feedback["context"]
    assert context.shape == (5, 2 + 3)
    assert context[:3, :2].tolist() == [row["weights"] for row in rows[:3]]
    assert context[3:, 2:].tolist() == [row["weights"] for row in rows[3:]]
    assert not context[:3, 2:].any()
    assert not context[3:, :2].any()


def test_features_are_shared_only_where_they_are_the_same(folder: Path) -> None:
    table = parquet.read_table(folder / "linear.parquet")
    wide = table.filter(pa.compute.equal(table["n_actions"], 3))
    offers = np.array(wide["action_context"].to_pylist())
    feedback = bandit_feedback(wide)
    assert np.array_equal(feedback["action_features"], offers)
    assert np.array_equal(feedback["action_context"], offers[0])
    rows = wide.to_pylist()
    rows[1]["action_context"][0][0] += 1
    changed = bandit_feedback(pa.Table.from_pylist(rows, schema=table.schema))
    assert changed["action_context"] is None
    assert changed["action_features"][1, 0, 0] == offers[1, 0, 0] + 1


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("name", ["arms", "linear"])
def test_tables_of_other_libraries(folder: Path, library: str, name: str) -> None:
    module = pytest.importorskip(library)
    table = parquet.read_table(folder / f"{name}.parquet")
    table = table.filter(pa.compute.equal(table["n_actions"], 3)).replace_schema_metadata(None)
    other = table.to_pandas() if library == "pandas" else module.from_arrow(table)
    if library == "pandas":
        other.index = other.index + 100
    assert list(dsjson_lines(other)) == list(dsjson_lines(table))
    found, expected = bandit_feedback(other), bandit_feedback(table)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value)
    with pytest.raises(errors.FormatError, match="has no column pscore"):
        bandit_feedback(
            other.drop(columns="pscore") if library == "pandas" else other.drop("pscore")
        )


def test_a_column_of_another_type_is_refused(folder: Path) -> None:
    table = first_version(folder)
    place = table.column_names.index("reward")
    words = table.set_column(place, "reward", pa.array(["much"] * table.num_rows))
    with pytest.raises(errors.FormatError, match="column reward of the table must be double"):
        bandit_feedback(words)


def test_a_number_of_actions_that_changes_is_refused(folder: Path) -> None:
    with pytest.raises(errors.ParameterError, match=r"have 3, 4: .*\('n_actions', '==', 4\)"):
        bandit_feedback(folder / "arms.parquet")
    filtered = parquet.read_table(folder / "arms.parquet", filters=[("n_actions", "==", 4)])
    assert bandit_feedback(filtered)["n_rounds"] == 2


def test_what_cannot_be_evaluated_is_refused(folder: Path, tmp_path: Path) -> None:
    table = first_version(folder)
    no_rewards = table.filter(pa.compute.is_null(table["reward"]))
    with pytest.raises(errors.ParameterError, match="1 decisions and no rewards"):
        bandit_feedback(no_rewards)
    with pytest.raises(errors.FormatError, match="has no column pscore, weights: expected a file"):
        bandit_feedback(table.drop_columns(["pscore", "weights"]))
    with pytest.raises(errors.ParameterError, match="there is no file"):
        bandit_feedback(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("not at all")
    with pytest.raises(errors.FormatError, match=r"is not a Parquet file as .* or is damaged"):
        bandit_feedback(tmp_path / "text.parquet")
    newer = table.replace_schema_metadata({"mixts": json.dumps({"version": 2})})
    with pytest.raises(errors.FormatError, match="has format version 2; this mixts reads up to 1"):
        bandit_feedback(newer)
    with pytest.raises(errors.ParameterError, match="missing_reward must be a number"):
        bandit_feedback(table, missing_reward=float("nan"))


def test_the_uniform_policy_is_valued_as_it_should_be(known: tuple[Path, Array]) -> None:
    value, error = uniform_value(bandit_feedback(known[0]))
    assert error < 0.05
    assert abs(value - known[1].mean()) < 3 * error


def test_obp_agrees(known: tuple[Path, Array]) -> None:
    pytest.importorskip("obp")
    from obp.ope import (
        InverseProbabilityWeighting,
        OffPolicyEvaluation,
        SelfNormalizedInverseProbabilityWeighting,
    )

    feedback = bandit_feedback(known[0])
    uniform = np.full((feedback["n_rounds"], 3, 1), 1 / 3)
    estimators = [InverseProbabilityWeighting(), SelfNormalizedInverseProbabilityWeighting()]
    evaluation = OffPolicyEvaluation(bandit_feedback=feedback, ope_estimators=estimators)
    found = evaluation.estimate_policy_values(action_dist=uniform)
    value, error = uniform_value(feedback)
    assert found["ipw"] == pytest.approx(value, rel=1e-9)
    assert abs(found["snipw"] - known[1].mean()) < 3 * error
    # The policy that was logged has the value that was seen.
    logged = evaluation.estimate_policy_values(action_dist=feedback["pi_b"])
    assert logged["ipw"] == pytest.approx(feedback["reward"].mean(), rel=1e-9)


# -- Vowpal Wabbit --------------------------------------------------------------------------------


def test_an_event_of_arms(folder: Path) -> None:
    rows = parquet.read_table(folder / "arms.parquet").to_pylist()
    masked = rows[1]
    events = [json.loads(line) for line in dsjson_lines(folder / "arms.parquet")]
    event = events[1]
    assert len(events) == 5
    assert event["_label_cost"] == event["_original_label_cost"] == 0
    assert event["_label_probability"] == masked["pscore"] == event["p"][0]
    # Arm 1 was masked: the second of those that are left is arm 2.
    chosen = [0, 2].index(masked["action"])
    assert event["_labelIndex"] == chosen
    assert event["_label_Action"] == event["a"][0] == chosen + 1
    assert event["a"] == [chosen + 1, 2 - chosen]
    assert event["p"] == [
        masked["action_dist"][k] for k in (masked["action"], 2 - masked["action"])
    ]
    assert event["c"]["_multi"] == [
        {"_tag": "0", "action": {"arm": NAMES[0]}},
        {"_tag": "2", "action": {"arm": NAMES[2]}},
    ]
    first, second = masked["weights"]
    assert event["c"]["belief"] == {"v1s0": first, "v1s1": second}
    assert (event["EventId"], event["Task"], event["Version"]) == (masked["id"], "u2", "1")
    assert event["Timestamp"] == masked["timestamp"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert events[0]["_label_cost"] == -1
    assert len(events[-1]["c"]["belief"]) == 3
    assert {"action": {"arm": "music"}, "_tag": "3"} in events[-1]["c"]["_multi"]


def test_an_event_of_features(folder: Path) -> None:
    rows = parquet.read_table(folder / "linear.parquet").to_pylist()
    for line, row in zip(dsjson_lines(folder / "linear.parquet"), rows, strict=True):
        actions = [entry["action"] for entry in json.loads(line)["c"]["_multi"]]
        assert actions == row["action_context"]


def test_lines_are_as_vowpal_wabbit_wants_them(folder: Path) -> None:
    for line in dsjson_lines(folder / "arms.parquet"):
        assert line.isascii()
        assert "\n" not in line
        assert '":' in line
        assert '": ' not in line
        assert "-0.0" not in line


def test_arms_without_names_go_by_their_number(folder: Path) -> None:
    table = first_version(folder).replace_schema_metadata(None)
    event = json.loads(next(dsjson_lines(table)))
    assert [entry["action"]["arm"] for entry in event["c"]["_multi"]] == ["0", "1", "2"]


def test_a_file_of_events(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "log.dsjson"
    assert write_dsjson(folder / "arms.parquet", out) == Written(5, 2)
    assert out.read_text().splitlines() == list(dsjson_lines(folder / "arms.parquet"))
    assert write_dsjson(folder / "arms.parquet", out, missing_reward=0.0) == Written(7, 0)
    costs = [json.loads(line)["_label_cost"] for line in out.read_text().splitlines()]
    assert costs == [-1, 0, 0, -1, 0, -1, 0]
    before = out.read_bytes()
    with pytest.raises(errors.FormatError):
        write_dsjson(out, out)
    assert out.read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]


def vowpal_wabbit(path: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """Return the output, and the counts in it."""
    metrics = path.with_suffix(".json")
    command = [sys.executable, "-m", "vowpalwabbit", "--cb_adf", "--dsjson", "-d", str(path)]
    done = subprocess.run(
        [*command, "-q", "ba", "--extra_metrics", str(metrics), *options],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout + done.stderr, json.loads(metrics.read_text())


@pytest.mark.parametrize("wrong", [None, 3, {"id": [1]}, [1]])
def test_what_is_neither_a_file_nor_a_table_is_refused(wrong: Any) -> None:
    with pytest.raises(errors.ParameterError, match="or a table of its rows, got"):
        bandit_feedback(wrong)


def test_vowpal_wabbit_agrees(known: tuple[Path, Array], tmp_path: Path) -> None:
    pytest.importorskip("vowpalwabbit")
    path = tmp_path / "known.dsjson"
    written = write_dsjson(known[0], path)
    feedback = bandit_feedback(known[0])
    # Without a model all actions are equal, and the first is taken: its value, with the other sign.
    printed, counted = vowpal_wabbit(path, "--testonly")
    terms = (feedback["action"] == 0) * feedback["reward"] / feedback["pscore"]
    loss = float(printed.partition("average loss = ")[2].split()[0])
    assert loss == pytest.approx(-terms.mean(), abs=1e-5)
    assert f"number of examples = {written.n_events}\n" in printed
    assert written.n_events == 400
    assert "warning" not in printed.lower()
    assert "error" not in printed.lower()
    assert counted["line_parse_error"] == counted["number_skipped_events"] == 0
    assert counted["dsjson_sum_cost_original"] == -feedback["reward"].sum()
    # What it learns is better than to choose at random.
    printed, _ = vowpal_wabbit(path)
    learned = -float(printed.partition("average loss = ")[2].split()[0])
    value, error = uniform_value(feedback)
    assert learned > value + 3 * error


def test_vowpal_wabbit_reads_every_sort_of_event(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("vowpalwabbit")
    for name, n in (("arms", 5), ("linear", 3)):
        write_dsjson(folder / f"{name}.parquet", tmp_path / f"{name}.dsjson")
        printed, counted = vowpal_wabbit(tmp_path / f"{name}.dsjson")
        assert f"number of examples = {n}\n" in printed
        assert "warning" not in printed.lower()
        assert counted["line_parse_error"] == 0
