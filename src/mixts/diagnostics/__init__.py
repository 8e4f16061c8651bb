"""What policies would have earned on past tasks, and which one to use."""

from mixts.diagnostics.advice import Advice, advise
from mixts.diagnostics.policies import Earnings, PolicyComparison, compare_policies

__all__ = [
    "Advice",
    "Earnings",
    "PolicyComparison",
    "advise",
    "compare_policies",
]
