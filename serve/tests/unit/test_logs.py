"""Log lines: times, JSON, and no names of tasks."""

from __future__ import annotations

import json
import logging
import re
import signal
import urllib.error
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from mixts_serve import Decide, Decider, DecisionStore, logs
from mixts_serve.batch import Batch

from mixts import errors
from serve.tests.contracts.stores import arms
from serve.tests.unit.commands.test_serve import ask, save_prior, serving

NAME = "Zaphod Beeblebrox"
LINE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z mixts: "


def fail(depth: int = 0) -> None:
    if depth:
        try:
            fail(depth - 1)
        except KeyError as error:
            raise ValueError(f"no {NAME}") from error
    raise KeyError(NAME)


def log_failure() -> None:
    try:
        fail(1)
    except ValueError:
        logging.getLogger("mixts_serve").exception("could not do %s", "it")


def test_a_line_of_text_has_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    with logs.to_stderr("info", "text"):
        logging.getLogger("mixts_serve").info("hello")
        logging.getLogger("mixts_serve").debug("not asked for")
        logging.getLogger("another").warning("beware")
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(LINE + "INFO: hello", first)
    assert re.fullmatch(LINE + "WARNING: beware", second)


def test_a_line_of_json_has_all_in_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with logs.to_stderr("warning", "json"), warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.getLogger("uvicorn.error").warning('two\nlines, "quoted"')
        log_failure()
        warnings.warn("careful", stacklevel=1)
    plain, failed, warned = map(json.loads, capsys.readouterr().err.splitlines())
    assert re.fullmatch(LINE.partition(" ")[0], plain.pop("time"))
    assert plain == {
        "level": "warning", "logger": "uvicorn.error", "message": 'two\nlines, "quoted"',
    }  # fmt: skip
    assert (failed["level"], failed["message"]) == ("error", "could not do it")
    assert warned["logger"] == "py.warnings"
    lines = failed["traceback"].splitlines()
    assert (lines[lines.index("after") - 2], lines[-1]) == ("KeyError", "ValueError")
    assert ", in fail" in failed["traceback"]


@pytest.mark.parametrize("form", logs.FORMATS)
def test_a_traceback_quotes_no_request(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    with logs.to_stderr("debug", form):
        log_failure()
    printed = capsys.readouterr().err
    assert "ValueError" in printed
    assert NAME not in printed


def test_what_a_disk_or_a_database_says_is_written() -> None:
    assert logs.described(OSError(28, "No space left")) == "[Errno 28] No space left"
    assert logs.described(errors.StoreUnavailableError("it is away")) == "it is away"
    assert logs.described(errors.TaskLockedError(f"task {NAME!r} is locked")) == "TaskLockedError"
    assert logs.described(ValueError(NAME)) == "ValueError"


def test_a_batch_that_fails_is_logged_without_its_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def perform(self: Any, operations: Any) -> Any:
        raise KeyError(operations[0].task)

    with (
        logs.to_stderr("debug", "text"),
        DecisionStore(tmp_path / "d.db") as store,
        Decider(arms(), store) as decider,
    ):
        monkeypatch.setattr(Batch, "perform", perform)
        (result,) = decider.decide_many([Decide(NAME)])
        assert isinstance(result, errors.MixtsError)
    printed = capsys.readouterr().err
    assert "a batch of 1 operations failed" in printed
    assert NAME not in printed


def test_a_service_at_level_debug_writes_json_and_no_names(tmp_path: Path) -> None:
    options = ["--prior", str(save_prior(tmp_path)), "--store", str(tmp_path / "d.db")]
    with serving(*options, "--log-level", "debug", "--log-format", "json") as (process, line):
        url = line.split()[2]
        made = ask(f"{url}/v1/decide", {"task": NAME, "key": NAME})
        ask(f"{url}/v1/decide:batch", [{"task": NAME}, {"task": NAME, "mask": [NAME]}])
        ask(f"{url}/v1/tasks/{quote(NAME)}")
        for path, content in [
            (f"/v1/tasks/{quote(NAME)}x", None), (f"/{quote(NAME)}", None),
            ("/v1/decide", {"task": NAME, "key": NAME, "mask": [True, False]}),
            ("/v1/reward", {"id": NAME, "value": 1}), (f"/tasks?name={quote(NAME)}y", None),
        ]:  # fmt: skip
            with pytest.raises(urllib.error.HTTPError):
                ask(url + path, content)
        ask(f"{url}/v1/reward", {"id": made["id"], "value": 1})
        process.send_signal(signal.SIGTERM)
        _, written = process.communicate(timeout=30)
    lines = [json.loads(one) for one in written.splitlines()]
    assert {"mixts_serve.access", "uvicorn.error"} <= {one["logger"] for one in lines}
    assert not re.search("zaphod|beeblebrox", written, re.IGNORECASE)
