#include "proptests/core/published_form.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "reference/core/rounding.hpp"

namespace assay::laws {

std::map<std::string, Verdict> verdicts(const Subject& healthy, const KernelForm& published, const Problem& p,
                                        Format precision, std::string_view but) {
  const Expectation e = expect(oracle_of(healthy.room, p), {&healthy.form, precision, 0, 1}, p, default_draws);
  const Arrays got = flat(published.run(p, Policy::of(published.sites, precision), 0));
  std::map<std::string, Verdict> all;
  for (std::size_t t = 0; t < e.tensors.size(); ++t) {
    const auto& [name, expected] = e.tensors[t];
    if (name == but) continue;
    EXPECT_EQ(judge(expected, e.emulated[t].second).verdict, Verdict::pass) << name;
    all[name] = judge(expected, got.at(name).data).verdict;
  }
  return all;
}

std::map<std::string, double> errors_of(const Oracle& truth, Answer answer) {
  const Arrays got = flat(std::move(answer));
  std::map<std::string, double> errors;
  for (const auto& [name, tensor] : truth.tensors) {
    double error = 0, size = 0;
    for (std::size_t i = 0; i < tensor.value.size(); ++i) {
      const double off = std::fabs(got.at(name).data[i] - tensor.value[i].hi);
      if (!(std::isnan(error) || off <= error)) error = off;  // NaN is the largest
      size = std::max(size, std::fabs(tensor.value[i].hi));
    }
    errors[name] = error / size;
  }
  return errors;
}

Problem with_offset(std::string_view room, std::initializer_list<const char*> inputs, Params params, double offset,
                    Format precision) {
  params["bandwidth"] = "1024";
  Problem p = listed_room(room).make(
      {std::string(room), {1, 64, 1, 1, 16, 16, 0}, precision, Style::normal, 0, std::move(params)});
  p.cotangents.clear();
  for (const char* name : inputs)
    for (double& x : p.inputs.at(name).data) x += offset;
  for (auto& [name, array] : p.inputs) round_span(array.data.data(), array.data.size(), Format::bf16);
  return p;
}

}  // namespace assay::laws
