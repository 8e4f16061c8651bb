// Bindings of independent arms: counts, evidence and decisions.
#include "arms.hpp"
#include "binding.hpp"
#include "quick.hpp"

#include <nanobind/stl/pair.h>

#include <memory>
#include <tuple>
#include <utility>

namespace mixts {

namespace {

using Counts = Array<Index, 2>;
using Reals = Array<double, 2>;
using Prior = Array<const double, 2>;
using Numbers = Array<const double, 1>;
using Indices = Array<const Index, 1>;

Index rows(const Counts &x) { return static_cast<Index>(x.shape(0)); }
Index columns(const Counts &x) { return static_cast<Index>(x.shape(1)); }

// Statistics are (tasks, K), all of one shape.
template <class T>
Matrix<T> statistics(const Array<T, 2> &x, const Counts &like) {
    const Matrix<T> found = view(x);
    check_size("tasks of the statistics", found.n, rows(like));
    check_size("arms of the statistics", found.m, columns(like));
    return found;
}

Parameters parameters(const Prior &by_component, const Prior &by_arm, const Numbers &log_weights, const Counts &like) {
    const Parameters found{view(by_component), view(by_arm)};
    const Index n_components = view(log_weights).n, n_arms = columns(like);
    check_size("components", found.by_component.n, n_components);
    check_size("arms", found.by_component.m, n_arms);
    check_size("arms", found.by_arm.n, n_arms);
    check_size("components", found.by_arm.m, n_components);
    return found;
}

Observations observations(const Indices &tasks, const Indices &arms, const Numbers &outcomes, Index n_tasks) {
    const Observations seen{view(tasks), view(arms), view(outcomes)};
    check_size("arms", seen.arms.n, seen.tasks.n);
    check_size("outcomes", seen.outcomes.n, seen.tasks.n);
    check_indices("tasks", seen.tasks, n_tasks);
    return seen;
}

// Keep arrays, which numpy owns, alive as long as the views of them.
template <class... Arrays>
std::shared_ptr<void> keep(const Arrays &...arrays) {
    return std::make_shared<std::tuple<Arrays...>>(arrays...);
}

// Arms of one kind of rewards, with the log evidence of all tasks.
template <class Kind>
class Arms {
public:
    Arms(Kind kind, const Counts &like, const Numbers &log_weights, const Reals &evidence, const Reals &misfit,
         std::shared_ptr<void> arrays)
        : arrays_(std::move(arrays)), kind_(kind), log_weights_(view(log_weights)), evidence_(view(evidence)),
          misfit_(view(misfit)), n_tasks_(rows(like)), n_arms_(columns(like)), room_(log_weights_.n, n_arms_) {
        if (log_weights_.n < 1 || n_arms_ < 1) throw nb::value_error("there must be a component and an arm");
        for (const auto &sums : {evidence_, misfit_}) {
            check_size("tasks of the evidence", sums.n, n_tasks_);
            check_size("components of the evidence", sums.m, log_weights_.n);
        }
    }

    // Check all observations, then learn them in order; the index of the first bad one, or -1.
    Index observe(const Indices &tasks, const Indices &arms, const Numbers &outcomes) {
        const Observations seen = observations(tasks, arms, outcomes, n_tasks_);
        nb::gil_scoped_release release;
        const Index bad = first_bad(kind_, n_arms_, seen);
        if (bad >= 0) return bad;
        for (Index i = 0; i < seen.arms.n; ++i)
            learn(kind_, seen.tasks[i], seen.arms[i], seen.outcomes[i], sums(seen.tasks[i]));
        return -1;
    }

    // Compute the evidence of tasks from their statistics.
    void recompute(const Indices &tasks) {
        const auto index = view(tasks);
        check_indices("tasks", index, n_tasks_);
        nb::gil_scoped_release release;
        for (Index t : index) kind_.evidence(t, sums(t));
    }

    // Decide about tasks[first:last], with streams of their own from one word; several threads may.
    void decide_some(std::uint64_t word, Index first, Index last, const Indices &tasks,
                     const Array<const bool, 2> &mask, const Array<Index, 2> &chosen) const {
        const auto index = view(tasks);
        const auto available = view(mask);
        const auto out = view(chosen);
        if (first < 0 || last < first || last > index.n) throw nb::index_error("decisions out of range");
        check_indices("tasks", index.slice(first, last), n_tasks_);
        if (available.n > 0) {
            check_size("mask", available.n, index.n);
            check_size("a row of the mask", available.m, n_arms_);
        }
        check_size("chosen", out.n, 2);
        check_size("chosen", out.m, index.n);
        nb::gil_scoped_release release;
        Room room(log_weights_.n, n_arms_);
        for (Index i = first; i < last; ++i) {
            const bool *row = available.n > 0 ? available.row(i).data : nullptr;
            const Decision found = decide(kind_, log_weights_, index[i], sums(index[i]), n_arms_, row,
                                          Stream(word, i), room);
            out(0, i) = found.action;
            out(1, i) = found.latent;
        }
    }

