#include "files/shown.hpp"

#include <fmt/format.h>

#include "files/input_file.hpp"

namespace assay {

std::string plain_text(std::string_view text) { return excerpt(text, std::string_view::npos - 4); }

std::string shell_word(const std::string& word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string shown_word(const std::string& word) {
  if (plain_text(word) == word) return shell_word(word);
  std::string out = "$'";
  for (const char c : word)
    if (c == '\'' || c == '\\')
      out += '\\', out += c;
    else if (c >= ' ' && c < 0x7f)
      out += c;
    else
      out += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  return out + "'";
}

static std::string& first_words() {
  static std::string words = "build/assay";
  return words;
}

void called_by(const std::vector<std::string>& words) {
  first_words().clear();
  for (const std::string& word : words) first_words() += (first_words().empty() ? "" : " ") + shown_word(word);
}

std::string typed_here(std::string_view command) {
  constexpr std::string_view ours = "build/assay ";
  if (!command.starts_with(ours)) return std::string(command);
  return first_words() + ' ' + std::string(command.substr(ours.size()));
}

}  // namespace assay
