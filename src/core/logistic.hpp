// Clicks with features: the posterior of a task given one component, as weighted points. The plain
// program, families/_logistic.py, has the same steps in numpy and explains them: reduce, mode,
// shape, points. Here they are loops that vectorise: over the rows of the table while the mode is
// found, and over points, CHUNK at a time, while they are weighed.
//
// A task's table has R distinct rows x with n trials and k successes each. Given a component,
// theta = mean + C u with u standard normal; only r = min(R, d) coordinates remain to integrate over.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <type_traits>
#include <vector>

#include "elementary.hpp"
#include "lanes.hpp"
#include "views.hpp"

namespace mixts::logistic {

inline constexpr Index N_BLOCKS = 8, PER_BLOCK = 8, PAIRS = N_BLOCKS * PER_BLOCK, CHUNK = 2 * PAIRS;
inline constexpr double T_RATIO = 3.499 / 3.0;
inline constexpr double SKEWED = 0.4, CURVED = 0.2, FAR_DROP = 2.0, FARTHEST = 1e8, LEAST_DROP = 1e-14;
inline constexpr double LARGEST_MOVE = 0.7, MEAN_SIZE = 1.3545308064813153, VAR_SIZE = 2.0 - MEAN_SIZE * MEAN_SIZE;
inline constexpr double DECREMENT = 1e-8, STEEP = 64.0, HOTTEST = 1e16, COOLING = 8.0, LARGE_ERROR = 0.05;
inline constexpr Index N_STEPS = 200;
// Largest coordinate, in deviations of the prior, of a start that may be nearer to the mode than the prior's mean is.
inline constexpr double FAR_START = 10.0;
// Least share of a pivot that may be left by a subtraction, before rotations replace it.
inline constexpr double CANCELLED = 1e-6;
inline constexpr double MIXING[] = {0.0, 0.6, 0.8, 0.9};
inline constexpr Index N_MOVES = 4;
// Factors between 1e-7 and 1e7 in a product before its logarithm: 1e224 does not overflow.
inline constexpr Index FACTORS = 32;
// Up to so many trials, rows share one logarithm of a product of factors 1 + t, each at most 2. Its
// absolute error of 1e-16 is multiplied by the trials.
inline constexpr double FEW_TRIALS = 1024.0;
inline constexpr Index MOST_FACTORS = 512;

// -- products ----------------------------------------------------------------------------------------

// Set out (count,) to x'columns[j], x (n,). Four columns at a time hide each other's delay.
inline void multiply(const double *x, const double *columns, Index stride, Index count, Index n, double *out) {
    using Four = Lanes<4>;
    for (Index j = 0; j < count; j += 4) {
        const double *column[4];
        for (Index k = 0; k < 4; ++k) column[k] = columns + std::min(j + k, count - 1) * stride;
        Four sum[4] = {};
        Index i = 0;
        for (; i + 4 <= n; i += 4) {
            const Four own = load<Four>(x + i, 0);
            sum[0] += own * load<Four>(column[0] + i, 0);
            sum[1] += own * load<Four>(column[1] + i, 0);
            sum[2] += own * load<Four>(column[2] + i, 0);
            sum[3] += own * load<Four>(column[3] + i, 0);
        }
        for (Index k = 0; k < std::min<Index>(4, count - j); ++k) {
            const auto part = numbers(sum[k]);
            double total = (part[0] + part[2]) + (part[1] + part[3]);
            for (Index a = i; a < n; ++a) total += x[a] * column[k][a];
            out[j + k] = total;
        }
    }
}

// -- the prior, its points, a table, and posteriors -------------------------------------------------

// The fixed points z (d, N), chunk by chunk, with what the shapes need of them.
struct Points {
    Index d = 0, n = 0;
    // (N / CHUNK, d, CHUNK) each: z, sqrt(1 + z^2), z / sqrt(1 + z^2), and z^2 / 2 summed over the
    // coordinates up to this one.
    std::vector<double> z, size, tilt, half;

