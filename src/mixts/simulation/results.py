"""Results of simulations: regret and reward of every round of every run, and their sums."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from mixts._files import replacing
from mixts._html import card, label, table
from mixts._numbers import Estimate, estimate
from mixts._tables import HasTable
from mixts._typing import Array, Float, Int
from mixts.errors import MissingExtraError, ParameterError

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


@dataclass(frozen=True)
class AgentResults:
    """Results of one agent: ``results["MixTS"]``."""

    name: str
    regret: Float[Array, "n_runs n_rounds"]
    """Best true mean reward minus that of the action taken, round by round."""
    reward: Float[Array, "n_runs n_rounds"]
    """Rewards received."""
    latent: Int[Array, " n_runs"]
    """True latent state of each run; -1 for a run without one."""
    observed: Mapping[str, Array]
    """Arrays of the agent's observer, by name; the first axis is the runs."""

    @property
    def summary(self) -> Summary:
        """Cumulative regret at the end, mean and median, and mean reward."""
        total = self.regret.sum(axis=1)
        reward = estimate(self.reward.mean(axis=1))
        return Summary(estimate(total), float(np.median(total)), reward)


@dataclass(frozen=True, repr=False)
class Results(HasTable):
    """Per-round regret and reward of every agent, run by run; agents met the same problems.

    ``results["MixTS"]`` has the arrays of one agent, ``"MixTS" in results`` says whether it played,
    and iteration gives the agents' names.

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
    >>> results["MixTS"].regret.shape
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

    def __getitem__(self, agent: str) -> AgentResults:
        return AgentResults(
            agent,
            self._of(agent, "regret"),
            self._of(agent, "reward"),
            self.latent,
            self.observed.get(agent, {}),
        )

    def __contains__(self, agent: object) -> bool:
        return agent in self.regret

    def __iter__(self) -> Iterator[str]:
        return iter(self.regret)

    def __len__(self) -> int:
        return len(self.regret)

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
        return {name: self[name].summary for name in self.agents}

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
        """Write the table as CSV; numbers read back are the same to the bit.

        Parameters
        ----------
        path
            File to write.
        """
        _write_csv(path, self.table())

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table as Parquet with the settings in its metadata (extra ``table``).

        Parameters
        ----------
        path
            File to write.
        """
        _write_parquet(path, self.table(), self.settings)


# -- files ----------------------------------------------------------------------------------------
#
# Files are written atomically: a file is either the old one or the whole new one.


def _write_csv(path: str | os.PathLike[str], table: Mapping[str, Array]) -> None:
    """Write columns as CSV with a header; floats in the shortest form that reads back exactly."""
    n_rows = len(next(iter(table.values())))
    with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(table)
        for start in range(0, n_rows, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            columns = [column[rows].tolist() for column in table.values()]
            writer.writerows(zip(*columns, strict=True))


def _write_parquet(
    path: str | os.PathLike[str], table: Mapping[str, Array], settings: Mapping[str, Any]
) -> None:
    """Write columns as Parquet: text by dictionary, settings as JSON in the metadata."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError(
            "writing Parquet needs pyarrow: pip install 'mixts[table]' (to_csv needs nothing)"
        ) from error
    columns = {}
    for name, column in table.items():
        if column.dtype.kind == "U":
            words, codes = np.unique(column, return_inverse=True)
            columns[name] = pyarrow.DictionaryArray.from_arrays(codes, words.tolist())
        else:
            columns[name] = pyarrow.array(column)
    arrow = pyarrow.table(columns)
    arrow = arrow.replace_schema_metadata({"mixts": json.dumps(dict(settings))})
    with replacing(path) as part:
        parquet.write_table(arrow, part)
