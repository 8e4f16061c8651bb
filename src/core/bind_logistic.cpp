// Bindings of clicks with features.
#include "binding.hpp"
#include "generator.hpp"
#include "logistic_learning.hpp"
#include "logistic_moments.hpp"
#include "logistic_tables.hpp"

namespace mixts {
namespace {

using namespace logistic;

// A thread's temporary arrays.
Work &work() {
    thread_local Work found;
    return found;
}
Cloud &cloud() {
    thread_local Cloud found;
    return found;
}

// The prior and its points, registered once.
struct Design {
    Array<const double, 2> mean;
    Array<const double, 3> root;
    Array<const Index, 1> group_of;
    nb::object points_object;
    const Points &points;
    Prior prior;

    Design(Array<const double, 2> mean, Array<const double, 3> root, Array<const Index, 1> group_of, nb::object object)
        : mean(mean), root(root), group_of(group_of), points_object(object), points(nb::cast<const Points &>(object)),
          prior{view(mean), view(root), view(group_of)} {
        const Index d = prior.mean.m;
        if (d < 1) throw nb::value_error("the prior must have features");
        check_size("the first axis of points", points.d, d);
        check_size("root's second axis", prior.root.m, d);
        check_size("root's third axis", prior.root.k, d);
        check_size("group_of", prior.group_of.n, prior.mean.n);
        check_indices("group_of", prior.group_of, prior.root.n);
    }
    Index n_components() const { return prior.mean.n; }
    Index d() const { return prior.mean.m; }
};

using Rows = Array<const double, 2>;
using Counts = Array<const double, 1>;

Table table_of(const Design &design, const Rows &rows, const Counts &trials, const Counts &successes) {
    check_size("features", rows.shape(1), design.d());
    check_size("trials", trials.shape(0), rows.shape(0));
    check_size("successes", successes.shape(0), rows.shape(0));
    return {view(rows), view(trials), view(successes)};
}

// The most points that a doubling may use.
Index checked_most(Index most, Index capacity) {
    if (most < CHUNK || most % CHUNK != 0 || most > capacity)
        throw nb::value_error(("most must be a multiple of 128 up to " + std::to_string(capacity) + ", got " +
                               std::to_string(most)).c_str());
    return most;
}

// Posteriors of a task's components.
struct TaskPosterior {
    nb::object design_object;
    const Design &design;
    Posterior posterior;

    TaskPosterior(nb::object object, Index capacity)
        : design_object(object), design(nb::cast<const Design &>(object)),
          posterior(design.n_components(), design.d(), checked_most(capacity, design.points.n)) {}

