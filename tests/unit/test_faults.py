"""The deliberate faults fit the sources, so that ``python -m tests.faults`` can inject them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mixts.belief import Belief
from tests.faults import FAULTS, Fault
from tests.faults.inject import CoreEdit, MissingCodeError, edit, replace

ROOT = Path(__file__).parents[2]

every_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)


@every_fault
def test_a_fault_changes_code_that_is_there(fault: Fault) -> None:
    assert fault.changes
    fault.check()


@every_fault
def test_a_fault_names_tests_that_are_there(fault: Fault) -> None:
    assert fault.tests
    for test in fault.tests:
        path, _, name = test.partition("::")
        source = (ROOT / path).read_text(encoding="utf-8")
        assert not name or re.search(rf"^def {name.partition('[')[0]}\(", source, re.MULTILINE)


@pytest.mark.parametrize(
    "change",
    [
        replace("mixts.nowhere:f", lambda f: f),
        replace("mixts.belief:Nothing.update", lambda f: f),
        replace("mixts.belief:Belief.nothing", lambda f: f),
        edit("mixts.belief:Belief.update", "self._shared = None", ""),
        edit("mixts.belief:Belief.update", "prior", "None"),
        edit("mixts.families.linear:solve", "d + 7", "d"),
        CoreEdit("arms.hpp", "no such code", ""),
        CoreEdit("choice.hpp", "return", ""),
    ],
    ids=lambda change: change.path,
)
def test_a_change_of_missing_code_is_refused(change: Fault) -> None:
    with pytest.raises(MissingCodeError):
        change.check()


def test_a_check_changes_nothing() -> None:
    before = vars(Belief)["update"]
    edit("mixts.belief:Belief.update", "self._shared = False", "self._shared = True").check()
    assert vars(Belief)["update"] is before
