// Integrals of products of densities and distribution functions, cell by cell.
//
// In a cell, densities are taken at Gauss-Legendre nodes. The integral of the polynomial through them
// is the distribution function at the nodes, and the product of all distribution functions but one is
// that of those before it times that of those after it.
//
// The cells follow each other from right to left. At the right end all distribution functions are one,
// so that no other integral has to be known: arms come in where their densities begin, and the sweep
// ends where the product of the distribution functions is negligible.
//
// The arms themselves decide how long a cell may be. An arm's *place* is the signed root of twice the
// fall of its log density from the mode: the density is e^(-place^2 / 2) of its peak, whatever its
// form. No arm's place may change by more than a stride, so that no narrow peak is stepped over, and
// the last coefficients of the polynomials must be small.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "densities.hpp"
#include "views.hpp"

namespace mixts {

// Beyond a fall of the log density by this lies at most e^-39 = 1e-17 of the mass: left out.
inline constexpr double DEPTH = 39.0;
// Places are compressed where densities are below e^-8 of the peak: cells may be longer there.
inline constexpr double COMPRESSED_FROM = 4.0, COMPRESSION = 1.0 / 3;
// Cells of a smaller stride are not made shorter: their roughness is rounding.
inline constexpr double FINE = 1e-3;
// Cells are made shorter where the probabilities of all arms differ from their sum by more.
inline constexpr double OFF = 2e-11;
// No integral has more cells: about ten are usual, and a hundred for parameters of 1e-100.
inline constexpr int N_CELLS = 4000;

inline constexpr int HALF = 8, N_NODES = 2 * HALF;
using Nodes = double[N_NODES];

// -- the rule of Gauss and Legendre --------------------------------------------------------------

// P_n(x) for n = 0 ... N_NODES, by (n + 1) P_{n+1} = (2 n + 1) x P_n - n P_{n-1}.
inline void legendre(double x, double (&p)[N_NODES + 1]) {
    p[0] = 1.0;
    p[1] = x;
    for (int n = 1; n < N_NODES; ++n) p[n + 1] = ((2 * n + 1) * x * p[n] - n * p[n - 1]) / (n + 1);
}

// Nodes and weights on [0, 1]. Node HALF + j is the mirror image of node j: sums over all nodes
// then are sums over the even and the odd part of a function, with half as many products.
struct Rule {
    alignas(64) Nodes node, weight;
    // The integral up to node i is sum_j even[j][i] E_j + odd[j][i] O_j, and up to its mirror image
    // whole - sum_j even[j][i] E_j + sum_j odd[j][i] O_j, with E_j, O_j = f_j +- f_{HALF + j}.
    alignas(64) double even[HALF][HALF], odd[HALF][HALF];
    // The last two coefficients of the Legendre series: sum_j last[j] O_j, sum_j last_but_one[j] E_j.
    alignas(64) double last[HALF], last_but_one[HALF];

