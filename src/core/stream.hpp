// A stream of random numbers for each decision of a batch: the results do not depend on the number
// of threads. The numbers are those of splitmix64 (Steele, Lea and Flood, 2014), a hash of a counter.
// Streams start at multiples of another odd number than that by which they go on, so that they do
// not meet.
#pragma once
#include <bit>
#include <cmath>
#include <limits>
#include <cstdint>

#include "views.hpp"

namespace mixts {

// Every bit of the result depends on all bits of the word.
inline std::uint64_t mixed(std::uint64_t word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

// By how much the counter of a stream rises from number to number.
inline constexpr std::uint64_t STEP = 0x9E3779B97F4A7C15u;

struct Stream {
    std::uint64_t state;
    double spare = 0.0;  // a normal variable that is left over
    bool has_spare = false;

    // The stream of decision i of a batch, which has one random word.
    Stream(std::uint64_t word, Index i) : state(word + static_cast<std::uint64_t>(i) * 0xBF58476D1CE4E5B9ull) {}

    // Between 0 and 1, neither included.
    double uniform() { return to_uniform(state += STEP); }

    // The next n numbers at once: a loop without dependencies, which is vectorised.
    void fill(double *out, Index n) {
        for (Index i = 0; i < n; ++i) out[i] = to_uniform(state + STEP * static_cast<std::uint64_t>(i + 1));
        state += STEP * static_cast<std::uint64_t>(n);
    }

    // A standard normal variable, by Marsaglia's polar method, which makes two at a time.
    double normal() {
        if (has_spare) {
            has_spare = false;
            return spare;
        }
        for (;;) {
            const double x = 2.0 * uniform() - 1.0, y = 2.0 * uniform() - 1.0;
            const double square = x * x + y * y;
            if (square >= 1.0) continue;
            const double factor = std::sqrt(-2.0 * std::log(square) / square);
            spare = y * factor;
            has_spare = true;
            return x * factor;
        }
    }

    // A Gamma variable of a shape of at least 1 (Marsaglia and Tsang, 2000); NaN for any other, for
    // which the loop would not end.
    double gamma(double shape) {
        if (!(shape >= 1.0 && shape <= 1e300)) return std::numeric_limits<double>::quiet_NaN();
        const double d = shape - 1.0 / 3.0, width = 1.0 / std::sqrt(9.0 * d);
        for (;;) {
            const double x = normal(), root = 1.0 + x * width, v = root * root * root, u = uniform();
            // The first condition is cheap and almost always enough.
            if (root > 0.0 &&
                (u < 1.0 - 0.0331 * x * x * x * x || std::log(u) < 0.5 * x * x + d * (1.0 - v + std::log(v))))
                return d * v;
        }
    }

    // The logarithm of a Gamma variable, which does not underflow, however small the shape.
    double log_gamma(double shape) {
        if (shape >= 1.0) return std::log(gamma(shape));
        const double whole = std::log(gamma(shape + 1.0));
        return whole + std::log(uniform()) / shape;
    }

private:
    // Hash a counter. Its first 52 bits are the fraction of a number between 1 and 2, from which almost 1
    // is subtracted: that is exact, and no integer has to be converted.
    static double to_uniform(std::uint64_t z) {
        return std::bit_cast<double>((mixed(z) >> 12) | 0x3FF0000000000000ull) - (1.0 - 0x1p-53);
    }
};

}  // namespace mixts
