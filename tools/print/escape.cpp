#include "tools/print/escape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace assay {
namespace {

/// plain_text, but line ends and tabs stay.
std::string plain_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("\n\r\t"), text.size());
    out += plain_text(text.substr(0, end));
    if (end < text.size()) out += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// Backticks in a row, the most that there are.
std::size_t longest_ticks(std::string_view text) {
  std::size_t longest = 0, now = 0;
  for (const char c : text) {
    now = c == '`' ? now + 1 : 0;
    longest = std::max(longest, now);
  }
  return longest;
}

}  // namespace

std::string markdown_text(std::string_view text) {
  std::string out;
  char last = 0;
  for (const char c : plain_text(text)) {
    if (c == '<' || c == '&')
      out += c == '<' ? "&lt;" : "&amp;";
    else if (c == '\\' || c == '`' || c == '*' || c == '|' || (c == '(' && last == ']'))
      out += '\\', out += c;
    else
      out += c;
    last = c;
  }
  return out;
}

std::string markdown_code(std::string_view text) {
  const std::string plain = plain_text(text), ticks(longest_ticks(plain) + 1, '`');
  const std::string_view space = plain.starts_with('`') || plain.ends_with('`') ? " " : "";
  return fmt::format("{0}{1}{2}{1}{0}", ticks, space, plain);
}

std::string text_of_lines(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += plain_text(line) + '\n';
  return out;
}

std::vector<std::string> wrapped(const std::vector<std::string>& lines, std::size_t indent) {
  const std::string command = "      " + typed_here("build/assay ");
  std::vector<std::string> fits;
  for (const std::string& said : lines) {
    std::string line = plain_text(said);
    while (line.size() > text_width && !line.starts_with(command)) {
      const std::size_t at = line.rfind(' ', text_width);
      if (at == std::string::npos || line.find_first_not_of(' ') > at) break;  // a word that is longer
      fits.push_back(line.substr(0, at));
      line = std::string(indent, ' ') + line.substr(at + 1);
    }
    fits.push_back(std::move(line));
  }
  return fits;
}

std::string markdown_block(const std::vector<std::string>& lines) {
  const std::string out = text_of_lines(lines);
  const std::string fence(std::max<std::size_t>(3, longest_ticks(out) + 1), '`');
  return lines.empty() ? "" : fence + '\n' + out + fence + '\n';
}

std::string json_page(const nlohmann::ordered_json& all) {
  return all.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

std::string xml(std::string_view text) {
  std::string out;
  for (const char c : plain_lines(text))
    if (c == '\n' || c == '\r' || c == '\t')
      out += fmt::format("&#{};", static_cast<int>(c));
    else
      out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

std::string workflow_text(std::string_view text, bool property) {
  std::string out;
  for (const char c : plain_lines(text))
    if (c == '%' || c == '\n' || c == '\r' || (property && (c == ':' || c == ',')))
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else
      out += c;
  return out;
}

}  // namespace assay
