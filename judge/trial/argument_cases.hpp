#pragma once
// Cases with arguments on which the mutants of tile programs with arguments show: for tests and `assay-lab mutants`.
#include <string>
#include <string_view>
#include <vector>

#include "arguments/drawn_case.hpp"

namespace assay {

struct ArgumentCase {
  std::string_view name;
  std::string_view form;  ///< that runs it
  CaseSpec request;
  std::vector<std::string_view> mutants;  ///< that fail on it, held-out ones among them
};

/// The cases of a mechanism whose tile programs take arguments; none for any other.
std::vector<ArgumentCase> argument_cases(std::string_view mechanism);

/// The command that draws it.
std::string command_of(const CaseSpec& request);

}  // namespace assay
