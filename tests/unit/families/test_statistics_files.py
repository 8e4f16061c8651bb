"""Files: truncated, foreign, damaged, newer or pickled ones are refused, and never half read."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixts
from mixts import errors
from mixts.families import (
    BernoulliStatistics,
    GaussianStatistics,
    LinearStatistics,
    PoissonStatistics,
)
from tests.contracts.problems import FamilyCase

CASE = FamilyCase("gaussian")
LOADERS = {"prior": mixts.MixturePrior.load, "statistics": mixts.Statistics.load}
kinds = pytest.mark.parametrize("kind", LOADERS)
suffixes = pytest.mark.parametrize("suffix", [".json", ".npz"])


def write(kind: str, path: Path) -> bytes:
    """Save something of the kind; what was written."""
    (CASE.prior if kind == "prior" else CASE.tasks(1, 3, 12).statistics).save(path)
    return path.read_bytes()


# -- what is not a whole file ----------------------------------------------------------------------


@kinds
@suffixes
def test_truncated(kind: str, suffix: str, tmp_path: Path) -> None:
    """At every length: half a file is no file."""
    path = tmp_path / f"file{suffix}"
    content = write(kind, path)
    whole = len(content) - (suffix == ".json")  # a last newline is not missed
    for length in range(whole):
        path.write_bytes(content[:length])
        with pytest.raises(errors.FormatError, match="file"):
            LOADERS[kind](path)


@kinds
def test_damaged(kind: str, tmp_path: Path) -> None:
    """One byte after another turned over: refused, or the byte did not matter."""
    path = tmp_path / "file.npz"
    content = write(kind, path)
    good = LOADERS[kind](path)
    refused = 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            assert same(LOADERS[kind](path), good), place
        except errors.FormatError:
            refused += 1
    assert refused > len(content) / 3


@pytest.mark.parametrize("method", [12, 14, 93, 95], ids=["bzip2", "lzma", "zstd", "xz"])
def test_other_compressions(method: int, tmp_path: Path) -> None:
    """A damaged member of these raises exceptions that depend on the version of Python."""
    path = tmp_path / "file.npz"
    content = write("prior", path)
    deflated, other = (n.to_bytes(2, "little") for n in (8, method))
    for signature, place in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        start = content.index(signature) + place
        assert content[start : start + 2] == deflated
        content = content[:start] + other + content[start + 2 :]
    path.write_bytes(content)
    with pytest.raises(errors.FormatError, match="deflated, or not compressed"):
        LOADERS["prior"](path)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, mixts.Statistics):
        return one == other
    pairs = zip(one.family.arrays().values(), other.family.arrays().values(), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs) and one.names == other.names


FOREIGN = {
    "nothing": b"",
    "text": b"alpha,beta\n1,2\n",
    "binary": bytes(range(256)),
    "a number": b"7",
    "a list": b"[1, 2]",
    "another program's": b'{"format": "other/prior", "version": 1}',
    "no format": b'{"version": 1, "arrays": {}}',
    "a zip without a header": None,
    "a pickle": pickle.dumps({"format": "mixts/prior", "version": 1}),
}


@kinds
@pytest.mark.parametrize("name", FOREIGN)
def test_foreign(kind: str, name: str, tmp_path: Path) -> None:
    path, content = tmp_path / "foreign", FOREIGN[name]
    if content is None:
        np.savez(path.with_suffix(".npz"), alpha=np.ones(3))
        path = path.with_suffix(".npz")
    else:
        path.write_bytes(content)
    with pytest.raises(errors.FormatError, match="foreign"):
        LOADERS[kind](path)


@kinds
@suffixes
def test_the_other_kind_of_file(kind: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"file{suffix}"
    write(kind, path)
    (other,) = set(LOADERS) - {kind}
    with pytest.raises(errors.FormatError, match=rf"'mixts/{other}', got 'mixts/{kind}'"):
        LOADERS[other](path)


def rewritten(path: Path, header: dict[str, Any]) -> None:
    """The same file with another header."""
    if path.suffix == ".json":
        path.write_text(json.dumps({**json.loads(path.read_text()), **header}))
        return
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["header.json"] = json.dumps({**json.loads(members["header.json"]), **header}).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@kinds
@suffixes
def test_newer(kind: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"file{suffix}"
    write(kind, path)
    rewritten(path, {"version": 2})
    with pytest.raises(errors.FormatError, match="version 2; this mixts reads up to 1: upgrade"):
        LOADERS[kind](path)
    for version in (0, "1", None, True, 1.0):
        rewritten(path, {"version": version})
        with pytest.raises(errors.FormatError, match="version"):
            LOADERS[kind](path)
    rewritten(path, {"version": 1})
    LOADERS[kind](path)


class Bomb:
    """Object whose pickle would run code when it is read."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was executed",))


