// Evidence and posterior moments of linear tasks, for learning a prior. A task has the triangle
// [R z] of its data and V = R'R; given component s, with sigma^2 the noise variance,
//
//   A = P_s + V / sigma^2 = M M',  pull = R'(z - R m_s) / sigma^2,
//   posterior of theta: N(m_s + A^-1 pull, A^-1).
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <numbers>
#include <vector>

#include "lanes.hpp"

namespace mixts {

// Statistics of tasks: triangles [R z], (n, d + 1, d + 1), and V, (n, d, d).
struct LinearTasks {
    Cube<const double> factor, gram;
};

// Means m_s (L, d), precisions P_s (L, d, d), or one for all components, and sigma^2.
struct LinearComponents {
    Matrix<const double> mean;
    Cube<const double> precision;
    double noise;
};

// Sums over tasks; of matrices the lower triangles.
struct LinearSums {
    Matrix<double> first;   // (L, d): u (mu - m_s), for the posterior mean mu and the sharpness u of a task
    Cube<double> second;    // (L, d, d): u (mu - m_s)(mu - m_s)'
    Cube<double> within;    // posterior covariances, one matrix for each precision
};

// One number of each of eight tasks.
inline constexpr int LANES = 8;
using Eight = Lanes<LANES>;

// A task's share in a component that moves nothing.
inline constexpr double LEAST_SHARE = 1e-14;

// Where row i of a lower triangle starts that is packed by rows.
inline Index row_start(Index i) { return i * (i + 1) / 2; }

// The logarithm of a product, which may be too large or too small for a number: the product's
// mantissa, from 1 to 2, and its exponent of 2.
struct LogProduct {
    Numbers<Eight> mantissa;
    std::int64_t exponent[LANES] = {};

    LogProduct() { mantissa.fill(1.0); }
    void multiply(const Eight &factor) {
        const Numbers<Eight> x = numbers(factor);
        for (int lane = 0; lane < LANES; ++lane) {
            const auto bits = std::bit_cast<std::uint64_t>(mantissa[lane] * x[lane]);
            exponent[lane] += static_cast<std::int64_t>(bits >> 52) - 1023;
            mantissa[lane] = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u);
        }
    }
    double log(int lane) const {
        return std::log(mantissa[lane]) + static_cast<double>(exponent[lane]) * std::numbers::ln2;
    }
};

// Eight tasks, and temporary arrays for them.
struct EightTasks {
    Index d;
    std::vector<Eight> upper;    // R packed by rows: row i has d - i entries
    std::vector<Eight> z;        // (d)
    std::vector<Eight> gram;     // V, packed as the triangles below
    std::vector<Eight> lower;    // M packed by rows; the diagonal is inverted, products being faster than divisions
    std::vector<Eight> inverse;  // M^-T packed as R
    std::vector<Eight> own;      // A^-1 packed as M
    std::vector<Eight> pull;     // (d): pull, then M^-1 pull, then A^-1 pull
    std::vector<Eight> mean;     // (d): m_s, then m_s + A^-1 pull

    explicit EightTasks(Index d)
        : d(d), upper(row_start(d)), z(d), gram(row_start(d)), lower(row_start(d)), inverse(row_start(d)),
          own(row_start(d)), pull(d), mean(d) {}

    void load(const LinearTasks &tasks, const Index (&chosen)[LANES]) {
        const double *factor[LANES], *square[LANES];
        for (int lane = 0; lane < LANES; ++lane) {
            factor[lane] = tasks.factor[chosen[lane]].data;
            square[lane] = tasks.gram[chosen[lane]].data;
        }
        const auto gather = [](const double *const (&from)[LANES], Index place, Eight &to) {
            Numbers<Eight> each;
            for (int lane = 0; lane < LANES; ++lane) each[lane] = from[lane][place];
            to = std::bit_cast<Eight>(each);
        };
        for (Index i = 0; i < d; ++i) {
            Eight *row = &upper[i * d - i * (i - 1) / 2] - i;
            for (Index j = i; j < d; ++j) gather(factor, i * (d + 1) + j, row[j]);
            gather(factor, i * (d + 1) + d, z[i]);
            for (Index j = 0; j <= i; ++j) gather(square, i * d + j, gram[row_start(i) + j]);
        }
    }

