"""The hash that guards results covers every source that a run imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mixts import _sources
from mixts.engines.dask import versions
from mixts.experiments import all_experiments
from mixts.experiments.registry import chosen
from mixts.experiments.store import code_hash

ROOT = Path(__file__).parents[2]

RUN = """
import sys
from pathlib import Path
from mixts.experiments import Setting
from mixts.experiments.registry import chosen
from mixts.experiments.runner import simulate_blocks

for experiment in chosen(sys.argv[1:]).values():
    parts = experiment.parts(Setting(2, 4, 1, experiment.choices()), lambda name, make: make())
    for part in parts.values():
        simulate_blocks(part, [0], "test", 0)
files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
print("\\n".join(sorted(str(Path(file).resolve()) for file in files if file)))
"""
"""Simulates a block of every part, and prints the files of all imported modules."""


def imported(*names: str) -> list[Path]:
    run = subprocess.run(
        [sys.executable, "-c", RUN, *names], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return [Path(line) for line in run.stdout.splitlines()]


@pytest.mark.parametrize(
    "names",
    [("paper/latent-prior", "paper/identification"), ("paper/riverswim", "paper/decomposition")],
)
def test_every_module_that_a_run_imports_counts(names: tuple[str, ...]) -> None:
    """A module is in the hash of the experiment, or listed as one that changes no number."""
    found = [path for path in imported(*names) if path.is_relative_to(_sources.ROOT)]
    assert len(found) > 50
    counted = set(_sources.numerical_sources())
    left_out = [path for path in found if path not in counted and path.suffix == ".py"]
    assert [path for path in left_out if not _sources.is_presentation(path)] == []
    for folder in ("families", "agents", "simulation", "engines", "bounds", "_files.py"):
        assert any(path.is_relative_to(_sources.ROOT / folder) for path in counted)


def test_presentation_is_listed_with_reasons_and_exists() -> None:
    for name, reason in _sources.PRESENTATION.items():
        assert (_sources.ROOT / name).exists()
        assert reason


def test_an_experiment_counts_its_own_sources_and_no_others() -> None:
    known = all_experiments()
    width = {path.name for path in known["paper/width"].sources()}
    assert {"width.py", "_synthetic.py"} <= width
    assert not {"riverswim.py", "components.py"} & width
    hashes = {code_hash(experiment) for experiment in known.values()}
    assert len(hashes) == len(known)


def test_a_study_counts_the_modules_it_shares() -> None:
    (study,) = chosen(["studies.coldstart.movielens"]).values()
    names = {path.relative_to(ROOT).as_posix() for path in study.sources()}
    assert {
        "studies/_shared.py",
        "studies/coldstart/movielens/__init__.py",
        "studies/coldstart/movielens/ratings.py",
    } <= names
    assert "studies/coldstart/images.py" not in names


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("bounds/linear.py", True),
        ("_typing.py", True),
        ("logs/read.py", True),
        ("plots/style.py", False),
        ("service/records.py", False),
    ],
)
def test_an_edit_changes_the_hash(
    name: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("bounds", "logs", "plots", "service"):
        (tmp_path / folder).mkdir()
    files = ("bounds/linear.py", "_typing.py", "logs/read.py", "plots/style.py")
    for file in (*files, "service/records.py"):
        (tmp_path / file).write_text("x = 1\n")
    monkeypatch.setattr(_sources, "ROOT", tmp_path)
    before = _sources.sources_hash(_sources.numerical_sources())
    (tmp_path / name).write_text("x = 2\n")
    assert (_sources.sources_hash(_sources.numerical_sources()) != before) is counts


def test_a_cluster_compares_the_same_hash() -> None:
    assert versions()["mixts' code"] == _sources.sources_hash(_sources.numerical_sources())
