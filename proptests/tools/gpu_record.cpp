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

TEST(GpuRecord, rooms_that_were_run_are_replaced_and_others_kept) {
  const json old = record({{"deltanet", entry("a", "monday")}, {"kda", entry("b", "monday")}}),
             now = record({{"kda", entry("c", "tuesday", 2)}, {"mdn", entry("d", "tuesday")}});
  EXPECT_EQ(
      merged(old, now, {{"deltanet", "a"}, {"kda", "c"}, {"mdn", "d"}}),
      record({{"deltanet", entry("a", "monday")}, {"kda", entry("c", "tuesday", 2)}, {"mdn", entry("d", "tuesday")}}));
}

TEST(GpuRecord, entries_of_other_sources_are_kept_as_they_are) {
  const json old = record({{"deltanet", entry("a", "monday")}}), now = record({{"kda", entry("c", "tuesday")}});
  const Digests digests = {{"deltanet", "other"}, {"kda", "c"}};
  const json both = merged(old, now, digests);
  EXPECT_EQ(both["rooms"]["deltanet"], entry("a", "monday"));
  EXPECT_EQ(rooms_due(both, digests), std::vector<std::string>{"deltanet"});
}

TEST(GpuRecord, rooms_that_are_no_more_are_dropped) {
  const json old = record({{"deltanet", entry("a", "monday")}, {"gdn", entry("b", "monday")}}),
             now = record({{"deltanet", entry("c", "tuesday")}});
  EXPECT_EQ(merged(old, now, {{"deltanet", "c"}}), now);
}

TEST(GpuRecord, a_device_without_a_record_has_what_was_run) {
  const json now = record({{"deltanet", entry("a", "monday")}});
  EXPECT_EQ(merged(nullptr, now, {{"deltanet", "a"}, {"kda", "b"}}), now);
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
