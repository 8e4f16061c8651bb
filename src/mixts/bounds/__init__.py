"""What the paper proves: regret bounds, a file for each theorem, and the widths of its proofs."""

from mixts.bounds.arguments import Form
from mixts.bounds.terms import BoundTerms
from mixts.bounds.theorem1 import theorem1_bound, theorem1_terms
from mixts.bounds.theorem2 import theorem2_bound, theorem2_terms
from mixts.bounds.widths import feature_width, reward_width, transition_width

__all__ = [
    "BoundTerms",
    "Form",
    "feature_width",
    "reward_width",
    "theorem1_bound",
    "theorem1_terms",
    "theorem2_bound",
    "theorem2_terms",
    "transition_width",
]
