#pragma once
// Colours of what people read on a terminal.
#include <string>
#include <string_view>

#include "tools/verbs/command.hpp"

namespace assay {

/// Whether what goes to `output`, as OutputFile takes it, is shown in colours: on a terminal that has some, unless
/// NO_COLOR is set.
bool shows_colours(const Console& console, std::string_view output);

/// The escape sequence that begins the colour of a cell or a line whose first word is a verdict; "" of all else.
std::string_view colour_of(std::string_view words);

/// `words` in the colour that this escape sequence begins; as they are if it is "".
std::string coloured(std::string_view words, std::string_view colour);

}  // namespace assay
