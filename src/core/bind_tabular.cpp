// Bindings of tabular MDPs: counts, evidence, planning and episodes.
#include <nanobind/stl/optional.h>

#include <bit>
#include <optional>

#include "binding.hpp"
#include "choice.hpp"
#include "episodes.hpp"
#include "generator.hpp"
#include "tabular.hpp"

namespace mixts {

namespace {

// Arrays of one episode (h,) or several (m, h).
template <class T>
using EpisodeArray = nb::ndarray<T, nb::numpy, nb::c_contig, nb::device::cpu>;

template <class T>
Matrix<T> episode_view(const char *name, const EpisodeArray<T> &x) {
    if (x.ndim() == 1) return {x.data(), 1, static_cast<Index>(x.shape(0))};
    if (x.ndim() != 2) throw nb::value_error((std::string(name) + " must have one axis or two").c_str());
    return {x.data(), static_cast<Index>(x.shape(0)), static_cast<Index>(x.shape(1))};
}

Matrix<Index> rows_of(const Array<Index, 4> &x) {
    return {x.data(), static_cast<Index>(x.shape(0)), static_cast<Index>(x.shape(1) * x.shape(2) * x.shape(3))};
}

// Return the shape of MDPs whose rows have n_numbers = X A (1 + X) numbers.
MDPShape mdp_shape(Index n_numbers, Index n_states, Index n_actions, Index horizon) {
    // Divisions, which cannot overflow.
    const bool fits = n_states >= 1 && n_actions >= 1 && horizon >= 0 && n_numbers % n_actions == 0 &&
                      n_numbers / n_actions % n_states == 0 && n_numbers / n_actions / n_states == 1 + n_states;
    if (!fits) throw nb::value_error("an MDP of X states and A actions is a row of X A (1 + X) numbers");
    return {n_states, n_actions, horizon};
}

// Counts, prior and evidence of tasks. The arrays are numpy's; later calls change them in place.
class TabularTasks {
public:
    TabularTasks(Array<Index, 4> rewards, Array<Index, 4> transitions, Array<const double, 2> prior,
                 Array<const double, 1> log_weights, Array<double, 2> evidence, Array<Index, 1> n_since, Index horizon)
        : rewards_(rewards), transitions_(transitions), prior_(prior), log_weights_(log_weights),
          evidence_(evidence), n_since_(n_since),
          state_(checked_prior(horizon), {rows_of(rewards_), rows_of(transitions_)}, view(evidence_), view(n_since_)),
          room_(state_.prior.shape), weights_(prior.shape(1)), latent_weights_(prior.shape(0)) {}

    void refresh(Array<const Index, 1> tasks) {
        check_tasks(view(tasks));
        for (Index task : view(tasks)) state_.refresh(task);
    }

    bool observe(Array<const Index, 1> tasks, EpisodeArray<const Index> states, EpisodeArray<const Index> actions,
                 EpisodeArray<const double> rewards, std::optional<Array<const Index, 1>> lengths) {
        Episodes episodes = checked_episodes(states, actions, rewards);
        check_size("tasks", static_cast<Index>(tasks.shape(0)), episodes.actions.n);
        check_tasks(view(tasks));
        if (lengths) {
            check_size("lengths", static_cast<Index>(lengths->shape(0)), episodes.actions.n);
            check_indices("lengths", view(*lengths), episodes.actions.m + 1);
            episodes.lengths = lengths->data();
        }
        return state_.observe(tasks.data(), episodes);
    }

    // Learn from whole episodes of the first task.
    bool update_one(EpisodeArray<const Index> states, EpisodeArray<const Index> actions,
                    EpisodeArray<const double> rewards) {
        const Episodes episodes = checked_episodes(states, actions, rewards);
        check_index("task", 0, state_.evidence.n);
        return episodes.actions.m == state_.prior.shape.horizon && state_.observe(nullptr, episodes);
    }

    void posterior_counts(Array<const Index, 1> tasks, Array<const Index, 1> latent, Array<double, 2> out) {
        const Vector<const Index> which = view(tasks);
        check_pairs(which, view(latent), view(out), static_cast<Index>(weights_.size()));
        for (Index i = 0; i < which.n; ++i)
            state_.posterior_counts(which[i], latent.data()[i], view(out).row(i).data);
    }

