#pragma once
// Numbers in words.
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace assay {

/// The number that the whole word spells, as std::from_chars reads it; nothing if it spells none, or T does not hold
/// it.
template <class T>
std::optional<T> parse_number(std::string_view word) {
  T x = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), x);
  return error == std::errc{} && end == word.data() + word.size() ? std::optional(x) : std::nullopt;
}

}  // namespace assay
