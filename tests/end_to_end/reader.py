"""A reader who follows a page: its files, its commands, and what they print."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.end_to_end.test_documents import ROOT, fenced_blocks

MIXTS = "import sys; from mixts.cli import main; sys.exit(main())"


def page_blocks(page: str, *kinds: str) -> list[str]:
    """A how-to page's blocks of these kinds, in order."""
    text = (ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    return [content for _, _, info, content in fenced_blocks(text) if info in kinds]


def write_scripts(page: str, folder: Path) -> None:
    """The scripts that a page shows, each named in its first line."""
    for content in page_blocks(page, "python", "python no-run"):
        name = re.match(r"# (\w+\.py)\n", content)
        if name is not None:
            (folder / name[1]).write_text(content, encoding="utf-8")


def environment(programs: Path) -> dict[str, str]:
    """With the tests' own interpreter as ``python`` and ``mixts``."""
    programs.mkdir(exist_ok=True)
    for name, arguments in {"python": (), "mixts": ("-c", MIXTS)}.items():
        words = " ".join(f"'{word}'" for word in (sys.executable, *arguments))
        (programs / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (programs / name).chmod(0o755)
    return {**os.environ, "PATH": os.pathsep.join([str(programs), os.environ["PATH"]])}


def shell(commands: str, folder: Path, programs: Path) -> str:
    """Run shell commands, and return their output."""
    done = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=folder,
        env=environment(programs),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def with_kinds(commands: str, n: int) -> str:
    """Let ``mixts fit`` learn n kinds and write the prior alone, with no comparison and no page.

    Comparisons and the page take most of the time, and the page "Learn from logs" has them too.
    """
    commands = re.sub(
        "^mixts fit .*", r"\g<0> --held-out 0 --no-report", commands, flags=re.MULTILINE
    )
    anew = "^mixts fit (?!.*--from ).*"  # a refit keeps its kinds
    return re.sub(anew, rf"\g<0> --components {n}", commands, flags=re.MULTILINE)


def free_port(*scripts: Path) -> str:
    """Return a port to take instead of the page's, and write it into scripts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    for script in scripts:
        script.write_text(script.read_text().replace("8321", port))
    return port


@contextmanager
def serving(commands: str, folder: Path, port: str) -> Iterator[str]:
    """Run commands, the last of which serves, and yield the line that it prints."""
    *before, serve = commands.splitlines()
    shell("\n".join(before), folder, folder / "bin")
    process = subprocess.Popen(
        [*serve.split(), "--port", port],
        executable=folder / "bin" / "mixts",
        cwd=folder,
        env=environment(folder / "bin"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline()
    finally:
        process.terminate()
        rest, _ = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, "")


def without_numbers(lines: Sequence[str]) -> list[str]:
    """Words only: the last digit may be another on another machine."""
    return [re.sub(r"[0-9][0-9.,]*", "#", line) for line in " ".join(lines).split()]