    // Draw an MDP for each pair of a task and a component.
    void sample(const nb::object &generator, Array<const Index, 1> tasks, Array<const Index, 1> latent,
                Array<double, 2> out) {
        const Vector<const Index> which = view(tasks);
        check_pairs(which, view(latent), view(out), state_.prior.shape.n_numbers());
        bitgen_t *bits = bit_generator(generator);
        for (Index i = 0; i < which.n; ++i) draw(bits, which[i], latent.data()[i], view(out).row(i).data);
    }

    // Draw a component and an MDP for each task, and write the MDP's best policy.
    void act(const nb::object &generator, Array<const Index, 1> tasks, Array<Index, 1> latent,
             Array<Index, 3> policy) {
        const Vector<const Index> which = view(tasks);
        const MDPShape &shape = state_.prior.shape;
        check_tasks(which);
        check_size("latent", static_cast<Index>(latent.shape(0)), which.n);
        check_policies(view(policy), which.n);
        bitgen_t *bits = bit_generator(generator);
        const Index n_numbers = shape.n_numbers();
        mdps_.resize(which.n * n_numbers);
        // In this order, which is that of the plain program: all components, all MDPs, all words.
        for (Index i = 0; i < which.n; ++i) latent.data()[i] = draw_latent(bits, which[i]);
        for (Index i = 0; i < which.n; ++i) draw(bits, which[i], latent.data()[i], mdps_.data() + i * n_numbers);
        for (Index i = 0; i < which.n; ++i) {
            const auto word = std::bit_cast<std::uint64_t>(bits->next_double(bits->state));
            plan(shape, mdps_.data() + i * n_numbers, &word, room_, view(policy)[i].data, nullptr);
        }
    }

    // Do the same for the first task, whose policy is (h, X); return the component.
    Index act_one(const nb::object &generator, Array<Index, 2> policy) {
        const MDPShape &shape = state_.prior.shape;
        check_index("task", 0, state_.evidence.n);
        check_size("policy", static_cast<Index>(policy.shape(0)), shape.horizon);
        check_size("policy", static_cast<Index>(policy.shape(1)), shape.n_states);
        bitgen_t *bits = bit_generator(generator);
        if (mdps_.empty()) mdps_.resize(shape.n_numbers());
        const Index s = draw_latent(bits, 0);
        draw(bits, 0, s, mdps_.data());
        const auto word = std::bit_cast<std::uint64_t>(bits->next_double(bits->state));
        plan(shape, mdps_.data(), &word, room_, policy.data(), nullptr);
        return s;
    }

private:
    Array<Index, 4> rewards_, transitions_;
    Array<const double, 2> prior_;
    Array<const double, 1> log_weights_;
    Array<double, 2> evidence_;
    Array<Index, 1> n_since_;
    TabularState state_;
    PlanningRoom room_;
    std::vector<double> weights_, latent_weights_, mdps_;

    TabularPrior checked_prior(Index horizon) const {
        const Index n = static_cast<Index>(rewards_.shape(0)), n_components = static_cast<Index>(prior_.shape(0));
        const Index n_states = static_cast<Index>(rewards_.shape(1)), n_actions = static_cast<Index>(rewards_.shape(2));
        if (n_states < 1 || n_actions < 1 || n_components < 1 || horizon < 0)
            throw nb::value_error("states, actions and components must be at least 1");
        check_size("rewards", static_cast<Index>(rewards_.shape(3)), 2);
        check_size("transitions", static_cast<Index>(transitions_.shape(0)), n);
        check_size("transitions", static_cast<Index>(transitions_.shape(1)), n_states);
        check_size("transitions", static_cast<Index>(transitions_.shape(2)), n_actions);
        check_size("transitions", static_cast<Index>(transitions_.shape(3)), n_states);
        const Index q = static_cast<Index>(prior_.shape(1));
        if (q % n_actions != 0 || q / n_actions % n_states != 0 || q / n_actions / n_states != 2 + n_states)
            throw nb::value_error("prior must have X A (2 + X) counts for each component");
        check_size("log_weights", static_cast<Index>(log_weights_.shape(0)), n_components);
        check_size("evidence", static_cast<Index>(evidence_.shape(0)), n);
        check_size("evidence", static_cast<Index>(evidence_.shape(1)), n_components);
        check_size("n_since", static_cast<Index>(n_since_.shape(0)), n);
        for (Index i = 0; i < n_components * q; ++i)
            if (!(prior_.data()[i] >= 0.0 && prior_.data()[i] < INF))
                throw nb::value_error("prior counts must be finite and at least 0");
        return {{n_states, n_actions, horizon}, view(prior_), view(log_weights_)};
    }

