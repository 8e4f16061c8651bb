"""The parts of a regret bound, which both theorems have in common."""

from __future__ import annotations

from typing import Any, NamedTuple


class BoundTerms(NamedTuple):
    """Each a number, or an array where n is one."""

    c1: Any
    """The factor by which a tight prior helps: it is inside ``learning``, not added."""
    learning: Any
    """The regret of learning the parameters if the latent state were known (Term 1)."""
    identification: Any
    """The regret of identifying the latent state (Term 2)."""
    constant: Any
    """The rest, poly-logarithmic in n: 0 in the statements, whose c_2 is not specified and is left
    out."""

    @property
    def bound(self) -> Any:
        """The sum: learning + identification + constant."""
        return self.learning + self.identification + self.constant
