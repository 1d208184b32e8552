// Published cases as safetensors files: what the oracle answers to the file is what is published, and padding is where
// it should be.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "arguments/file_case.hpp"
#include "files/problem_file.hpp"
#include "proptests/arguments/records.hpp"
#include "proptests/core/table.hpp"
#include "reference/core/error.hpp"

namespace assay::arguments {
namespace {

/// A tensor of a record in doubles; null is NaN.
Array numbers_of(const Json& value) {
  Array array;
  for (const Json* at = &value; at->is_array() && !at->empty(); at = &at->front())
    array.shape.push_back(static_cast<int>(at->size()));
  for (const Mp100& x : values(value)) array.data.push_back(static_cast<double>(x));
  return array;
}

/// Heads behind tokens, [H][T][...] as [T][H][...].
Array tokens_first(const Array& array) {
  Array out({array.shape[1], array.shape[0]});
  out.shape.insert(out.shape.end(), array.shape.begin() + 2, array.shape.end());
  out.data.resize(array.data.size());
  const auto H = static_cast<std::size_t>(array.shape[0]), T = static_cast<std::size_t>(array.shape[1]);
  const std::size_t inner = H * T == 0 ? 0 : array.data.size() / (H * T);
  for (std::size_t h = 0; h < H; ++h)
    for (std::size_t t = 0; t < T; ++t)
      for (std::size_t i = 0; i < inner; ++i) out.data[(t * H + h) * inner + i] = array.data[(h * T + t) * inner + i];
  return out;
}

/// How the tensors of one record lie in a file.
class AsFile {
 public:
  explicit AsFile(const Json& record)
      : record_(record),
        mechanism_(record["mechanism"]),
        component_(mechanism_ == "short_conv" || mechanism_ == "gated_rmsnorm"),
        heads_(!component_ && numbers_of(record["inputs"]["q"]).shape.size() == 3),
        packed_(record["inputs"].contains("cu_seqlens")),
        paged_(record["inputs"].contains("page_table")) {}

  Array lay(const std::string& name, Array array) const {
    const auto front = [&](int length) { array.shape.insert(array.shape.begin(), length); };
    const bool state = name.starts_with("initial_") || name.starts_with("final_") || name == "k_carry";
    if (component_) {
      if (name == "x" || name == "z" || name == "o" || (state && !packed_)) front(1);
      return array;
    }
    if (paged_ && (name == "k" || name == "v")) return pages(std::move(array));
    if (has_rows(name, array)) {
      if (!heads_) front(1);
      array = tokens_first(array);
      front(1);
    } else if (state) {
      if (!packed_) front(1);
      if (!heads_) array.shape.insert(array.shape.begin() + 1, 1);
    } else if (name == "chunk_states" || name == "checkpoints" || name == "states_at") {
      if (!heads_) array.shape.insert(array.shape.begin() + 1, 1);
    } else if (!heads_ && name != "bias" && name != "scale" && name != "bandwidth" &&
               (!array.shape.empty() || per_head().contains(name))) {
      front(1);
    }
    return array;
  }

  Safetensors file() const {
    Safetensors out;
    const std::set<std::string> integers = {"cu_seqlens", "cu_seqlens_q", "cu_seqlens_k", "lengths",     "lengths_q",
                                            "lengths_k",  "page_table",   "state_at",     "documents_q", "documents_k"};
    for (const auto& [name, value] : record_["inputs"].items()) {
      if (name == "mask")
        out.tensors[name] = store_integers(numbers_of(Json::parse(truths(value.dump()))), "BOOL");
      else if (integers.contains(name))
        out.tensors[name] = store_integers(numbers_of(value), "I64");
      else
        out.tensors[name] = store(lay(name, numbers_of(value)), "F64");
    }
    if (record_.contains("cotangents"))
      for (const auto& [name, value] : record_["cotangents"].items())
        out.tensors["d_" + name] = store(lay(name, numbers_of(value)), "F64");
    out.metadata = {{"mechanism", mechanism_}, {"params", record_.value("params", Json::object()).dump()}};
    return out;
  }

