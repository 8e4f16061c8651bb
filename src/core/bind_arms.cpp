// Bindings of independent arms: counts, evidence and decisions.
#include "binding.hpp"

namespace mixts {

void bind_arms(nb::module_ &) {}

}  // namespace mixts
