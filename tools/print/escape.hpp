#pragma once
// Words of somebody else's, names of files above all, in what we print: one function for every format. None of them
// lets a control character through, or one that changes the order of those around it.
#include <string>
#include <string_view>
#include <vector>

namespace assay {

/// On a line of plain text: '?' for what a line cannot show.
std::string plain_text(std::string_view text);

/// In a line of markdown, as text: no markup, no tags, no cells.
std::string markdown_text(std::string_view text);
/// In a line of markdown, as code.
std::string markdown_code(std::string_view text);
/// Lines as a block of code, with a line end; "" of none.
std::string markdown_block(const std::vector<std::string>& lines);

/// Text of XML and HTML, an attribute's too; lines stay lines.
std::string xml(std::string_view text);

/// As the runner of a workflow takes a message or, with more that means something, a property. Lines stay lines.
std::string workflow_text(std::string_view text, bool property);

/// A word of a command line that is shown, as bash and its relatives take it.
std::string shown_word(const std::string& word);

}  // namespace assay
