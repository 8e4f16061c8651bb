"""The decision service: decide for live tasks, learn from rewards that come late, twice or never.

``Decider`` on a ``DecisionStore`` is the whole service in process; ``http`` is its face on the web,
``client`` speaks to that, and ``dashboard`` draws its pages.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mixts_serve._version import __version__ as __version__

if TYPE_CHECKING:
    from mixts_serve.client import AsyncClient, Client
    from mixts_serve.decider import Decider
    from mixts_serve.records import Decide, Decision, Erased, Receipt, Reward, TaskState
    from mixts_serve.refits import Refit, refit
    from mixts_serve.sharded import AsyncShardedClient, ShardedClient
    from mixts_serve.store import DecisionStore

__all__ = [
    "AsyncClient",
    "AsyncShardedClient",
    "Client",
    "Decide",
    "Decider",
    "Decision",
    "DecisionStore",
    "Erased",
    "Receipt",
    "Refit",
    "Reward",
    "ShardedClient",
    "TaskState",
    "refit",
]

_HOMES = {
    "AsyncClient": "client",
    "AsyncShardedClient": "sharded",
    "Client": "client",
    "Decider": "decider",
    "DecisionStore": "store",
    "Refit": "refits",
    "ShardedClient": "sharded",
    "refit": "refits",
}
"""Modules of names that are not in ``records``: a service needs no client, a client no store."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'mixts_serve' has no attribute {name!r}")
    module = import_module(f"mixts_serve.{_HOMES.get(name, 'records')}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
