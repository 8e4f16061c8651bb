"""The deliberate faults fit the sources, so that ``python -m tests.faults`` can inject them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mixts_paper import bounds

from mixts.belief import Belief
from tests.faults import FAULTS, Fault
from tests.faults.inject import CoreEdit, MissingCodeError, edit, replace

ROOT = Path(__file__).parents[2]

every_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)


@every_fault
def test_a_fault_changes_code_that_is_there(fault: Fault) -> None:
    assert fault.changes
    fault.check()


def test_the_tests_of_all_faults_are_there() -> None:
    """pytest finds them with their parameters, which may have changed."""
    assert all(fault.tests for fault in FAULTS.values())
    tests = sorted({test for fault in FAULTS.values() for test in fault.tests})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *tests], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


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


def test_a_function_is_replaced_where_its_package_exports_it() -> None:
    path, before = "mixts_paper.bounds.entropies:entropy_terms", bounds.entropy_terms

    def wrong() -> None:
        pass

    try:
        replace(path, lambda _: wrong).inject()
        assert bounds.entropy_terms is wrong
    finally:
        replace(path, lambda _: before).inject()
    assert bounds.entropy_terms is before
