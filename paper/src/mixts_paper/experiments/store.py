"""Results on disk, block by block: an interrupted run keeps every finished block.

::

    OUT/mixts.json                       marks the folder as one of `mixts reproduce`
    OUT/report.html
    OUT/paper/width/manifest.json        settings, parts, code and versions of one experiment
    OUT/paper/width/blocks/PART/0003.npz one block of one part
    OUT/paper/width/kept/NAME.npz        arrays that its preparation made once
    OUT/paper/width/regret.svg, .png     its figures

Every file is written whole or not at all, and no file is overwritten with other numbers: a folder
of something else, a damaged folder or one with other settings is refused with a message.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from mixts import __version__
from mixts.errors import FormatError, OutputError
from mixts.extend import files
from mixts.sources import LIBRARY, Sources, sources_hash
from mixts_paper.experiments.base import GROUPS, Arrays, Blocks, Experiment, Setting

_MARK = "mixts.json"
_KIND = {"format": "mixts/reproduction", "version": 1}
_MANIFEST_NAME = "manifest.json"
_MANIFEST = {"format": "mixts/experiment", "version": 1}
_FIELDS = {"id": str, "settings": dict, "code": str, "versions": dict}
"""Fields that every manifest has, with their types."""
_AGAIN = "remove it, and the same command computes it again"


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python, of mixts and of the libraries that compute."""
    found = {"python": platform.python_version(), "mixts": __version__}
    for name in ("numpy", "scipy", "scikit-learn"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


PAPER = Sources(
    Path(__file__).parents[1],
    {
        "commands": "parses arguments and prints",
        "analysis/drawings.py": "draws finished results",
        "experiments/report.py": "writes reports about finished results",
        "experiments/verdicts.py": "judges finished results",
    },
)
"""The source files of this package."""


def code_hash(experiment: Experiment) -> str:
    """Return a hash of all sources that determine an experiment's numbers.

    Other experiments of the package do not count: an edit of one leaves the results of the others
    valid.
    """
    own = [
        path
        for path in dict.fromkeys(experiment.sources())
        if not (LIBRARY.only_presents(path) or PAPER.only_presents(path))
    ]
    return _digest([_common_hash(), sources_hash(own)])


@cache
def _common_hash() -> str:
    """Return a hash of the sources that determine the numbers of every experiment.

    It is computed once: a process runs the code that it imported, not a later edit of it.
    """
    groups = {PAPER.root / "experiments" / group for group in GROUPS} | {PAPER.root / "studies"}
    common = [path for path in PAPER.numerical() if groups.isdisjoint(path.parents)]
    return sources_hash([*LIBRARY.numerical(), *common])


def open_folder(path: Path) -> Path:
    """Return the output folder, created if it is missing; refuse one with files of others."""
    if not str(path).strip() or (path.exists() and not path.is_dir()):
        raise OutputError(f"{str(path)!r} is not a folder: choose another --out")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path} cannot be created ({error}): choose another --out") from error
    mark = path / _MARK
    if mark.exists():
        if _read_json(mark) != _KIND:
            raise OutputError(
                f"{mark} is damaged or of another version of mixts: choose another --out"
            )
    elif not _is_empty(path):
        raise OutputError(
            f"{path} is not empty and was not made by `mixts reproduce`: nothing was touched; "
            "choose another --out"
        )
    else:
        _write_json(mark, _KIND)
    return path


