// Posteriors of linear rewards a'theta + noise, updated one observation at a time.
//
// Components with the same prior covariance form a *group*: they share the root of the posterior
// covariance and everything else that does not depend on the mean. The posterior of a task lives in a
// *slot*: the root of each group and the mean of each component. Tasks without a slot are computed
// from their statistics when they are needed.
//
// A task's *run* is its latest action a and the observations of it since another action. They only
// move numbers: with spread = a'Sigma a before the run, m of them leave
// spread noise / (noise + m spread) of it, and level = a'mean moves as an arm's mean does. Root and mean
// follow when another action comes, or when they are read.
//
// A group is *dormant* while an upper bound of its log weight is far enough below the leader's. Its
// posterior stays as it was. Of later observations only the squares r'r and the drift X'r of the
// residuals r = y - X mean are summed, because they bound the evidence that it has lost: by
// Cauchy-Schwarz r'(sigma^2 I + X C C'X')^-1 r >= (r'r)^2 / (sigma^2 r'r + |C'X'r|^2).
//
// Sizes: n tasks, G groups, L components, d features.
#pragma once
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "linear_evidence.hpp"
#include "roots.hpp"
#include "special.hpp"
#include "views.hpp"

namespace mixts {

// When groups become dormant, and when rounding errors are wiped out.
struct LinearLimits {
    double limit;   // A group stays dormant while its bound is this far below the leader, in nats.
    double margin;  // It becomes dormant this much further below; infinite: no group ever does.
    double gain;    // The most that one observation adds to a log evidence, -ln(2 pi sigma^2) / 2.
    Index refresh;  // After so many observations a posterior is recomputed from its statistics.
    Index n_slots;  // Slots that fit into memory.
};

// The arrays of the n tasks, which numpy owns.
struct LinearHistories {
    Vector<Index> counts;     // (n,): observations so far.
    Cube<double> factor;      // (n, d + 1, d + 1): the triangle [[R, z], [0, sqrt(rss)]] of [A y].
    Matrix<double> evidence;  // (n, L): log p(history | s); -inf while the component is dormant.
    Matrix<double> misfit;    // (n, L): squared misfit of the history if the noise is unknown, else (n, 0).
};

inline constexpr Index NO_RUN = -1;

// The posterior of one task. Groups lie side by side in lanes, the active ones first.
struct Slot {
    Index n_active = 0;
    std::vector<Index> group_at, lane_of;  // (lanes,) and (G,)
    std::vector<double> root;              // (lanes / W, d (d + 1) / 2, W): packed triangles C.
    std::vector<double> projection;        // (lanes / W, d, W): v = C'a; zeros for dormant groups.
    std::vector<double> spread;            // (lanes,): a'Sigma a = v'v.
    std::vector<double> mean;              // (L, d)
    std::vector<double> level, shift;      // (L,): a'mean with the run; the run moves mean by shift C v.
    std::vector<double> last;              // (d,): the run's action a.
    Index waiting = NO_RUN;                // Observations of a that root and mean do not contain yet.
    // Dormant groups: whether residuals are summed (G,), the log weight less count * gain at the start
    // (L,), r'r (L,) and X'r (L, d).
    std::vector<char> is_tracked;
    std::vector<double> since, squares, drift;
};

// What is known of a task besides its arrays.
struct LinearTask {
    std::unique_ptr<Slot> slot;
    // (G,), or empty if no group was ever dormant: ceiling + count * gain bounds a log weight from above.
    std::vector<double> ceiling;
    double highest = -INF;  // The largest ceiling of dormant groups.
    Index refresh = 0;      // The count at which the posterior is recomputed.
};

class Linear {
  public:
    const LinearPrior prior;
    const LinearLimits limits;
    LinearHistories histories;

    Linear(const LinearPrior &known, const LinearLimits &bounds)
        : prior(known), limits(bounds), work_(prior), width_(prior.n_groups() < width_of<Quad> ? 1 : width_of<Quad>),
          n_blocks_((prior.n_groups() + width_ - 1) / width_), d_(prior.mean.m), size_(packed_size(prior.mean.m)),
          scratch_(static_cast<std::size_t>(3 * d_ * width_)), line_(static_cast<std::size_t>(d_ + 1)),
          packed_(static_cast<std::size_t>(size_)), heights_(static_cast<std::size_t>(prior.n_groups())) {}

