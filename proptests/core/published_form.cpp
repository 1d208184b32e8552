#include "proptests/core/published_form.hpp"

namespace assay::laws {

std::map<std::string, Verdict> verdicts(const Subject& healthy, const KernelForm& published, const Problem& p,
                                        Format precision) {
  const Expectation e = expect(oracle_of(healthy.room, p), {&healthy.form, precision, 0, 1}, p, default_draws);
  const Arrays got = flat(published.run(p, Policy::of(published.sites, precision), 0));
  std::map<std::string, Verdict> all;
  for (std::size_t t = 0; t < e.tensors.size(); ++t) {
    const auto& [name, expected] = e.tensors[t];
    EXPECT_EQ(judge(expected, e.emulated[t].second).verdict, Verdict::pass) << name;
    all[name] = judge(expected, got.at(name).data).verdict;
  }
  return all;
}

}  // namespace assay::laws
