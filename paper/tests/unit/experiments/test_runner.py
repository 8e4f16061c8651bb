from __future__ import annotations

import json
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from mixts_paper.experiments import Setting, reproduce
from mixts_paper.experiments.report import analyse_folder, report_of
from mixts_paper.experiments.runner import Batch
from mixts_paper.experiments.runner import run as play_jobs
from mixts_paper.experiments.store import Store, slug

import mixts
from mixts._files import read_bundle, write_bundle
from mixts.cli import main
from mixts.engines import ExecutorEngine
from mixts.engines.local import InlineEngine
from mixts.errors import MissingExtraError, OutputError, ParameterError
from mixts.pages import render
from paper.tests.unit.experiments.small_experiment import (
    CountingPart,
    FailingPart,
    SmallExperiment,
    bandit,
)


def run(out: Path, marks: Path | None = None, **options):
    return reproduce([SmallExperiment(marks)], out, **{"engine": 1, **options})


def arrays(out: Path) -> dict[str, dict[str, np.ndarray]]:
    """Every block on disk, by its path."""
    root = out / "test" / "small" / "blocks"
    return {
        str(path.relative_to(root)): read_bundle(path, "block")[1]
        for path in sorted(root.rglob("*.npz"))
    }


def assert_same(one: Path, other: Path) -> None:
    first, second = arrays(one), arrays(other)
    assert first.keys() == second.keys()
    assert first
    for path in first:
        assert first[path].keys() == second[path].keys()
        for name in first[path]:
            np.testing.assert_array_equal(first[path][name], second[path][name])


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of one run; tests that change them take a copy."""
    out = tmp_path_factory.mktemp("played") / "out"
    run(out)
    return out


@pytest.fixture
def finished(played: Path, tmp_path: Path) -> Path:
    """A copy of the results."""
    return Path(shutil.copytree(played, tmp_path / "finished"))


def marks_in(folder: Path) -> int:
    return len(list(folder.glob("played-*")))


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def test_the_parts_are_those_that_simulate_gives(tmp_path: Path) -> None:
    run(tmp_path / "out", seed=5)
    blocks = arrays(tmp_path / "out")
    joined = np.concatenate([blocks[f"agents/{i:04d}.npz"]["regret/MixTS"] for i in range(3)])
    prior = bandit()
    direct = mixts.simulate(
        {"MixTS": prior}, mixts.BanditEnvironment(prior), 20, 6, 5, 1, block_size=2
    )
    np.testing.assert_array_equal(joined, direct.regret["MixTS"])


def test_what_is_there_is_not_played_again(tmp_path: Path, marks: Path) -> None:
    first = run(tmp_path / "out", marks)
    assert (first.n_blocks, marks_in(marks)) == (6, 3)
    again = run(tmp_path / "out", marks)
    assert (again.n_blocks, marks_in(marks)) == (0, 3)
    assert again.claims == first.claims


def test_an_interrupted_run_goes_on_and_gives_the_same(
    played: Path, tmp_path: Path, marks: Path
) -> None:
    (marks / "stop").write_text("1")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out", marks)
    finished = arrays(tmp_path / "out")
    assert 0 < len(finished) < 6
    (marks / "stop").unlink()
    done = run(tmp_path / "out", marks)
    assert done.n_blocks == 6 - len(finished)
    assert_same(tmp_path / "out", played)


def test_the_numbers_do_not_depend_on_the_engine(
    played: Path, tmp_path: Path, processes: object
) -> None:
    with ThreadPoolExecutor(2) as pool:
        for name, engine in (("processes", processes), ("threads", pool)):
            run(tmp_path / name, engine=engine)
            assert_same(played, tmp_path / name)


def test_the_report_covers_what_is_complete_in_the_folder(tmp_path: Path) -> None:
    done = run(tmp_path / "out", seed=3)
    page = re.sub("<[^>]+>", "", done.report.read_text())
    assert "A small one" in page
    assert "Numbers add up." in page
    assert done.claims[0].measured == "18, kept 3"
    assert "mixts reproduce test/small --runs 6 --rounds 20 --seed 3" in page


def test_quick_and_numbers_of_the_command_line(tmp_path: Path) -> None:
    run(tmp_path / "quick", quick=True)
    block = arrays(tmp_path / "quick")["agents/0000.npz"]
    assert block["regret/MixTS"].shape == (2, 5)
    assert len(arrays(tmp_path / "quick")) == 3 + 2
    run(tmp_path / "own", n_runs=2, n_rounds=7)
    assert arrays(tmp_path / "own")["agents/0000.npz"]["regret/MixTS"].shape == (2, 7)


# -- folders that are refused -------------------------------------------------------------------


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(out: Path, **options) -> str:
    """Return the message of a refusal, which must leave the folder unchanged."""
    before = content(out) if out.is_dir() else None
    with pytest.raises(OutputError) as refusal:
        run(out, **options)
    if before is not None:
        assert content(out) == before
    return str(refusal.value)


def test_a_folder_of_another_program_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    assert "not made by" in refused(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    assert "is not a folder" in refused(file)


def test_another_setting_is_refused(finished: Path) -> None:
    assert "seed: 1 there, 2 asked for" in refused(finished, seed=2)
    assert "n_runs: 6 there, 8 asked for" in refused(finished, n_runs=8)
    assert "flavour" in refused(finished, flavour="sour")


def test_a_damaged_block_is_named_and_kept(finished: Path) -> None:
    block = finished / "test" / "small" / "blocks" / "agents" / "0001.npz"
    whole = block.read_bytes()
    block.write_bytes(whole[: len(whole) // 2])
    assert "0001.npz is damaged: remove it" in refused(finished)
    block.unlink()
    run(finished)
    assert (
        read_bundle(block, "block")[1].keys()
        == read_bundle(block.with_name("0000.npz"), "block")[1].keys()
    )


def test_a_block_from_elsewhere_is_found_out(finished: Path, tmp_path: Path) -> None:
    run(tmp_path / "two", seed=2)
    name = Path("test") / "small" / "blocks" / "counted" / "0000.npz"
    (finished / name).write_bytes((tmp_path / "two" / name).read_bytes())
    assert "belongs to another experiment or setting" in refused(finished)
    moved = tmp_path / "two" / name
    moved.with_name("0001.npz").write_bytes(moved.read_bytes())
    assert "belongs to another" in refused(tmp_path / "two", seed=2)


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"format": "mixts/experiment", "version": 9}'])
def test_a_damaged_manifest_is_refused(finished: Path, text: str) -> None:
    (finished / "test" / "small" / "manifest.json").write_text(text)
    assert "damaged" in refused(finished)
    (finished / "test" / "small" / "manifest.json").unlink()
    assert "no manifest" in refused(finished)


def test_a_damaged_mark_is_refused(finished: Path) -> None:
    (finished / "mixts.json").write_text('{"format": "mixts/reproduction", "version": 2}')
    assert "another version" in refused(finished)


@pytest.mark.parametrize(
    ("key", "match"), [("code", "another version of the code"), ("versions", "libraries")]
)
def test_missing_blocks_must_come_from_the_same_code(finished: Path, key: str, match: str) -> None:
    path = finished / "test" / "small" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest[key] = "older" if key == "code" else {**manifest[key], "numpy": "0.1"}
    path.write_text(json.dumps(manifest))
    run(finished)  # nothing is missing: only the report is written again
    (finished / "test" / "small" / "blocks" / "agents" / "0001.npz").unlink()
    assert match in refused(finished)


def test_a_refused_command_forgets_no_part(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other code wants one part more: it is refused, and the old results are complete as before."""
    parts = SmallExperiment.parts
    monkeypatch.setattr(
        SmallExperiment, "parts",
        lambda self, setting, once: {**parts(self, setting, once), "more": CountingPart(None)},
    )  # fmt: skip
    path = finished / "test" / "small" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "code": "older"}))
    assert "another version of the code" in refused(finished)
    path.write_text(json.dumps(manifest))
    assert run(finished).n_blocks == 3


