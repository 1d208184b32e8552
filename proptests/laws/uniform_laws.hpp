#pragma once
// Further laws of the kernels that weigh all tokens alike (lla-family.md sections 10 and 11).
#include <algorithm>
#include <cmath>

#include "proptests/laws/laws.hpp"

namespace assay::laws {

/// No cotangent but that of o.
inline Problem of_output_alone(Problem p) {
  for (auto& [name, cotangent] : p.cotangents)
    if (name != "o") std::fill(cotangent.data.begin(), cotangent.data.end(), 0.0);
  return p;
}

/// Ones in column x of every row of the heads in that group, `of` groups in all.
inline Array one_column(const Array& like, int group, int of, int x) {
  Array column(like.shape);
  const int heads = like.shape[0] / of;
  for (int h = group * heads; h < (group + 1) * heads; ++h)
    for (int t = 0; t < like.shape[1]; ++t) column.data[index(like, h, t, x)] = 1;
  return column;
}

/// Constant values come out as they went in; of gradients: sum_j dv_j = sum_i do_i, at every precision.
inline void weights_sum_to_one(const Subject& s, const LawCase& c) {
  const Problem p = of_output_alone(s.problem(c));
  const Arrays got = flat(s.run(p, c.spec.precision, c.tile)), allowed = allowance(s, p, c.spec.precision, c.tile);
  const Array &dv = got.at("d_v"), &g = p.cotangents.at("o");
  const Array nothing(g.shape);
  for (int h = 0; h < dv.shape[0]; ++h)
    for (int x = 0; x < dv.shape[2]; ++x)
      expect_zero_sum({{1, product(one_column(dv, h, dv.shape[0], x), dv, allowed.at("d_v"))},
                       {-1, product(one_column(g, h, dv.shape[0], x), g, nothing)}});
}

/// Keys and values a long way from zero, by `offset` of their spread, lose twice that factor at most: fp32 holds so
/// much less of their mean than of their spread, and two means enter, that before a chunk and the last. Raw moments
/// would lose its square (lla-family.md section 11). Numbers are dyadic: the offset changes none of their bits.
inline void an_offset_costs_its_size(const Subject& s, const LawCase& c) {
  LawCase plain = c;
  plain.spec.style = Style::normal;
  Problem p = s.problem(plain);
  const double offset = 128, loss = 1 + 2 * offset, grid = std::ldexp(1.0, -10);
  for (const char* name : {"k", "v"})
    if (const auto it = p.inputs.find(name); it != p.inputs.end())
      for (double& x : it->second.data) x = grid * std::round(x / grid);
  Problem far = p;
  for (const char* name : {"k", "v"})
    if (const auto it = far.inputs.find(name); it != far.inputs.end())
      for (double& x : it->second.data) x += offset;
  const Arrays allowed = allowance(s, p, Format::fp32, c.tile), near = flat(s.run(p, Format::exact, c.tile));
  Arrays got = flat(s.run(far, Format::fp32, c.tile));
  for (double& x : got.at("o").data) x -= offset;
  for (const auto& [name, limits] : allowed) {
    if (name != "o" && !name.starts_with("d_")) continue;
    // The mean in o is summed with its offset: a rounding for each of T tokens and for what is done with the sum.
    const double rounding = name == "o" ? (c.spec.shape.seq_len + 4) * unit_roundoff(Format::fp32) * offset : 0;
    for (std::size_t i = 0; i < limits.data.size(); ++i) {
      const double difference = std::fabs(got.at(name).data[i] - near.at(name).data[i]);
      if (!(difference <= loss * limits.data[i] + rounding))
        RC_FAIL(text(name, " with an offset is off by ", difference, ", without it allowed ", limits.data[i]));
    }
  }
}

}  // namespace assay::laws
