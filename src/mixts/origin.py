"""How a prior was learned: from how many tasks, what is known from them, and whether it passed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mixts import _checks
from mixts._typing import Array, Bool, Float, Int
from mixts.errors import ParameterError


@dataclass(frozen=True, eq=False)
class Origin:
    """Number of tasks that a prior was learned from, and the verdict of its check.

    :func:`mixts.learning.refit_prior` goes on from it, and a service does not activate a prior that
    failed its check.

    Attributes
    ----------
    n_tasks : float
        Number of tasks; need not be whole.
    known : (L, K) or (L,) array
        Number of tasks from which each arm of each component is known; without arms, from which
        each component is known. A task that tried an arm a few times counts as a part of a task.
    passed : bool or None
        Whether the prior passed its check on held-out tasks; None if it was not checked.
    verdict : str
        The result of the check, in a sentence; "" if there was none.

    Examples
    --------
    >>> import mixts
    >>> from mixts.families import BernoulliStatistics
    >>> tasks = BernoulliStatistics(successes=[[9, 0], [8, 0]], failures=[[1, 0], [2, 0]])
    >>> origin = mixts.learn_prior(tasks, 1, seed=1).origin
    >>> origin.n_tasks, origin.known.round(1)
    (2.0, array([[1.8, 0. ]]))
    """

    n_tasks: float
    known: Float[Array, "L *K"]
    passed: bool | None = None
    verdict: str = ""

    def __post_init__(self) -> None:
        n_tasks = float(_checks.numbers(self.n_tasks, "n_tasks must be a number", ParameterError))
        known = np.array(_checks.numbers(self.known, "known must be numbers", ParameterError))
        if not (0 <= n_tasks < np.inf and np.isfinite(known).all() and (known >= 0).all()):
            raise ParameterError(
                "numbers of tasks must be finite and not negative, got n_tasks "
                f"{n_tasks:g} and known from {known.min():g} to {known.max():g}"
            )
        if self.passed not in (None, True, False) or not isinstance(self.verdict, str):
            raise ParameterError(
                f"passed must be true, false or None and verdict a text, got {self.passed!r} and "
                f"{self.verdict!r}"
            )
        known.flags.writeable = False
        object.__setattr__(self, "n_tasks", n_tasks)
        object.__setattr__(self, "known", known)

    def check(self, n_components: int, n_arms: int | None) -> None:
        """Raise ``ParameterError`` unless this is the origin of a prior with these components."""
        shape = (n_components,) if n_arms is None else (n_components, n_arms)
        if self.known.shape != shape:
            raise ParameterError(
                f"the origin's known must have the shape {shape}, got {self.known.shape}"
            )

    @property
    def learned(self) -> Bool[Array, " L"]:
        """True for each component that was learned; a broad one that was added was not."""
        return np.asarray(self.known.reshape(len(self.known), -1).any(axis=1))

    def judged(self, passed: bool, verdict: str) -> Origin:
        """Return the same origin with the result of a check."""
        return replace(self, passed=passed, verdict=verdict)

    # -- origins of priors that are made from this one ------------------------------------------

    def select(self, components: Int[Array, " l"]) -> Origin:
        """Return the origin of some components."""
        return replace(self, known=self.known[components])

    def append(self) -> Origin:
        """Return the origin with one more component, which was not learned."""
        return replace(self, known=np.concatenate([self.known, 0 * self.known[:1]]))

    def collapse(self) -> Origin:
        """Return the origin of one component that describes all tasks."""
        return replace(self, known=self.known.sum(axis=0, keepdims=True))

    def with_arms(self, n_more: int) -> Origin:
        """Return the origin with more arms, which were not learned."""
        return replace(self, known=np.pad(self.known, ((0, 0), (0, n_more))))

    # -- files --------------------------------------------------------------------------------

    def header(self) -> dict[str, Any]:
        """Return the plain values that a file stores beside ``known``."""
        return {"n_tasks": self.n_tasks, "passed": self.passed, "verdict": self.verdict}
