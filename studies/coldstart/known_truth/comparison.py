"""What was measured of a truth, by point and agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mixts.experiments.base import Measured
from studies._shared import Array
from studies.coldstart.known_truth.parts import (
    EVIDENCE,
    FLAT,
    ONE,
    SURER,
    TRUE,
    TWO_STAGE,
    UNITS,
    Point,
)
from studies.coldstart.known_truth.truths import Truth

LEARNED = (EVIDENCE, TWO_STAGE, ONE, UNITS)
"""At every point."""


@dataclass(frozen=True)
class Compared:
    """What was measured of one truth; every array has a number for each repetition."""

    truth: Truth
    measured: Measured
    points: tuple[Point, ...]

    def _of(self, point: Point, quantity: str, agent: str) -> Array:
        where = "known" if agent in (TRUE, SURER, FLAT) else point.name
        return self.measured.parts[f"{self.truth.name}, {where}"][f"{quantity}/{agent}"]

    def lost(self, point: Point, agent: str) -> Array:
        """Log evidence of a held-out task, the true prior's less the agent's."""
        return self._of(point, "lost", agent)

    def extra(self, point: Point, agent: str) -> Array:
        """Regret on a new task, less that of MixTS with the true prior."""
        return self._of(point, "regret", agent) - self._of(point, "regret", TRUE)

    @property
    def regret(self) -> Array:
        """With the true prior."""
        return self._of(self.points[0], "regret", TRUE)

    @property
    def surer(self) -> Array:
        """Extra regret of the true prior made too sure: regret is not all about being right."""
        return self.extra(self.points[0], SURER)

    @property
    def numbers(self) -> list[Point]:
        """Points over the number of tasks, as many as share the length of the first."""
        return [p for p in self.points if p.length == self.points[0].length]

    @property
    def lengths(self) -> list[Point]:
        """Points over the length of tasks."""
        n = self.mixed.n_tasks
        fixed = [p for p in self.points if p.n_tasks == n and p.length is not None]
        return sorted(fixed, key=lambda p: p.length or 0)

    @property
    def mixed(self) -> Point:
        return self.points[-1]

    @property
    def auto(self) -> list[Point]:
        return [p for p in self.points if p.auto]

    def fixed(self, over: str) -> str:
        """What the sweep over "tasks" or "length" leaves as it is."""
        if over == "tasks":
            return f"{self.truth.title}, {self.numbers[0].length} observations a task"
        return f"{self.truth.title}, {self.mixed.n_tasks} tasks"

    def found(self, point: Point) -> Array:
        """Numbers of components that were found."""
        return self.measured.parts[f"{self.truth.name}, {point.name}"]["found"]


Quantity = Callable[[Compared, Point, str], Array]
