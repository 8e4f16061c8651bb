from __future__ import annotations

import argparse
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixts_serve import Decider, DecisionStore
from mixts_serve.commands import serve
from mixts_serve.rules import DEFAULT_POLICY

import mixts
from mixts.agents import POLICIES
from mixts.cli import main, parser
from serve.tests.unit.store.faulty_store import wait_until

CODE = "import sys; from mixts.cli import main; sys.exit(main(sys.argv[1:]))"
TOKEN = "a-token-of-some-length"


def save_prior(folder: Path) -> Path:
    family = mixts.BernoulliArms([[5.0, 1.0], [1.0, 5.0]], [[1.0, 5.0], [5.0, 1.0]])
    mixts.MixturePrior(family).save(folder / "prior.json")
    return folder / "prior.json"


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "service.example"])
def test_other_machines_are_let_in_only_with_tokens(
    host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "d.db"
    options = ["--prior", str(save_prior(tmp_path)), "--store", str(store), "--host", host]
    assert main(["serve", *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"mixts: --host .* lets other machines in: .*--token-file\n", printed.err)
    assert not store.exists()


@pytest.mark.parametrize("content", ["", "TOKEN fly\n", None])
def test_a_bad_token_file_is_refused(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_text(content)
    options = ["--prior", str(save_prior(tmp_path)), "--store", str(tmp_path / "d.db")]
    assert main(["serve", *options, "--token-file", str(path)]) == 2
    printed = capsys.readouterr()
    assert str(path) in printed.err
    assert "TOKEN" not in printed.err
    assert len(printed.err.splitlines()) == 1


def test_an_mdp_prior_is_refused_at_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mdp = mixts.TabularMDP(np.ones((1, 2, 2, 2)), np.ones((1, 2, 2, 2)), 3, [1.0, 0.0])
    mixts.MixturePrior(mdp).save(tmp_path / "mdp.json")
    store = tmp_path / "d.db"
    assert main(["serve", "--prior", str(tmp_path / "mdp.json"), "--store", str(store)]) == 2
    assert "arms and linear" in capsys.readouterr().err
    assert not store.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "thompson"], "policy must be one of .*greedy.*, got 'thompson'"),
        (["--policy", "greedy", "--explore", "0"], r"off-policy evaluation: .*--explore 1%"),
        (["--policy", "ucb", "--explore", "0%"], r"off-policy evaluation: .*--explore 1%"),
        (["--policy", "greedy", "--horizon", "9"], "leave the horizon out"),
        (["--shard", "3/2"], "shard must be a number and how many .* got '3/2'"),
        (["--explore", "2"], "explore must be a number between 0 and 1"),
    ],
)
def test_settings_that_cannot_be_served_are_refused_before_there_is_a_store(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "d.db"
    given = ["--prior", str(save_prior(tmp_path)), "--store", str(store), *options]
    assert main(["serve", *given]) == 2
    printed = capsys.readouterr().err
    assert re.fullmatch(rf"mixts: .*{message}.*\n", printed), printed
    assert not store.exists()


def test_the_help_names_the_default_policy(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert f"default {DEFAULT_POLICY}" in printed
    assert all(f"{name} (" in printed for name in POLICIES)


def test_a_store_without_a_prior_needs_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--store", str(tmp_path / "d.db"), "--port", "0"]) == 2
    assert "a new one needs a prior: add --prior prior.json" in capsys.readouterr().err
    assert not (tmp_path / "d.db").exists()


def test_wrong_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prior, other = save_prior(tmp_path), tmp_path / "other"
    other.write_text("a letter")
    for options, status in (
        (["--prior", str(tmp_path / "none.json"), "--store", str(tmp_path / "d.db")], 1),
        (["--prior", str(other), "--store", str(tmp_path / "d.db")], 2),
        (["--prior", str(prior), "--store", str(other)], 2),
    ):
        assert main(["serve", *options, "--port", "0"]) == status
        printed = capsys.readouterr()
        assert printed.err.startswith("mixts: ")
        assert len(printed.err.splitlines()) == 1
    assert other.read_text() == "a letter"


def test_a_port_that_is_taken_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = ["--prior", str(save_prior(tmp_path)), "--store", str(tmp_path / "d.db")]
        assert main(["serve", *options, "--port", port]) == 1
    assert f"cannot listen on 127.0.0.1, port {port}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--port", "65536"), ("--port", "-1"), ("--reward-window", "0"),
        ("--reward-window", "3 weeks"), ("--default-reward", "none"),
        ("--default-reward", "inf"),
        ("--max-body", "0"), ("--max-batch", "1.5"), ("--max-actions", "ten"),
        ("--horizon", "0"), ("--horizon", "2.5"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--store", "d.db", option, value])
    assert ended.value.code == 2
    assert f"argument {option}: expected" in capsys.readouterr().err


def test_a_default_reward_needs_a_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "d.db"
    given = ["serve", "--store", str(store), "--prior", str(save_prior(tmp_path))]
    assert main([*given, "--default-reward", "0"]) == 2
    assert "--default-reward needs --reward-window" in capsys.readouterr().err
    assert not store.exists()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5s", 1.5), ("90m", 5400), ("12h", 43200), ("30d", 2592000)],
)
def test_a_window_may_be_said_in_other_units(text: str, seconds: float) -> None:
    assert serve.seconds(text) == seconds


def test_a_bad_token_file_changes_no_tokens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Service:
        def use_tokens(self, tokens: Any) -> None:
            raise AssertionError("these are no tokens")

    options = argparse.Namespace(token_file=tmp_path / "tokens", host="127.0.0.1")
    serve._read_again(Service(), options)
    assert "the tokens stay as they were" in caplog.text


# -- a real process -------------------------------------------------------------------------------


@contextmanager
def serving(*options: str, hang_up: str = "SIG_DFL") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process, and the line that it printed when it was ready.

    It begins with the usual way to handle SIGHUP, or as under nohup (``SIG_IGN``), however the
    tests were started.
    """
    code = f"import signal; signal.signal(signal.SIGHUP, signal.{hang_up}); {CODE}"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", "--port", "0", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def ask(url: str, content: Any = None, token: str = TOKEN) -> Any:
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    body = None if content is None else json.dumps(content).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize(
    "command",
    [
        ["serve", "--store", "d.db", "--explore"],
        ["fit", "a.csv", "--task", "u", "--reward", "r", "--held-out"],
        ["fit", "a.csv", "--task", "u", "--reward", "r", "--robust"],
    ],
)
def test_every_share_is_a_percentage_or_a_number(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    name = command[-1].removeprefix("--").replace("-", "_")
    for text in ("5%", "0.05", "5.0%"):
        assert getattr(parser().parse_args([*command, text]), name) == pytest.approx(0.05)
    for text in ("5%%", "five", "%"):
        with pytest.raises(SystemExit):
            parser().parse_args([*command, text])
        assert "expected a share such as 5% or 0.05, got" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "share"),
    [("5%", (0, 0.05)), ("0.05", (0, 0.05)), ("1%-5%", (0.01, 0.05)), ("0-0.2", (0, 0.2))],
)
def test_a_share_of_new_items_is_a_limit_or_two(text: str, share: tuple[float, float]) -> None:
    assert serve._new_share(text) == share


@pytest.mark.parametrize("text", ["five", "-5%", "150%", "5%-1%", "1-2-3", "", "5%-"])
def test_other_shares_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="such as 5%"):
        serve._new_share(text)


def is_admitted(url: str, token: str) -> bool:
    try:
        ask(f"{url}/v1/prior", token=token)
    except urllib.error.HTTPError as refused:
        refused.close()
        return False
    return True


def token_file(folder: Path) -> Path:
    tokens = folder / "tokens"
    tokens.write_text(f"{TOKEN}\n")
    tokens.chmod(0o600)
    return tokens


def test_tokens_are_read_again_under_nohup(tmp_path: Path) -> None:
    """Which ignores SIGHUP, so that the end of a terminal stops nothing."""
    tokens = token_file(tmp_path)
    options = ["--prior", str(save_prior(tmp_path)), "--store", str(tmp_path / "decisions.db")]
    options += ["--token-file", str(tokens), "--log-level", "info"]
    with serving(*options, hang_up="SIG_IGN") as (process, line):
        url = line.split()[2]
        tokens.write_text(f"{TOKEN}\nanother-{TOKEN}\n")
        process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: is_admitted(url, f"another-{TOKEN}"))
        process.terminate()
        _, err = process.communicate(timeout=30)
    assert f"read the tokens of {tokens} again" in err


def test_without_tokens_a_hang_up_stays_ignored_under_nohup(tmp_path: Path) -> None:
    options = ["--prior", str(save_prior(tmp_path)), "--store", str(tmp_path / "decisions.db")]
    with serving(*options, hang_up="SIG_IGN") as (process, line):
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        assert ask(f"{line.split()[2]}/healthz")["status"] == "ok"
        process.terminate()
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0


def test_a_hang_up_does_not_end_the_start(tmp_path: Path) -> None:
    """From the first moment on: a program that adds a token need not know how far the start is."""
    tokens = token_file(tmp_path)
    code = "import sys; from mixts.cli import main; print('begun', flush=True); sys.exit(main())"
    code = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); {code}"
    options = ["--prior", str(save_prior(tmp_path)), "--store", str(tmp_path / "decisions.db")]
    command = ["serve", "--port", "0", *options, "--token-file", str(tokens)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.append(process.stdout.readline()))  # type: ignore[union-attr]
        reader.start()
        while reader.is_alive():  # signals arrive while it imports and opens the store
            time.sleep(0.1)
            (tmp_path / "new").write_text(f"{TOKEN}\nanother-{TOKEN}\n")
            (tmp_path / "new").rename(tokens)
            process.send_signal(signal.SIGHUP)
        (line,) = lines
        assert line.startswith("mixts: serving"), line
        assert wait_until(lambda: is_admitted(line.split()[2], f"another-{TOKEN}"))
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def test_it_serves_until_a_signal_and_loses_nothing(tmp_path: Path) -> None:
    tokens = token_file(tmp_path)
    store = tmp_path / "decisions.db"
    options = ["--prior", str(save_prior(tmp_path)), "--store", str(store)]
    with serving(*options, "--token-file", str(tokens)) as (process, line):
        found = re.fullmatch(
            rf"mixts: serving (http://127\.0\.0\.1:\d+) \(prior version 1, policy ids, {store}\)\n",
            line,
        )
        assert found, line
        url = found[1]
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(f"{url}/v1/decide", {"task": "u17"}, token="wrong")
        refused.value.close()
        assert refused.value.code == 401
        made = ask(f"{url}/v1/decide", {"task": "u17"})
        assert ask(f"{url}/v1/reward", {"id": made["id"], "value": 1}) == {"duplicate": False}
        tokens.write_text(f"{TOKEN}\nanother-{TOKEN}\n")
        process.send_signal(signal.SIGHUP)  # the tokens are read again
        assert wait_until(lambda: is_admitted(url, f"another-{TOKEN}"))
        acknowledged = [made["id"]]
        errors: list[BaseException] = []

        def keep_asking() -> None:
            try:
                while True:
                    acknowledged.append(ask(f"{url}/v1/decide", {"task": "busy"})["id"])
            except (OSError, ConnectionError) as error:
                errors.append(error)

        threads = [threading.Thread(target=keep_asking) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(acknowledged) < 20 and not errors:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        for thread in threads:
            thread.join(30)
    assert process.returncode == 0
    assert (out, err) == ("", "")
    # Requests without a response were never accepted: the service sent no errors.
    assert not any(isinstance(error, urllib.error.HTTPError) for error in errors)
    with DecisionStore(store) as reopened:
        kept = {row.id for name in ("u17", "busy") for row in reopened.history(name, 100_000)}
    assert set(acknowledged) <= kept
    assert len(acknowledged) == len(set(acknowledged))


@pytest.mark.slow
def test_it_goes_on_from_the_store_alone_and_ends_by_ctrl_c(tmp_path: Path) -> None:
    store = tmp_path / "decisions.db"
    prior = mixts.MixturePrior.load(save_prior(tmp_path))
    with DecisionStore(store) as before, Decider(prior, before) as decider:
        kept = decider.decide("u17", key="k")
    options = ("--store", str(store), "--reward-window", "30d", "--explore", "0.01",
               "--policy", "ucb", "--horizon", "50")  # fmt: skip
    with serving(*options) as (process, line):
        url = line.split()[2]
        again = ask(f"{url}/v1/decide", {"task": "u17", "key": "k"})
        assert (again["id"], again["policy"]) == (kept.id, "ids")
        assert ask(f"{url}/v1/decide", {"task": "u17"})["policy"] == "ucb"
        assert ask(f"{url}/readyz")["policy"] == "ucb"
        with pytest.raises(urllib.error.HTTPError) as missing:
            ask(f"{url}/v1/tasks/nobody")
        missing.value.close()
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))):
            # A connection that rests does not hold the service up.
            started = time.perf_counter()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")
    assert time.perf_counter() - started < 8  # and not the 10 s for who is being answered
