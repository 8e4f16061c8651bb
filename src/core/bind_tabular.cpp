// Bindings of tabular MDPs: counts, evidence, planning and episodes.
#include "binding.hpp"

namespace mixts {

void bind_tabular(nb::module_ &) {}

}  // namespace mixts
