"""The contracts of families and agents, as checks that an author runs on a class of their own.

:func:`check_family` and :func:`check_agent` raise ``AssertionError`` if a rule is broken. Each rule
is a function of ``FAMILY_RULES`` or ``AGENT_RULES``; mixts's own tests run the same functions over
every family and every agent of the library.
"""

from mixts.extend._agents import AGENT_RULES, AgentProblem, check_agent
from mixts.extend._families import FAMILY_RULES, FamilyProblem, check_family

__all__ = [
    "AGENT_RULES",
    "FAMILY_RULES",
    "AgentProblem",
    "FamilyProblem",
    "check_agent",
    "check_family",
]