    Index n_resident() const { return static_cast<Index>(resident_.size()); }

    // Use these arrays from now on: those of the same tasks, then perhaps of new ones.
    void bind(const LinearHistories &given) {
        histories = given;
        tasks_.resize(static_cast<std::size_t>(given.counts.n));
        for (Index t = n_known_; t < given.counts.n; ++t) task(t).refresh = given.counts[t] + limits.refresh;
        n_known_ = given.counts.n;
    }

    // -- evidence ---------------------------------------------------------------------------------

    // Compute the evidence of all tasks from their statistics, once.
    void evaluate() {
        if (evaluated_) return;
        evaluated_ = true;
        for (Index t = 0; t < n_known_; ++t)
            if (histories.counts[t] > 0) {
                for (Index g = 0; g < prior.n_groups(); ++g) evaluate_group(t, g);
                make_negligible_dormant(t);
            }
    }

    // Free all slots: evidence and posteriors are computed from statistics when they are next needed.
    void forget() {
        evaluated_ = false;
        resident_.clear();
        for (Index t = 0; t < n_known_; ++t) {
            task(t) = LinearTask{};
            task(t).refresh = histories.counts[t] + limits.refresh;
        }
    }

    // Set out (L,) to the log evidence of a task, exact for every component. If some are dormant, all are
    // computed from the statistics, so that their differences keep their digits.
    void log_evidence(Index t, double *out) {
        std::copy_n(evidence(t), prior.mean.n, out);
        bool any = false;
        for (Index g = 0; g < prior.n_groups(); ++g) any = any || is_dormant(t, g);
        for (Index g = 0; any && g < prior.n_groups(); ++g)
            work_.evaluate(g, histories.counts[t], histories.factor[t], out, misfit(t));
    }

    // -- learning ---------------------------------------------------------------------------------

    // Take one observation into the statistics and every posterior.
    void observe(Index t, const double *a, double y) {
        Slot &slot = admit(t);
        if (slot.waiting == NO_RUN || !std::equal(a, a + d_, slot.last.data())) start_run(slot, a);
        observe_run(t, slot, y);
        observe_dormant(slot, a, y);
        fold_row(histories.factor[t], a, y, line_.data());
        histories.counts[t] += 1;
        attend(t, slot);
    }

    // Recompute a task whose statistics the caller has changed.
    void recompute(Index t) {
        LinearTask &own = task(t);
        own.highest = -INF;
        own.refresh = histories.counts[t] + limits.refresh;
        if (own.slot) {
            own.slot->n_active = prior.n_groups();
            own.slot->waiting = NO_RUN;
        }
        for (Index g = 0; g < prior.n_groups(); ++g) {
            evaluate_group(t, g);
            if (own.slot) store_group(*own.slot, g);
        }
        make_negligible_dormant(t);
    }

    // -- reading ----------------------------------------------------------------------------------

    // Turn a standard normal x (d,), times sigma if the noise is unknown, into coefficients of component
    // s; zeros become the posterior mean. A dormant component wakes.
    //
    // Observations that wait need no new root: with their noise u = sigma^2 / m and v = C'a,
    // C (I - v v' / (alpha + sqrt(alpha u))), alpha = v'v + u, is a root, too (Potter).
    void place(Index t, Index s, double *x) {
        const Index g = prior.group_of[s];
        const double *mean = prior.mean.row(s).data;
        if (histories.counts[t] == 0) {
            apply_root(prior.roots.row(g).data, 1, d_, x);
        } else {
            const Slot &slot = awake(t, g);
            const Index lane = slot.lane_of[g];
            if (slot.waiting > 0) {
                const double *v = entries(slot.projection, d_, lane);
                const double left = prior.noise / static_cast<double>(slot.waiting);
                const double alpha = slot.spread[lane] + left;
                double along = 0.0;
                for (Index k = 0; k < d_; ++k) along += v[k * width_] * x[k];
                const double step = slot.shift[s] - along / (alpha + std::sqrt(alpha * left));
                for (Index k = 0; k < d_; ++k) x[k] += step * v[k * width_];
            }
            apply_root(entries(slot.root, size_, lane), width_, d_, x);
            mean = slot.mean.data() + s * d_;
        }
        for (Index k = 0; k < d_; ++k) x[k] += mean[k];
    }

