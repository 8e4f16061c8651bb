// Bindings of linear rewards with Gaussian or Student noise.
#include "binding.hpp"

namespace mixts {

void bind_linear(nb::module_ &) {}

}  // namespace mixts
