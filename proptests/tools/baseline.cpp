// assay baseline: what has not changed is said to be the same, noise is let go at the stated rate, and a kernel that
// has become worse fails.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>

#include "judge/sigma/expected.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/baseline/baseline_change.hpp"

namespace assay {
namespace {

class Baseline : public CliFiles {
 protected:
  const std::vector<std::string> small = {"--mechanism", "deltanet",     "--precision", "bf16",
                                          "--shape",     "1,21,2/1,8,6", "--seeds",     "4"};

  Ran save(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"baseline", "save", path("base.json")};
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  }
  Ran compare(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"baseline", "compare", path("base.json")};
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  }
  void edit(const std::function<void(Json&)>& change) const {
    Json json = Json::parse(read("base.json"));
    change(json);
    write("base.json", json.dump());
  }
  static int count(const Json& page, std::string_view change) {
    int n = 0;
    for (const Json& row : page["rows"]) n += row["change"] == change ? 1 : 0;
    return n;
  }
};

TEST_F(Baseline, finds_what_has_changed_and_nothing_else) {
  const Ran saved = save(small);
  ASSERT_EQ(saved.code, exit_passed) << saved.err;
  EXPECT_NE(saved.out.find("7 tensors, 4 seeds"), std::string::npos) << saved.out;
  const Ran again = compare();
  EXPECT_EQ(again.code, exit_passed) << again.out << again.err;
  EXPECT_NE(again.out.find("7 tensors: 7 same\n"), std::string::npos) << again.out;

  edit([](Json& base) {
    for (Json& row : base["rows"]) {
      if (row["tensor"] == "final_state") row["tensor"] = "d_nothing";
      for (Json& x : row["relative_error"])
        if (row["tensor"] == "o")
          x = x.get<double>() / 4;
        else if (row["tensor"] == "d_q")
          x = x.get<double>() * 4;
        else if (row["tensor"] == "d_k")
          x = x.get<double>() * 1.0001;
    }
  });
  const Ran changed = compare({"--format", "json"});
  EXPECT_EQ(changed.code, exit_failed) << changed.err;
  const Json page = Json::parse(changed.out);
  EXPECT_FALSE(page["passed"].get<bool>());
  EXPECT_EQ(count(page, "same"), 3);
  for (const Json& row : page["rows"]) {
    if (row["tensor"] == "o") {
      EXPECT_EQ(row["change"], "WORSE");
      EXPECT_NEAR(row["ratio"].get<double>(), 4, 1e-6);
      EXPECT_LT(row["noise"].get<double>(), 4);
      EXPECT_GT(row["noise"].get<double>(), 1);
    }
    if (row["tensor"] == "d_q") {
      EXPECT_EQ(row["change"], "better");
    }
    if (row["tensor"] == "d_k") {
      EXPECT_EQ(row["change"], "noise");
    }
    if (row["tensor"] == "d_nothing") {
      EXPECT_EQ(row["change"], "MISSING");
    }
    if (row["tensor"] == "final_state") {
      EXPECT_EQ(row["change"], "new");
    }
  }
  const Ran table = compare();
  EXPECT_NE(table.out.find("WORSE  deltanet chunkwise bf16 o (--shape 1,21,2/1,8,6 --style normal): error x 4, and 4 "
                           "seeds do not hide more than x "),
            std::string::npos)
      << table.out;
  EXPECT_NE(table.out.find("MISSING  deltanet chunkwise "), std::string::npos) << table.out;
}

TEST_F(Baseline, refuses_what_is_no_baseline) {
  const auto refused = [&](const std::string& part) {
    const Ran ran = compare();
    EXPECT_EQ(ran.code, exit_usage);
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find(path("base.json") + ": " + part), std::string::npos) << ran.err;
  };
  refused("cannot be read");
  write("base.json", "{\"format\": \"assay-cases\"}");
  refused("no baseline of this version");
  write("base.json", R"({"format": "assay-baseline", "version": 1, "rows": []})");
  refused("");
  ASSERT_EQ(save({"--mechanism", "retnet", "--precision", "fp32", "--shape", "1,3,1,4,4", "--seeds", "3"}).code,
            exit_passed);
  const std::string whole = read("base.json");
  const std::pair<std::function<void(Json&)>, const char*> broken[] = {
      {[](Json& base) { base["rows"][0]["rms_z"].erase(0); }, "expected a number for each seed"},
      {[](Json& base) { base["rows"][0].erase("tensor"); }, ""},
      {[](Json& base) { base["subject"]["seeds"] = 2; }, "seeds: expected 3 to 1000"},
      {[](Json& base) { base["subject"]["seeds"] = 4294967299; }, "seeds: 4294967299 is out of range"},
      {[](Json& base) { base["subject"]["seed"] = -1; }, "seed: -1 is out of range"},
      {[](Json& base) { base["subject"]["style"] = "odd"; }, "unknown style"},
      {[](Json& base) { base["subject"]["precisions"] = {"fp33"}; }, "unknown precision"},
  };
  for (const auto& [change, part] : broken) {
    write("base.json", whole);
    edit(change);
    refused(part);
  }
  EXPECT_EQ(save({"--kernel", "true {case} {out}"}).code, exit_usage);
  EXPECT_EQ(save({"--seeds", "2"}).code, exit_usage);
}

