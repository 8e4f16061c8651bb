"""The public contract suite notices families and agents that break a rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mixts
from mixts.extend import contracts

pytestmark = pytest.mark.usefixtures("unchecked")  # spoiled updates have wrong types

ALPHA = np.array([[8.0, 2.0, 3.0], [2.0, 7.0, 3.0]])
PRIOR = mixts.MixturePrior(mixts.BernoulliArms(ALPHA, 10 - ALPHA), weights=[0.4, 0.6])


class Biased(mixts.BernoulliArms):
    """Rewards come more often than the means say."""

    kind = "biased-arms"

    def outcomes(self, rng: Any, means: Any) -> Any:
        return super().outcomes(rng, np.sqrt(means))


class Forgetful(mixts.BernoulliArms):
    """The evidence of a batch is too large."""

    kind = "forgetful-arms"

    def evidence_constant(self, statistics: Any) -> Any:
        return 0.1 * np.atleast_1d(statistics.n_observations > 3)


class Writable(mixts.BernoulliArms):
    """Parameters can be changed by accident."""

    kind = "writable-arms"

    def arrays(self) -> Any:
        return {name: array.copy() for name, array in super().arrays().items()}


class Unseeded(mixts.MixTS):
    def act(self, *arguments: Any, **options: Any) -> Any:
        self._rng = np.random.default_rng()
        return super().act(*arguments, **options)


class Restless(mixts.MixTS):
    def act(self, *arguments: Any, **options: Any) -> Any:
        nothing = np.zeros(np.shape(self.belief.statistics.n_observations), int)
        self.belief.update(nothing, nothing)
        return super().act(*arguments, **options)


class Liar(mixts.MixTS):
    def action_probabilities(self, *arguments: Any, **options: Any) -> Any:
        law, error = super().action_probabilities(*arguments, **options)
        return np.full(law.shape, 1 / law.shape[-1]), error


def broken(rules: Any, problem: Any) -> set[str]:
    """The names of the rules that a problem breaks."""
    found = set()
    for rule in rules:
        try:
            rule(problem)
        except AssertionError:
            found.add(rule.__name__)
    return found


@pytest.mark.parametrize(
    ("family", "rule"),
    [
        (Biased, "beliefs_are_right_on_average"),
        (Forgetful, "evidence_is_a_sum_of_predictions"),
        (Writable, "parameters_cannot_be_written_to"),
    ],
)
def test_a_family_that_breaks_a_rule_is_noticed(family: Any, rule: str) -> None:
    prior = mixts.MixturePrior(family(ALPHA, 10 - ALPHA), weights=[0.4, 0.6])
    assert rule in broken(contracts.FAMILY_RULES, contracts.FamilyProblem(prior))
    with pytest.raises(AssertionError):
        contracts.check_family(prior)


@pytest.mark.parametrize(
    ("agent", "rule"),
    [
        (Unseeded, "the_same_seed_makes_the_same_decisions"),
        (Restless, "only_feedback_teaches"),
        (Liar, "decisions_follow_the_probabilities"),
    ],
)
def test_an_agent_that_breaks_a_rule_is_noticed(agent: Any, rule: str) -> None:
    def build(n_tasks: int | None, seed: Any) -> Any:
        return agent(PRIOR, n_tasks, seed)

    problem = contracts.AgentProblem(contracts.FamilyProblem(PRIOR), build)
    assert rule in broken(contracts.AGENT_RULES, problem)
    with pytest.raises(AssertionError):
        contracts.check_agent(build, PRIOR)


def test_classes_of_the_library_pass() -> None:
    contracts.check_family(PRIOR)
    contracts.check_agent(lambda n_tasks, seed: mixts.MixTS(PRIOR, n_tasks, seed), PRIOR)
