#pragma once
// Records of cases with drawn numbers, their answers, and what laws compare.
#include <rapidcheck.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "files/case_file.hpp"
#include "oracles/scalars/scalar.hpp"
#include "reference/core/rounding.hpp"

namespace assay::arguments {

/// Numbers that are multiples of 1/64, so that every format holds them.
class Draw {
 public:
  Draw() : random_{*rc::gen::arbitrary<std::uint32_t>(), 0} {}

  int below(int n) { return static_cast<int>(random_.next() % static_cast<std::uint64_t>(n)); }
  double number(double low, double high) {
    return std::floor((low + (high - low) * static_cast<double>(random_.next() >> 40) * 0x1p-24) * 64) / 64;
  }
  std::string decimal(double low, double high) { return to_decimal(number(low, high), 20); }
  Json tensor(std::vector<int> shape, double low = -1.5, double high = 1.5) {
    if (shape.empty()) return decimal(low, high);
    const int n = shape.front();
    shape.erase(shape.begin());
    Json list = Json::array();
    for (int i = 0; i < n; ++i) list.push_back(tensor(shape, low, high));
    return list;
  }

 private:
  RandomBits random_;
};

/// A problem and, with cotangents, what its gradients are of.
// NOLINTNEXTLINE(bugprone-exception-escape)
struct Record {
  std::string mechanism;
  Json params = Json::object(), inputs = Json::object(), cotangents = Json::object();

  Json json() const {
    return {
        {"id", "law"}, {"mechanism", mechanism}, {"params", params}, {"inputs", inputs}, {"cotangents", cotangents}};
  }
};

/// The answered record, to 60 digits.
inline Json attempted(const Record& record) {
  const std::string file = case_file_text({record.json()});
  const Case c = read_cases(file, "law").at(0);
  return result_record(c, answer_case(c, {.digits = 60, .tier = {}}));
}
inline Json answered(const Record& record) {
  Json result = attempted(record);
  if (result["status"] != "OK") RC_FAIL(result["message"].get<std::string>());
  return result;
}

using Values = std::vector<Mp100>;
inline void flatten(const Json& value, Values& into) {
  if (value.is_array())
    for (const Json& entry : value) flatten(entry, into);
  else if (value.is_null())
    into.push_back(from_decimal<Mp100>("nan"));
  else
    into.push_back(from_decimal<Mp100>(value.is_string() ? value.get<std::string>() : value.dump()));
}
inline Values values(const Json& tensor) {
  Values list;
  flatten(tensor, list);
  return list;
}

inline bool same(const Mp100& a, const Mp100& b, const Mp100& slack) {
  using std::isfinite, std::isnan;
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return isfinite(a) && isfinite(b) ? abs(a - b) <= slack : a == b;
}

/// Whether all numbers agree to 55 digits of the largest of them or of 1; the printed ones have 60.
inline bool agree(const Values& a, const Values& b) {
  using std::isfinite;
  Mp100 largest = 1;
  for (const Mp100& x : a)
    if (isfinite(x)) largest = std::max<Mp100>(largest, abs(x));
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same(a[i], b[i], largest * from_decimal<Mp100>("1e-55"))) return false;
  return true;
}
inline bool agree(const Json& a, const Json& b) { return agree(values(a), values(b)); }

/// Whether outputs and gradients of both are the same numbers, those that one of them has alone left out.
inline bool agree_in_all(const Json& a, const Json& b) {
  for (const char* part : {"outputs", "gradients"})
    for (const auto& [name, tensor] : a[part].items())
      if (b[part].contains(name) && !agree(tensor, b[part][name])) return false;
  return true;
}

/// Entries from .. to - 1.
inline Json part_of(const Json& tensor, int from, int to) {
  Json list = Json::array();
  for (int i = from; i < to; ++i) list.push_back(tensor.at(static_cast<std::size_t>(i)));
  return list;
}
inline Json joined(Json a, const Json& b) {
  for (const Json& entry : b) a.push_back(entry);
  return a;
}

/// All numbers by f.
template <class F>
Json mapped(const Json& tensor, F&& f) {
  if (!tensor.is_array()) return to_decimal(Mp100(f(from_decimal<Mp100>(tensor.get<std::string>()))), 90);
  Json list = Json::array();
  for (const Json& entry : tensor) list.push_back(mapped(entry, f));
  return list;
}
inline Values summed(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// Softmax attention of T queries and S keys with cotangents for o and lse.
inline Record attention(Draw& draw, int T, int S, int K, int V) {
  Record record{"softmax_attention"};
  record.params = {{"scale", draw.decimal(0.25, 1.25)}};
  record.inputs = {{"q", draw.tensor({T, K})}, {"k", draw.tensor({S, K})}, {"v", draw.tensor({S, V})}};
  record.cotangents = {{"o", draw.tensor({T, V})}, {"lse", draw.tensor({T})}};
  return record;
}

/// A recurrence with what its room asks for.
inline Record recurrence(Draw& draw, const std::string& mechanism, int T, int K, int V) {
  Record record{mechanism};
  record.params = {{"scale", "0.5"}};
  record.inputs = {{"q", draw.tensor({T, K})}, {"k", draw.tensor({T, K})}, {"v", draw.tensor({T, V})}};
  if (mechanism != "mamba2" && mechanism != "gla" && mechanism != "linear_attention")
    record.inputs["beta"] = draw.tensor({T}, 0, 1);
  if (mechanism == "kda" || mechanism == "gla") record.inputs["log_decay"] = draw.tensor({T, K}, -1.5, 0);
  if (mechanism == "gated_deltanet" || mechanism == "mamba2" || mechanism == "comba")
    record.inputs["log_decay"] = draw.tensor({T}, -1.5, 0);
  if (mechanism == "comba") record.inputs["p"] = draw.tensor({T, K});
  record.inputs["initial_state"] = draw.tensor({K, V});
  record.cotangents = {{"o", draw.tensor({T, V})}, {"final_state", draw.tensor({K, V})}};
  return record;
}

}  // namespace assay::arguments
