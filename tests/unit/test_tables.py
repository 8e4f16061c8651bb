"""Tables of pandas, polars and pyarrow: the same results wherever a table is accepted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts._tables import arrow_table, is_table
from mixts.logs import read_logs, read_rows

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

Make = Callable[[dict[str, list[Any]]], Any]


def as_pandas(columns: dict[str, list[Any]]) -> Any:
    """A data frame with nullable integers, categories, and labels of rows that are not 0, 1, ..."""
    table = pd.DataFrame(columns)
    if "clicked" in table:
        table["clicked"] = table["clicked"].astype("Int64")
    if "item" in table:
        table["item"] = table["item"].astype("category")
    table.index = pd.Index(np.arange(len(table))[::-1] * 7 + 3)
    return table


def as_polars(columns: dict[str, list[Any]]) -> Any:
    table = pl.DataFrame(columns)
    return table.with_columns(pl.col("item").cast(pl.Categorical)) if "item" in columns else table


def as_lazy(columns: dict[str, list[Any]]) -> Any:
    return as_polars(columns).lazy()


def as_arrow(columns: dict[str, list[Any]]) -> Any:
    """A table of two chunks whose categories differ."""
    table = pa.table(columns)
    half = table.num_rows // 2
    parts = [table.slice(0, half), table.slice(half)]
    if "item" in columns:
        place = columns_of(table).index("item")
        parts = [part.set_column(place, "item", part["item"].dictionary_encode()) for part in parts]
    return pa.concat_tables(parts)


def columns_of(table: Any) -> list[str]:
    return list(table.column_names)


MAKERS = [as_pandas, as_polars, as_lazy, as_arrow]


@pytest.fixture(params=MAKERS, ids=lambda make: make.__name__.removeprefix("as_"))
def make(request: pytest.FixtureRequest) -> Make:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[as_pandas, as_polars, as_arrow], ids=["pandas", "polars", "pyarrow"])
def eager(request: pytest.FixtureRequest) -> Make:
    return request.param  # type: ignore[no-any-return]


def log(n: int = 600) -> dict[str, list[Any]]:
    """Rows of 30 users; some have no user, no item, or no reward."""
    rng = np.random.default_rng(5)
    rates = np.array([[0.9, 0.2, 0.1], [0.1, 0.2, 0.9]])
    user, item = rng.integers(30, size=n), rng.integers(3, size=n)
    clicked = (rng.random(n) < rates[user % 2, item]).astype(int)
    start = datetime(2024, 5, 1, tzinfo=UTC)
    return {
        "user": [None if i % 50 == 1 else f"u{u}" for i, u in enumerate(user)],
        "item": [None if i % 50 == 2 else ["a", "b", "c"][k] for i, k in enumerate(item)],
        "clicked": [None if i % 50 == 3 else int(c) for i, c in enumerate(clicked)],
        "price": (rng.integers(1, 40, size=n) / 4).tolist(),
        "at": [start + timedelta(seconds=37 * i) for i in range(n)],
    }


def as_csv(columns: dict[str, list[Any]], path: Path) -> Path:
    lines = [",".join(columns)]
    for row in zip(*columns.values(), strict=True):
        lines.append(",".join("" if value is None else str(value) for value in row))
    path.write_text("\n".join(lines) + "\n")
    return path


COLUMNS = {"task": "user", "arm": "item", "reward": "clicked", "time": "at"}


# -- logs -----------------------------------------------------------------------------------------


def test_a_table_is_read_as_a_file_is(make: Make, tmp_path: Path) -> None:
    rows = log()
    expected = read_logs(as_csv(rows, tmp_path / "log.csv"), **COLUMNS)
    found = read_logs(make(rows), **COLUMNS)
    assert found.tasks == expected.tasks
    assert found.arms == ("a", "b", "c")
    assert found.statistics == expected.statistics
    assert found.family == "bernoulli"
    assert found.n_rows == 600
    assert found.bad_rows.counts == expected.bad_rows.counts
    assert found.bad_rows.total == 36
    assert found.times is not None
    assert expected.times is not None
    np.testing.assert_array_equal(found.times.first, expected.times.first)


def test_features_of_a_table(make: Make, tmp_path: Path) -> None:
    rows = log()
    asked: dict[str, Any] = {
        "task": "user", "reward": "clicked", "features": ["price", "item"], "intercept": True,
    }  # fmt: skip
    expected = read_logs(as_csv(rows, tmp_path / "log.csv"), **asked)
    found = read_logs(make(rows), **asked)
    assert found.features == ("intercept", "price", "item=b", "item=c")
    assert found.features == expected.features
    assert found.statistics == expected.statistics


def test_pieces_of_a_table_make_no_difference(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(log())
    whole = read_logs(table, **COLUMNS)
    monkeypatch.setattr("mixts.logs.files.PIECE_ROWS", 70)
    parts = read_logs(table, **COLUMNS, batch_rows=9)
    assert parts.statistics == whole.statistics
    # Rows are numbered in the table, not in its pieces; rows that an engine counts have no number.
    assert parts.bad_rows.examples == whole.bad_rows.examples
    chosen = read_rows(parts, [2, 0])
    assert len(chosen.rewards) == whole.statistics.n_observations[[2, 0]].sum()


def test_tables_and_files_are_read_together(make: Make, tmp_path: Path) -> None:
    rows = log()
    path = as_csv(rows, tmp_path / "log.csv")
    one, both = read_logs(path, **COLUMNS), read_logs([make(rows), path], **COLUMNS)
    assert both.statistics == one.statistics + one.statistics
    assert list(map(str, both.files)) == ["table 1", str(path)]


def test_a_prior_is_learned_from_a_table(make: Make, tmp_path: Path) -> None:
    rows = log()
    said: list[str] = []
    fits = [
        mixts.fit_logs(source, COLUMNS, n_components=2, seed=1, progress=said.append)
        for source in (make(rows), as_csv(rows, tmp_path / "log.csv"))
    ]
    np.testing.assert_array_equal(fits[0].prior.weights, fits[1].prior.weights)
    np.testing.assert_array_equal(
        fits[0].prior.family.parameter_means(), fits[1].prior.family.parameter_means()
    )
    assert said[0] == "reading the table"


def test_numbers_and_dates_are_names_of_tasks(make: Make) -> None:
    days = [datetime(2024, 5, day) for day in (1, 2, 1, 2)]
    rows = {"task": [1, None, 10, 1], "day": days, "arm": ["x", "y", "x", "y"], "r": [0.5, 2, 1, 1]}
    assert read_logs(make(rows), task="task", arm="arm", reward="r").tasks == ("1", "10")
    by_day = read_logs(make(rows), task="day", arm="arm", reward="r")
    assert by_day.tasks == ("2024-05-01T00:00:00", "2024-05-02T00:00:00")


def test_columns_of_a_table_are_checked(make: Make) -> None:
    rows = log()
    with pytest.raises(errors.ParameterError, match=r"the table has no column 'users'; .*'user'"):
        read_logs(make(rows), **{**COLUMNS, "task": "users"})
    with pytest.raises(errors.ParameterError, match="column of the reward must have numbers, got"):
        read_logs(make(rows), **{**COLUMNS, "reward": "at", "time": "price"})
    empty = make({name: column[:0] for name, column in rows.items()})
    with pytest.raises(errors.FormatError, match=r"no rows .* in the table"):
        read_logs(empty, **COLUMNS)
    with pytest.raises(errors.ParameterError, match="columns are needed to read files and tables"):
        mixts.fit_logs(make(rows))


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(errors.ParameterError, match=r"logs must be files .*, got int"):
        read_logs(3, **COLUMNS)
    with pytest.raises(errors.ParameterError, match=r"logs must be files .*, got dict"):
        read_logs([{}], **COLUMNS)
    mixed = pd.DataFrame({"user": ["a", 3], "item": ["x", "y"], "clicked": [0, 1]})
    with pytest.raises(errors.ParameterError, match="values of several types"):
        read_logs(mixed, task="user", arm="item", reward="clicked")
    twice = pd.DataFrame([["a", "x", 0, 1]], columns=["user", "item", "clicked", "clicked"])
    with pytest.raises(errors.ParameterError, match="clicked"):
        read_logs(twice, task="user", arm="item", reward="clicked")


def test_only_tables_are_tables(make: Make) -> None:
    table = make(log(4))
    assert is_table(table)
    for other in (None, 3, "a.csv", Path("a.csv"), [1], {"a": 1}, np.zeros((2, 2)), object()):
        assert not is_table(other)
    for column in (pd.Series([1]), pl.Series([1]), pa.array([1]), pa.chunked_array([[1]])):
        assert not is_table(column)
    assert columns_of(arrow_table(table)) == list(log(1))


# -- actions and observations ---------------------------------------------------------------------


def features_prior() -> mixts.MixturePrior:
    features = mixts.Features(
        ["price", mixts.LevelFeature("brand", ("acme", "bolt"), reference="acme")], intercept=True
    )
    family = mixts.LinearGaussian(np.eye(3)[:2], np.ones(2), 0.5, "spherical")
    return mixts.MixturePrior(family, features=features)


def test_a_table_describes_actions(eager: Make) -> None:
    described = {"brand": ["bolt", "acme"], "price": [3.5, 2.0]}
    prior = features_prior()
    expected = np.array([[1.0, 3.5, 1.0], [1.0, 2.0, 0.0]])
    assert prior.features is not None
    np.testing.assert_array_equal(prior.features.rows(eager(described)), expected)
    by_table, by_rows = (mixts.MixTS(prior, seed=1) for _ in range(2))
    assert by_table.act(eager(described)) == by_rows.act(expected)
    by_table.update(eager(described), [0.3, 0.7])
    by_rows.update(expected, [0.3, 0.7])
    np.testing.assert_array_equal(by_table.belief.mean, by_rows.belief.mean)
    many = mixts.MixTS(prior, n_tasks=2, seed=1)
    assert many.act([eager(described)] * 2).shape == (2,)
    with pytest.raises(errors.ActionError, match="action 1: feature 'price' must be a finite"):
        prior.features.rows(eager({"brand": ["bolt", "acme"], "price": [3.5, None]}))
    with pytest.raises(errors.ActionError, match="action 0: feature 'brand' is missing"):
        prior.features.rows(eager({"price": [3.5, 2.0]}))


def test_a_table_of_numbers_is_a_set_of_actions(eager: Make) -> None:
    prior = features_prior().replace(features=None)
    numbers = {"clicked": [1, 1], "b": [3.5, 2.0], "c": [1, 0]}
    expected = np.array([[1.0, 3.5, 1.0], [1.0, 2.0, 0.0]])
    agents = [mixts.MixTS(prior, seed=1) for _ in range(2)]
    assert agents[0].act(eager(numbers)) == agents[1].act(expected)
    np.testing.assert_array_equal(
        agents[0].belief.mean_rewards(eager(numbers)), agents[1].belief.mean_rewards(expected)
    )


@pytest.mark.parametrize(
    "column", [pd.Series, pl.Series, pa.array, lambda values: pa.chunked_array([values])]
)
def test_columns_are_observations(column: Any) -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(2), arm_names=["x", "y"])
    belief, expected = prior.belief(3), prior.belief(3)
    belief.update(column(["x", "y", "y"]), column([1, 0, 1]), tasks=column([2, 0, 2]))
    expected.update([0, 1, 1], [1, 0, 1], tasks=[2, 0, 2])
    assert belief.statistics == expected.statistics
    with pytest.raises(errors.ActionError, match="unknown arm 'z'"):
        belief.update(column(["x", "y", "z"]), column([1, 0, 1]), tasks=[0, 1, 2])


def test_histories_are_columns_and_tables(eager: Make) -> None:
    rewards = [0.1, 1.4, 0.9]
    numbers = {"clicked": [1, 0, 1], "b": [0.5, 1.0, 2.0]}
    array = np.column_stack([numbers["clicked"], numbers["b"]])
    found, expected = (
        mixts.learn_prior([(actions, pd.Series(rewards))] * 4, 1, seed=1)
        for actions in (eager(numbers), array)
    )
    np.testing.assert_array_equal(found.family.parameter_means(), expected.family.parameter_means())


# -- results --------------------------------------------------------------------------------------


def test_results_and_sweeps_are_tables() -> None:
    prior = mixts.MixturePrior(mixts.BernoulliArms([[2.0, 1.0], [1.0, 2.0]], np.ones((2, 2))))
    agents = {"MixTS": prior, "TS": mixts.MixturePrior(mixts.BernoulliArms.uniform(2))}
    environment = mixts.BanditEnvironment(prior)
    results = mixts.simulate(agents, environment, n_rounds=5, n_runs=3, seed=0, engine=1)
    for one in (results, mixts.Sweep.of("x", [1.0, 2.0], [results, results])):
        columns = one.table()
        for table in (one.to_pandas(), one.to_polars(), one.to_arrow()):
            assert is_table(table)
            found = arrow_table(table)
            assert columns_of(found) == list(columns)
            for name, column in columns.items():
                assert found[name].to_pylist() == column.tolist()


# -- missing libraries ----------------------------------------------------------------------------


def test_a_table_without_narwhals_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "narwhals.stable.v2", None)
    with pytest.raises(errors.MissingExtraError, match=r"needs narwhals: pip install 'mixts\[tab"):
        read_logs(pd.DataFrame({"a": [1]}), **COLUMNS)


def test_no_library_of_tables_is_imported_before_a_table_comes() -> None:
    code = (
        "import sys, numpy, mixts\n"
        "prior = mixts.MixturePrior(mixts.BernoulliArms.uniform(2))\n"
        "agent = mixts.MixTS(prior, seed=1)\n"
        "agent.update(agent.act(), 1)\n"
        "print([name for name in ('narwhals', 'pandas', 'polars', 'pyarrow') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- columns of other kinds ----------------------------------------------------------------------

CLICKS = {"user": ["u", "u", "v"], "item": ["a", "b", "a"], "clicked": [1, 0, 1]}
ROLES = {"task": "user", "arm": "item", "reward": "clicked"}


@pytest.mark.parametrize("others", [[1, "x", None], [1j, 2j, 3j], [object()] * 3])
def test_columns_that_are_not_read_may_hold_anything(others: list[Any]) -> None:
    table = pd.DataFrame({**CLICKS, "other": others})
    logs = read_logs(table, **ROLES)
    assert logs.statistics == read_logs(pd.DataFrame(CLICKS), **ROLES).statistics


@pytest.mark.parametrize("values", [[1j] * 3, [2**70] * 3, [1, "x", 1]])
def test_a_column_that_arrow_does_not_have_is_refused(values: list[Any]) -> None:
    with pytest.raises(errors.ParameterError, match="of a type that Arrow does not have"):
        read_logs(pd.DataFrame({**CLICKS, "user": values}), **ROLES)


def test_columns_need_names() -> None:
    table = pd.DataFrame([["u", "a", 1]])
    with pytest.raises(errors.ParameterError, match=r"names of a table's columns must be text"):
        read_logs(table, task="0", arm="1", reward="2")


def test_a_dictionary_is_no_log() -> None:
    with pytest.raises(errors.ParameterError, match=r"logs must be files .* got dict"):
        read_logs(CLICKS, **ROLES)


def test_truth_is_a_number(eager: Make) -> None:
    """As in the columns that pandas.get_dummies makes."""
    prior = mixts.MixturePrior(mixts.LinearGaussian(np.zeros((1, 2)), np.ones(1), 1.0, "spherical"))
    table = eager({"is_new": [True, False], "price": [0.5, 2.0]})
    np.testing.assert_array_equal(prior.action_rows(table), [[1.0, 0.5], [0.0, 2.0]])
    assert mixts.MixTS(prior, seed=1).act(table) in (0, 1)
