"""Results of simulations: regret and reward of every round of every run, and sweeps of them."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from mixts import _checks
from mixts._files import replacing
from mixts._html import MOST_ROWS, card, label, more, table
from mixts._numbers import Estimate, estimate
from mixts._tables import HasTable
from mixts._typing import Array, ArrayLike, Float, Int
from mixts.errors import ParameterError

_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Summary:
    """Summary of one agent over all runs."""

    regret: Estimate
    """Cumulative regret at the end."""
    median_regret: float
    """Median of the same: regret is often heavy-tailed, and a few runs may dominate the mean."""
    reward: Estimate
    """Mean reward of a round."""


@dataclass(frozen=True, repr=False)
class Results(HasTable):
    """Per-round regret and reward of every agent, run by run; agents met the same problems.

    The regret of a round is mu*(A_t*) - mu*(A_t), of true means. Its sum over rounds, averaged over
    runs whose problems were drawn from the prior, estimates the Bayes regret  [paper: Sec. 2].

    Attributes
    ----------
    regret : mapping of str to (n_runs, n_rounds) array
        By agent: best true mean reward minus that of the action taken, round by round.
    reward : mapping of str to (n_runs, n_rounds) array
        By agent: rewards received.
    latent : (n_runs,) array of int
        True latent state of each run; -1 for a run without one.
    settings : mapping
        Everything but the agents that determines the numbers: seed, sizes, environment.
    observed : mapping
        By agent: the arrays that its observer recorded, by name; the first axis is the runs.

    Examples
    --------
    >>> import mixts
    >>> prior = mixts.MixturePrior(mixts.BernoulliArms([[9, 1], [1, 9]], [[1, 9], [9, 1]]))
    >>> agents = {"MixTS": prior, "UniTS": prior.collapse()}
    >>> results = mixts.simulate(agents, mixts.BanditEnvironment(prior), 20, n_runs=10, seed=1)
    >>> results.agents
    ['MixTS', 'UniTS']
    >>> results.regret["MixTS"].shape
    (10, 20)
    """

    regret: Mapping[str, Float[Array, "n_runs n_rounds"]]
    reward: Mapping[str, Float[Array, "n_runs n_rounds"]]
    latent: Int[Array, " n_runs"]
    settings: Mapping[str, Any]
    observed: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)

    @property
    def agents(self) -> list[str]:
        """Names of the agents, in the given order."""
        return list(self.regret)

    def __repr__(self) -> str:
        rows = [("agent", "regret", "", "median", "reward/round", ""), *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            cells = [row[0].ljust(widths[0])]
            # An error is close to its mean and aligned to the left.
            cells += [
                " " + text.ljust(width) if i in (2, 5) else "  " + text.rjust(width)
                for i, (text, width) in enumerate(zip(row[1:], widths[1:], strict=True), 1)
            ]
            lines.append(("  " + "".join(cells)).rstrip())
        return "\n".join([self._title(), *lines])

    def _repr_html_(self) -> str:
        rows = [
            [label(name), f"{regret} {error}", median, f"{reward} {reward_error}"]
            for name, regret, error, median, reward, reward_error in self._rows()
        ]
        return card(self._title(), table(["agent", "regret", "median", "reward/round"], rows))

    def _title(self) -> str:
        s = self.settings
        return f"Results of {s['n_runs']} runs of {s['n_rounds']} rounds, seed {s['seed']}"

    def _rows(self) -> list[tuple[str, ...]]:
        """Return the agents' summaries as text."""
        return [
            (
                name,
                f"{summary.regret.mean:.2f}",
                f"± {summary.regret.error:.2f}",
                f"{summary.median_regret:.2f}",
                f"{summary.reward.mean:.4f}",
                f"± {summary.reward.error:.4f}",
            )
            for name, summary in self.summary().items()
        ]

    # -- sums ---------------------------------------------------------------------------------

    def summary(self) -> dict[str, Summary]:
        """Return for each agent its cumulative regret, mean and median, and its mean reward."""
        found = {}
        for name in self.agents:
            total, reward = self.regret[name].sum(axis=1), self.reward[name].mean(axis=1)
            found[name] = Summary(estimate(total), float(np.median(total)), estimate(reward))
        return found

    def curve(self, agent: str, quantity: Literal["regret", "reward"] = "regret") -> Estimate:
        """Return a learning curve: means over runs and their standard errors, (n_rounds,).

        Parameters
        ----------
        agent
            Name of the agent.
        quantity
            ``"regret"``: the cumulative regret after each round. ``"reward"``: the average reward
            of the rounds so far.

        Returns
        -------
        Estimate
            Means over runs and their standard errors, each (n_rounds,).
        """
        total = np.cumsum(self._of(agent, quantity), axis=1)
        if quantity == "reward":
            total /= np.arange(1, total.shape[1] + 1)
        return estimate(total)

    def difference(self, agent: str, other: str) -> Estimate:
        """Return the cumulative regret of the first agent minus that of the second.

        The difference is taken run by run. Both agents played the same problems with the same
        random numbers, so its standard error is small.

        Parameters
        ----------
        agent
            Name of the first agent.
        other
            Name of the second agent.

        Returns
        -------
        Estimate
            Mean over runs and its standard error.
        """
        gap = self._of(agent, "regret").sum(axis=1) - self._of(other, "regret").sum(axis=1)
        return estimate(gap)

    def _of(self, agent: str, quantity: str) -> Float[Array, "n_runs n_rounds"]:
        if quantity not in ("regret", "reward"):
            raise ParameterError(f'expected "regret" or "reward", got {quantity!r}')
        arrays = self.regret if quantity == "regret" else self.reward
        if agent not in arrays:
            raise ParameterError(f"no agent {agent!r}; agents: {self.agents}")
        return arrays[agent]

    # -- tables -------------------------------------------------------------------------------

    def table(self) -> dict[str, Array]:
        """Return a long table as columns: a row for each agent, run and round, counted from 0.

        Returns
        -------
        dict
            The columns agent, run, round, latent, regret and reward, as arrays.
        """
        n_runs, n_rounds = self.latent.size, self.settings["n_rounds"]
        size = n_runs * n_rounds
        runs = np.repeat(np.arange(n_runs), n_rounds)
        n = len(self.agents)
        return {
            "agent": np.repeat(np.array(self.agents), size),
            "run": np.tile(runs, n),
            "round": np.tile(np.arange(n_rounds), n * n_runs),
            "latent": np.tile(self.latent[runs], n),
            "regret": np.concatenate([self.regret[name].ravel() for name in self.agents]),
            "reward": np.concatenate([self.reward[name].ravel() for name in self.agents]),
        }

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV, atomically; numbers read back are the same to the bit.

        Parameters
        ----------
        path
            File to write.
        """
        table = self.table()
        with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(table)
            for start in range(0, len(table["run"]), _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                writer.writerows(zip(*(c[rows].tolist() for c in table.values()), strict=True))


# -- regret over the values of a parameter --------------------------------------------------------


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
        values = _checks.real_array(self.values, "values", 1)
        if not (np.diff(values) > 0).all():
            raise ParameterError(f"values must increase, got {values.tolist()}: sort them")
        totals = {
            name: _checks.numbers(total, f"the totals of {name!r} must be numbers", ParameterError)
            for name, total in self.totals.items()
        }
        shapes = {name: total.shape for name, total in totals.items()}
        fits = (
            total.ndim == 2 and len(total) == len(values) and np.isfinite(total).all()
            for total in totals.values()
        )  # fmt: skip
        if len(set(shapes.values())) != 1 or not all(fits):
            raise ParameterError(
                f"totals must be finite, with one row for each of the {len(values)} values and "
                f"equally many runs for every agent, got shapes {shapes}"
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
        agents, n_runs = results[0].agents, results[0].latent.size
        for one in results:
            if set(one.agents) != set(agents) or one.latent.size != n_runs:
                raise ParameterError(
                    f"every value must have the same agents and as many runs: {agents} with "
                    f"{n_runs} at first, {one.agents} with {one.latent.size} later"
                )
        totals = {
            name: np.stack([one.regret[name].sum(axis=1) for one in results]) for name in agents
        }
        return cls(parameter, np.asarray(values), totals)

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
