#pragma once
// Tables of tests, in JSON beside them.
#include <cstdint>
#include <fstream>
#include <string>

#include "files/case_file.hpp"
#include "proptests/core/places.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

/// The file proptests/PATH.
inline Json test_table(const std::string& path) {
  std::ifstream file(source_dir() + "/proptests/" + path);
  return Json::parse(file);
}

/// The case of a row: its mechanism, shape, precision, style and seed in the words of `assay case`, and its params.
inline CaseSpec spec_from(const Json& row) {
  CaseSpec spec;
  spec.mechanism = row.at("mechanism").get<std::string>();
  spec.shape = shape_from(row.at("shape").get<std::string>());
  spec.precision = format_from(row.at("precision").get<std::string>()).value();
  spec.style = style_from(row.at("style").get<std::string>()).value();
  spec.seed = row.at("seed").get<std::uint64_t>();
  spec.params = params_from(row);
  return spec;
}

}  // namespace assay
