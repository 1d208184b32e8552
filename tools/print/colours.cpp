#include "tools/print/colours.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "judge/verdict/judge.hpp"

namespace assay {

bool shows_colours(const Console& console, std::string_view output) {
  const char* kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  return console.shows_output && output == "-" && !dumb && std::getenv("NO_COLOR") == nullptr;
}

std::string_view colour_of(std::string_view words) {
  constexpr std::string_view green = "\033[32m", red = "\033[31m", yellow = "\033[33m", magenta = "\033[35m";
  const std::string_view first = words.substr(0, words.find(' '));
  for (const Verdict verdict : all_verdicts) {
    if (first != name_of(verdict)) continue;
    if (verdict == Verdict::pass) return green;
    if (verdict == Verdict::fail || verdict == Verdict::error) return red;
    return verdict == Verdict::unsupported ? magenta : yellow;
  }
  return "";
}

std::string coloured(std::string_view words, std::string_view colour) {
  return colour.empty() ? std::string(words) : fmt::format("{}{}\033[0m", colour, words);
}

}  // namespace assay
