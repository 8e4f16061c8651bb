"""How much more do decisions earn than a baseline? An interval that may be watched all the time.

Tasks are drawn into groups, so a task is the unit: its rewards depend on each other. From sums over
the tasks of two sides follow the difference of their mean rewards, with a robust variance, and a
confidence sequence: with a probability of at least 95 %, it contains the truth at all times.
docs/numerics.md has the derivation.
"""

from __future__ import annotations

import math

from msgspec import Struct
from scipy.special import betaln

ALPHA = 0.05
"""Largest probability that an interval ever misses the truth."""

RHO = 200.0
"""Information at which Robbins' mixture begins, in units of 1 / (relative error)^2. The sequence is
narrowest at 8.2 times as much: an error of 2.5 % of the mean reward, which tells a lift of 7.5 %.
At errors of 0.5 % and of 10 % it is a tenth and two
fifths wider than if it were tuned for them."""

FEWEST_TASKS = 100
"""Tasks on each side before anything is said of a difference."""
FEWEST_EFFECTIVE = 10.0
"""Effective number of tasks on each side before anything is said: (sum e^2)^2 / sum e^4, in which
few tasks with rare or huge rewards count as few. Each side is expected to have its share of the
effective tasks of both: its own would miss the rare rewards that it happens to have none of, and
would never be enough where one side earns nothing."""

LIFTS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
"""Lifts for which the number of tasks that tell them from none is estimated."""

MISMATCH = math.log(100.0)
"""Logarithm of the evidence against the share of the groups at which they are called wrong."""
_MISMATCH_TASKS = 1000.0
"""Tasks by whose chance the mixture of ``mismatch`` varies the share: deviations of a seventh of a
share of 5 %, or of a twentieth of 30 %, are found first."""


class Sums(Struct, frozen=True):
    """Sums over the tasks of one side: n is a task's number of decisions, y its sum of rewards."""

    tasks: int = 0
    decisions: int = 0
    total: float = 0.0
    """Sum of y."""
    absolute: float = 0.0
    """Sum of the absolute values of all rewards."""
    decision_squares: float = 0.0
    """Sum of (y - R n)^2, where R is the side's mean reward of a decision."""
    decision_fourths: float = 0.0
    """Sum of (y - R n)^4."""
    task_squares: float = 0.0
    """Sum of (y - T)^2, where T is the side's mean reward of a task."""
    task_fourths: float = 0.0
    """Sum of (y - T)^4."""


class Mean(Struct, frozen=True):
    """Mean reward of one side, per decision or per task."""

    value: float
    variance: float
    """Robust variance of the mean: tasks are independent, the rewards of a task need not be."""
    effective: float
    """Effective number of tasks."""


class Difference(Struct, frozen=True):
    """Mean rewards of two sides, compared."""

    control: float
    treated: float
    interval: tuple[float, float] | None = None
    """Of treated - control; None while there are too few tasks with unlike rewards."""
    relative: tuple[float, float] | None = None
    """Of treated / control - 1; None also if the mean of control may be 0 or less."""
    next_lift: float | None = None
    """The next smaller lift that more tasks will tell from none."""
    tasks_needed: int | None = None
    """About how many more tasks, on both sides together, tell ``next_lift`` from none."""

    @property
    def difference(self) -> float:
        """Difference of the means."""
        return self.treated - self.control

    @property
    def lift(self) -> float | None:
        """Relative difference of the means; None unless control has a positive mean."""
        return self.treated / self.control - 1.0 if self.control > 0 else None

    @property
    def direction(self) -> int:
        """1 or -1 if the interval is above or below 0; 0 if the sign is not known."""
        if self.interval is None:
            return 0
        return int(self.interval[0] > 0) - int(self.interval[1] < 0)


class Lift(Struct, frozen=True):
    """Comparison of two sides, such as the tasks that the service decides with those held back."""

    control: Sums
    treated: Sums
    per_decision: Difference | None = None
    """None while a side has no task."""
    per_task: Difference | None = None


