// assay check --sample: some parts of a case, judged as all of it would be, and chosen when it is too late to cheat.
// Its words are in proptests/transcripts/check.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "files/problem_file.hpp"
#include "files/sampled_parts.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/tools/cli.hpp"

namespace assay {
namespace {

/// Where a number of an answer lies, in [B][T][H][d] or [B][H][K][V], and how many there are in front of it.
struct At {
  std::vector<int> index, shape;
  std::size_t flat = 0;
  bool by_token = false;
};
using Fault = std::function<bool(const At&)>;

class Sample : public CliFiles {
 protected:
  void make(const std::string& mechanism, const std::string& shape, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"case", mechanism, "--shape", shape, "-o", path("case.st")};
    args.insert(args.end(), more.begin(), more.end());
    const Ran made = run_assay(args);
    ASSERT_EQ(made.code, exit_passed) << made.err;
  }

  /// Writes what our own kernel answers, and zeros where `is_wrong`.
  void answer(const Fault& is_wrong = {}) const {
    ProblemFile file = read_problem(read_safetensors(path("case.st")), "case");
    const KernelForm& form = find_kernels(kernel_rooms(), file.room->name)->forms.front();
    Answer answered = form.run(file.problem, Policy::of(form.sites, Format::bf16), 0);
    TensorFile to;
    const auto put = [&](const std::string& name, Array array) {
      const RoomFacts::Ranked field = answer_field(*file.room, name);
      const FileLayout layout = FileLayout::of_problem(field, array.shape, file.batch);
      array = layout.to_file(std::move(array));
      At at{std::vector<int>(array.shape.size()), array.shape, 0, layout.by_token()};
      for (double& x : array.data) {
        if (is_wrong && is_wrong(at)) x = 0;
        ++at.flat;
        for (std::size_t a = at.index.size(); a-- > 0;) {
          if (++at.index[a] < at.shape[a]) break;
          at.index[a] = 0;
        }
      }
      to.put(name, layout.to_problem(std::move(array)), field, file.batch, "BF16");
    };
    for (auto& [name, array] : answered.outputs) put(name, std::move(array));
    for (auto& [name, array] : answered.gradients) put("d_" + name, std::move(array));
    write_safetensors(path("out.st"), std::move(to).finish({}));
  }

  Ran check(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"check", path("case.st"), path("out.st")};
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  }
  Json verdicts(std::vector<std::string> more) const {
    more.insert(more.end(), {"--format", "json"});
    const Ran ran = check(more);
    EXPECT_EQ(ran.err, "");
    return Json::parse(ran.out);
  }
};

/// Every part, chosen one by one, is what the whole is: not a digit differs.
TEST_F(Sample, of_all_parts_is_the_whole) {
  make("gated_deltanet", "2,40,4/2,8,6");
  answer();
  Json whole = verdicts({})["rows"], sampled = verdicts({"--sample", "4"})["rows"];
  ASSERT_EQ(whole.size(), sampled.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    whole[i].erase("command"), sampled[i].erase("command");
    EXPECT_EQ(whole[i], sampled[i]);
  }
}

/// Grouped heads, states, gates, and a gradient that all heads add to, which no part knows.
TEST_F(Sample, passes_what_is_healthy) {
  for (const char* mechanism : {"deltanet", "kda", "mamba2", "softmax_attention", "lla"}) {
    make(mechanism, "3,33,4/2,8");
    answer();
    const Json page = verdicts({"--sample", "2"});
    EXPECT_FALSE(page["rows"].empty());
    for (const Json& row : page["rows"]) {
      EXPECT_EQ(row["verdict"], "PASS") << mechanism << ' ' << row;
      EXPECT_EQ(row["shape"], "3,33,4/2,8,8");
      EXPECT_NE(row["tensor"], "d_bandwidth");
    }
    const bool has_bandwidth = mechanism == std::string("softmax_attention") || mechanism == std::string("lla");
    EXPECT_EQ(page["not_judged"], has_bandwidth ? Json{"d_bandwidth"} : Json::array()) << mechanism;
    EXPECT_EQ(page["sample"]["parts"], 6);
    EXPECT_EQ(page["sample"]["judged"].size(), 2U);
    EXPECT_EQ(page["sample"]["judged"][1], (Json{{"sequence", 2}, {"group", 1}})) << "the last part, always";
  }
}

