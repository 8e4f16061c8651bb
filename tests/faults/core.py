"""Faults inside the compiled core, which is built with each of them."""

from __future__ import annotations

from tests.faults.catalogue import fault
from tests.faults.inject import CoreEdit

ARMS = "tests/unit/test_core_arms.py"
LINEAR = "tests/unit/test_core_linear.py"
LEARNING = "tests/unit/test_core_learning.py"

# -- arms -----------------------------------------------------------------------------------------

fault(
    "the evidence of a reward forgets earlier misses (core, bernoulli)",
    f"{ARMS}::test_both_programs_agree[bernoulli]",
    CoreEdit("arms.hpp", "real(successes(t, k) + failures(t, k))", "real(successes(t, k))"),
)
fault(
    "the evidence of statistics counts one reward of an arm (core, gaussian)",
    f"{ARMS}::test_both_programs_agree[gaussian]",
    CoreEdit("arms.hpp", "fast_log1p(n * v[s] / sigma2)", "fast_log1p(v[s] / sigma2)"),
)
fault(
    "the misfit of earlier rewards is forgotten (core, student)",
    f"{ARMS}::test_both_programs_agree[student]",
    CoreEdit(
        "arms.hpp",
        "sums.misfit[s] += square;\n        }\n    }",
        "sums.misfit[s] = square;\n        }\n    }",
    ),
)
fault(
    "arms are drawn with the prior variance (core, gaussian)",
    "tests/statistical/test_decisions.py::test_many_decisions_have_the_law_of_the_quadrature",
    CoreEdit("arms.hpp", "b[k] = v * sigma2 / total;", "b[k] = v;"),
)
fault(
    "every draw from the envelope of an arm is kept (core)",
    f"{ARMS}::test_decisions_have_their_probabilities",
    CoreEdit("best_arm.hpp", "return kept ? t : -INF;", "return kept || t > best ? t : -INF;"),
)
fault(
    "the latent state is drawn without the prior weights (core)",
    f"{ARMS}::test_decisions_have_their_probabilities",
    CoreEdit("choice.hpp", "= log_weights[s] + relative[s];", "= relative[s];"),
)
fault(
    "the first of equal scores counts as the only one (core)",
    "tests/unit/agents/test_mixts.py::test_ties_are_broken_at_random",
    CoreEdit("choice.hpp", "best.tied = true;", "best.tied = false;"),
)

# -- linear rewards -------------------------------------------------------------------------------

fault(
    "the evidence lacks a part of the log determinant (core, linear)",
    f"{LINEAR}::test_both_programs_have_the_same_evidence",
    CoreEdit(
        "linear_evidence.hpp", "half_log_det_ += std::log(norm);", "half_log_det_ = std::log(norm);"
    ),
)
fault(
    "components of one covariance get the mean of the first (core, tied)",
    "tests/oracles/test_random_problems.py::test_short_histories",
    CoreEdit(
        "linear_evidence.hpp",
        "while (prior_.members[prior_.starts[g] + place - d_] != s) ++place;",
        "",
    ),
)
fault(
    "a draw keeps the spread from before the latest rewards (core, linear)",
    "tests/properties/test_runs.py::test_what_is_sampled_in_a_run_is_up_to_date",
    CoreEdit(
        "linear.hpp", "slot.shift[s] - along / (alpha", "slot.shift[s] - 0.0 * along / (alpha"
    ),
)
fault(
    "a dormant component never wakes (core, linear)",
    "tests/properties/test_dormant.py::test_it_is_sampled_with_its_whole_history",
    CoreEdit("linear.hpp", "own.ceiling[g] > enough) wake(", "own.ceiling[g] > INF) wake("),
)
fault(
    "equal actions get a whole vote each (core, linear)",
    "tests/unit/families/test_linear_actions.py",
    CoreEdit("linear_actions.hpp", "return 0.5 / n;", "return 0.5;"),
)
fault(
    "a single decision takes the first of equal actions (core, linear)",
    f"{LINEAR}::test_the_quick_path_decides_and_learns_as_the_general_one",
    CoreEdit("bind_linear.cpp", "found.tied ? break_tie(bits, found.action) :", ""),
)