@kinds
def test_pickles_are_never_opened(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file.npz"
    write(kind, path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = next(name for name in members if name.endswith(".npy"))
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "w") as archive:
        for key, content in {**members, name: buffer.getvalue()}.items():
            archive.writestr(key, content)
    with pytest.raises(errors.FormatError):
        LOADERS[kind](path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(errors.FormatError):
        LOADERS[kind](path)


@kinds
def test_a_missing_file_is_the_systems_error(kind: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LOADERS[kind](tmp_path / "nothing")


@kinds
@suffixes
def test_a_failed_save_leaves_the_old_file(
    kind: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"file{suffix}"
    before = write(kind, path)

    def refuse(*_: Any) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", refuse)
        with pytest.raises(OSError, match="no space"):
            write(kind, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# -- what statistics may hold ----------------------------------------------------------------------

HELD: dict[str, tuple[Any, dict[str, Any]]] = {
    "fewer than nothing": (BernoulliStatistics, {"successes": [[-1]], "failures": [[0]]}),
    "half a success": (BernoulliStatistics, {"successes": [[0.5]], "failures": [[0]]}),
    "not a number": (BernoulliStatistics, {"successes": [[np.nan]], "failures": [[0]]}),
    "words": (BernoulliStatistics, {"successes": [["a"]], "failures": [[0]]}),
    "ragged": (BernoulliStatistics, {"successes": [[1], [1, 2]], "failures": [[0]]}),
    "shapes differ": (BernoulliStatistics, {"successes": [[1, 2]], "failures": [[0]]}),
    "no task axis": (BernoulliStatistics, {"successes": [1, 2], "failures": [0, 0]}),
    "an array is missing": (BernoulliStatistics, {"successes": [[1]]}),
    "an array too many": (
        BernoulliStatistics, {"successes": [[1]], "failures": [[0]], "draws": [[0]]}
    ),
    "squares below zero": (
        GaussianStatistics, {"count": [[2]], "average": [[0.0]], "squares": [[-1.0]]}
    ),
    "endless average": (
        GaussianStatistics, {"count": [[2]], "average": [[np.inf]], "squares": [[1.0]]}
    ),
    "factorials nan": (
        PoissonStatistics, {"count": [[2]], "total": [[3]], "log_factorials": [[np.nan]]}
    ),
    "factorials endless": (
        PoissonStatistics, {"count": [[2]], "total": [[3]], "log_factorials": [[np.inf]]}
    ),
    "factor nan": (
        mixts.families.LinearStatistics, {"count": [1], "factor": [[[np.nan, 0.0], [0.0, 1.0]]]}
    ),
    "factor not square": (
        mixts.families.LinearStatistics, {"count": [1], "factor": [[[1.0, 0.0]]]}
    ),
    "count of other tasks": (
        mixts.families.LinearStatistics, {"count": [1, 1], "factor": [[[1.0, 0.0], [0.0, 1.0]]]}
    ),
}  # fmt: skip


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", HELD)
def test_impossible_statistics(name: str) -> None:
    kind, arrays = HELD[name]
    with pytest.raises(errors.StatisticsError):
        kind(**arrays)


def test_statistics_own_their_arrays() -> None:
    """Writing to the given arrays, or to the returned ones, does not change the statistics."""
    successes = np.array([[3, 1]])
    statistics = BernoulliStatistics(successes=successes, failures=np.array([[1, 1]]))
    successes[:] = 100
    assert statistics.successes.tolist() == [[3, 1]]
    with pytest.raises(ValueError, match="read-only"):
        statistics.successes[0, 0] = 5


def test_a_file_of_impossible_statistics_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    FamilyCase("bernoulli").tasks(1, 3, 12).statistics.save(path)
    content = json.loads(path.read_text())
    for values, dtype in [
        ([[0.5] * 4] * 3, "float64"),
        ([[-1] * 4] * 3, "int64"),
        ([[1]], "int64"),
    ]:
        content["arrays"]["successes"] = {
            "dtype": dtype, "shape": list(np.shape(values)), "values": values
        }  # fmt: skip
        path.write_text(json.dumps(content))
        with pytest.raises(errors.FormatError, match="damaged"):
            mixts.Statistics.load(path)


def test_linear_sums_where_only_those_exist() -> None:
    """V, B and yy give the same belief, less their lost digits."""
    case = FamilyCase("full")
    belief = case.belief(1, 20)
    actions, outcomes = case.history(1, 20)
    from_sums = mixts.families.LinearStatistics.from_sums(
        [20], (actions.T @ actions)[None], (actions.T @ outcomes)[None], [outcomes @ outcomes]
    )
    again = case.prior.condition(from_sums)
    np.testing.assert_allclose(again.log_evidence[0], belief.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(again.mean[0], belief.mean, rtol=1e-9)
    np.testing.assert_allclose(belief.statistics.gram, actions.T @ actions, rtol=1e-9)
    np.testing.assert_allclose(belief.statistics.moment, actions.T @ outcomes, rtol=1e-9)
    np.testing.assert_allclose(belief.statistics.squares, outcomes @ outcomes, rtol=1e-9)
    with pytest.raises(errors.StatisticsError, match="real data"):
        mixts.families.LinearStatistics.from_sums([2], [[[1.0]]], [[5.0]], [1.0])


def test_a_count_that_is_no_whole_number_is_refused(tmp_path: Path) -> None:
    belief = mixts.MixturePrior(mixts.BernoulliArms.uniform(1)).belief()
    belief.update(0, 1)
    path = tmp_path / "counts.json"
    belief.statistics.save(path)
    path.write_text(path.read_text().replace("[[1]]", "[[1.7]]"))
    with pytest.raises(errors.FormatError, match="not of type int64"):
        mixts.Statistics.load(path)


def test_a_kind_of_statistics_loads_only_its_own(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    mixts.BernoulliArms.uniform(1).empty_statistics(2).save(path)
    assert len(BernoulliStatistics.load(path)) == 2
    with pytest.raises(errors.FormatError, match="BernoulliStatistics, not LinearStatistics"):
        LinearStatistics.load(path)


def test_totals_that_would_overflow_are_refused() -> None:
    belief = mixts.MixturePrior(mixts.PoissonArms([[1.0]], [[1.0]])).belief()
    with pytest.raises(errors.OutcomeError, match=r"2\^62 in all"):
        belief.update(np.zeros(1500, int), np.full(1500, 2.0**53))
    assert belief.statistics.total.tolist() == [0]
