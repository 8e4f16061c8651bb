// Bindings of decisions: draw latent states, find the best of scores.
#include "binding.hpp"
#include "choice.hpp"

#include <vector>

namespace mixts {

namespace {

// Row i of a mask (m, K); a mask without rows means that every action is available.
const bool *mask_row(const Matrix<const bool> &mask, Index i) {
    return mask.n == 0 ? nullptr : mask.row(i).data;
}

void check_mask(const Matrix<const bool> &mask, Index rows, Index n_actions) {
    if (mask.n == 0) return;
    check_size("mask", mask.n, rows);
    check_size("a row of the mask", mask.m, n_actions);
}

void draw_latent(Array<const double, 1> log_weights, Array<const double, 2> relative, Array<const Index, 1> tasks,
                 Array<const double, 1> uniform, Array<Index, 1> latent) {
    const auto weights = view(log_weights), numbers = view(uniform);
    const auto evidence = view(relative);
    const auto index = view(tasks);
    const auto out = view(latent);
    check_size("a row of the evidence", evidence.m, weights.n);
    check_size("uniform", numbers.n, index.n);
    check_size("latent", out.n, index.n);
    check_indices("tasks", index, evidence.n);
    std::vector<double> scratch(static_cast<std::size_t>(weights.n));
    nb::gil_scoped_release release;
    for (Index i = 0; i < index.n; ++i)
        out[i] = pick_latent(weights, evidence.row(index[i]).data, numbers[i], scratch.data());
}

// Return 0, 1 if some row has ties, or -1 - i if row i has an available score that is not finite.
Index take_best(Array<const double, 2> scores, Array<const bool, 2> mask, Array<Index, 1> best) {
    const auto values = view(scores);
    const auto available = view(mask);
    const auto out = view(best);
    check_mask(available, values.n, values.m);
    check_size("best", out.n, values.n);
    Index ties = 0;
    for (Index i = 0; i < values.n; ++i) {
        const Best found = best_score(values.row(i).data, mask_row(available, i), values.m);
        if (found.bad) return -1 - i;
        out[i] = found.action;
        ties = found.tied ? 1 : ties;
    }
    return ties;
}

// The same for scores a'theta; theta (m, p) may have more than d entries: the first d count.
Index take_best_product(Array<const double, 2> theta, Array<const double, 3> sets, Array<const bool, 2> mask,
                        Array<double, 2> scores, Array<Index, 1> best) {
    const auto parameters = view(theta);
    const auto actions = view(sets);
    const auto available = view(mask);
    const auto values = view(scores);
    const auto out = view(best);
    if (actions.n != 1) check_size("action sets", actions.n, parameters.n);
    if (parameters.m < actions.k) throw nb::value_error("theta must have an entry for each feature");
    check_size("scores", values.n, parameters.n);
    check_size("a row of the scores", values.m, actions.m);
    check_mask(available, values.n, values.m);
    check_size("best", out.n, values.n);
    Index ties = 0;
    for (Index i = 0; i < values.n; ++i) {
        const Best found = best_product(parameters.row(i).data, actions[actions.n == 1 ? 0 : i],
                                        mask_row(available, i), values.row(i).data);
        if (found.bad) return -1 - i;
        out[i] = found.action;
        ties = found.tied ? 1 : ties;
    }
    return ties;
}

}  // namespace

void bind_choice(nb::module_ &m) {
    m.def("draw_latent", &draw_latent, "Draw S ~ P_t of each task by inversion of its weights.");
    m.def("take_best", &take_best, "Write the first available action of the largest score of each row.");
    m.def("take_best_product", &take_best_product, "Write scores a'theta, and the best action of each row.");
}

}  // namespace mixts
