"""From logs to a checked prior, as a library function."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mixts.errors import ParameterError
from mixts.learning import Selection, learn, mixture_evidence, select
from mixts.logs import TaskLogs, read_logs
from mixts.logs.fit import fit_logs
from mixts.logs.fitted import Fit, FitSettings
from mixts.pages import descriptions_of, kinds_of

COLUMNS = {"task": "user", "arm": "item", "reward": "clicked"}


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clicks of users of two kinds, with one bad row."""
    rng = np.random.default_rng(1)
    rates = np.array([[0.9, 0.1], [0.1, 0.8]])
    lines = ["user,item,clicked", "u1,hats,often"]
    for user in range(30):
        for item in rng.integers(2, size=20):
            clicked = int(rng.random() < rates[user % 2, item])
            lines.append(f"u{user},{('books', 'hats')[item]},{clicked}")
    path = tmp_path_factory.mktemp("fit") / "clicks.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def logs(clicks: Path) -> TaskLogs:
    return read_logs(clicks, **COLUMNS)


@pytest.fixture(scope="module")
def fitted(logs: TaskLogs) -> Fit:
    return fit_logs(logs, n_components=2, robust=0.02, seed=1, engine=1)


def test_a_fit_has_all_that_is_known(fitted: Fit, logs: TaskLogs) -> None:
    assert fitted.logs is logs
    assert fitted.settings == FitSettings(n_components=2, robust=0.02, seed=1)
    assert fitted.prior.names == ("kind 1", "kind 2", "other")
    assert fitted.prior.arm_names == fitted.items == ("books", "hats")
    assert fitted.n_components == 2
    assert len(fitted.training) == len(fitted.training_tasks) == 24
    assert fitted.check is not None
    assert fitted.check.n_tasks == len(fitted.held_out) == 6
    assert sorted([*fitted.training, *fitted.held_out]) == list(range(30))
    assert fitted.converged
    assert fitted.outcome.startswith("2 kinds of task, learned from 24 tasks; converged after ")


def test_files_are_read_on_the_way(clicks: Path, fitted: Fit) -> None:
    lines: list[str] = []
    again = fit_logs(
        clicks, COLUMNS, n_components=2, robust=0.02, seed=1, engine=1, progress=lines.append
    )
    assert lines == [
        f"reading {clicks}",
        "learning 1 kind from 24 tasks",
        "learning 2 kinds from 24 tasks",
        "checking the prior on 6 held-out tasks",
    ]
    assert again.logs.bad_rows.total == 1
    np.testing.assert_array_equal(again.prior.weights, fitted.prior.weights)
    np.testing.assert_array_equal(again.held_out, fitted.held_out)


def test_nothing_held_out_is_nothing_checked(logs: TaskLogs) -> None:
    fit = fit_logs(logs, n_components=1, held_out=0, seed=1)
    assert fit.check is None
    assert len(fit.training) == 30
    assert fit.n_compared == 0


def test_auto_says_how_many_tasks_it_compared(logs: TaskLogs) -> None:
    fit = fit_logs(logs, held_out=0, select_from=12, seed=1, engine=1)
    assert fit.n_compared == 12
    assert fit.learned.selection is not None
    assert fit.learned.selection.held_out.shape[1] == 12
    assert "kinds compared on 12 tasks" in fit.outcome