# -- clicks ---------------------------------------------------------------------------------------

fault(
    "Laplace's evidence lacks the determinant (core, clicks)",
    "tests/oracles/test_linear_bernoulli.py::test_evidence_weights_and_click_rates",
    CoreEdit("logistic.hpp", "value -= std::log(w.factor_[j * r + j]);", ""),
)
fault(
    "every Metropolis move is accepted (core, clicks)",
    "tests/statistical/test_logistic_draws.py",
    CoreEdit("logistic_moments.hpp", "< total - present)", "< total - present + 1e9)"),
)
fault(
    "the click rate forgets the features that no row has shown (core, clicks)",
    "tests/oracles/test_logistic.py::test_click_rates_agree_with_grids",
    CoreEdit("logistic_moments.hpp", "beyond += head[j] * head[j];", ""),
)

# -- MDPs -----------------------------------------------------------------------------------------

fault(
    "the evidence of counts leaves out their total (core, MDP)",
    "tests/oracles/test_tabular.py::test_a_random_history",
    CoreEdit(
        "tabular.hpp", "return total - log_rising(sum, n);", "return total - log_rising(sum, 1.0);"
    ),
)
fault(
    "impossible transitions become possible once counted (core, MDP)",
    "tests/oracles/test_tabular.py::test_a_history_that_some_components_rule_out",
    CoreEdit("tabular.hpp", "count > 0.0 ? count +", "true ? count +"),
)
fault(
    "a plan sees one step ahead (core)",
    "tests/oracles/test_planning.py::test_the_plan_is_the_best_of_all_policies",
    CoreEdit(
        "planning.hpp",
        "value[x] = quality[x * n_actions + a];",
        "value[x] = mdp[x * n_actions + a];",
    ),
)
fault(
    "a tie between two actions is broken for the first one (core)",
    "tests/oracles/test_planning.py",
    CoreEdit("planning.hpp", "left-- == 0) return a;", "true) return a;"),
)

# -- learning -------------------------------------------------------------------------------------

fault(
    "the posterior variance of arms is forgotten (core, learning)",
    f"{LEARNING}::test_arms_agree",
    CoreEdit("learning_arms.hpp", "u * step * step + r * rest;", "u * step * step;"),
)
fault(
    "curvatures of counts are those of the first column (core, learning)",
    f"{LEARNING}::test_sums_of_counts_agree",
    CoreEdit("learning_counts.hpp", "if (c != last) {", "if (last < 0) {"),
)
fault(
    "lanes without a task are counted (core, learning)",
    f"{LEARNING}::test_linear_tasks_agree",
    CoreEdit("learning_linear.hpp", "lane < count; ++lane", "lane < LANES; ++lane"),
)

# -- probabilities of actions, and episodes -------------------------------------------------------

fault(
    "the quadrature leaves out the arms after an arm (core)",
    "tests/oracles/test_best_arms.py::test_two_arms",
    CoreEdit("cells.hpp", "after[j] *= row.cdf[j];", ""),
)
fault(
    "the ratio is not least between two actions (core)",
    "tests/unit/agents/test_ids.py::test_the_ratio_is_the_least_of_all_pairs",
    CoreEdit("information_ratio.hpp", "2.0 * information / g", "information / g"),
)
fault(
    "every episode starts in the first state (core)",
    "tests/unit/environments/test_mdp.py::test_episodes_have_the_law_of_their_mdp",
    CoreEdit("episodes.hpp", "draw_entry(initial, shape.n_states, uniform[0])", "0"),
)

# -- numbers from Python --------------------------------------------------------------------------

fault(
    "an index one too large is accepted (core)",
    f"{ARMS}::test_indices_out_of_range_are_refused",
    CoreEdit("binding.hpp", "if (i < 0 || i >= n)", "if (i < 0 || i > n)"),
)
