"""What the paper proves: regret bounds, a file for each theorem, and the widths of its proofs."""

from mixts.bounds.arguments import Form
from mixts.bounds.theorem2 import Theorem2Terms, theorem2_bound, theorem2_terms
from mixts.bounds.widths import feature_width, reward_width, transition_width

__all__ = [
    "Form",
    "Theorem2Terms",
    "feature_width",
    "reward_width",
    "theorem2_bound",
    "theorem2_terms",
    "transition_width",
]