    Rule() {
        double x[N_NODES], w[N_NODES], p[N_NODES][N_NODES + 1];  // on [-1, 1]
        for (int j = 0; j < HALF; ++j) {
            // Newton's method from the classic guess; P_n'(x) = n (P_{n-1} - x P_n) / (1 - x^2).
            double t = -std::cos(std::numbers::pi * (j + 0.75) / (N_NODES + 0.5)), slope = 1.0;
            for (int i = 0; i < 10; ++i) {
                legendre(t, p[j]);
                slope = N_NODES * (p[j][N_NODES - 1] - t * p[j][N_NODES]) / (1.0 - t * t);
                t -= p[j][N_NODES] / slope;
            }
            x[j] = t;
            x[HALF + j] = -t;
            w[j] = w[HALF + j] = 2.0 / ((1.0 - t * t) * slope * slope);
        }
        for (int j = 0; j < N_NODES; ++j) {
            legendre(x[j], p[j]);
            node[j] = 0.5 * (1.0 + x[j]);
            weight[j] = 0.5 * w[j];
        }
        // The integral of the polynomial that is one at node j and zero at the others, up to node
        // i; that of P_n from -1 is (P_{n+1} - P_{n-1}) / (2 n + 1).
        auto integral = [&](int j, int i) {
            double total = p[i][1] + 1.0;
            for (int n = 1; n < N_NODES; ++n) total += p[j][n] * (p[i][n + 1] - p[i][n - 1]);
            return 0.25 * w[j] * total;
        };
        for (int j = 0; j < HALF; ++j) {
            for (int i = 0; i < HALF; ++i) {
                even[j][i] = 0.5 * (integral(j, i) + integral(HALF + j, i));
                odd[j][i] = 0.5 * (integral(j, i) - integral(HALF + j, i));
            }
            last[j] = 0.25 * (2 * N_NODES - 1) * w[j] * p[j][N_NODES - 1];
            last_but_one[j] = 0.25 * (2 * N_NODES - 3) * w[j] * p[j][N_NODES - 2];
        }
    }
};

inline const Rule RULE;

// -- what an integral keeps ----------------------------------------------------------------------

struct Arm {
    Index index;                    // which arm of the decision this is
    double a, b;                    // the two parameters of its density
    double mode, curvature, peak;   // ... and of its log density
    double end;                     // no more than e^-DEPTH of its mass lies beyond: a bound
    double level, place;            // log density and place at the right edge of the present cell
    double next_level, next_place;  // ... at the left edge
    double linear, bent, fixed;     // its log density in the cell
    double below;                   // its distribution function at the right edge
    double share;                   // P(it is best)
};

// An arm in the present cell, at the nodes.
struct alignas(64) Row {
    Nodes density, cdf, before;  // `before`: the product of the distribution functions of the arms before
    double mass;                 // the integral over the cell
};

struct alignas(64) Won {
    Nodes part;  // the nodes' parts of P(the arm is best)
};

// The present cell, from `low` to `high`. All points are seen from the base.
struct Cell {
    alignas(64) double x[N_NODES + 1], bend[N_NODES + 1];  // at the nodes, and at the edge that is not the base
    alignas(64) Nodes slope;                               // of the product of all distribution functions
    double low, high;
    bool from_left;  // the base is the left edge

    double width() const { return high - low; }
    double base() const { return from_left ? low : high; }
};

// Arrays for K arms, allocated once for many integrals.
struct Work {
    std::vector<Arm> arms;
    std::vector<Index> present;  // the arms whose densities have begun
    std::vector<Index> waiting;  // the others
    std::vector<Row> rows;       // row k is that of arm present[k]
    std::vector<Won> won;        // by arm
    Cell cell;
    double gain = 0.0;  // E[best mean] so far, minus the mean at the origin

