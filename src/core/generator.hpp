// numpy's random numbers. The caller holds the lock of the bit generator, or the interpreter's.
#pragma once
#include <nanobind/nanobind.h>
#include <numpy/random/bitgen.h>

extern "C" {
// From numpy's static library, which has no header of its own that C++ can read.
void random_standard_normal_fill(bitgen_t *, std::intptr_t, double *);
double random_standard_normal(bitgen_t *);
double random_standard_gamma(bitgen_t *, double shape);
}

namespace mixts {

// Return the bit generator of a numpy Generator, whose object the caller keeps alive.
inline bitgen_t *bit_generator(const nanobind::object &generator) {
    nanobind::object capsule = generator.attr("bit_generator").attr("capsule");
    auto *found = static_cast<bitgen_t *>(PyCapsule_GetPointer(capsule.ptr(), "BitGenerator"));
    if (found == nullptr) throw nanobind::python_error();
    return found;
}

// Holds the lock of a numpy Generator for as long as it lives, also through an exception.
struct GeneratorLock {
    nanobind::object lock;
    explicit GeneratorLock(const nanobind::object &generator) : lock(generator.attr("bit_generator").attr("lock")) {
        lock.attr("acquire")();
    }
    ~GeneratorLock() {
        try {
            lock.attr("release")();
        } catch (nanobind::python_error &error) {
            error.discard_as_unraisable("the lock of a generator");
        }
    }
    GeneratorLock(const GeneratorLock &) = delete;
};

}  // namespace mixts