    void load(const Rows &rows, const Counts &trials, const Counts &successes) {
        work().load(table_of(design, rows, trials, successes), posterior.capacity);
    }
    void check_wanted(const Array<const bool, 1> &wanted) const {
        check_size("wanted", wanted.shape(0), design.n_components());
    }
    void check_known() const {
        if (posterior.rank != work().r) throw nb::value_error("the table is not that of the posterior");
    }
};

void find_modes(TaskPosterior &task, Rows rows, Counts trials, Counts successes, Array<const bool, 1> wanted) {
    task.check_wanted(wanted);
    task.load(rows, trials, successes);
    Work &w = work();
    task.posterior.rank = w.r;
    for (Index g = 0; g < task.design.prior.root.n; ++g)
        for (Index s = 0; s < task.design.n_components(); ++s)
            if (task.design.prior.group_of[s] == g && wanted.data()[s]) find_mode(w, task.design.prior, s, task.posterior[s]);
}

void integrate_all(TaskPosterior &task, Rows rows, Counts trials, Counts successes, Array<const bool, 1> wanted,
                   double tolerance, Index most) {
    task.check_wanted(wanted);
    checked_most(most, task.posterior.capacity);
    task.load(rows, trials, successes);
    task.check_known();
    for (Index s = 0; s < task.design.n_components(); ++s)
        if (wanted.data()[s]) integrate(work(), task.design.points, task.posterior[s], tolerance, most);
}

void weigh_all(TaskPosterior &task, Rows rows, Counts trials, Counts successes, Array<const Index, 1> n_points) {
    check_size("n_points", n_points.shape(0), task.design.n_components());
    for (Index s = 0; s < task.design.n_components(); ++s)
        if (n_points.data()[s] != 0) checked_most(n_points.data()[s], task.posterior.capacity);
    task.load(rows, trials, successes);
    task.check_known();
    // Moments use at least the points of the evidence, and none of a component that was not asked for.
    for (Index s = 0; s < task.design.n_components(); ++s) {
        const Component component = task.posterior[s];
        const Index wanted = n_points.data()[s];
        weigh(work(), task.design.points, component, wanted);
        *component.n_used = wanted > 0 ? std::max(wanted, *component.n_points) : 0;
    }
}

Index draw_all(TaskPosterior &task, Rows rows, Counts trials, Counts successes, Array<const Index, 1> latent, nb::object rng,
               Array<double, 2> theta, double tolerance, Index most) {
    const Index d = task.design.d();
    check_indices("latent", view(latent), task.design.n_components());
    check_size("theta", theta.shape(0), latent.shape(0));
    check_size("theta's second axis", theta.shape(1), d);
    checked_most(most, task.posterior.capacity);
    task.load(rows, trials, successes);
    task.check_known();
    Work &w = work();
    for (Index s : view(latent))
        if (task.posterior.n_points[s] == 0) {
            find_mode(w, task.design.prior, s, task.posterior[s]);
            integrate(w, task.design.points, task.posterior[s], tolerance, most);
        }
    bitgen_t *generator = bit_generator(rng);
    thread_local std::vector<double> normals;
    normals.resize(N_MOVES * w.r + d - w.r);
    Index last = -1, accepted = 0;
    for (Index a = 0; a < static_cast<Index>(latent.shape(0)); ++a) {
        const Index s = latent.data()[a];
        if (s != last) prepare_draws(w, task.posterior[s]);
        last = s;
        double uniforms[1 + N_MOVES];
        for (double &u : uniforms) u = 1.0 - generator->next_double(generator->state);
        random_standard_normal_fill(generator, static_cast<std::intptr_t>(normals.size()), normals.data());
        accepted += draw(w, task.design.points, task.posterior[s], uniforms, normals.data(), theta.data() + a * d);
    }
    return accepted;
}

void check_moments(const TaskPosterior &task, Index s) {
    check_index("the component", s, task.design.n_components());
    if (task.posterior.n_used[s] == 0) throw nb::value_error("a component without points has no moments");
}

void set_rank(const TaskPosterior &task) {
    work().d = task.design.d();
    work().r = task.posterior.rank;
}

void parameter_moments_of(TaskPosterior &task, Index s, Array<double, 1> mean, Array<double, 2> covariance) {
    check_moments(task, s);
    check_size("mean", mean.shape(0), task.design.d());
    check_size("covariance", covariance.shape(0), task.design.d());
    check_size("covariance's second axis", covariance.shape(1), task.design.d());
    set_rank(task);
    parameter_moments(work(), cloud(), task.design.points, task.posterior[s], mean.data(), covariance.data());
}

// Set out (4, L, K) for the components with known points, zeros for others.
void action_moments_of(TaskPosterior &task, Rows actions, Array<double, 3> out) {
    const Index n = task.design.n_components(), k = actions.shape(0), d = task.design.d();
    check_size("features", actions.shape(1), d);
    check_size("out", out.shape(0), 4);
    check_size("out's second axis", out.shape(1), n);
    check_size("out's third axis", out.shape(2), k);
    set_rank(task);
    std::fill_n(out.data(), 4 * n * k, 0.0);
    for (Index s = 0; s < n; ++s) {
        if (task.posterior.n_used[s] == 0) continue;
        cloud().load(work(), task.design.points, task.posterior[s]);
        for (Index a = 0; a < k; ++a) {
            const RateMoments found =
                action_moments(work(), cloud(), task.design.points, task.posterior[s], actions.data() + a * d);
            const double values[] = {found.rate, found.rate_variance, found.mean, found.variance};
            for (Index i = 0; i < 4; ++i) out.data()[(i * n + s) * k + a] = values[i];
        }
    }
}

// Set out (L,) to the expected gains of the best action over the lead, zeros for components without points.
void gains_of(TaskPosterior &task, Rows actions, Array<const bool, 1> mask, Index lead, Array<double, 1> out) {
    check_size("features", actions.shape(1), task.design.d());
    check_size("mask", mask.shape(0), actions.shape(0));
    check_size("out", out.shape(0), task.design.n_components());
    check_index("the lead", lead, actions.shape(0));
    if (!mask.data()[lead]) throw nb::value_error("the lead must be available");
    set_rank(task);
    for (Index s = 0; s < task.design.n_components(); ++s) {
        out.data()[s] = 0.0;
        if (task.posterior.n_used[s] == 0) continue;
        cloud().load(work(), task.design.points, task.posterior[s]);
        out.data()[s] =
            expected_gain(work(), cloud(), task.design.points, task.posterior[s], view(actions), view(mask), lead);
    }
}

// Raise IndexError unless the tasks' first rows rise from 0 up to the number of rows.
void check_offsets(const Vector<const Index> &offsets, Index n_rows) {
    if (offsets.n < 1) throw nb::value_error("offsets must have the end of the last task");
    for (Index i = 0; i < offsets.n; ++i)
        if (offsets[i] < (i > 0 ? offsets[i - 1] : 0) || offsets[i] > n_rows)
            throw nb::index_error("offsets must rise from 0 to the number of rows");
}

// Predict all rows of tasks from the earlier rows of their task.
void predict(Array<const Index, 1> offsets, Rows rows, Counts trials, Counts successes, Array<const double, 2> mean,
             Array<const double, 3> covariance, Array<const double, 2> nodes, Array<double, 2> location,
             Array<double, 2> variance, Array<double, 2> log_mass, Array<double, 2> rate, Array<double, 2> rate_variance) {
    const Index n = rows.shape(0), d = mean.shape(1), n_components = mean.shape(0);
    check_offsets(view(offsets), n);
    check_size("features", rows.shape(1), d);
    check_size("trials", trials.shape(0), n);
    check_size("successes", successes.shape(0), n);
    check_size("covariance", covariance.shape(0), n_components);
    check_size("covariance's second axis", covariance.shape(1), d);
    check_size("covariance's third axis", covariance.shape(2), d);
    check_size("nodes", nodes.shape(0), 2);
    for (const auto *out : {&location, &variance, &log_mass, &rate, &rate_variance}) {
        check_size("predictions", out->shape(0), n);
        check_size("predictions' second axis", out->shape(1), n_components);
    }
    nb::gil_scoped_release released;
    predict_rows(view(offsets), {view(rows), view(trials), view(successes)}, view(mean), view(covariance), view(nodes),
                 {view(location), view(variance), view(log_mass), view(rate), view(rate_variance)});
}

// Compute the posteriors of the components that decisions need, and which of these are dormant.
//
// Components of little weight keep Laplace's evidence; the others get CHUNK points, and up to `most` where
// the error of the evidence could change a weight by more than a quarter of the tolerance. Given back:
// ceiling (L,), the log evidence when it was last computed, which every further click or silence lowers;
// and working (L,), the same, -inf where the component is dormant. Those are computed only if their ceiling
// may matter again.
void compute(TaskPosterior &task, Rows rows, Counts trials, Counts successes, Array<const double, 1> log_weights,
             Array<double, 1> ceiling, Array<double, 1> working, double margin, double tolerance, Index most) {
    const Index n = task.design.n_components();
    check_size("log_weights", log_weights.shape(0), n);
    check_size("ceiling", ceiling.shape(0), n);
    check_size("working", working.shape(0), n);
    checked_most(most, task.posterior.capacity);
    task.load(rows, trials, successes);
    compute_awake(work(), task.design.prior, task.design.points, task.posterior,
                  {view(log_weights), view(ceiling), view(working), margin, tolerance, most});
}

// Set evidence, errors and moments of many tasks; without points (most = 0), Laplace's. Pairs that are not wanted keep
// what they have. The search for modes starts at `start`, if that has tasks.
void moments_of_tasks(const Design &design, Array<const Index, 1> offsets, Rows rows, Counts trials, Counts successes,
                      double tolerance, Index most, Array<const bool, 2> wanted, Array<const double, 3> start,
                      Array<double, 2> log_evidence, Array<double, 2> error, Array<double, 3> mean,
                      Array<double, 4> covariance) {
    const Index n = static_cast<Index>(offsets.shape(0)) - 1, n_components = design.n_components(), d = design.d();
    check_offsets(view(offsets), rows.shape(0));
    if (most != 0) checked_most(most, design.points.n);
    const Table all = table_of(design, rows, trials, successes);
    check_size("wanted", wanted.shape(0), n);
    check_size("wanted's second axis", wanted.shape(1), n_components);
    const bool started = start.shape(0) > 0, with_moments = mean.shape(0) > 0;
    if (started) check_size("start", start.shape(0), n);
    check_size("start's second axis", start.shape(1), n_components);
    check_size("start's third axis", start.shape(2), d);
    check_size("log_evidence", log_evidence.shape(0), n);
    check_size("log_evidence's second axis", log_evidence.shape(1), n_components);
    check_size("error", error.shape(0), n);
    check_size("error's second axis", error.shape(1), n_components);
    if (with_moments) check_size("mean", mean.shape(0), n);
    check_size("mean's second axis", mean.shape(1), n_components);
    check_size("mean's third axis", mean.shape(2), d);
    check_size("covariance", covariance.shape(0), mean.shape(0));
    check_size("covariance's second axis", covariance.shape(1), n_components);
    check_size("covariance's third axis", covariance.shape(2), d);
    check_size("covariance's fourth axis", covariance.shape(3), d);
    nb::gil_scoped_release released;
    Work &w = work();
    Posterior posterior(n_components, d, std::max(most, CHUNK));
    for (Index i = 0; i < n; ++i) {
        const Index first = offsets.data()[i], size = offsets.data()[i + 1] - first;
        w.load({{all.rows.data + first * d, size, d}, all.trials.slice(first, first + size),
                all.successes.slice(first, first + size)}, std::max(most, CHUNK));
        for (Index s = 0; s < n_components; ++s) {
            const Component own = posterior[s];
            const Index pair = i * n_components + s;
            if (!wanted.data()[pair]) continue;
            find_mode(w, design.prior, s, own, started ? start.data() + pair * d : nullptr);
            if (most > 0) integrate(w, design.points, own, tolerance, most);
            log_evidence.data()[pair] = *own.log_evidence;
            error.data()[pair] = *own.error;
            if (!with_moments) continue;
            double *first_moment = mean.data() + pair * d, *second = covariance.data() + pair * d * d;
            if (most > 0) {
                parameter_moments(w, cloud(), design.points, own, first_moment, second);
                continue;
            }
            std::copy_n(own.location, d, first_moment);
            for (Index j = 0; j < d; ++j)
                for (Index k = 0; k <= j; ++k)
                    second[j * d + k] = second[k * d + j] = dot(own.direction + j * d, own.direction + k * d, d);
        }
    }
}

// Count observed rows in tables; return how many are counted when a table has no room left.
Index count(Index first, Array<const Index, 1> tasks, Rows features, Array<const Index, 1> trials,
            Array<const Index, 1> successes, Array<Index, 1> start, Array<Index, 1> size, Array<const Index, 1> room,
            Array<double, 2> rows, Array<Index, 1> all_trials, Array<Index, 1> all_successes) {
    const Index m = tasks.shape(0), n = start.shape(0), n_rows = rows.shape(0);
    check_index("first", first, m + 1);
    check_indices("tasks", view(tasks), n);
    check_size("features", features.shape(0), m);
    check_size("features' second axis", features.shape(1), rows.shape(1));
    check_size("trials", trials.shape(0), m);
    check_size("successes", successes.shape(0), m);
    check_size("size", size.shape(0), n);
    check_size("room", room.shape(0), n);
    check_size("all trials", all_trials.shape(0), n_rows);
    check_size("all successes", all_successes.shape(0), n_rows);
    for (Index i : view(tasks)) {
        const Index at = start.data()[i], fits = room.data()[i], used = size.data()[i];
        if (at < 0 || used < 0 || used > fits || fits > n_rows - at)
            throw nb::index_error("a task's rows must be within the table");
    }
    return count_rows(first, {view(tasks), view(features), view(trials), view(successes)},
                      {view(start), view(size), view(room), view(rows), view(all_trials), view(all_successes)});
}

Index size_of(const Posterior &, Index size) { return size; }
Index size_of(const Posterior &posterior, Index Posterior::*size) { return posterior.*size; }

// Return a reader of the posteriors' array (L, ...) with these further sizes, numbers or members.
template <class T, class... Sizes>
auto reader(std::vector<T> Posterior::*array, Sizes... sizes) {
    return [=](nb::handle self) {
        Posterior &own = nb::cast<TaskPosterior &>(self).posterior;
        const nb::ndarray<T, nb::numpy> found((own.*array).data(),
                                              {static_cast<std::size_t>(own.n_components),
                                               static_cast<std::size_t>(size_of(own, sizes))...},
                                              self);
        return nb::cast(found, nb::rv_policy::reference);
    };
}

}  // namespace

void bind_logistic(nb::module_ &m) {
    m.def("logistic_moments", &moments_of_tasks);
    m.def("logistic_predictions", &predict);
    m.def("count_rows", &count);
    nb::class_<Points>(m, "LogisticPoints").def("__init__", [](Points *self, Array<const double, 2> z) {
        if (z.shape(0) < 1 || z.shape(1) < CHUNK || z.shape(1) % CHUNK != 0)
            throw nb::value_error("points must be (d, N) with N a multiple of 128");
        new (self) Points(view(z));
    });
    nb::class_<Design>(m, "LogisticDesign")
        .def(nb::init<Array<const double, 2>, Array<const double, 3>, Array<const Index, 1>, nb::object>());
    nb::class_<TaskPosterior>(m, "LogisticPosterior")
        .def(nb::init<nb::object, Index>())
        .def("find_modes", &find_modes)
        .def("integrate", &integrate_all)
        .def("weigh", &weigh_all)
        .def("compute", &compute)
        .def("draw", &draw_all)
        .def("parameter_moments", &parameter_moments_of)
        .def("action_moments", &action_moments_of)
        .def("gains", &gains_of)
        .def_prop_ro("rank", [](TaskPosterior &self) { return self.posterior.rank; })
        .def_prop_ro("laplace", reader(&Posterior::laplace))
        .def_prop_ro("log_evidence", reader(&Posterior::log_evidence))
        .def_prop_ro("error", reader(&Posterior::error))
        .def_prop_ro("n_points", reader(&Posterior::n_points))
        .def_prop_ro("n_known", reader(&Posterior::n_known))
        .def_prop_ro("n_used", reader(&Posterior::n_used))
        .def_prop_ro("location", reader(&Posterior::location, &Posterior::d))
        .def_prop_ro("direction", reader(&Posterior::direction, &Posterior::d, &Posterior::d))
        .def_prop_ro("shape", reader(&Posterior::shape, Index{4}, &Posterior::d))
        .def_prop_ro("log_weight", reader(&Posterior::log_weight, &Posterior::capacity));
}

}  // namespace mixts
