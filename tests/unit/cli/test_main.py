"""The command line before any command: names, usage and examples."""

from __future__ import annotations

import shlex

import pytest

from mixts.cli import COMMANDS, main, parser


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["srve"], "mixts: there is no command 'srve': did you mean serve?"),
        (["xyz"], "mixts: there is no command 'xyz': known: fit, arms, serve, refit, store,"),
        (["fit"], "mixts fit: the following arguments are required: FILE, --task, --reward"),
        (["fit", "a.csv", "--task", "u", "--reward", "r", "--seed", "x"], "argument --seed: "),
    ],
)
def test_wrong_use_is_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(words)
    except SystemExit as left:
        status = left.code  # type: ignore[assignment]
    printed = capsys.readouterr()
    assert status == 2
    assert printed.out == ""
    assert line in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_examples_that_can_be_typed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    shown = capsys.readouterr().out
    assert shown.endswith("".join(f"\n  {line}" for line in COMMANDS[name].examples) + "\n")
    for example in COMMANDS[name].examples:
        program, *words = shlex.split(example)
        assert program == "mixts"
        assert words[0] == name
        assert callable(parser([name]).parse_args(words).run)
