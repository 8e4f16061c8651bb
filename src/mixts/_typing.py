"""Array annotations with shapes.

Tests import jaxtyping first, and then the annotations are checked at run time; else they are plain
documentation, and neither needed nor waited for.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Int
elif sys.modules.get("jaxtyping"):
    from jaxtyping import Bool, Float, Int
else:

    class _Unchecked:
        """Stands in for jaxtyping: ``Float[Array, "L K"]`` is just ``Array``."""

        def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
            return item[0]

    Bool = Float = Int = _Unchecked

Array = np.ndarray[Any, np.dtype[Any]]
"""Any numpy array; the annotation around it says shape and kind."""

ArrayLike = npt.ArrayLike
"""What a public function accepts where it makes an array itself."""

Seed = int | np.random.SeedSequence | np.random.Generator | None
"""What a constructor accepts as its source of randomness."""

__all__ = ["Array", "ArrayLike", "Bool", "Float", "Int", "Seed"]