    void check_tasks(const Vector<const Index> &tasks) const { check_indices("task", tasks, state_.evidence.n); }

    void check_pairs(const Vector<const Index> &tasks, const Vector<const Index> &latent, const Matrix<double> &out,
                     Index width) const {
        check_tasks(tasks);
        check_size("latent", latent.n, tasks.n);
        check_indices("latent", latent, state_.prior.n_components());
        check_size("out", out.n, tasks.n);
        check_size("out", out.m, width);
    }

    void check_policies(const Cube<Index> &policy, Index n) const {
        check_size("policy", policy.n, n);
        check_size("policy", policy.m, state_.prior.shape.horizon);
        check_size("policy", policy.k, state_.prior.shape.n_states);
    }

    Episodes checked_episodes(const EpisodeArray<const Index> &states, const EpisodeArray<const Index> &actions,
                              const EpisodeArray<const double> &rewards) const {
        const Episodes episodes{episode_view("states", states), episode_view("actions", actions),
                                episode_view("rewards", rewards), nullptr};
        const Index m = episodes.actions.n, h = episodes.actions.m;
        check_size("states", episodes.states.n, m);
        if (episodes.states.m != h + 1) check_size("states", episodes.states.m, h);
        check_size("rewards", episodes.rewards.n, m);
        check_size("rewards", episodes.rewards.m, h);
        return episodes;
    }

    Index draw_latent(bitgen_t *bits, Index task) {
        const double uniform = bits->next_double(bits->state);
        return pick_latent(state_.prior.log_weights, state_.evidence.row(task).data, uniform, latent_weights_.data());
    }

