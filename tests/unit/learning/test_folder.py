"""The folder of tasks: what it holds, what it refuses, and how learning goes on after a kill."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.errors import (
    ConvergenceWarning,
    FormatError,
    ParameterError,
    StatisticsError,
    TaskError,
)
from mixts.families import (
    BernoulliStatistics,
    GaussianStatistics,
    LinearBernoulliStatistics,
    Statistics,
)
from mixts.learning import TaskFolder, learn
from mixts.learning.models import Model, model_of
from mixts.learning.models.counts import LevelSums, _levels
from mixts.learning.passes import Memory, PairwiseSum


def clicks(n: int = 60, seed: int = 0) -> BernoulliStatistics:
    """Return tasks of two kinds with some twenty clicks or none on each of three arms."""
    rng = np.random.default_rng(seed)
    rate = np.array([[0.7, 0.2, 0.4], [0.1, 0.6, 0.4]])[rng.integers(2, size=n)]
    tried = rng.integers(5, 40, (n, 3))
    won = rng.binomial(tried, rate)
    return BernoulliStatistics(successes=won, failures=tried - won)


def tables(n: int = 20) -> LinearBernoulliStatistics:
    """Return clicks with features, tasks with different numbers of distinct rows."""
    rng = np.random.default_rng(1)
    belief = mixts.MixturePrior(mixts.LinearBernoulli.standard(2)).belief(n)
    owners = rng.integers(n, size=10 * n)
    belief.update(
        rng.integers(-2, 3, (10 * n, 2)).astype(float), rng.integers(2, size=10 * n), owners
    )
    found = belief.statistics
    assert isinstance(found, LinearBernoulliStatistics)
    return found


def folder_of(path: Path, statistics: Statistics, **sizes: int) -> TaskFolder:
    return TaskFolder.write(path / "tasks", [statistics], **{"block": 16, "grain": 8, **sizes})


# -- what it holds ---------------------------------------------------------------------------------


@pytest.mark.parametrize("statistics", [clicks(), tables()], ids=["arms", "tables"])
def test_the_tasks_come_back(statistics: Statistics, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, statistics)
    assert len(folder) == len(statistics)
    assert folder.tasks(np.arange(len(statistics))) == statistics
    parts = [part for number in range(len(folder.sizes)) for part in folder.grains(number)]
    assert [len(part) for part in parts[:-1]] == [8] * (len(parts) - 1)
    assert parts[0].concatenate(*parts[1:]) == statistics


def test_tasks_without_observations_are_left_out(tmp_path: Path) -> None:
    some = clicks(20)
    folder = folder_of(tmp_path, some.extend(5).concatenate(some))
    assert len(folder) == 40
    assert folder.tasks(np.arange(40)) == some.concatenate(some)


def test_whole_numbers_take_as_few_bytes_as_they_need(tmp_path: Path) -> None:
    large = np.array([[70_000, 3]])
    statistics = BernoulliStatistics(successes=large, failures=[[1, 2**40]])
    folder = folder_of(tmp_path, statistics)
    types = [np.load(path).dtype for path in sorted(folder.path.glob("*.npy"))]
    assert types == [np.dtype(np.int64), np.dtype(np.uint32)]  # failures, successes
    assert folder.tasks(np.array([0])) == statistics


def test_a_view_leaves_tasks_out_and_changes_the_others(tmp_path: Path) -> None:
    statistics = clicks()
    folder = folder_of(tmp_path, statistics)
    view = folder.without([3, 17, 18]).changed(swapped)
    kept = np.setdiff1d(np.arange(60), [3, 17, 18])
    parts = [part for number in range(len(view.sizes)) for part in view.grains(number)]
    assert parts[0].concatenate(*parts[1:]) == swapped(statistics[kept])
    assert len(view) == 57
    assert len(folder) == 60
    view.in_memory = 100
    assert view.sample(1) == swapped(statistics[kept])
    assert len({view.identity, folder.identity, folder.without([3]).identity}) == 3


def swapped(statistics: Any) -> BernoulliStatistics:
    return BernoulliStatistics(successes=statistics.failures, failures=statistics.successes)


def test_a_sample_depends_on_the_seed_and_not_on_blocks(tmp_path: Path) -> None:
    one = folder_of(tmp_path / "one", clicks())
    two = folder_of(tmp_path / "two", clicks(), block=32)
    one.in_memory = two.in_memory = 10
    assert one.sample(1) == two.sample(1)
    assert one.sample(1) != one.sample(2)
    one.in_memory = 100
    assert one.sample(1) == clicks()


def test_places_of_tasks_are_checked(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, clicks())
    for places in ([3, 2], [1, 1], np.zeros(0, int)):
        with pytest.raises(StatisticsError, match="places of tasks must ascend"):
            folder.tasks(places)
    with pytest.raises(TaskError, match="between 0 and 59, got 60"):
        folder.tasks([3, 60])
    with pytest.raises(TaskError, match="between 0 and 59, got -1"):
        folder.without([-1])
    with pytest.raises(StatisticsError, match="no tasks left to learn from"):
        learn(folder.without(np.arange(60)), 1, seed=1)


# -- what it refuses -------------------------------------------------------------------------------


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def parts() -> Any:
        yield clicks(20)
        raise ValueError("the engine went away")

    with pytest.raises(ValueError, match="went away"):
        TaskFolder.write(tmp_path / "tasks", parts(), block=8, grain=8)
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    folder_of(tmp_path, clicks())
    with pytest.raises(ParameterError, match="exists: delete it"):
        folder_of(tmp_path, clicks())


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "tasks that were observed"),
        ([clicks(3).successes], "parts must be statistics, got ndarray"),
        ([clicks(8), tables(8)], "expected LinearBernoulliStatistics|one kind"),
    ],
)
def test_parts_must_be_tasks_of_one_kind(
    parts: Any, message: str, tmp_path: Path, unchecked: None
) -> None:
    with pytest.raises(StatisticsError, match=message):
        TaskFolder.write(tmp_path / "tasks", parts, block=8, grain=8)


def test_a_block_is_whole_grains(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="multiple of grain, 8, got 12"):
        folder_of(tmp_path, clicks(), block=12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "expected a file of format 'mixts/tasks', got 'other'"),
        ({"grain": 0}, "must be lists of positive numbers"),
        ({"shape": None}, "must be lists of positive numbers"),
        ({"tasks": None}, "must be lists of positive numbers"),
        ({"tasks": [8, 8.5]}, "must be lists of positive numbers"),
        ({"tasks": [16]}, "it names 1 blocks, and there are more"),
        ({"limits": [1]}, "limits must be an object"),
        ({"digest": 7}, "digest a text"),
        ({"version": 2}, "upgrade mixts"),
        ({"version": "1"}, "positive integer"),
        ({"statistics": "unknown"}, "known statistics"),
    ],
)
def test_a_header_is_checked(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, clicks())
    path = folder.path / "header.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FormatError, match=message):
        TaskFolder(folder.path)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, clicks())
    path = folder.path / "00001.failures.npy"
    np.save(path, np.load(path)[:-1])
    with pytest.raises(FormatError, match=r"00001\.failures\.npy must have 16 numbers"):
        list(folder.grains(1))
    for wrong in (np.full(16, 0.5), np.array(3)):
        np.save(path, wrong)
        with pytest.raises(FormatError, match=r"00001\.failures\.npy must have 16 numbers"):
            list(folder.grains(1))
    path.write_bytes(b"nothing")
    with pytest.raises(FormatError, match=r"00001\.failures\.npy is missing or damaged"):
        list(folder.grains(1))
    with pytest.raises(FormatError, match="is no folder of tasks"):
        TaskFolder(tmp_path)


def test_what_needs_all_tasks_at_once_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, clicks())
    with pytest.raises(ParameterError, match="'two-stage' needs all tasks in memory"):
        learn(folder, 2, "two-stage", seed=1)
    linear = folder_of(tmp_path / "linear", tables())
    with pytest.raises(ParameterError, match="an offset are learned in memory"):
        learn(linear, 1, seed=1, offset=True)


def test_tasks_without_noise_need_one(tmp_path: Path) -> None:
    count = np.full((20, 2), 3)
    still = GaussianStatistics(
        count=count, average=np.arange(40.0).reshape(20, 2), squares=np.zeros((20, 2))
    )
    folder = folder_of(tmp_path, still)
    with pytest.raises(StatisticsError, match=r"of a sample of 20 shows any noise.*noise_std"):
        learn(folder, 1, seed=1)
    assert learn(folder, 1, seed=1, noise_std=0.5).prior.n_components == 1


def test_a_model_without_sums_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixts.learning.models.counts.CountsModel.sums", Model.sums)
    folder = folder_of(tmp_path, clicks())
    with pytest.raises(ParameterError, match="BernoulliModel has no sums over tasks"):
        learn(folder, 1, seed=1, engine=1)


# -- sums ------------------------------------------------------------------------------------------


def test_pairs_are_added_in_order_and_lose_no_digits() -> None:
    numbers = np.random.default_rng(2).standard_normal(1000) * 10.0 ** np.arange(1000) ** 0.5
    found = PairwiseSum()
    for number in numbers:
        found.add((float(number), np.array([number])))
    total, array = found.total()
    assert total == array[0]
    assert total == pytest.approx(np.sum(numbers), rel=1e-15)
    lists = PairwiseSum()
    for number in range(13):
        lists.add([number])
    assert lists.total() == list(range(13))


@pytest.mark.parametrize("factor", [1, 10**6])
def test_levels_of_parts_add(factor: int) -> None:
    """Levels of small counts, and of huge ones, whose table of levels would be too large."""
    pairs = clicks(), clicks(30, seed=5)
    scaled = [
        BernoulliStatistics(successes=s.successes * factor, failures=s.failures) for s in pairs
    ]
    whole = scaled[0].concatenate(scaled[1])
    share = np.random.default_rng(3).dirichlet(np.ones(2), len(whole))
    models = [model_of(one, noise_std=None, noise=None) for one in (whole, *scaled)]
    family = models[0].centre.select([0, 0])
    (together,) = models[0].sums(family, share)
    parts = [m.sums(family, s) for m, s in zip(models[1:], (share[:60], share[60:]), strict=True)]
    for name in ("outcomes", "totals"):
        one, other = (getattr(part[0], name) for part in parts)
        added, expected = one + other, getattr(together, name)
        assert isinstance(added, LevelSums)
        np.testing.assert_array_equal(added.levels.value, expected.levels.value)
        np.testing.assert_array_equal(added.levels.column, expected.levels.column)
        np.testing.assert_allclose(added.shares, expected.shares, rtol=1e-13)


def test_levels_are_distinct_pairs_in_order() -> None:
    rng = np.random.default_rng(4)
    for most in (3, 10**9):
        owners, values = rng.integers(4, size=50), rng.integers(1, most, size=50)
        owner, value, place = _levels(owners, values)
        expected = sorted(set(zip(owners.tolist(), values.tolist(), strict=True)))
        assert list(zip(owner.tolist(), value.tolist(), strict=True)) == expected
        np.testing.assert_array_equal(owner[place], owners)
        np.testing.assert_array_equal(value[place], values)


# -- going on --------------------------------------------------------------------------------------


class DiedError(Exception):
    pass


def test_learning_goes_on_where_it_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Die after every note in turn: the prior is the same to the bit, and no note is made twice."""
    options: dict[str, Any] = {"seed": 1, "n_restarts": 1, "engine": 1, "tolerance": 1e-9}
    whole = folder_of(tmp_path / "whole", clicks())
    whole.in_memory = 30
    expected, save, notes = learn(whole, 2, **options), Memory.save, []

    def dying(self: Memory, at: Any) -> None:
        save(self, at)
        notes.append(len(at.course))
        raise DiedError

    folder = folder_of(tmp_path, clicks())
    folder.in_memory = 30
    monkeypatch.setattr(Memory, "save", dying)
    for _ in range(100):
        try:
            found = learn(folder, 2, **options)
        except DiedError:
            continue
        break
    assert len(notes) > 5
    for one, other in ((found.prior, expected.prior), (found.unimodal, expected.unimodal)):
        assert one.to_bytes() == other.to_bytes()
    assert found.history is not None
    assert expected.history is not None
    np.testing.assert_array_equal(found.history.objective, expected.history.objective)
    assert sorted(p.name for p in (whole.path / "climbs").iterdir()) == sorted(
        p.name for p in (folder.path / "climbs").iterdir()
    )