    explicit Work(Index n_arms) : arms(n_arms), rows(n_arms), won(n_arms) {
        present.reserve(n_arms);
        waiting.reserve(n_arms);
    }
};

// The line on which arms are compared: positions are measured from the origin. The sweep begins at the
// top, where an arm of this width ends, and ends at the bottom at the latest.
struct Line {
    double origin, top, bottom, width;
};

// The largest stride of a cell, and the largest share of a mass in the last coefficients.
struct Limits {
    double stride, roughness;
};

// -- one cell ------------------------------------------------------------------------------------

// The place at x from the mode, where the log density has fallen by `depth`.
inline double place_of(double depth, double x) {
    double root = depth > 0.0 ? std::sqrt(2.0 * depth) : 0.0;
    root = root < COMPRESSED_FROM ? root : COMPRESSED_FROM + COMPRESSION * (root - COMPRESSED_FROM);
    return x > 0 ? root : -root;
}

template <Form F>
inline void lay_out(double origin, double low, double high, Cell &cell) {
    const auto [left, constant] = base_of<F>(origin + low, origin + high);
    const double width = high - low;
    cell.low = low;
    cell.high = high;
    cell.from_left = left;
    // From the right edge the distance to node j is that from the left edge to its mirror image.
    for (int j = 0; j < HALF; ++j) {
        const double near = width * RULE.node[j], far = width * RULE.node[HALF + j];
        cell.x[j] = left ? near : -far;
        cell.x[HALF + j] = left ? far : -near;
    }
    cell.x[N_NODES] = left ? width : -width;
    set_bends<F>(constant, cell.x, cell.bend);
}

// Let the waiting arms whose densities begin in the cell come in: append them to the arms present. By
// convexity, the tangent to the fall of another arm's log density is a bound of where it begins.
template <Form F>
inline void let_in(double edge, Work &work) {
    const Cell &cell = work.cell;
    const double far = cell.low, x = cell.x[N_NODES], bend = cell.bend[N_NODES];
    for (Index i : work.waiting) {
        Arm &arm = work.arms[i];
        if (!(arm.end > far)) continue;
        const auto [depth, slope] = fall<F>(arm.a, arm.b, arm.curvature, far - arm.mode);
        if (far > arm.mode && depth >= DEPTH) {
            arm.end = far - (depth - DEPTH) / slope;
            continue;
        }
        const auto [linear, bent] = factors<F>(cell.from_left, arm.a, arm.b, arm.curvature, cell.base() - arm.mode);
        const double rise = linear * x + bent * bend;
        if (arm.peak == -INF) arm.peak = peak_of<F>(arm.a, arm.b, arm.curvature);
        arm.level = arm.peak - depth + (cell.from_left ? rise : -rise);
        arm.place = place_of(arm.peak - arm.level, edge - arm.mode);
        work.present.push_back(i);
    }
}

// Describe the densities of the arms present; return the largest stride.
template <Form F>
inline double describe(Work &work) {
    const Cell &cell = work.cell;
    const double x = cell.x[N_NODES], bend = cell.bend[N_NODES], base = cell.base();
    double longest = 0.0;
    for (Index i : work.present) {
        Arm &arm = work.arms[i];
        const auto [linear, bent] = factors<F>(cell.from_left, arm.a, arm.b, arm.curvature, base - arm.mode);
        const double rise = linear * x + bent * bend;
        arm.linear = linear;
        arm.bent = bent;
        arm.next_level = arm.level + (cell.from_left ? -rise : rise);
        // Errors of levels would add up from cell to cell: those of sharp densities are computed afresh.
        if (F != Form::NORMAL && std::fabs(cell.low - arm.mode) < NEAR)
            arm.next_level = arm.peak - fall<F>(arm.a, arm.b, arm.curvature, cell.low - arm.mode).depth;
        arm.next_place = place_of(arm.peak - arm.next_level, cell.low - arm.mode);
        arm.fixed = cell.from_left ? arm.next_level : arm.level;
        longest = std::max(longest, std::fabs(arm.next_place - arm.place));
    }
    return longest;
}

// Set densities, masses and distribution functions; return the largest sum of the last two coefficients.
inline double evaluate(Work &work) {
    const Cell &cell = work.cell;
    const double width = cell.width();
    double roughness = 0.0;
    for (std::size_t k = 0; k < work.present.size(); ++k) {
        const Arm &arm = work.arms[work.present[k]];
        const double linear = arm.linear, bent = arm.bent, fixed = arm.fixed;
        Row &row = work.rows[k];
        for (int j = 0; j < N_NODES; ++j)
            row.density[j] = fast_exp(linear * cell.x[j] + bent * cell.bend[j] + fixed);
        double E[HALF], O[HALF], even[HALF] = {}, odd[HALF] = {};
        for (int j = 0; j < HALF; ++j) {
            const double f = width * row.density[j], mirrored = width * row.density[HALF + j];
            E[j] = f + mirrored;
            O[j] = f - mirrored;
        }
        const double last = dot(RULE.last, O, HALF), last_but_one = dot(RULE.last_but_one, E, HALF);
        row.mass = dot(RULE.weight, E, HALF);
        // Four at a time, so that partial sums stay in registers.
        for (int j = 0; j < HALF; j += 4)
            for (int i = 0; i < HALF; ++i)
                even[i] += (RULE.even[j][i] * E[j] + RULE.even[j + 1][i] * E[j + 1]) +
                           (RULE.even[j + 2][i] * E[j + 2] + RULE.even[j + 3][i] * E[j + 3]);
        for (int j = 0; j < HALF; j += 4)
            for (int i = 0; i < HALF; ++i)
                odd[i] += (RULE.odd[j][i] * O[j] + RULE.odd[j + 1][i] * O[j + 1]) +
                          (RULE.odd[j + 2][i] * O[j + 2] + RULE.odd[j + 3][i] * O[j + 3]);
        const double left = arm.below - row.mass;
        for (int i = 0; i < HALF; ++i) {
            row.cdf[i] = left + (odd[i] + even[i]);
            row.cdf[HALF + i] = arm.below + (odd[i] - even[i]);
        }
        const double rough = std::fabs(last) + std::fabs(last_but_one);
        roughness = !(rough <= roughness) ? rough : roughness;  // also a NaN
    }
    return roughness;
}

// Set the products of distribution functions before each arm, and the slope of the product of all:
// (F G)' = F' G + F G', arm by arm, without a division. Return how far the integral of the slope is
// from the change of the product between the edges.
inline double set_slopes(Work &work) {
    Cell &cell = work.cell;
    alignas(64) Nodes product, slope;
    for (int j = 0; j < N_NODES; ++j) {
        product[j] = 1.0;
        slope[j] = 0.0;
    }
    double right = 1.0, left = 1.0;
    for (std::size_t k = 0; k < work.present.size(); ++k) {
        const double below = work.arms[work.present[k]].below;
        Row &row = work.rows[k];
        right *= below;
        left *= below - row.mass;
        for (int j = 0; j < N_NODES; ++j) {
            row.before[j] = product[j];
            slope[j] = slope[j] * row.cdf[j] + product[j] * row.density[j];
            product[j] *= row.cdf[j];
        }
    }
    double total = 0.0;
    for (int j = 0; j < N_NODES; ++j) {
        cell.slope[j] = slope[j];
        total += RULE.weight[j] * slope[j];
    }
    return std::fabs(cell.width() * total - (right - left));
}

// Add a cell to every arm's probability of being best, node by node, and to the best mean.
template <Form F>
inline void add_wins(double origin, Work &work) {
    const Cell &cell = work.cell;
    alignas(64) double height[N_NODES + 1];
    set_heights<F>(origin, cell.base(), cell.x, height);
    alignas(64) Nodes after;
    double total = 0.0;
    for (int j = 0; j < N_NODES; ++j) {
        total += RULE.weight[j] * cell.slope[j] * height[j];
        after[j] = cell.width() * RULE.weight[j];
    }
    work.gain += cell.width() * total;
    for (std::size_t k = work.present.size(); k-- > 0;) {
        const Row &row = work.rows[k];
        Won &won = work.won[work.present[k]];
        for (int j = 0; j < N_NODES; ++j) {
            won.part[j] += row.density[j] * row.before[j] * after[j];
            after[j] *= row.cdf[j];
        }
    }
}

// -- from cell to cell ---------------------------------------------------------------------------

// Move all arms to the left edge. Return how far the arms whose modes are to the right have fallen, in
// sum: the product of the distribution functions is at most e^-depth.
inline double step(Work &work) {
    double depth = 0.0;
    for (std::size_t k = 0; k < work.present.size(); ++k) {
        Arm &arm = work.arms[work.present[k]];
        arm.below -= work.rows[k].mass;
        arm.level = arm.next_level;
        arm.place = arm.next_place;
        if (arm.place < 0.0) depth += arm.peak - arm.level;
    }
    return depth;
}

// How much longer the next cell may be, where the last one was off by so much: much longer when a
// narrow peak has been left behind. Below 1e-14 the error says nothing. Gauss's rule with 16 nodes
// has an error of order 32; in practice it grows a little more slowly.
inline double growth_of(double off) {
    if (off <= 1e-14) return 8.0;
    return std::max(0.3, 0.95 * std::pow(OFF / off, 1.0 / 24));
}

// Sweep the line from right to left. Subtract from the arms' distribution functions, one before, and
// add to their probabilities of being best.
template <Form F>
inline void sweep(const Line &line, const Limits &limits, Work &work) {
    double edge = line.top, length = limits.stride * line.width, depth = 0.0;
    for (int i = 0; i < N_CELLS && depth < DEPTH && edge > line.bottom; ++i) {
        double far = std::max(edge - length, line.bottom);
        if (const double reach = reach_of<F>(line.origin + edge); line.origin + far < reach) far = reach - line.origin;
        length = edge - far;
        lay_out<F>(line.origin, far, edge, work.cell);
        const std::size_t n_before = work.present.size();
        let_in<F>(edge, work);
        const double longest = describe<F>(work);
        double shorter = 1.0, off = 0.0;
        if (longest > limits.stride) {
            shorter = std::max(0.1, 0.97 * limits.stride / longest);
        } else if (!(evaluate(work) <= limits.roughness) && longest > FINE) {
            shorter = 0.5;
        } else if ((off = set_slopes(work)) > OFF && longest > FINE) {
            shorter = growth_of(off);
        }
        if (shorter < 1.0) {
            length *= shorter;
            work.present.resize(n_before);
            continue;
        }
        add_wins<F>(line.origin, work);
        if (work.present.size() > n_before)
            std::erase_if(work.waiting, [&](Index k) { return work.arms[k].end > far; });
        depth = step(work);
        edge = far;
        length *= std::min(growth_of(off), 0.97 * limits.stride / std::max(longest, FINE));
    }
}

}  // namespace mixts
