"""``mixts store``."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import threading
import time
from pathlib import Path

import pytest
from mixts_serve import Decider, DecisionStore

from mixts.cli import main
from serve.tests.unit.sample_decisions import fill_arms
from serve.tests.unit.store.faulty_store import PRIOR

parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("store") / "decisions.db"
    fill_arms(path)
    return str(path)


def test_show(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "show", store]) == 0
    first, second, *priors = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"{re.escape(store)}: SQLite, tables of version \d+, [1-9]\d* kB", first)
    assert second == "4 tasks, 7 decisions, 5 rewards, 1 of them late"
    when = r"from \d{4}-\d\d-\d\d \d\d:\d\d UTC"
    assert re.fullmatch(rf"prior version 1: bernoulli-arms, 2 components, {when}", priors[0])
    assert re.fullmatch(
        rf"prior version 2: bernoulli-arms, 3 components, {when}, active", priors[1]
    )
    assert len(priors) == 2


def test_show_of_an_empty_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DecisionStore(tmp_path / "new.db").close()
    assert main(["store", "show", str(tmp_path / "new.db")]) == 0
    assert "no prior yet" in capsys.readouterr().out


def test_show_names_the_shard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "part.db"
    with DecisionStore(path) as store, Decider(PRIOR, store, shard="2/4"):
        pass
    assert main(["store", "show", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "has the tasks of shard 2/4"


def test_check_and_rebuild(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(shutil.copy(store, tmp_path))  # nobody has it open
    counts = "4 tasks, 7 decisions, 5 rewards, 1 of them late"
    assert main(["store", "check", str(path)]) == 0
    sound = "sound: all rows are as they were written, all statistics are those of the log"
    assert capsys.readouterr().out.splitlines() == [counts, sound]
    with DecisionStore(path) as store, store.backend.transaction() as transaction:
        (entry,), _ = transaction.lock_tasks(["u2"], [], 0)
        entry.decisions += 1
        transaction.save_tasks([entry])
    different = "1 task differs from the log: 'u2'"
    for _ in range(2):  # a check changes nothing
        assert main(["store", "check", str(path)]) == 1
        verdict = "DIFFERENT: 'mixts store rebuild' corrects what differs from the log"
        assert capsys.readouterr().out.splitlines() == [counts, different, verdict]
    assert main(["store", "rebuild", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [counts, different, "corrected"]
    assert main(["store", "check", str(path)]) == 0
    capsys.readouterr()
    with DecisionStore(path) as store, store.backend.transaction() as transaction:
        transaction._execute("UPDATE counts SET decisions = 99 WHERE span < 1000000000")  # type: ignore[attr-defined]
    assert main(["store", "check", str(path)]) == 1
    assert " counts over time differ from the log" in capsys.readouterr().out
    assert main(["store", "rebuild", str(path)]) == 0
    assert main(["store", "check", str(path)]) == 0


def test_a_copy_of_a_store_in_use_is_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, stop, made = tmp_path / "decisions.db", threading.Event(), []
    with DecisionStore(path) as store, Decider(PRIOR, store, seed=1) as decider:

        def decide() -> None:
            while not stop.is_set():
                decision = decider.decide(f"task {len(made) % 50}")
                decider.reward(decision.id, 1.0)
                made.append(decision)

        load = threading.Thread(target=decide)
        load.start()
        try:
            for number in range(3):
                before = len(made)
                while len(made) < before + 100:
                    time.sleep(0.001)
                before, copy = len(made), tmp_path / f"copy {number}.db"
                assert main(["store", "backup", str(path), str(copy)]) == 0
                assert copy.stat().st_mode & 0o777 == 0o600
                assert main(["store", "check", str(copy)]) == 0, capsys.readouterr().out
                with DecisionStore(copy) as copied:
                    assert before <= copied.totals().rewards <= len(made) + 1
                    assert copied.history(made[0].task)[0].id == made[0].id
        finally:
            stop.set()
            load.join()
    with DecisionStore(copy) as copied, Decider(None, copied) as decider:
        assert decider.decide("task 1").task == "task 1"  # it can be used as the store was


def test_a_copy_has_the_permissions_of_the_original(store: str, tmp_path: Path) -> None:
    original = Path(shutil.copy(store, tmp_path / "decisions.db"))
    for mode in (0o640, 0o600):
        original.chmod(mode)
        copy = tmp_path / f"copy {mode}.db"
        assert main(["store", "backup", str(original), str(copy)]) == 0
        assert copy.stat().st_mode & 0o777 == mode
    if os.geteuid() == 0:
        os.chown(original, 12345, 23456)
        assert main(["store", "backup", str(original), str(tmp_path / "theirs.db")]) == 0
        found = (tmp_path / "theirs.db").stat()
        assert (found.st_uid, found.st_gid) == (12345, 23456)
    assert list(tmp_path.glob(".*")) == [], "nothing half written stays"


def test_erase_and_archive(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(shutil.copy(store, tmp_path / "decisions.db"))
    (tmp_path / "archive").mkdir()
    folder = str(tmp_path / "archive")
    with DecisionStore(path) as opened:
        before = opened.totals()
    assert main(["store", "archive", path, "--keep", "0.000001", "--to", folder]) == 0
    assert capsys.readouterr().out == f"7 decisions moved to 1 file in {folder}\n"
    assert main(["store", "check", path]) == 0
    assert "\n7 of these decisions, of 4 tasks, are archived" in capsys.readouterr().out
    names = "\ufeffu2\r\n\nnobody\n".encode()
    (tmp_path / "names").write_bytes(names)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(names)))
    assert main(["store", "erase", path, "--file", "-"]) == 1, "the files have them still"
    first, second = capsys.readouterr().out.splitlines()
    assert first == "1 task with 0 decisions erased, 1 unknown"
    n = re.fullmatch(r"ARCHIVED: files outside the store have ([1-6]) more of .*", second)[1]  # type: ignore[index]
    words = ["store", "erase", path, "u1", "--file", str(tmp_path / "names"), "--archive"]
    assert main([*words, str(tmp_path)]) == 1, "another folder"
    first, second = capsys.readouterr().out.splitlines()
    assert first == "1 task with 0 decisions erased, 2 unknown"
    assert second.startswith(f"ARCHIVED: files outside the store and {tmp_path} have ")
    (file,) = Path(folder).iterdir()
    if os.geteuid() == 0:
        os.chown(file, 12345, 23456)
    old = file.stat()
    assert main([*words, folder]) == 0
    both = re.fullmatch(
        r"0 tasks with ([2-6]) decisions erased, 3 unknown\n", capsys.readouterr().out
    )
    assert both is not None
    assert int(both[1]) > int(n)
    new = file.stat()
    assert (new.st_mode, new.st_uid, new.st_gid) == (old.st_mode, old.st_uid, old.st_gid)
    assert main(["store", "check", path]) == 0
    with DecisionStore(path) as opened:
        assert (before.tasks, opened.totals().tasks) == (4, 2)


def test_export(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "log.parquet"
    assert main(["store", "export", store, str(out)]) == 0
    table = parquet.read_table(out)
    assert table.num_rows == 7
    first, second = capsys.readouterr().out.splitlines()
    assert first == "7 decisions, 5 rewards"
    assert re.fullmatch(rf"{re.escape(str(out))} has them: [1-9]\d* kB", second)
    middle = table["timestamp"][4].as_py().isoformat()
    assert main(["store", "export", store, str(out), "--since", middle, "--force"]) == 0
    assert parquet.read_table(out)["id"].to_pylist() == table["id"].to_pylist()[4:]
    assert main(["store", "export", store, str(out), "--until", "2001-02-03", "--force"]) == 0
    assert parquet.read_table(out).num_rows == 0


@pytest.mark.parametrize(
    ("name", "begins"),
    [("log.csv", b'"id","task",'), ("LOG.CSV", b'"id","task",'), ("log.csv.gz", b"\x1f\x8b"),
     ("log.parquet", b"PAR1")],
)  # fmt: skip
def test_the_name_decides_the_format(store: str, tmp_path: Path, name: str, begins: bytes) -> None:
    assert main(["store", "export", store, str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_export_for_vowpal_wabbit(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "log.dsjson"
    assert main(["store", "export", store, str(out)]) == 0
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == 5
    assert "\n2 decisions without a reward were left out\n" in capsys.readouterr().out
    options = ["--missing-reward", "0", "--force"]
    assert main(["store", "export", store, str(out), *options]) == 0
    assert len(out.read_text().splitlines()) == 7
    assert "left out" not in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "none.db"], "there is no store none.db: mixts serve --store makes one"),
        (["rebuild", "none.db"], "there is no store none.db"),
        (["check", "none.db"], "there is no store none.db"),
        (["backup", "none.db", "copy.db"], "there is no store none.db"),
        (["backup", "STORE", "text.txt"], "text.txt cannot be made: File exists"),
        (["backup", "STORE", "STORE"], "cannot be made: File exists"),
        (["erase", "STORE"], "erase needs names of tasks: give some, or a --file of them"),
        (["erase", "STORE", "--file", "none"], "none cannot be read as UTF-8 text"),
        (["erase", "STORE", "a", "--archive", "none"], "none is not a folder: make it first"),
        (["archive", "STORE", "--keep", "1d", "--to", "none"], "none is not a folder"),
        (["export", "none.db", "out.csv"], "there is no store none.db"),
        (["show", "mysql://host/x"], "a store is a path or an address that begins with postgresql"),
        (["show", "text.txt"], "text.txt is not a store of decisions"),
        (["export", "STORE", "text.txt"], "text.txt exists: choose another file, or add --force"),
        (["export", "STORE", "STORE", "--force"], "is the store itself: choose another file"),
        (["export", "STORE", "no/out"], "no is not a folder that can be written to"),
        (["export", "STORE", "out.csv", "--missing-reward", "0"], "is for .dsjson"),
        (["export", "STORE", "out.xlsx"], "end in .parquet, .csv, .csv.gz or .dsjson, which is"),
        (["export", "STORE", "out"], "got out: choose such a name"),
    ],
)
def test_mistakes_get_a_message_and_status_2(
    store: str, arguments: list[str], message: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("a text that is not a database, and longer than a header\n" * 9)
    assert main(["store", *(store if word == "STORE" else word for word in arguments)]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_time_is_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["store", "export", "decisions.db", "out", "--since", "yesterday"])
    assert ended.value.code == 2
    assert "expected a time as in 2024-05-31" in capsys.readouterr().err
