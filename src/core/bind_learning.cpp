// Bindings of sums over tasks that learning needs.
#include "binding.hpp"
#include "learning_arms.hpp"
#include "learning_counts.hpp"
#include "learning_linear.hpp"

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

void bound_log_rising(const Numbers1 &start, const Numbers1 &value, const Array<double, 1> &out) {
    check_size("value", value.shape(0), start.shape(0));
    check_size("out", out.shape(0), start.shape(0));
    const Vector<double> logs = view(out);
    for (Index i = 0; i < logs.n; ++i) logs[i] = log_rising(start.data()[i], value.data()[i]);
}

void bound_rising_sums(const Array<const Index, 1> &column, const Numbers1 &value, const Numbers2 &shares,
                       const Numbers2 &start, bool derivatives, const Array<double, 3> &out) {
    const Index n = value.shape(0), n_columns = start.shape(0), n_components = start.shape(1);
    check_size("column", column.shape(0), n);
    check_indices("column", view(column), n_columns);
    const auto by_entry = checked("shares", shares, n, n_components);
    const auto sums = checked("out", out, 3, n_columns, n_components);
    // Both functions step from an argument of at least 1e-300 to 10 by ones: no other bounds the steps.
    for (const double a : Vector<const double>{start.data(), n_columns * n_components})
        if (!(a > 0.0)) throw nb::value_error("start must be positive");
    for (const double v : view(value))
        if (!(v >= 0.0)) throw nb::value_error("value must not be negative");
    nb::gil_scoped_release release;
    rising_sums(view(column), view(value), by_entry, view(start), derivatives, sums);
}

// Arguments of arms: numbers of rewards and averages (n, K); means and variances (L, K).
struct Arms {
    ArmTasks tasks;
    ArmComponents components;
};

Arms checked_arms(const Array<const Index, 2> &count, const Numbers2 &average, const Numbers2 &mean,
                  const Numbers2 &variance, double noise) {
    const Index n_components = mean.shape(0), n_arms = mean.shape(1);
    const Matrix<const Index> counts = checked("count", count, count.shape(0), n_arms);
    return {{counts, checked("average", average, counts.n, n_arms)},
            {view(mean), checked("variance", variance, n_components, n_arms), noise}};
}

void bound_arm_evidence(const Array<const Index, 2> &count, const Numbers2 &average, const Numbers2 &mean,
                        const Numbers2 &variance, double noise, const Array<double, 2> &logs,
                        const Array<double, 2> &squares) {
    const Arms arms = checked_arms(count, average, mean, variance, noise);
    const Index n = arms.tasks.count.n, n_components = arms.components.mean.n;
    const auto to_logs = checked("logs", logs, n, n_components);
    const auto to_squares = checked("squares", squares, n, n_components);
    nb::gil_scoped_release release;
    arm_evidence(arms.tasks, arms.components, to_logs, to_squares);
}

double bound_arm_moments(const Array<const Index, 2> &count, const Numbers2 &average, const Numbers2 &share,
                         const Numbers2 &sharp, const Numbers2 &mean, const Numbers2 &variance, double noise,
                         const Array<double, 2> &tasks, const Array<double, 2> &sharps,
                         const Array<double, 2> &first, const Array<double, 2> &second) {
    const Arms arms = checked_arms(count, average, mean, variance, noise);
    const Index n = arms.tasks.count.n, n_components = arms.components.mean.n, n_arms = arms.components.mean.m;
    const auto shares = checked("share", share, n, n_components), sharper = checked("sharp", sharp, n, n_components);
    const ArmSums sums{checked("tasks", tasks, n_components, n_arms), checked("sharps", sharps, n_components, n_arms),
                       checked("first", first, n_components, n_arms), checked("second", second, n_components, n_arms)};
    nb::gil_scoped_release release;
    return arm_moments(arms.tasks, arms.components, shares, sharper, sums);
}

}  // namespace

void bind_learning(nb::module_ &m) {
    const auto array = [](const char *name) { return nb::arg(name).noconvert(); };
    m.def("linear_evidence", &bound_evidence, array("factor"), array("gram"), array("mean"), array("precision"),
          array("half_log_det"), nb::arg("noise"), array("out"), array("squares"),
          "Compute the parts of the evidence of linear tasks under each component.");
    m.def("posterior_moments", &bound_moments, array("factor"), array("gram"), array("share"), array("sharp"),
          array("mean"), array("precision"), nb::arg("noise"), array("first"), array("second"),
          array("within"), "Add posterior moments of linear tasks to sums; return the expected misfit.");
    m.def("log_rising", &bound_log_rising, array("start"), array("value"), array("out"),
          "Write ln Gamma(start + value) - ln Gamma(start).");
    m.def("rising_sums", &bound_rising_sums, array("column"), array("value"), array("shares"), array("start"),
          nb::arg("derivatives"), array("out"),
          "Sum shares times f(a + value) - f(a) over each column, for f = ln Gamma and its derivatives.");
    m.def("arm_evidence", &bound_arm_evidence, array("count"), array("average"), array("mean"),
          array("variance"), nb::arg("noise"), array("logs"), array("squares"),
          "Add the parts of the evidence of Gaussian arms under each component.");
    m.def("arm_moments", &bound_arm_moments, array("count"), array("average"), array("share"), array("sharp"),
          array("mean"), array("variance"), nb::arg("noise"), array("tasks"), array("sharps"),
          array("first"), array("second"), "Add posterior moments of Gaussian arms; return the expected misfit.");
}

}  // namespace mixts
