"""Logs with facts about people: columns, crosses and scores become pooled effects."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.cli import main
from mixts.diagnostics import compare_policies
from mixts.errors import ParameterError
from mixts.learning import with_offsets
from mixts.logs import LogSchema, read_logs
from mixts.logs.again import read_rows

pandas = pytest.importorskip("pandas")

ITEMS = np.array(["book", "film", "game"])
COLUMNS: dict[str, Any] = {"task": "user", "features": ["item"], "reward": "clicked"}
FACTS = {**COLUMNS, "person": ["age", "land"]}


def table(n_users: int = 120, n_rows: int = 12) -> Any:
    """Return clicks of people whose age decides between books and games; some ages are missing."""
    rng = np.random.default_rng(1)
    user = np.repeat(np.arange(n_users), n_rows)
    age = rng.integers(18, 80, n_users)
    land = np.array(["at", "de"])[rng.integers(2, size=n_users)]
    taste, item = 0.5 * rng.normal(size=(n_users, 3)), rng.integers(3, size=len(user))
    odds = -0.5 + taste[user, item] + (age[user] - 50) / 12 * (item - 1)
    return pandas.DataFrame({
        "user": user,
        "age": np.where(rng.random(n_users) < 0.9, age, np.nan)[user],
        "land": land[user],
        "item": ITEMS[item],
        "score": np.round(odds + rng.normal(size=len(user)), 1),
        "clicked": (rng.random(len(user)) < 1 / (1 + np.exp(-odds))).astype(int),
    })  # fmt: skip


ROWS = table()


@pytest.fixture(scope="module")
def fit() -> Any:
    return mixts.fit_logs(ROWS, FACTS, n_components=1, seed=1)


# -- columns ---------------------------------------------------------------------------------------


def test_each_fact_has_an_effect_and_one_with_each_feature() -> None:
    pooled = read_logs(ROWS, **FACTS).space.pooled  # type: ignore[union-attr]
    assert pooled is not None
    assert pooled.terms == (("age",), ("land",), ("age", "item"), ("land", "item"))
    item, age, land = pooled.columns
    known = ROWS["age"].dropna()
    assert isinstance(age, mixts.NumberFeature)
    assert (age.centre, age.scale) == (
        pytest.approx(known.mean()),
        pytest.approx(known.std(ddof=0)),
    )
    assert age.learned == (known.min(), known.max())
    assert isinstance(land, mixts.LevelFeature)
    assert isinstance(item, mixts.LevelFeature)
    assert (land.levels, item.levels, item.reference) == (("at", "de"), tuple(ITEMS), None)
    levels = [*(("item", item) for item in ITEMS), ("age", None), ("land", "at"), ("land", "de")]
    shares = [0.0 if level is None else (ROWS[name] == level).mean() for name, level in levels]
    np.testing.assert_allclose(pooled.means, shares)


def test_levels_are_centred_by_their_shares() -> None:
    lands = ROWS.assign(land=ROWS["user"] % 4)
    pooled = read_logs(lands, **FACTS, text=["land"], top_levels=3).space.pooled  # type: ignore[union-attr]
    assert pooled is not None
    assert pooled.columns[-1].names == ("land=0", "land=1", "land=2", "land=other")
    assert pooled.means[-4:] == (0.25,) * 4


@pytest.mark.parametrize(
    ("given", "terms"),
    [
        ({"person": ["age"], "cross": ["age:item"]}, [("age",), ("age", "item")]),
        (
            {"person": ["age", "land"], "cross": ["person:item"]},
            [("age",), ("land",), ("age", "item"), ("land", "item")],
        ),
        ({"cross": [("item", "item")]}, [("item", "item")]),
        ({"score": "score"}, [("score",)]),
    ],
)
def test_crosses_may_be_chosen(given: Any, terms: Any) -> None:
    assert LogSchema(**COLUMNS, **given).terms == terms


def test_rows_of_logs_are_rows_of_descriptions() -> None:
    logs = read_logs(ROWS, **FACTS, score="score")
    space = logs.schema.space
    assert space is not None
    wanted = read_rows(logs, np.arange(5))
    names = [logs.tasks[task] for task in wanted.tasks]
    mine = ROWS[ROWS["user"].astype(str).isin(set(names))]
    described = mine[["item", "age", "land", "score"]]
    np.testing.assert_allclose(wanted.features, space.rows(described), atol=1e-12)


def test_what_a_person_lacks_makes_no_bad_row() -> None:
    some = ROWS.assign(land=ROWS["land"].where(ROWS["user"] > 3, ""))
    logs = read_logs(some, **FACTS)
    assert logs.bad_rows.total == 0
    rows = read_rows(logs, [logs.tasks.index("0")]).features
    lands = [i for i, name in enumerate(logs.features or ()) if name.startswith("land")]
    np.testing.assert_array_equal(rows[:, lands], 0.0)


def test_a_score_that_is_missing_makes_a_bad_row() -> None:
    some = ROWS.assign(score=ROWS["score"].where(ROWS.index > 3))
    logs = read_logs(some, **FACTS, score="score")
    assert logs.bad_rows.counts == {"no feature 'score'": 4}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"person": "age"}, "person must be a list of columns, got 'age'"),
        ({"person": ["item"]}, "features must be different columns, at least one"),
        ({"cross": ["age:item"]}, "cross must be pairs of facts of the person and of features"),
        ({"person": ["age"], "cross": ["age"]}, "of 'age', 'item'; got 'age'"),
        ({"person": ["age"], "decimals": 1}, "decimals would round the sum of pooled effects"),
    ],
)
def test_wrong_columns_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(message)):
        LogSchema(**COLUMNS, **given)


def test_arms_are_given_as_a_feature() -> None:
    with pytest.raises(ParameterError, match=r"person needs features: .* --features item"):
        LogSchema(task="user", arm="item", reward="clicked", person=["age"])


def test_a_fact_that_never_changes_is_refused() -> None:
    with pytest.raises(ParameterError, match="'age' is the same in all rows: leave it out"):
        read_logs(ROWS.assign(age=30), **FACTS)


def test_a_fact_without_numbers_is_refused() -> None:
    with pytest.raises(ParameterError, match="'age' has no number: leave it out"):
        read_logs(ROWS.assign(age=np.nan), **FACTS)


@pytest.mark.parametrize("batch_rows", [100, 1 << 17])
def test_a_fact_far_from_zero_has_its_spread(batch_rows: int) -> None:
    seconds = 1e9 + np.arange(len(ROWS)) % 3  # the squares of these are above 2^53
    logs = read_logs(ROWS.assign(age=seconds), **FACTS, batch_rows=batch_rows)
    age = next(one for one in logs.schema.space.pooled.columns if one.name == "age")  # type: ignore[union-attr]
    # Means of parts are rounded to 1e-7; their squared differences weigh up to 1e-9 in the spread.
    assert (age.centre, age.scale) == pytest.approx((1e9 + 1, np.sqrt(2 / 3)), rel=1e-9)


def test_a_number_that_is_too_large_makes_a_bad_row_and_no_scale() -> None:
    logs = read_logs(ROWS.assign(age=ROWS["age"].where(ROWS["user"] != 3, 1e200)), **FACTS)
    assert logs.bad_rows.total == (ROWS["user"] == 3).sum()
    age = next(one for one in logs.schema.space.pooled.columns if one.name == "age")  # type: ignore[union-attr]
    assert max(age.learned) < 80
    assert age.scale < 20


def test_too_many_crosses_are_refused() -> None:
    many = ROWS.assign(city=[f"c{i % 49}" for i in range(len(ROWS))], other=ROWS["user"] % 11)
    columns = {**COLUMNS, "features": ["item", "other"], "text": ["other"], "person": ["city"]}
    with pytest.raises(ParameterError, match=r"at most 300 are learned: city \(49\), city x item"):
        read_logs(many, **columns)


# -- learning --------------------------------------------------------------------------------------


def test_a_fit_learns_the_effects(fit: Any) -> None:
    features = fit.prior.features
    assert features.names == ("item=book", "item=film", "item=game", "pooled")
    assert fit.prior.family.has_offset
    assert fit.effects[0][0] == "age x item"
    assert "the same for everybody, by what they usually add to the log odds: age x" in fit.pooled
    young, old = (
        features.rows([{"item": item} for item in ITEMS], context={"age": age})[:, -1]
        for age in (20, 80)
    )
    assert young[0] > 1 > -1 > young[2]
    assert old[2] > 1 > -1 > old[0]


def test_facts_predict_the_held_out_tasks() -> None:
    rows = table(300)
    fits = [
        mixts.fit_logs(rows, columns, n_components=1, seed=1, held_out=0.5)
        for columns in (FACTS, COLUMNS)
    ]
    np.testing.assert_array_equal(fits[0].held_out, fits[1].held_out)
    ours, theirs = (
        mixts.learning.mixture_evidence(fit.prior, fit.logs.statistics[fit.held_out])
        for fit in fits
    )
    gain = ours - theirs
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))


def test_effects_are_learned_without_the_held_out_tasks(fit: Any) -> None:
    held_out = ROWS["user"].astype(str).isin([fit.logs.tasks[i] for i in fit.held_out])
    changed = ROWS.assign(clicked=ROWS["clicked"].where(~held_out, 1 - ROWS["clicked"]))
    again = mixts.fit_logs(changed, FACTS, n_components=1, seed=1)
    np.testing.assert_array_equal(again.held_out, fit.held_out)
    assert again.prior.features.pooled == fit.prior.features.pooled  # type: ignore[union-attr]


def test_statistics_of_a_fit_have_offsets(fit: Any) -> None:
    wide = read_logs(ROWS, **FACTS)
    assert wide.is_open
    assert not fit.logs.is_open
    shorter = with_offsets(wide.statistics, np.array(fit.prior.features.pooled.coefficients))
    np.testing.assert_array_equal(shorter.array("rows"), fit.logs.statistics.array("rows"))
    rows = read_rows(fit.logs, [0, 1]).features
    assert rows.shape[1] == 4


def test_replays_compare_with_one_model_of_facts_and_features(fit: Any) -> None:
    compared = compare_policies(fit, n_decisions=[5], policies=["greedy"])
    assert not compared.earnings  # 24 held-out tasks: the others were learned from
    assert compared.n_replayable == {5: 24}


def test_a_refit_keeps_the_effects(fit: Any) -> None:
    columns = {"task": "user", "reward": "clicked"}
    later = mixts.fit_logs(ROWS, columns, start=fit.prior, seed=1)
    assert later.prior.features.pooled == fit.prior.features.pooled
    assert later.prior.family.has_offset
    assert later.pooled == ""
    with pytest.raises(ParameterError, match="person is a part of these features: leave it out"):
        mixts.fit_logs(ROWS, {**columns, "person": ["age"]}, start=fit.prior)


@pytest.mark.parametrize("settings", [{"noise": "per-task"}, {"covariance_type": "diag"}, {}])
def test_other_rewards_and_forms_have_effects(settings: Any) -> None:
    spent = ROWS.assign(clicked=ROWS["score"])
    fit = mixts.fit_logs(spent, FACTS, n_components=1, seed=1, held_out=0, **settings)
    assert fit.prior.family.has_offset
    assert fit.effects[0][0] == "age x item"
    assert "to the reward: age x item" in fit.pooled


def test_facts_that_say_nothing_are_left_out() -> None:
    rng = np.random.default_rng(3)
    people = ROWS["user"].map(dict(enumerate(rng.normal(size=120))))
    chance = ROWS.assign(shoe=people, clicked=rng.integers(2, size=len(ROWS)))
    columns = {**COLUMNS, "person": ["shoe"]}
    fit = mixts.fit_logs(chance, columns, n_components=1, seed=1, held_out=0)
    sizes = dict(fit.effects)
    assert max(sizes.values()) < 0.1
    space = fit.prior.features
    nothing = space.learned_pooled(np.zeros(len(space.pooled.names)), np.zeros(len(sizes)).tolist())
    silent = replace(fit, prior=fit.prior.replace(features=nothing))
    assert silent.pooled.startswith("No effects that are the same for everybody: held-out tasks")


def test_a_score_has_a_slope() -> None:
    fit = mixts.fit_logs(ROWS, {**COLUMNS, "score": "score"}, n_components=1, seed=1, held_out=0)
    (score,) = fit.prior.features.pooled.columns  # type: ignore[union-attr]
    (slope,) = fit.prior.features.pooled.coefficients  # type: ignore[union-attr, misc]
    # The log odds with noise of the same variance or less: less than all of it counts.
    assert 0.2 < slope / score.scale < 1  # type: ignore[union-attr]
    assert [name for name, _ in fit.effects] == ["score"]


def test_a_score_that_looks_like_a_probability_is_a_warning() -> None:
    rows = ROWS.assign(score=1 / (1 + np.exp(-ROWS["score"])))
    columns = {**COLUMNS, "score": "score"}
    fit = mixts.fit_logs(rows, columns, n_components=1, seed=1, held_out=0)
    (warning,) = [one for one in fit.warnings if one.code == "score-scale"]
    assert "is it a probability?" in str(warning)


def test_the_command_takes_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs, out = tmp_path / "shop.csv", tmp_path / "prior.json"
    ROWS.to_csv(logs, index=False)
    options = ["--task", "user", "--features", "item", "--reward", "clicked", "--components", "1"]
    facts = ["--person", "age,land", "--cross", "age:item", "--out", str(out)]
    assert main(["fit", str(logs), *options, *facts, "--held-out", "0"]) == 0
    printed = capsys.readouterr().out
    assert "Effects that are the same for everybody" in printed
    assert "age x item" in printed
    assert "pooled" not in printed.partition("Kind 1")[2].partition("wrote")[0]
    features = mixts.MixturePrior.load(out).features
    assert features is not None
    assert features.facts == ("age", "land")
    page = out.with_suffix(".html").read_text(encoding="utf-8")
    assert "What is the same for everybody" in page
    assert "multiplies the odds by" in page
    assert "context=known" in page
