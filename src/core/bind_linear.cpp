// Bindings of linear rewards with Gaussian or Student noise.
#include <mutex>
#include <numeric>
#include <optional>

#include "binding.hpp"
#include "choice.hpp"
#include "generator.hpp"
#include "linear.hpp"
#include "linear_actions.hpp"

namespace mixts {

namespace {

// Whether an observation is small enough for a triangle; NaN is not.
bool is_learnable(const double *a, Index d, double y) {
    double size = std::abs(y);
    for (Index k = 0; k < d; ++k) size += std::abs(a[k]);
    return size <= LARGEST;
}

// Larger counts are refused: 64-bit integers must not overflow.
constexpr Index LARGEST_TOTAL = Index{1} << 62;

// Rotate checked observations into the triangles of their tasks, one after the other.
void fold_rows(Array<const Index, 1> tasks, Array<const double, 2> features, Array<const double, 1> outcomes,
               Array<Index, 1> count, Array<double, 3> factor) {
    const auto index = view(tasks);
    const auto rows = view(features);
    const auto rewards = view(outcomes);
    const auto counts = view(count);
    const auto factors = view(factor);
    check_size("features", rows.n, index.n);
    check_size("outcomes", rewards.n, index.n);
    check_size("factor", factors.n, counts.n);
    check_size("a row of the factor", factors.m, rows.m + 1);
    check_size("a column of the factor", factors.k, rows.m + 1);
    check_indices("tasks", index, counts.n);
    for (const Index t : index)
        if (counts[t] > LARGEST_TOTAL) throw nb::value_error("count must be at most 2^62");
    std::vector<double> row(static_cast<std::size_t>(rows.m + 1));
    nb::gil_scoped_release release;
    for (Index i = 0; i < index.n; ++i) {
        fold_row(factors[index[i]], rows.row(i).data, rewards[i], row.data());
        counts[index[i]] += 1;
    }
}

// The prior's arrays, kept alive, and their views once they are checked.
struct CheckedPrior {
    Array<const double, 2> mean, roots;
    Array<const Index, 1> starts, members;
    Array<const double, 1> log_weights, degrees, unit;
    std::vector<Index> group_of;
    LinearPrior prior;

    CheckedPrior(Array<const double, 2> mean_, Array<const double, 2> roots_, Array<const Index, 1> starts_,
                 Array<const Index, 1> members_, Array<const double, 1> log_weights_, double noise_std,
                 Array<const double, 1> degrees_, Array<const double, 1> unit_)
        : mean(mean_), roots(roots_), starts(starts_), members(members_), log_weights(log_weights_),
          degrees(degrees_), unit(unit_) {
        prior = {view(mean), view(roots), view(starts), view(members), {}, view(log_weights), noise_std,
                 noise_std * noise_std, view(degrees), view(unit)};
        const Index n = prior.mean.n, n_groups = prior.roots.n;
        if (n == 0 || prior.mean.m == 0) throw nb::value_error("mean must have components and features");
        check_size("a root", prior.roots.m, packed_size(prior.mean.m));
        check_size("starts", prior.starts.n, n_groups + 1);
        check_size("members", prior.members.n, n);
        check_size("log_weights", prior.log_weights.n, n);
        check_size("unit", prior.unit.n, prior.degrees.n);
        if (prior.noise_is_unknown()) check_size("degrees", prior.degrees.n, n);
        if (!(noise_std > 0.0)) throw nb::value_error("noise_std must be positive");
        check_size("the first of starts", prior.starts[0], 0);
        check_size("the last of starts", prior.starts[n_groups], n);
        group_of.assign(static_cast<std::size_t>(n), -1);
        for (Index g = 0; g < n_groups; ++g) {
            if (prior.starts[g] >= prior.starts[g + 1] || prior.starts[g + 1] > n)
                throw nb::value_error("every group must have a member");
            for (Index j = prior.starts[g]; j < prior.starts[g + 1]; ++j) {
                check_index("members", prior.members[j], n);
                group_of[static_cast<std::size_t>(prior.members[j])] = g;
            }
        }
        if (std::count(group_of.begin(), group_of.end(), -1) > 0)
            throw nb::value_error("every component must be the member of a group");
        prior.group_of = {group_of.data(), n};
    }
};

// The posteriors of the tasks of a belief. One thread at a time: a method holds the mutex.
class LinearCore {
  public:
    Index last_latent = 0;

