"""What the paper proves: regret bounds, a file for each theorem, and the steps of its proofs.

Beside them: what earlier work has, and whether a bound has the shape of a measured regret.
"""

from mixts.bounds.arguments import Form
from mixts.bounds.comparison import RULE, ShapeComparison, Verdict, compare_shapes
from mixts.bounds.earlier import crossing, linear_bound, lints_order
from mixts.bounds.lemmas import (
    first_part_bound,
    gaussian_tail_bound,
    log_determinant_bound,
    norm_series_bound,
    norm_sum_bound,
    prior_width,
    round_bound,
    second_part_bound,
    trace_bound,
    width_sum_bound,
)
from mixts.bounds.mdp_lemmas import (
    episode_width_sum_bound,
    pseudo_count_variance,
    value_difference_bound,
)
from mixts.bounds.terms import BoundTerms
from mixts.bounds.theorem1 import theorem1_bound, theorem1_terms
from mixts.bounds.theorem2 import theorem2_bound, theorem2_terms
from mixts.bounds.widths import feature_width, reward_width, transition_width

__all__ = [
    "RULE",
    "BoundTerms",
    "Form",
    "ShapeComparison",
    "Verdict",
    "compare_shapes",
    "crossing",
    "episode_width_sum_bound",
    "feature_width",
    "first_part_bound",
    "gaussian_tail_bound",
    "linear_bound",
    "lints_order",
    "log_determinant_bound",
    "norm_series_bound",
    "norm_sum_bound",
    "prior_width",
    "pseudo_count_variance",
    "reward_width",
    "round_bound",
    "second_part_bound",
    "theorem1_bound",
    "theorem1_terms",
    "theorem2_bound",
    "theorem2_terms",
    "trace_bound",
    "transition_width",
    "value_difference_bound",
    "width_sum_bound",
]
