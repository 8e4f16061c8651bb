"""The wheels and the sdist: what they contain, and that each part and each extra works alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from tests.end_to_end.reader import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ["3.11", "3.12", "3.13"]
FIRST_DECISION = """
import mixts

prior = mixts.MixturePrior(mixts.BernoulliArms([[8, 2], [2, 8]], [[2, 8], [8, 2]]))
agent = mixts.MixTS(prior, seed=1)
agent.update(agent.act(), 1)
print("ready", agent.belief.weights.round(3))
"""
PROGRAMS = {
    "arviz": (
        "from mixts.bridges.arviz import to_inference_data; to_inference_data(prior.belief(), 9)"
    ),
    "dask": "from mixts.engines.dask import DaskEngine",
    "duckdb": (
        "import duckdb; from mixts.logs import read_logs; "
        "rows = duckdb.sql(\"SELECT 'u' AS task, 'a' AS arm, 1 AS reward\"); "
        "read_logs(rows, task='task', arm='arm', reward='reward')"
    ),
    "gym": "import mixts.bridges.gym",
    "ibis": "import ibis",
    "logs": "import mixts.pages.fit; from mixts import fit_logs, plot",
    "pandas": "import pandas",
    "plots": "import matplotlib; matplotlib.use('Agg'); mixts.plot(prior)",
    "polars": "import polars",
    "progress": "import rich",
    "sklearn": "mixts.MixturePriorEstimator(2)",
    "spark": "import pyspark; import mixts.engines.spark",
    "table": "import pyarrow",
}
"""What an extra is for, after the core's program; other extras are for development only."""


PARTS = {
    "serve": "import mixts_serve.commands.serve, mixts_serve.http.app, mixts_serve.dashboard",
    "paper": "import mixts_paper.experiments.runner, mixts_paper.bounds, mixts_paper.analysis",
}
"""What each of the other packages must import with nothing else installed."""


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdists, and the wheels built from them, without the core, which takes a minute."""
    folder = tmp_path_factory.mktemp("dist")
    environment = {**os.environ, "SKBUILD_WHEEL_CMAKE": "false", "SKBUILD_WHEEL_PY_API": "py3"}
    for part in (".", *PARTS):
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
        command = [*build, str(ROOT / part)]
        subprocess.run(command, check=True, capture_output=True, env=environment)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("mixts-*.whl")
    return path


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def tracked(*folders: str) -> set[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a clone: git knows nothing of its files")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = files_of(wheel)
    assert names == {name.removeprefix("src/") for name in tracked("src/mixts")}
    assert "mixts/py.typed" in names
    assert "mixts/pages/templates/base.html.jinja" in names


@pytest.mark.parametrize("part", PARTS)
def test_the_wheel_of_a_part_has_its_files_and_the_version(
    dist: Path, metadata: Message, part: str
) -> None:
    version = metadata["Version"]
    (path,) = dist.glob(f"mixts_{part}-{version}-*.whl")
    names = files_of(path)
    assert names == {name.removeprefix(f"{part}/src/") for name in tracked(f"{part}/src")}
    assert f"mixts_{part}/py.typed" in names
    requires = tomllib.loads((ROOT / part / "pyproject.toml").read_text())["project"]
    assert any(re.fullmatch(rf"mixts\[.*\]=={version}", d) for d in requires["dependencies"])


def test_the_sdist_holds_what_its_tests_need(dist: Path) -> None:
    (path,) = dist.glob("mixts-*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = tracked(
        "src", "serve", "paper", "tests", "docs", "benchmarks", "examples", "Makefile"
    )
    assert expected <= names
    assert not any("__pycache__" in name or name.startswith(".venv") for name in names)


def test_descriptions_are_complete(dist: Path, metadata: Message) -> None:
    files = [str(path) for path in dist.iterdir()]
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert metadata["Name"] == "mixts"
    assert metadata["License-Expression"] == "Apache-2.0"
    classifiers = metadata.get_all("Classifier")
    assert [f"Programming Language :: Python :: {python}" for python in PYTHONS] == [
        entry for entry in classifiers if re.search(r":: 3\.\d+$", entry)
    ]
    requires = [entry for entry in metadata.get_all("Requires-Dist") if "extra ==" not in entry]
    assert sorted(re.match(r"\w+", entry)[0] for entry in requires) == ["numpy", "scipy"]


def test_the_citation_names_this_version(metadata: Message) -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {metadata['Version']}\n" in citation


def test_every_extra_for_users_has_a_program() -> None:
    extras = set(PROJECT["optional-dependencies"])
    assert extras - {"dev", "docs"} == set(PROGRAMS)


def install(python: str, folder: Path, *requirements: str) -> Path:
    """Make an environment of another Python, or of this one, and install requirements there."""
    if python == sys.executable:
        venv.create(folder, with_pip=True)
    else:
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    command = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", *requirements]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "bin/python"


def run(python: Path, program: str, folder: Path) -> str:
    done = subprocess.run(
        [str(python), "-W", "error", "-c", program], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("extra", sorted(PROGRAMS))
def test_an_extra_works_alone(wheel: Path, tmp_path: Path, extra: str) -> None:
    python = install(sys.executable, tmp_path / "venv", f"{wheel}[{extra}]")
    assert "ready" in run(python, FIRST_DECISION + PROGRAMS[extra], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_a_part_works_alone(dist: Path, wheel: Path, tmp_path: Path, part: str) -> None:
    (path,) = dist.glob(f"mixts_{part}-*.whl")
    python = install(sys.executable, tmp_path / "venv", str(wheel), str(path))
    assert "ready" in run(python, FIRST_DECISION + PARTS[part], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
def test_the_core_works_with_every_supported_python(
    dist: Path, tmp_path: Path, version: str
) -> None:
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "--version"], capture_output=True).returncode:
        pytest.skip(f"there is no python{version} here")
    # The wheels here have no core: each Python builds it from the sdist.
    (sdist,) = dist.glob("mixts-*.tar.gz")
    there = install(python, tmp_path / "venv", str(sdist))
    core = "from mixts import _program\nassert _program.core is not None"
    assert "ready" in run(there, FIRST_DECISION + core, tmp_path)
    assert "usage: mixts" in run(there, "from mixts.cli import main; main(['--help'])", tmp_path)