    LinearCore(Array<const double, 2> mean, Array<const double, 2> roots, Array<const Index, 1> starts,
               Array<const Index, 1> members, Array<const double, 1> log_weights, double noise_std,
               Array<const double, 1> degrees, Array<const double, 1> unit, double limit, double margin, double gain,
               Index refresh, Index n_slots)
        : checked_(mean, roots, starts, members, log_weights, noise_std, degrees, unit),
          posterior_(checked_.prior, {limit, margin, gain, std::max<Index>(refresh, 1), std::max<Index>(n_slots, 1)}),
          d_(checked_.prior.mean.m), n_components_(checked_.prior.mean.n),
          theta_(static_cast<std::size_t>(d_)), weights_(static_cast<std::size_t>(n_components_)),
          ndarray_(nb::module_::import_("numpy").attr("ndarray")) {}

    // Work on these arrays of the tasks from now on. Read-only statistics can be read, not updated.
    void bind(nb::object given_counts, nb::object given_factor, Array<double, 2> evidence, Array<double, 2> misfit) {
        Array<const Index, 1> counts;
        Array<const double, 3> factor;
        if (!nb::try_cast(given_counts, counts, false) || !nb::try_cast(given_factor, factor, false))
            throw nb::type_error("expected count (n,) of int64 and factor (n, d + 1, d + 1) of float64");
        const std::lock_guard guard(mutex_);
        const Index n = static_cast<Index>(counts.shape(0));
        if (n < posterior_.histories.counts.n) throw nb::value_error("tasks cannot be removed");
        check_size("factor", static_cast<Index>(factor.shape(0)), n);
        check_size("a row of the factor", static_cast<Index>(factor.shape(1)), d_ + 1);
        check_size("a column of the factor", static_cast<Index>(factor.shape(2)), d_ + 1);
        check_size("evidence", static_cast<Index>(evidence.shape(0)), n);
        check_size("a row of the evidence", static_cast<Index>(evidence.shape(1)), n_components_);
        check_size("misfit", static_cast<Index>(misfit.shape(0)), n);
        check_size("a row of the misfit", static_cast<Index>(misfit.shape(1)), checked_.prior.degrees.n);
        counts_ = counts, factor_ = factor, evidence_ = evidence, misfit_ = misfit;
        Array<Index, 1> writable_counts;
        Array<double, 3> writable_factor;
        is_writable_ = nb::try_cast(given_counts, writable_counts, false) &&
                       nb::try_cast(given_factor, writable_factor, false);
        posterior_.bind({{const_cast<Index *>(counts.data()), n},
                         {const_cast<double *>(factor.data()), n, d_ + 1, d_ + 1},
                         view(evidence), view(misfit)});
    }

    Index n_resident() {
        const std::lock_guard guard(mutex_);
        return posterior_.n_resident();
    }

    void evaluate() {
        const std::lock_guard guard(mutex_);
        posterior_.evaluate();
    }

    void forget() {
        const std::lock_guard guard(mutex_);
        posterior_.forget();
    }

    void log_evidence(Array<double, 2> out) {
        const auto found = view(out);
        check_size("out", found.n, n_tasks());
        check_size("a row of out", found.m, n_components_);
        const std::lock_guard guard(mutex_);
        posterior_.evaluate();
        for (Index t = 0; t < found.n; ++t) posterior_.log_evidence(t, found.row(t).data);
    }

