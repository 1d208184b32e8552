#pragma once
// Types by the names that a compiler takes.
#include <string>
#include <typeinfo>

namespace assay::tile {

std::string type_name(const std::type_info& type);

}  // namespace assay::tile