/// What only a case of production size shows, with the sizes that it takes scaled down: an index past 2^31 wraps, a
/// grid ends at 65,535 blocks, a second split of the keys is not added. The first two are the last part's, the third
/// everybody's.
TEST_F(Sample, finds_faults_of_scale) {
  make("deltanet", "8,64,4,8", {"--no-cotangents"});
  const std::size_t beyond = std::size_t{8 * 64 * 4 * 8} * 31 / 32;
  const std::vector<std::pair<std::string, Fault>> faults = {
      {"an index past its limit", [&](const At& at) { return at.by_token && at.flat >= beyond; }},
      {"a grid that ends", [](const At& at) { return at.by_token && at.index[0] * 4 + at.index[2] >= 30; }},
      {"a split at token 32", [](const At& at) { return at.by_token && at.index[1] >= 32; }},
  };
  for (const auto& [name, fault] : faults) {
    answer(fault);
    for (const char* seed : {"1", "2", "3"})
      EXPECT_EQ(check({"--sample", "2", "--sample-seed", seed}).code, exit_failed) << name;
  }
  // What reaches one head in the middle most samples do not see, and say so.
  answer([](const At& at) { return at.by_token && at.index[0] == 3 && at.index[2] == 1; });
  EXPECT_EQ(check({}).code, exit_failed);
  int missed = 0;
  for (int seed = 0; seed < 4; ++seed) {
    const Ran ran = check({"--sample", "2", "--sample-seed", std::to_string(seed)});
    missed += ran.code == exit_passed ? 1 : 0;
    EXPECT_NE(ran.out.find("of 1 part but the last 97%, of 4 87%, of 16 48%, of 31 0%"), std::string::npos) << ran.out;
  }
  EXPECT_GT(missed, 0);
}

/// As often as the report says.
TEST_F(Sample, misses_as_often_as_it_says) {
  SampledParts parts{4, 5};
  for (const int count : {1, 2, 5, 20}) {
    for (const int faulty : {1, 7}) {
      int missed = 0;
      constexpr int seeds = 4000;
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        parts.choose(count, seed);
        std::set<int> chosen;
        for (const auto& part : parts.chosen) chosen.insert(part.sequence * 5 + part.group);
        ASSERT_EQ(chosen.size(), static_cast<std::size_t>(count));
        ASSERT_TRUE(count == 1 || chosen.contains(19));
        missed += *chosen.begin() >= faulty ? 1 : 0;
      }
      const double p = parts.miss(faulty), spread = std::sqrt(p * (1 - p) / seeds);
      EXPECT_NEAR(missed / double{seeds}, p, 5 * spread) << count << ' ' << faulty;
    }
  }
}

/// Which rows are judged does not hang on which part is: of 4 blocks and 4 parts all pairs are met.
TEST_F(Sample, chooses_rows_apart_from_parts) {
  SampledParts parts{2, 2};
  parts.tokens = 40;
  std::set<std::pair<int, int>> pairs;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    parts.choose(1, seed);
    parts.choose_rows(10);
    pairs.emplace(parts.chosen.front().sequence * 2 + parts.chosen.front().group, parts.first_row);
  }
  EXPECT_EQ(pairs.size(), 16U);
}

