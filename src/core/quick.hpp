// The quick path of one task: arguments as the user gave them, read without an error. Whatever is
// unusual is left to the general path, which has the messages.
#pragma once
#include <nanobind/nanobind.h>

#include "generator.hpp"
#include "views.hpp"

namespace mixts {

// Read a Python int; false for anything else.
inline bool read_index(nanobind::handle value, Index &out) {
    if (!PyLong_CheckExact(value.ptr())) return false;
    int overflow = 0;
    out = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    return overflow == 0;
}

// Read a Python float (numpy's doubles are such) or a small int; false for anything else.
inline bool read_number(nanobind::handle value, double &out) {
    if (PyFloat_Check(value.ptr())) {
        out = PyFloat_AsDouble(value.ptr());
        return true;
    }
    Index whole = 0;
    if (!read_index(value, whole)) return false;
    out = static_cast<double>(whole);
    return true;
}

// The words of a numpy generator, whose bit generator is looked up when another generator comes.
class Words {
public:
    std::uint64_t next(nanobind::handle rng) {
        if (rng.ptr() != generator_.ptr()) {
            bits_ = bit_generator(nanobind::borrow(rng));
            generator_ = nanobind::borrow(rng);
        }
        return bits_->next_uint64(bits_->state);
    }

private:
    nanobind::object generator_;
    bitgen_t *bits_ = nullptr;
};

}  // namespace mixts
