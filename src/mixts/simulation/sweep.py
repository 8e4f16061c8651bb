"""Regret over the values of a parameter, from one simulation for each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixts import _checks
from mixts._html import MOST_ROWS, card, label, more, table
from mixts._numbers import Estimate, estimate
from mixts._tables import HasTable
from mixts._typing import Array, ArrayLike, Float
from mixts.errors import ParameterError
from mixts.simulation.results import Results


@dataclass(frozen=True, repr=False)
class Sweep(HasTable):
    """Cumulative regret at the end of every run, by agent, at each value of a parameter.

    Its average over runs whose problems were drawn from the prior estimates the Bayes regret as a
    function of the parameter.

    Attributes
    ----------
    parameter : str
        Name of the parameter, for the axis of a figure.
    values : (p,) array
        Values of the parameter, increasing.
    totals : mapping of str to (p, n_runs) array
        By agent: regret of each run, summed over its rounds.

    Examples
    --------
    Regret of three runs at each of two numbers of arms.

    >>> import numpy as np
    >>> import mixts
    >>> totals = {"MixTS": np.array([[4.0, 5.0, 6.0], [9.0, 8.0, 10.0]])}
    >>> sweep = mixts.Sweep("number of arms", np.array([10.0, 40.0]), totals)
    >>> sweep
    Sweep over number of arms, 3 runs at each value
      number of arms        MixTS  median
                  10  5.00 ± 0.58    5.00
                  40  9.00 ± 0.58    9.00
    >>> round(sweep.growth("MixTS").mean, 2)
    1.8
    """

    parameter: str
    values: Float[Array, " p"]
    totals: Mapping[str, Float[Array, "p n_runs"]]

    def __post_init__(self) -> None:
        values = _checks.numbers(self.values, "values must be numbers", ParameterError)
        if values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise ParameterError(
                f"values must be one finite number for each simulation, got {self.values!r}"
            )
        if not (np.diff(values) > 0).all():
            raise ParameterError(f"values must increase, got {values.tolist()}: sort them")
        if not self.totals:
            raise ParameterError("totals must have at least one agent, got none")
        totals = {name: _checked(total, name) for name, total in self.totals.items()}
        shapes = {name: total.shape for name, total in totals.items()}
        shape = next(iter(shapes.values()))
        if set(shapes.values()) != {shape} or shape[0] != len(values):
            raise ParameterError(
                f"totals must have one row for each of the {len(values)} values and equally many "
                f"runs for every agent, got shapes {shapes}"
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "totals", totals)

    @classmethod
    def of(cls, parameter: str, values: ArrayLike, results: Sequence[Results]) -> Sweep:
        """Return the sweep of simulations with the same agents and as many runs.

        Parameters
        ----------
        parameter
            Name of the parameter.
        values
            Its values, increasing.
        results
            Results of the simulation at each value.

        Returns
        -------
        Sweep
            The sweep.
        """
        column = _checks.numbers(values, "values must be numbers", ParameterError)
        if len(results) != column.size:
            raise ParameterError(
                f"expected the results of each of the {column.size} values, got {len(results)}"
            )
        agents = results[0].agents if results else []
        for value, one in zip(column.ravel().tolist(), results, strict=True):
            if set(one.agents) != set(agents) or one.latent.size != results[0].latent.size:
                raise ParameterError(
                    f"every value must have the same agents and as many runs: {agents} with "
                    f"{results[0].latent.size} at first, {one.agents} with {one.latent.size} at "
                    f"{value:g}"
                )
        return cls(
            parameter,
            column,
            {name: np.stack([one.regret[name].sum(axis=1) for one in results]) for name in agents},
        )

    @property
    def agents(self) -> list[str]:
        """Names of the agents, in the given order."""
        return list(self.totals)

    @property
    def n_runs(self) -> int:
        """Number of runs at each value."""
        return int(next(iter(self.totals.values())).shape[1])

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  " + "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
            for row in rows
        ]
        return "\n".join([self._title(), *lines])

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        shown = rows[:MOST_ROWS]
        notes = [more(len(rows) - len(shown), "value")]
        return card(self._title(), table([label(text) for text in head], shown, notes))

    def _title(self) -> str:
        return f"Sweep over {self.parameter}, {self.n_runs} runs at each value"

    def _rows(self) -> list[list[str]]:
        """Return the names of columns, and the regret at each value, as text."""
        rows = [[self.parameter], *([f"{value:g}"] for value in self.values)]
        for name in self.agents:
            mean, error = self.regret(name)
            columns = zip(mean, error, self.median(name), strict=True)
            cells = [(f"{m:.2f} ± {e:.2f}", f"{median:.2f}") for m, e, median in columns]
            for row, pair in zip(rows, [(name, "median"), *cells], strict=True):
                row.extend(pair)
        return rows

    # -- sums ---------------------------------------------------------------------------------

    def regret(self, agent: str) -> Estimate:
        """Return means over runs at each value, and their standard errors.

        Parameters
        ----------
        agent
            Name of the agent.

        Returns
        -------
        Estimate
            Means and standard errors, each (p,).
        """
        return estimate(self._of(agent).T)

    def median(self, agent: str) -> Float[Array, " p"]:
        """Return medians over runs at each value: a few runs may dominate a mean.

        Parameters
        ----------
        agent
            Name of the agent.

        Returns
        -------
        array
            Medians, (p,).
        """
        return np.median(self._of(agent), axis=1)

    def growth(self, agent: str) -> Estimate:
        """Return the factor by which the mean regret grows from the first value to the last.

        Its standard error is that of a ratio r = mean(b) / mean(a) to first order, the standard
        error of mean(b - r a) / mean(a), run by run: simulations with the same seed share much of
        their luck, which cancels. If the first regret is 0, the factor is infinite, without error.

        Parameters
        ----------
        agent
            Name of the agent.

        Returns
        -------
        Estimate
            The factor and its standard error.
        """
        first, last = self._of(agent)[0], self._of(agent)[-1]
        start, end = float(first.mean()), float(last.mean())
        if start == 0:
            return Estimate(float("inf") if end > 0 else float("nan"), float("nan"))
        ratio = end / start
        return Estimate(ratio, estimate(last - ratio * first).error / abs(start))

    def _of(self, agent: str) -> Float[Array, "p n_runs"]:
        if agent not in self.totals:
            raise ParameterError(f"no agent {agent!r}; agents: {self.agents}")
        return self.totals[agent]

    # -- tables -------------------------------------------------------------------------------

    def table(self) -> dict[str, Array]:
        """Return a long table as columns: a row for each agent, value and run, counted from 0."""
        n, p = len(self.agents), len(self.values)
        return {
            "agent": np.repeat(np.array(self.agents), p * self.n_runs),
            "value": np.tile(np.repeat(self.values, self.n_runs), n),
            "run": np.tile(np.arange(self.n_runs), n * p),
            "regret": np.concatenate([self.totals[name].ravel() for name in self.agents]),
        }


def _checked(total: Any, name: str) -> Float[Array, "p n_runs"]:
    what = f"the totals of {name!r}"
    array = _checks.numbers(total, f"{what} must be numbers", ParameterError)
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        raise ParameterError(
            f"{what} must be finite numbers of shape (values, runs), got shape {array.shape}"
            + ("" if np.isfinite(array).all() else " with some that are not finite")
        )
    return array