    Points(const Matrix<const double> &points) : d(points.n), n(points.m), z(d * n), size(d * n), tilt(d * n), half(d * n) {
        for (Index c = 0; c < n / CHUNK; ++c)
            for (Index j = 0; j < d; ++j)
                for (Index a = 0; a < CHUNK; ++a) {
                    const Index at = (c * d + j) * CHUNK + a;
                    const double x = points(j, c * CHUNK + a);
                    z[at] = x;
                    size[at] = std::sqrt(1.0 + x * x);
                    tilt[at] = x / size[at];
                    half[at] = 0.5 * x * x + (j > 0 ? half[at - CHUNK] : 0.0);
                }
    }
    // Place of the first coordinate of a chunk.
    Index chunk(Index c) const { return c * d * CHUNK; }
    // Coordinate j of point a.
    double at(Index j, Index a) const { return z[chunk(a / CHUNK) + j * CHUNK + a % CHUNK]; }
};

// Means (L, d), lower roots (G, d, d) and each component's root (L,).
struct Prior {
    Matrix<const double> mean;
    Cube<const double> root;
    Vector<const Index> group_of;
};

// A task's distinct rows (R, d), with their trials and successes (R,).
struct Table {
    Matrix<const double> rows;
    Vector<const double> trials, successes;
};

// The posterior of one component: theta = location + direction y; the first r coordinates are
// y = centre + spread z + bend sqrt(1 + z^2), where z has density N(z; 0, I) exp(log_weight(z)) up to
// a constant, and the others are standard normals.
struct Component {
    double *laplace, *log_evidence, *error;
    Index *n_points;  // points behind the evidence
    Index *n_known;   // points whose log weights are known, at least as many
    Index *n_used;    // points behind moments: those that were asked for, whatever else is known
    double *location;   // (d,)
    double *direction;  // (d, d)
    double *shape;      // (4, d): centre, spread, bend, slack
    double *log_weight; // (capacity,)
};

// Posteriors of all components of one task.
struct Posterior {
    Index n_components, d, capacity, rank = 0;
    std::vector<double> laplace, log_evidence, error, location, direction, shape, log_weight;
    std::vector<Index> n_points, n_known, n_used;

    Posterior(Index n_components, Index d, Index capacity)
        : n_components(n_components), d(d), capacity(capacity), laplace(n_components), log_evidence(n_components),
          error(n_components), location(n_components * d), direction(n_components * d * d),
          shape(n_components * 4 * d), log_weight(n_components * capacity), n_points(n_components),
          n_known(n_components), n_used(n_components) {}
    Component operator[](Index s) {
        return {&laplace[s], &log_evidence[s], &error[s], &n_points[s], &n_known[s], &n_used[s], &location[s * d],
                &direction[s * d * d], &shape[s * 4 * d], &log_weight[s * capacity]};
    }
};

// -- temporary arrays -------------------------------------------------------------------------------

// Vectors that grow and never shrink: no allocation once the largest table was seen.
struct Work {
    Index n_rows = 0, d = 0, r = 0, group = -1;
    std::vector<Index> order;   // (R,): where the table has each row
    std::vector<char> unsure;   // (L,): components whose evidence needs more points
    // The table: rows (R, d), the same transposed (d, R), trials and successes (R,).
    std::vector<double> rows_, columns_, trials_, successes_;
    // The rows at the present point, (R,): eta, n p, n p (1 - p) and n softplus(eta).
    std::vector<double> eta_, slope_, curvature_, level_;
    std::vector<double> start_;           // (R,): eta at v = 0; later temporary
    std::vector<double> turned_, line_;   // (d, d): C Q; (R, d): X C Q
    std::vector<double> block_, factor_;  // (r, R): F', the first r columns of X C Q; (r, r): T'
    // (d,), of which r are used: the point v, T^-1 gradient, Newton's step, and the point before it.
    std::vector<double> v_, slack_, step_, old_;
    std::vector<double> coefficient_;     // (r, R): A', A = F T^-T
    std::vector<double> y_, weights_;     // (r, CHUNK): points; (N,): weights of points over the largest
    // (3, d): first-order moves, third and fourth derivatives of coordinates; in draws z, its proposal and y.
    std::vector<double> moments_;
    std::vector<double> term_, x_, spare_, row_;  // temporary: (R,), (R,), (2, R), (d,)

