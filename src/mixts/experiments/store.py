"""Results on disk, block by block: an interrupted run loses nothing that was finished.

::

    OUT/mixts.json                       says that the folder is ours
    OUT/report.html
    OUT/paper/width/manifest.json        settings, parts, code and versions of one experiment
    OUT/paper/width/blocks/PART/0003.npz one block of one part
    OUT/paper/width/kept/NAME.npz        what its preparation made once
    OUT/paper/width/regret.svg, .png     its figures

Every file is written whole or not at all, and none is ever written over by other numbers: a folder
that is not ours, is damaged, or was made with other settings is refused with a message.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from mixts._files import read_bundle, replacing, write_bundle
from mixts.errors import FormatError, OutputError
from mixts.experiments import provenance
from mixts.experiments.base import Arrays, Experiment, Part, Setting

_MARK = "mixts.json"
_KIND = {"format": "mixts/reproduction", "version": 1}
_MANIFEST_NAME = "manifest.json"
_MANIFEST = {"format": "mixts/experiment", "version": 1}


def open_folder(path: Path) -> Path:
    """The output folder, made if need be; refuses one that holds anything of somebody else's."""
    if not str(path).strip() or (path.exists() and not path.is_dir()):
        raise OutputError(f"{str(path)!r} is not a folder: choose another --out")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path} cannot be made ({error}): choose another --out") from error
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


@dataclass(frozen=True)
class Block:
    """One block of one part, as it was read."""

    arrays: Arrays
    seconds: float