    // Factorise P + V / sigma^2 = M M', column by column, and return the squared determinant of M.
    LogProduct factorise(const Matrix<const double> &precision, double noise) {
        const double weight = 1.0 / noise;
        LogProduct squared_det;
        const auto rest = [&](Index i, Index j, const Eight &sum) {
            return (precision(i, j) + weight * gram[row_start(i) + j]) - sum;
        };
        for (Index j = 0; j < d; ++j) {
            Eight *row = &lower[row_start(j)];
            const Eight square = rest(j, j, dot(row, row, j));
            squared_det.multiply(square);
            row[j] = inverse_root(square);
            Index i = j + 1;
            for (; i + 1 < d; i += 2) {
                Eight *one = &lower[row_start(i)], *two = &lower[row_start(i + 1)];
                const TwoLanes<LANES> sum = dots(one, two, row, j);
                one[j] = rest(i, j, sum.x) * row[j];
                two[j] = rest(i + 1, j, sum.y) * row[j];
            }
            if (i < d) {
                Eight *one = &lower[row_start(i)];
                one[j] = rest(i, j, dot(one, row, j)) * row[j];
            }
        }
        return squared_det;
    }

    // Set pull = R'(z - R m) / sigma^2, and return |z - R m|^2 / sigma^2.
    Eight residual(const Vector<const double> &component, double noise) {
        const double weight = 1.0 / noise;
        Eight square{};
        std::fill(pull.begin(), pull.end(), Eight{});
        const Eight *row = upper.data();
        for (Index i = 0; i < d; row += d - i, ++i) {
            Eight rest = z[i];
            for (Index j = i; j < d; ++j) rest -= component[j] * row[j - i];
            square += rest * rest;
            rest = weight * rest;
            for (Index j = i; j < d; ++j) pull[j] += row[j - i] * rest;
        }
        return weight * square;
    }

    // Replace pull by M^-1 pull.
    void forward() {
        for (Index i = 0; i < d; ++i) {
            const Eight *row = &lower[row_start(i)];
            pull[i] = (pull[i] - dot(row, pull.data(), i)) * row[i];
        }
    }

    // Replace pull by M^-T pull.
    void backward() {
        for (Index i = d - 1; i >= 0; --i) {
            const Eight *row = &lower[row_start(i)];
            pull[i] = pull[i] * row[i];
            for (Index j = 0; j < i; ++j) pull[j] -= row[j] * pull[i];
        }
    }

    // Set own = A^-1 = M^-T M^-1.
    void invert() {
        const auto column = [&](Index j) { return &inverse[j * d - j * (j - 1) / 2]; };  // of M^-1
        for (Index i = 0; i < d; ++i) {
            const Eight *row = &lower[row_start(i)];
            const Eight scale = -1.0 * row[i];
            Index j = 0;
            for (; j + 1 < i; j += 2) {
                const TwoLanes<LANES> sum = dots(column(j) + 1, column(j + 1), row + j + 1, i - j - 1);
                column(j)[i - j] = (sum.x + row[j] * column(j)[0]) * scale;
                column(j + 1)[i - j - 1] = sum.y * scale;
            }
            if (j < i) column(j)[i - j] = dot(row + j, column(j), i - j) * scale;
            column(i)[0] = row[i];
        }
        for (Index i = 0; i < d; ++i) {
            Eight *to = &own[row_start(i)];
            Index j = 0;
            for (; j + 1 <= i; j += 2) {
                const TwoLanes<LANES> sum = dots(column(j) + (i - j), column(j + 1) + (i - j - 1), column(i), d - i);
                to[j] = sum.x;
                to[j + 1] = sum.y;
            }
            if (j <= i) to[j] = dot(column(j) + (i - j), column(i), d - i);
        }
    }

    // |z - R mean|^2
    Eight misfit() const {
        Eight square{};
        const Eight *row = upper.data();
        for (Index i = 0; i < d; row += d - i, ++i) {
            const Eight rest = z[i] - dot(row, mean.data() + i, d - i);
            square += rest * rest;
        }
        return square;
    }

    // trace(A^-1 V)
    Eight trace() const {
        Eight sum{};
        for (Index i = 0; i < d; ++i) {
            const Index start = row_start(i);
            sum += 2.0 * dot(&own[start], &gram[start], i) + own[start + i] * gram[start + i];
        }
        return sum;
    }
};

// For tasks and components, (n, L): out = ln det(P) / 2 - ln det(M), and
// squares = |z - R m|^2 / sigma^2 - |M^-1 pull|^2. Return the largest |z - R m|^2 / sigma^2.
inline double linear_evidence(const LinearTasks &tasks, const LinearComponents &components,
                              const Vector<const double> &half_log_det, const Matrix<double> &out,
                              const Matrix<double> &squares) {
    const auto &[mean, precision, noise] = components;
    EightTasks eight(mean.m);
    LogProduct squared_det;
    double largest = 0.0;
    for (Index first = 0; first < out.n; first += LANES) {
        Index chosen[LANES];
        for (int lane = 0; lane < LANES; ++lane) chosen[lane] = std::min(first + lane, out.n - 1);
        eight.load(tasks, chosen);
        for (Index s = 0; s < mean.n; ++s) {
            const Index g = std::min(s, precision.n - 1);
            if (s == g) squared_det = eight.factorise(precision[g], noise);
            const Eight square = eight.residual(mean.row(s), noise);
            eight.forward();
            const auto left = numbers(square - dot(eight.pull.data(), eight.pull.data(), mean.m));
            for (int lane = 0; lane < LANES; ++lane) {
                largest = std::max(largest, numbers(square)[lane]);
                squares(chosen[lane], s) = left[lane];
                out(chosen[lane], s) = half_log_det[g] - 0.5 * squared_det.log(lane);
            }
        }
    }
    return largest;
}