    // Set out (d,) to the posterior mean of a component; dormant ones sleep on.
    void mean(Index t, Index s, double *out) {
        const Index g = prior.group_of[s];
        const double *found = settled_mean(t, s);
        if (found != nullptr && !is_dormant(t, g)) {
            std::copy_n(found, d_, out);
        } else {
            work_.factorise(g, histories.factor[t]);
            work_.mean(g, s, out);
        }
    }

    // The posterior mean of an active component (d,), without observations that wait.
    const double *settled_mean(Index t, Index s) {
        if (histories.counts[t] == 0) return prior.mean.row(s).data;
        Slot &slot = admit(t);
        settle(slot);
        return slot.mean.data() + s * d_;
    }

    // The packed root of an active group, without observations that wait; valid until the next call.
    const double *settled_root(Index t, Index g) {
        if (histories.counts[t] == 0) return prior.roots.row(g).data;
        Slot &slot = admit(t);
        settle(slot);
        const double *root = entries(slot.root, size_, slot.lane_of[g]);
        if (width_ == 1) return root;
        for (Index i = 0; i < size_; ++i) packed_[i] = root[i * width_];
        return packed_.data();
    }

    // Whether a group is dormant: no finite rewards are impossible under a component.
    bool is_dormant(Index t, Index g) const { return histories.evidence(t, prior.members[prior.starts[g]]) == -INF; }

  private:
    LinearTask &task(Index t) { return tasks_[static_cast<std::size_t>(t)]; }
    double *evidence(Index t) const { return histories.evidence.row(t).data; }
    double *misfit(Index t) const { return histories.misfit.row(t).data; }

    // The first entry of a lane, where each lane has n entries.
    double *entries(std::vector<double> &values, Index n, Index lane) const {
        return values.data() + (lane / width_) * n * width_ + lane % width_;
    }
    const double *entries(const std::vector<double> &values, Index n, Index lane) const {
        return values.data() + (lane / width_) * n * width_ + lane % width_;
    }

    // -- slots ------------------------------------------------------------------------------------

    // Return the slot of a task. A task that had none gets one, with the posteriors of its active groups;
    // if there is no room, all others are freed first.
    Slot &admit(Index t) {
        LinearTask &own = task(t);
        if (own.slot) return *own.slot;
        if (n_resident() >= limits.n_slots) {
            for (Index other : resident_) task(other).slot.reset();
            resident_.clear();
        }
        resident_.push_back(t);
        own.slot = empty_slot();
        own.ceiling.resize(static_cast<std::size_t>(prior.n_groups()), -INF);
        Slot &slot = *own.slot;
        for (Index g = 0; g < prior.n_groups(); ++g) {
            if (histories.counts[t] == 0) {
                store(slot, g, prior.roots.row(g).data);
            } else if (is_dormant(t, g)) {
                leave(slot, g);
            } else {
                work_.factorise(g, histories.factor[t]);
                store_group(slot, g);
            }
        }
        if (histories.counts[t] == 0) std::copy_n(prior.mean.data, prior.mean.n * d_, slot.mean.data());
        return slot;
    }

    std::unique_ptr<Slot> empty_slot() const {
        auto slot = std::make_unique<Slot>();
        const auto lanes = static_cast<std::size_t>(n_blocks_ * width_), d = static_cast<std::size_t>(d_);
        const auto groups = static_cast<std::size_t>(prior.n_groups()), components = static_cast<std::size_t>(prior.mean.n);
        slot->n_active = prior.n_groups();
        slot->group_at.resize(lanes);
        slot->lane_of.resize(groups);
        for (Index g = 0; g < prior.n_groups(); ++g) slot->group_at[g] = slot->lane_of[g] = g;
        slot->root.resize(lanes * static_cast<std::size_t>(size_));
        slot->projection.resize(lanes * d);
        slot->spread.resize(lanes);
        slot->mean.resize(components * d);
        slot->level.resize(components);
        slot->shift.resize(components);
        slot->last.resize(d);
        slot->is_tracked.resize(groups);
        slot->since.resize(components);
        slot->squares.resize(components);
        slot->drift.resize(components * d);
        return slot;
    }

    // Write a packed root to the lane of a group.
    void store(Slot &slot, Index g, const double *packed) const {
        double *root = entries(slot.root, size_, slot.lane_of[g]);
        for (Index i = 0; i < size_; ++i) root[i * width_] = packed[i];
    }

