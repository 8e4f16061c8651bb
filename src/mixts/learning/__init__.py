"""Learn a prior from past tasks, by the evidence or in the paper's two stages, and check it."""

from mixts.learning.check import PriorCheck, check_prior
from mixts.learning.climbing import History
from mixts.learning.folder import TaskFolder
from mixts.learning.histories import statistics_of
from mixts.learning.identity import Matched, match_components
from mixts.learning.learn import Learned, flat_family, learn, learn_prior, robust_prior
from mixts.learning.measures import Evidence
from mixts.learning.models.predictive import mixture_evidence
from mixts.learning.options import LearningOptions, Method, Rule
from mixts.learning.pooled import LearnedPooled, learn_pooled, with_offsets
from mixts.learning.refit import refit, refit_prior
from mixts.learning.select import Selection
from mixts.learning.two_stage import (
    gaussian_of_estimates,
    mixture_of_estimates,
    one_blas_thread,
    ridge_coefficients,
    ridge_estimates,
)

__all__ = [
    "Evidence",
    "History",
    "Learned",
    "LearnedPooled",
    "LearningOptions",
    "Matched",
    "Method",
    "PriorCheck",
    "Rule",
    "Selection",
    "TaskFolder",
    "check_prior",
    "flat_family",
    "gaussian_of_estimates",
    "learn",
    "learn_pooled",
    "learn_prior",
    "match_components",
    "mixture_evidence",
    "mixture_of_estimates",
    "one_blas_thread",
    "refit",
    "refit_prior",
    "ridge_coefficients",
    "ridge_estimates",
    "robust_prior",
    "statistics_of",
    "with_offsets",
]
