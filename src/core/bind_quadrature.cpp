// Bindings of P(an arm is best), E[the best mean] and quantiles of mixtures.
#include "binding.hpp"

namespace mixts {

void bind_quadrature(nb::module_ &) {}

}  // namespace mixts
