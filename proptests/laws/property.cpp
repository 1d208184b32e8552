#include "proptests/laws/property.hpp"

#include <gtest/gtest-spi.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <iostream>
#include <sstream>
#include <string>

#include "proptests/core/share.hpp"

namespace assay::laws {
namespace {

using Clock = std::chrono::steady_clock;

/// Runs the property on one case. An EXPECT that fails fails this case, and no other that is tried to shrink it.
void try_case(const std::function<void()>& property) {
  ::testing::TestPartResultArray parts;
  {
    using Reporter = ::testing::ScopedFakeTestPartResultReporter;
    const Reporter reporter(Reporter::INTERCEPT_ALL_THREADS, &parts);
    property();
  }
  std::string said;
  for (int i = 0; i < parts.size(); ++i)
    if (parts.GetTestPartResult(i).failed()) said += std::string(parts.GetTestPartResult(i).message()) + '\n';
  if (!said.empty()) RC_FAIL(said);
}

}  // namespace

void check_property(const std::function<void()>& property) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test->test_suite_name()) + '.' + test->name(), seed = test_seed();
  const double seconds = test_seconds();
  const Clock::time_point start = Clock::now();
  const auto is_late = [&] { return std::chrono::duration<double>(Clock::now() - start).count() > seconds; };
  int tried = 0;
  bool failed = false;  // then it is run again, to shrink the case
  const auto timed = [&] {
    if (tried >= 2 && !failed && is_late()) return;
    try {
      try_case(property);
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
    params.seed = hash_of(seed + ' ' + name + ' ' + std::to_string(round)), params.maxSuccess = round;
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
