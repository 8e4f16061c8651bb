"""The options that say where a command's work runs."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from mixts.errors import ParameterError

if TYPE_CHECKING:
    from mixts.engines import EngineLike


def add_engine_options(parser: Any, default: str) -> None:
    """Add ``--workers``, ``--engine`` and ``--scheduler`` to a parser or a group of options.

    Parameters
    ----------
    parser
        An ``argparse`` parser or group.
    default
        What happens without ``--workers``, for the help.
    """
    add = parser.add_argument
    add("--workers", type=int, help=f"number of worker processes (default: {default})")
    add("--engine", choices=("local", "dask"), default="local", help="where the work runs")
    add("--scheduler", metavar="ADDRESS", help="address of a Dask cluster, tcp://host:8786")


def engine_from(options: argparse.Namespace) -> EngineLike:
    """Return the ``engine=`` of the options; a Dask cluster is not started before its first use."""
    if options.engine == "dask":
        from mixts.engines.dask import DaskEngine

        return partial(DaskEngine, options.scheduler, options.workers)
    if options.scheduler is not None:
        raise ParameterError("--scheduler is the address of a Dask cluster: add --engine dask")
    if options.workers is None:
        return None
    from mixts import _checks  # imports numpy, for which `mixts --help` need not wait

    return _checks.count(options.workers, "workers")
