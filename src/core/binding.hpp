// What the bindings share: numpy arrays as views, and checks of every number that comes from
// Python. A binding checks shapes and indices, so that no loop is ever given a wrong one.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "views.hpp"

namespace mixts {

namespace nb = nanobind;

// Contiguous numpy arrays of a type and a number of axes; anything else is a TypeError.
template <class T, int N>
using Array = nb::ndarray<T, nb::numpy, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

template <class T>
Vector<T> view(const Array<T, 1> &x) {
    return {x.data(), static_cast<Index>(x.shape(0))};
}
template <class T>
Matrix<T> view(const Array<T, 2> &x) {
    return {x.data(), static_cast<Index>(x.shape(0)), static_cast<Index>(x.shape(1))};
}
template <class T>
Cube<T> view(const Array<T, 3> &x) {
    return {x.data(), static_cast<Index>(x.shape(0)), static_cast<Index>(x.shape(1)),
            static_cast<Index>(x.shape(2))};
}

// Raise ValueError unless a size is the expected one.
inline void check_size(const char *name, Index got, Index expected) {
    if (got != expected)
        throw nb::value_error((std::string(name) + " must have size " + std::to_string(expected) +
                               ", got " + std::to_string(got)).c_str());
}

// Raise IndexError unless 0 <= i < n.
inline void check_index(const char *name, Index i, Index n) {
    if (i < 0 || i >= n)
        throw nb::index_error((std::string(name) + " must be from 0 to " + std::to_string(n - 1) +
                               ", got " + std::to_string(i)).c_str());
}

// Raise IndexError unless all of the indices are from 0 to n - 1.
inline void check_indices(const char *name, const Vector<const Index> &x, Index n) {
    for (Index i : x) check_index(name, i, n);
}

// Each file bind_<name>.cpp defines one of these; module.cpp calls them.
void bind_arms(nb::module_ &);
void bind_choice(nb::module_ &);
void bind_quadrature(nb::module_ &);
void bind_linear(nb::module_ &);
void bind_logistic(nb::module_ &);
void bind_tabular(nb::module_ &);
void bind_learning(nb::module_ &);

}  // namespace mixts
