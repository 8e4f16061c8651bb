"""The decision service: decide for live tasks, learn from rewards that come late, twice or never.

``Decider`` on a ``DecisionStore`` is the whole service in process; ``http`` is its face on the web,
``client`` speaks to that, and ``dashboard`` draws its pages.
"""

from mixts_serve._version import __version__ as __version__
from mixts_serve.client import AsyncClient, Client
from mixts_serve.decider import Decider
from mixts_serve.records import Decide, Decision, Receipt, Reward, TaskState
from mixts_serve.store import DecisionStore

__all__ = [
    "AsyncClient",
    "Client",
    "Decide",
    "Decider",
    "Decision",
    "DecisionStore",
    "Receipt",
    "Reward",
    "TaskState",
]
