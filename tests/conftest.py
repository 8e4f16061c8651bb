"""Settings of all tests: run-time checks of shapes, and Hypothesis examples that never change."""

from __future__ import annotations

import os
import signal

# Tests run in several processes, so each keeps to one thread; BLAS reads this when it is loaded.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

# Processes that tests start inherit these: a terminal, nohup and a strict umask must not matter.
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.umask(0o022)

from collections.abc import Iterator

import hypothesis
import jaxtyping
import pytest

from tests import shape_checks

shape_checks.install()

# `pytest --hypothesis-profile=explore` looks at new examples; the default ones never change, and of
# those a slow test tries more.
_fixed = hypothesis.settings(derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("fixed", _fixed, max_examples=60)
hypothesis.settings.register_profile("more", _fixed, max_examples=200)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("fixed")


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Turn run-time checks off, so that wrong types reach the library's own checks."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
