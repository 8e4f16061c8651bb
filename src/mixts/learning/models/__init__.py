"""Models of past tasks: how the prior of each family is learned from them and checked on them.

A family has one file here, with its :class:`Model` and its :class:`Predictive`. Both register
themselves when the file is imported, and all files of this folder are imported.
"""

from __future__ import annotations

import importlib
import pkgutil

from mixts.learning.models.base import Model, check_options, has_noise, model_of
from mixts.learning.models.predictive import Prediction, Predictive, predictive_of

__all__ = [
    "Model",
    "Prediction",
    "Predictive",
    "check_options",
    "has_noise",
    "model_of",
    "predictive_of",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
