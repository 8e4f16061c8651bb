"""``mixts store ingest``, and rewards that wait for their decisions."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from mixts_serve import Decider, Decision, DecisionStore, ingest
from mixts_serve.ingest import Ingest, Progress
from mixts_serve.sources import Note, Part, Place, Row, Source, opened
from mixts_serve.versions import Sizes

from mixts.cli import main
from mixts.errors import ParameterError
from serve.tests.unit.sample_decisions import arms

N = 5
UNKNOWN = f"{7:032x}"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "decisions.db")


@pytest.fixture
def decisions(path: str) -> list[Decision]:
    with DecisionStore(path) as store, Decider(arms(), store, seed=1) as decider:
        return [decider.decide("ada") for _ in range(N)]


def line(decision: Decision | str, value: float = 1.0) -> str:
    id = decision if isinstance(decision, str) else decision.id
    return json.dumps({"id": id, "value": value}) + "\n"


def new_id() -> str:
    """Return the id of a decision that is made elsewhere, now."""
    return (time.time_ns() // 1_000_000).to_bytes(6, "big").hex() + "0" * 20


def give(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))


def test_files(
    path: str, decisions: list[Decision], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, rejects = tmp_path / "a.jsonl", tmp_path / "rejects.jsonl"
    file.write_text("".join(map(line, decisions)) + line(UNKNOWN) + '{"id": "')
    assert main(["store", "ingest", path, str(file)]) == 2
    assert "line 6: no decision" in capsys.readouterr().err
    words = ["store", "ingest", path, str(file), "--rejects", str(rejects)]
    assert main(words) == 1
    remark = f"{file}: the last line is not complete and was not read"
    counted = "ingested 1 reward: 0 new, 0 known before, 1 refused"
    assert capsys.readouterr().out.splitlines() == [counted, remark]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines() == ["there was nothing new to ingest", remark]
    assert main([*words, "--again"]) == 1
    assert f"ingested {N + 1} rewards: 0 new, {N} known" in capsys.readouterr().out
    assert main(["store", "check", path]) == 0


def test_rejects_are_no_file_that_is_read(
    path: str, decisions: list[Decision], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("wrong\n")
    for rejects in (str(file), f"{tmp_path}/../{tmp_path.name}/a.jsonl", path):
        assert main(["store", "ingest", path, str(file), "--rejects", rejects]) == 2
        assert "is read, or is the store: choose another file" in capsys.readouterr().err
    assert file.read_text() == "wrong\n"


def test_standard_input_is_acknowledged(
    path: str,
    decisions: list[Decision],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    early = new_id()
    made = json.dumps({"id": early, "task": "bob", "action": 0}) + "\n"
    for words in ([], ["-"]):
        give(monkeypatch, "".join([*map(line, decisions), line(early), "\n", made]))
        assert main(["store", "ingest", path, *words]) == 0
        out, err = capsys.readouterr()
        assert [json.loads(each) for each in out.splitlines()] == [{"lines": N + 3, "waiting": 0}]
        assert f"ingested {N + 1} rewards" in err


def test_late_rewards_are_counted(
    path: str, decisions: list[Decision], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with DecisionStore(path) as store, Decider(None, store, reward_window=1e-6):
        pass
    file = tmp_path / "a.jsonl"
    file.write_text("".join(map(line, decisions)))
    assert main(["store", "ingest", path, str(file)]) == 0
    counted = f"ingested {N} rewards: {N} new, {N} of them late, 0 known before, 0 refused\n"
    assert capsys.readouterr().out == counted


class Script(Source):
    """A stream that is written while it is read: each step returns the next line, or None."""

    is_file = False

    def __init__(self, steps: Iterator[str | None]) -> None:
        super().__init__("-")
        self._steps = steps

    def _parts(self, begin: Place) -> Iterator[Part]:
        place = begin
        yield Part([], place)
        for step in self._steps:
            rows = [] if step is None else [Row.of(self, place, step.encode())]
            place = Place(place.offset + 1, place.line + len(rows))
            yield Part(rows, place)

    def _digest(self, offset: int) -> str:
        return ""


class Stream:
    """An ingest with a clock of its own, and what it has acknowledged."""

    def __init__(self, store: DecisionStore, rejects: Path | None = None) -> None:
        self.time = 0.0
        self.safe = Progress(0, 0)
        self.ingest = Ingest(
            store, rejects, wait=60, acknowledge=self._acknowledge, clock=lambda: self.time
        )

    def _acknowledge(self, progress: Progress) -> None:
        self.safe = progress

    def run(self, steps: Iterator[str | None]) -> list[str]:
        return self.ingest.run([Script(steps)]).lines()


def test_a_reward_waits_for_a_decision_of_another_process(
    path: str, decisions: list[Decision]
) -> None:
    with DecisionStore(path) as store, DecisionStore(path) as other:
        stream = Stream(store)
        early = new_id()

        def steps() -> Iterator[str | None]:
            yield line(early)
            assert stream.safe == Progress(0, 1)
            yield line(decisions[0])
            assert stream.safe == Progress(0, 1)
            row = json.dumps({"id": early, "task": "bob", "action": 0})
            Ingest(other).run([Script(iter([row]))])
            yield None  # too early to look again
            assert stream.safe == Progress(0, 1)
            stream.time = 2.0
            yield None
            assert stream.safe == Progress(2, 0)

        found = stream.run(steps())
        assert found == ["ingested 2 rewards: 2 new, 0 known before, 0 refused"]


def test_a_reward_is_given_up_after_a_while(
    path: str, decisions: list[Decision], tmp_path: Path
) -> None:
    rejects = tmp_path / "rejects.jsonl"
    with DecisionStore(path) as store:
        stream = Stream(store, rejects)

        def steps() -> Iterator[str | None]:
            yield line(UNKNOWN)
            yield line(decisions[0])
            stream.time = 59.0
            yield None
            assert stream.safe == Progress(0, 1)
            stream.time = 61.0
            yield None
            assert stream.safe == Progress(2, 0)

        found = stream.run(steps())
        assert found == ["ingested 2 rewards: 1 new, 0 known before, 1 refused"]
        (row,) = map(json.loads, rejects.read_text().splitlines())
        assert (row["source"], row["line"], row["row"]) == ("-", 1, line(UNKNOWN))
        with pytest.raises(ParameterError, match="line 1: no decision"):
            Stream(store).run(iter([line(UNKNOWN)]))


def test_the_oldest_of_too_many_are_given_up(
    path: str, decisions: list[Decision], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "MOST_WAITING", 3)
    with DecisionStore(path) as store:
        stream = Stream(store, tmp_path / "rejects.jsonl")

        def steps() -> Iterator[str | None]:
            for k in range(1, 11):
                stream.time += 2.0
                yield line(f"{k:032x}")
                assert stream.safe == Progress(max(0, k - 3), min(k, 3))

        stream.run(steps())


def test_a_note_is_of_its_file_only(
    path: str, decisions: list[Decision], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text("".join(map(line, decisions)))
    monkeypatch.chdir(tmp_path)
    for name in ("a.jsonl", str(tmp_path / "a.jsonl"), "b.jsonl"):
        assert main(["store", "ingest", path, name]) == 0
    with DecisionStore(path) as store:
        rows = store.backend.query("SELECT name FROM meta WHERE name LIKE 'ingest %' ORDER BY name")
        assert rows == [(f"ingest {tmp_path}/{name}",) for name in ("a.jsonl", "b.jsonl")]
        assert store.totals().rewards == N


def test_rejects_are_written_once_by_a_transaction_that_is_repeated(
    path: str, decisions: list[Decision], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rejects = tmp_path / "rejects.jsonl"
    with DecisionStore(path) as store:
        one = Ingest(store, rejects)
        transact = store.backend.transact
        monkeypatch.setattr(ingest, "PAUSES", (0.0,))

        def twice(work, wait=True):  # type: ignore[no-untyped-def]
            with suppress(ZeroDivisionError), store.backend.transaction() as transaction:
                work(transaction)
                raise ZeroDivisionError
            return transact(work, wait)

        monkeypatch.setattr(store.backend, "transact", twice)
        found = one.run([Script(iter([line(decisions[0]), "wrong", line(UNKNOWN)]))]).lines()
    assert found[0] == "ingested 2 rewards: 1 new, 0 known before, 1 refused"
    assert len(rejects.read_text().splitlines()) == 2


def test_large_rows_have_smaller_transactions(
    path: str, decisions: list[Decision], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sizes, "of", lambda self, operation: 400)
    with DecisionStore(path) as store:
        seen: list[Progress] = []
        give(monkeypatch, "".join(map(line, decisions)))
        Ingest(store, acknowledge=seen.append).run([opened("-")])
        assert [progress.lines for progress in seen] == [2, 4, 5]


def test_an_error_ends_the_command_while_its_input_stays_open(
    path: str, decisions: list[Decision]
) -> None:
    code = "import sys; from mixts.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "store", "ingest", path]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write((line(decisions[0]) + "wrong\n").encode())
        process.stdin.flush()
        assert "standard input, line 2: not JSON" in process.stderr.read().decode()
        assert process.wait() == 2


def test_note() -> None:
    source = Script(iter([]))
    assert source.note(Place(3, 2)) == Note(3, 2, "")
