"""Faults of linear posteriors: their updates, their samples and their dormant components."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.faults.catalogue import fault
from tests.faults.families import JOINT_LAW, RULES, identity
from tests.faults.inject import edit, replace

POOL = "tests/unit/families/test_linear_pool.py"
POSTERIOR = "mixts.families._linear_posterior:LinearPosterior"

# -- weights and evidence -------------------------------------------------------------------------

fault(
    "the weights are updated after the mean (linear)",
    f"{RULES}[batches_do_not_matter-full]",
    edit(
        "mixts.families._kernels.slots:observe_run",
        """
        _add_evidence(prior, c, alpha, log_alpha, error, evidence)
        step = error / alpha
        """,
        """
        step = error / alpha
        _add_evidence(prior, c, alpha, log_alpha, noise * step, evidence)
        """,
    ),
)


def update_without_log_determinant(observe: Any) -> Any:
    def wrong(self: Any, tasks: Any, actions: Any, outcomes: Any) -> None:
        before = self.prior.log_determinant_ratios(self.statistics)
        observe(self, tasks, actions, outcomes)
        after = self.prior.log_determinant_ratios(self.statistics)
        self.relative_evidence[...] += (after - before) / 2

    return wrong


fault(
    "an update leaves the log determinant out of the evidence (linear)",
    f"{RULES}[batches_do_not_matter-full]",
    replace(f"{POSTERIOR}._observe", update_without_log_determinant),
)
fault(
    "an update leaves the log determinant out of the evidence (linear, by identities)",
    identity("linear, waking", "weights average to the prior's", "weights are calibrated"),
    replace(f"{POSTERIOR}._observe", update_without_log_determinant),
)


def evidence_without_log_determinant(evidence: Any) -> Any:
    def wrong(self: Any, tasks: Any, wanted: Any, *, keep: bool = False) -> Any:
        ratios = self.prior.log_determinant_ratios(self.statistics)
        return evidence(self, tasks, wanted, keep=keep) + ratios[tasks] / 2

    return wrong


fault(
    "the evidence from statistics lacks the log determinant (linear)",
    f"{RULES}[batches_do_not_matter-full]",
    replace(f"{POSTERIOR}._evidence", evidence_without_log_determinant),
)

# -- statistics and posteriors --------------------------------------------------------------------


def first_task_only(observe: Any) -> Any:
    def wrong(batch: Any, prior: Any, histories: Any, slots: Any, dormancy: Any) -> int:
        factor = histories[1]
        before = factor.copy()
        flagged = observe(batch, prior, histories, slots, dormancy)
        others = np.arange(len(factor)) != batch[0][0]
        factor[others] = before[others]
        return int(flagged)

    return wrong


fault(
    "a batch updates only the statistics of its first task (linear)",
    f"{RULES}[new_tasks_leave_the_old_ones_alone-full]",
    replace("mixts.families._kernels.linear:observe", first_task_only),
)
fault(
    "a component that wakes lacks the rewards from while it was dormant (linear)",
    f"{POOL}::test_dormant_components_wake",
    edit(
        f"{POSTERIOR}._wake",
        "self._evidence(np.array([task]), waking[None], keep=resident)[0]",
        "self._evidence(np.array([task]), waking[None], keep=False)[0]",
    ),
)
fault(
    "a run of one action counts as one observation (linear)",
    f"{POOL}::test_runs_of_one_action",
    edit(
        "mixts.families._kernels.slots:settle",
        "update_root(root, v, prior.noise / m, scratch)",
        "update_root(root, v, prior.noise, scratch)",
    ),
)
fault(
    "the bound of a dormant component falls twice as fast (linear)",
    f"{POOL}::test_a_component_that_matters_is_never_dormant[60]",
    edit(
        "mixts.families._kernels.slots:_loss",
        "0.5 * misfit * misfit / (prior.noise * misfit + dot(v, v, len(drift)))",
        "misfit * misfit / (prior.noise * misfit + dot(v, v, len(drift)))",
    ),
)

# -- variance and standard deviation --------------------------------------------------------------


def root_applied_twice(sample: Any) -> Any:
    def wrong(*given: Any) -> None:
        *arrays, x = given
        sample(*arrays, x)
        mean = np.zeros_like(x)
        sample(*arrays, mean)
        x -= mean
        sample(*arrays, x)

    return wrong


fault(
    "the sampler uses the covariance as its root (linear)",
    f"{JOINT_LAW}::test_posterior_draws_have_the_moments[many-linear]",
    replace("mixts.families._kernels.linear:sample", root_applied_twice),
)
