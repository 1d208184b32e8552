#pragma once
// Properties of RapidCheck as tests of GoogleTest. The code that runs them is compiled once: where RC_GTEST_PROP
// stands, its templates take seconds of every unit.
#include <gtest/gtest.h>

#include <functional>

namespace assay::laws {

/// Runs `property` on drawn cases, as the body of the current test: fails it with the smallest counterexample. Cases
/// are new where ASSAY_SEED is; there are two at least, and as many as ASSAY_SECONDS hold (0.2 without).
void check_property(const std::function<void()>& property);

}  // namespace assay::laws

/// `ASSAY_PROPERTY(Words, add_exactly) { const double a = *gen; RC_ASSERT(...); }`.
#define ASSAY_PROPERTY(suite, name)                                                \
  static void property_##suite##_##name();                                         \
  TEST(suite, name) { ::assay::laws::check_property(&property_##suite##_##name); } \
  static void property_##suite##_##name()
