#pragma once
// Guesses at the name that was meant where a typed one does not exist.
#include <string>
#include <string_view>
#include <vector>

namespace assay {

/// The one of `names` that `typed` is a slip of the keyboard away from, or a part of, or that other projects call so;
/// "" if there is none. The first of several that are equally near.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& names);

/// " (did you mean beta?)", or "".
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& names);

/// "there is no gama (did you mean gamma?); there are alpha, gamma", for messages; all in quotes where one of the names
/// has a comma.
std::string there_is_no(std::string_view typed, const std::vector<std::string>& names);

/// The mechanism that other projects call so: gated_deltanet for "gdn"; "" if there is none.
std::string mechanism_called(std::string_view name);

/// The name in a case file of the tensor that other projects call so: d_q for "grad_q" and "dq", log_decay for "g",
/// final_state for "ht"; the name itself if that is how a case file would call it.
std::string tensor_called(std::string_view name);

}  // namespace assay
