#pragma once
// One problem as files, kernels and oracles exchange it: names and arrays, no types.
#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "reference/core/error.hpp"
#include "reference/core/tensor.hpp"

namespace assay {

/// A parameter as written in a case: a number that matters is a decimal string, counts and switches are JSON's own.
using Param = std::variant<bool, long, std::string>;
using Params = std::map<std::string, Param, std::less<>>;

/// Everything that fixes an answer. Arrays are one head ([T][d]) or several ([H][T][d]); X is double or a decimal
/// string.
template <class X>
struct BasicProblem {
  std::string id, mechanism;
  Params params;
  BasicArrays<X> inputs, cotangents;
};
using Problem = BasicProblem<double>;

/// The answer of a mechanism: outputs by name; gradients of sum <cotangent, output> by the input's name.
template <class X>
struct BasicAnswer {
  BasicArrays<X> outputs, gradients;
};
using Answer = BasicAnswer<double>;

/// Reads options from `params`, remembering which names were known.
class OptionReader {
 public:
  explicit OptionReader(const Params& params) : params_(params) {}

  void operator()(std::string_view name, bool& value) { read<bool>(name, "true or false", value); }
  void operator()(std::string_view name, int& value) {
    long n = value;
    read<long>(name, "an integer", n);
    require_domain(n <= std::numeric_limits<int>::max(), -1, "params.", name, ": ", n, " is too large");
    require_domain(n >= std::numeric_limits<int>::min(), -1, "params.", name, ": ", n, " is too small");
    value = static_cast<int>(n);
  }
  /// A number of rows at most: more than an int holds are as many as it holds.
  void limit(std::string_view name, int& value) {
    long n = value;
    if (read<long>(name, "an integer", n) && n > std::numeric_limits<int>::max())
      value = std::numeric_limits<int>::max();
    else
      (*this)(name, value);
  }
  /// A choice among the named enumerators of E; `name_of` and `count` are E's own.
  template <class E, std::size_t N>
  void operator()(std::string_view name, E& value, const std::pair<std::string_view, E> (&choices)[N]) {
    std::string chosen;
    if (!read<std::string>(name, "a name", chosen)) return;
    for (const auto& [label, e] : choices)
      if (label == chosen) return void(value = e);
    throw Refusal(Status::domain, -1, text("params.", name, ": unknown value '", chosen, "'"));
  }

 private:
  template <class P, class V>
  bool read(std::string_view name, std::string_view expected, V& value) {
    const auto it = params_.find(name);
    if (it == params_.end()) return false;
    const P* p = std::get_if<P>(&it->second);
    if (p == nullptr) throw Refusal(Status::domain, -1, text("params.", name, ": expected ", expected));
    value = *p;
    return true;
  }
  const Params& params_;
};

}  // namespace assay
