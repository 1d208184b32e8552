#pragma once
// The oracle's answer to a problem, in the order of a report.
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "oracles/core/room.hpp"

namespace assay {

namespace detail {

/// One array from all of `sources`, which differ in precision alone: `convert(elements...)`.
template <class To, class F, class First, class... Rest>
BasicArrays<To> convert_arrays(F&& convert, const BasicArrays<First>& first, const BasicArrays<Rest>&... rest) {
  BasicArrays<To> result;
  for (const auto& [name, array] : first) {
    BasicArray<To>& to = result[name];
    to.shape = array.shape, to.data.reserve(array.data.size());
    for (std::size_t i = 0; i < array.data.size(); ++i)
      to.data.push_back(convert(name, array.data[i], rest.find(name)->second.data[i]...));
  }
  return result;
}

template <class To, class F, class... Sources>
BasicAnswer<To> convert_answer(F&& convert, const BasicAnswer<Sources>&... sources) {
  return {convert_arrays<To>(convert, sources.outputs...), convert_arrays<To>(convert, sources.gradients...)};
}

}  // namespace detail

/// Tensors in the order of a report: outputs under their names, then gradients as d_NAME, both alphabetical.
template <class X>
using Named = std::vector<std::pair<std::string, X>>;

/// All tensors of an answer.
template <class X>
Named<BasicArray<X>> named(BasicAnswer<X> answer) {
  Named<BasicArray<X>> list;
  for (auto& [name, array] : answer.outputs) list.emplace_back(name, std::move(array));
  for (auto& [name, array] : answer.gradients) list.emplace_back("d_" + name, std::move(array));
  return list;
}

/// The doubles that are nearest to these values.
std::vector<double> nearest_doubles(const std::vector<HiLo>& values);

/// Outputs and gradients by the names of a report ("o", "d_q").
Arrays flat(Answer answer);

/// An oracle's answer: value and bound of every element.
struct Oracle {
  struct Tensor {
    std::vector<int> shape;
    std::vector<HiLo> value;
    std::vector<double> bound;
  };
  Named<Tensor> tensors;
  bool head_axis = false;

  Named<std::vector<int>> shapes() const {
    Named<std::vector<int>> list;
    for (const auto& [name, tensor] : tensors) list.emplace_back(name, tensor.shape);
    return list;
  }
};

/// Values in so many words (2 to 4), or in more where the bounds ask for it, with the proven bounds of
/// docs/error-analysis.md. Throws what the room throws on bad input, and InputError where no enclosure decides a
/// comparison.
Oracle oracle_of(const Room& room, const Problem& problem, int words = 2);
/// As above, of an answer that is known already.
Oracle oracle_of(const Problem& problem, BasicAnswer<Enclosed> answer, int threads = 1);

/// "[1][96][12]" for element `flat` of a tensor of that shape.
std::string place(const std::vector<int>& shape, std::size_t flat);

}  // namespace assay
