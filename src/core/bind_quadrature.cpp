// Bindings of P(an arm is best), E[the best mean], mixtures of normal distributions, and the
// information ratio.
#include "binding.hpp"
#include "information_ratio.hpp"
#include "normal_mixtures.hpp"
#include "quadrature.hpp"

namespace mixts {

namespace {

using namespace nanobind::literals;

using Doubles = Array<const double, 2>;
using Masks = Array<const bool, 2>;

// An argument that must be an array of this very type: a converted copy would not be written to.
auto array(const char *name) { return nb::arg(name).noconvert(); }

// Views (m, L, K) of both parameters of arms, (2, m, L, K).
struct Parameters {
    Cube<const double> a, b;
};

Parameters views_of(const Array<const double, 4> &parameters, Index m, Index n_components) {
    check_size("the first axis of parameters", parameters.shape(0), 2);
    check_size("the second axis of parameters", parameters.shape(1), m);
    check_size("the third axis of parameters", parameters.shape(2), n_components);
    const Index n_arms = parameters.shape(3), size = m * n_components * n_arms;
    return {{parameters.data(), m, n_components, n_arms}, {parameters.data() + size, m, n_components, n_arms}};
}

void check_shape(const char *name, const Matrix<const bool> &mask, Index n, Index m) {
    check_size(name, n, mask.n);
    check_size(name, m, mask.m);
}

void bind_best_arms(Index form, const Array<const double, 4> &parameters, const Doubles &weights, const Masks &mask,
                    const Array<double, 2> &chance, const Array<double, 1> &error, const Array<double, 1> &best) {
    const Index m = mask.shape(0), n_arms = mask.shape(1);
    const Parameters both = views_of(parameters, m, weights.shape(1));
    check_size("the last axis of parameters", both.a.k, n_arms);
    check_size("weights", weights.shape(0), m);
    check_shape("chance", view(mask), chance.shape(0), chance.shape(1));
    check_size("error", error.shape(0), m);
    check_size("best", best.shape(0), m);
    check_index("form", form, 4);
    const Decisions given{both.a, both.b, view(weights), view(mask)};
    const BestArms out{view(chance), view(error), view(best)};
    nb::gil_scoped_release released;
    switch (static_cast<Form>(form)) {
        case Form::NORMAL: return best_arms<Form::NORMAL>(given, out);
        case Form::LOGIT_BETA: return best_arms<Form::LOGIT_BETA>(given, out);
        case Form::LOG_GAMMA: return best_arms<Form::LOG_GAMMA>(given, out);
        case Form::MINUS_LOG_GAMMA: return best_arms<Form::MINUS_LOG_GAMMA>(given, out);
    }
}

void bind_quantiles(const Doubles &weights, const Array<const double, 4> &parameters,
                    const Array<const double, 1> &probability, const Array<const double, 1> &standard, double least,
                    const Array<double, 2> &out) {
    const Index m = weights.shape(0);
    const Parameters both = views_of(parameters, m, weights.shape(1));
    check_size("probability", probability.shape(0), m);
    check_size("standard", standard.shape(0), m);
    check_size("the first axis of out", out.shape(0), m);
    check_size("the second axis of out", out.shape(1), both.a.k);
    nb::gil_scoped_release released;
    mixture_quantiles(view(weights), both.a, both.b, view(probability), view(standard), least, view(out));
}

void bind_estimates(const Doubles &weights, const Array<const double, 4> &parameters, double noise,
                    const Array<const double, 3> &averages, const Array<const Index, 1> &n_more,
                    const Array<double, 3> &out) {
    const Index m = weights.shape(0);
    const Parameters both = views_of(parameters, m, weights.shape(1));
    check_size("the first axis of averages", averages.shape(0), m);
    check_size("the last axis of averages", averages.shape(2), both.a.k);
    check_size("n_more", n_more.shape(0), m);
    for (int axis = 0; axis < 3; ++axis) check_size("an axis of out", out.shape(axis), averages.shape(axis));
    nb::gil_scoped_release released;
    estimates(view(weights), both.a, both.b, noise, view(averages), view(n_more), view(out));
}

void bind_least_ratio(const Doubles &regrets, const Doubles &informations, const Masks &mask,
                      const Array<double, 2> &probabilities) {
    const Matrix<const bool> available = view(mask);
    check_shape("regrets", available, regrets.shape(0), regrets.shape(1));
    check_shape("informations", available, informations.shape(0), informations.shape(1));
    check_shape("probabilities", available, probabilities.shape(0), probabilities.shape(1));
    nb::gil_scoped_release released;
    least_ratio(view(regrets), view(informations), available, view(probabilities));
}

void bind_elementary(const Array<const double, 1> &x, const Array<double, 2> &out) {
    check_size("the first axis of out", out.shape(0), 3);
    check_size("the second axis of out", out.shape(1), x.shape(0));
    const Matrix<double> found = view(out);
    for (Index j = 0; j < found.m; ++j) {
        found(0, j) = fast_exp(x.data()[j]);
        found(1, j) = fast_expm1(x.data()[j]);
        found(2, j) = fast_log1p(x.data()[j]);
    }
}

}  // namespace

void bind_quadrature(nb::module_ &m) {
    m.def("best_arms", bind_best_arms, "form"_a, array("parameters"), array("weights"), array("mask"), array("chance"), array("error"),
          array("best"),
          "Write P(arm is best) (m, K), the errors of these chances (m,), and E[best mean] (m,), of arms with\n"
          "parameters (2, m, L, K) and weights (m, L), among those of the mask (m, K).");
    m.def("mixture_quantiles", bind_quantiles, array("weights"), array("parameters"), array("probability"), array("standard"), "least"_a,
          array("out"), "Write the quantiles (m, K) of mixtures of normal distributions.");
    m.def("estimates", bind_estimates, array("weights"), array("parameters"), "noise"_a, array("averages"), array("n_more"), array("out"),
          "Write E[theta_a | the average of n_more rewards of a], (m, n, K), for mixtures of normal distributions.");
    m.def("least_ratio", bind_least_ratio, array("regrets"), array("informations"), array("mask"), array("probabilities"),
          "Write the probabilities (m, K) that minimise regret^2 / information.");
    m.def("elementary_functions", bind_elementary, array("x"), array("out"),
          "Write e^x, e^x - 1 and ln(1 + x), (3, n), as the quadrature computes them: for tests.");
}

}  // namespace mixts
