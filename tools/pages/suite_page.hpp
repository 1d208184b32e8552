#pragma once
// records/suite.md: the cases of `assay suite`, and what they were measured to show.
#include <string>

namespace assay {

std::string suite_page();

}  // namespace assay
