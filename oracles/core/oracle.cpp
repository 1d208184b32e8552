#include "oracles/core/oracle.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// Arrays with heads have one axis more, and every room has a matrix.
bool has_head_axis(const Problem& problem) {
  return std::ranges::any_of(problem.inputs, [](const auto& input) { return input.second.shape.size() >= 3; });
}

}  // namespace

std::vector<double> nearest_doubles(const std::vector<HiLo>& values) {
  std::vector<double> doubles(values.size());
  std::ranges::transform(values, doubles.begin(), &HiLo::hi);
  return doubles;
}

Arrays flat(Answer answer) {
  Arrays all = std::move(answer.outputs);
  for (auto& [name, array] : answer.gradients) all["d_" + name] = std::move(array);
  return all;
}

Oracle oracle_of(const Room& room, const Problem& problem, int words) {
  std::optional<BasicAnswer<Enclosed>> proven = room.in_words(problem, {.words = words});
  if (!proven) proven = room.enclosed(problem);
  require(proven.has_value(), room.name, ": no enclosure decides a comparison of equal numbers");
  return oracle_of(problem, std::move(*proven));
}

Oracle oracle_of(const Problem& problem, BasicAnswer<Enclosed> answer, int threads) {
  Oracle oracle;
  oracle.head_axis = has_head_axis(problem);
  Named<BasicArray<Enclosed>> all = named(std::move(answer));
  oracle.tensors.resize(all.size());
  words::in_parallel(all.size(), threads, [&](std::size_t t) {
    const BasicArray<Enclosed> array = std::move(all[t].second);
    const std::size_t n = array.data.size();
    Oracle::Tensor tensor{array.shape, std::vector<HiLo>(n), std::vector<double>(n)};
    words::for_each_in_parallel(n, words::threads_of_each(threads, all.size()), [&](std::size_t i) {
      tensor.value[i] = array.data[i].value, tensor.bound[i] = array.data[i].bound;
    });
    oracle.tensors[t] = {all[t].first, std::move(tensor)};
  });
  return oracle;
}

std::string place(const std::vector<int>& shape, std::size_t flat) {
  std::string out;
  std::size_t inner = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  for (const int n : shape) {
    inner /= static_cast<std::size_t>(n);
    out += text('[', flat / inner, ']');
    flat %= inner;
  }
  return out;
}

}  // namespace assay
