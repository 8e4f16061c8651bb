"""The command line: parse, call, print."""

from mixts.cli.main import main

__all__ = ["main"]
