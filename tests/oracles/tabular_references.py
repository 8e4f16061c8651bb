"""Tabular MDPs from first principles: fractions, enumeration, a linear program, an urn.

Nothing here is shared with the library, formulas included. A finite MDP in fractions is solved by
the definition: the value of a policy is the sum over all trajectories of their probability times
their return, and the best policy is the best of all of them. Beliefs come from an urn: every row of
prior counts is an urn of coloured balls, what is drawn is put back with one more of its colour, and
the probability of a history is the product of the fractions drawn. Posterior moments are the
probabilities of what would be drawn next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np
from scipy import optimize, sparse

from tests.oracles.references import DIGITS

Policy = tuple[tuple[int, ...], ...]
"""The action of every step and state."""


# -- planning --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExactMDP:
    """R(x, a) and T(x, a, x') as the exact numbers that floats are."""

    rewards: Any
    transitions: Any
    horizon: int

    @classmethod
    def of(cls, rewards: Any, transitions: Any, horizon: int) -> ExactMDP:
        exact = np.vectorize(lambda value: Fraction(float(value)), otypes=[object])
        return cls(exact(rewards), exact(transitions), horizon)

    @property
    def n_states(self) -> int:
        return len(self.rewards)

    @property
    def n_actions(self) -> int:
        return self.rewards.shape[1]

    def policies(self) -> Iterator[Policy]:
        """All A^(h X) of them."""
        step = list(product(range(self.n_actions), repeat=self.n_states))
        return product(step, repeat=self.horizon)

    def value(self, policy: Policy, step: int, state: int) -> Fraction:
        """The expected reward from a step to the end, by enumeration of all trajectories."""
        total = Fraction(0)
        for rest in product(range(self.n_states), repeat=self.horizon - step - 1):
            path, probability, earned = (state, *rest), Fraction(1), Fraction(0)
            for i, x in enumerate(path):
                action = policy[step + i][x]
                earned += self.rewards[x, action]
                if i + 1 < len(path):
                    probability *= self.transitions[x, action, path[i + 1]]
            total += probability * earned
        return total

    def values(self, policy: Policy) -> list[list[Fraction]]:
        """The value from every step and state."""
        steps, states = range(self.horizon), range(self.n_states)
        return [[self.value(policy, i, x) for x in states] for i in steps]

    def best_values(self) -> list[list[Fraction]]:
        """The largest value from every step and state, over all policies."""
        tables = [self.values(policy) for policy in self.policies()]
        steps, states = range(self.horizon), range(self.n_states)
        return [[max(table[i][x] for table in tables) for x in states] for i in steps]

    def recursive_values(self) -> list[list[Fraction]]:
        """The same forwards: what remains to be earned, asked from the first step."""

        @cache
        def best(step: int, state: int) -> Fraction:
            if step == self.horizon:
                return Fraction(0)
            return max(
                self.rewards[state, a]
                + sum(
                    (p * best(step + 1, y) for y, p in enumerate(self.transitions[state, a]) if p),
                    Fraction(0),
                )
                for a in range(self.n_actions)
            )

        return [[best(i, x) for x in range(self.n_states)] for i in range(self.horizon)]


def linear_program(rewards: Any, transitions: Any, horizon: int) -> Any:
    """The values (h, X): the least that are no less than any action's reward and next value."""
    n_states, n_actions = np.shape(rewards)
    n = horizon * n_states
    rows, bounds = [], []
    for i, x, a in product(range(horizon), range(n_states), range(n_actions)):
        row = np.zeros(n)
        row[i * n_states + x] = -1.0
        if i + 1 < horizon:
            row[(i + 1) * n_states : (i + 2) * n_states] += transitions[x, a]
        rows.append(row)
        bounds.append(-rewards[x, a])
    solution = optimize.linprog(
        np.ones(n), sparse.csr_array(np.array(rows)), bounds, bounds=(None, None), method="highs"
    )
    assert solution.success
    return solution.x.reshape(horizon, n_states)


# -- beliefs ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """An observation: a reward and, if the history has it, a next state."""

    state: int
    action: int
    reward: int
    after: int | None


def steps_of(episodes: Any, lengths: Any = None) -> list[Step]:
    """The steps of (states, actions, rewards), each with a row for each episode."""
    found = []
    for e, (states, actions, rewards) in enumerate(zip(*episodes, strict=True)):
        n = len(actions) if lengths is None else lengths[e]
        seen = n - 1 + len(states) - len(actions)
        for j in range(n):
            after = int(states[j + 1]) if j < seen else None
            found.append(Step(int(states[j]), int(actions[j]), int(rewards[j]), after))
    return found


class Urns:
    """One component: an urn for the rewards and one for the transitions of every pair.

    ``number`` is Fraction for exact probabilities, or Decimal for long histories.
    """

    def __init__(self, reward: Any, transition: Any, number: Any = Fraction) -> None:
        make = np.vectorize(lambda value: number(float(value)), otypes=[object])
        # A reward of 1 is the first colour, and the first entry of its row.
        self.rewards, self.transitions = make(reward), make(transition)

    @staticmethod
    def _draw(urn: Any, colour: int) -> Any:
        chance = urn[colour] / sum(urn)
        # What cannot be drawn is not put back either: the urn never had the colour.
        urn[colour] += 1 if chance else 0
        return chance

    def factors(self, steps: list[Step]) -> Iterator[Any]:
        """The probability of each thing drawn, in order; the urns change."""
        for step in steps:
            yield self._draw(self.rewards[step.state, step.action], 1 - step.reward)
            if step.after is not None:
                yield self._draw(self.transitions[step.state, step.action], step.after)

    def rows(self) -> Iterator[tuple[Any, list[int]]]:
        """Every urn, and the positions of its colours among the parameters (-1: not one)."""
        n_states, n_actions = self.rewards.shape[:2]
        pairs = list(product(range(n_states), range(n_actions)))
        for k, pair in enumerate(pairs):
            yield self.rewards[pair], [k, -1]
        for k, pair in enumerate(pairs):
            first = len(pairs) + k * n_states
            yield self.transitions[pair], list(range(first, first + n_states))

    def moments(self) -> tuple[Any, Any]:
        """E p_i is the chance to draw i next; E p_i p_j that to draw i and then j."""
        size = sum(len(where) - (-1 in where) for _, where in self.rows())
        mean, second = np.zeros(size, object), {}
        for urn, where in self.rows():
            for i, here in enumerate(where):
                if here < 0:
                    continue
                mean[here] = urn[i] / sum(urn)
                for j, there in enumerate(where):
                    if there >= 0:
                        trial = urn.copy()
                        second[here, there] = self._draw(trial, i) * self._draw(trial, j)
        covariance = np.zeros((size, size), object)
        for (i, j), value in second.items():
            covariance[i, j] = value - mean[i] * mean[j]
        return mean, covariance


@dataclass(frozen=True)
class TabularReference:
    """Every component after a history: evidence in fractions, moments at fifty digits."""

    evidence: list[Fraction]
    weights: Any
    component_mean: Any
    component_covariance: Any

    @property
    def log_evidence(self) -> Any:
        """To the last bit of a float; -inf where the history is impossible."""
        return np.array([float(log_of(e)) for e in self.evidence])

    @cached_property
    def mean(self) -> Any:
        with localcontext(prec=DIGITS):
            return np.dot(self.weights, self.component_mean)

    @cached_property
    def covariance(self) -> Any:
        with localcontext(prec=DIGITS):
            gaps = self.component_mean - self.mean
            between = sum(
                w * np.multiply.outer(g, g) for w, g in zip(self.weights, gaps, strict=True)
            )
            return np.tensordot(self.weights, self.component_covariance, axes=1) + between


def decimals(values: Any) -> Any:
    """Fractions at fifty digits."""
    divide = np.vectorize(lambda v: Decimal(v.numerator) / Decimal(v.denominator), otypes=[object])
    return divide(np.array(values, object))


def log_of(value: Fraction) -> Decimal:
    """The logarithm of a fraction of any size."""
    if value == 0:
        return Decimal("-Infinity")
    with localcontext(prec=DIGITS):
        return Decimal(value.numerator).ln() - Decimal(value.denominator).ln()


def tabular_reference(
    reward: Any, transition: Any, weights: Any, steps: list[Step]
) -> TabularReference:
    """Bayes' rule over the components of a prior."""
    evidence, means, covariances = [], [], []
    for component in zip(np.asarray(reward), np.asarray(transition), strict=True):
        urns = Urns(*component)
        chance = Fraction(1)
        for factor in urns.factors(steps):
            chance *= factor
        evidence.append(chance)
        mean, covariance = urns.moments()
        means.append(mean)
        covariances.append(covariance)
    joint = [Fraction(float(w)) * e for w, e in zip(weights, evidence, strict=True)]
    with localcontext(prec=DIGITS):
        posterior = decimals([value / sum(joint) for value in joint])
        return TabularReference(evidence, posterior, decimals(means), decimals(covariances))


def long_log_evidence(reward: Any, transition: Any, steps: list[Step]) -> list[Decimal]:
    """The log evidence at fifty digits, for histories too long for fractions."""
    found = []
    with localcontext(prec=DIGITS):
        for component in zip(np.asarray(reward), np.asarray(transition), strict=True):
            chance = Decimal(1)
            for factor in Urns(*component, number=Decimal).factors(steps):
                chance *= factor
            found.append(chance.ln())
    return found
