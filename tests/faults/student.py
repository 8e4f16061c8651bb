"""Faults of families with unknown noise."""

from __future__ import annotations

from tests.faults.catalogue import fault
from tests.faults.inject import edit

ORACLE = "tests/oracles/test_student.py"
INTEGRALS = f"{ORACLE}::test_evidence_and_moments_are_integrals_over_the_noise"
NOISE = "tests/unit/learning/test_noise.py"

fault(
    "the misfit of earlier rewards is forgotten (student, linear)",
    f"{INTEGRALS}[plain-full]",
    edit(
        "mixts.families.linear:LinearPosterior._evaluate",
        "self._misfit[own] = found.misfit",
        "pass",
    ),
)
fault(
    "the misfit of earlier rewards is forgotten (student, arms)",
    f"{ORACLE}::test_steps_batches_and_merged_parts_agree[core-arms]",
    edit("mixts.families._core_arms:CoreStudentPosterior._sums", "self._misfit is None", "True"),
)
fault(
    "the evidence of unknown noise has one degree of freedom too many (student)",
    f"{INTEGRALS}[plain-full]",
    edit(
        "mixts.families.special:whole_evidence",
        "(degrees + n) * np.log1p(misfit / unit)",
        "(degrees + n + 1) * np.log1p(misfit / unit)",
    ),
)
fault(
    "roots are not in units of the noise (student)",
    f"{INTEGRALS}[plain-full]",
    edit(
        "mixts.families.linear_student:LinearStudent.roots",
        "group_roots(form / by_component, kind, n, d)",
        "group_roots(form / by_component**0.5, kind, n, d)",
    ),
)
fault(
    "a draw of theta forgets the noise of the task (student, linear)",
    f"{ORACLE}::test_draws_are_calibrated[plain-tied]",
    edit(
        "mixts.families.linear_student:LinearStudentPosterior.sample",
        "sigma[:, None] * rng.standard_normal((len(tasks), self.prior.n_features))",
        "rng.standard_normal((len(tasks), self.prior.n_features))",
    ),
)
fault(
    "a draw of arms takes the typical noise (student)",
    f"{ORACLE}::test_decisions_agree_with_draws[plain-7-arms]",
    edit(
        "mixts.families.noise:StudentMarginal.sample_both",
        "sigma = draw_noise(rng, self.freedom[..., 0], self.unit[..., 0])",
        "sigma = np.sqrt(self.unit[..., 0] / self.freedom[..., 0])",
    ),
)
fault(
    "the quadrature takes the typical noise (student)",
    f"{ORACLE}::test_the_probability_that_an_arm_is_best_is_an_integral_over_the_noise",
    edit(
        "mixts.families.noise:StudentMarginal.given_noise",
        "square, share = noise_nodes(self.freedom[..., 0], self.unit[..., 0])",
        "square = (self.unit / self.freedom)[..., :1]; share = np.ones_like(square)",
    ),
)
fault(
    "draws of the stratified estimate have the typical noise (student, linear)",
    f"{ORACLE}::test_decisions_agree_with_draws[plain-0-full]",
    edit(
        "mixts.families.linear_student:LinearStudentPosterior._draw_steps",
        "sigma = draw_noise(rng, *self.noise_posterior(np.full(n, task), np.full(n, s)))",
        "sigma = np.full(n, self.prior.noise_std[s])",
    ),
)
fault(
    "expected rewards count for the noise (student)",
    f"{ORACLE}::test_waiting_decisions_shrink_means_and_not_the_noise[plain-full]",
    edit(
        "mixts.families.linear_student:LinearStudentPosterior._expect",
        'statistics.array("count")[:] = before',
        "pass",
    ),
)
fault(
    "learning weighs all tasks alike (student)",
    f"{NOISE}::test_nothing_is_left_to_gain_where_learning_ends[full]",
    edit(
        "mixts.learning.models.student:LinearStudentModel.sums",
        "sharp = share * noise[0] / noise[1]",
        "sharp = share * (noise[0] / noise[1]).mean()",
    ),
)
fault(
    "pseudo-tasks say nothing about the noise (student)",
    f"{NOISE}::test_nothing_is_left_to_gain_where_learning_ends[full]",
    edit(
        "mixts.learning.models.student:noise_hyperprior",
        "return float((pseudo * value).sum())",
        "return 0.0",
    ),
)
fault(
    "a prediction does not learn the noise from earlier parts (student)",
    f"{NOISE}::test_predictions_are_calibrated_and_sum_to_the_evidence[arms]",
    edit(
        "mixts.learning.models.student:NoiseBelief._learn",
        "self.unit[tasks] += misfit",
        "pass",
    ),
)
