// assay drift of a program: its segments are one run, its own algorithm and a traced one have their sites, and an error
// is found where it is.
#include "judge/drift/drift.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "files/case_file.hpp"
#include "judge/programs/program_form.hpp"
#include "judge/sigma/expected.hpp"
#include "oracles/core/trajectory_of.hpp"
#include "proptests/core/places.hpp"
#include "proptests/language/programs.hpp"
#include "proptests/tools/cli.hpp"
#include "reference/gated_deltanet.hpp"
#include "reference/kda.hpp"
#include "reference/mdn.hpp"

namespace assay::language {
namespace {

const std::string library = source_dir() + "/mechanisms/";
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

class ProgramDriftVerb : public CliFiles {};

TEST_F(ProgramDriftVerb, FollowsAChunkAlgorithmAtItsMarks) {
  std::vector<std::string> args = {"drift",    in_library("gated_deltanet"),
                                   "--form",   library + "forms/json/gated_deltanet_chunks.json",
                                   "--tokens", "320",
                                   "--dim",    "8",
                                   "--format", "json"};
  const Ran ran = run_assay(args);
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  const Json drift = Json::parse(ran.out);
  EXPECT_EQ(drift["verdict"], "PASS");
  EXPECT_EQ(drift["tile"], "16");
  std::set<std::string> sites;
  double share = 0;
  for (const Json& site : drift["sites"]) sites.insert(site["site"]), share += site["share"].get<double>();
  EXPECT_TRUE(sites.contains("Tc") && sites.contains("Sc") && sites.contains("op")) << drift["sites"].dump();
  EXPECT_FALSE(sites.contains("factors"));
  EXPECT_NEAR(share, 1, 1e-12);
  EXPECT_NE(drift["command"].get<std::string>().find("--form " + args[3]), std::string::npos) << drift["command"];

  args[3] = in_library("gated_deltanet-error-undecayed");
  const Ran other = run_assay(args);
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("not proven to compute what the mechanism does on this case"), std::string::npos)
      << other.err;
}

TEST_F(ProgramDriftVerb, PrintsEveryFormatAndTakesPython) {
  std::filesystem::copy(source_dir() + "/docs/examples/implicit_delta.py", path("mine.py"));
  const auto in = [&](const char* format) {
    return run_assay({"drift", path("mine.py"), "--tokens", "260", "--dim", "4", "--draws", "3", "--format", format});
  };
  for (const auto& [format, part] : std::map<const char*, const char*>{{"table", "every site alone"},
                                                                       {"markdown", "Past the budget: no token"},
                                                                       {"csv", "tensor,first,last,tokens,error,law"},
                                                                       {"html", "<svg"},
                                                                       {"json", "\"assay-drift\""}}) {
    const Ran ran = in(format);
    EXPECT_EQ(ran.code, 0) << format << ran.err;
    EXPECT_NE(ran.out.find(part), std::string::npos) << format << ran.out.substr(0, 2000);
  }
}

TEST_F(ProgramDriftVerb, RefusesWhatDoesNotGoOn) {
  const auto refused = [&](const std::string& program, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"drift", program};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run_assay(args);
    EXPECT_EQ(ran.code, 2) << program << ran.out;
    return ran.err;
  };
  const auto says = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says(refused(in_library("forgetting_attention")), "takes up no states of the segment before");
  says(refused(library + "forms/json/kda_chunks.json"), "give the recurrence by tokens, and this as its --form");
  // What counts its tokens begins to count again.
  says(refused(in_library("linear_attention-normalization-count")),
       "it does not hold that two runs, with final_state carried to initial_state, are one run");
  says(refused(in_library("kda"), {"--form", "chunkwise"}), "without, it is run token by token");
  says(refused(in_library("kda"), {"--site", "S=bf16"}), "token-by-token has no site S");
}

}  // namespace
}  // namespace assay::language