    // Write the posterior of a group that was just factorised.
    void store_group(Slot &slot, Index g) {
        work_.root(g, packed_.data());
        store(slot, g, packed_.data());
        for (Index j = prior.starts[g]; j < prior.starts[g + 1]; ++j)
            work_.mean(g, prior.members[j], slot.mean.data() + prior.members[j] * d_);
    }

    void swap_lanes(Slot &slot, Index one, Index other) const {
        if (one == other) return;
        double *x = entries(slot.root, size_, one), *y = entries(slot.root, size_, other);
        for (Index i = 0; i < size_; ++i) std::swap(x[i * width_], y[i * width_]);
        x = entries(slot.projection, d_, one), y = entries(slot.projection, d_, other);
        for (Index k = 0; k < d_; ++k) std::swap(x[k * width_], y[k * width_]);
        std::swap(slot.spread[one], slot.spread[other]);
        std::swap(slot.group_at[one], slot.group_at[other]);
        slot.lane_of[slot.group_at[one]] = one;
        slot.lane_of[slot.group_at[other]] = other;
    }

    // Move a group behind the active ones.
    void leave(Slot &slot, Index g) const {
        slot.n_active -= 1;
        swap_lanes(slot, slot.lane_of[g], slot.n_active);
        double *v = entries(slot.projection, d_, slot.n_active);
        for (Index k = 0; k < d_; ++k) v[k * width_] = 0.0;
        slot.is_tracked[g] = false;
    }

    // -- runs -------------------------------------------------------------------------------------

    // Make a the run's action, not observed yet.
    void start_run(Slot &slot, const double *a) {
        advance(slot, a);
        std::copy_n(a, d_, slot.last.data());
        slot.waiting = 0;
        for (Index lane = 0; lane < slot.n_active; ++lane) {
            const double *v = entries(slot.projection, d_, lane);
            double spread = 0.0;
            for (Index k = 0; k < d_; ++k) spread += v[k * width_] * v[k * width_];
            slot.spread[lane] = spread;
            const Index g = slot.group_at[lane];
            for (Index j = prior.starts[g]; j < prior.starts[g + 1]; ++j) {
                const Index s = prior.members[j];
                slot.level[s] = dot(a, slot.mean.data() + s * d_, d_);
                slot.shift[s] = 0.0;
            }
        }
    }

    // Bring roots and means up to date; the run may go on.
    void settle(Slot &slot) {
        if (slot.waiting <= 0) return;
        advance(slot, slot.last.data());
        for (Index lane = 0; lane < slot.n_active; ++lane)
            slot.spread[lane] *= prior.noise / (prior.noise + static_cast<double>(slot.waiting) * slot.spread[lane]);
        slot.waiting = 0;
    }

    // Bring roots and means up to date, and project the next action.
    void advance(Slot &slot, const double *next) {
        const RootScratch scratch{scratch_.data(), scratch_.data() + d_ * width_, scratch_.data() + 2 * d_ * width_};
        for (Index first = 0; first < slot.n_active; first += width_) {
            double *root = entries(slot.root, size_, first), *v = entries(slot.projection, d_, first);
            const Index active = std::min(slot.n_active - first, width_);
            if (slot.waiting > 0) {
                const double noise = prior.noise / static_cast<double>(slot.waiting);
                if (width_ == 1)
                    update_roots<double>(root, v, noise, d_, active, next, scratch);
                else
                    update_roots<Quad>(root, v, noise, d_, active, next, scratch);
                for (Index lane = first; lane < first + active; ++lane)
                    shift_means(slot, slot.group_at[lane], scratch.reach + (lane - first));
            } else {
                if (width_ == 1)
                    project<double>(root, next, d_, v);
                else
                    project<Quad>(root, next, d_, v);
            }
            for (Index l = active; l < width_; ++l)
                for (Index k = 0; k < d_; ++k) v[k * width_ + l] = 0.0;
        }
    }

    // Move the means of a group by the run: mean += shift C v, `reach` is C v.
    void shift_means(Slot &slot, Index g, const double *reach) {
        for (Index k = 0; k < d_; ++k) line_[k] = reach[k * width_];
        for (Index j = prior.starts[g]; j < prior.starts[g + 1]; ++j) {
            const Index s = prior.members[j];
            const double step = slot.shift[s];
            double *mean = slot.mean.data() + s * d_;
            for (Index k = 0; k < d_; ++k) mean[k] += step * line_[k];
            slot.shift[s] = 0.0;
        }
    }

