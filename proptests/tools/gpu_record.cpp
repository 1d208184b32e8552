// What a device's record keeps when some of its rooms are run again, and which rooms tools/gpu/run runs.
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/gpu/record.hpp"
#include "tools/pages/docs_kernels.hpp"

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

/// tools/gpu/run with a program in gpu_check's place that writes down what it is asked.
class GpuRun : public CliFiles {
 protected:
  void SetUp() override {
    CliFiles::SetUp();
    program("due", "deltanet,kda");
    std::filesystem::create_directory(folder / "bin");
    write("bin/compute-sanitizer",
          "#!/bin/bash\nwhile [[ $1 == --* ]]; do [[ $1 == --tool || $1 == --error-exitcode ]] "
          "&& shift; shift; done\necho \"memcheck ${*:2}\" >> " +
              path("calls") + "\necho '========= ERROR SUMMARY: 0 errors'\n");
    permit("bin/compute-sanitizer");
  }
  void permit(const std::string& name) const {
    std::filesystem::permissions(path(name), std::filesystem::perms::owner_all);
  }
  void program(const std::string& name, const std::string& due) const {
    write(name, "#!/bin/bash\ncase $1 in\n--sources) " + source_dir() + "/tools/gpu/run --digests ;;\n--due) echo '" +
                    due + "' ;;\n*) echo \"$*\" >> " + path("calls") + " ;;\nesac\n");
    permit(name);
  }
  /// What it is asked of rooms: memcheck of all, several at a time, and then one after the other.
  std::vector<std::string> runs_of(const std::vector<std::string>& rooms) const {
    std::vector<std::string> lines;
    lines.reserve(2 * rooms.size());
    for (const std::string& room : rooms) lines.push_back("memcheck --subset --rooms " + room);
    std::sort(lines.begin(), lines.end());
    for (const std::string& room : rooms)
      lines.push_back("--rooms " + room + " --records " + folder.string() + " --memcheck ERROR SUMMARY: 0 errors");
    return lines;
  }
  /// What the program was asked to run, memchecks in the order of their rooms.
  std::vector<std::string> calls(const std::string& arguments) const {
    const std::string command = "PATH=" + path("bin") + ":$PATH " + source_dir() + "/tools/gpu/run --records " +
                                folder.string() + ' ' + arguments + " > " + path("out");
    EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
    std::istringstream text(read("calls"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    const auto first_run =
        std::find_if(lines.begin(), lines.end(), [](const std::string& line) { return !line.starts_with("memcheck"); });
    std::sort(lines.begin(), first_run);
    return lines;
  }
};

TEST_F(GpuRun, runs_the_rooms_that_are_due) {
  EXPECT_EQ(calls("--binary " + path("due")), runs_of({"deltanet", "kda"}));
}
TEST_F(GpuRun, runs_all_where_all_are_asked_for) {
  std::vector<std::string> all;
  for (const auto& [room, digest] : kernel_sources_digests(source_dir())) all.push_back(room);
  EXPECT_EQ(calls("--all --binary " + path("due")), runs_of(all));
}
TEST_F(GpuRun, runs_the_rooms_that_are_named) {
  EXPECT_EQ(calls("--rooms gla --binary " + path("due")), runs_of({"gla"}));
}
TEST_F(GpuRun, enters_no_room_whose_memory_is_not_clean) {
  write("bin/compute-sanitizer", "#!/bin/bash\necho '========= ERROR SUMMARY: 3 errors'\n[[ $* != *kda* ]]\n");
  permit("bin/compute-sanitizer");
  const std::string command = "PATH=" + path("bin") + ":$PATH " + source_dir() + "/tools/gpu/run --records " +
                              folder.string() + " --binary " + path("due") + " > " + path("out");
  EXPECT_NE(std::system(command.c_str()), 0);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(read("calls"), "--rooms deltanet --records " + folder.string() + " --memcheck ERROR SUMMARY: 3 errors\n");
  EXPECT_NE(read("out").find("kda: memcheck on a subset: ERROR SUMMARY: 3 errors (exit 1)"), std::string::npos);
}
TEST_F(GpuRun, runs_nothing_where_nothing_is_due) {
  program("none", "");
  EXPECT_EQ(calls("--binary " + path("none")), runs_of({}));
  EXPECT_NE(read("out").find("--all runs them again"), std::string::npos);
}

/// tools/gpu/run --judge with programs in place of draw_check and truth_check.
class GpuJudge : public GpuRun {
 protected:
  void SetUp() override {
    GpuRun::SetUp();
    script("bin/nvidia-smi", "echo NVIDIA Stub");
    judging("draw_check", R"({"room": "deltanet", "differ": 0})");
    judging("truth_check", R"({"rule": "kda", "differ": 0})");
  }
  void script(const std::string& name, const std::string& body) const {
    write(name, "#!/bin/bash\n" + body + "\n");
    permit(name);
  }
  void judging(const std::string& name, const std::string& line, const std::string& sources = "--judge-digests") const {
    const std::string says = line.empty() ? "" : "; echo '" + line + "'";
    script(name, "if [[ $1 == --sources ]]; then " + source_dir() + "/tools/gpu/run " + sources + "; else echo \"" +
                     name + " $*\" >> " + path("calls") + says + "; fi");
  }
  int run() const {
    const std::string command = "PATH=" + path("bin") + ":$PATH " + source_dir() + "/tools/gpu/run --judge --binary " +
                                folder.string() + " --records " + path("judge") + " > " + path("out") + " 2>&1";
    return WEXITSTATUS(std::system(command.c_str()));  // NOLINT(concurrency-mt-unsafe)
  }
};

TEST_F(GpuJudge, records_what_was_compared_and_from_which_sources) {
  EXPECT_EQ(run(), 0) << read("out");
  const json record = json::parse(read("judge/nvidia-stub.json"));
  EXPECT_EQ(record["device"], "NVIDIA Stub");
  EXPECT_EQ(record["draws"].size(), 2U) << "small sizes, and those that are timed";
  EXPECT_EQ(record["truth"], json::parse("[{\"rule\": \"kda\", \"differ\": 0}]"));
  EXPECT_TRUE(record["sources"].contains("truth") && record["sources"].contains("deltanet"));
  EXPECT_NE(read("calls").find("draw_check --dim 64 --json\n"), std::string::npos);
}
TEST_F(GpuJudge, fails_where_a_bit_differs) {
  judging("truth_check", R"({"rule": "kda", "differ": 3})");
  EXPECT_EQ(run(), 1) << read("out");
}
TEST_F(GpuJudge, records_nothing_of_nothing_or_of_other_sources) {
  judging("draw_check", "");
  EXPECT_EQ(run(), 2);
  EXPECT_NE(read("out").find("nothing was compared"), std::string::npos) << read("out");
  judging("draw_check", "{}", "--digests");
  EXPECT_EQ(run(), 2);
  EXPECT_NE(read("out").find("draw_check was built from other sources"), std::string::npos) << read("out");
  EXPECT_FALSE(std::filesystem::exists(path("judge/nvidia-stub.json")));
}

}  // namespace
}  // namespace assay
