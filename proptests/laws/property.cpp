#include "proptests/laws/property.hpp"

#include <rapidcheck/gtest.h>

namespace assay::laws {

void check_property(void (*property)()) { rc::detail::checkGTest(property); }

}  // namespace assay::laws
