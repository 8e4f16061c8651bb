"""Settings of all tests: run-time checks of shapes, and Hypothesis examples that never change."""

from __future__ import annotations

import gc
import os
import signal

# Tests run in several processes, so each keeps to one thread; BLAS reads this when it is loaded.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

# Processes that tests start inherit these: a terminal, nohup and a strict umask must not matter.
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.umask(0o022)

from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import jaxtyping
import pytest

from tests import shape_checks

shape_checks.install()

# The fixture `program` runs a test with the compiled core and with the plain program.
pytest_plugins = ["tests.programs"]

# What collection makes is kept, so a search for garbage in it is in vain: a quarter of its time.
gc.disable()

# `pytest --hypothesis-profile=explore` looks at new examples; the default ones never change, and of
# those a slow test tries more.
_fixed = hypothesis.settings(derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("fixed", _fixed, max_examples=30)
hypothesis.settings.register_profile("more", _fixed, max_examples=200)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("fixed")


# Shapes are checked in tests of the library's parts; others would call the same functions again,
# more often and for longer.
UNCHECKED = tuple(
    Path(__file__).parent / folder
    for folder in ("serve", "paper", "tests/statistical", "tests/end_to_end")
)


def pytest_configure(config: pytest.Config) -> None:
    """Let every second worker collect from the end: each finds compiled what the other imported.

    In a fresh clone, to compile takes most of the time of a collection.
    """
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579":
        config.args.reverse()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give all workers the same order, small files last: they end together by stealing those."""
    items.sort(key=lambda item: ("unit" in item.path.parts, item.path))


def pytest_collection_finish() -> None:
    """Leave the tests, and all that they imported, out of every later search for garbage."""
    gc.freeze()
    gc.set_threshold(20_000)  # not 700: to search so often took 1 % of the time of all tests
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Check shapes in this test, or not, whatever was checked in tests before it."""
    shape_checks.CALLS.clear()
    before = jaxtyping.config.jaxtyping_disable
    if any(folder in item.path.parents for folder in UNCHECKED):
        jaxtyping.config.update("jaxtyping_disable", True)
    try:
        return (yield)
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(scope="session")
def processes() -> Iterator[object]:
    """The engine that ``engine=2`` means, for all tests: two workers take seconds to start."""
    from mixts.engines import engine_of

    with engine_of(2) as engine:
        yield engine


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Turn run-time checks off, so that wrong types reach the library's own checks."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