def test_other_settings_do_not_go_on(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, clicks())
    folder.in_memory = 30
    learn(folder, 2, seed=1, engine=1)
    before = len(list((folder.path / "climbs").iterdir()))
    learn(folder, 2, seed=1, engine=1)
    assert len(list((folder.path / "climbs").iterdir())) == before
    learn(folder, 2, seed=1, engine=1, tolerance=1e-7)
    assert len(list((folder.path / "climbs").iterdir())) > before


def test_a_damaged_note_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, clicks())
    learn(folder, 1, seed=1, engine=1)
    for note in (folder.path / "climbs").iterdir():
        note.write_bytes(b"nothing")
    with pytest.raises(FormatError, match="not a mixts climb file, or is damaged"):
        learn(folder, 1, seed=1, engine=1)


def test_a_task_that_nothing_explains_stops_learning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixts.learning.climbing._shares", nothing_explains)
    with pytest.raises(StatisticsError, match=r"no component explains some.*in_memory"):
        learn(folder_of(tmp_path, clicks()), 1, seed=1, engine=1)


def nothing_explains(model: Model, family: Any, weights: Any) -> Any:
    share = np.full((model.n_tasks, 1), 1.0)
    return share, 0.0 if model.elsewhere is None and model.n_tasks > 8 else float("nan")


