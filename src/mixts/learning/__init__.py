"""From past tasks to a prior: by the evidence, or in the paper's two stages."""

from mixts.learning.learn import flat_family, learn, learn_prior
from mixts.learning.learned import History, Learned, Selection
from mixts.learning.robust import robust_prior

__all__ = [
    "History",
    "Learned",
    "Selection",
    "flat_family",
    "learn",
    "learn_prior",
    "robust_prior",
]