    // Take one observation of the run's action, of which there were m, into the active groups:
    // share = noise / (noise + m spread), alpha = share spread + noise, e = y - level;
    // evidence -= (ln(2 pi alpha) + e^2 / alpha) / 2, shift += share e / alpha.
    void observe_run(Index t, Slot &slot, double y) {
        const double noise = prior.noise, waiting = static_cast<double>(slot.waiting);
        for (Index lane = 0; lane < slot.n_active; ++lane) {
            const Index g = slot.group_at[lane];
            const double share = noise / (noise + waiting * slot.spread[lane]);
            const double left = slot.spread[lane] * share, alpha = left + noise, log_alpha = LOG_2PI + std::log(alpha);
            for (Index j = prior.starts[g]; j < prior.starts[g + 1]; ++j) {
                const Index s = prior.members[j];
                const double error = y - slot.level[s], step = error / alpha;
                add_evidence(t, s, alpha, log_alpha, error * step);
                slot.shift[s] += share * step;
                // Whichever of both changes less has the smaller rounding error.
                slot.level[s] = left < noise ? slot.level[s] + left * step : y - noise * step;
            }
        }
        slot.waiting += 1;
    }

    // Add the log density of a reward of variance alpha with this squared standardised error.
    void add_evidence(Index t, Index s, double alpha, double log_alpha, double square) const {
        if (!prior.noise_is_unknown()) {
            evidence(t)[s] -= 0.5 * (log_alpha + square);
            return;
        }
        const double freedom = prior.degrees[s] + static_cast<double>(histories.counts[t]);
        evidence(t)[s] += predictive(freedom, prior.unit[s] + misfit(t)[s], alpha, square);
        misfit(t)[s] += square;
    }

    // -- dormant groups ---------------------------------------------------------------------------

    // Add an observation to the residuals of dormant groups.
    void observe_dormant(Slot &slot, const double *__restrict a, double y) const {
        for (Index lane = slot.n_active; lane < prior.n_groups(); ++lane) {
            const Index g = slot.group_at[lane];
            if (!slot.is_tracked[g]) continue;
            for (Index j = prior.starts[g]; j < prior.starts[g + 1]; ++j) {
                const Index s = prior.members[j];
                const double residual = y - dot(a, slot.mean.data() + s * d_, d_);
                slot.squares[s] += residual * residual;
                double *__restrict drift = slot.drift.data() + s * d_;
                for (Index k = 0; k < d_; ++k) drift[k] += residual * a[k];
            }
        }
    }

    // The largest log weight of a group, not normalised.
    double height(Index t, Index g) const {
        double best = -INF;
        for (Index j = prior.starts[g]; j < prior.starts[g + 1]; ++j) {
            const Index s = prior.members[j];
            best = std::max(best, prior.log_weights[s] + histories.evidence(t, s));
        }
        return best;
    }

    // Look after a task that has learned: groups may become dormant, wake, or be recomputed.
    void attend(Index t, Slot &slot) {
        double lead = make_negligible_dormant(t);
        LinearTask &own = task(t);
        const Index count = histories.counts[t];
        if (count >= own.refresh) {
            own.refresh = count + limits.refresh;
            rebuild(t, slot);
        }
        // No ceiling above this can be told from one that matters.
        double enough = lead - limits.limit - static_cast<double>(count) * limits.gain;
        if (own.highest <= enough) return;
        lower_ceilings(own, slot, enough);
        if (own.highest <= enough) return;
        for (Index g = 0; g < prior.n_groups(); ++g)
            if (slot.lane_of[g] >= slot.n_active && own.ceiling[g] > enough) wake(t, slot, g);
        // Those that are negligible go back to sleep: their bounds are tight again.
        make_negligible_dormant(t);
    }

    // Make negligible groups dormant; return the largest log weight of all.
    double make_negligible_dormant(Index t) {
        double lead = -INF;
        for (Index g = 0; g < prior.n_groups(); ++g) lead = std::max(lead, heights_[g] = height(t, g));
        const double enough = lead - limits.limit - limits.margin;
        for (Index g = 0; g < prior.n_groups(); ++g)
            if (heights_[g] < enough && !is_dormant(t, g)) make_dormant(t, g);
        return lead;
    }