    // Learn observations, all of them, or none if one is too large: return -1, or the first of these.
    Index update(Array<const Index, 1> tasks, Array<const double, 2> features, Array<const double, 1> outcomes) {
        const auto index = view(tasks);
        const auto rows = view(features);
        const auto rewards = view(outcomes);
        check_size("features", rows.n, index.n);
        check_size("outcomes", rewards.n, index.n);
        check_size("a row of features", rows.m, d_);
        check_tasks(index);
        check_writable();
        for (Index i = 0; i < index.n; ++i)
            if (!is_learnable(rows.row(i).data, d_, rewards[i])) return i;
        const std::lock_guard guard(mutex_);
        posterior_.evaluate();
        for (Index i : in_order(index)) posterior_.observe(index[i], rows.row(i).data, rewards[i]);
        return -1;
    }

    // Recompute tasks whose statistics the caller has changed.
    void recompute(Array<const Index, 1> tasks) {
        const auto index = view(tasks);
        check_tasks(index);
        const std::lock_guard guard(mutex_);
        for (Index t : index) posterior_.recompute(t);
    }

    // Turn draws x (m, d) into coefficients of the component of each task; zeros become means.
    void place(Array<const Index, 1> tasks, Array<const Index, 1> latent, Array<double, 2> x) {
        const auto index = view(tasks);
        const auto states = view(latent);
        const auto draws = view(x);
        check_size("latent", states.n, index.n);
        check_size("x", draws.n, index.n);
        check_size("a row of x", draws.m, d_);
        check_tasks(index);
        check_indices("latent", states, n_components_);
        const std::lock_guard guard(mutex_);
        posterior_.evaluate();
        for (Index i : in_order(index)) posterior_.place(index[i], states[i], draws.row(i).data);
    }

    // Set out (m, L, d) to the posterior means.
    void means(Array<const Index, 1> tasks, Array<double, 3> out) {
        const auto index = view(tasks);
        const auto found = view(out);
        check_size("out", found.n, index.n);
        check_size("a matrix of out", found.m, n_components_);
        check_size("a row of out", found.k, d_);
        check_tasks(index);
        const std::lock_guard guard(mutex_);
        posterior_.evaluate();
        for (Index i : in_order(index))
            for (Index s = 0; s < n_components_; ++s) posterior_.mean(index[i], s, found[i].row(s).data);
    }

    // Set out (m, G, d (d + 1) / 2), zeros, to the packed posterior roots of groups that are not dormant.
    void roots(Array<const Index, 1> tasks, Array<double, 3> out) {
        const auto index = view(tasks);
        const auto found = view(out);
        check_size("out", found.n, index.n);
        check_size("a matrix of out", found.m, checked_.prior.n_groups());
        check_size("a row of out", found.k, packed_size(d_));
        check_tasks(index);
        const std::lock_guard guard(mutex_);
        posterior_.evaluate();
        for (Index i : in_order(index))
            for (Index g = 0; g < found.m; ++g)
                if (!posterior_.is_dormant(index[i], g))
                    std::copy_n(posterior_.settled_root(index[i], g), found.k, found[i].row(g).data);
    }

    // -- decisions --------------------------------------------------------------------------------

    // Draw components and parameters of m decisions, and find the best actions: return 0, 1 if some
    // decision has ties, or -1 - i if decision i has an available score that is not finite.
    Index decide(nb::object rng, Array<const Index, 1> tasks, Array<const double, 3> sets, Array<const bool, 2> mask,
                 Array<double, 2> scores, Array<Index, 1> best, Array<Index, 1> latent) {
        const auto index = view(tasks);
        const auto actions = view(sets);
        const auto values = view(scores);
        const auto chosen = view(best), states = view(latent);
        check_sets(actions, view(mask), index.n);
        check_size("scores", values.n, index.n);
        check_size("a row of scores", values.m, actions.m);
        check_size("best", chosen.n, index.n);
        check_size("latent", states.n, index.n);
        check_tasks(index);
        bitgen_t *bits = generator(rng);
        const std::lock_guard guard(mutex_);
        posterior_.evaluate();
        // In the order of the decisions, not of in_order: the draws must not depend on the slots.
        Index ties = 0;
        for (Index i = 0; i < index.n; ++i) {
            states[i] = draw_parameters(bits, index[i]);
            const bool *row = mask.shape(0) == 0 ? nullptr : view(mask).row(i).data;
            const Best found = best_product(theta_.data(), actions[actions.n == 1 ? 0 : i], row, values.row(i).data);
            if (found.bad) return -1 - i;
            chosen[i] = found.action;
            ties = found.tied ? 1 : ties;
        }
        return ties;
    }

