#pragma once
// Units of operands in 8 bits: whatever power of two a head's queries, keys, values or probes are multiplied by, the
// kernel rounds the same digits. Without units they saturate or vanish.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "judge/contract/contract.hpp"
#include "proptests/laws/laws.hpp"

namespace assay::laws {

/// For each key/value head, what its queries and values are multiplied by; keys by the reciprocal of the first, so that
/// scores stay as they are, and probes like queries.
struct HeadExponents {
  std::vector<int> query, value;
};

inline Problem with_scaled_heads(Problem p, const HeadExponents& by) {
  const auto scale = [&](const char* name, const std::vector<int>& exponents, int sign) {
    const auto it = p.inputs.find(name);
    if (it == p.inputs.end()) return;
    const std::size_t size = it->second.data.size() / exponents.size();
    for (std::size_t i = 0; i < it->second.data.size(); ++i)
      it->second.data[i] = std::ldexp(it->second.data[i], sign * exponents[i / size]);
  };
  scale("q", by.query, 1), scale("rho", by.query, 1), scale("k", by.query, -1), scale("v", by.value, 1);
  p.cotangents.clear();
  return p;
}

/// o of every head is multiplied as its values are, to the bit, under any rounding.
inline void units_change_no_bit(const Subject& s, const LawCase& drawn) {
  LawCase c = drawn;
  c.spec.precision = *rc::gen::element(Format::e4m3, Format::e5m2);
  Problem p = s.problem(c);
  p.cotangents.clear();
  HeadExponents by;
  for (int h = 0; h < c.spec.shape.shared(); ++h) {
    by.query.push_back(*rc::gen::inRange(-16, 17));
    by.value.push_back(*rc::gen::inRange(-16, 17));
  }
  const Problem scaled = with_scaled_heads(p, by);
  for (const Rounding rounding : {Rounding::nearest_even, Rounding::jittered}) {
    Policy policy = Policy::of(s.form.sites, c.spec.precision);
    policy.rounding = rounding;
    const Array want = s.form.run(p, policy, c.tile).outputs.at("o"),
                got = s.form.run(scaled, policy, c.tile).outputs.at("o");
    const std::size_t size = want.data.size() / by.value.size();
    for (std::size_t i = 0; i < want.data.size(); ++i)
      RC_ASSERT(got.data[i] == std::ldexp(want.data[i], by.value[i / size]));
  }
}

/// With heads from 2^-13 to 2^10 of the usual size, the kernel of contract e4m3 is as good as ever, and what one
/// without units answers fails.
inline void wide_heads_need_units(const Subject& s) {
  CaseSpec spec{std::string(s.room.name), {1, 70, 4, 2, 16, 16, 0}, Format::e4m3, Style::normal, 3};
  if (s.form.name == "split_decode") spec.shape.query_len = 3;
  const Problem usual = s.room.make(spec);
  const Problem wide = with_scaled_heads(usual, {{-13, 10}, {10, -13}});
  const Contract& unscaled = *find_contract("e4m3_unscaled");
  const Policy with = Policy::of(s.form.sites, Format::e4m3), without = unscaled.policy(s.form.sites);
  const auto worst_head = [&](const Problem& p, const Policy& policy) {
    const Array want = s.run(p, Format::exact, 1).outputs.at("o"), got = s.form.run(p, policy, 1).outputs.at("o");
    std::vector<double> error(2), size(2);
    for (std::size_t i = 0; i < want.data.size(); ++i) {
      const std::size_t head = i / (want.data.size() / 2);
      error[head] += (got.data[i] - want.data[i]) * (got.data[i] - want.data[i]);
      size[head] += want.data[i] * want.data[i];
    }
    return std::sqrt(std::max(error[0] / size[0], error[1] / size[1]));
  };
  EXPECT_LT(worst_head(wide, with), 0.1);
  EXPECT_GT(worst_head(wide, without), 0.5);
  // Numbers of the usual size do not need them.
  EXPECT_LT(worst_head(with_scaled_heads(usual, {{0, 0}, {0, 0}}), without), 0.2);

  const Expectation e = expect(oracle_of(s.room, wide), {&s.form, Format::e4m3, 1, 1}, wide, 12);
  ASSERT_EQ(e.tensors.size(), 1U);
  EXPECT_EQ(judge(e.tensors[0].second, e.emulated[0].second).verdict, Verdict::pass);
  const Answer flushed = s.form.run(wide, without, 1);
  EXPECT_EQ(judge(e.tensors[0].second, flushed.outputs.at("o").data).verdict, Verdict::fail);
}

}  // namespace assay::laws
