// A stream of random numbers for each decision of a batch: the results do not depend on the number
// of threads. The numbers are those of splitmix64 (Steele, Lea and Flood, 2014), a hash of a counter.
// Streams start at multiples of another odd number than that by which they go on, so that they do
// not meet.
#pragma once
#include <cmath>
#include <cstdint>

#include "views.hpp"

namespace mixts {

struct Stream {
    std::uint64_t state;

    // The stream of decision i of a batch, which has one random word.
    Stream(std::uint64_t word, Index i) : state(word + static_cast<std::uint64_t>(i) * 0xBF58476D1CE4E5B9ull) {}

    // Between 0 and 1, neither included.
    double uniform() {
        std::uint64_t z = state += 0x9E3779B97F4A7C15ull;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        z ^= z >> 31;
        return (static_cast<double>(static_cast<std::int64_t>(z >> 11)) + 0.5) * 0x1p-53;
    }

    // A standard normal variable, by Marsaglia's polar method.
    double normal() {
        for (;;) {
            const double x = 2.0 * uniform() - 1.0, y = 2.0 * uniform() - 1.0;
            const double square = x * x + y * y;
            if (square < 1.0) return x * std::sqrt(-2.0 * std::log(square) / square);
        }
    }

    // A Gamma variable of a shape of at least 1 (Marsaglia and Tsang, 2000).
    double gamma(double shape) {
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
};

}  // namespace mixts
