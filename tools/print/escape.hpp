#pragma once
// Users' words, names of files above all, in what we print: one function for every format, as
// careful as plain_text.
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "files/shown.hpp"

namespace assay {

/// Lines as plain_text has them, each with a line end.
std::string text_of_lines(const std::vector<std::string>& lines);

/// The characters of a line for people at most, unless a word or a command is longer.
inline constexpr std::size_t text_width = 100;
/// Lines as plain_text has them and no wider than that: a long one goes on in the next, behind so many spaces. A
/// command of ours stays what can be typed.
std::vector<std::string> wrapped(const std::vector<std::string>& lines, std::size_t indent = 6);

/// In a line of markdown, as text: no markup, no tags, no cells.
std::string markdown_text(std::string_view text);
/// In a line of markdown, as code.
std::string markdown_code(std::string_view text);
/// Lines as a block of code, with a line end; "" of none.
std::string markdown_block(const std::vector<std::string>& lines);

/// A page of JSON for programs. Names of files need not be UTF-8.
std::string json_page(const nlohmann::ordered_json& all);

/// Text of XML and HTML, an attribute's too; lines stay lines.
std::string xml(std::string_view text);

/// As the runner of a workflow takes a message or, with more that means something, a property. Lines stay lines.
std::string workflow_text(std::string_view text, bool property);

}  // namespace assay