    // Draw an MDP by gamma variables of the posterior counts.
    void draw(bitgen_t *bits, Index task, Index s, double *mdp) {
        state_.posterior_counts(task, s, weights_.data());
        for (double &weight : weights_) weight = weight > 0.0 ? random_standard_gamma(bits, weight) : 0.0;
        normalise(state_.prior.shape, weights_.data(), mdp);
    }
};

void plan_all(Array<const double, 2> mdps, Index n_actions, std::optional<Array<const std::uint64_t, 1>> words,
              Array<Index, 3> policy, std::optional<Array<double, 3>> values) {
    const Matrix<const double> rows = view(mdps);
    const Cube<Index> out = view(policy);
    const MDPShape shape = mdp_shape(rows.m, out.k, n_actions, out.m);
    check_size("policy", out.n, rows.n);
    if (words) check_size("words", static_cast<Index>(words->shape(0)), rows.n);
    if (values) {
        check_size("values", static_cast<Index>(values->shape(0)), out.n);
        check_size("values", static_cast<Index>(values->shape(1)), out.m);
        check_size("values", static_cast<Index>(values->shape(2)), out.k);
    }
    nb::gil_scoped_release released;
    PlanningRoom room(shape);
    for (Index i = 0; i < rows.n; ++i)
        plan(shape, rows.row(i).data, words ? words->data() + i : nullptr, room, out[i].data,
             values ? view(*values)[i].data : nullptr);
}

// One MDP or one policy may serve all rows of values.
bool evaluate_all(Array<const double, 2> mdps, Index n_actions, Array<const Index, 3> policy, Array<double, 3> values) {
    const Matrix<const double> rows = view(mdps);
    const Cube<const Index> policies = view(policy);
    const Cube<double> out = view(values);
    const MDPShape shape = mdp_shape(rows.m, out.k, n_actions, out.m);
    if (rows.n != 1) check_size("mdps", rows.n, out.n);
    if (policies.n != 1) check_size("policy", policies.n, out.n);
    check_size("policy", policies.m, out.m);
    check_size("policy", policies.k, out.k);
    nb::gil_scoped_release released;
    for (Index i = 0; i < out.n; ++i) {
        const double *mdp = rows.row(rows.n == 1 ? 0 : i).data;
        if (!evaluate(shape, mdp, policies[policies.n == 1 ? 0 : i].data, out[i].data)) return false;
    }
    return true;
}

void play_all(Array<const double, 2> mdps, Array<const double, 1> initial, Array<const Index, 3> policy,
              Array<const double, 2> uniform, Array<Index, 2> states, Array<Index, 2> actions,
              Array<double, 2> rewards, Index n_actions) {
    const Matrix<const double> rows = view(mdps);
    const Cube<const Index> policies = view(policy);
    const Matrix<Index> visited = view(states), taken = view(actions);
    const MDPShape shape = mdp_shape(rows.m, static_cast<Index>(initial.shape(0)), n_actions, taken.m);
    check_size("policy", policies.n, rows.n);
    check_size("policy", policies.m, shape.horizon);
    check_size("policy", policies.k, shape.n_states);
    for (Index i = 0; i < policies.n * policies.m * policies.k; ++i) check_index("action", policies.data[i], n_actions);
    check_size("uniform", static_cast<Index>(uniform.shape(0)), rows.n);
    check_size("uniform", static_cast<Index>(uniform.shape(1)), 2 * shape.horizon + 1);
    check_size("states", visited.n, rows.n);
    if (visited.m != shape.horizon + 1) check_size("states", visited.m, shape.horizon);
    check_size("actions", taken.n, rows.n);
    check_size("rewards", static_cast<Index>(rewards.shape(0)), rows.n);
    check_size("rewards", static_cast<Index>(rewards.shape(1)), shape.horizon);
    nb::gil_scoped_release released;
    for (Index i = 0; i < rows.n; ++i)
        play(shape, rows.row(i).data, initial.data(), policies[i].data, view(uniform).row(i).data,
             {visited.row(i).data, visited.m, taken.row(i).data, view(rewards).row(i).data});
}

}  // namespace

void bind_tabular(nb::module_ &m) {
    using nb::arg;
    nb::class_<TabularTasks>(m, "TabularTasks", "Counts, prior and evidence of MDPs, in arrays that numpy owns.")
        .def(nb::init<Array<Index, 4>, Array<Index, 4>, Array<const double, 2>, Array<const double, 1>,
                      Array<double, 2>, Array<Index, 1>, Index>(),
             arg("rewards").noconvert(), arg("transitions").noconvert(), arg("prior").noconvert(),
             arg("log_weights").noconvert(), arg("evidence").noconvert(), arg("n_since").noconvert(),
             arg("horizon"))
        .def("refresh", &TabularTasks::refresh, arg("tasks").noconvert(),
             "Compute the evidence of these tasks from their counts.")
        .def("observe", &TabularTasks::observe, arg("tasks").noconvert(), arg("states").noconvert(),
             arg("actions").noconvert(), arg("rewards").noconvert(), arg("lengths").noconvert().none(),
             "Learn from episodes, all or none; return false if they are refused.")
        .def("posterior_counts", &TabularTasks::posterior_counts, arg("tasks").noconvert(),
             arg("latent").noconvert(), arg("out").noconvert(),
             "Write the posterior counts of pairs of a task and a component.")
        .def("sample", &TabularTasks::sample, arg("generator"), arg("tasks").noconvert(),
             arg("latent").noconvert(), arg("out").noconvert(), "Draw an MDP for each pair of a task and a component.")
        .def("act", &TabularTasks::act, arg("generator"), arg("tasks").noconvert(), arg("latent").noconvert(),
             arg("policy").noconvert(), "Draw a component and an MDP for each task, and plan the MDP.")
        .def("act_one", &TabularTasks::act_one, arg("generator"), arg("policy").noconvert(),
             "Act for the first task, and return the component drawn.")
        .def("update_one", &TabularTasks::update_one, arg("states").noconvert(), arg("actions").noconvert(),
             arg("rewards").noconvert(), "Learn from whole episodes of the first task; false if they are refused.");
    m.def("plan_mdps", &plan_all, arg("mdps").noconvert(), arg("n_actions"), arg("words").noconvert().none(),
          arg("policy").noconvert(), arg("values").noconvert().none(), "Write the best policies of MDPs.");
    m.def("evaluate_policies", &evaluate_all, arg("mdps").noconvert(), arg("n_actions"), arg("policy").noconvert(),
          arg("values").noconvert(), "Write the values of policies; return false for an unknown action.");
    m.def("play_episodes", &play_all, arg("mdps").noconvert(), arg("initial").noconvert(), arg("policy").noconvert(),
          arg("uniform").noconvert(), arg("states").noconvert(), arg("actions").noconvert(),
          arg("rewards").noconvert(), arg("n_actions"), "Play an episode of each MDP.");
}

}  // namespace mixts
