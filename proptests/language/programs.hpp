#pragma once
// Programs that tests read: those of the language's first implementation, in Python, with the digests that it gave
// them.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/core/room.hpp"
#include "proptests/core/places.hpp"
#include "proptests/core/table.hpp"
#include "reference/core/error.hpp"

namespace assay::language {

struct Sample {
  std::string name, digest, gradient_digest;
  std::size_t mutants;  ///< how many errors of one operation its formula has; 0 where nobody counted them
};
/// Those of digests.json.
inline const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = [] {
    std::vector<Sample> list;
    const Json table = test_table("language/digests.json");
    for (const auto& [name, row] : table.items())
      list.push_back({name, row.at(0).get<std::string>(), row.at(1).get<std::string>(),
                      row.size() > 2 ? row.at(2).get<std::size_t>() : 0});
    return list;
  }();
  return all;
}

inline std::string path_of(const std::string& name) {
  return source_dir() + "/proptests/language/programs/" + name + ".json";
}
/// The room of a program, for as long as the tests run.
inline const Room& program_room(std::string_view path) {
  static std::vector<std::shared_ptr<const Room>> held;
  held.push_back(find_room(std::string(path)));
  require(held.back() != nullptr, path, ": no program");
  return *held.back();
}
inline std::string in_library(const std::string& name) { return source_dir() + "/mechanisms/json/" + name + ".json"; }
/// A program of one input x, in a file; its path.
inline std::string file_of(std::string_view name, std::string_view nodes, std::string_view results,
                           std::string_view type = "real T") {
  std::string path = text(testing::TempDir(), "assay_", name, ".json");
  std::ofstream(path) << R"({"format":"assay-mechanism","version":1,"name":")" << name
                      << R"(","settings":{},"outputs":["o"],"inputs":[{"name":"x","type":")" << type
                      << R"(","domain":"real","default":null,"gradient":true}],"body":{"params":[")" << type
                      << R"("],"nodes":)" << nodes << R"(,"results":)" << results << "}}";
  return path;
}
/// The room of such a program.
inline const Room& written(std::string_view name, std::string_view nodes, std::string_view results,
                           std::string_view type = "real T") {
  return program_room(file_of(name, nodes, results, type));
}
/// A problem as `assay case` makes it.
inline Problem made(const Room& room, const std::string& shape) {
  return room.make({.mechanism = std::string(room.name), .shape = shape_from(shape)});
}
inline std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace assay::language
