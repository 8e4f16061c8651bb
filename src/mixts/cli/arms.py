"""``mixts arms``: list, add, retire, restore or rename the arms of a prior file or a service."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from mixts.errors import MissingExtraError, MixtsError, ParameterError
from mixts.prior import MixturePrior

_ADD = """\
Add arms that have no data yet. They look like the other arms of each kind, and are marked as new
until a prior is learned from their data. Each argument is one name; commas are part of it."""
_WHERE = """\
The first argument is the file of a prior: the result is written to --out, or back to the file with
--force. With --service URL there is no file: the running service makes a version of its prior with
the changes, and decides with it from then on."""
Arm = tuple[Any, bool, bool]
"""Name, whether it is retired, whether it is new."""

_HELP = {
    "list": "print the arms",
    "add": "add arms without data",
    "retire": "take arms no more; their data still count",
    "restore": "take retired arms again",
    "rename": "rename arms: OLD NEW, repeated",
}


def register(parser: argparse.ArgumentParser) -> None:
    """Add the actions of the command."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, text in _HELP.items():
        about = f"{_ADD if name == 'add' else text.capitalize() + '.'}\n{_WHERE}"
        action = actions.add_parser(name, help=text, description=about)
        action.set_defaults(run=run_list if name == "list" else run_change, action=name)
        names = "[FILE] [NAME ...]" if name != "list" else "[FILE]"
        add = action.add_argument
        add("words", nargs="*", metavar=names, help="the prior's file, and names of arms")
        add("--service", metavar="URL", help="address of a running service, instead of a file")
        token = "token with the scope admin (read for list); default: MIXTS_TOKEN"
        add("--token", metavar="TOKEN", help=token)
        if name == "list":
            continue
        add("--out", type=Path, metavar="FILE", help="file to write the changed prior to")
        add("--force", action="store_true", help="overwrite a file that exists")
        if name == "add":
            add("--like", metavar="ARM", help="file only: an arm that the new arms resemble")
            guess = "file only: a guess of the new arms' mean reward"
            add("--mean", type=float, metavar="NUMBER", help=guess)


def run_list(options: argparse.Namespace) -> int:
    """Print the arms, one a line."""
    if options.service is None:
        path, names = _file_and_names(options)
        arms = _arms(MixturePrior.load(path))
    else:
        names = options.words
        with _client(options) as client:
            arms = [
                (arm.name or str(arm.index), arm.retired, arm.new) for arm in client.arms().arms
            ]
    if names:
        raise ParameterError(
            f"mixts arms list takes no names of arms, got {names[0]!r}; with --service there is no "
            "file either"
        )
    for name, retired, new in arms:
        marks = [mark for mark, on in (("retired", retired), ("new", new)) if on]
        print(name + (f"  ({', '.join(marks)})" if marks else ""))
    return 0


def _arms(prior: MixturePrior) -> list[Arm]:
    if prior.family.n_arms is None:
        raise ParameterError(
            f"{prior.family!r} has no arms to list or change: each decision offers its actions by "
            "their features, so a new item needs no change of the prior"
        )
    names = prior.arm_names or [str(k) for k in range(prior.family.n_arms)]
    return list(zip(names, prior.arms.retired.tolist(), prior.arms.new.tolist(), strict=True))


def run_change(options: argparse.Namespace) -> int:
    """Change the arms, and print what they are then."""
    if options.service is not None:
        if options.out or options.force:
            raise ParameterError("--out and --force are for files: leave them out with --service")
        if options.action == "add" and (options.like is not None or options.mean is not None):
            raise ParameterError("--like and --mean are for files: leave them out with --service")
        changes = _changes(options.action, options.words)
        with _client(options) as client:
            found = client.change_arms(**changes)
        marks = [(arm.name, arm.retired, arm.new) for arm in found.arms]
        print(f"prior version {found.version} is active: {_counted(marks)}")
        return 0
    path, names = _file_and_names(options)
    target = _target(path, options)
    prior = _changed(MixturePrior.load(path), names, options)
    prior.save(target)
    print(f"{target}: {_counted(_arms(prior))}")
    return 0


def _changed(prior: MixturePrior, names: list[str], options: argparse.Namespace) -> MixturePrior:
    _arms(prior)
    changes = _changes(options.action, names)[options.action]
    if options.action == "add":
        return prior.add_arms(changes, like=options.like, mean=options.mean)
    if options.action == "retire":
        return prior.retire_arms(changes)
    return (
        prior.restore_arms(changes) if options.action == "restore" else prior.rename_arms(changes)
    )


def _changes(action: str, names: list[str]) -> dict[str, Any]:
    if not names:
        raise ParameterError(f"mixts arms {action} needs names of arms")
    if action != "rename":
        return {action: names}
    if len(names) % 2:
        raise ParameterError(f"mixts arms rename needs pairs, OLD NEW, got {len(names)} names")
    return {"rename": dict(zip(names[::2], names[1::2], strict=True))}


def _file_and_names(options: argparse.Namespace) -> tuple[Path, list[str]]:
    if not options.words:
        raise ParameterError("give the file of a prior, or --service URL")
    return Path(options.words[0]), list(options.words[1:])


def _target(path: Path, options: argparse.Namespace) -> Path:
    target = options.out or path
    if target.exists() and not options.force:
        raise ParameterError(
            f"{target} exists: choose another --out, or add --force"
            if options.out
            else f"give --out FILE, or --force to change {path} itself"
        )
    return Path(target)


@contextmanager
def _client(options: argparse.Namespace) -> Iterator[Any]:
    """Connect to the service; say where a token comes from if it refuses the present one."""
    found = list(entry_points(group="mixts.services", name="client"))
    if not found:
        raise MissingExtraError("--service needs mixts-serve: pip install mixts-serve")
    connect = found[0].load()
    scope = "read" if options.action == "list" else "admin"
    try:
        with connect(options.service, options.token or os.environ.get("MIXTS_TOKEN")) as client:
            yield client
    except MixtsError as error:
        if getattr(error, "status", None) in (401, 403):
            error.add_note(
                f"give a token with the scope {scope} by --token or the variable MIXTS_TOKEN"
            )
        raise


def _counted(arms: list[Arm]) -> str:
    parts = [f"{len(arms):,} arms"]
    for place, mark in ((1, "retired"), (2, "new")):
        n = sum(arm[place] for arm in arms)
        if n:
            parts.append(f"{n:,} {mark}")
    return ", ".join(parts)
