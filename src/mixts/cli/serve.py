"""``mixts serve``: decisions for live tasks over HTTP."""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mixts.errors import ParameterError
from mixts.prior import MixturePrior

_DESCRIPTION = """\
Serve decisions over HTTP: POST /v1/decide chooses an action for a task, POST /v1/reward says what
came of it, and / shows what happens. Everything is kept in the store, and is durable before it is
answered. One line on standard output says when the service is ready; SIGTERM or Ctrl-C ends it when
all that it accepted is answered."""

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def register(commands: Any) -> None:
    """Add the command."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "serve", help="decide for live tasks over HTTP", description=_DESCRIPTION
    )
    parser.set_defaults(run=run)
    deciding = parser.add_argument_group("deciding")
    add = deciding.add_argument
    add("--prior", type=Path, metavar="FILE", help="(default: the store's active one)")
    add("--store", required=True, metavar="PATH|URL", help="a SQLite file, or postgresql://...")
    add("--floor", type=float, default=0.0, metavar="P", help="least probability of every action")
    late = "learn from rewards that come so soon: seconds, or 90m, 12h, 30d (default: all)"
    add("--reward-window", type=_seconds, metavar="TIME", help=late)
    listening = parser.add_argument_group("listening")
    add = listening.add_argument
    add("--host", default="127.0.0.1", help="address (default 127.0.0.1: this machine only)")
    add("--port", type=_port, default=8321, help="(default 8321; 0: any that is free)")
    tokens = "tokens that are asked for, one a line, and after it read,write,admin or nothing"
    add("--token-file", type=Path, metavar="FILE", help=tokens)
    limits = parser.add_argument_group("limits")
    add = limits.add_argument
    rate = "operations a second of each client (default 10,000; 0: any)"
    add("--rate-limit", type=_number, default=10_000, metavar="N", help=rate)
    add("--max-pending", type=_count, default=10_000, metavar="N", help="operations that may wait")
    add("--max-body", type=_count, default=1 << 20, metavar="BYTES", help="(default 1 MiB)")
    add("--max-actions", type=_count, default=10_000, metavar="N", help="of one decision")
    add("--max-batch", type=_count, default=1_000, metavar="N", help="items of one batch")
    levels = ("debug", "info", "warning", "error")
    add("--log-level", choices=levels, default="warning", help="debug has every request")


def run(options: argparse.Namespace) -> int:
    """Serve until told to stop."""
    with _log_to_stderr(options.log_level):
        _serve(options)
    return 0


def _serve(options: argparse.Namespace) -> None:
    # First what can be missing, then what takes long.
    from mixts.service.decider import Decider
    from mixts.service.http import server
    from mixts.service.http.app import Service
    from mixts.service.http.limits import Limits
    from mixts.service.store import DecisionStore
    from mixts.service.versions import check_servable

    tokens = _tokens(options)
    limits = Limits(body=options.max_body, actions=options.max_actions, batch=options.max_batch)
    # Before a store is made for it.
    prior = None if options.prior is None else check_servable(MixturePrior.load(options.prior))
    with (
        server.told_to_stop() as stop,
        server.listen(options.host, options.port) as listener,
        DecisionStore(options.store) as store,
        Decider(
            prior, store, floor=options.floor, reward_window=options.reward_window,
            max_pending=options.max_pending,
        ) as decider,
    ):  # fmt: skip
        active = decider.active
        server.warm_up(active, options.floor)
        service = Service(
            decider, store, tokens=tokens, host=options.host, limits=limits,
            rate=options.rate_limit,
        )  # fmt: skip

        def ready() -> None:
            address = server.address_of(listener)
            what = f"prior version {active.version}, {store.name}"
            print(f"mixts: serving {address} ({what})", flush=True)

        server.run(
            service, listener, stop, ready, limits=limits, access_log=options.log_level == "debug"
        )


# -- options --------------------------------------------------------------------------------------


def _tokens(options: argparse.Namespace) -> Any:
    """The tokens of the file; without one, only this machine may reach the service."""
    from mixts.service.http.security import Tokens, is_loopback

    if options.token_file is None:
        if not is_loopback(options.host):
            raise ParameterError(
                f"--host {options.host} lets other machines in: say who may with --token-file"
            )
        return None
    tokens = Tokens.read(options.token_file)
    for warning in tokens.warnings:
        logging.getLogger("mixts.service").warning(warning)
    return tokens


@contextmanager
def _log_to_stderr(level: str) -> Iterator[None]:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("mixts: %(levelname)s: %(message)s"))
    chosen = getattr(logging, level.upper())
    # uvicorn warns of every request that is not HTTP.
    quiet = logging.ERROR if chosen == logging.WARNING else chosen
    loggers = {logging.getLogger("mixts"): chosen, logging.getLogger("uvicorn"): quiet}
    before = [(logger, logger.level, logger.propagate) for logger in loggers]
    for logger, least in loggers.items():
        logger.addHandler(handler)
        logger.setLevel(least)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, least, propagate in before:
            logger.removeHandler(handler)
            logger.setLevel(least)
            logger.propagate = propagate


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)", text)
    if found is None or float(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"expected seconds, or as in 90m, 12h, 30d: {text!r}")
    return float(found[1]) * _UNITS[found[2]]


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 65535, got {text!r}")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e12:
        raise argparse.ArgumentTypeError(f"expected a number, at least 0, got {text!r}")
    return number