def test_nothing_is_begun_where_one_of_several_is_refused(finished: Path) -> None:
    other = SmallExperiment()
    other.id = "test/other"
    before = content(finished)
    with pytest.raises(OutputError, match="seed"):
        reproduce([other, SmallExperiment()], finished, seed=2, engine=1)
    assert content(finished) == before


def test_a_folder_without_results_is_started_again(finished: Path) -> None:
    """A command that failed before its first block leaves nothing to protect."""
    folder = finished / "test" / "small"
    shutil.rmtree(folder / "blocks")
    shutil.rmtree(folder / "kept")
    (folder / ".manifest.json.123-456-0.part").write_text("killed while writing")
    assert run(finished, seed=2).claims[0].measured == "18, kept 2"


def test_damaged_results_of_other_experiments_are_left_out(finished: Path) -> None:
    block = finished / "test" / "small" / "blocks" / "agents" / "0001.npz"
    block.write_bytes(b"damage")
    said: list[str] = []
    known = {"test/small": SmallExperiment()}
    written, left_out = analyse_folder(finished, known, (), said.append)
    assert written == ()
    assert "0001.npz is damaged" in left_out["test/small"]
    block.unlink()
    left_out = analyse_folder(finished, known, (), said.append)[1]
    assert left_out == {"test/small": "not finished"}
    page = render(report_of((), {"test/small": "not finished"}, "mixts reproduce", 1.0))
    assert "Not in this report" in page


def test_results_of_other_code_are_marked(finished: Path) -> None:
    """If the code has changed since the results, the report has a banner, and ``stale`` says so."""
    fresh = run(finished)
    assert fresh.stale == ()
    assert "computed by other code" not in fresh.report.read_text()
    path = finished / "test" / "small" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "code": "older"}))
    done = run(finished)
    assert done.stale == ("test/small",)
    assert done.sections[0].settings["hash of the source"] == "older (not the present code)"
    page = done.report.read_text()
    assert page.index("were computed by other code") < page.index("Numbers add up")


