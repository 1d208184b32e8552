#pragma once
// Seeded cases, with arguments or without, as `assay case` writes them.
#include <span>
#include <string>
#include <string_view>

#include "files/safetensors.hpp"
#include "reference/core/inputs.hpp"

namespace assay::arguments {

/// A style of cases with arguments: a trap that random numbers do not show. It adds the arguments that it needs.
struct ArgumentStyle {
  std::string_view name, summary;
};
std::span<const ArgumentStyle> argument_styles();
bool is_argument_style(std::string_view name);

/// Gives the case the style of that name, of either kind; false, and the normal one, if there is none.
bool set_style(CaseSpec& spec, std::string_view name);

/// Whether it asks for an argument, which no input is that the room would work out itself, or for a mechanism or a
/// layout that none but cases with arguments have.
bool asks_for_arguments(const CaseSpec& spec);
/// " --with sink --layout thd": what CaseSpec::repro() leaves out.
std::string argument_flags(const CaseSpec& spec);

/// The case, in the dtypes of its precision. Inputs and cotangents of rows outside of every sequence are NaN. Throws
/// InputError, one sentence that names the argument, where the mechanism does not take it or its value.
Safetensors draw_case(const CaseSpec& spec, std::string_view tool_version);

}  // namespace assay::arguments
