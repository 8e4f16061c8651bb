"""Regret bounds: those of the paper, the steps of its proofs, and bounds that know P_0."""

from mixts_paper.bounds.comparison import (
    RULE,
    ShapeComparison,
    compare_shapes,
    crossing,
    linear_bound,
    lints_order,
)
from mixts_paper.bounds.entropies import (
    EntropyTerms,
    best_action_entropy,
    bounded_entropy_bound,
    count_bound,
    effective_states,
    entropy,
    entropy_terms,
)
from mixts_paper.bounds.models import (
    NarrowTerms,
    bernoulli_affinity,
    gaussian_affinity,
    known_mdps,
    known_models,
    narrow_terms,
    one_sided_bound,
)
from mixts_paper.bounds.priors import PriorBound, PriorBounds, of
from mixts_paper.bounds.theorems import (
    BoundTerms,
    Form,
    feature_width,
    reward_width,
    theorem1,
    theorem1_terms,
    theorem2,
    theorem2_terms,
    transition_width,
)

__all__ = [
    "RULE", "BoundTerms", "EntropyTerms", "Form", "NarrowTerms", "PriorBound", "PriorBounds",
    "ShapeComparison", "bernoulli_affinity", "best_action_entropy", "bounded_entropy_bound",
    "compare_shapes", "count_bound", "crossing", "effective_states", "entropy", "entropy_terms",
    "feature_width", "gaussian_affinity", "known_mdps", "known_models", "linear_bound",
    "lints_order", "narrow_terms", "of", "one_sided_bound", "reward_width", "theorem1",
    "theorem1_terms", "theorem2", "theorem2_terms", "transition_width",
]  # fmt: skip
