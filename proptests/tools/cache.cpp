// A check keeps its results for the next one, and takes nothing from a file that is not as it was written. That the
// same bytes are printed, who may read them and what is said of a full cache are in proptests/transcripts/check.md.
#include "judge/court/cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "files/safetensors.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/print/rows_page.hpp"
#include "tools/run/checked.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

/// Files are younger than what reads them only by the clock's own steps.
void let_time_pass() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

class CacheFiles : public CliFiles {
 protected:
  fs::path kept() const { return folder / "kept"; }
  fs::path only_file() const { return fs::directory_iterator(kept())->path(); }
  Cache reader(std::uintmax_t bound = cache_bound) const {
    let_time_pass();
    return Cache(kept(), bound);
  }
};

TEST_F(CacheFiles, finds_what_was_kept) {
  Cache(kept()).keep("a", "bytes");
  Cache cache = reader();
  EXPECT_EQ(cache.find("a"), "bytes");
  EXPECT_EQ(cache.find("b"), std::nullopt);
  EXPECT_EQ(cache.hits(), 1);
  EXPECT_EQ(cache.misses(), 1);
}

TEST_F(CacheFiles, reads_nothing_that_is_younger_than_itself) {
  Cache old(kept());
  let_time_pass();
  Cache(kept()).keep("a", "bytes");
  EXPECT_EQ(old.find("a"), std::nullopt);
  // An old date does not make a file old.
  fs::last_write_time(only_file(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(old.find("a"), std::nullopt);
  EXPECT_EQ(reader().find("a"), "bytes");
}

TEST_F(CacheFiles, reads_no_file_that_is_damaged) {
  const std::string bytes(1000, 'x');
  for (const std::size_t cut : {0U, 1U, 63U, 64U, 500U, 1063U}) {
    Cache(kept()).keep("a", bytes);
    fs::resize_file(only_file(), cut);
    EXPECT_EQ(reader().find("a"), std::nullopt) << cut;
  }
  for (const int at : {0, 999, 1000, 1063}) {
    Cache(kept()).keep("a", bytes);
    {
      std::fstream file(only_file(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(at).put('?');
    }
    EXPECT_EQ(reader().find("a"), std::nullopt) << at;
  }
}

TEST_F(CacheFiles, reads_no_file_of_another_key_or_kind) {
  Cache(kept()).keep("a", "bytes");
  const fs::path name = only_file();
  fs::rename(name, folder / "a");
  Cache(kept()).keep("b", "others");
  fs::rename(only_file(), name);
  EXPECT_EQ(reader().find("a"), std::nullopt);
  fs::remove(name);
  fs::create_symlink(folder / "a", name);
  EXPECT_EQ(reader().find("a"), std::nullopt);
  fs::remove(name);
  ASSERT_EQ(::mkfifo(name.c_str(), S_IRWXU), 0);
  EXPECT_EQ(reader().find("a"), std::nullopt);
  fs::remove(name);
  fs::rename(folder / "a", name);
  EXPECT_EQ(reader().find("a"), "bytes");
  fs::permissions(name, fs::perms::all);
  EXPECT_EQ(reader().find("a"), std::nullopt);
}

TEST_F(CacheFiles, stays_within_its_bound) {
  const std::string bytes(1000, 'x');
  for (const char* key : {"a", "b", "c"}) reader(2500).keep(key, bytes);
  EXPECT_EQ(reader().find("a"), std::nullopt);
  EXPECT_EQ(reader().find("b"), bytes);  // which makes it the last to go
  Cache full = reader(2500);
  full.keep("d", bytes);
  EXPECT_EQ(full.dropped(), 1);
  EXPECT_EQ(reader().find("b"), bytes);
  EXPECT_EQ(reader().find("c"), std::nullopt);
  reader(2500).keep("e", std::string(3000, 'x'));
  EXPECT_EQ(reader().find("e"), std::nullopt);
  EXPECT_EQ(reader().find("d"), bytes);
}

/// Not each small file makes room, but after 200 a thousandth of the bound was stored ten times over.
TEST_F(CacheFiles, small_files_make_room_now_and_then) {
  constexpr std::uintmax_t bound = 2'000'000;
  reader(bound).keep("large", std::string(bound - 1000, 'x'));
  Cache small = reader(bound);
  for (int i = 0; i < 200; ++i) small.keep(std::to_string(i), std::string(100, 'x'));
  EXPECT_EQ(small.dropped(), 1);
  EXPECT_EQ(reader(bound).find("large"), std::nullopt);
}

/// What is soon computed again takes no room, once it is large.
TEST_F(CacheFiles, keeps_no_large_file_of_what_is_soon_computed) {
  Cache cache(kept());
  for (const std::size_t n : {1'000U, 1'000'000U})
    kept_in(&cache, std::to_string(n), [n] {
      Oracle oracle;
      oracle.tensors.emplace_back("o", Oracle::Tensor{{}, std::vector<HiLo>(n), std::vector<double>(n)});
      return oracle;
    });
  EXPECT_NE(reader().find("1000"), std::nullopt);
  EXPECT_EQ(reader().find("1000000"), std::nullopt);
  EXPECT_TRUE(is_worth_keeping(20'000'000, 2));
}

/// Numbers take as many bytes as the widest of their list needs, and come back to the bit.
TEST(CacheBytes, are_as_many_as_a_list_needs) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::size_t, std::vector<double>>> lists = {
      {1, {0, 0}},   {2, {1, -0.0, infinite, -0.5}}, {3, {0x1.fffep-3, 1}}, {4, {0x1.000002p0, 3}},
      {8, {0.1, 1}}, {8, {std::nan(""), 0x1p-1074}}};
  const auto bytes_of = [](const std::vector<double>& sigma) {
    Named<Expected> list(1);
    list.front().second.sigma = sigma;
    return packed(list);
  };
  for (const auto& [width, list] : lists) {
    const std::string bytes = bytes_of(list);
    EXPECT_EQ(bytes.size(), bytes_of({}).size() + width * list.size());
    Named<Expected> again;
    unpack(bytes, again);
    const std::vector<double>& sigma = again.at(0).second.sigma;
    ASSERT_EQ(sigma.size(), list.size());
    EXPECT_EQ(std::memcmp(sigma.data(), list.data(), list.size() * sizeof(double)), 0) << width;
  }
}

TEST_F(CacheFiles, works_where_nothing_can_be_kept) {
  for (const fs::path& where : {fs::path(), fs::path("/proc/nothing"), folder / "file" / "below"}) {
    write("file", "");
    Cache(where).keep("a", "bytes");
    EXPECT_EQ(Cache(where).find("a"), std::nullopt);
  }
  fs::create_directory(kept());
  fs::permissions(kept(), fs::perms::all);  // everybody may write there
  Cache(kept()).keep("a", "bytes");
  EXPECT_EQ(reader().find("a"), std::nullopt);
}

TEST_F(CacheFiles, many_may_write_at_once) {
  std::vector<std::jthread> writers;
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&] {
      for (int n = 0; n < 50; ++n) Cache(kept()).keep("a", std::string(1000, 'x'));
    });
  writers.clear();
  EXPECT_EQ(reader().find("a"), std::string(1000, 'x'));
  EXPECT_EQ(std::distance(fs::directory_iterator(kept()), fs::directory_iterator()), 1);
}

/// A check of a small case, its verdicts in all digits, and how much was found.
class CachedCheck : public CliFiles {
 protected:
  void SetUp() override {
    CliFiles::SetUp();
    make("0");
    ASSERT_EQ(run_assay({"oracle", path("case.st"), "-o", path("out.st"), "--tier", "w2"}).code, 0);
    ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  }
  void TearDown() override {
    ::setenv("XDG_CACHE_HOME", "/dev/null", 1);
    CliFiles::TearDown();
  }
  void make(const std::string& seed) const {
    ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,40,2,8", "--seed", seed, "-o", path("case.st")}).code, 0);
  }
  Checked check(const std::string& contract = "", bool keeps = true) const {
    return check_by({.contract = contract, .detects = true}, keeps);
  }
  Checked check_by(const Standard& standard, bool keeps = true) const {
    if (keeps) let_time_pass();
    CheckOptions options;
    options.problem = path("case.st"), options.answer = path("out.st"), options.keeps = keeps;
    options.standard = standard;
    std::ostringstream out, err;
    Console console{out, err, false};
    return check_case(options, console);
  }
  static std::string text(const Checked& checked) { return print(checked.page, checked.rows, RowsFormat::json); }
};

TEST_F(CachedCheck, says_the_same_without_computing) {
  const Checked without = check("", false), first = check(), second = check();
  EXPECT_EQ(without.cache, nullptr);
  EXPECT_EQ(first.cache->hits(), 0);
  EXPECT_GT(first.cache->misses(), 2);
  EXPECT_EQ(second.cache->misses(), 0);
  EXPECT_EQ(second.cache->hits(), first.cache->misses());
  EXPECT_EQ(text(first), text(without));
  EXPECT_EQ(text(second), text(without));
  make("1");
  EXPECT_EQ(check().cache->hits(), 0);
}

/// Three bytes of sigma and three of what it is worth; truth and limits follow from what is known elsewhere.
TEST_F(CachedCheck, keeps_six_bytes_of_an_element) {
  const auto size_of = [](const Expected& expected) { return packed(Named<Expected>{{"", expected}}).size(); };
  for (const ReportRow& row : check().rows) {
    ASSERT_NE(row.expected, nullptr) << row.tensor;
    Expected kept = *row.expected;
    leave_out_what_follows(kept, false);
    const std::size_t elements = kept.sigma.size(), size = size_of(kept);
    EXPECT_GT(elements, 0U) << row.tensor;
    EXPECT_TRUE(kept.value.empty()) << row.tensor;
    kept.sigma.clear(), kept.freedom.clear();
    EXPECT_LE(size, size_of(kept) + 6 * elements) << row.tensor;
  }
}

/// One check after another, each with other limits than one before it: each computes some of them anew, and says what
/// it says where nothing is kept.
TEST_F(CachedCheck, keeps_apart_whatever_has_other_limits) {
  ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,12,1,4", "--no-cotangents", "-o", path("case.st")}).code, 0);
  ASSERT_EQ(run_assay({"oracle", path("case.st"), "-o", path("out.st"), "--tier", "w2"}).code, 0);
  const Safetensors wide = read_safetensors(path("out.st"));
  Safetensors narrow = wide;
  for (const char* name : {"o", "final_state"})
    narrow.tensors.at(name) = store(load(name, wide.tensors.at(name)), "BF16");
  const auto expect_as_without = [&](const Standard& standard) {
    const Checked kept = check_by(standard);
    EXPECT_GT(kept.cache->misses(), 0) << standard.contract << ' ' << standard.tile;
    EXPECT_EQ(text(kept), text(check_by(standard, false))) << standard.contract << ' ' << standard.tile;
  };
  write_safetensors(path("out.st"), narrow);
  expect_as_without({.contract = "bf16", .tile = "64"});
  for (const char* contract : {"bf16", "bf16_state"}) expect_as_without({.contract = contract});
  for (const char* how : {R"("rounding": "toward_zero")", R"("rounding": {"operands": "toward_zero"})",
                          R"("accumulation": ["exact_blocks"])", R"("accumulation": ["cut_off"])"}) {
    write("mine.json", std::string(R"({"name": "mine", "base": "bf16", )") + how + '}');
    expect_as_without({.contract = path("mine.json")});
  }
  expect_as_without({.contract = "bf16", .false_alarms = 0.01});
  write_safetensors(path("out.st"), wide);  // the model's limits are of the answer's dtype
  expect_as_without({});
}

}  // namespace
}  // namespace assay
