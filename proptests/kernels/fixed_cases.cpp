// Cases that drawn ones do not reach: masks with more and fewer queries than keys, rows that see nothing, every
// compiled dimension, lengths beyond two tiles. A kernel that rounds nothing is the oracle there, in every tile shape.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "judge/sigma/residues.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/oracle.hpp"
#include "oracles/core/room.hpp"
#include "proptests/core/table.hpp"
#include "reference/core/format.hpp"

namespace assay {
namespace {

/// A row of fixed_cases.json: rooms, a shape, and the params of both, or else every variant of a room.
struct Fixed {
  Json row;

  std::string name() const { return row.at("name").get<std::string>(); }
  friend std::ostream& operator<<(std::ostream& os, const Fixed& f) { return os << f.name(); }
};
std::vector<Fixed> fixed_cases() {
  std::vector<Fixed> list;
  for (const Json& row : test_table("kernels/fixed_cases.json")) list.push_back({row});
  return list;
}

/// The first number that is further from the oracle than half a last bit of every input and cotangent moves its tensor,
/// or "". The kernel has eleven bits more than that, and its answer is rounded once.
std::string off_the_oracle(const Oracle& oracle, const KernelForm& form, const Problem& p, int tile) {
  const Arrays got = flat(form.run(p, Policy::exact(form.sites), tile)), moved = residues(form, p, tile);
  for (const auto& [name, tensor] : oracle.tensors) {
    if (p.cotangents.empty() && name.starts_with("d_")) continue;
    const Array& answer = got.at(name);
    double most = 0;
    for (const double x : moved.at(name).data) most = std::max(most, x);
    for (std::size_t i = 0; i < tensor.value.size(); ++i) {
      const double want = tensor.value[i].hi,
                   limit = most + tensor.bound[i] + unit_roundoff(Format::fp64) * std::fabs(want);
      if (!(std::fabs(answer.data.at(i) - want) <= limit))
        return text(name, place(tensor.shape, i), ": got ", answer.data[i], ", want ", want, ", allowed ", limit);
    }
  }
  return "";
}

class FixedCases : public ::testing::TestWithParam<Fixed> {};

TEST_P(FixedCases, are_the_oracles_where_nothing_rounds) {
  const Json& row = GetParam().row;
  const Shape shape = shape_from(row.at("shape").get<std::string>());
  int tried = 0;
  for (const std::string name : row.at("rooms")) {
    const Room& room = listed_room(name);
    for (const Params& params : row.contains("params") ? std::vector{params_from(row)} : room.variants()) {
      const CaseSpec spec{name, shape, Format::bf16, Style::normal, 3, params};
      const Problem whole = room.make(spec);
      const Oracle oracle = oracle_of(room, whole);
      for (const KernelForm& form : find_kernels(kernel_rooms(), name)->forms) {
        Problem problem = whole;
        if (!form.has_gradients) problem.cotangents.clear();
        if (!form.unstable.empty() || !form.obstacle(problem).empty()) continue;
        for (int tile = 0; tile < static_cast<int>(form.tiles.size()); ++tile, ++tried)
          EXPECT_EQ(off_the_oracle(oracle, form, problem, tile), "")
              << spec.repro() << ' ' << form.name << " tile " << tile;
      }
    }
  }
  EXPECT_GE(tried, 6);
}

INSTANTIATE_TEST_SUITE_P(Kernels, FixedCases, ::testing::ValuesIn(fixed_cases()),
                         [](const auto& of) { return of.param.name(); });

TEST(KernelMutants, say_what_they_do_and_where_they_were_seen) {
  for (const KernelRoom* kernels : kernel_rooms())
    for (const KernelForm& form : kernels->forms)
      for (const Mutant& m : form.mutants)
        EXPECT_FALSE(m.what.empty() || m.seen.empty()) << kernels->name << ' ' << form.name << ' ' << m.name;
}

}  // namespace
}  // namespace assay
