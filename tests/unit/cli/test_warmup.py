"""``mixts warmup``: names of families, what it prints, and that it covers every family."""

from __future__ import annotations

import inspect

import pytest

from mixts import _compiled, families
from mixts.agents.rehearsal import EXAMPLES, SHARING
from mixts.cli import FAILED, WRONG_USE, main
from mixts.families.arms import ArmFamily


def test_a_family_is_compiled_and_the_cache_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warmup", "mdp"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(f"compiled loops of mdp are in {_compiled.FOLDER} (")
    assert printed.err.startswith("mixts: mdp: ")


def test_an_unknown_family_is_refused_and_the_known_ones_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["warmup", "mdp", "beta"]) == WRONG_USE
    error = capsys.readouterr().err
    assert "'beta'" in error
    assert all(name in error for name in EXAMPLES)


def test_without_a_cache_there_is_nothing_to_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compiled, "FOLDER", None)
    assert main(["warmup", "mdp"]) == FAILED


def test_every_family_has_an_example() -> None:
    public = {
        value
        for name, value in vars(families).items()
        if name in families.__all__
        and inspect.isclass(value)
        and issubclass(value, families.Family)
        and not inspect.isabstract(value)
        and value is not ArmFamily
    }
    assert {type(make()) for makes in EXAMPLES.values() for make in makes} == public
    assert sorted(name for group in SHARING for name in group) == sorted(EXAMPLES)