class Store:
    """The results of one experiment with one setting, in one folder."""

    def __init__(self, out: Path, experiment: Experiment, setting: Setting) -> None:
        self.id, self.folder, self.setting = experiment.id, out / experiment.id, setting
        settings = asdict(setting)
        self._sources = settings.pop("sources")
        self._asked: dict[str, Any] = {
            "settings": settings, "code": code_hash(experiment), "versions": versions()
        }  # fmt: skip
        # Blocks carry this key, so that one copied from elsewhere is noticed.
        self._key = _digest([experiment.id, settings])

    @classmethod
    def finished(cls, out: Path, experiment: Experiment) -> Store | None:
        """Return the results in a folder; None if blocks are missing."""
        manifest = read_manifest(out / experiment.id)
        setting = Setting(**manifest["settings"], sources=manifest.get("sources", {}))
        store = cls(out, experiment, setting)
        parts: dict[str, int] | None = manifest.get("parts")
        if parts is None:
            return None
        there = (store._path(part, i).exists() for part, n in parts.items() for i in range(n))
        return store if all(there) else None

    # -- the manifest -------------------------------------------------------------------------

    @property
    def manifest(self) -> dict[str, Any]:
        """The settings, parts, code and versions of the results in the folder."""
        return read_manifest(self.folder)

    @property
    def _has_results(self) -> bool:
        """Whether any block or prepared array is there."""
        return any(self.folder.glob("blocks/*/*.npz")) or any(self.folder.glob("kept/*.npz"))

    def check(self) -> None:
        """Raise an error for a damaged folder or one with results of other settings."""
        if not (self.folder / _MANIFEST_NAME).exists():
            if self.folder.exists() and not _is_empty(self.folder):
                raise OutputError(
                    f"{self.folder} has files but no {_MANIFEST_NAME}: it is damaged. Move it "
                    "away, or choose another --out"
                )
            return
        wanted, found = self._asked["settings"], self.manifest["settings"]
        if wanted != found and self._has_results:
            raise OutputError(
                f"{self.folder} has results of other settings ({_differences(found, wanted)}): "
                "choose another --out, or remove that folder"
            )

    def begin(self) -> None:
        """Write a manifest unless the folder has one with results."""
        path = self.folder / _MANIFEST_NAME
        if path.exists() and self._has_results:
            self._change(sources=self._sources)
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            new = {"id": self.id, "made": now(), "sources": self._sources, **self._asked}
            _write_json(path, {**_MANIFEST, **new})

    def note_parts(self, parts: Mapping[str, Blocks]) -> None:
        """Write the number of blocks of each part to the manifest."""
        self._change(parts={name: part.n_blocks for name, part in parts.items()})

    def _change(self, **fields: Any) -> None:
        there = self.manifest
        if there != {**there, **fields}:
            _write_json(self.folder / _MANIFEST_NAME, {**there, **fields})

    @property
    def is_of_this_code(self) -> bool:
        """Whether the results come from the present code and libraries."""
        there = self.manifest
        return all(there[key] == self._asked[key] for key in ("code", "versions"))

    def check_code(self) -> None:
        """Raise an error if new blocks would be added to those of other code or libraries."""
        there = self.manifest
        if there["code"] != self._asked["code"]:
            raise OutputError(
                f"{self.folder} has blocks of another version of the code, and new blocks would "
                "not fit them. Choose another --out, or remove that folder"
            )
        if there["versions"] != self._asked["versions"]:
            changed = _differences(there["versions"], self._asked["versions"])
            raise OutputError(
                f"{self.folder} has blocks computed with other libraries ({changed}): install "
                "those, choose another --out, or remove that folder"
            )

    # -- blocks -------------------------------------------------------------------------------

    def _path(self, part: str, block: int) -> Path:
        return self.folder / "blocks" / slug(part) / f"{block:04d}.npz"

    def missing(self, part: str, n_blocks: int) -> list[int]:
        """Return the blocks that are missing; check those that are there."""
        absent = [block for block in range(n_blocks) if not self._path(part, block).exists()]
        for block in set(range(n_blocks)) - set(absent):
            self.read(part, block)
        return absent

    def write(self, part: str, block: int, arrays: Mapping[str, Any], seconds: float) -> None:
        """Write a block, unless it is there already."""
        path = self._path(part, block)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            header = {"key": self._key, "part": part, "block": block, "seconds": round(seconds, 3)}
            files.write_bundle(path, "block", header, arrays)

    def read(self, part: str, block: int) -> tuple[Arrays, float]:
        """Return the arrays of a block, and the seconds that it took."""
        path = self._path(part, block)
        header, arrays = self._bundle(path, "block")
        if (header.get("part"), header.get("block")) != (part, block):
            raise OutputError(f"{path} belongs to another part: {_AGAIN}")
        seconds = header.get("seconds")
        if not isinstance(seconds, (int, float)) or not arrays:
            raise OutputError(f"{path} is damaged: {_AGAIN}")
        return arrays, float(seconds)

    def _bundle(self, path: Path, kind: str) -> tuple[dict[str, Any], Arrays]:
        try:
            header, arrays = files.read_bundle(path, kind)
        except (FormatError, OSError) as error:
            raise OutputError(f"{path} is damaged: {_AGAIN} ({error})") from error
        if header.get("key") != self._key:
            raise OutputError(f"{path} belongs to another experiment or setting: {_AGAIN}")
        return header, arrays

    def part(self, name: str, n_blocks: int) -> tuple[Arrays, float]:
        """Return all blocks of a part together, and the seconds that they took."""
        blocks, seconds = zip(*(self.read(name, i) for i in range(n_blocks)), strict=True)
        shapes = [{key: array.shape[1:] for key, array in block.items()} for block in blocks]
        for i, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise OutputError(f"{self._path(name, i)} does not fit the other blocks: {_AGAIN}")
        arrays = {key: np.concatenate([block[key] for block in blocks]) for key in shapes[0]}
        return arrays, sum(seconds)

    # -- arrays made once --------------------------------------------------------------------

    def once(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of this name; make and keep them if they are not there."""
        path = self.folder / "kept" / f"{slug(name)}.npz"
        if not path.exists():
            self.check_code()
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_bundle(path, "kept", {"key": self._key}, make())
        return self._bundle(path, "kept")[1]

    def kept(self) -> dict[str, Arrays]:
        """Return all arrays that were made once, by name."""
        paths = sorted((self.folder / "kept").glob("*.npz"))
        return {path.stem: self._bundle(path, "kept")[1] for path in paths}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of an experiment's folder."""
    path = folder / _MANIFEST_NAME
    there = _read_json(path)
    good = {key: there.get(key) for key in _MANIFEST} == _MANIFEST
    good = good and all(isinstance(there.get(key), kind) for key, kind in _FIELDS.items())
    if not good or not isinstance(there.get("parts", {}), dict):
        raise OutputError(
            f"{path} is damaged or of another version of mixts: move {folder} away, or choose "
            "another --out"
        )
    return there


def _is_empty(folder: Path) -> bool:
    """Return whether a folder has no files, apart from unfinished ones of a killed program."""
    ours = re.compile(r"\..+\.[\d-]+\.part")  # the names of ``files.replacing``
    return all(ours.fullmatch(entry.name) for entry in folder.iterdir())


def slug(name: str) -> str:
    """Return a name for a file; different names stay different."""
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.") or "part"
    return plain if plain == name else f"{plain}-{_digest(name)[:6]}"


def now() -> str:
    """Return the time in UTC, to the second, in ISO format."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _differences(there: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    keys = [key for key in {**there, **asked} if there.get(key) != asked.get(key)]
    return ", ".join(f"{key}: {there.get(key)} there, {asked.get(key)} asked for" for key in keys)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OutputError(f"{path} is damaged ({error}): choose another --out") from error
    if not isinstance(content, dict):
        raise OutputError(f"{path} is damaged: choose another --out")
    return content


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    with files.replacing(path) as part:
        part.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