def compare(control: Sums, treated: Sums) -> Lift:
    """Return the lift of the treated tasks over those of control."""
    if not control.tasks or not treated.tasks:
        return Lift(control, treated)
    pairs = [
        (_mean(side.total, count, side.tasks, *sums), count)
        for side in (control, treated)
        for count, sums in (
            (side.decisions, (side.decision_squares, side.decision_fourths)),
            (side.tasks, (side.task_squares, side.task_fourths)),
        )
    ]
    (c_decision, n_c), (c_task, m_c), (t_decision, n_t), (t_task, m_t) = pairs
    absolute, tasks = control.absolute + treated.absolute, (control.tasks, treated.tasks)
    return Lift(
        control, treated,
        _difference(c_decision, t_decision, absolute / (n_c + n_t), tasks),
        _difference(c_task, t_task, absolute / (m_c + m_t), tasks),
    )  # fmt: skip


def _mean(total: float, count: int, tasks: int, squares: float, fourths: float) -> Mean:
    """Return a mean: sum y / count, whose variance is sum e^2 / count^2 * m / (m - 1)."""
    correction = tasks / (tasks - 1) if tasks > 1 else 1.0
    effective = squares**2 / fourths if fourths > 0 else 0.0
    return Mean(total / count, squares / count**2 * correction, effective)


def _difference(control: Mean, treated: Mean, scale: float, tasks: tuple[int, int]) -> Difference:
    """Compare means; ``scale`` is the mean absolute reward, the unit of relative errors."""
    variance = control.variance + treated.variance
    fewest = min(tasks)
    effective = (control.effective + treated.effective) * fewest / sum(tasks)
    if not (variance > 0 and scale > 0 and effective > 0):
        return Difference(control.value, treated.value)
    information = scale**2 / variance
    # Information and effective tasks grow in proportion to the number of tasks.
    missing = max(FEWEST_EFFECTIVE / effective, FEWEST_TASKS / fewest)
    target = next((lift for lift in LIFTS if information < needed_information(lift)), None)
    needed = None
    if target is not None:
        factor = max(missing, needed_information(target) / information)
        needed = math.ceil(sum(tasks) * (factor - 1.0))
    if missing > 1.0:
        return Difference(control.value, treated.value, next_lift=target, tasks_needed=needed)
    z = boundary(information)
    half, middle = z * math.sqrt(variance), treated.value - control.value
    return Difference(
        control.value, treated.value, (middle - half, middle + half),
        fieller(control, treated, z), target, needed,
    )  # fmt: skip


def boundary(information: float) -> float:
    """Return how many standard errors the sequence is wide to each side.

    Robbins' normal mixture: a Brownian motion W(I) ever leaves +- sqrt((I + rho) log((I + rho) /
    (rho alpha^2))) with probability alpha, and W(I) / sqrt(I) is the difference in its errors.
    """
    x = information / RHO
    return math.sqrt((1.0 + 1.0 / x) * math.log((1.0 + x) / ALPHA**2))


def needed_information(lift: float) -> float:
    """Return the information from which on the sequence is narrower than a lift."""
    low, high = 1.0, 1.0
    while boundary(high) > lift * math.sqrt(high):
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = math.sqrt(low * high)
        if boundary(middle) > lift * math.sqrt(middle):
            low = middle
        else:
            high = middle
    return high


def fieller(control: Mean, treated: Mean, z: float) -> tuple[float, float] | None:
    """Return the interval of treated / control - 1: ratios q whose treated - q control may be 0.

    (t - q c)^2 <= z^2 (v_t + q^2 v_c) is a quadratic inequality in q. It is an interval if c is
    more than z errors above 0, and then q = 1 is in it just if the difference may be 0.
    """
    c, t, spread = control.value, treated.value, z**2 * control.variance
    if c <= 0 or c**2 <= spread:
        return None
    scale = c**2 - spread
    root = math.sqrt(max((c * t) ** 2 - scale * (t**2 - z**2 * treated.variance), 0.0))
    return (c * t - root) / scale - 1.0, (c * t + root) / scale - 1.0


def mismatch(control: int, treated: int, share: float) -> float:
    """Return the logarithm of the evidence that control's share of the tasks is another one.

    A mixture of binomial likelihoods over shares near ``share``, divided by that of ``share``:
    a nonnegative martingale that begins at 1, so that it may be watched all the time.
    """
    a, b = share * _MISMATCH_TASKS, (1.0 - share) * _MISMATCH_TASKS
    mixed = float(betaln(a + control, b + treated) - betaln(a, b))
    return mixed - control * math.log(share) - treated * math.log1p(-share)