/// Nobody knows the seed before the answer is read; whoever knows it gets the same page again.
TEST_F(Sample, is_secret_and_can_be_repeated) {
  make("deltanet", "4,20,8,8", {"--no-cotangents"});
  answer();
  std::set<std::string> seeds;
  for (int run = 0; run < 3; ++run) {
    const Json page = verdicts({"--sample", "2"});
    EXPECT_EQ(page["sample"]["secret"], true);
    const std::string seed = page["sample"]["seed"].dump();
    seeds.insert(seed);
    Json again = verdicts({"--sample", "2", "--sample-seed", seed});
    EXPECT_EQ(again["sample"]["judged"], page["sample"]["judged"]);
    EXPECT_EQ(again["sample"]["secret"], false);
    for (std::size_t i = 0; i < page["rows"].size(); ++i)
      EXPECT_EQ(again["rows"][i]["rms_z"], page["rows"][i]["rms_z"]);
  }
  EXPECT_EQ(seeds.size(), 3U);
}

/// A block of query rows is a smaller case: o and d_q are judged, and what all rows add to is named.
TEST_F(Sample, of_query_rows_passes_what_is_healthy) {
  for (const char* mechanism : {"softmax_attention", "parallax", "lla"})
    for (const bool causal : {true, false}) {
      if (!causal && mechanism == std::string("parallax")) continue;
      make(mechanism, "2,50,4/2,8",
           causal ? std::vector<std::string>{} : std::vector<std::string>{"--param", "causal=false"});
      answer();
      for (const char* seed : {"1", "2", "3"}) {
        const Json page = verdicts({"--sample", "2", "--sample-rows", "12", "--sample-seed", seed});
        std::set<std::string> judged;
        for (const Json& row : page["rows"]) {
          EXPECT_EQ(row["verdict"], "PASS") << mechanism << ' ' << causal << ' ' << seed << ' ' << row;
          EXPECT_EQ(row["shape"], "2,50,4/2,8,8");
          judged.insert(row["tensor"]);
        }
        EXPECT_TRUE(judged.contains("o") && judged.contains("d_q"));
        EXPECT_FALSE(judged.contains("d_k") || judged.contains("d_v"));
        const Json rows = page["sample"]["rows"];
        EXPECT_EQ(rows["of"], 50);
        EXPECT_EQ(rows["first"].get<int>() % 12, 0);
        EXPECT_EQ(rows["count"], std::min(12, 50 - rows["first"].get<int>()));
      }
    }
}

/// All rows are the whole: not a digit differs of what has a row for each query.
TEST_F(Sample, of_all_query_rows_is_the_whole) {
  make("softmax_attention", "1,40,2,8");
  answer();
  const Json whole = verdicts({})["rows"];
  Json sampled = verdicts({"--sample-rows", "40"})["rows"];
  std::size_t compared = 0;
  for (Json& row : sampled)
    for (Json other : whole)
      if (other["tensor"] == row["tensor"]) {
        EXPECT_EQ(other["rms_z"], row["rms_z"]);
        EXPECT_EQ(other["worst"], row["worst"]);
        ++compared;
      }
  EXPECT_EQ(compared, 2U);
}

/// A fault is found where it is looked at, and named by its place in the whole case; every block is looked at.
TEST_F(Sample, of_query_rows_finds_what_lies_in_them) {
  make("softmax_attention", "2,50,4/2,8", {"--no-cotangents"});
  answer([](const At& at) { return at.index == std::vector{1, 29, 3, 5}; });
  int found = 0;
  std::set<int> blocks;
  for (int seed = 0; seed < 40; ++seed) {
    const std::vector<std::string> how = {"--sample-rows", "10", "--sample-seed", std::to_string(seed)};
    const Json page = verdicts(how);
    const int first = page["sample"]["rows"]["first"];
    blocks.insert(first);
    const Ran ran = check(how);
    EXPECT_EQ(ran.code, first == 20 ? exit_failed : exit_passed) << first;
    if (first != 20) continue;
    ++found;
    EXPECT_NE(ran.out.find("[1][29][3][5] is 0, expected"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("query rows 20 to 29 of 50 (20%)"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("of one block of 10 rows 80%, of half of all rows 40%"), std::string::npos) << ran.out;
  }
  EXPECT_GT(found, 0);
  EXPECT_EQ(blocks, (std::set<int>{0, 10, 20, 30, 40}));
}

}  // namespace
}  // namespace assay