@pytest.mark.usefixtures("unchecked")
def test_an_edited_experiment_is_not_reported_as_if_nothing_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line: a banner, a line in the summary, and exit status 3."""
    package = tmp_path / "edited"
    package.mkdir()
    source = (Path(__file__).parent / "small_experiment.py").read_text()
    (package / "__init__.py").touch()
    module = package / "small.py"
    module.write_text(f"{source}\n\nEXPERIMENT = SmallExperiment()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    command = ["reproduce", "edited.small", "--out", "out", "--quick", "--workers", "1"]
    assert main(command) == 0
    assert main(command) == 0
    capsys.readouterr()
    module.write_text(module.read_text().replace('return {"number"', 'return {  "number"'))
    assert main(command) == 3
    printed = capsys.readouterr()
    assert "edited/small  A small one (nowhere) [OLD RESULTS]" in printed.out
    assert "the numbers of edited/small come from other code" in printed.err
    assert "were computed by other code" in Path("out/report.html").read_text()


@pytest.mark.parametrize("change", ["seconds", "array", "shape", "folder"])
def test_blocks_that_do_not_fit_are_damage(finished: Path, change: str) -> None:
    path = finished / "test" / "small" / "blocks" / "agents" / "0001.npz"
    header, arrays = read_bundle(path, "block")
    header = {key: value for key, value in header.items() if key not in ("format", "version")}
    path.unlink()
    if change == "folder":
        path.mkdir()
    elif change == "seconds":
        write_bundle(path, "block", {**header, "seconds": None}, arrays)
    elif change == "array":
        write_bundle(path, "block", header, {"latent": arrays["latent"]})
    else:
        arrays["regret/MixTS"] = arrays["regret/MixTS"][:, :3]
        write_bundle(path, "block", header, arrays)
    assert re.search("damaged|does not fit", refused(finished))


def test_what_others_finished_is_kept_when_one_fails(tmp_path: Path) -> None:
    """Two batches end together, one of them badly."""
    experiment = SmallExperiment()
    store = Store(tmp_path, experiment, Setting(6, 20, 1))
    store.begin()
    good = Batch(store, "good", CountingPart(None, 1), (0,))
    bad = Batch(store, "bad", FailingPart(), (0,))
    with ThreadPoolExecutor(2) as pool, pytest.raises(RuntimeError, match="always"):
        play_jobs([bad, good], ExecutorEngine(pool, window=2))
    assert store.missing("good", 1) in ([], [0])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="always"):
            play_jobs([good, bad], InlineEngine())
    assert store.missing("good", 1) == []


def test_names_of_parts_stay_different_as_files() -> None:
    names = ["a/b", "a b", "a-b", "a", "../a", "a=0.5", "ä"]
    assert len({slug(name) for name in names}) == len(names)
    assert slug("width=0.05") == "width=0.05"
    assert "/" not in slug("../a")


def test_a_block_is_never_written_over(finished: Path) -> None:
    experiment = SmallExperiment()
    store = Store(finished, experiment, Setting(6, 20, 1))
    store.write("counted", 0, {"number": np.zeros((2, 3))}, 1.0)
    before = store.read("counted", 1)[0]["number"]
    store.write("counted", 1, {"number": np.zeros((2, 3))}, 1.0)
    np.testing.assert_array_equal(store.read("counted", 1)[0]["number"], before)


# -- what was asked for -------------------------------------------------------------------------


def test_unknown_experiments_and_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="paper/width"):
        reproduce(["paper/wdith"], tmp_path)
    with pytest.raises(ParameterError, match="has an option 'features'"):
        reproduce(["paper/width"], tmp_path, features="x.npz")
    elsewhere = SmallExperiment()
    elsewhere.id = "../elsewhere"
    with pytest.raises(ParameterError, match="must look like paper/width"):
        reproduce([elsewhere], tmp_path)
    with pytest.raises(ParameterError, match="runs"):
        run(tmp_path, n_runs=1)
    with pytest.raises(ParameterError, match="seed"):
        run(tmp_path, seed=-1)
    assert not list(tmp_path.iterdir())


def test_the_same_choice_from_another_place(tmp_path: Path) -> None:
    """A file that moves has another path and the same content."""
    run(tmp_path, flavour="sour")
    again = run(tmp_path, flavour=" sour ")
    assert again.n_blocks == 0
    assert again.sections[0].settings["flavour"] == "sour"
    assert again.sections[0].command.endswith("--option 'flavour= sour '")


def test_an_error_says_where_it_happened(tmp_path: Path, marks: Path) -> None:
    (marks / "stop").write_text("not a number")
    with pytest.raises(ValueError, match="invalid literal") as failed:
        run(tmp_path / "out", marks)
    assert failed.value.__notes__ == ["(test/small, part 'counted', block 0)"]


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_what_is_not_installed_is_said_before_anything_is_played(
    tmp_path: Path, marks: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError, match=missing):
        run(tmp_path / "out", marks)
    assert marks_in(marks) == 0
    assert not (tmp_path / "out").exists()