def test_joined_mixtures_are_learned_from_all_tasks(
    logs: TaskLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though they were compared on a few."""
    monkeypatch.setattr(select, "stack_weights", lambda held_out: np.array([0.4, 0.6]))
    fit = fit_logs(logs, held_out=0, select_from=8, seed=1, engine=1)
    assert fit.learned.selection is not None
    assert fit.learned.selection.members == {1: 0.4, 2: 0.6}
    assert fit.outcome.startswith(
        "2 kinds of task (3 components: mixtures of 1 and 2 joined), learned from 30 tasks; "
        "1 to 2 kinds compared on 8 tasks; "
    )
    kinds = fit.prior.kinds
    assert kinds is not None
    assert fit.n_kinds == len(set(kinds)) == 2
    assert sorted(fit.prior.names or ()) in (
        ["kind 1a", "kind 1b", "kind 2"],
        ["kind 1", "kind 2a", "kind 2b"],
    )
    described_once = kinds_of(fit.prior, fit.training_tasks, fit.items, fit.n_kinds)
    assert [kind.name for kind in described_once] == ["Kind 1", "Kind 2"]
    np.testing.assert_allclose(
        [kind.weight for kind in described_once], fit.prior.sum_by_kind(fit.prior.weights)
    )
    headlines = tuple(described_once[g].headline for g in fit.prior.kind_indices)
    assert descriptions_of(fit.prior) == headlines  # of arms, which need no tasks to be scaled
    parts = [learn(logs.statistics, n, seed=1, engine=1).prior for n in (1, 2)]
    tasks = logs.statistics
    together = np.logaddexp(*(
        np.log(w) + mixture_evidence(part, tasks) for w, part in zip((0.4, 0.6), parts, strict=True)
    ))  # fmt: skip
    np.testing.assert_allclose(mixture_evidence(fit.prior, tasks), together, atol=0.1)
    assert fit.n_components == len(fit.prior.names or ()) <= 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"held_out": 1}, "held_out must be a fraction from 0 to below 1, got 1"),
        ({"robust": -0.1}, "robust must be a weight from 0 to below 1"),
        ({"select_from": 0}, "select_from must be"),
        ({"n_components": 0}, "n_components must be a whole number, at least 1"),
        ({"columns": COLUMNS}, "columns are for files"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_refused(logs: TaskLogs, options: dict, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        fit_logs(logs, **options)


def test_an_unknown_setting_is_named_beside_the_settings(logs: TaskLogs) -> None:
    message = "^unknown option 'components'; options: method, .*n_components"
    with pytest.raises(TypeError, match=message):
        fit_logs(logs, components=2)


def test_files_need_columns(clicks: Path) -> None:
    with pytest.raises(ParameterError, match="columns are needed to read files"):
        fit_logs(clicks)


@pytest.mark.parametrize(
    ("means", "chosen", "sentence"),
    [
        ([1.0, 0.5], 1, "1 kind predicts best."),
        ([0.5, 1.0], 2, "2 kinds predict best."),
        (
            [0.5, 0.9, 1.0],
            2,
            "3 kinds predict best; 2 kinds are within one standard error, so 2 were chosen.",
        ),
        (
            [0.9, 1.0],
            1,
            "2 kinds predict best; 1 kind is within one standard error, so 1 was chosen.",
        ),
    ],
)
def test_the_choice_has_a_reason(means: list[float], chosen: int, sentence: str) -> None:
    held_out = np.repeat(np.array(means)[:, None], 4, axis=1)
    candidates = tuple(range(1, len(means) + 1))
    assert Selection(candidates, held_out, np.zeros(len(means)), chosen, 5).sentence == sentence


def stacked(held_out: np.ndarray) -> str:
    n = len(held_out)
    selection = Selection(tuple(range(1, n + 1)), held_out, np.zeros(n), 1, 5)
    return selection.by("stack").sentence


def test_a_stack_has_a_reason() -> None:
    halves = np.zeros((2, 400))
    halves[0, ::2], halves[1, 1::2] = -1.0, -1.0
    assert stacked(halves) == (
        "1 kind predicts best; mixtures of 1 (50%) and 2 (50%) kinds together predict still "
        "better, so the prior joins them."
    )
    assert stacked(np.full((3, 400), [[-1.0], [0.0], [0.002]])) == (
        "3 kinds predict best; 2 kinds predict nearly as well, so 2 were chosen."
    )
    # Ten components are too dear; two explain twelve tasks that one component does not.
    dear = np.full((10, 2000), -5.0)
    dear[9] = 0.0
    dear[0], dear[1] = np.where(np.arange(2000) < 12, [[-7.0], [0.0]], [[0.0], [-0.3]])
    assert re.fullmatch(
        r"10 kinds predict best; mixtures of 1 \(\d+%\) and 2 \(\d+%\) kinds together predict "
        r"nearly as well with fewer components, so the prior joins them\.",
        stacked(dear),
    )
