// Bindings of sums over tasks that learning needs.
#include "binding.hpp"
#include "learning.hpp"

namespace mixts {

namespace {

using Numbers1 = Array<const double, 1>;
using Numbers2 = Array<const double, 2>;
using Numbers3 = Array<const double, 3>;

// Raise ValueError unless an array (n, m, k) has these sizes.
template <class T>
Cube<T> checked(const char *name, const Array<T, 3> &x, Index n, Index m, Index k) {
    check_size(name, x.shape(0), n);
    check_size(name, x.shape(1), m);
    check_size(name, x.shape(2), k);
    return view(x);
}

template <class T>
Matrix<T> checked(const char *name, const Array<T, 2> &x, Index n, Index m) {
    check_size(name, x.shape(0), n);
    check_size(name, x.shape(1), m);
    return view(x);
}

LinearComponents checked_components(const Numbers2 &mean, const Numbers3 &precision, double noise) {
    const Index n = mean.shape(0), d = mean.shape(1);
    if (n < 1 || d < 1) throw nb::value_error("mean must have components and features");
    if (!(noise > 0.0)) throw nb::value_error("noise must be positive");
    return {view(mean), checked("precision", precision, precision.shape(0) == 1 ? 1 : n, d, d), noise};
}

LinearTasks checked_tasks(const Numbers3 &factor, const Numbers3 &gram, Index d) {
    const Index n = factor.shape(0);
    return {checked("factor", factor, n, d + 1, d + 1), checked("gram", gram, n, d, d)};
}

double bound_evidence(const Numbers3 &factor, const Numbers3 &gram, const Numbers2 &mean, const Numbers3 &precision,
                      const Numbers1 &half_log_det, double noise, const Array<double, 2> &out,
                      const Array<double, 2> &squares) {
    const LinearComponents components = checked_components(mean, precision, noise);
    const LinearTasks tasks = checked_tasks(factor, gram, components.mean.m);
    const Index n = tasks.factor.n, n_components = components.mean.n;
    check_size("half_log_det", half_log_det.shape(0), components.precision.n);
    const auto to_out = checked("out", out, n, n_components), to_squares = checked("squares", squares, n, n_components);
    nb::gil_scoped_release release;
    return linear_evidence(tasks, components, view(half_log_det), to_out, to_squares);
}

double bound_moments(const Numbers3 &factor, const Numbers3 &gram, const Numbers2 &share, const Numbers2 &sharp,
                     const Numbers2 &mean, const Numbers3 &precision, double noise, const Array<double, 2> &first,
                     const Array<double, 3> &second, const Array<double, 3> &within) {
    const LinearComponents components = checked_components(mean, precision, noise);
    const Index n_components = components.mean.n, d = components.mean.m;
    const LinearTasks tasks = checked_tasks(factor, gram, d);
    const auto shares = checked("share", share, tasks.factor.n, n_components);
    const auto sharper = checked("sharp", sharp, tasks.factor.n, n_components);
    const LinearSums sums{checked("first", first, n_components, d), checked("second", second, n_components, d, d),
                          checked("within", within, components.precision.n, d, d)};
    nb::gil_scoped_release release;
    return posterior_moments(tasks, components, shares, sharper, sums);
}

}  // namespace

void bind_learning(nb::module_ &m) {
    m.def("linear_evidence", &bound_evidence, nb::arg("factor"), nb::arg("gram"), nb::arg("mean"), nb::arg("precision"),
          nb::arg("half_log_det"), nb::arg("noise"), nb::arg("out"), nb::arg("squares"),
          "Compute the parts of the evidence of linear tasks under each component.");
    m.def("posterior_moments", &bound_moments, nb::arg("factor"), nb::arg("gram"), nb::arg("share"), nb::arg("sharp"),
          nb::arg("mean"), nb::arg("precision"), nb::arg("noise"), nb::arg("first"), nb::arg("second"),
          nb::arg("within"), "Add posterior moments of linear tasks to sums; return the expected misfit.");
}

}  // namespace mixts