TEST_F(Baseline, follows_somebody_elses_kernel) {
  ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,40,2,8,6", "--no-cotangents", "-o", path("case.st")}).code,
            exit_passed);
  setenv("ASSAY_BUG", "none", 1);
  ASSERT_EQ(save({"--plugin", plugin_built("wrong"), "--case", path("case.st"), "--seeds", "3"}).code, exit_passed);
  std::filesystem::remove(path("case.st"));  // the baseline knows what it was made from
  const Ran same = compare();
  EXPECT_EQ(same.code, exit_passed) << same.out << same.err;
  EXPECT_NE(same.out.find("2 tensors: 2 same"), std::string::npos) << same.out;
  setenv("ASSAY_BUG", "coarse", 1);
  const Ran worse = compare();
  EXPECT_EQ(worse.code, exit_failed) << worse.out << worse.err;
  EXPECT_NE(worse.out.find("2 tensors: 1 same, 1 WORSE"), std::string::npos) << worse.out;
  unsetenv("ASSAY_BUG");
}

TEST_F(Baseline, holds_its_contract) {
  // A state in bf16 is what this contract is about: what is saved under it is judged by it again, without the file.
  write("mine.json", R"({"name": "mine", "base": "bf16", "sites": {"S": "bf16"}})");
  const std::vector<std::string> common = {"--mechanism", "deltanet", "--shape", "1,21,2/1,8,6", "--seeds", "3"};
  const auto saved_with = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    const Ran ran = save(more);
    EXPECT_EQ(ran.code, exit_passed) << ran.err;
    return Json::parse(read("base.json"));
  };
  const Json plain = saved_with({"--precision", "bf16"}), mine = saved_with({"--contract", path("mine.json")});
  std::filesystem::remove(path("mine.json"));
  EXPECT_EQ(mine["subject"]["contract"]["name"], "mine");
  EXPECT_NE(mine["rows"][0]["inputs"].get<std::string>().find("--contract mine"), std::string::npos);
  EXPECT_NE(mine["rows"][0]["relative_error"], plain["rows"][0]["relative_error"]);
  const Ran again = compare();
  EXPECT_EQ(again.code, exit_passed) << again.out << again.err;
  EXPECT_NE(again.out.find("7 tensors: 7 same\n"), std::string::npos) << again.out;

  edit([](Json& base) { base["subject"]["contract"]["sites"]["nowhere"] = "bf16"; });
  const Ran unknown = compare();
  EXPECT_EQ(unknown.code, exit_usage);
  EXPECT_NE(unknown.err.find("nowhere"), std::string::npos) << unknown.err;

  saved_with({"--contract", "bf16_state"});
  EXPECT_EQ(compare().code, exit_passed);
}

TEST_F(Baseline, holds_the_contract_of_somebody_elses_kernel) {
  ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,40,2,8,6", "--no-cotangents", "-o", path("case.st")}).code,
            exit_passed);
  write("mine.json", R"({"name": "mine", "base": "bf16", "sites": {"S": "bf16"}})");
  setenv("ASSAY_BUG", "none", 1);
  const Ran saved = save(
      {"--plugin", plugin_built("wrong"), "--case", path("case.st"), "--seeds", "3", "--contract", path("mine.json")});
  ASSERT_EQ(saved.code, exit_passed) << saved.err;
  std::filesystem::remove(path("mine.json"));
  const Ran same = compare();
  EXPECT_EQ(same.code, exit_passed) << same.out << same.err;
  EXPECT_NE(same.out.find("2 tensors: 2 same"), std::string::npos) << same.out;
  unsetenv("ASSAY_BUG");
}

/// Errors of o and the gradients from six seeds, with one site of the contract in another format.
std::vector<BaselineRow> rows_with(std::string_view site, Format format) {
  const Room& room = listed_room("deltanet");
  const KernelForm& form = find_kernels(kernel_rooms(), "deltanet")->forms.front();
  std::vector<BaselineRow> rows;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Problem problem =
        room.make({"deltanet", {1, 100, 2, 1, 16, 16, 0}, Format::bf16, Style::long_memory, seed, {}});
    Policy policy = Policy::of(form.sites, Format::bf16);
    if (!site.empty()) policy.sites = policy.sites.with(site, format);
    const Answer got = form.run(problem, policy, 2);
    for (const auto& [name, truth] : oracle_of(room, problem).tensors) {
      const Array& array = name.starts_with("d_") ? got.gradients.at(name.substr(2)) : got.outputs.at(name);
      double errors = 0, values = 0;
      for (std::size_t i = 0; i < array.data.size(); ++i) {
        const double x = array.data[i] - truth.value[i].hi;
        errors += x * x, values += truth.value[i].hi * truth.value[i].hi;
      }
      auto row = std::find_if(rows.begin(), rows.end(), [&n = name](const BaselineRow& r) { return r.tensor == n; });
      if (row == rows.end()) row = rows.insert(rows.end(), {"cpu", "deltanet", "chunkwise", "bf16", "", name});
      row->relative_error.push_back(std::sqrt(errors / values));
    }
  }
  return rows;
}

