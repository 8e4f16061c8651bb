"""Features with names: descriptions of actions become the rows of numbers of a linear prior.

A linear prior has a coefficient for each number of a row. :class:`Features` keeps what each number
means, in order: an intercept, numbers that may be scaled, and levels of text. It turns descriptions
such as ``{"price": 3.2, "brand": "acme"}`` into rows, and rows back into descriptions. Effects that
are the same for everybody, such as those of a person's age, are one more number (:class:`Pooled`).
"""

from mixts.features._columns import (
    BEYOND,
    UNKNOWN,
    Feature,
    LevelFeature,
    NumberFeature,
    name_of,
)
from mixts.features._features import Features
from mixts.features._pooled import PERSON, Pooled

__all__ = [
    "BEYOND",
    "PERSON",
    "UNKNOWN",
    "Feature",
    "Features",
    "LevelFeature",
    "NumberFeature",
    "Pooled",
    "name_of",
]
