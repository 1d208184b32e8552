#include "arguments/folded.hpp"

#include <cstdlib>
#include <utility>

#include "oracles/core/oracle.hpp"

namespace assay::arguments {
namespace {

BasicProblem<double> doubles_of(const BasicProblem<std::string>& problem) {
  const auto arrays = [](const BasicArrays<std::string>& decimals) {
    return assay::detail::convert_arrays<double>(
        [](std::string_view, const std::string& digits) { return std::strtod(digits.c_str(), nullptr); }, decimals);
  };
  return {problem.id, problem.mechanism, problem.params, arrays(problem.inputs), arrays(problem.cotangents)};
}

}  // namespace

template <class X>
BasicFolded<X>::BasicFolded(const Plan& plan, const language::Mechanism& mechanism) : plan_(plan) {
  for (BasicProblem<std::string>& problem : problems_of(plan)) {
    if constexpr (std::is_same_v<X, double>)
      problems_.push_back(doubles_of(problem));
    else
      problems_.push_back(std::move(problem));
  }
  for (std::size_t n = 0; n < problems_.size(); ++n) try {
      posed_.emplace_back(mechanism, problems_[n]);
    } catch (const Refusal& refusal) {
      if (problems_.size() == 1) throw;
      throw Refusal(refusal.status(), refusal.row(), text("sequence ", n, ": ", refusal.what()));
    }
}

template class BasicFolded<std::string>;
template class BasicFolded<double>;

}  // namespace assay::arguments
