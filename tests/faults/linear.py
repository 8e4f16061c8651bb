"""Faults of linear posteriors: their evidence, their updates, their samples and their dormancy."""

from __future__ import annotations

from tests.faults.catalogue import fault
from tests.faults.inject import edit

POOL = "tests/unit/families/test_linear_pool.py"
ORACLE = "tests/oracles/test_random_problems.py::test_short_histories"
PLAIN = "mixts.families.linear:LinearPosterior"
CORE = "mixts.families._core_linear:CoreLinearPosterior"

# -- the plain program ----------------------------------------------------------------------------

fault(
    "the evidence lacks the log determinant (linear)",
    ORACLE,
    edit(f"{PLAIN}._evaluate", "density - found.half_log_det", "density"),
)
fault(
    "the evidence of a task that has learned is not computed again (linear)",
    "tests/properties/test_task_batches.py",
    edit(f"{PLAIN}.update", "self._is_stale[tasks] = True", "self._is_stale[tasks[:1]] = True"),
)
fault(
    "the residual leaves the prior mean out (linear)",
    ORACLE,
    edit(
        "mixts.families.linear:solve",
        "(z - (r @ theta_0[..., None])[..., 0]) / sigma",
        "z / sigma",
    ),
)
fault(
    "the sampler uses the covariance as its root (linear)",
    "tests/properties/test_dormant.py::test_it_is_sampled_with_its_whole_history",
    edit(
        f"{PLAIN}._place",
        "(found.root[where] @ x[rows, :, None])",
        "(found.root[where] @ np.swapaxes(found.root[where], 1, 2) @ x[rows, :, None])",
    ),
)
fault(
    "a batch counts only the first reward of each task (linear)",
    "tests/properties/test_task_batches.py",
    edit(
        "mixts.families.linear_statistics:fold_histories",
        "np.arange(start, min(start + _BLOCK_ROWS, length))",
        "np.arange(start, start + 1)",
    ),
)

# -- the core -------------------------------------------------------------------------------------

fault(
    "posteriors are not recomputed after a long history (linear, core)",
    f"{POOL}::test_a_batch_after_single_observations",
    edit(f"{CORE}.update", "self._core.recompute(np.unique(tasks[long]))", "pass"),
)
fault(
    "the bound of a dormant component leaves out what a reward can add (linear, core)",
    f"{POOL}::test_a_component_that_matters_is_never_dormant[60]",
    edit(f"{CORE}._limits", "-0.5 * math.log(2 * math.pi * family.unit_noise**2)", "-5.0"),
)
fault(
    "components become dormant while they matter (linear, core)",
    f"{POOL}::test_a_component_that_matters_is_never_dormant[60]",
    edit(f"{CORE}._limits", "DORMANT_LIMIT", "DORMANT_LIMIT / 4"),
)
