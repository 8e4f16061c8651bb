"""The hash that guards results covers every source that a run imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mixts_paper.experiments import all_experiments, store
from mixts_paper.experiments.base import chosen
from mixts_paper.experiments.store import PAPER, code_hash

from mixts.engines.dask import versions
from mixts.sources import LIBRARY, Sources, sources_hash

ROOT = Path(__file__).parents[4]

RUN = """
import sys
from pathlib import Path
from mixts_paper.experiments import Setting
from mixts_paper.experiments.base import chosen
from mixts_paper.experiments.runner import simulate_blocks

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


def test_every_module_that_a_run_imports_counts() -> None:
    """A module is in the hash of the experiment, or listed as one that changes no number."""
    bandits, mdps = ("latent-prior", "identification"), ("riverswim", "decomposition")
    found = imported(*(f"paper/{name}" for name in (*bandits, *mdps)))
    for package, least, folders in (
        (LIBRARY, 50, ("families", "agents", "simulation", "engines", "_files.py")),
        (PAPER, 10, ("bounds", "analysis", "experiments")),
    ):
        inside = [path for path in found if path.is_relative_to(package.root)]
        assert len(inside) > least
        counted = set(package.numerical())
        left_out = [path for path in inside if path not in counted and path.suffix == ".py"]
        assert [path for path in left_out if not package.only_presents(path)] == []
        for folder in folders:
            assert any(path.is_relative_to(package.root / folder) for path in counted)


def test_presentation_is_listed_with_reasons_and_exists() -> None:
    for package in (LIBRARY, PAPER):
        for name, reason in package.presentation.items():
            assert (package.root / name).exists()
            assert reason


def test_an_experiment_counts_its_own_sources_and_no_others() -> None:
    known = all_experiments()
    width = {path.name for path in known["paper/width"].sources()}
    assert {"width.py", "_synthetic.py"} <= width
    assert not {"riverswim.py", "components.py"} & width
    hashes = {code_hash(experiment) for experiment in known.values()}
    assert len(hashes) == len(known)


def test_an_edit_of_common_sources_changes_every_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    known = all_experiments().values()
    before = [code_hash(experiment) for experiment in known]
    monkeypatch.setattr(store, "_common_hash", lambda: "edited")
    assert not set(before) & {code_hash(experiment) for experiment in known}


def test_a_study_counts_the_modules_it_shares() -> None:
    (study,) = chosen(["mixts_paper.studies.movielens"]).values()
    names = {path.relative_to(ROOT).as_posix() for path in study.sources()}
    assert {
        "paper/src/mixts_paper/studies/__init__.py",
        "paper/src/mixts_paper/studies/movielens/__init__.py",
        "paper/src/mixts_paper/studies/movielens/ratings.py",
    } <= names
    assert "paper/src/mixts_paper/studies/noise.py" not in names


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("bounds/linear.py", True),
        ("_typing.py", True),
        ("logs/read.py", True),
        ("plots/style.py", False),
    ],
)
def test_an_edit_changes_the_hash(name: str, counts: bool, tmp_path: Path) -> None:
    for folder in ("bounds", "logs", "plots"):
        (tmp_path / folder).mkdir()
    for file in ("bounds/linear.py", "_typing.py", "logs/read.py", "plots/style.py"):
        (tmp_path / file).write_text("x = 1\n")
    package = Sources(tmp_path, LIBRARY.presentation)
    before = sources_hash(package.numerical())
    (tmp_path / name).write_text("x = 2\n")
    assert (sources_hash(package.numerical()) != before) is counts


def test_a_cluster_compares_the_same_hash() -> None:
    assert versions()["mixts' code"] == sources_hash(LIBRARY.numerical())
