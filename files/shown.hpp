#pragma once
// Words of others, names of files above all, in one line of ours: as text, and as a word of a command.
#include <string>
#include <string_view>
#include <vector>

namespace assay {

/// On a line of plain text: '?' for what a line cannot show. No control character is let through, nor one that changes
/// the order of those around it.
std::string plain_text(std::string_view text);

/// A word as the shell takes it.
std::string shell_word(const std::string& word);

/// A word of a command line that is shown, as bash and its relatives take it.
std::string shown_word(const std::string& word);

/// A command of ours as it can be typed here: "build/assay check ..." with the words in front that this program was
/// called by, where it was told of them.
std::string typed_here(std::string_view command);

/// Tells of these words, before anything is shown.
void called_by(const std::vector<std::string>& words);

}  // namespace assay
