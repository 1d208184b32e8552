#pragma once
// Published forms, beside the healthy ones that say how far a correct kernel may be off.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "judge/sigma/expected.hpp"
#include "proptests/core/laws.hpp"

namespace assay::laws {

/// What the judge says of every tensor of the published form in its first tile, from what the healthy one, which
/// passes, may err by.
inline std::map<std::string, Verdict> verdicts(const Subject& healthy, const KernelForm& published, const Problem& p,
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
