// Tables of distinct feature rows with counts. The rows of a task lie one after the other in arrays that
// all tasks share, in lexicographic order.
#pragma once
#include <algorithm>

#include "views.hpp"

namespace mixts::logistic {

// Where each task's rows are, (n,), and the rows of all tasks, (N, ...).
struct Tables {
    Vector<Index> start, size;  // place of the first row, and number of rows
    Vector<const Index> room;   // number of rows that fit before another task's begin
    Matrix<double> rows;        // (N, d)
    Vector<Index> trials, successes;
};

// Observed rows of tasks, (m, ...).
struct Observed {
    Vector<const Index> tasks;
    Matrix<const double> features;
    Vector<const Index> trials, successes;
};

// Count rows from `first` on; return the first row whose table has no room for it, or m.
inline Index count_rows(Index first, const Observed &observed, const Tables &t) {
    const Index d = observed.features.m;
    for (Index i = first; i < observed.tasks.n; ++i) {
        const Index task = observed.tasks[i], start = t.start[task], size = t.size[task];
        const double *row = observed.features.data + i * d;
        Index low = start, high = start + size;
        while (low < high) {  // find the first row that is not before this one
            const Index middle = low + (high - low) / 2;
            const double *other = t.rows.data + middle * d;
            if (std::lexicographical_compare(other, other + d, row, row + d))
                low = middle + 1;
            else
                high = middle;
        }
        if (low == start + size || !std::equal(row, row + d, t.rows.data + low * d)) {
            if (size == t.room[task]) return i;
            const Index end = start + size;
            std::copy_backward(t.rows.data + low * d, t.rows.data + end * d, t.rows.data + (end + 1) * d);
            std::copy_backward(t.trials.data + low, t.trials.data + end, t.trials.data + end + 1);
            std::copy_backward(t.successes.data + low, t.successes.data + end, t.successes.data + end + 1);
            std::copy_n(row, d, t.rows.data + low * d);
            t.trials[low] = t.successes[low] = 0;
            ++t.size[task];
        }
        t.trials[low] += observed.trials[i];
        t.successes[low] += observed.successes[i];
    }
    return observed.tasks.n;
}

}  // namespace mixts::logistic
