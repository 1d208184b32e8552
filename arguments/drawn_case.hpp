#pragma once
// Seeded cases with arguments, as `assay case` writes them.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/safetensors.hpp"
#include "reference/core/inputs.hpp"

namespace assay::arguments {

/// A style of cases with arguments: a trap that random numbers do not show. It adds the arguments that it needs.
struct ArgumentStyle {
  std::string_view name, summary;
};
std::span<const ArgumentStyle> argument_styles();
bool is_argument_style(std::string_view name);

/// What is asked for.
struct CaseRequest {
  std::string mechanism;  ///< a name that `assay list` has, a program's file, or a component
  Shape shape;
  Format precision = Format::bf16;
  std::string style{name_of(Style::normal)};  ///< of either kind
  std::uint64_t seed = 0;
  Params params = {};  ///< the mechanism's own, and arguments
  std::vector<std::pair<std::string, std::string>> with =
      {};  ///< inputs that are arguments, and what they are: "" drawn
  std::string layout = "bthd";
  bool cotangents = true;
};

/// Whether it asks for an argument, or for a mechanism or a layout that none but cases with arguments have.
bool asks_for_arguments(const CaseRequest& request);

/// The case. Inputs and cotangents of rows outside of every sequence are NaN. Throws InputError, one sentence that
/// names the argument, where the mechanism does not take it or its value.
Safetensors draw_case(const CaseRequest& request, std::string_view tool_version);

}  // namespace assay::arguments
