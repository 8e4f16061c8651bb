// The extension module: every file bind_<name>.cpp adds its classes and functions.
#include "binding.hpp"

NB_MODULE(MIXTS_MODULE, m) {
    m.doc() = "The compiled core of mixts: an incremental path to the numbers of the plain program.";
    m.attr("sources_hash") = MIXTS_SOURCES;
    m.def(
        "runs_avx2",
        [] {
#if (defined(__x86_64__) || defined(_M_X64)) && defined(__GNUC__)
            __builtin_cpu_init();
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                   __builtin_cpu_supports("bmi2");
#else
            return false;
#endif
        },
        "Return whether this processor can run the build for x86-64-v3.");
    // Agents in a cache may live until the interpreter ends: that is no fault of theirs.
    nanobind::set_leak_warnings(false);
    mixts::bind_arms(m);
    mixts::bind_choice(m);
    mixts::bind_quadrature(m);
    mixts::bind_linear(m);
    mixts::bind_logistic(m);
    mixts::bind_tabular(m);
    mixts::bind_learning(m);
}
