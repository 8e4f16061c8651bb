"""The shapes in annotations are checked while tests run, and cost users nothing."""

from __future__ import annotations

import subprocess
import sys

import jaxtyping
import pytest

import mixts
from mixts.random import stream


def test_every_module_is_checked_but_compiled_ones() -> None:
    loaded = {name: m for name, m in sys.modules.items() if name.split(".")[0] == mixts.__name__}
    checked = {name for name, m in loaded.items() if "jaxtyping" in type(m.__loader__).__module__}
    compiled = {name for name in loaded if "kernels" in name}
    assert compiled
    assert checked == set(loaded) - compiled


def test_a_wrong_argument_meets_the_annotation() -> None:
    with pytest.raises(jaxtyping.TypeCheckError, match="seed"):
        stream("seven")


@pytest.mark.usefixtures("unchecked")
def test_unchecked_leaves_it_to_the_library() -> None:
    with pytest.raises(mixts.ParameterError, match="seed"):
        stream("seven")


def test_without_jaxtyping_an_annotation_is_the_plain_array() -> None:
    script = (
        "import sys; sys.modules['jaxtyping'] = None\n"
        "from mixts.typing import Array, Bool, Float, Int\n"
        "assert [kind[Array, 'n d'] for kind in (Bool, Float, Int)] == [Array] * 3"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=300)
    assert done.returncode == 0
