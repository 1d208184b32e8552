// The parts of a device's record that stay when some of its rooms are run again. Which rooms tools/gpu/run runs is in
// proptests/transcripts/gpu.md.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/gpu/record.hpp"

namespace assay {
namespace {

using nlohmann::json;

json entry(const std::string& digest, const std::string& date, int failed = 0) {
  return {{"date", date}, {"sources", digest}, {"failed", failed}, {"memcheck", date}};
}
json record(json rooms) { return {{"device", "Pretender"}, {"rooms", std::move(rooms)}}; }

/// Rooms that were run are replaced and others kept, of whatever sources, unless they are no more.
TEST(GpuRecord, has_what_was_run_last) {
  const json old = record({{"deltanet", entry("a", "monday")}, {"kda", entry("b", "monday")}, {"gdn", nullptr}}),
             now = record({{"kda", entry("c", "tuesday", 2)}, {"mdn", entry("d", "tuesday")}});
  json both = now;
  both["rooms"]["deltanet"] = entry("a", "monday");
  for (const char* digest : {"a", "other"}) {
    const Digests digests = {{"deltanet", digest}, {"kda", "c"}, {"mdn", "d"}};
    EXPECT_EQ(merged(old, now, digests), both) << digest;
    EXPECT_EQ(merged(nullptr, now, digests), now) << digest;
  }
}

TEST(GpuRecord, due_are_rooms_that_are_missing_stale_or_failed) {
  const json rooms = record({{"deltanet", entry("a", "monday")},
                             {"gla", entry("b", "monday")},
                             {"kda", entry("c", "monday", 1)},
                             {"gdn", entry("d", "monday")}});
  const Digests digests = {{"deltanet", "a"}, {"gla", "other"}, {"kda", "c"}, {"mdn", "e"}};
  EXPECT_EQ(rooms_due(rooms, digests), (std::vector<std::string>{"gla", "kda", "mdn"}));
  EXPECT_EQ(rooms_due(nullptr, {{"deltanet", "a"}}), std::vector<std::string>{"deltanet"});
}

}  // namespace
}  // namespace assay
