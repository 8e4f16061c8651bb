"""Learn a prior from past tasks, by the evidence or in the paper's two stages, and check it."""

from mixts.learning.check import PriorCheck, check_prior
from mixts.learning.em import History
from mixts.learning.evidence import mixture_evidence
from mixts.learning.fit import Fit, FitSettings, fit_logs
from mixts.learning.histories import statistics_of
from mixts.learning.learn import Learned, Method, flat_family, learn, learn_prior, robust_prior
from mixts.learning.refit import refit, refit_prior
from mixts.learning.select import Rule, Selection

__all__ = [
    "Fit",
    "FitSettings",
    "History",
    "Learned",
    "Method",
    "PriorCheck",
    "Rule",
    "Selection",
    "check_prior",
    "fit_logs",
    "flat_family",
    "learn",
    "learn_prior",
    "mixture_evidence",
    "refit",
    "refit_prior",
    "robust_prior",
    "statistics_of",
]
