"""A pytest plugin that injects the fault named by MIXTS_FAULT before the tests are collected."""

from __future__ import annotations

import os

import pytest

from tests import built_core
from tests.faults import FAULTS
from tests.faults.inject import MissingCodeError

built_core.install()  # before conftest.py imports mixts


def pytest_configure() -> None:
    fault = FAULTS[os.environ["MIXTS_FAULT"]]
    try:
        fault.inject()
    except MissingCodeError as error:
        raise pytest.UsageError(str(error)) from error
