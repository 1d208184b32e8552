// RetNet's layers of several scales: what one decay for all heads has of the decays of each. That heads do not know
// each other is a law of every form and reference, on cases with decays of their own as well.
#include <gtest/gtest.h>

#include "proptests/laws/laws.hpp"
#include "reference/core/inputs.hpp"

namespace assay::laws {
namespace {

TEST(retnet_layer, of_one_decay_has_one_gradient) {
  const Subject s = subject(kernel_rooms(), "retnet", "chunkwise");
  Problem p = s.room.make({.mechanism = "retnet",
                           .shape = {2, 70, 4, 0, 16, 8, 0},
                           .precision = Format::bf16,
                           .seed = 3,
                           .with = {{"log_decay", "-0.25"}}});
  const Answer apart = s.run(p, Format::exact, 0);
  ASSERT_EQ(apart.gradients.at("log_decay").data.size(), 8U);
  p.inputs["log_decay"] = Array({}, {-0.25});
  const Answer together = s.run(p, Format::exact, 0);
  EXPECT_EQ(together.outputs, apart.outputs);
  double sum = 0;
  for (const double x : apart.gradients.at("log_decay").data) sum += x;
  EXPECT_EQ(together.gradients.at("log_decay"), Array({}, {sum}));
}

}  // namespace
}  // namespace assay::laws
