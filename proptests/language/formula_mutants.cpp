// Errors in formulas: as many as the language's first implementation finds, and nearly all are seen.
#include <gtest/gtest.h>

#include <set>

#include "language/program/gradient.hpp"
#include "language/program/mutants.hpp"
#include "proptests/language/programs.hpp"

namespace assay::language {
namespace {

TEST(ProgramMutants, AreThoseOfTheFirstImplementation) {
  const std::pair<const char*, std::size_t> counts[] = {{"deltanet", 17},
                                                        {"gated_deltanet", 21},
                                                        {"kda", 24},
                                                        {"mamba2", 15},
                                                        {"gla", 17},
                                                        {"retnet", 14},
                                                        {"mdn", 33},
                                                        {"falcon1", 39},
                                                        {"rwkv7", 34},
                                                        {"gated_delta_product", 31},
                                                        {"forgetting_attention", 12},
                                                        {"sink_attention", 15}};
  for (const auto& [name, count] : counts) {
    const Program program = load_program(path_of(name));
    const std::vector<Mutant> mutants = mutants_of(program);
    EXPECT_EQ(mutants.size(), count) << name;
    std::set<std::string> digests = {program.digest()};
    for (const Mutant& mutant : mutants) {
      EXPECT_TRUE(digests.insert(mutant.program.digest()).second) << name << ": " << mutant.what;
      EXPECT_EQ(mutant.program.body->params.size(), program.body->params.size());
    }
    EXPECT_GT(mutants_of(gradient_of(program)).size(), 2 * count) << name;
  }
}

TEST(ProgramMutants, SayWhatIsWrong) {
  std::set<std::string> all;
  for (const Mutant& mutant : mutants_of(load_program(path_of("gated_deltanet")))) all.insert(mutant.what);
  for (const char* what : {"0.0 exp left out", "0.8 sub: wrong sign", "0 sequence 3 one token late",
                           "0 rows read state 0 before its update", "0.7 contract reads parameter 1 for 2"})
    EXPECT_TRUE(all.contains(what)) << what;
}

}  // namespace
}  // namespace assay::language
