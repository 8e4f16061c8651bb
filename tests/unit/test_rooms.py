"""The rule of the rooms: outside the library, programs use public names of mixts only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("serve/src", "paper/src", "examples", "docs")
PROGRAM = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def programs(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every module below a folder, and every Python block of a page."""
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.md")]):
        text = path.read_text(encoding="utf-8")
        blocks = [text] if path.suffix == ".py" else PROGRAM.findall(text)
        yield from ((path, block) for block in blocks)


def private_uses(program: str) -> Iterator[str]:
    """What a program takes from mixts that is not public: imports, and private attributes."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if not is_public(node.module, alias.name):
                    yield f"from {node.module} import {alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if is_inner(alias.name):
                    yield f"import {alias.name}"
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "mixts"
            and re.match("_[^_]", node.attr)
        ):
            yield f"mixts.{node.attr}"


def is_public(module: str, name: str) -> bool:
    if module.split(".")[0] != "mixts":
        return True
    if is_inner(module):
        return False
    if name == "__version__" or name in public_names(module):
        return True
    return not is_inner(f"{module}.{name}")


@cache
def public_names(module: str) -> frozenset[str]:
    return frozenset(getattr(import_module(module), "__all__", ()))


@cache
def is_inner(module: str) -> bool:
    """Whether a module of mixts is private, or inside one of the library's packages.

    Bridges to other libraries and ``mixts.extend.contracts`` have their own names.
    """
    top, *parts = module.split(".")
    if top != "mixts":
        return False
    if any(part.startswith("_") for part in parts):
        return True
    doors = 2 if parts[:1] in (["bridges"], ["extend"]) else 1
    if len(parts) > doors:
        return True
    folder = ROOT / "src/mixts" / "/".join(parts)
    return not (folder.is_dir() or folder.with_suffix(".py").is_file())


@pytest.mark.parametrize("folder", FOLDERS)
def test_programs_outside_the_library_use_public_names_only(folder: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {use}"
        for path, program in programs(ROOT / folder)
        for use in private_uses(program)
    }
    assert sorted(found) == []


@pytest.mark.parametrize(
    "program",
    [
        "from mixts._checks import count",
        "from mixts import _checks",
        "from mixts.agents.base import Agent",
        "from mixts.families import nothing",
        "import mixts._files",
        "import mixts\nmixts._random",
        "def late():\n    from mixts.simulation._blocks import Block",
    ],
)
def test_a_private_name_is_noticed(program: str) -> None:
    assert len(list(private_uses(program))) == 1


def test_public_names_are_allowed() -> None:
    program = """
import mixts, mixts.errors, numpy._core
from mixts import MixTS, errors, extend
from mixts.bridges.gym import BanditEnv
from mixts.extend import checks
mixts.__version__
"""
    assert list(private_uses(program)) == []
