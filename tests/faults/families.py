"""Faults of beliefs, of agents and of families of arms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.faults.catalogue import fault
from tests.faults.inject import edit, replace

FAMILIES = "tests/contracts/test_families.py"
RULES = f"{FAMILIES}::test_every_family_keeps_the_rules"
JOINT_LAW = "tests/statistical/test_joint_law.py"


def identity(run: str, *names: str) -> tuple[str, ...]:
    """Return the ids of tests of the identities of Algorithm 1, in one run."""
    return tuple(f"tests/statistical/test_identities.py::test_identity[{run}-{n}]" for n in names)


# -- one latent state for each decision -----------------------------------------------------------


def component_for_each_arm(decide: Any) -> Any:
    """The distribution of every single arm stays right."""

    def wrong(self: Any, rng: Any, index: Any, sets: Any, mask: Any) -> Any:
        latent = self.draw_latent(rng, index)
        theta = self.posterior.sample(rng, index, latent)
        for arm in range(1, theta.shape[1]):
            other = self.draw_latent(rng, index)
            theta[:, arm] = self.posterior.sample(rng, index, other)[:, arm]
        return self.prior.family.best_action(rng, theta, sets, mask), latent

    return wrong


fault(
    "a decision draws a component for each arm",
    f"{JOINT_LAW}::test_no_decision_mixes_components",
    replace("mixts.belief:Belief.decide", component_for_each_arm),
)
fault(
    "a decision draws a component for each arm (by identities)",
    identity("bernoulli", "actions are as often taken as best", "latent state and action together"),
    replace("mixts.belief:Belief.decide", component_for_each_arm),
)


def components_of_others(decide: Any) -> Any:
    def wrong(self: Any, *asked: Any) -> Any:
        chosen, latent = decide(self, *asked)
        return chosen, np.roll(latent, 1)

    return wrong


fault(
    "many decisions report the components of others",
    f"{JOINT_LAW}::test_no_decision_mixes_components",
    replace("mixts.families._core_arms:CoreArmPosterior.decide", components_of_others),
)


def prior_draw_for_each_arm(draw: Any) -> Any:
    def wrong(self: Any, rng: Any, latent: Any) -> Any:
        draws = [draw(self, rng, rng.permutation(latent)) for _ in range(self.n_arms)]
        return np.stack([theta[:, arm] for arm, theta in enumerate(draws)], axis=1)

    return wrong


fault(
    "the prior draws a component for each arm",
    f"{JOINT_LAW}::test_no_decision_mixes_components",
    replace("mixts.families.arms:ArmFamily.draw", prior_draw_for_each_arm),
)


# -- weights and evidence -------------------------------------------------------------------------


EXTREME = "tests/oracles/test_extreme_arms.py::test_extreme"
EVIDENCE = "relative_evidence"
"""Method of a family of arms that is the specification of its evidence."""

fault(
    "the evidence forgets the totals (Bernoulli arms)",
    f"{EXTREME}[plain-bernoulli of variance 1e 8-one by one]",
    edit("mixts.families.special:beta_evidence", "won + lost", "won"),
)
fault(
    "the evidence lacks the log determinant (Gaussian arms)",
    f"{EXTREME}[plain-gaussian of variance 1e 8-one by one]",
    edit(f"mixts.families.gaussian:GaussianArms.{EVIDENCE}", "np.log1p(n * v / noise)", "0.0"),
)
fault(
    "the evidence of another component is kept (arms)",
    "tests/unit/test_core_arms.py::test_both_programs_agree",
    edit(
        "mixts.families.arms:ArmPosterior._recompute",
        "self.prior.relative_evidence(self.statistics[some])",
        "np.roll(self.prior.relative_evidence(self.statistics[some]), 1)",
    ),
)


# -- statistics -----------------------------------------------------------------------------------

fault(
    "failures are not counted (Bernoulli arms)",
    f"{EXTREME}[plain-bernoulli of variance 1e 8-one by one]",
    edit(
        "mixts.families.bernoulli:BernoulliStatistics.count_rewards",
        'np.add.at(self.array("failures"), at, rewards == 0)',
        "pass",
    ),
)
fault(
    "the evidence of an update is not computed (arms)",
    "tests/unit/test_core_arms.py::test_what_users_do_between_decisions[plain-bernoulli]",
    edit("mixts.families.arms:ArmPosterior.update", "self._recompute(np.unique(tasks))", "pass"),
)
fault(
    "the evidence of a long batch is not computed (arms)",
    f"{RULES}[core-batches_do_not_matter-bernoulli]",
    edit(
        "mixts.families._core_arms:CoreArmPosterior.update", "arms.recompute(np.unique(tasks))", ""
    ),
)
fault(
    "the core keeps the arrays that were replaced (arms)",
    f"{RULES}[core-statistics_are_a_snapshot-bernoulli]",
    edit("mixts.families._core_arms:CoreArmPosterior.core", "new is not old", "False"),
)
fault(
    "statistics that a belief returned change with later updates",
    f"{RULES}[plain-statistics_are_a_snapshot-bernoulli]",
    replace(
        "mixts.belief:Belief.statistics",
        lambda _: property(lambda self: self.posterior.statistics),
    ),
)


# -- variance and standard deviation --------------------------------------------------------------


def variance_as_deviation(_: Any) -> Any:
    def wrong(self: Any, rng: Any) -> Any:
        return self.location + self.variances * rng.standard_normal(self.location.shape)

    return wrong


fault(
    "the sampler of Gaussian arms uses the variance as standard deviation",
    (
        f"{JOINT_LAW}::test_prior_draws_have_the_moments[gaussian]",
        f"{JOINT_LAW}::test_posterior_draws_have_the_moments[many-gaussian]",
    ),
    replace("mixts.families.gaussian:NormalMarginal.sample", variance_as_deviation),
)
fault(
    "the sampler of Gaussian arms uses the variance as standard deviation (by identities)",
    identity("gaussian", "draws cover", "samples spread as truths"),
    replace("mixts.families.gaussian:NormalMarginal.sample", variance_as_deviation),
)
fault(
    "Gaussian rewards have the variance as standard deviation",
    f"{JOINT_LAW}::test_rewards_have_their_moments[gaussian]",
    replace(
        "mixts.families.gaussian:GaussianArms.outcomes",
        lambda _: (
            lambda self, rng, means: means + self.noise_std**2 * rng.standard_normal(means.shape)
        ),
    ),
)

# -- actions that are taken once ------------------------------------------------------------------

fault(
    "an arm's own variance is explored though it is taken once",
    "tests/unit/agents/test_once.py::test_without_kinds_every_policy_is_greedy[core-ts-gaussian]",
    edit("mixts.families.rewards:RewardBelief.once", "OnceArms(self)", "self"),
)
fault(
    "what a row that is taken once says about the others is left out",
    "tests/oracles/test_once.py::test_rows_by_conditioning[core-False-3]",
    edit("mixts.families._linear_rewards:OnceRows.taught", "np.log1p(self._left)", "0.0"),
)
