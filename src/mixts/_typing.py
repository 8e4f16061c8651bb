"""Array annotations with shapes.

Tests import jaxtyping first: then the annotations are checked at run time. Otherwise they are
documentation only, and jaxtyping is not imported.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:  # type checkers ignore the shape: Float[Array, "L K"] is Array
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Int
elif sys.modules.get("jaxtyping"):
    from jaxtyping import Bool, Float, Int
else:

    class _Unchecked:
        """Replacement for jaxtyping: ``Float[Array, "L K"]`` is ``Array``."""

        def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
            return item[0]

    Bool = Float = Int = _Unchecked

Array = np.ndarray[Any, np.dtype[Any]]
"""Any numpy array; the annotation around it states shape and kind."""

ArrayLike = npt.ArrayLike
"""Arguments that a public function converts to an array."""

ActionsLike = ArrayLike | Mapping[str, Any] | Sequence[Any]
"""Arms, rows of features, or descriptions by the names of features: mappings, or lists of them."""

Seed = int | np.random.SeedSequence | np.random.Generator | None
"""Seeds that constructors accept."""

__all__ = ["ActionsLike", "Array", "ArrayLike", "Bool", "Float", "Int", "Seed"]