 private:
  static std::string truths(std::string list) {
    for (const auto& [word, digit] : {std::pair("true", "1"), std::pair("false", "0")})
      for (std::size_t at = list.find(word); at != std::string::npos; at = list.find(word))
        list.replace(at, std::string(word).size(), digit);
    return list;
  }
  static const std::set<std::string>& per_head() {
    static const std::set<std::string> names = {"sink", "alibi_slopes", "a_log", "dt_bias", "rate", "skip"};
    return names;
  }
  bool has_rows(const std::string& name, const Array& array) const {
    if (name == "lambda") return array.shape.size() >= (heads_ ? 2U : 1U);
    if (name == "x") return mechanism_ == "parallax_gate";
    static const std::set<std::string> names = {"q", "k", "v",  "rho", "p",    "beta", "log_decay", "a",        "b",
                                                "z", "o", "dt", "lse", "gate", "eta",  "log_mu",    "log_alpha"};
    return names.contains(name);
  }
  /// [H][pages][S][d] as [pages][S][H][d].
  Array pages(Array array) const {
    if (!heads_) array.shape.insert(array.shape.begin(), 1);
    std::vector<int> shape = array.shape;
    array.shape = {shape[0], shape[1] * shape[2], shape[3]};
    array = tokens_first(array);
    array.shape = {shape[1], shape[2], shape[0], shape[3]};
    return array;
  }

  const Json& record_;
  std::string mechanism_;
  bool component_, heads_, packed_, paged_;
};

/// A page table whose rows differ in length is no tensor; integers that are none and masks of numbers are no dtype.
bool fits_a_file(const Json& record) {
  const std::string mechanism = record["mechanism"];
  if (mechanism == "quantize" || record["expect"]["status"] != "OK") return false;
  const auto table = record["inputs"].find("page_table");
  if (table == record["inputs"].end()) return true;
  return std::all_of(table->begin(), table->end(),
                     [&](const Json& row) { return row.size() == table->front().size(); });
}

/// Largest distance relative to the tensor's largest number; 1 where something else is undefined or infinite.
double distance(const Array& got, const Array& expected) {
  if (got.shape != expected.shape) return 1;
  double largest = 0, off = 0;
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    const double a = got.data[i], b = expected.data[i];
    if (std::isnan(a) != std::isnan(b) || std::isinf(a) != std::isinf(b)) return 1;
    if (!std::isfinite(b)) continue;
    largest = std::max(largest, std::fabs(b)), off = std::max(off, std::fabs(a - b));
  }
  return largest > 0 ? off / largest : off;
}

TEST(ArgumentFiles, AnswerPublishedCases) {
  const Json cases = test_table("arguments/cases.json")["cases"];
  int files = 0, compared = 0;
  for (const Json& record : cases) {
    if (!fits_a_file(record)) continue;
    const std::string id = record["id"];
    const AsFile as_file(record);
    const ProblemFile problem = read_problem(as_file.file(), id);
    const Safetensors answer = answer_file(problem, std::nullopt, 1, "test");
    ASSERT_EQ(answer.metadata.at("status"), "OK") << id << ": " << answer.metadata.at("message");
    ++files;
    for (const auto& [part, prefix] : {std::pair("outputs", ""), std::pair("gradients", "d_")}) {
      if (!record["expect"].contains(part)) continue;
      for (const auto& [name, value] : record["expect"][part].items()) {
        const Array expected = as_file.lay(name, numbers_of(value));
        const auto found = answer.tensors.find(prefix + name);
        const bool says_nothing =
            std::all_of(expected.data.begin(), expected.data.end(), [](double x) { return std::isnan(x); });
        ASSERT_EQ(found == answer.tensors.end(), says_nothing) << id << ' ' << prefix << name;
        if (says_nothing) continue;
        EXPECT_LE(distance(load(name, found->second), expected), 0x1p-50) << id << ' ' << prefix << name;
        ++compared;
      }
    }
  }
  EXPECT_GT(files, 120);
  EXPECT_GT(compared, 800);
}

}  // namespace
}  // namespace assay::arguments