    std::uint64_t word(nb::handle rng) { return words_.next(rng); }

    Index act_one(nb::handle rng, nb::handle actions) {
        if constexpr (Kind::DECIDES) {
            if (!actions.is_none() || n_tasks_ != 1) return -1;
            const Stream stream(words_.next(rng), 0);
            const Decision found = decide(kind_, log_weights_, 0, sums(0), n_arms_, nullptr, stream, room_);
            last_latent = found.latent;
            return found.action;
        }
        return -1;
    }

    bool update_one(nb::handle action, nb::handle outcome) {
        Index k = 0;
        double y = 0.0;
        if (n_tasks_ != 1 || !read_index(action, k) || !read_number(outcome, y)) return false;
        if (k < 0 || k >= n_arms_ || !kind_.accepts(0, k, y, y)) return false;
        learn(kind_, 0, k, y, sums(0));
        return true;
    }

    Index last_latent = 0;

private:
    Sums sums(Index t) const { return {evidence_.row(t).data, misfit_.row(t).data}; }

    std::shared_ptr<void> arrays_;
    Kind kind_;
    Vector<const double> log_weights_;
    Matrix<double> evidence_, misfit_;
    Index n_tasks_, n_arms_;
    Room room_;
    Words words_;
};

template <class Kind>
nb::class_<Arms<Kind>> bind_kind(nb::module_ &m, const char *name) {
    using Bound = Arms<Kind>;
    nb::class_<Bound> bound(m, name);
    if constexpr (Kind::DECIDES) bound.def("word", &Bound::word).def("decide", &Bound::decide_some);
    return bound.def("observe", &Bound::observe)
        .def("recompute", &Bound::recompute)
        .def("act_one", &Bound::act_one, nb::arg("rng"), nb::arg("actions").none())
        .def("update_one", &Bound::update_one, nb::arg("action"), nb::arg("outcome").none())
        .def_ro("last_latent", &Bound::last_latent);
}

// Check all observations, then count them; the index of the first bad one, or -1.
template <class Kind>
Index count(const Kind &kind, const Counts &like, const Indices &tasks, const Indices &arms, const Numbers &outcomes) {
    const Observations seen = observations(tasks, arms, outcomes, rows(like));
    nb::gil_scoped_release release;
    const Index bad = first_bad(kind, columns(like), seen);
    if (bad >= 0) return bad;
    for (Index i = 0; i < seen.arms.n; ++i) kind.count(seen.tasks[i], seen.arms[i], seen.outcomes[i]);
    return -1;
}

Moments moments(const Counts &counts, const Reals &averages, const Reals &squares) {
    return {view(counts), statistics(averages, counts), statistics(squares, counts)};
}

Index count_bernoulli(Indices tasks, Indices arms, Numbers outcomes, Counts successes, Counts failures) {
    const Bernoulli kind{view(successes), statistics(failures, successes), {}, {}};
    return count(kind, successes, tasks, arms, outcomes);
}

Index count_poisson(Indices tasks, Indices arms, Numbers outcomes, Counts counts, Counts totals, Reals logs) {
    const Poisson kind{view(counts), statistics(totals, counts), statistics(logs, counts), {}, {}};
    return count(kind, counts, tasks, arms, outcomes);
}

Index count_gaussian(Indices tasks, Indices arms, Numbers outcomes, Counts counts, Reals averages, Reals squares) {
    return count(moments(counts, averages, squares), counts, tasks, arms, outcomes);
}

void make_bernoulli(Arms<Bernoulli> *self, Numbers weights, Reals evidence, Counts successes, Counts failures,
                    Prior alpha, Prior beta, Prior alpha_by_arm, Prior beta_by_arm) {
    const Bernoulli kind{view(successes), statistics(failures, successes),
                         parameters(alpha, alpha_by_arm, weights, successes),
                         parameters(beta, beta_by_arm, weights, successes)};
    new (self) Arms<Bernoulli>(kind, successes, weights, evidence, evidence,
                               keep(weights, evidence, successes, failures, alpha, beta, alpha_by_arm, beta_by_arm));
}

void make_poisson(Arms<Poisson> *self, Numbers weights, Reals evidence, Counts counts, Counts totals, Reals logs,
                  Prior shape, Prior rate, Prior shape_by_arm, Prior rate_by_arm) {
    const Poisson kind{view(counts), statistics(totals, counts), statistics(logs, counts),
                       parameters(shape, shape_by_arm, weights, counts),
                       parameters(rate, rate_by_arm, weights, counts)};
    new (self) Arms<Poisson>(kind, counts, weights, evidence, evidence,
                             keep(weights, evidence, counts, totals, logs, shape, rate, shape_by_arm, rate_by_arm));
}

void make_gaussian(Arms<Gaussian> *self, Numbers weights, Reals evidence, Counts counts, Reals averages, Reals squares,
                   Prior mean, Prior variance, Prior mean_by_arm, Prior variance_by_arm, double noise) {
    const Gaussian kind{moments(counts, averages, squares), parameters(mean, mean_by_arm, weights, counts),
                        parameters(variance, variance_by_arm, weights, counts), noise};
    new (self) Arms<Gaussian>(kind, counts, weights, evidence, evidence,
                              keep(weights, evidence, counts, averages, squares, mean, variance, mean_by_arm,
                                   variance_by_arm));
}

void make_student(Arms<Student> *self, Numbers weights, Reals evidence, Reals misfit, Counts counts, Reals averages,
                  Reals squares, Prior mean, Prior ratio, Prior mean_by_arm, Prior ratio_by_arm, Numbers degrees,
                  Numbers units) {
    const Student kind{moments(counts, averages, squares), parameters(mean, mean_by_arm, weights, counts),
                       parameters(ratio, ratio_by_arm, weights, counts), view(degrees), view(units)};
    check_size("degrees", kind.degrees.n, view(weights).n);
    check_size("units", kind.units.n, view(weights).n);
    new (self) Arms<Student>(kind, counts, weights, evidence, misfit,
                             keep(weights, evidence, misfit, counts, averages, squares, mean, ratio, mean_by_arm,
                                  ratio_by_arm, degrees, units));
}

Index count_spend(Indices tasks, Indices arms, Numbers outcomes, Counts purchases, Counts misses, Reals averages,
                  Reals squares) {
    const Spend kind{moments(purchases, averages, squares), statistics(misses, purchases), {}, {}, {}, {}, {}, {}, {},
                     {}, {}};
    return count(kind, purchases, tasks, arms, outcomes);
}

// Parameters (K, L) of spends.
Matrix<const double> by_arm(const Prior &x, const Numbers &log_weights, const Counts &like) {
    const auto found = view(x);
    check_size("arms", found.n, columns(like));
    check_size("components", found.m, view(log_weights).n);
    return found;
}

void make_spend(Arms<Spend> *self, Numbers weights, Reals evidence, Counts purchases, Counts misses, Reals averages,
                Reals squares, Prior alpha, Prior beta, Prior log_spend, Prior strength, Prior shape, Prior scale,
                Prior norm, Numbers logs, Numbers inverses) {
    const auto own = [&](const Prior &x) { return by_arm(x, weights, purchases); };
    const Spend kind{moments(purchases, averages, squares), statistics(misses, purchases), own(alpha), own(beta),
                     own(log_spend), own(strength), own(shape), own(scale), own(norm), view(logs), view(inverses)};
    check_size("inverses", kind.inverses.n, kind.logs.n);
    if (kind.logs.n < 1 || kind.logs.n > Spend::MOST_LEVELS) throw nb::value_error("too many levels, or none");
    new (self) Arms<Spend>(kind, purchases, weights, evidence, evidence,
                           keep(weights, evidence, purchases, misses, averages, squares, alpha, beta, log_spend,
                                strength, shape, scale, norm, logs, inverses));
}

std::pair<double, double> bounds(Index form, double a, double b) {
    const bool beta = form == static_cast<Index>(Form::LOGIT_BETA);
    const auto [low, high] = beta ? bounds_of_rests<Form::LOGIT_BETA>(a, b) : bounds_of_rests<Form::LOG_GAMMA>(a, b);
    return {low, high};
}

}  // namespace

void bind_arms(nb::module_ &m) {
    m.def("count_bernoulli", &count_bernoulli, "Count rewards 0 and 1; return the first bad one, or -1.");
    m.def("count_poisson", &count_poisson, "Count whole numbers; return the first bad one, or -1.");
    m.def("count_gaussian", &count_gaussian, "Count real rewards; return the first bad one, or -1.");
    m.def("count_spend", &count_spend, "Count spends and misses; return the first bad one, or -1.");
    m.def("bounds_of_rests", &bounds, "Return the bounds of Stirling's remainders that the decision loop uses.");
    bind_kind<Bernoulli>(m, "BernoulliArms").def("__init__", &make_bernoulli);
    bind_kind<Poisson>(m, "PoissonArms").def("__init__", &make_poisson);
    bind_kind<Gaussian>(m, "GaussianArms").def("__init__", &make_gaussian);
    bind_kind<Student>(m, "StudentArms").def("__init__", &make_student);
    bind_kind<Spend>(m, "SpendArms").def("__init__", &make_spend);
}

}  // namespace mixts