    // Make a group dormant: note its log weights, and start its sums of residuals at zero.
    void make_dormant(Index t, Index g) {
        LinearTask &own = task(t);
        const double grown = static_cast<double>(histories.counts[t]) * limits.gain;
        own.ceiling.resize(static_cast<std::size_t>(prior.n_groups()), -INF);
        own.ceiling[g] = heights_[g] - grown;
        own.highest = std::max(own.highest, own.ceiling[g]);
        if (own.slot) {
            settle(*own.slot);
            leave(*own.slot, g);
            own.slot->is_tracked[g] = true;
        }
        for (Index j = prior.starts[g]; j < prior.starts[g + 1]; ++j) {
            const Index s = prior.members[j];
            if (own.slot) {
                own.slot->since[s] = prior.log_weights[s] + evidence(t)[s] - grown;
                own.slot->squares[s] = 0.0;
                std::fill_n(own.slot->drift.data() + s * d_, d_, 0.0);
            }
            evidence(t)[s] = -INF;
        }
    }

    // Lower the ceilings above `enough` by the evidence that the groups have surely lost.
    void lower_ceilings(LinearTask &own, const Slot &slot, double enough) {
        own.highest = -INF;
        for (Index lane = slot.n_active; lane < prior.n_groups(); ++lane) {
            const Index g = slot.group_at[lane];
            if (own.ceiling[g] > enough && slot.is_tracked[g]) {
                double bound = -INF;
                for (Index j = prior.starts[g]; j < prior.starts[g + 1]; ++j)
                    bound = std::max(bound, slot.since[prior.members[j]] - loss(slot, lane, prior.members[j]));
                own.ceiling[g] = std::min(own.ceiling[g], bound);
            }
            own.highest = std::max(own.highest, own.ceiling[g]);
        }
    }

    // A lower bound of the nats that component s has lost against a perfect fit while dormant.
    double loss(const Slot &slot, Index lane, Index s) {
        const double squares = slot.squares[s], *drift = slot.drift.data() + s * d_;
        if (squares == 0.0) return 0.0;
        const double *root = entries(slot.root, size_, lane);
        double reach = 0.0;
        for (Index k = 0; k < d_; ++k) {
            const double *entries = root + column(k, d_) * width_;
            double v = 0.0;
            for (Index i = k; i < d_; ++i) v += entries[(i - k) * width_] * drift[i];
            reach += v * v;
        }
        return 0.5 * squares * squares / (prior.noise * squares + reach);
    }

    // Return the slot of a task, in which this group is not dormant.
    Slot &awake(Index t, Index g) {
        Slot &slot = admit(t);
        if (slot.lane_of[g] >= slot.n_active) wake(t, slot, g);
        return slot;
    }

    // Recompute a dormant group from the statistics. The run ends, because it lacks this group.
    void wake(Index t, Slot &slot, Index g) {
        settle(slot);
        slot.waiting = NO_RUN;
        swap_lanes(slot, slot.lane_of[g], slot.n_active);
        slot.n_active += 1;
        evaluate_group(t, g);
        store_group(slot, g);
        LinearTask &own = task(t);
        own.highest = -INF;
        for (Index lane = slot.n_active; lane < prior.n_groups(); ++lane)
            own.highest = std::max(own.highest, own.ceiling[slot.group_at[lane]]);
    }

    // Recompute the groups that are not dormant from the statistics, which removes rounding errors.
    void rebuild(Index t, Slot &slot) {
        slot.waiting = NO_RUN;
        for (Index lane = 0; lane < slot.n_active; ++lane) {
            evaluate_group(t, slot.group_at[lane]);
            store_group(slot, slot.group_at[lane]);
        }
    }

    // Compute the evidence of a group from the statistics of its task.
    void evaluate_group(Index t, Index g) {
        work_.evaluate(g, histories.counts[t], histories.factor[t], evidence(t), misfit(t));
    }

    LinearEvidence work_;
    Index width_, n_blocks_, d_, size_;
    std::vector<double> scratch_, line_, packed_, heights_;
    std::vector<LinearTask> tasks_;
    std::vector<Index> resident_;
    Index n_known_ = 0;
    bool evaluated_ = false;
};

}  // namespace mixts
