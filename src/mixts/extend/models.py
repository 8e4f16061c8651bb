"""What a model of learning derives from: with one, priors of a family of your own are learned.

A :class:`MomentModel` of the family's statistics is what ``learn_prior`` needs, an
:class:`ArmPredictive` of the family is what ``check_prior`` needs. Their subclasses register
themselves when they are defined.
"""

from mixts.learning.models.base import MomentModel, positive
from mixts.learning.models.predictive import ArmPredictive

__all__ = ["ArmPredictive", "MomentModel", "positive"]
