"""The command line: parse, call, print."""

from mixts.cli._engine import add_engine_options, engine_from
from mixts.cli._shares import share
from mixts.cli.main import FAILED, INTERRUPTED, main

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "add_engine_options",
    "engine_from",
    "main",
    "share",
]