// Sums of one precision, and of its components from `begin` to `end`; the lanes are added up last.
struct EightSums {
    Index begin, end, d;
    std::vector<Eight> first, second, within;
    Eight misfit{};

    EightSums(Index begin, Index end, Index d)
        : begin(begin), end(end), d(d), first((end - begin) * d), second((end - begin) * row_start(d)),
          within(row_start(d)) {}

    // Add the first `count` of eight tasks, with these shares and sharp shares, (n, L).
    void add(EightTasks &eight, const LinearComponents &components, const Index (&chosen)[LANES], int count,
             const Matrix<const double> &share, const Matrix<const double> &sharp) {
        const auto &[mean, precision, noise] = components;
        eight.factorise(precision[std::min(begin, precision.n - 1)], noise);
        eight.invert();
        Eight shares{};
        for (Index s = begin; s < end; ++s) {
            Numbers<Eight> own_shares{}, own_sharp{};
            for (int lane = 0; lane < count; ++lane)
                if (share(chosen[lane], s) >= LEAST_SHARE) {
                    own_shares[lane] = share(chosen[lane], s);
                    own_sharp[lane] = sharp(chosen[lane], s);
                }
            const auto r = std::bit_cast<Eight>(own_shares), sharper = std::bit_cast<Eight>(own_sharp);
            shares += r;
            eight.residual(mean.row(s), noise);
            eight.forward();
            eight.backward();
            Eight *to_first = &first[(s - begin) * d], *to_second = &second[(s - begin) * row_start(d)];
            for (Index j = 0; j < d; ++j) {
                eight.mean[j] = mean(s, j) + eight.pull[j];
                const Eight scaled = sharper * eight.pull[j];
                to_first[j] += scaled;
                for (Index k = 0; k <= j; ++k) to_second[row_start(j) + k] += scaled * eight.pull[k];
            }
            misfit += r * eight.misfit();
        }
        for (Index i = 0; i < row_start(d); ++i) within[i] += shares * eight.own[i];
        misfit += shares * eight.trace();
    }

    double add_up(const LinearSums &sums, Index g) const {
        for (Index j = 0; j < d; ++j)
            for (Index k = 0; k <= j; ++k) sums.within(g, j, k) += total(within[row_start(j) + k]);
        for (Index s = begin; s < end; ++s)
            for (Index j = 0; j < d; ++j) {
                sums.first(s, j) += total(first[(s - begin) * d + j]);
                const Eight *row = &second[(s - begin) * row_start(d) + row_start(j)];
                for (Index k = 0; k <= j; ++k) sums.second(s, j, k) += total(row[k]);
            }
        return total(misfit);
    }
};

// Add posterior moments of tasks to the sums, and return the sum of E|y - A theta|^2 without the
// tasks' own residuals. `share` and `sharp`, shares times the tasks' sharpness, are (n, L).
inline double posterior_moments(const LinearTasks &tasks, const LinearComponents &components,
                                const Matrix<const double> &share, const Matrix<const double> &sharp,
                                const LinearSums &sums) {
    const Index n_groups = components.precision.n, n_components = components.mean.n, d = components.mean.m;
    EightTasks eight(d);
    double misfit = 0.0;
    for (Index g = 0; g < n_groups; ++g) {
        // One precision is that of all components.
        EightSums found(g, n_groups == 1 ? n_components : g + 1, d);
        Index chosen[LANES] = {};
        int count = 0;
        for (Index i = 0; i < share.n; ++i) {
            const double *own = &share(i, 0);
            if (std::any_of(own + found.begin, own + found.end, [](double r) { return r >= LEAST_SHARE; }))
                chosen[count++] = i;
            if (count == LANES || (count > 0 && i == share.n - 1)) {
                // A lane without a task repeats an earlier one, and has no share.
                std::fill(chosen + count, chosen + LANES, chosen[0]);
                eight.load(tasks, chosen);
                found.add(eight, components, chosen, count, share, sharp);
                count = 0;
            }
        }
        misfit += found.add_up(sums, g);
    }
    return misfit;
}

}  // namespace mixts