FIT = """
import sys
from mixts.learning.passes import Memory, Passes
from tests.unit.learning.test_folder import TaskFolder, learned_by

def watched(method):
    def noting(*arguments):
        print(method.__name__, flush=True)
        sys.stdin.readline()  # go on; at the end of the input, to the end
        return method(*arguments)
    return noting

Memory.save, Passes.total = watched(Memory.save), watched(Passes.total)
sys.stdout.buffer.write(learned_by(TaskFolder(sys.argv[1])))
"""


@pytest.mark.slow
def test_thirty_kills_change_nothing(tmp_path: Path) -> None:
    """Kill the process at random moments: during passes, and while it notes where it is.

    It waits before each of both, so that a run makes two notes at most, whatever the machine.
    """
    folder, rng = folder_of(tmp_path, alike()), np.random.default_rng(5)
    command = [sys.executable, "-c", FIT, str(folder.path)]
    for _ in range(30):
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            for _ in range(int(rng.integers(1, 9))):
                assert process.stdout.readline()
                process.stdin.write(b"\n")
                process.stdin.flush()
            time.sleep(float(rng.uniform(0, 0.02)))
            process.kill()
    notes = len(list((folder.path / "climbs").glob("*.npz")))
    last = subprocess.run(command, stdin=DEVNULL, stdout=PIPE, check=True)
    assert notes > 1
    assert last.stdout.endswith(learned_by(folder_of(tmp_path / "whole", alike())))


def alike() -> BernoulliStatistics:
    """Return tasks of two kinds that are hard to tell apart: learning takes many iterations."""
    rng = np.random.default_rng(0)
    rate = np.array([[0.55, 0.4, 0.4], [0.4, 0.5, 0.4]])[rng.integers(2, size=60)]
    tried = rng.integers(5, 40, (60, 3))
    won = rng.binomial(tried, rng.beta(10 * rate, 10 * (1 - rate)))
    return BernoulliStatistics(successes=won, failures=tried - won)


def learned_by(folder: TaskFolder) -> bytes:
    """Return the prior, and the course of learning."""
    folder.in_memory = 30
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        learned = learn(folder, 3, seed=1, n_restarts=1, engine=1, tolerance=1e-75)
    assert learned.history is not None
    return learned.prior.to_bytes() + learned.history.objective.tobytes()
