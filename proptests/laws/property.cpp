#include "proptests/laws/property.hpp"

#include <rapidcheck/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

namespace assay::laws {
namespace {

using Clock = std::chrono::steady_clock;

std::string word(const char* variable, const char* usual) {
  const char* said = std::getenv(variable);
  return said == nullptr || *said == '\0' ? usual : said;
}

/// FNV-1a.
std::uint64_t hash(const std::string& text) {
  std::uint64_t h = 14695981039346656037ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return h;
}

}  // namespace

void check_property(const std::function<void()>& property) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test->test_suite_name()) + '.' + test->name(), seed = word("ASSAY_SEED", "0");
  const double seconds = std::stod(word("ASSAY_SECONDS", "0.2"));
  const Clock::time_point start = Clock::now();
  const auto is_late = [&] { return std::chrono::duration<double>(Clock::now() - start).count() > seconds; };
  int tried = 0;
  bool failed = false;  // then it is run again, to shrink the case
  const auto timed = [&] {
    if (tried >= 2 && !failed && is_late()) return;
    try {
      property();
      ++tried;  // those that are discarded are none
    } catch (const rc::detail::CaseResult& result) {
      failed = failed || result.type == rc::detail::CaseResult::Type::Failure;
      throw;
    } catch (...) {
      failed = true;
      throw;
    }
  };
  // RapidCheck's cases grow along a round, so rounds do.
  for (int round = 2; round == 2 || !is_late(); round *= 2) {
    rc::detail::TestParams params;
    params.seed = hash(seed + ' ' + name + ' ' + std::to_string(round)), params.maxSuccess = round;
    params.maxDiscardRatio = 100;
    const auto result = rc::detail::checkTestable(timed, rc::detail::TestMetadata{name, name}, params);
    if (result.is<rc::detail::SuccessResult>()) {
      if (!result.get<rc::detail::SuccessResult>().distribution.empty())
        rc::detail::printResultMessage(result, std::cout);
    } else {
      std::ostringstream said;
      rc::detail::printResultMessage(result, said);
      FAIL() << said.str() << "\nreproduce: ASSAY_SEED=" << seed << " ctest --test-dir build -R " << name << '\n';
    }
  }
  ::testing::Test::RecordProperty("cases", tried);
}

}  // namespace assay::laws
