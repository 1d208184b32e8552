#pragma once
// The judge against every planted fault of a room: each must be found, by the name of its own test.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "proptests/laws/laws.hpp"

namespace assay::laws {

struct PlantedFault {
  std::string room, form, mutant;
  friend std::ostream& operator<<(std::ostream& os, const PlantedFault& f) {
    return os << f.room << ":" << f.form << ":" << f.mutant;
  }
};

/// Its test says that the fault is found; rooms instantiate it.
class Mutants : public ::testing::TestWithParam<PlantedFault> {};

/// Every mutant of a room's forms.
std::vector<PlantedFault> planted_faults(std::string_view room);

/// Which case and tensor convict the fault ("" if none does): the planted kernel's answers on a fixed set of cases,
/// judged by what is expected of the healthy one.
std::string conviction(const PlantedFault& fault);

/// Faults that a form of the room asks for without listing them, or lists without asking ("" if there are none).
std::string unmatched_faults(std::string_view room);

}  // namespace assay::laws

/// One test a mutant, `room/Mutants.is_killed/form_mutant`, and one for their list, which `ctest -R room/Mutants` runs
/// together; in the namespace above.
#define ASSAY_KILLS_ITS_MUTANTS(mechanism)                                                      \
  TEST(mechanism##_mutants, are_listed) { EXPECT_EQ(unmatched_faults(#mechanism), ""); }        \
  INSTANTIATE_TEST_SUITE_P(mechanism, Mutants, ::testing::ValuesIn(planted_faults(#mechanism)), \
                           [](const auto& fault) { return fault.param.form + "_" + fault.param.mutant; });
