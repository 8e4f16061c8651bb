"""The paper map and the tags in docstrings say the same, and everything the map names exists."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLUMNS = ["place", "what", "code", "test"]
TAG = re.compile(r"\[paper:\s*([^\]]*?)\s*\]")
PLACE = re.compile(r"(Sec\.|Alg\.|Eq\.|Fig\.|App\.|Thm|Lemma) [A-Z0-9]+(\.\d+)*")

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Row:
    """One line of the table; a cell's entries are separated by ``<br>``."""

    place: str
    code: tuple[str, ...]
    tests: tuple[str, ...]


def map_rows(text: str) -> list[Row]:
    """The rows of the first table of the page, below its header and its rule."""
    lines = [line.strip() for line in text.splitlines() if line.lstrip().startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if not cells or cells[0] != COLUMNS:
        raise ValueError(f"the table must have the columns {COLUMNS}, got {cells[:1]}")
    rows = []
    for line, row in zip(lines[2:], cells[2:], strict=True):
        if len(row) != len(COLUMNS):
            raise ValueError(f"expected {len(COLUMNS)} cells, got {len(row)}: {line}")
        place, _, code, tests = row
        rows.append(Row(place, entries(code), entries(tests)))
    return rows


def entries(cell: str) -> tuple[str, ...]:
    return tuple(entry.strip().strip("`") for entry in cell.split("<br>") if entry.strip())


def definitions(tree: Definition, name: str) -> Iterator[tuple[str, Definition]]:
    """A module's, class's or function's dotted path and node, then those of what it defines."""
    yield name, tree
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from definitions(node, f"{name}.{node.name}")


@cache
def names_in(path: str) -> set[str]:
    """Return the names that a file defines, with its path in front."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {name for name, _ in definitions(tree, path)}


def source_tags(package: Path) -> set[tuple[str, str]]:
    """Every (place, dotted path) that a docstring below the package carries."""
    found = set()
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "[paper" not in text:
            continue
        parts = path.relative_to(package.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        n_tags = 0
        for name, node in definitions(ast.parse(text), module):
            # A tag may be broken over two lines of a docstring.
            docstring = " ".join((ast.get_docstring(node) or "").split())
            places = TAG.findall(docstring)
            n_tags += len(places)
            found |= {(place, name) for place in places}
        if n_tags != text.count("[paper:"):
            raise ValueError(f"{path}: a paper tag is malformed, or stands outside a docstring")
    return found


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return map_rows((ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tags() -> set[tuple[str, str]]:
    return source_tags(ROOT / "src" / "mixts") | source_tags(ROOT / "paper/src/mixts_paper")


def test_the_map_and_the_tags_agree_both_ways(rows: list[Row], tags: set[tuple[str, str]]) -> None:
    mapped = [(row.place, name) for row in rows for name in row.code]
    assert tags - set(mapped) == set(), "tagged in a docstring, missing from docs/paper_map.md"
    assert set(mapped) - tags == set(), "in docs/paper_map.md, but no docstring has that tag"
    assert len(mapped) == len(set(mapped)), "docs/paper_map.md says something twice"


def test_places_are_written_one_way(rows: list[Row], tags: set[tuple[str, str]]) -> None:
    places = {row.place for row in rows} | {place for place, _ in tags}
    assert {place for place in places if not PLACE.fullmatch(place)} == set()


def test_every_row_names_code_that_can_be_imported_and_a_test_that_exists(rows: list[Row]) -> None:
    for row in rows:
        assert row.code, f"{row.place} names no code"
        assert row.tests, f"{row.place} names no test"
        for name in row.code:
            assert pkgutil.resolve_name(name) is not None
        for test in row.tests:
            path, *names = test.split("::")
            assert names, f"{row.place}: {test} should be path::name"
            assert (ROOT / path).is_file(), f"{row.place}: there is no {path}"
            defined = names_in(path)
            assert ".".join([path, *names]) in defined, f"{row.place}: there is no {test}"


def test_the_parsers_see_what_is_there(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text('"""Top. [paper: Sec. 1]"""\n')
    (package / "part.py").write_text(
        'class A:\n    """A [paper: Alg. 1]."""\n\n    def f(self):\n'
        '        """F [paper: Sec.\n        4.2] and [paper: Thm 1]."""\n'
    )
    assert source_tags(package) == {
        ("Sec. 1", "package"),
        ("Alg. 1", "package.part.A"),
        ("Sec. 4.2", "package.part.A.f"),
        ("Thm 1", "package.part.A.f"),
    }
    table = "| place | what | code | test |\n|---|---|---|---|\n| Thm 1 | w | `a.b`<br>`c` | `t` |"
    assert map_rows(table) == [Row("Thm 1", ("a.b", "c"), ("t",))]
    (package / "part.py").write_text("# [paper: Alg. 1] in a comment, where nobody looks\n")
    with pytest.raises(ValueError, match="outside a docstring"):
        source_tags(package)
    with pytest.raises(ValueError, match="expected 4 cells"):
        map_rows(table + "\n| Thm 2 | w | c |")