    // The plain decision of a belief about one task; -1: the general path must decide or refuse.
    Index act_one(nb::object rng, nb::handle actions) {
        Array<const double, 2> set;
        if (n_tasks() != 1 || !is_array(actions) || !nb::try_cast(actions, set, false)) return -1;
        const auto rows = view(set);
        if (rows.m != d_ || rows.n == 0) return -1;
        bitgen_t *bits = generator(rng);
        const std::lock_guard guard(mutex_);
        posterior_.evaluate();
        scores_.resize(static_cast<std::size_t>(rows.n));
        const Index state = draw_parameters(bits, 0);
        const Best found = best_product(theta_.data(), rows, nullptr, scores_.data());
        if (found.bad) return -1;
        last_latent = state;
        return found.tied ? break_tie(bits, found.action) : found.action;
    }

    // Learn one observation of a belief about one task; false: the general path must learn or refuse it.
    bool update_one(nb::handle action, nb::handle outcome) {
        Array<const double, 1> row;
        if (n_tasks() != 1 || !is_writable_ || !is_array(action) || !nb::try_cast(action, row, false)) return false;
        if (!PyFloat_Check(outcome.ptr()) && !PyLong_CheckExact(outcome.ptr())) return false;
        const double y = PyFloat_AsDouble(outcome.ptr());
        if (y == -1.0 && PyErr_Occurred()) {
            PyErr_Clear();
            return false;
        }
        if (static_cast<Index>(row.shape(0)) != d_ || !is_learnable(row.data(), d_, y)) return false;
        const std::lock_guard guard(mutex_);
        posterior_.evaluate();
        posterior_.observe(0, row.data(), y);
        return true;
    }

    // Set mean and variance (m, L, K), zeros, of a'theta; an empty variance is not computed.
    void action_moments(Array<const Index, 1> tasks, Array<const double, 3> sets, Array<double, 3> mean,
                        Array<double, 3> variance) {
        const auto index = view(tasks);
        const auto actions = view(sets);
        const auto centers = view(mean), spreads = view(variance);
        check_sets(actions, {}, index.n);
        const auto check_moments = [&](const Cube<double> &found) {
            check_size("moments", found.n, index.n);
            check_size("a matrix of moments", found.m, n_components_);
            check_size("a row of moments", found.k, actions.m);
        };
        check_moments(centers);
        if (spreads.n != 0) check_moments(spreads);
        check_tasks(index);
        LinearActions compared(posterior_, actions.m);
        const nb::gil_scoped_release release;
        const std::lock_guard guard(mutex_);
        posterior_.evaluate();
        for (Index i : in_order(index)) {
            compared.load(actions[actions.n == 1 ? 0 : i], nullptr);
            compared.moments(index[i], centers[i].data, spreads.n == 0 ? nullptr : spreads[i].data);
        }
    }

