#pragma once
// Shares of a run on machines that know nothing of each other, and the whole that they make.
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/case_file.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
}

namespace assay {

struct Console;

/// (2, 8) of "2/8", the second of eight shares. Throws InputError for anything else.
std::pair<int, int> shard_from(const std::string& words);
void add_shard_flag(CLI::App& app, std::string& words);

/// A page's facts on being a share: which one, of how many, and of each row which piece of work it came of.
Json shard_facts(int part, int parts, const std::vector<std::size_t>& places);

/// The page of a run that was not shared, from those of all its shares in any order, called as in `names`. Throws
/// InputError where one is missing, is there twice, or is of another run.
Json merged(std::vector<Json> pages, const std::vector<std::string>& names);

/// Throws InputError unless these are all shares of one run.
void require_whole(const std::vector<Json>& pages, const std::vector<std::string>& names);
/// The rows of all shares, in the order of one process.
Json rows_in_order(std::vector<Json>& pages);

/// Writes the page of the shares, and says whether it passed.
using Merge =
    std::function<std::pair<std::string, bool>(std::vector<Json> pages, const std::vector<std::string>& names)>;
/// A verb that merges shares of `run`: adds its files and --output.
std::function<int(Console&)> add_merge(CLI::App& app, std::string_view run, const Merge& merge);

}  // namespace assay
