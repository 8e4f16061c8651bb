"""``mixts serve``: serve decisions for live tasks over HTTP."""

from __future__ import annotations

import argparse
import logging
import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mixts import MixturePrior
from mixts.agents import NewShare
from mixts.cli import share
from mixts.errors import ParameterError
from mixts_serve import logs

_DESCRIPTION = """\
Serve decisions over HTTP. POST /v1/decide chooses an action for a task, POST /v1/reward reports its
reward, and / is a dashboard for the browser. Everything is kept in the store: a response is sent
only after its decision or reward is safely on disk. When the service is ready it prints one line
with its address. Ctrl-C or SIGTERM stops it after it has answered the requests it had accepted.
SIGHUP makes it read the token file again."""

log = logging.getLogger("mixts_serve")

FAILED = 1
"""Exit status: the store did not answer when the service stopped."""

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def register(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = _DESCRIPTION
    parser.set_defaults(run=run)
    deciding = parser.add_argument_group("decisions")
    add = deciding.add_argument
    store = "where decisions and rewards are kept: a SQLite file, or postgresql://..."
    add("--store", required=True, metavar="PATH|URL", help=store)
    prior = "prior to use, as saved by `mixts fit` (default: the active prior of the store)"
    add("--prior", type=Path, metavar="FILE", help=prior)
    add("--force", action="store_true", help="use the prior even if it failed its check")
    policy = (
        "how to choose actions: ids (information-directed sampling), ts (Thompson sampling), "
        "greedy (highest mean reward) or ucb (highest upper quantile); default ids"
    )
    add("--policy", metavar="NAME", help=policy)
    horizon = "expected number of decisions of a task: exploration fades towards its end"
    add("--horizon", type=_count, metavar="N", help=horizon)
    explore = (
        "share of the decisions that is drawn evenly among the available actions (default 1%%); "
        "off-policy evaluation of other policies, and the policies greedy and ucb, need one above 0"
    )
    add("--explore", type=share, metavar="SHARE", help=explore)
    new_items = (
        "largest share of decisions that new arms may take together, such as 5%%, or the smallest "
        "and the largest, such as 1%%-5%% (default: no limit); an arm is new until a prior is "
        "learned from its data"
    )
    add("--new-item-share", type=_new_share, metavar="SHARE", help=new_items)
    late = (
        "learn only from rewards that arrive within this time after their decision: seconds, or "
        "90m, 12h, 30d (default: no limit)"
    )
    add("--reward-window", type=seconds, metavar="TIME", help=late)
    default = (
        "reward of a decision if no other arrives within the reward window: 0 if clients report "
        "clicks only (default: silence says nothing)"
    )
    add("--default-reward", type=_reward, metavar="NUMBER", help=default)
    held = (
        "share of the tasks that the baseline decides, such as 5%%, to measure the lift (default 0)"
    )
    add("--holdback", type=share, default=0.0, metavar="SHARE", help=held)
    baseline = (
        "how held back tasks are decided: bestseller (default), the action that is best for a new "
        "task; uniform; or arm:NAME"
    )
    add("--baseline", metavar="NAME", help=baseline)
    shard = (
        "the part of all tasks that this store has, such as 2/16, where tasks are divided over "
        "several stores (default: what the store remembers, or all tasks)"
    )
    add("--shard", metavar="I/N", help=shard)
    promote = (
        "when a refit that passed its checks is deployed: refit (at once, the default), ask (a "
        "person activates it), or a number such as 100: when the evidence for it reaches that"
    )
    add("--promote", default="refit", metavar="WHEN", help=promote)
    canary = (
        "share of the new tasks that try a refit before it is activated, such as 10%%; it is "
        "withdrawn by itself if it earns less (default 0: none do)"
    )
    add("--canary", type=share, default=0.0, metavar="SHARE", help=canary)
    refits = (
        "learn the prior again so often, such as 1d, by `mixts refit` in a process of its own "
        "(default: never)"
    )
    add("--refit", type=seconds, metavar="TIME", help=refits)
    listening = parser.add_argument_group("network")
    add = listening.add_argument
    add("--host", default="127.0.0.1", help="address (default 127.0.0.1: this machine only)")
    add("--port", type=_port, default=8321, help="port (default 8321; 0: any free port)")
    prefix = "beginning of all paths, such as /bandit, for a proxy that passes them on whole"
    add("--path-prefix", default="", metavar="PATH", help=prefix)
    tokens = (
        "file of tokens that clients must send: one a line, alone or followed by a space and its "
        "scopes, such as read,write,admin (required unless --host is this machine)"
    )
    add("--token-file", type=Path, metavar="FILE", help=tokens)
    limits = parser.add_argument_group("limits")
    add = limits.add_argument
    pending = "operations that may wait for the store (default 10,000)"
    add("--max-pending", type=_count, default=10_000, metavar="N", help=pending)
    body = "size of a request's body (default 1 MiB)"
    add("--max-body", type=_count, default=1 << 20, metavar="BYTES", help=body)
    actions = "actions offered for one decision (default 10,000)"
    add("--max-actions", type=_count, default=10_000, metavar="N", help=actions)
    batch = "items of one batch (default 1,000)"
    add("--max-batch", type=_count, default=1_000, metavar="N", help=batch)
    work = (
        "work of one request, and of large ones that wait (default 20,000): an operation is "
        "1 unit, and more for every 16 offered actions or 64 arms times components"
    )
    add("--max-work", type=_count, default=20_000, metavar="N", help=work)
    numbers = (
        "arms times components of an uploaded prior or, of a linear one, features squared times "
        "components (default 1,000,000)"
    )
    add("--max-numbers", type=_count, default=1_000_000, metavar="N", help=numbers)
    logging_options = parser.add_argument_group("logging")
    levels = ("debug", "info", "warning", "error")
    level = "messages on standard error (default warning; debug: also every request)"
    logging_options.add_argument("--log-level", choices=levels, default="warning", help=level)
    form = "lines of text (the default), or of JSON: time, level, logger, message and traceback"
    logging_options.add_argument("--log-format", choices=logs.FORMATS, default="text", help=form)


def run(options: argparse.Namespace) -> int:
    """Serve until a signal arrives."""
    with logs.to_stderr(options.log_level, options.log_format):
        _serve(options)
    return 0


def _serve(options: argparse.Namespace) -> None:
    # Import here: a missing package is reported before anything slow happens.
    from mixts_serve.decider import Decider
    from mixts_serve.http import server
    from mixts_serve.http.app import Service, checked_prefix
    from mixts_serve.http.protocol import Limits
    from mixts_serve.promotion import Promotion
    from mixts_serve.refitter import Refitter
    from mixts_serve.rules import DEFAULT_EXPLORE, DEFAULT_POLICY, Policy, Rules
    from mixts_serve.store import DecisionStore
    from mixts_serve.versions import check_servable

    tokens = _tokens(options)
    if options.default_reward is not None and options.reward_window is None:
        raise ParameterError(
            "--default-reward needs --reward-window, after which silence counts, such as 30m"
        )
    limits = Limits(body=options.max_body, actions=options.max_actions, batch=options.max_batch)
    prefix = checked_prefix(options.path_prefix)
    # Check the settings and the prior before a store is created for them.
    explore = DEFAULT_EXPLORE if options.explore is None else options.explore
    policy = Policy.checked(
        options.policy or DEFAULT_POLICY, options.horizon, explore, options.new_item_share
    )
    rules = Rules.checked(
        policy, options.reward_window, options.default_reward, options.holdback, options.baseline,
        options.shard,
    )  # fmt: skip
    promotion = Promotion.checked(options.promote, options.canary)
    prior = None if options.prior is None else check_servable(MixturePrior.load(options.prior))
    if prior is not None:
        rules.check(prior)
    elif "://" not in options.store and not Path(options.store).exists():
        raise ParameterError(
            f"there is no store {options.store} yet, and a new one needs a prior: add --prior "
            "prior.json (mixts fit learns one)"
        )
    with (
        _exit_if_closing_hangs() as serving_ends,
        server.bind(options.host, options.port) as listener,
        DecisionStore(options.store) as store,
        Decider(
            prior, store, policy=policy.name, explore=policy.explore, horizon=policy.horizon,
            new_item_share=policy.new_item_share, reward_window=options.reward_window,
            default_reward=options.default_reward, holdback=options.holdback,
            baseline=options.baseline, shard=options.shard, promote=promotion.rule,
            canary=promotion.canary, max_pending=options.max_pending,
            max_work=options.max_work, max_numbers=options.max_numbers, force=options.force,
        ) as decider,
    ):  # fmt: skip
        service = Service(
            decider, store, tokens=tokens, host=options.host, limits=limits, prefix=prefix
        )
        read_again = None if tokens is None else partial(_read_again, service, options)

        def print_address() -> None:
            version = store.active_version()
            details = f"prior version {version}, policy {policy.name}, {store.name}"
            print(f"mixts: serving {server.url_of(listener)}{prefix} ({details})", flush=True)

        refitter = None
        if options.refit is not None:
            refitter = Refitter(store, options.store, options.refit)
            refitter.start()
        try:
            server.run(service, listener, print_address, read_again)
        finally:
            serving_ends()
            if refitter is not None:
                refitter.close()


CLOSE_SECONDS = 10.0
"""Time to write the last operations and to close the store."""


@contextmanager
def _exit_if_closing_hangs() -> Iterator[Callable[[], None]]:
    """Yield a function that starts the clock; the process ends if the ``with`` block does not."""

    def leave() -> None:
        log.error(
            "the store has not answered for %g s, so the service ends without it: operations "
            "without a response may or may not have been written; clients may repeat them, "
            "decisions with the same key",
            CLOSE_SECONDS,
        )
        os._exit(FAILED)

    timer = threading.Timer(CLOSE_SECONDS, leave)
    timer.daemon = True
    try:
        yield timer.start
    finally:
        timer.cancel()


# -- options --------------------------------------------------------------------------------------


def _tokens(options: argparse.Namespace) -> Any:
    """Return the tokens of the file; without a file, only this machine may reach the service."""
    from mixts_serve.http.security import Tokens, is_loopback

    if options.token_file is None:
        if not is_loopback(options.host):
            raise ParameterError(
                f"--host {options.host} lets other machines in: give their tokens with --token-file"
            )
        return None
    tokens = Tokens.read(options.token_file)
    for warning in tokens.warnings:
        log.warning(warning)
    return tokens


def _read_again(service: Any, options: argparse.Namespace) -> None:
    """Use the tokens that the file has now; keep the old ones if it cannot be read."""
    try:
        service.use_tokens(_tokens(options))
        log.info("read the tokens of %s again", options.token_file)
    except ParameterError as error:
        log.error("the tokens stay as they were: %s", error)


def seconds(text: str) -> float:
    """Return the seconds of a time such as 90m, 12h or 30d."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)", text)
    if found is None or float(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"expected seconds, or 90m, 12h, 30d, got {text!r}")
    return float(found[1]) * _UNITS[found[2]]


def _new_share(text: str) -> NewShare:
    *least, most = text.split("-", 1)
    try:
        return NewShare.checked((share(least[0]) if least else 0.0, share(most)))
    except (ParameterError, argparse.ArgumentTypeError):
        expected = "expected a share such as 5% or 0.05, or the smallest and the largest, 1%-5%"
        raise argparse.ArgumentTypeError(f"{expected}, got {text!r}") from None


def _parser(
    convert: Callable[[str], Any], is_right: Callable[[Any], bool], expected: str
) -> Callable[[str], Any]:
    """Return a function that converts the text of an option, or says what was expected."""

    def parse(text: str) -> Any:
        try:
            number = convert(text)
        except ValueError:
            number = math.nan
        if not is_right(number):
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
        return number

    return parse


_reward = _parser(float, math.isfinite, "a finite number")
_port = _parser(int, lambda n: 0 <= n <= 65535, "a number from 0 to 65535")
_count = _parser(int, lambda n: n >= 1, "a whole number above 0")
