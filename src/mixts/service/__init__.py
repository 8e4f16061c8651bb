"""The decision service: decide for live tasks, learn from rewards that come late, twice or never.

``Decider`` on a ``DecisionStore`` is the whole service in process; ``http`` is its face on the web,
``client`` speaks to that, and ``dashboard`` draws its pages.
"""

from mixts.service.decider import Decider
from mixts.service.records import Decide, Decision, Receipt, Reward, TaskState
from mixts.service.store import DecisionStore

__all__ = ["Decide", "Decider", "Decision", "DecisionStore", "Receipt", "Reward", "TaskState"]
