// What the language's first implementation found: digests of programs, and as many errors in formulas, nearly all of
// which are seen. What a digest does not depend on is in proptests/transcripts/mechanism.md.
#include "proptests/language/programs.hpp"

#include <gtest/gtest.h>

#include <set>

#include "language/program/builder.hpp"
#include "language/program/gradient.hpp"
#include "language/program/mutants.hpp"
#include "reference/core/sha256.hpp"

namespace assay::language {
namespace {

TEST(Programs, HaveTheDigestsOfTheFirstImplementation) {
  for (const Sample& sample : samples()) {
    const Program program = load_program(path_of(sample.name));
    EXPECT_EQ(program.digest(), sample.digest) << sample.name;
    // Its contractions did not absorb.
    std::string text = gradient_of(program).text();
    for (std::size_t at = 0; (at = text.find(R"("absorb":true,"spec")", at)) != std::string::npos;) text.erase(at, 14);
    EXPECT_EQ(Sha256().update(text).hex(), sample.gradient_digest) << sample.name;
  }
}

TEST(Programs, AreTheirOwnCanonicalForm) {
  for (const Sample& sample : samples())
    for (const Program& program : {load_program(path_of(sample.name)), gradient_of(load_program(path_of(sample.name)))})
      EXPECT_EQ(canonical(*program.body)->text, program.body->text) << sample.name;
}

// ---- errors in formulas

TEST(ProgramMutants, AreThoseOfTheFirstImplementation) {
  for (const auto& [name, digest, gradient_digest, count] : samples()) {
    if (count == 0) continue;
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