/// A looser policy is found, a change of nothing but rounding is not: the store rounds all that fp32 and tf32 differ
/// in.
TEST(BaselineRows, finds_a_state_in_bf16) {
  const std::vector<BaselineRow> before = rows_with("", Format::exact);
  for (const Comparison& c : compare_rows(before, rows_with("QX", Format::fp64)))
    EXPECT_TRUE(c.change == Change::noise || c.change == Change::same) << c.row.tensor << ' ' << c.growth;
  // o reads the state in bf16 in any case.
  for (const Comparison& c : compare_rows(before, rows_with("S", Format::bf16))) {
    if (c.row.tensor == "final_state") {
      EXPECT_EQ(c.change, Change::worse) << c.growth << ' ' << c.noise;
    }
  }
}

BaselineRow row_of(std::string tensor, std::vector<double> errors) {
  BaselineRow row{"cpu", "m", "f", "bf16", "", std::move(tensor)};
  row.relative_error = std::move(errors), row.verdicts.assign(row.relative_error.size(), "PASS");
  return row;
}

/// Of two sets of numbers from one law no more than the stated part is worse; of a number that is twice as far off,
/// all.
TEST(BaselineRows, keep_their_false_alarm_rate) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  const auto draw = [&](int elements, double scale) {
    std::vector<double> errors;
    for (int seed = 0; seed < 8; ++seed) {
      double squares = 0;
      for (int i = 0; i < elements; ++i) squares += std::pow(normal(random), 2);
      errors.push_back(scale * std::sqrt(squares / elements));
    }
    return errors;
  };
  constexpr double rate = 0.02;
  constexpr int trials = 4000;
  for (const int elements : {1, 3, 100}) {
    int alarms = 0, found = 0;
    for (int k = 0; k < trials; ++k) {
      const BaselineRow a = row_of("x", draw(elements, 1)), b = row_of("x", draw(elements, 1)),
                        c = row_of("x", draw(elements, 2));
      alarms += compare_rows({a}, {b}, rate)[0].change == Change::worse ? 1 : 0;
      found += compare_rows({a}, {c}, rate)[0].change == Change::worse ? 1 : 0;
    }
    EXPECT_LE(alarms, rate * trials + 4 * std::sqrt(rate * trials)) << elements;
    EXPECT_GT(alarms, elements == 100 ? 0.5 * rate * trials : 0) << elements;
    if (elements == 100) {
      EXPECT_EQ(found, trials);
    }
  }
}

TEST(BaselineRows, know_what_is_exact_and_what_is_no_number) {
  const auto change = [](std::vector<double> a, std::vector<double> b) {
    return compare_rows({row_of("x", std::move(a))}, {row_of("x", std::move(b))})[0].change;
  };
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(change({0, 0, 0}, {0, 0, 0}), Change::same);
  EXPECT_EQ(change({0, 0, 0}, {0, 1e-9, 0}), Change::worse);
  EXPECT_EQ(change({1e-9, 1e-9, 2e-9}, {0, 0, 0}), Change::better);
  EXPECT_EQ(change({1e-9, 0, 2e-9}, {1e-9, 3e-9, 0}), Change::noise);
  EXPECT_EQ(change({1e-9, 1e-9, 2e-9}, {1e-9, nan, 1e-9}), Change::worse);
  EXPECT_EQ(change({1e-9, 1e-9, 2e-9}, {1e-9, infinite, 1e-9}), Change::worse);
  EXPECT_EQ(change({1e-9, nan, 2e-9}, {1e-9, 1e-9, 1e-9}), Change::better);
  EXPECT_EQ(change({infinite, 1e-9, 2e-9}, {0, 0, 0}), Change::better);
  // What passed and fails is worse, however small the error.
  BaselineRow failing = row_of("x", {1e-9, 1e-9, 2e-9});
  failing.verdicts[1] = "FAIL";
  const Comparison c = compare_rows({row_of("x", {1e-9, 1e-9, 2e-9})}, {failing})[0];
  EXPECT_EQ(c.change, Change::worse);
  EXPECT_EQ(c.why, "was never FAIL, and is");
}

}  // namespace
}  // namespace assay
