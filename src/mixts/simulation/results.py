"""What simulations give: regret and reward of every round of every run, and what they sum up to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mixts._numbers import Estimate, estimate
from mixts._typing import Array, Float, Int
from mixts.errors import ParameterError
from mixts.simulation import export


@dataclass(frozen=True)
class Summary:
    """One agent over all runs."""

    regret: Estimate
    """Cumulative regret at the end."""
    median_regret: float
    """Its median: regret is often heavy-tailed, and a few runs may carry the mean."""
    reward: Estimate
    """Mean reward of a round."""


@dataclass(frozen=True, repr=False)
class Results:
    """Per-round regret and reward of every agent, run by run; agents met the same problems.

    The regret of a round is mu*(A_t*) - mu*(A_t), of true means. Its sum over rounds, averaged over
    runs whose problems were drawn from the prior, estimates the Bayes regret  [paper: Sec. 2].
    """

    regret: Mapping[str, Float[Array, "n_runs n_rounds"]]
    """By agent: best true mean reward minus that of the action taken."""
    reward: Mapping[str, Float[Array, "n_runs n_rounds"]]
    """By agent: the rewards received."""
    latent: Int[Array, " n_runs"]
    """The true latent state of each run; -1 where there is none."""
    settings: Mapping[str, Any]
    """What determines the numbers besides the agents: seed, sizes, environment."""

    @property
    def agents(self) -> list[str]:
        """The agents' names, as they were given."""
        return list(self.regret)

    def __repr__(self) -> str:
        s = self.settings
        head = f"Results of {s['n_runs']} runs of {s['n_rounds']} rounds, seed {s['seed']}"
        rows = [("agent", "regret", "", "median", "reward/round", "")]
        for name, summary in self.summary().items():
            rows.append(
                (
                    name,
                    f"{summary.regret.mean:.2f}",
                    f"± {summary.regret.error:.2f}",
                    f"{summary.median_regret:.2f}",
                    f"{summary.reward.mean:.4f}",
                    f"± {summary.reward.error:.4f}",
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            cells = [row[0].ljust(widths[0])]
            # An error stands close to its mean and is aligned to the left.
            cells += [
                " " + text.ljust(width) if i in (2, 5) else "  " + text.rjust(width)
                for i, (text, width) in enumerate(zip(row[1:], widths[1:], strict=True), 1)
            ]
            lines.append(("  " + "".join(cells)).rstrip())
        return "\n".join([head, *lines])

    # -- sums ---------------------------------------------------------------------------------

    def summary(self) -> dict[str, Summary]:
        """For each agent: cumulative regret at the end, mean and median, and mean reward."""
        result = {}
        for name in self.agents:
            total = self._of(name, "regret").sum(axis=1)
            average = self._of(name, "reward").mean(axis=1)
            result[name] = Summary(estimate(total), float(np.median(total)), estimate(average))
        return result

    def curve(self, agent: str, quantity: Literal["regret", "reward"] = "regret") -> Estimate:
        """Means over runs and their standard errors, (n_rounds,), as learning curves show them.

        ``"regret"``: the cumulative regret after each round. ``"reward"``: the average reward of
        the rounds so far.
        """
        total = np.cumsum(self._of(agent, quantity), axis=1)
        if quantity == "reward":
            total /= np.arange(1, total.shape[1] + 1)
        return estimate(total)

    def difference(self, agent: str, other: str) -> Estimate:
        """Cumulative regret of the first agent minus that of the second, run by run.

        Both met the same problems with the same luck, which makes its error small.
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
        """A tidy table as columns: one row for each agent, run and round, counted from 0.

        What takes a dictionary of columns takes it: ``pandas.DataFrame(results.table())``, and
        likewise polars and pyarrow.
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
        """Write the table as CSV; numbers read back are the same to the bit."""
        export.write_csv(path, self.table())

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table as Parquet, with the settings in the file's metadata (needs pyarrow)."""
        export.write_parquet(path, self.table(), self.settings)
