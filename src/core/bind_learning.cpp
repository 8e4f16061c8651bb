// Bindings of sums over tasks that learning needs.
#include "binding.hpp"

namespace mixts {

void bind_learning(nb::module_ &) {}

}  // namespace mixts
