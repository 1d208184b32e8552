#pragma once
// docs/arguments.md.
#include <string>

namespace assay {

std::string arguments_page();

}  // namespace assay
