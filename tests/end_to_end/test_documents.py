"""The documents' examples run as a reader would run them.

Every ``python`` block of README.md and docs/ is executed: those of one page in order, in one
namespace, in a process of their own and an empty directory. A block directly followed by an
``output`` block must print exactly that. Only ``python no-run`` is left out. Pages show the numbers
of the core: in the plain program, whose seeds give other numbers, the examples only have to run.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.programs import CORE

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,}|~{3,}) *(?P<info>.*?) *")

# Executed in __main__ with no file behind it, like a session at the prompt: worker processes of
# an example find nothing to import again. The blocks' lines are those of the page.
SESSION = """
import contextlib, io, json, sys
def session(page, blocks):
    for line, code in blocks:
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            exec(compile("\\n" * line + code, page, "exec"), globals())
        print(json.dumps(stream.getvalue()), flush=True)
session(*json.load(sys.stdin))
"""


@dataclass
class Example:
    """A block of Python, the line of its fence, and what it must print if the page says so."""

    line: int
    code: str
    output: str | None = None


def fenced_blocks(text: str) -> list[tuple[int, int, str, str]]:
    """Each fenced block: first and last line (from 1), info string, content without indent."""
    blocks = []
    opening: re.Match[str] | None = None
    start, content = 0, []
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.fullmatch(line)
        if opening is None:
            if match:
                opening, start, content = match, number, []
        elif match and not match["info"] and match["ticks"].startswith(opening["ticks"]):
            body = "".join(f"{row}\n" for row in content)
            blocks.append((start, number, opening["info"], body))
            opening = None
        else:
            content.append(line.removeprefix(opening["indent"]))
    if opening is not None:
        raise ValueError(f"line {start}: the block is never closed")
    return blocks


def page_examples(text: str) -> list[Example]:
    """The blocks of a page that run, in order, with the output each must print."""
    lines = text.splitlines()
    examples: list[Example] = []
    last_line = None  # where a block ended that an output block may follow
    for start, end, info, content in fenced_blocks(text):
        if info == "python":
            examples.append(Example(start, content))
            last_line = end
            continue
        if info == "output":
            if last_line is None or any(line.strip() for line in lines[last_line : start - 1]):
                raise ValueError(f"line {start}: output must directly follow a python block")
            examples[-1].output = content
        elif info.startswith("python") and info != "python no-run":
            raise ValueError(f"line {start}: expected 'python' or 'python no-run', got {info!r}")
        last_line = None
    return examples


def run(page: Path, examples: list[Example], directory: Path) -> None:
    """Execute the examples; fail with the page's line where one raises or prints otherwise."""
    session = subprocess.run(
        [sys.executable, "-c", SESSION],
        input=json.dumps([str(page), [(example.line, example.code) for example in examples]]),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert session.returncode == 0, f"an example of {page.name} fails:\n{session.stderr}"
    printed = [json.loads(line) for line in session.stdout.splitlines()]
    for example, text in zip(examples, printed, strict=True):
        if example.output is not None:
            assert text == example.output, f"{page}:{example.line} prints something else"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_run_and_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    examples = page_examples(page.read_text(encoding="utf-8"))
    assert examples or page.name != "README.md", "the README shows no example"
    if CORE is None:
        examples = [Example(example.line, example.code) for example in examples]
    run(page, examples, tmp_path)


PAGE = """
```python
x = 1
```
1. text

   ```python
   print(x + 1)
   ```

   ```output
   2
   ```
```python no-run
y = undefined
```
"""


def test_a_page_is_read_block_by_block(tmp_path: Path) -> None:
    examples = page_examples(PAGE)
    assert [(e.line, e.code, e.output) for e in examples] == [
        (2, "x = 1\n", None),
        (7, "print(x + 1)\n", "2\n"),
    ]
    run(Path("page.md"), examples, tmp_path)


def test_a_wrong_page_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:7 prints something else"):
        run(Path("page.md"), page_examples(PAGE.replace("   2\n", "   3\n")), tmp_path)
    with pytest.raises(AssertionError, match=r'"page\.md", line 15'):
        run(Path("page.md"), page_examples(PAGE.replace(" no-run", "")), tmp_path)
    with pytest.raises(ValueError, match="line 14: expected 'python'"):
        page_examples(PAGE.replace("no-run", "norun"))
    with pytest.raises(ValueError, match="line 11: output must directly follow"):
        page_examples(PAGE.replace("```\n\n   ```output", "```\ntext\n   ```output"))
    with pytest.raises(ValueError, match="line 14: the block is never closed"):
        page_examples(PAGE.removesuffix("```\n"))