    // Copy a table, its rows in the order of their trials: rows of equal trials share logarithms. Fewer
    // rows than features stay in their order, on which the rotation of the coordinates depends.
    void load(const Table &table, Index most_points) {
        n_rows = table.rows.n, d = table.rows.m, r = std::min(n_rows, d), group = -1;
        order.resize(n_rows);
        std::iota(order.begin(), order.end(), Index{0});
        const auto &n = table.trials;
        if (n_rows >= d && !std::is_sorted(n.begin(), n.end()))
            std::stable_sort(order.begin(), order.end(), [&](Index i, Index j) { return n[i] < n[j]; });
        for (auto *x : {&trials_, &successes_, &eta_, &slope_, &curvature_, &level_, &start_, &term_, &x_}) x->resize(n_rows);
        rows_.resize(n_rows * d), columns_.resize(n_rows * d), line_.resize(n_rows * d), spare_.resize(2 * n_rows), block_.resize(n_rows * d), coefficient_.resize(n_rows * d);
        turned_.resize(d * d), factor_.resize(d * d);
        for (auto *x : {&v_, &slack_, &step_, &old_, &row_}) x->resize(d);
        y_.resize(d * std::max(CHUNK, d)), weights_.resize(std::max(most_points, CHUNK)), moments_.resize(3 * d);
        for (Index i = 0; i < n_rows; ++i) {
            const Index from = order[i];
            trials_[i] = table.trials[from];
            successes_[i] = table.successes[from];
            std::copy_n(&table.rows(from, 0), d, &rows_[i * d]);
            for (Index j = 0; j < d; ++j) columns_[j * n_rows + i] = rows_[i * d + j];
        }
    }
};

// -- rows at a point ----------------------------------------------------------------------------------

// Set slope n p, curvature n p (1 - p) and level n softplus(eta) of all rows; return the log likelihood.
// With a heat above 1 the curve is flatter: P(success) = logistic(eta / heat), and logarithms are
// multiplied by it.
inline double set_lines(Work &w, double heat) {
    const double *eta = w.eta_.data(), *trials = w.trials_.data(), inverse = 1.0 / heat;
    double *slope = w.slope_.data(), *curvature = w.curvature_.data(), *level = w.level_.data();
    for (Index i = 0; i < w.n_rows; ++i) {
        const double x = eta[i], n = trials[i], t = exp_negative(-std::fabs(x) * inverse), least = 1.0 / (1.0 + t);
        level[i] = n * ((x > 0.0 ? x : 0.0) + heat * log1p_unit(t));
        slope[i] = n * ((x > 0.0 ? 1.0 : t) * least);
        curvature[i] = n * (t * least * least) * inverse;
    }
    return dot(w.successes_.data(), eta, w.n_rows) - sum(level, w.n_rows);
}

// Set the rows at theta = location; return the log likelihood.
inline double set_eta(Work &w, const double *location) {
    for (Index i = 0; i < w.n_rows; ++i) w.eta_[i] = dot(&w.rows_[i * w.d], location, w.d);
    return set_lines(w, 1.0);
}

// sum_i [e_i (slope_i + curvature_i e_i / 2) + level_i - n_i softplus(eta_i + e_i)] for moves e of the rows:
// by how much the log likelihood exceeds its second-order expansion.
inline double rise(Work &w, const double *move) {
    const double *eta = w.eta_.data(), *n = w.trials_.data(), *slope = w.slope_.data(), *level = w.level_.data();
    const double *curvature = w.curvature_.data();
    double *term = w.term_.data();
    for (Index i = 0; i < w.n_rows; ++i) {
        const double e = move[i];
        term[i] = e * (slope[i] + 0.5 * curvature[i] * e) + (level[i] - n[i] * softplus_of(eta[i] + e));
    }
    return sum(term, w.n_rows);
}

// -- the mode -------------------------------------------------------------------------------------------

// Reflect X C, in line (R, d), and C, in turned (d, d), so that X C becomes lower triangular with a
// positive diagonal; R < d.
inline void reflect(Work &w) {
    const Index n_rows = w.n_rows, d = w.d;
    double *turned = w.turned_.data(), *line = w.line_.data(), *vector = w.step_.data();
    for (Index i = 0; i < n_rows; ++i) {
        double square = 0.0;
        for (Index j = i; j < d; ++j) {
            vector[j] = line[i * d + j];
            square += vector[j] * vector[j];
        }
        if (!(square > 0.0)) continue;
        // Householder's reflection I - scale vector vector' moves the row to -norm e_i.
        const double norm = std::copysign(std::sqrt(square), vector[i]);
        vector[i] += norm;
        const double scale = 1.0 / (norm * vector[i]);
        for (Index k = i; k < n_rows + d; ++k) {
            double *row = k < n_rows ? line + k * d : turned + (k - n_rows) * d;
            const double total = scale * dot(row + i, vector + i, d - i);
            for (Index j = i; j < d; ++j) row[j] -= total * vector[j];
            if (norm > 0.0) row[i] = -row[i];
        }
    }
}

// Set turned (d, d) to C Q, and line (R, d) and its columns in block (r, R) to X C Q. The rotation Q makes X C Q lower
// triangular with a positive diagonal if R < d, and is the identity otherwise.
inline void rotate(Work &w, const Matrix<const double> &root) {
    const Index n_rows = w.n_rows, d = w.d;
    std::copy_n(root.data, d * d, w.turned_.data());
    double *block = w.block_.data();
    // C is lower triangular: column j of X C has the features from j on.
    std::fill_n(block, n_rows * d, 0.0);
    for (Index j = 0; j < d; ++j)
        combine(&root(j, j), d, &w.columns_[j * n_rows], n_rows, d - j, n_rows, block + j * n_rows);
    for (Index i = 0; i < n_rows; ++i)
        for (Index j = 0; j < d; ++j) w.line_[i * d + j] = block[j * n_rows + i];
    if (n_rows >= d) return;
    reflect(w);
    for (Index j = 0; j < n_rows; ++j)
        for (Index i = 0; i < n_rows; ++i) block[j * n_rows + i] = w.line_[i * d + j];
}

// Set factor to the upper triangle T' of I + F'WF = T T' by rotations, without squares.
inline void turn_rows_in(Work &w) {
    const Index r = w.r;
    double *factor = w.factor_.data(), *row = w.row_.data();
    for (Index j = 0; j < r; ++j)
        for (Index k = j; k < r; ++k) factor[j * r + k] = j == k ? 1.0 : 0.0;
    for (Index i = 0; i < w.n_rows; ++i) {
        const double root = std::sqrt(w.curvature_[i]);
        for (Index j = 0; j < r; ++j) row[j] = root * w.line_[i * w.d + j];
        for (Index j = 0; j < r; ++j) {
            double *own = factor + j * r;
            const double old = own[j], x = row[j], now = std::sqrt(old * old + x * x), c = old / now, s = x / now;
            own[j] = now;
            for (Index k = j + 1; k < r; ++k) {
                const double f = own[k], y = row[k];
                own[k] = c * f + s * y;
                row[k] = c * y - s * f;
            }
        }
    }
}

// The same by Cholesky's method: row j of T' is what the rows above leave of row j of I + F'WF.
inline void factorise(Work &w) {
    const Index r = w.r, n_rows = w.n_rows;
    double *factor = w.factor_.data(), *scaled = w.term_.data(), *above = w.row_.data();
    for (Index j = 0; j < r; ++j) {
        const double *column = &w.block_[j * n_rows];
        double *own = factor + j * r + j;
        const Index n = r - j;
        for (Index i = 0; i < n_rows; ++i) scaled[i] = w.curvature_[i] * column[i];
        multiply(scaled, column, n_rows, n, n_rows, own);
        std::fill_n(above, n, 0.0);
        combine(factor + j, r, factor + j, r, j, n, above);
        const double square = 1.0 + own[0], rest = square - above[0];
        if (!(rest > CANCELLED * square)) return turn_rows_in(w);
        const double pivot = std::sqrt(rest), inverse = 1.0 / pivot;
        own[0] = pivot;
        for (Index k = 1; k < n; ++k) own[k] = (own[k] - above[k]) * inverse;
    }
}

// Replace x (r,) by T^-1 x.
inline void solve(const Work &w, double *x) {
    for (Index j = 0; j < w.r; ++j) {
        const double *own = &w.factor_[j * w.r];
        x[j] /= own[j];
        for (Index k = j + 1; k < w.r; ++k) x[k] -= own[k] * x[j];
    }
}

// Set factor to T and slack to T^-1 gradient at v with its lines; return |slack|^2.
inline double set_slack(Work &w) {
    factorise(w);
    double *rest = w.term_.data(), *slack = w.slack_.data();
    for (Index i = 0; i < w.n_rows; ++i) rest[i] = w.successes_[i] - w.slope_[i];
    multiply(rest, w.block_.data(), w.n_rows, w.r, w.n_rows, slack);
    for (Index j = 0; j < w.r; ++j) slack[j] -= w.v_[j];
    solve(w, slack);
    return dot(slack, slack, w.r);
}

// Set direction (d, d) to C Q T^-T; columns beyond the rank are those of C Q.
inline void set_direction(Work &w, double *direction) {
    const Index d = w.d, r = w.r;
    const double *factor = w.factor_.data();
    double *columns = w.y_.data();  // (r, d)
    for (Index j = 0; j < r; ++j) {
        double *own = columns + j * d;
        for (Index k = 0; k < d; ++k) own[k] = 0.0;
        combine(factor + j, r, columns, d, j, d, own);
        const double inverse = 1.0 / factor[j * r + j];
        for (Index k = 0; k < d; ++k) own[k] = (w.turned_[k * d + j] - own[k]) * inverse;
    }
    for (Index k = 0; k < d; ++k) {
        for (Index j = 0; j < r; ++j) direction[k * d + j] = columns[j * d + k];
        for (Index j = r; j < d; ++j) direction[k * d + j] = w.turned_[k * d + j];
    }
}

struct Summit {
    double value;  // log posterior there
    bool steep;    // whether log odds may be large
};

// Set old (r,) to the v of theta, mean + C v = theta. To zeros without a theta, where that is far away, or where
// there are fewer rows than features.
inline void set_start(Work &w, const double *mean, const double *theta) {
    const Index d = w.d;
    double *v = w.old_.data();
    bool near = theta != nullptr && w.n_rows >= d;
    for (Index j = 0; j < d && near; ++j) {
        const double *row = &w.turned_[j * d];
        v[j] = (theta[j] - mean[j] - dot(row, v, j)) / row[j];
        near = std::fabs(v[j]) <= FAR_START;  // not of infinite numbers and NaN
    }
    if (!near) std::fill_n(v, w.r, 0.0);
}

// Find the mode v by damped Newton steps from old, where start are the linear predictors at v = 0. Sets factor,
// slack, and lines at v. Where log odds may be large, the mode of a flatter curve is found first, and is where
// the search on a steeper one begins.
inline Summit climb(Work &w) {
    const Index r = w.r, n_rows = w.n_rows;
    double largest = 0.0;
    for (Index i = 0; i < n_rows; ++i) {
        double size = std::fabs(w.start_[i]);
        for (Index j = 0; j < r; ++j) size += std::fabs(w.block_[j * n_rows + i]);
        largest = std::max(largest, size);
    }
    double heat = largest > STEEP ? std::min(largest, HOTTEST) : 1.0;
    double *v = w.v_.data(), *old = w.old_.data(), *step = w.step_.data();
    if (heat > 1.0) std::fill_n(old, r, 0.0);
    // From a start, at least one step: its small errors would all point to where the search for an earlier mode ended.
    const Index least = dot(old, old, r) > 0.0 ? 2 : 1;
    std::fill_n(step, r, 0.0);
    double length = 0.0, before = -INF, decrement = 0.0;
    for (Index n = 0;;) {
        for (Index j = 0; j < r; ++j) v[j] = old[j] + length * step[j];
        std::copy_n(w.start_.data(), n_rows, w.eta_.data());
        combine(v, 1, w.block_.data(), n_rows, r, n_rows, w.eta_.data());
        const double value = set_lines(w, heat) - 0.5 * dot(v, v, r);
        // Armijo's condition, with a tenth of the slope.
        if (value < before + 0.1 * length * decrement && length > 1e-9) {
            length *= 0.5;
            continue;
        }
        decrement = set_slack(w);
        ++n;
        // Rounding of the log posterior hides smaller steps from the line search.
        const double enough = heat == 1.0 ? DECREMENT : 0.1 * heat;
        if ((decrement <= enough + 1e-14 * std::fabs(value) && n >= least) || n > N_STEPS) {
            if (heat == 1.0) return {value, largest > STEEP};
            heat = std::max(1.0, heat / COOLING), n = 0;
            before = -INF, length = 0.0;
            std::copy_n(v, r, old);
            continue;
        }
        before = value, length = 1.0;
        std::copy_n(v, r, old);
        std::copy_n(w.slack_.data(), r, step);
        for (Index j = r - 1; j >= 0; --j) {
            const double *own = &w.factor_[j * r];
            step[j] = (step[j] - dot(own + j + 1, step + j + 1, r - j - 1)) / own[j];
        }
    }
}

// Set location, direction and slack of component s, and its log evidence to Laplace's. The search for the mode may
// start at a theta (d,).
inline void find_mode(Work &w, const Prior &prior, Index s, const Component &out, const double *start = nullptr) {
    const Index d = w.d, r = w.r;
    if (w.group != prior.group_of[s]) {
        w.group = prior.group_of[s];
        rotate(w, prior.root[w.group]);
    }
    const double *mean = &prior.mean(s, 0), *turned = w.turned_.data();
    for (Index i = 0; i < w.n_rows; ++i) w.start_[i] = dot(&w.rows_[i * d], mean, d);
    set_start(w, mean, start);
    auto [value, steep] = climb(w);
    for (Index k = 0; k < d; ++k) out.location[k] = mean[k] + dot(turned + k * d, w.v_.data(), r);
    if (steep) {
        // The rounding of a location times a large feature moves eta. T must belong to the eta that
        // log weights use, or what is left of y^2 and curvature e^2, both large, is not a weight.
        value = set_eta(w, out.location) - 0.5 * dot(w.v_.data(), w.v_.data(), r);
        set_slack(w);
    }
    for (Index j = 0; j < r; ++j) {
        value -= std::log(w.factor_[j * r + j]);
        out.shape[3 * d + j] = w.slack_[j];
    }
    set_direction(w, out.direction);
    *out.laplace = *out.log_evidence = value;
    *out.error = 0.0;
    *out.n_points = *out.n_known = *out.n_used = 0;
}

// -- the shape --------------------------------------------------------------------------------------------

// Set coefficient (r, R) to the columns of A = X direction, in the first r coordinates.
inline void set_coefficients(Work &w, const double *direction) {
    std::fill_n(w.coefficient_.data(), w.r * w.n_rows, 0.0);
    for (Index j = 0; j < w.r; ++j)
        combine(direction + j, w.d, w.columns_.data(), w.n_rows, w.d, w.n_rows, &w.coefficient_[j * w.n_rows]);
}

struct Slopes {
    double spread, bend, centre;
};

// Measure the largest slopes above and below the mode along coordinate j at which the log posterior
// drops, at some distance, as that of a normal density; the highest density is at the mode.
inline Slopes measured_slopes(Work &w, Index j, double slack) {
    const double *column = &w.coefficient_[j * w.n_rows];
    double *move = w.x_.data(), ends[2] = {0.0, 0.0};
    auto drop = [&](double far) {
        for (Index i = 0; i < w.n_rows; ++i) move[i] = column[i] * far;
        return far * (0.5 * far - slack) - rise(w, move);
    };
    for (int side = 0; side < 2; ++side)
        for (double distance : {0.5, 1.0, 2.0, 4.0}) {
            double far = side == 0 ? distance : -distance, fall = drop(far);
            while (distance == 4.0 && fall < FAR_DROP && std::fabs(far) < FARTHEST) fall = drop(far *= 2.0);
            ends[side] = std::max(ends[side], std::fabs(far) / std::sqrt(2.0 * std::max(fall, LEAST_DROP * far * far)));
        }
    const double spread = 0.5 * (ends[0] + ends[1]), bend = 0.5 * (ends[0] - ends[1]);
    // The density is highest where z (spread + bend z / s) + bend / s^3 = 0. Steps towards the fixed
    // point are halved, and converge because |bend| < spread.
    double z = 0.0, s = 1.0;
    for (int n = 0; n < 12; ++n) {
        z = 0.5 * (z - bend / (s * s * s * (spread + bend * z / s)));
        s = std::sqrt(1.0 + z * z);
    }
    return {spread, bend, -spread * z - bend * s};
}

// Set moments (3, d) to first-order moves of the mean by other coordinates, and to third and fourth
// derivatives along each coordinate, given A and lines.
inline void set_derivatives(Work &w) {
    const Index d = w.d, r = w.r, n_rows = w.n_rows;
    double *move = w.moments_.data(), *third = move + d, *fourth = third + d;
    double *square = w.start_.data(), *g = w.term_.data(), *h = w.x_.data(), *own = w.spare_.data(), *pull = own + n_rows;
    for (Index i = 0; i < n_rows; ++i) {
        // n p (1 - p) (1 - 2 p) and n p (1 - p) (1 - 6 p (1 - p))
        const double weight = w.curvature_[i], share = w.trials_[i] > 0.0 ? 1.0 / w.trials_[i] : 0.0;
        g[i] = weight * (1.0 - 2.0 * w.slope_[i] * share), h[i] = weight * (1.0 - 6.0 * weight * share);
        square[i] = 0.0;
    }
    for (Index j = 0; j < r; ++j) {
        const double *column = &w.coefficient_[j * n_rows];
        for (Index i = 0; i < n_rows; ++i) square[i] += column[i] * column[i];
    }
    for (Index j = 0; j < r; ++j) {
        const double *column = &w.coefficient_[j * n_rows];
        for (Index i = 0; i < n_rows; ++i) own[i] = column[i] * column[i], pull[i] = g[i] * column[i];
        third[j] = dot(pull, own, n_rows);
        move[j] = -0.5 * (dot(pull, square, n_rows) - third[j]);
        for (Index i = 0; i < n_rows; ++i) pull[i] = h[i] * own[i];
        fourth[j] = dot(pull, own, n_rows);
    }
}

// Whether the log posterior along coordinate j is far from a parabola.
inline bool is_skewed(const Work &w, Index j) {
    return std::fabs(w.moments_[w.d + j]) > SKEWED || std::fabs(w.moments_[2 * w.d + j]) > CURVED;
}

// Set the rows at a component's location, A, and derivatives; return whether no coordinate is skewed.
inline bool is_nearly_normal(Work &w, const Component &of) {
    set_eta(w, of.location);
    set_coefficients(w, of.direction);
    set_derivatives(w);
    for (Index j = 0; j < w.r; ++j)
        if (is_skewed(w, j)) return false;
    return true;
}

// Set centre, spread and bend of each coordinate from the log posterior along it, given A and lines.
inline void set_shape(Work &w, double *shape) {
    const Index d = w.d, r = w.r;
    set_derivatives(w);
    for (Index j = 0; j < d; ++j) shape[j] = 0.0, shape[d + j] = 1.0, shape[2 * d + j] = 0.0;
    for (Index j = 0; j < r; ++j) {
        const double moved = std::min(std::max(w.moments_[j], -LARGEST_MOVE), LARGEST_MOVE);
        Slopes found;
        if (is_skewed(w, j)) {
            found = measured_slopes(w, j, shape[3 * d + j]);
        } else {
            const double third = w.moments_[d + j];
            found.bend = -third / 3.0;
            found.spread = std::sqrt(1.0 - found.bend * found.bend * VAR_SIZE);
            found.centre = -0.5 * third - found.bend * MEAN_SIZE;
        }
        shape[j] = moved + found.centre, shape[d + j] = found.spread, shape[2 * d + j] = found.bend;
    }
}

// -- points -------------------------------------------------------------------------------------------------

// Set points y (r, CHUNK) of a chunk, and total (CHUNK,) to their log weights but for rows.
inline void warp(Work &w, const Points &points, Index c, const double *shape, double *total) {
    const Index d = w.d, r = w.r;
    double product[CHUNK];
    std::fill_n(product, CHUNK, 1.0);
    std::fill_n(total, CHUNK, 0.0);
    if (r == 0) return;
    std::copy_n(&points.half[points.chunk(c) + (r - 1) * CHUNK], CHUNK, total);
    for (Index j = 0; j < r; ++j) {
        const double centre = shape[j], spread = shape[d + j], bend = shape[2 * d + j], slack = shape[3 * d + j];
        const Index at = points.chunk(c) + j * CHUNK;
        const double *z = &points.z[at], *size = &points.size[at], *tilt = &points.tilt[at];
        double *y = &w.y_[j * CHUNK];
        for (Index a = 0; a < CHUNK; ++a) {
            y[a] = centre + spread * z[a] + bend * size[a];
            total[a] += y[a] * (slack - 0.5 * y[a]);
            product[a] *= spread + bend * tilt[a];
        }
        if (j % FACTORS == FACTORS - 1 || j == r - 1)
            for (Index a = 0; a < CHUNK; ++a) {
                total[a] += log_positive(product[a]);
                product[a] = 1.0;
            }
    }
}

// Add the rows' parts of the log weights of a chunk of points y (r, CHUNK), with e = A y:
// e (slope + curvature e / 2) + level - n softplus(eta + e). Rows of the same few trials share the
// logarithm of a product of 1 + exp(-|eta + e|).
inline void add_rows(const Work &w, double *total) {
    double e[CHUNK], product[CHUNK];
    std::fill_n(product, CHUNK, 1.0);
    const double level = sum(w.level_.data(), w.n_rows);
    for (Index a = 0; a < CHUNK; ++a) total[a] += level;
    Index n_factors = 0;
    for (Index i = 0; i < w.n_rows; ++i) {
        std::fill_n(e, CHUNK, 0.0);
        combine(&w.coefficient_[i], w.n_rows, w.y_.data(), CHUNK, w.r, std::integral_constant<Index, CHUNK>(), e);
        const double eta = w.eta_[i], n = w.trials_[i], slope = w.slope_[i], half = 0.5 * w.curvature_[i];
        if (n > FEW_TRIALS) {
            for (Index a = 0; a < CHUNK; ++a) total[a] += e[a] * (slope + half * e[a]) - n * softplus_of(eta + e[a]);
            continue;
        }
        for (Index a = 0; a < CHUNK; ++a) {
            const double x = eta + e[a];
            total[a] += e[a] * (slope + half * e[a]) - n * (x > 0.0 ? x : 0.0);
            product[a] *= 1.0 + exp_negative(-std::fabs(x));
        }
        if (++n_factors == MOST_FACTORS || i == w.n_rows - 1 || w.trials_[i + 1] != n) {
            for (Index a = 0; a < CHUNK; ++a) total[a] -= n * log_positive(product[a]);
            std::fill_n(product, CHUNK, 1.0);
            n_factors = 0;
        }
    }
}

// Set out (n,) to weights over the largest; return the log of that.
inline double set_weights(const double *log_weight, Index n, double *out) {
    const double top = largest(log_weight, n);
    for (Index a = 0; a < n; ++a) out[a] = exp_negative(log_weight[a] - top);
    return top;
}

struct Average {
    double log_mean, error;
};

// Return the log mean weight of chunks of points, and its standard error; see the plain program.
inline Average average(double top, const double *weights, Index n) {
    double blocks[N_BLOCKS] = {}, total = 0.0, scatter = 0.0;
    for (Index first = 0; first < n; first += PER_BLOCK)
        for (Index a = 0; a < PER_BLOCK; ++a) blocks[first / PER_BLOCK % N_BLOCKS] += weights[first + a];
    const double squares = dot(weights, weights, n);
    for (double block : blocks) total += block;
    for (double block : blocks) {
        const double x = N_BLOCKS * block / total - 1.0;
        scatter += x * x;
    }
    const double count = static_cast<double>(n), plain = std::max(0.0, squares / (total * total) - 1.0 / count);
    const double variance = T_RATIO * T_RATIO * scatter / (N_BLOCKS * (N_BLOCKS - 1)) + 2.0 * plain * CHUNK / count;
    const double tail = std::max(1.0, std::sqrt(count) / total);
    return {top + std::log(total / count), tail * std::sqrt(variance)};
}

// Make the log weights of the first n points known.
inline void weigh(Work &w, const Points &points, const Component &out, Index n) {
    if (*out.n_known >= n) return;
    set_eta(w, out.location);
    set_coefficients(w, out.direction);
    if (*out.n_known == 0) set_shape(w, out.shape);
    for (; *out.n_known < n; *out.n_known += CHUNK) {
        double *total = out.log_weight + *out.n_known;
        warp(w, points, *out.n_known / CHUNK, out.shape, total);
        add_rows(w, total);
    }
}

// Add points until the error of the log evidence is below the tolerance, or there are `most` of them.
inline void integrate(Work &w, const Points &points, const Component &out, double tolerance, Index most) {
    for (Index n = CHUNK;; n *= 2) {
        weigh(w, points, out, n);
        const double top = set_weights(out.log_weight, n, w.weights_.data());
        const auto [log_mean, error] = average(top, w.weights_.data(), n);
        *out.log_evidence = *out.laplace + log_mean, *out.error = error;
        *out.n_points = *out.n_used = n;
        if (error <= tolerance || 2 * n > most) return;
    }
}

// -- a task's decisions ---------------------------------------------------------------------------------------

// A component may be dormant while its weight is surely below 1e-16 of the largest.
inline constexpr double DORMANT_LIMIT = 36.841361487904734;
// Components whose weight is below exp(-12) = 6e-6 of the largest, and whose posterior is nearly normal, keep
// Laplace's evidence: an error of a nat moves no weight by more than 2e-5.
inline constexpr double LITTLE = 12.0;

// What the decisions of a task need, (L,) each.
struct Decisions {
    Vector<const double> log_weights;
    Vector<double> ceiling;  // log evidence when it was last computed
    Vector<double> working;  // the same; -inf: dormant
    double margin, tolerance;
    Index most;
};

// Compute the posteriors of the components that are not dormant, and of those that wake.
inline void compute_awake(Work &w, const Prior &prior, const Points &points, Posterior &posterior, const Decisions &task) {
    const Index n = prior.mean.n;
    posterior.rank = w.r;
    auto joint = [&](Index s) { return task.log_weights[s] + task.ceiling[s]; };
    double top = -INF;
    for (Index g = 0; g < prior.root.n; ++g)
        for (Index s = 0; s < n; ++s) {
            if (prior.group_of[s] != g) continue;
            posterior.n_points[s] = posterior.n_known[s] = posterior.n_used[s] = 0;
            if (task.working[s] == -INF) continue;
            find_mode(w, prior, s, posterior[s]);
            task.ceiling[s] = posterior.laplace[s];
            top = std::max(top, joint(s));
        }
    for (Index s = 0; s < n; ++s) {
        if (task.working[s] == -INF) {
            if (!(joint(s) >= top - DORMANT_LIMIT)) continue;
            find_mode(w, prior, s, posterior[s]);
            task.ceiling[s] = posterior.laplace[s];
            task.working[s] = 0.0;  // awake
        }
        if (!(joint(s) >= top - LITTLE) && is_nearly_normal(w, posterior[s])) continue;
        integrate(w, points, posterior[s], INF, task.most);
        task.ceiling[s] = posterior.log_evidence[s];
    }
    top = -INF;
    double total = 0.0;
    for (Index s = 0; s < n; ++s)
        if (task.working[s] > -INF) top = std::max(top, joint(s));
    for (Index s = 0; s < n; ++s)
        if (task.working[s] > -INF) total += std::exp(joint(s) - top);
    w.unsure.resize(n);
    for (Index s = 0; s < n; ++s) {
        w.unsure[s] = false;
        if (task.working[s] == -INF || posterior.n_points[s] == 0) continue;
        const double weight = std::exp(joint(s) - top) / total;
        w.unsure[s] = weight * (1.0 - weight) * posterior.error[s] > 0.25 * task.tolerance;
    }
    for (Index s = 0; s < n; ++s)
        if (w.unsure[s]) {
            integrate(w, points, posterior[s], task.tolerance, task.most);
            task.ceiling[s] = posterior.log_evidence[s];
        }
    top = -INF;
    for (Index s = 0; s < n; ++s)
        if (task.working[s] > -INF) top = std::max(top, joint(s));
    for (Index s = 0; s < n; ++s) {
        const bool sleeps = joint(s) < top - DORMANT_LIMIT - task.margin && joint(s) > -INF;
        task.working[s] = sleeps || task.working[s] == -INF ? -INF : task.ceiling[s];
    }
}

}  // namespace mixts::logistic
