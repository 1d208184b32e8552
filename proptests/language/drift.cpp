// assay drift of a program: its segments are one run, and an error is found where it is.
#include "judge/drift/drift.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "judge/programs/program_form.hpp"
#include "judge/sigma/expected.hpp"
#include "oracles/core/trajectory_of.hpp"
#include "proptests/language/programs.hpp"
#include "reference/gated_deltanet.hpp"
#include "reference/kda.hpp"
#include "reference/mdn.hpp"

namespace assay::language {
namespace {

DriftSpec spec_of(const std::string& program, Format precision, long tokens, Style style = Style::normal) {
  DriftSpec spec;
  spec.room = find_room(program), spec.of_program = own_form(program), spec.form = spec.of_program.get(),
  spec.output = output_of(*spec.room);
  spec.inputs = {.mechanism = program,
                 .shape = {.heads = 2, .key_dim = 8, .value_dim = 6},
                 .precision = precision,
                 .style = style,
                 .params = {}};
  spec.precision = precision, spec.tokens = tokens, spec.segment = 100, spec.draws = 0, spec.by_site = false;
  return spec;
}

/// In pieces it is what enclosures prove of the whole, states of three axes, momenta and earlier keys included.
TEST(ProgramDrift, SegmentsAreOneRun) {
  for (const char* name : {"gated_deltanet", "mdn", "deltanet-alignment-next_latent", "gsa", "titans"}) {
    const std::string program = in_library(name);
    const DriftSpec spec = spec_of(program, Format::bf16, 300);
    EXPECT_EQ(assay::stream_obstacle(*spec.room, {}), "") << name;
    const Drift drift = measure_drift(spec);
    EXPECT_EQ(drift.proven_tokens, 300) << name;
    EXPECT_LT(drift.proven_off, 1e-25) << name;
    EXPECT_LT(drift.reference_off, 1e-27) << name;
    EXPECT_TRUE(drift.decided()) << name;
    const double error = drift.series.front().windows.all().back().error();
    EXPECT_TRUE(error > 1e-4 && error < 2e-2) << name << ": " << error;
  }
}

/// Two definitions that share no code, segment after segment.
TEST(ProgramDrift, ARoomsProgramGoesWhereTheRoomGoes) {
  const std::pair<const char*, std::unique_ptr<Trajectory> (*)(Tier)> references[] = {
      {"gated_deltanet", trajectory_of<gated_deltanet>}, {"kda", trajectory_of<kda>}, {"mdn", trajectory_of<mdn>}};
  for (const auto& [name, reference] : references) {
    const DriftSpec of_program = spec_of(in_library(name), Format::bf16, 40);
    const Room& room_of = listed_room(name);
    const auto program = of_program.room->trajectory(Tier::w2), room = reference(Tier::w2);
    const Segments segments(room_of, of_program.inputs, 40, 10);
    for (long i = 0; i < segments.count(); ++i) {
      const Problem problem = segments.at(i);
      const BasicArrays<HiLo> mine = program->advance(problem), theirs = room->advance(problem);
      for (const char* tensor : {"o", "final_state"}) {
        const std::vector<HiLo>&a = mine.at(tensor).data, &b = theirs.at(tensor).data;
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t n = 0; n < a.size(); ++n)
          ASSERT_LT(std::fabs((a[n].hi - b[n].hi) + (a[n].lo - b[n].lo)), 1e-27 * (1 + std::fabs(b[n].hi)))
              << name << ' ' << tensor << " of segment " << i;
      }
    }
  }
}

TEST(ProgramDrift, AStateThatIsStoredNarrowIsFound) {
  DriftSpec spec = spec_of(in_library("mamba2"), Format::fp32, 600, Style::long_memory);
  spec.segment = 10, spec.draws = default_draws;
  const Drift healthy = measure_drift(spec);
  EXPECT_TRUE(healthy.passed()) << healthy.worst_sigmas;
  spec.sites = {{"final", Format::bf16}}, spec.by_site = true;
  const Drift narrow = measure_drift(spec);
  EXPECT_TRUE(narrow.failed());
  ASSERT_TRUE(narrow.first_past.has_value());
  EXPECT_GE(narrow.first_past->token, 10);
  EXPECT_LT(narrow.first_past->token, 20);
  ASSERT_FALSE(narrow.sites.empty());
  EXPECT_EQ(narrow.sites.front().site, "final");
  EXPECT_GT(narrow.sites.front().share, 0.99);
}

}  // namespace
}  // namespace assay::language
