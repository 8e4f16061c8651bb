"""Paired comparisons of policies, and their tables in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mixts.simulation import Estimate, estimate
from studies._shared import Array
from studies.coldstart.movielens.analysis import clustered

EARLY = 20
"""Number of first rounds whose differences a wide table shows, besides those of all rounds."""
N_ERRORS = 2.0
"""A difference of more standard errors than this counts as one."""


@dataclass(frozen=True)
class Comparison:
    """Policies that played the same problems, round by round."""

    name: str
    values: Mapping[str, Array]
    """By policy: regret or reward of every round of every run, (n_runs, n_rounds)."""
    rounds: Sequence[int]
    """Numbers of first rounds to look at."""
    rewards: bool = False
    """Whether the values are rewards, averaged over rounds, and not regret, summed over rounds."""
    clusters: tuple[Array, Array] | None = None
    """Two groupings of runs that are not independent: users and splits, or runs and priors."""

    def score(self, policy: str, n_rounds: int) -> Estimate:
        """Return the regret, or the mean reward, of the first rounds."""
        return self._mean(self._scores(policy, n_rounds))

    def gain(self, policy: str, rival: str, n_rounds: int) -> Estimate:
        """Return by how much a policy is better than a rival on the same problems."""
        gap = self._scores(policy, n_rounds) - self._scores(rival, n_rounds)
        return self._mean(gap if self.rewards else -gap)

    def _scores(self, policy: str, n_rounds: int) -> Array:
        first = self.values[policy][:, :n_rounds]
        return first.mean(axis=1) if self.rewards else first.sum(axis=1)

    def _mean(self, values: Array) -> Estimate:
        return estimate(values) if self.clusters is None else clustered(values, *self.clusters)

    def worse(self, policy: str, rival: str) -> list[str]:
        """Return where the policy is worse than the rival by more than two errors."""
        found = []
        for n in self.rounds:
            gain = self.gain(policy, rival, n)
            if gain.mean < -N_ERRORS * gain.error:
                found.append(f"{self.name}, {n} rounds ({signed(gain, 3)})")
        return found


def plain(value: Estimate, digits: int) -> str:
    """Return a mean and its error as text."""
    return f"{value.mean:.{digits}f} ± {value.error:.{digits}f}"


def signed(value: Estimate, digits: int) -> str:
    """Return a difference and its error as text."""
    return f"{value.mean:+.{digits}f} ± {value.error:.{digits}f}".replace("-", "−")


def table(comparison: Comparison, rivals: Sequence[str], digits: int) -> str:
    """Return a table: the score of each policy, and how much better it is than the rivals.

    Differences are shown for two numbers of rounds at most: more columns would not fit on a page.
    """
    rounds = comparison.rounds
    compared = rounds if len(rounds) <= 2 else [n for n in rounds if n in (EARLY, rounds[-1])]
    what = "reward per round" if comparison.rewards else "regret"
    head = ["policy", *(f"{what}, first {n}" for n in rounds)]
    head += [f"better than {rival}, {n}" for rival in rivals for n in compared]
    rows = []
    for policy in comparison.values:
        row = [policy, *(plain(comparison.score(policy, n), digits) for n in rounds)]
        for rival in rivals:
            row += [
                "" if policy == rival else signed(comparison.gain(policy, rival, n), digits)
                for n in compared
            ]
        rows.append(row)
    return f"**{comparison.name}**\n\n" + markdown(head, rows)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown; all columns but the first are aligned to the right."""
    lines = [head, [":--", *("--:" for _ in head[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