    // Estimate from pairs (m, L) of draws which actions are best; out (3, m, K), zeros, are probabilities,
    // squared errors and regrets. Return -1, or the first decision with scores that are not finite.
    Index best_in_draws(nb::object rng, Array<const Index, 1> tasks, Array<const double, 2> weights,
                        Array<const Index, 2> pairs, Array<const double, 3> sets, Array<const bool, 2> mask,
                        Array<double, 3> out) {
        const auto index = view(tasks);
        const auto shares = view(weights);
        const auto numbers = view(pairs);
        const auto actions = view(sets);
        const auto available = view(mask);
        const auto found = view(out);
        check_sets(actions, available, index.n);
        check_size("mask", available.n, index.n);
        check_size("weights", shares.n, index.n);
        check_size("a row of weights", shares.m, n_components_);
        check_size("pairs", numbers.n, index.n);
        check_size("a row of pairs", numbers.m, n_components_);
        check_size("out", found.n, 3);
        check_size("a matrix of out", found.m, index.n);
        check_size("a row of out", found.k, actions.m);
        check_tasks(index);
        for (Index i = 0; i < numbers.n * numbers.m; ++i)
            if (numbers.data[i] < 0 || numbers.data[i] > 1'000'000'000)
                throw nb::value_error("pairs must be from 0 to 1e9");
        for (Index i = 0; i < available.n; ++i)
            if (std::count(available.row(i).begin(), available.row(i).end(), true) == 0)
                throw nb::value_error("every decision needs an available action");
        bitgen_t *bits = generator(rng);
        LinearActions compared(posterior_, actions.m);
        // Other threads may run meanwhile, but not draw from the same generator.
        const GeneratorLock lock(rng);
        Index bad = -1;
        {
            const nb::gil_scoped_release release;
            const std::lock_guard guard(mutex_);
            posterior_.evaluate();
            for (Index i = 0; i < index.n && bad < 0; ++i) {
                const Index t = index[i];
                const auto draw = [&](Index s, double *x) {
                    random_standard_normal_fill(bits, d_, x);
                    if (checked_.prior.noise_is_unknown()) scale(x, draw_noise(bits, t, s));
                };
                compared.load(actions[actions.n == 1 ? 0 : i], available.row(i).data);
                const ActionEstimates estimates{found[0].row(i).data, found[1].row(i).data, found[2].row(i).data};
                if (!compared.best_in_draws(t, shares.row(i).data, numbers.row(i).data, draw, estimates)) bad = i;
            }
        }
        return bad;
    }

  private:
    Index n_tasks() const { return posterior_.histories.counts.n; }

    bool is_array(nb::handle x) const { return x.type().is(ndarray_); }

    void check_writable() const {
        if (!is_writable_) throw nb::value_error("the statistics are read-only");
    }

    void check_tasks(const Vector<const Index> &tasks) const { check_indices("tasks", tasks, n_tasks()); }

    // Check action sets (1 or m, K, d) and a mask (m, K) or without rows.
    void check_sets(const Cube<const double> &sets, const Matrix<const bool> &mask, Index m) const {
        if (sets.n != 1) check_size("action sets", sets.n, m);
        if (sets.m == 0) throw nb::value_error("an action set must have an action");
        check_size("the features of an action", sets.k, d_);
        if (mask.n == 0) return;
        check_size("mask", mask.n, m);
        check_size("a row of the mask", mask.m, sets.m);
    }

    // Positions of tasks; if the slots do not suffice for all tasks, positions of one task come together.
    std::vector<Index> in_order(const Vector<const Index> &tasks) const {
        std::vector<Index> order(static_cast<std::size_t>(tasks.n));
        std::iota(order.begin(), order.end(), 0);
        if (n_tasks() > posterior_.limits.n_slots)
            std::stable_sort(order.begin(), order.end(), [&](Index i, Index j) { return tasks[i] < tasks[j]; });
        return order;
    }

    // Return the bit generator of a numpy Generator, which is remembered.
    bitgen_t *generator(const nb::object &rng) {
        if (!rng_.is(rng)) {
            bits_ = bit_generator(rng);
            rng_ = rng;
        }
        return bits_;
    }

    // Draw a component of a task, and its coefficients into theta; return the component.
    Index draw_parameters(bitgen_t *bits, Index t) {
        const double uniform = bits->next_double(bits->state);
        const Index s = pick_latent(checked_.prior.log_weights, posterior_.histories.evidence.row(t).data, uniform,
                                    weights_.data());
        random_standard_normal_fill(bits, d_, theta_.data());
        if (checked_.prior.noise_is_unknown()) scale(theta_.data(), draw_noise(bits, t, s));
        posterior_.place(t, s, theta_.data());
        return s;
    }

    // Draw the noise sigma of a task: unit / sigma^2 is chi-squared.
    double draw_noise(bitgen_t *bits, Index t, Index s) const {
        const double freedom = checked_.prior.degrees[s] + static_cast<double>(posterior_.histories.counts[t]);
        const double unit = checked_.prior.unit[s] + posterior_.histories.misfit(t, s);
        return std::sqrt(0.5 * unit / random_standard_gamma(bits, 0.5 * freedom));
    }

    void scale(double *x, double factor) const {
        for (Index k = 0; k < d_; ++k) x[k] *= factor;
    }

    // Take the action with the largest of independent uniform numbers among those of the largest score.
    Index break_tie(bitgen_t *bits, Index first) const {
        Index chosen = first;
        double luck = -1.0;
        for (std::size_t k = 0; k < scores_.size(); ++k) {
            const double uniform = bits->next_double(bits->state);
            if (scores_[k] == scores_[static_cast<std::size_t>(first)] && uniform > luck) {
                luck = uniform;
                chosen = static_cast<Index>(k);
            }
        }
        return chosen;
    }

    CheckedPrior checked_;
    Linear posterior_;
    Index d_, n_components_;
    std::vector<double> theta_, weights_, scores_;
    std::optional<Array<const Index, 1>> counts_;
    std::optional<Array<const double, 3>> factor_;
    std::optional<Array<double, 2>> evidence_, misfit_;
    bool is_writable_ = false;
    nb::object ndarray_, rng_;
    bitgen_t *bits_ = nullptr;
    std::mutex mutex_;
};

}  // namespace

void bind_linear(nb::module_ &m) {
    m.def("fold_rows", &fold_rows, nb::arg("tasks"), nb::arg("features"), nb::arg("outcomes"),
          nb::arg("count").noconvert(), nb::arg("factor").noconvert(),
          "Rotate observations into the triangles of their tasks.");
    nb::class_<LinearCore>(m, "Linear", "Posteriors of linear rewards, updated one observation at a time.")
        .def(nb::init<Array<const double, 2>, Array<const double, 2>, Array<const Index, 1>, Array<const Index, 1>,
                      Array<const double, 1>, double, Array<const double, 1>, Array<const double, 1>, double, double,
                      double, Index, Index>(),
             nb::arg("mean"), nb::arg("roots"), nb::arg("starts"), nb::arg("members"), nb::arg("log_weights"),
             nb::arg("noise_std"), nb::arg("degrees"), nb::arg("unit"), nb::arg("limit"), nb::arg("margin"),
             nb::arg("gain"), nb::arg("refresh"), nb::arg("n_slots"))
        .def("bind", &LinearCore::bind, nb::arg("count"), nb::arg("factor"), nb::arg("evidence").noconvert(),
             nb::arg("misfit").noconvert())
        .def("evaluate", &LinearCore::evaluate)
        .def("forget", &LinearCore::forget)
        .def("log_evidence", &LinearCore::log_evidence, nb::arg("out").noconvert())
        .def("update", &LinearCore::update)
        .def("recompute", &LinearCore::recompute)
        .def("place", &LinearCore::place, nb::arg("tasks"), nb::arg("latent"), nb::arg("x").noconvert())
        .def("means", &LinearCore::means, nb::arg("tasks"), nb::arg("out").noconvert())
        .def("roots", &LinearCore::roots, nb::arg("tasks"), nb::arg("out").noconvert())
        .def("decide", &LinearCore::decide, nb::arg("rng"), nb::arg("tasks"), nb::arg("sets"), nb::arg("mask"),
             nb::arg("scores").noconvert(), nb::arg("best").noconvert(), nb::arg("latent").noconvert())
        .def("act_one", &LinearCore::act_one, nb::arg("rng"), nb::arg("actions").none())
        .def("update_one", &LinearCore::update_one, nb::arg("action").none(), nb::arg("outcome").none())
        .def("action_moments", &LinearCore::action_moments, nb::arg("tasks"), nb::arg("sets"),
             nb::arg("mean").noconvert(), nb::arg("variance").noconvert())
        .def("best_in_draws", &LinearCore::best_in_draws, nb::arg("rng"), nb::arg("tasks"), nb::arg("weights"),
             nb::arg("pairs"), nb::arg("sets"), nb::arg("mask"), nb::arg("out").noconvert())
        .def_prop_ro("n_resident", &LinearCore::n_resident)
        .def_ro("last_latent", &LinearCore::last_latent);
}

}  // namespace mixts
