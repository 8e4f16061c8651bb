// Bindings of clicks with features.
#include "binding.hpp"

namespace mixts {

void bind_logistic(nb::module_ &) {}

}  // namespace mixts
