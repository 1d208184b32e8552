#pragma once
// Shared parts of tests of tile programs with arguments: cases as `assay case` draws them, and the verdict on a form's
// own answer to one.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "arguments/drawn_case.hpp"
#include "arguments/file_case.hpp"
#include "judge/contract/contract.hpp"
#include "judge/court/argument_form.hpp"
#include "judge/court/cache.hpp"
#include "judge/trial/argument_trial.hpp"
#include "kernels/arguments/rooms.hpp"

namespace assay::arguments {

/// A form of a mechanism's, healthy or planted.
inline const KernelForm& form_of(const KernelRoom& room, std::string_view name) {
  return *std::find_if(room.forms.begin(), room.forms.end(), [&](const KernelForm& f) { return f.name == name; });
}

/// A case as `assay case` would write it.
struct Drawn {
  std::string mechanism = "softmax_attention", form = "tiled";
  Shape shape;
  Params params = {};
  std::vector<std::pair<std::string, std::string>> with = {};
  std::string style = {};  ///< of arguments
  Format precision = Format::bf16;
  std::uint64_t seed = 0;

  Safetensors file() const {
    return draw_case({.mechanism = mechanism,
                      .shape = shape,
                      .precision = precision,
                      .seed = seed,
                      .params = params,
                      .with = with,
                      .argument_style = style,
                      .cotangents = form != "split_decode"},
                     "test");
  }
  ProblemFile problem() const { return read_problem(file(), "case"); }
};

inline Drawn with_params(Drawn drawn, Params params) {
  drawn.params.merge(params);
  return drawn;
}
inline Drawn with_inputs(Drawn drawn, std::vector<std::pair<std::string, std::string>> with) {
  drawn.with = std::move(with);
  return drawn;
}

inline Policy policy_of(const KernelForm& form, Format precision, const std::string& fault = "") {
  Policy policy = Policy::of(form.sites, precision);
  policy.fault = fault, policy.threads = 1;
  return policy;
}

/// Truth and sigma of a case, for all its mutants: a folder of this process, gone with it.
inline Cache& kept_by_tests() {
  struct Kept {
    std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("assay_tile_cases_" + std::to_string(getpid()));
    Cache cache{folder};
    ~Kept() {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
  };
  static Kept kept;
  return kept.cache;
}

/// The verdict on a form's own answer, by that contract.
inline Judged judged(const ArgumentCase& one, const KernelRoom& room, const std::string& fault,
                     const std::string& contract) {
  return judged_answer(one, room, fault, contract, &kept_by_tests());
}

inline std::string words(const Judged& judged) {
  std::string all = judged.reason;
  for (const ReportRow& row : judged.rows)
    all += assay::text(row.tensor, ": ", name_of(row.judgement.verdict), ' ', row.judgement.reason, " (", row.evidence,
                       ")\n");
  return all;
}

inline Params words_of(std::initializer_list<std::pair<const char*, const char*>> list) {
  Params params;
  for (const auto& [name, value] : list) params[name] = std::string(value);
  return params;
}

/// A tensor of four numbers may be too small for anything to be seen in it.
inline bool keeps(const Judged& judged) {
  return !judged.rows.empty() && std::all_of(judged.rows.begin(), judged.rows.end(), [](const ReportRow& row) {
    return passes(row.judgement.verdict) || row.judgement.verdict == Verdict::vacuous;
  });
}

/// Names of tensors in which the answers differ, of those that both have.
inline std::string differences(const Answer& a, const Answer& b) {
  std::string names;
  const auto compare = [&](const Arrays& x, const Arrays& y, const char* prefix) {
    for (const auto& [name, array] : x)
      if (const auto other = y.find(name); other != y.end() && array.data != other->second.data)
        names += text(' ', prefix, name);
  };
  compare(a.outputs, b.outputs, ""), compare(a.gradients, b.gradients, "d_");
  return names;
}

}  // namespace assay::arguments
