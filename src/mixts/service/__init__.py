"""The decision service: decide for live tasks, learn from rewards that come late, twice or never.

``Decider`` on a ``DecisionStore`` is the whole service in process; ``http`` is its face on the web,
``client`` speaks to that, and ``dashboard`` draws its pages.
"""

from mixts.errors import MissingExtraError

# Before all modules of the service, which use it.
try:
    import msgspec  # noqa: F401 - only whether it is there
except ImportError as error:
    raise MissingExtraError(
        "the decision service needs msgspec: pip install 'mixts[serve]', or 'mixts[client]' for "
        "a client alone"
    ) from error

from mixts.service.decider import Decider
from mixts.service.records import Decide, Decision, Receipt, Reward, TaskState
from mixts.service.store import DecisionStore

__all__ = ["Decide", "Decider", "Decision", "DecisionStore", "Receipt", "Reward", "TaskState"]
