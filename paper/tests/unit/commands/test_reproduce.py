from __future__ import annotations

import html
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mixts_paper.commands import reproduce as command

import mixts
from mixts.cli import main

SMALL = ["--runs", "2", "--rounds", "10", "--workers", "1"]


def test_list_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["id", "runs", "rounds"]
    assert any(line.split()[:3] == ["paper/riverswim", "500", "1,000"] for line in lines)
    assert main(["reproduce", "--list", "beyond"]) == 0
    assert "paper/width" not in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"mixts {mixts.__version__}\n"


def test_reproduce_prints_verdicts_and_writes_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["reproduce", "paper/latent-prior", "--out", str(out), *SMALL]) == 0
    printed = capsys.readouterr()
    assert "paper/latent-prior" in printed.out
    assert "Measured: " in printed.out
    assert str(out / "report.html") in printed.out
    assert "\x1b" not in printed.err  # no bars where there is no terminal
    page = html.unescape((out / "report.html").read_text())
    assert "not the full scale" in page
    for suffix in ("svg", "png"):
        assert (out / "paper" / "latent-prior" / f"bounds.{suffix}").stat().st_size > 1000
    assert main(["reproduce", "paper/latent-prior", "--out", str(out), *SMALL, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "paper/nothing"], "no experiment 'paper/nothing'; there are: paper/width"),
        (["reproduce", "--scheduler", "tcp://x:1"], "add --engine dask"),
        (["reproduce", "paper/images", "--features", "none.npz"], "none.npz is not a file"),
        (["reproduce", "paper/width", "--features", "none.npz"], "has an option 'features'"),
        (["reproduce", "--runs", "0"], "runs"),
        (["reproduce", "--workers", "0"], "workers"),
    ],
)
def test_mistakes_get_a_message_and_status_2(
    arguments: list[str], message: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.splitlines()[-1].startswith("mixts: ")
    assert printed.out == ""


def test_a_foreign_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    assert main(["reproduce", "paper/width", "--out", str(tmp_path), *SMALL]) == 2
    assert "nothing was touched" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_signal_to_end_acts_like_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "run", lambda options: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    assert main(["reproduce"]) == 130
    assert capsys.readouterr() == ("", "mixts: interrupted\n")
    assert signal.getsignal(signal.SIGTERM) == before


CODE = "import sys; from mixts.cli import main; sys.exit(main(sys.argv[1:]))"


def options(out: Path, workers: int) -> list[str]:
    return [
        "reproduce", "paper/latent-prior", "--out", str(out),
        "--runs", "4", "--rounds", "400", "--workers", str(workers),
    ]  # fmt: skip


def started(out: Path, workers: int, until: str) -> subprocess.Popen[str]:
    """A command in a process group of its own, as a terminal would start it."""
    # Where tests run in the background Ctrl-C is ignored, and would be by what they start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, *options(out, workers)],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    for _ in range(2400):
        if list(out.rglob(until)) or process.poll() is not None:
            break
        time.sleep(0.025)
    return process


def alive_in_group(group: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(folder.name))
    return found


@pytest.mark.usefixtures("unchecked")  # for its speed
def test_an_interrupted_command_goes_on_from_there(tmp_path: Path) -> None:
    """A real process, a real Ctrl-C, and the same numbers afterwards."""
    out = tmp_path / "out"
    process = started(out, 1, "*.npz")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "to continue, run the same command" in err
    blocks = out / "paper" / "latent-prior" / "blocks"
    kept = {path: path.read_bytes() for path in blocks.rglob("*.npz")}
    assert kept
    assert main(options(out, 1)) == 0
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert (out / "report.html").exists()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        signal.SIGKILL,  # of which the command sees nothing: workers end by themselves
    ],
)
def test_no_worker_is_left_behind(tmp_path: Path, how: signal.Signals) -> None:
    """Ctrl-C goes to the whole group, also while workers start; the others to the command only."""
    process = started(tmp_path / "out", 2, "manifest.json")
    time.sleep(0.5 if how == signal.SIGKILL else 1.5)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)
    else:
        process.send_signal(how)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130)
    assert "Traceback" not in err
    for _ in range(400):
        if not alive_in_group(process.pid):
            break
        time.sleep(0.05)
    assert alive_in_group(process.pid) == []
