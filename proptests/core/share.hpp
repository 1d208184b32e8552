#pragma once
// Tests that take minutes as a whole try a share of their cases. ASSAY_SEED draws it: another commit tries others.
// While there is time, further shares follow, until every case had its turn.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "reference/core/random.hpp"

namespace assay {

/// The value of a variable of the environment, or else the usual word.
inline std::string environment_word(const char* variable, const char* usual) {
  const char* said = std::getenv(variable);
  return said == nullptr || *said == '\0' ? usual : said;
}

/// The seed by which cases of tests are drawn.
inline std::string test_seed() { return environment_word("ASSAY_SEED", "0"); }

/// How long a test may go on with cases, beyond those that it tries at least.
inline double test_seconds() { return std::stod(environment_word("ASSAY_SECONDS", "0.2")); }

/// Whether that time was asked for by hand: such a run says more of what it tried.
inline bool are_seconds_asked_for() { return std::getenv("ASSAY_SECONDS") != nullptr; }

inline std::uint64_t hash_of(const std::string& text) { return fnv1a(text); }

/// `Share share(5); while (share.goes_on()) for (...) if (share.takes()) ...` tries one case in five, of each five
/// another one in every round.
class Share {
 public:
  explicit Share(int usual) : usual_(static_cast<std::uint64_t>(usual)) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    if (test != nullptr) name_ = std::string(test->test_suite_name()) + '.' + test->name();
  }

  /// Whether to go through the cases, once more after the first time: those of a round are few, or there is time, or
  /// what was tried is not `enough`; and some had no turn yet.
  bool goes_on(bool enough = true) {
    const double passed = std::chrono::duration<double>(Clock::now() - start_).count();
    const bool needs_more = round_ == 0 || taken_ == 0 || !enough || passed <= test_seconds();
    const bool more = round_ < usual_ && needs_more;
    if (!more) ::testing::Test::RecordProperty("cases", taken_);
    ++round_, met_ = 0;
    return more;
  }

  /// Whether the next case is of this round's share.
  bool takes() {
    const std::uint64_t first = hash_of(test_seed() + ' ' + name_ + ' ' + std::to_string(met_ / usual_));
    const bool taken = (first % usual_ + round_) % usual_ == met_ % usual_;
    ++met_, taken_ += taken ? 1 : 0;
    return taken;
  }

  /// How many were taken in all rounds.
  int taken() const { return taken_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::uint64_t usual_, round_ = 0, met_ = 0;
  int taken_ = 0;
  std::string name_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace assay
