"""Progress bars: silent unless somebody looks, and on standard error."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from mixts import _progress
from mixts._progress import format_remaining, progress_bars, report_steps, show_steps, step
from mixts.errors import MissingExtraError


def play(show: bool | None) -> None:
    with progress_bars(show) as bars:
        images = bars.add("images", 20)
        images.set(10)
        images.advance(5)
        bars.add("  a part", 3.0, remaining=False)


def test_bars_are_shown_on_request_only(capsys: pytest.CaptureFixture[str]) -> None:
    play(False)
    play(None)  # standard error is not a terminal here
    assert capsys.readouterr() == ("", "")
    play(True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("images") == 1


def test_bars_are_full_when_the_work_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    """Sums of estimated costs reach a bar's total only up to rounding."""
    play(True)
    images, part = capsys.readouterr().err.strip().splitlines()
    assert "100%" in images
    assert "0:00 left" in images
    assert "100%" in part
    assert "left" not in part


def fail() -> None:
    with progress_bars(True) as bars:
        bars.add("images", 20).set(10)
        raise RuntimeError


def test_bars_of_work_that_failed_stay_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError):
        fail()
    assert "50%" in capsys.readouterr().err


def test_without_rich_only_a_request_for_bars_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    play(None)
    play(False)
    with pytest.raises(MissingExtraError, match=r"pip install 'mixts\[progress\]'"):
        play(True)


@pytest.mark.parametrize(
    ("elapsed", "fraction", "text"),
    [(None, 0.5, "?:??"), (10.0, 0.0, "?:??"), (30.0, 0.25, "1:30"), (60.0, 1.0, "0:00")],
)
def test_the_remaining_time_is_in_proportion(
    elapsed: float | None, fraction: float, text: str
) -> None:
    assert format_remaining(elapsed, fraction) == text


def test_a_notebook_needs_no_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's display is replaced; ``tests/end_to_end/test_notebook.py`` has a real one."""
    pages: list[str] = []

    class Handle:
        def update(self, html: str) -> None:
            pages.append(html)

    class ZMQInteractiveShell: ...

    class Shell(ZMQInteractiveShell): ...  # of a hosted notebook

    kernel, module = ModuleType("IPython"), ModuleType("IPython.display")
    vars(kernel)["get_ipython"] = Shell
    vars(module).update(HTML=str, display=lambda html, display_id: Handle())
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with progress_bars(True) as bars:
        bars.add("<images>", 20).advance(5)
        bars.add("a part", 3.0, remaining=False)
    assert len(pages) < 4  # not one for every call
    images, part = pages[-1].split("</div>")[:2]
    assert "&lt;images&gt;" in images
    assert 'value="1.0000"' in images
    assert "100%, 0:00, 0:00 left" in images
    assert part.endswith("100%, 0:00")
    with pytest.raises(RuntimeError):
        fail()
    assert 'value="0.5000"' in pages[-1]
    del pages[:]
    play(False)
    play(None)
    assert pages == []


# -- steps of long work ---------------------------------------------------------------------------


def work() -> None:
    bar = step("reading", 3)
    for _ in range(3):
        bar.advance(1)
    step("checking")


def test_steps_are_lines_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    work()
    with show_steps(False):
        work()
    assert capsys.readouterr() == ("", "")
    with show_steps(True):
        work()
    assert capsys.readouterr() == ("", "reading\nchecking\n")
    work()  # nobody looks any more
    assert capsys.readouterr() == ("", "")


def test_a_long_step_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 6))  # six seconds between two looks at the clock
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(clock))
    lines: list[str] = []
    with report_steps(lines.append):
        bar = step("learning", 4)
        for _ in range(4):
            bar.advance(1)
    assert lines == ["learning", "learning: 2 of 4", "learning: 4 of 4"]


def test_steps_are_bars_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with show_steps(True):
        work()
    drawn = capsys.readouterr().err.splitlines()
    for label in ("reading", "checking"):
        last = [line for line in drawn if label in line][-1]
        assert "100%" in last


def test_without_rich_steps_are_lines_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with show_steps(True):
        work()
    assert capsys.readouterr() == ("", "reading\nchecking\n")
