#pragma once
// Sums of decimals, exactly.
#include <string>
#include <string_view>

namespace assay::arguments {

/// a + b with all digits. Both are finite numbers as files write them; throws Refusal (DOMAIN) if their exponents are
/// too far apart to write that down.
std::string decimal_sum(std::string_view a, std::string_view b);

}  // namespace assay::arguments