class Store:
    """The results of one experiment with one setting, in one folder."""

    def __init__(self, out: Path, experiment: Experiment, setting: Setting) -> None:
        self.id = experiment.id
        self.folder = out / experiment.id
        self.setting = setting
        settings = asdict(setting)
        self._sources = settings.pop("sources")
        self._asked: dict[str, Any] = {
            "settings": settings,
            "code": provenance.code_of(type(experiment)),
            "versions": provenance.versions(),
        }
        # Blocks carry it: one that was copied here from elsewhere is found out.
        self._key = _digest([experiment.id, self._asked["settings"]])

    # -- the manifest -------------------------------------------------------------------------

    @property
    def _has_results(self) -> bool:
        """Whether there is anything that took time to make."""
        return any(self.folder.glob("blocks/*/*.npz")) or any(self.folder.glob("kept/*.npz"))

    def check(self) -> None:
        """Refuse a folder that is damaged or has results of another setting; changes nothing."""
        if not (self.folder / _MANIFEST_NAME).exists():
            if self.folder.exists() and not _is_empty(self.folder):
                raise OutputError(
                    f"{self.folder} has files but no {_MANIFEST_NAME}: it is damaged. Move it "
                    "away, or choose another --out"
                )
            return
        wanted, found = self._asked["settings"], read_manifest(self.folder)["settings"]
        if wanted != found and self._has_results:
            raise OutputError(
                f"{self.folder} has results of other settings ({_differences(found, wanted)}): "
                "choose another --out, or remove that folder"
            )

    def begin(self) -> None:
        """A manifest, where there is none, or where there is nothing else yet."""
        path = self.folder / _MANIFEST_NAME
        new = {**_MANIFEST, "id": self.id, "made": now(), "sources": self._sources, **self._asked}
        if not path.exists() or not self._has_results:
            self.folder.mkdir(parents=True, exist_ok=True)
            _write_json(path, new)
        elif (there := read_manifest(self.folder)).get("sources") != self._sources:
            _write_json(path, {**there, "sources": self._sources})

    @property
    def is_of_this_code(self) -> bool:
        """Whether the results come from the code and the libraries that run now."""
        there = read_manifest(self.folder)
        return all(there[key] == self._asked[key] for key in ("code", "versions"))

    def check_code(self) -> None:
        """Results that are to be added to must come from the same code and libraries."""
        there = read_manifest(self.folder)
        if there["code"] != self._asked["code"]:
            raise OutputError(
                f"{self.folder} was begun by another version of mixts' code: its missing blocks "
                "would not fit to those that are there. Choose another --out, or remove that folder"
            )
        if there["versions"] != self._asked["versions"]:
            changed = _differences(there["versions"], self._asked["versions"])
            raise OutputError(
                f"{self.folder} was begun with other libraries ({changed}): install those, choose "
                "another --out, or remove that folder"
            )

    # -- blocks -------------------------------------------------------------------------------

    def _path(self, part: str, block: int) -> Path:
        return self.folder / "blocks" / slug(part) / f"{block:04d}.npz"

    def missing(self, part: str, n_blocks: int) -> list[int]:
        """The blocks that are not there; those that are must be readable and of this setting."""
        absent = []
        for block in range(n_blocks):
            if self._path(part, block).exists():
                self.read(part, block)
            else:
                absent.append(block)
        return absent

    def write(self, part: str, block: int, arrays: Mapping[str, Any], seconds: float) -> None:
        """Keep a block; one that is there already stays."""
        path = self._path(part, block)
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        header = {"key": self._key, "part": part, "block": block, "seconds": round(seconds, 3)}
        write_bundle(path, "block", header, arrays)

    def read(self, part: str, block: int) -> Block:
        """A block that is there."""
        path = self._path(part, block)
        header, arrays = self._bundle(path, "block")
        if (header.get("key"), header.get("part"), header.get("block")) != (self._key, part, block):
            raise OutputError(
                f"{path} belongs to another experiment or setting: remove it, and the same command "
                "plays this block again"
            )
        seconds = header.get("seconds")
        if not isinstance(seconds, (int, float)) or not arrays:
            raise OutputError(f"{path} is damaged: remove it, and the same command makes it again")
        return Block(arrays, float(seconds))

    def _bundle(self, path: Path, kind: str) -> tuple[dict[str, Any], Arrays]:
        try:
            return read_bundle(path, kind)
        except (FormatError, OSError) as error:
            raise OutputError(
                f"{path} is damaged: remove it, and the same command makes it again ({error})"
            ) from error

    def part(self, name: str, n_blocks: int) -> tuple[Arrays, float]:
        """All blocks of a part together, and the seconds they took."""
        blocks = [self.read(name, block) for block in range(n_blocks)]
        for i, block in enumerate(blocks):
            shapes = [{k: a.shape[1:] for k, a in one.arrays.items()} for one in (block, blocks[0])]
            if shapes[0] != shapes[1]:
                raise OutputError(
                    f"{self._path(name, i)} does not fit to the other blocks: remove it, and the "
                    "same command makes it again"
                )
        arrays = {
            key: np.concatenate([block.arrays[key] for block in blocks]) for key in blocks[0].arrays
        }
        return arrays, sum(block.seconds for block in blocks)

    # -- what is made once --------------------------------------------------------------------

    def once(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """What ``make`` gave when it was first asked for."""
        path = self.folder / "kept" / f"{slug(name)}.npz"
        if not path.exists():
            self.check_code()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bundle(path, "kept", {"key": self._key}, make())
        header, arrays = self._bundle(path, "kept")
        if header.get("key") != self._key:
            raise OutputError(f"{path} belongs to another experiment or setting: remove it")
        return arrays

    def kept(self) -> dict[str, Arrays]:
        """All that was made once, by name."""
        return {
            path.stem: self._bundle(path, "kept")[1]
            for path in sorted((self.folder / "kept").glob("*.npz"))
        }

    # -- the sizes of the parts ----------------------------------------------------------------

    def has_parts(self, parts: Mapping[str, Part]) -> bool:
        """Whether the manifest knows these parts, and no others."""
        return read_manifest(self.folder).get("parts") == _sizes(parts)

    def note_parts(self, parts: Mapping[str, Part]) -> None:
        """Say in the manifest how many blocks there are to be."""
        if not self.has_parts(parts):
            there = read_manifest(self.folder)
            _write_json(self.folder / _MANIFEST_NAME, {**there, "parts": _sizes(parts)})


def _sizes(parts: Mapping[str, Part]) -> dict[str, int]:
    return {name: part.n_blocks for name, part in parts.items()}


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an experiment's folder."""
    path = folder / _MANIFEST_NAME
    there = _read_json(path)
    good = {key: there.get(key) for key in _MANIFEST} == _MANIFEST
    kinds = {"id": str, "settings": dict, "code": str, "versions": dict}
    good = good and all(isinstance(there.get(key), kind) for key, kind in kinds.items())
    good = good and isinstance(there.get("parts", {}), dict)
    if not good:
        raise OutputError(
            f"{path} is damaged or of another version of mixts: move {folder} away, or choose "
            "another --out"
        )
    return there


def is_complete(folder: Path) -> bool:
    """Whether every block of every part is there."""
    sizes = read_manifest(folder).get("parts")
    return sizes is not None and all(
        (folder / "blocks" / slug(part) / f"{block:04d}.npz").exists()
        for part, n_blocks in sizes.items()
        for block in range(n_blocks)
    )


def _is_empty(folder: Path) -> bool:
    """But for what is left of writing a file when the program was killed."""
    ours = re.compile(r"\..+\.\d+\.part")
    return all(ours.fullmatch(entry.name) for entry in folder.iterdir())


def slug(name: str) -> str:
    """A name as a file's; different names stay different."""
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.") or "part"
    return plain if plain == name else f"{plain}-{_digest(name)[:6]}"


def now() -> str:
    """The time in UTC, to the second, as ISO has it."""
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
    with replacing(path) as part:
        part.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
