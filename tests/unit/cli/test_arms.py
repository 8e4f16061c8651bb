"""``mixts arms`` on files and on a service."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from mixts_serve.client import AsyncClient
from mixts_serve.http.security import Tokens
from mixts_serve.versions import ArmList

import mixts
from mixts.cli import main
from serve.tests.contracts.stores import arms
from serve.tests.unit.test_client_service import deciding, served


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prior.json"
    arms().replace(arm_names=["a", "b", "c"]).save(path)
    return path


def run(*words: object) -> int:
    return main(["arms", *map(str, words)])


def test_files_are_changed(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = tmp_path / "more.json"
    assert run("add", file, "d, e", "f", "--out", more) == 0
    assert run("retire", more, "b", "--force") == 0
    assert run("rename", more, "a", "A", "c", "C", "--force") == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{more}: 5 arms, 1 retired, 2 new"
    assert run("list", more) == 0
    assert capsys.readouterr().out.splitlines() == [
        "A",
        "b  (retired)",
        "C",
        "d, e  (new)",
        "f  (new)",
    ]
    assert run("restore", more, "b", "--force") == 0
    assert not mixts.MixturePrior.load(more).arms.retired.any()
    assert mixts.MixturePrior.load(file).arm_names == ("a", "b", "c")


def test_guesses(file: Path) -> None:
    assert run("add", file, "x", "--mean", "0.2", "--force") == 0
    assert run("add", file, "y", "--like", "b", "--force") == 0
    means = mixts.MixturePrior.load(file).family.parameter_means()
    assert means[:, 3] == pytest.approx(0.2)
    assert means[:, 4] == pytest.approx(means[:, 1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "FILE", "x"], "--force to change"),
        (["add", "FILE", "x", "--out", "FILE"], "exists"),
        (["add", "FILE", "--force"], "needs names"),
        (["add"], "give the file"),
        (["rename", "FILE", "a", "--force"], "pairs"),
        (["retire", "FILE", "nobody", "--force"], "unknown arm 'nobody'"),
        (["list", "FILE", "a"], "takes no names"),
        (["add", "--service", "http://127.0.0.1:9", "x", "--force"], "--out and --force"),
        (["add", "--service", "http://127.0.0.1:9", "x", "--mean", "1"], "--like and --mean"),
    ],
)
def test_wrong_use(
    file: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = file.read_bytes()
    assert run(*(str(file) if word == "FILE" else word for word in words)) == 2
    assert message in capsys.readouterr().err
    assert file.read_bytes() == before


async def changed(url: str) -> ArmList:
    async with AsyncClient(url) as client:
        found = await client.change_arms(rename={"b": "B"}, restore=["a"])
        assert found == await client.arms()
        return found


def test_a_running_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prior = arms().replace(arm_names=["a", "b", "c"])
    with deciding(tmp_path / "decisions.db", prior) as decider, served(decider) as url:
        assert run("add", "--service", url, "d, e") == 0
        assert run("retire", "--service", url, "a") == 0
        assert capsys.readouterr().out.splitlines() == [
            "prior version 2 is active: 4 arms, 1 new",
            "prior version 3 is active: 4 arms, 1 retired, 1 new",
        ]
        assert run("list", "--service", url) == 0
        assert capsys.readouterr().out.splitlines() == ["a  (retired)", "b", "c", "d, e  (new)"]
        assert run("retire", "--service", url, "nobody") == 2
        assert "unknown arm 'nobody'" in capsys.readouterr().err
        found = asyncio.run(changed(url))
        assert found == decider.arms()
        assert [arm.name for arm in found.arms] == ["a", "B", "c", "d, e"]


def test_a_service_that_wants_another_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MIXTS_TOKEN", raising=False)
    (tmp_path / "tokens.txt").write_text("readers-token-0123456789 read\n")
    tokens = Tokens.read(tmp_path / "tokens.txt")
    with (
        deciding(tmp_path / "decisions.db", arms()) as decider,
        served(decider, tokens=tokens) as url,
    ):
        assert run("list", "--service", url) == 2
        assert "give a token with the scope read by --token" in capsys.readouterr().err
        assert run("retire", "--service", url, "0", "--token", "readers-token-0123456789") == 2
        assert "give a token with the scope admin by --token" in capsys.readouterr().err


def test_priors_without_arms_or_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "prior.json"
    mixts.MixturePrior(mixts.LinearGaussian([[1.0]], [[1.0]], 1.0, "diag")).save(file)
    assert run("list", file) == 2
    assert "a new item needs no change of the prior" in capsys.readouterr().err
    arms().save(file)
    assert run("add", file, "x", "--force") == 2
    assert "name all arms first" in capsys.readouterr().err
