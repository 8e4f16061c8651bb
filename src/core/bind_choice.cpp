// Bindings of choices among scored actions, and draws of components.
#include "binding.hpp"

namespace mixts {

void bind_choice(nb::module_ &) {}

}  // namespace mixts
