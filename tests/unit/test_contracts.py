"""The public contract suite notices families and agents that break a rule."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mixts
from mixts.extend import contracts
from mixts.families.bernoulli import BetaMarginal

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


class Generous(mixts.BernoulliArms):
    """Every reward is more likely than it is, under all components alike."""

    kind = "generous-arms"

    def relative_evidence(self, statistics: Any) -> Any:
        return super().relative_evidence(statistics) + 0.1 * statistics.pulls.sum(axis=1)[:, None]


class Constant(mixts.BernoulliArms):
    """The same, in the constant."""

    kind = "constant-arms"

    def evidence_constant(self, statistics: Any) -> Any:
        return 0.1 * statistics.pulls.sum(axis=1)


class Dense(mixts.GaussianArms):
    """The same, of a density."""

    kind = "dense-arms"

    def evidence_constant(self, statistics: Any) -> Any:
        return super().evidence_constant(statistics) + 0.1 * statistics.pulls.sum(axis=1)


class Writable(mixts.BernoulliArms):
    """Parameters can be changed by accident."""

    kind = "writable-arms"

    def arrays(self) -> Any:
        return {name: array.copy() for name, array in super().arrays().items()}


class CarelessStatistics(mixts.families.BernoulliStatistics):
    """An arm of -1 is the last one."""

    kind = "careless-arms"

    def _possible(self, tasks: Any, arms: Any, rewards: Any) -> Any:
        return self.accepts(rewards)


class Careless(mixts.BernoulliArms):
    kind = "careless-arms"
    statistics_type = CarelessStatistics


class Unmatched(mixts.PoissonArms):
    """A collapsed prior expects ten times the reward."""

    kind = "unmatched-arms"

    @classmethod
    def match(cls, mean: Any, variance: Any, settings: Any) -> Any:
        return super().match(10 * mean, variance, settings)


def arms_of(**wrong: Any) -> Any:
    """Arms whose distributions of means have these wrong methods."""
    marginal = type("Wrong", (BetaMarginal,), wrong)

    class Wrong(mixts.BernoulliArms):
        kind = "-".join(wrong)

        def marginal(self, parameters: Any) -> Any:
            return marginal(parameters)

    return Wrong


def halved(marginal: Any, average: Any, n: Any) -> Any:
    after, log_evidence = BetaMarginal.observe(marginal, average, n)
    return after, 0.5 * log_evidence


AGREE = "distributions_of_means_agree"
TEACH = "averages_teach_like_their_rewards"
DRAWN = "averages_are_drawn_like_rewards"
SHAPES = "arrays_have_the_expected_shapes"
WRONG_METHODS: dict[str, tuple[Any, str, str]] = {
    "variance": (lambda m: BetaMarginal.variance(m) * 1.01, AGREE, "variance differs"),
    "mean": (lambda m: BetaMarginal.mean(m) * 1.01, AGREE, "mean differs"),
    "quantile": (lambda m, p: BetaMarginal.quantile(m, p**1.1), AGREE, "differs from the integral"),
    "cdf": (lambda m, x: 1 - BetaMarginal.cdf(m, x), AGREE, "cdf(quantile("),
    "reward_entropy": (lambda m, mean, variance: np.nan * mean, AGREE, "reward_entropy returned"),
    "form": (mixts.extend.LOG_GAMMA, "the_form_fits_the_draws", "Wrong.form"),
    "observe": (
        lambda m, average, n: BetaMarginal.observe(m, 0 * average + 0.5, n),
        TEACH,
        "Wrong.observe: mean after 4 rewards",
    ),
    "observe (evidence)": (halved, TEACH, "Wrong.observe: log evidence"),
    "draw_averages": (
        lambda m, rng, means, n: 2 * BetaMarginal.draw_averages(m, rng, means, n),
        DRAWN,
        "Wrong.draw_averages: gaps to the means",
    ),
    "draw_averages (noise)": (
        lambda m, rng, means, n: means,
        DRAWN,
        "Wrong.draw_averages: squares of the gaps",
    ),
    "reward_entropy (value)": (lambda m, mean, variance: -mean, DRAWN, "Wrong.reward_entropy"),
    "sample": (
        lambda m, rng: BetaMarginal.sample(m, rng).T,
        SHAPES,
        "Wrong.sample returned shape (3, 2), expected (2, 3)",
    ),
}


class Unseeded(mixts.MixTS):
    def act(self, *arguments: Any, **options: Any) -> Any:
        self._rng = np.random.default_rng()
        return super().act(*arguments, **options)


class Fixed(mixts.MixTS):
    """The seed is always 0."""

    def __init__(self, prior: Any, n_tasks: Any = None, seed: Any = None) -> None:
        super().__init__(prior, n_tasks, 0)


class Short(mixts.Greedy):
    """An argument has a name of its own, which files do not know."""

    def __init__(self, prior: Any, n: Any = None, seed: Any = None) -> None:
        super().__init__(prior, n, seed)


class Restless(mixts.MixTS):
    def act(self, *arguments: Any, **options: Any) -> Any:
        nothing = np.zeros(np.shape(self.belief.statistics.n_observations), int)
        self.belief.update(nothing, nothing)
        return super().act(*arguments, **options)


class Liar(mixts.MixTS):
    def action_probabilities(self, *arguments: Any, **options: Any) -> Any:
        law, error = super().action_probabilities(*arguments, **options)
        return np.full(law.shape, 1 / law.shape[-1]), error


class Unmasked(mixts.MixTS):
    """Masked and retired actions are taken."""

    def act(self, *arguments: Any, mask: Any = None, **options: Any) -> Any:
        return super().act(*arguments, **options)


class Blind(mixts.extend.BeliefAgent):
    """The policy does not look at the mask."""

    def probabilities(self, rewards: Any, offer: Any) -> Any:
        found = np.exp(rewards.means())
        return found / found.sum(axis=1, keepdims=True), np.zeros(found.shape)


class Flat(Blind):
    """One row of probabilities for all decisions."""

    def probabilities(self, rewards: Any, offer: Any) -> Any:
        law, errors = super().probabilities(rewards, offer)
        return law[0], errors


def broken(rules: Any, problem: Any) -> set[str]:
    """The names of the rules that a problem breaks."""
    found = set()
    for rule in rules:
        try:
            rule(problem)
        except Exception:
            found.add(rule.__name__)
    return found


@pytest.mark.parametrize(
    ("family", "rule"),
    [
        (Biased, "beliefs_are_right_on_average"),
        (Forgetful, "evidence_is_a_sum_of_predictions"),
        (Generous, "evidence_of_one_reward_is_its_probability"),
        (Constant, "evidence_of_one_reward_is_its_probability"),
        (Writable, "parameters_cannot_be_written_to"),
        (Careless, "a_refused_update_changes_no_belief"),
        (Unmatched, "one_component_keeps_the_moments"),
    ],
)
def test_a_family_that_breaks_a_rule_is_noticed(family: Any, rule: str) -> None:
    prior = mixts.MixturePrior(family(ALPHA, 10 - ALPHA), weights=[0.4, 0.6])
    assert rule in broken(contracts.FAMILY_RULES, contracts.FamilyProblem(prior))
    with pytest.raises(AssertionError, match=r'the rule ".* .*" is broken'):
        contracts.check_family(prior)


def test_a_density_that_is_too_large_is_noticed() -> None:
    prior = mixts.MixturePrior(Dense([[0.0, 1.0], [1.0, 0.0]], [[0.5, 1.0], [1.0, 0.5]], 0.5))
    with pytest.raises(AssertionError, match=r"log_evidence of one reward .* adds up to 1\.08"):
        contracts.check_family(prior)


def test_an_agent_without_the_names_of_files_is_told() -> None:
    message = r"Short.__init__ needs arguments named prior, n_tasks and seed"
    with pytest.raises(AssertionError, match=message):
        contracts.check_agent(lambda n_tasks, seed: Short(PRIOR, n_tasks, seed), PRIOR)


def test_an_arm_that_is_not_checked_is_named() -> None:
    prior = mixts.MixturePrior(Careless(ALPHA, 10 - ALPHA))
    with pytest.raises(AssertionError, match=r"arm -1 of 1: .* nothing was raised"):
        contracts.check_family(prior)


def test_a_wrong_shape_of_probabilities_is_named() -> None:
    message = r"Flat.probabilities returned shape \(3,\), expected \(7, 3\)"
    with pytest.raises(AssertionError, match=message):
        contracts.check_agent(lambda n_tasks, seed: Flat(PRIOR, n_tasks, seed), PRIOR)


@pytest.mark.parametrize("method", WRONG_METHODS)
def test_a_wrong_distribution_of_means_is_noticed(method: str) -> None:
    wrong, rule, message = WRONG_METHODS[method]
    prior = mixts.MixturePrior(arms_of(**{method.split()[0]: wrong})(ALPHA, 10 - ALPHA))
    check = next(each for each in contracts.FAMILY_RULES if each.__name__ == rule)
    with pytest.raises(AssertionError, match=re.escape(message)):
        check(contracts.FamilyProblem(prior))
    with pytest.raises(AssertionError, match="is broken"):
        contracts.check_family(prior)


@pytest.mark.parametrize(
    ("agent", "rule"),
    [
        (Unseeded, "the_same_seed_makes_the_same_decisions"),
        (Fixed, "other_seeds_make_other_decisions"),
        (Short, "a_loaded_agent_continues"),
        (Restless, "only_feedback_teaches"),
        (Liar, "decisions_follow_the_probabilities"),
        (Unmasked, "masked_actions_are_never_taken"),
        (Blind, "masked_actions_are_never_taken"),
        (Flat, "probabilities_have_the_shape_of_the_offer"),
    ],
)
def test_an_agent_that_breaks_a_rule_is_noticed(agent: Any, rule: str) -> None:
    def build(n_tasks: int | None, seed: Any) -> Any:
        return agent(PRIOR, n_tasks, seed)

    problem = contracts.AgentProblem(contracts.FamilyProblem(PRIOR), build)
    assert rule in broken(contracts.AGENT_RULES, problem)
    with pytest.raises(AssertionError, match=r'the rule ".* .*" is broken'):
        contracts.check_agent(build, PRIOR)


def test_a_class_that_is_no_agent_is_named() -> None:
    with pytest.raises(AssertionError, match="Belief does not derive from Agent"):
        contracts.check_agent(lambda n_tasks, seed: PRIOR.belief(n_tasks), PRIOR)


def test_a_family_without_a_model_says_what_to_do() -> None:
    belief = mixts.MixturePrior(Careless(ALPHA, 10 - ALPHA)).belief(2)
    belief.update([0, 1], [1, 0])
    with pytest.raises(mixts.errors.ParameterError, match="write a model"):
        mixts.learn_prior(belief.statistics, 2)


@pytest.mark.parametrize(
    "family",
    [
        # Almost all mass at both ends: most quantiles are rounded to 1, as are most draws.
        mixts.BernoulliArms([[0.1, 0.2], [0.03, 0.01]], [[0.3, 0.1], [0.01, 0.02]]),
        # Half of the digits of a reward are those of its mean.
        mixts.GaussianArms([[1e8, 1e8 + 1], [1e8 + 1, 0.0]], np.ones((2, 2)), 1.0),
        mixts.LinearGaussian([[1e8, 1e8 + 1], [1e8 + 1, 1e8]], np.ones(2), 1.0, "spherical"),
    ],
    ids=["beta", "gaussian", "linear"],
)
def test_extreme_priors_pass(family: Any) -> None:
    contracts.check_family(mixts.MixturePrior(family))


def test_classes_of_the_library_pass() -> None:
    contracts.check_family(PRIOR)
    contracts.check_agent(lambda n_tasks, seed: mixts.MixTS(PRIOR, n_tasks, seed), PRIOR)
