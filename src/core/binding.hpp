// What the bindings share: numpy arrays as views, and checks of every number that comes from
// Python. A binding checks shapes and indices, so that no loop is ever given a wrong one.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>
#include <type_traits>
#include <utility>

#include "views.hpp"

namespace mixts {

namespace nb = nanobind;

// Contiguous numpy arrays of a type and a number of axes. Numbers that are only read may come in another
// type or order: nanobind makes a copy. Indices, and arrays that loops write to, may not, or loops would
// write to a copy that nobody sees: anything else is a TypeError.
template <class T, int N>
struct Array : nb::ndarray<T, nb::numpy, nb::ndim<N>, nb::c_contig, nb::device::cpu> {
    using Base = nb::ndarray<T, nb::numpy, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
    using Base::Base;
    Array(Base array) : Base(std::move(array)) {}
};

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

namespace nanobind::detail {

template <class T, int N>
struct type_caster<mixts::Array<T, N>> {
    using Exact = mixts::Array<T, N>;
    using Inner = make_caster<typename Exact::Base>;
    NB_TYPE_CASTER(Exact, Inner::Name)

    bool from_python(handle source, std::uint32_t flags, cleanup_list *cleanup) noexcept {
        constexpr bool is_read = std::is_const_v<T> && !std::is_same_v<T, const mixts::Index>;
        if (!is_read) flags &= ~static_cast<std::uint32_t>(cast_flags::convert);
        Inner inner;
        if (!inner.from_python(source, flags, cleanup)) return false;
        value = Exact(std::move(inner.value));
        return true;
    }
    static handle from_cpp(const Exact &array, rv_policy policy, cleanup_list *cleanup) noexcept {
        return Inner::from_cpp(array, policy, cleanup);
    }
};

}  // namespace nanobind::detail
