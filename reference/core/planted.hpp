#pragma once
// Faults planted by name in the references, so that the laws can be shown to find them. In the product planted() is its
// first argument at compile time; the references of a test build (ASSAY_PLANT_FAULTS) live in an inline namespace of
// their own, so that both can be linked into one program.
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <type_traits>

#ifdef ASSAY_PLANT_FAULTS
#define ASSAY_REFERENCES planted_references
#else
#define ASSAY_REFERENCES healthy_references
#endif

namespace assay {

/// A fault that a reference plants, and what it does.
struct Fault {
  std::string_view name, what;
};

/// The name of a fault as a template argument.
template <std::size_t N>
struct FaultName {
  char text[N] = {};
  // A literal is what it is made of: planted<"name">.
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  constexpr FaultName(const char (&name)[N]) { std::copy_n(name, N, text); }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

#ifdef ASSAY_PLANT_FAULTS
/// Whether the test that runs has planted this fault; defined by the tests.
bool is_planted(std::string_view fault);
#endif

inline namespace ASSAY_REFERENCES {

/// `healthy`, unless this is a test build and the fault is planted.
template <FaultName Name, class A>
A planted(const A& healthy, [[maybe_unused]] const std::type_identity_t<A>& broken) {
#ifdef ASSAY_PLANT_FAULTS
  return is_planted(Name.view()) ? broken : healthy;
#else
  return healthy;
#endif
}

}  // namespace ASSAY_REFERENCES
}  // namespace assay
