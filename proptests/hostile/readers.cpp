// Hostile files: thousands of damaged cases, answers, case lists, contracts and baselines. Each is read or refused in
// one sentence, with no more memory than its bytes account for.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <new>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "files/input_file.hpp"
#include "proptests/hostile/doors.hpp"
#include "reference/core/error.hpp"

namespace {

/// The bytes that this program has allocated, and the most that it had at once since it was asked to count.
std::atomic<std::size_t> live{0}, peak{0};

void* counted(std::size_t size) {
  void* const block = std::malloc(size > 0 ? size : 1);  // NOLINT(cppcoreguidelines-no-malloc)
  if (block == nullptr) throw std::bad_alloc();
  const std::size_t now = live += malloc_usable_size(block);
  for (std::size_t most = peak; most < now && !peak.compare_exchange_weak(most, now);) {
  }
  return block;
}

void uncounted(void* block) {
  if (block == nullptr) return;
  live -= malloc_usable_size(block);
  std::free(block);  // NOLINT(cppcoreguidelines-no-malloc)
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* block) noexcept { uncounted(block); }
void operator delete[](void* block) noexcept { uncounted(block); }
void operator delete(void* block, std::size_t) noexcept { uncounted(block); }
void operator delete[](void* block, std::size_t) noexcept { uncounted(block); }

// Operators that are not counted (nothrow ones) are AddressSanitizer's, and what they give comes to these here.
// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
extern "C" const char* __asan_default_options() { return "alloc_dealloc_mismatch=0"; }

namespace assay::hostile {
namespace {

/// A tree of JSON costs many times its text, and a refusal, an oracle and its threads a few hundred kilobytes.
std::size_t ceiling(std::size_t bytes) { return (4 << 20) + 128 * bytes; }

/// "": it was read; else the sentence that refuses it, which begins with the file's name. Everything else fails the
/// test.
std::string outcome(const Door& door, const std::string& bytes) {
  std::string sentence;
  const std::size_t before = live;
  peak = before;
  try {
    door.read(bytes);
  } catch (const InputError& refusal) {
    sentence = refusal.what();
    EXPECT_FALSE(sentence.empty());
  } catch (const std::exception& other) {
    ADD_FAILURE() << door.name << ": " << other.what() << "\n" << excerpt(bytes, 4000);
  }
  const std::size_t used = peak - before;
  EXPECT_LE(used, ceiling(bytes.size())) << door.name << ", " << bytes.size() << " bytes\n" << excerpt(bytes, 4000);
  EXPECT_EQ(excerpt(sentence, 2000), sentence) << "of " << door.name;
  EXPECT_TRUE(sentence.empty() || sentence.starts_with(std::string(door.name) + ": ")) << sentence;
  return sentence;
}

/// The eight bytes with which a safetensors file begins.
std::string length_of_header(std::uint64_t size) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(size >> (8 * i));
  return bytes;
}

class Hostile : public ::testing::TestWithParam<std::size_t> {
 protected:
  static const Door& door() {
    static const std::vector<Door> all = doors();
    return all[GetParam()];
  }
  static bool is_safetensors() { return door().valid.find('\0') != std::string::npos; }

  /// A valid safetensors file with another header.
  static std::string with_header(const std::string& header) {
    return length_of_header(header.size()) + header + door().valid.substr(8 + header_size());
  }
  static std::size_t header_size() {
    std::size_t size = 0;
    for (std::size_t i = 8; i-- > 0;) size = size << 8 | static_cast<unsigned char>(door().valid[i]);
    return size;
  }
  /// The part of the file that is JSON, and the file with another one in its place.
  static std::string json() { return is_safetensors() ? door().valid.substr(8, header_size()) : door().valid; }
  static std::string with_json(const std::string& json) { return is_safetensors() ? with_header(json) : json; }
};

TEST_P(Hostile, ValidFilesAreRead) { EXPECT_EQ(outcome(door(), door().valid), ""); }

TEST_P(Hostile, NoPrefixIsRead) {
  const std::string& valid = door().valid;
  for (std::size_t size = 0; size < valid.size(); ++size)
    EXPECT_NE(outcome(door(), valid.substr(0, size)), "") << door().name << " cut off after " << size;
}

TEST_P(Hostile, ForgedHeaderLengthsAreRefused) {
  if (!is_safetensors()) return;
  for (int bit = 0; bit < 64; ++bit)
    for (const std::uint64_t near : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1}}) {
      const std::uint64_t claim = (std::uint64_t{1} << bit) + near;
      if (claim != header_size()) {
        EXPECT_NE(outcome(door(), length_of_header(claim) + door().valid.substr(8)), "") << claim;
      }
    }
}

/// Wherever JSON has a value: another one.
TEST_P(Hostile, OtherValuesAreReadOrRefused) {
  std::vector<std::string> values = {"\"\xff\xfe\"", "\"\xed\xa0\x80\"",
                                     std::string(5000, '[') + std::string(5000, ']'), std::string(20000, '['),
                                     '"' + std::string(100000, 'x') + '"'};
  std::istringstream words(
      R"(null true -1 0 7 1e300 -0.0 2147483648 9223372036854775808 18446744073709551616 NaN Infinity 1e999999999
         "" "nan" "1e999999999" "\n\u0000\u001b[31m" "I32" "F128" [] {} [0,0] [4,0] [0,4] [-1] [2147483647] [2147483647,0]
         [0,2147483647,1,1] [4294967296,4294967296] [1.5] ["1"] [[1,[2]]] {"a":1,"a":2})");
  for (std::string word; words >> word;) values.push_back(word);
  const std::string text = json();
  int refused = 0, tried = 0;
  // Every value begins after ':', '[' or ',' outside of a string; its end is found by counting.
  bool inside = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"' && (at == 0 || text[at - 1] != '\\')) inside = !inside;
    if (inside || (text[at] != ':' && text[at] != '[' && text[at] != ',')) continue;
    std::size_t end = text.find_first_not_of(" \n", at + 1), depth = 0;
    const std::size_t begin = end;
    for (bool quoted = false; end < text.size(); ++end) {
      const char c = text[end];
      if (c == '"' && text[end - 1] != '\\') quoted = !quoted;
      if (quoted) continue;
      if (depth == 0 && (c == ',' || c == ']' || c == '}')) break;
      depth += c == '[' || c == '{' ? 1 : 0;
      depth -= c == ']' || c == '}' ? 1 : 0;
    }
    for (const std::string& value : values) {
      std::string other = text;
      other.replace(begin, end - begin, value);
      ++tried, refused += outcome(door(), with_json(other)).empty() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, tried / 4);
  RecordProperty("tried", tried);
}

/// Names that occur twice, are no text, or are too many.
TEST_P(Hostile, OtherNamesAreRefused) {
  const std::string text = json(), first = text.substr(0, text.find(':') + 1);  // {"name":
  std::string many = "{", deep;
  for (int i = 0; i < 30000; ++i) many += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
  for (int i = 0; i < 3000; ++i) deep += "{\"a\":";
  for (const std::string& begin : std::vector<std::string>{R"({"a":1,"a":2,)", "{\"\xff\":1,", "{\"\xc3\x28\":1,",
                                                           many + ',', deep, first + "0," + first.substr(1) + "0,"})
    EXPECT_NE(outcome(door(), with_json(begin + text.substr(1))), "") << excerpt(begin);
  // These may be taken or refused: they do no harm.
  for (const std::string& begin : std::vector<std::string>{R"({"\u0000\n":1,)", R"({"__metadata__":3,)",
                                                           '{' + ('"' + std::string(100000, 'n') + "\":{},")})
    outcome(door(), with_json(begin + text.substr(1)));
  // A tab before every name and text, which messages tell of.
  for (std::size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at + 1))
    outcome(door(), with_json(text.substr(0, at + 1) + "\\t" + text.substr(at + 1)));
}

/// The time is in proportion to the file, not to its square: 50,000 objects took a minute once, and take a second, or
/// five under AddressSanitizer.
TEST(ManyObjects, AreReadOrRefusedAtOnce) {
  std::string header = "{", cases = R"({"format": "assay-cases", "version": 1, "cases": [{})";
  for (int i = 0; i < 50000; ++i) {
    header += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
    cases += ",{}";
  }
  header += '}';
  const std::string file = length_of_header(header.size()) + header;
  const std::clock_t start = std::clock();
  EXPECT_EQ(as_file(file, "many").tensors.size(), 50000U);
  EXPECT_EQ(read_cases(cases + "]}", "many").size(), 50001U);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 20.0);
}

/// Bytes flipped, cut out, doubled, and spliced, from a fixed seed.
TEST_P(Hostile, RandomDamageIsReadOrRefused) {
  std::mt19937_64 random(20261121 + GetParam());
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string& valid = door().valid;
  const std::string digits = "0123456789-+.eE[]{}\",: \n\\u";
  int refused = 0;
  constexpr int trials = 1500;
  for (int trial = 0; trial < trials; ++trial) {
    std::string damaged = valid;
    for (std::size_t hits = 1 + below(4); hits > 0 && !damaged.empty(); --hits) {
      const std::size_t at = below(damaged.size()), size = 1 + below(std::min<std::size_t>(40, damaged.size() - at));
      switch (below(6)) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged[at] = static_cast<char>(damaged[at] ^ (1 << below(8)));
          break;
        case 2:
          damaged[at] = digits[below(digits.size())];
          break;
        case 3:
          damaged.erase(at, size);
          break;
        case 4:
          damaged.insert(at, damaged.substr(at, size));
          break;
        default:
          damaged.insert(at, valid.substr(below(valid.size()), size));
          break;
      }
    }
    refused += outcome(door(), damaged).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, trials / 4);
}

TEST(Excerpt, is_one_line_of_text) {
  EXPECT_EQ(excerpt("a\nb\x1b[31m\x7f"), "a?b?[31m?");
  EXPECT_EQ(excerpt("\xc3\xa9 \xff \xed\xa0\x80 \xf0\x9f\x98\x80"), "\xc3\xa9 ? ??? \xf0\x9f\x98\x80");
  EXPECT_EQ(excerpt("\xc3\xa9\xc3\xa9", 3), "\xc3\xa9...");
  // NOLINTNEXTLINE(misc-misleading-bidirectional): C1 controls, directions, byte order marks, what is no character
  EXPECT_EQ(excerpt("a\xc2\x9b\xe2\x80"
                    "\xae\xef\xbb\xbf\xef\xbf\xbe\xe2\x80\xa8z"),
            "a?????z");
  EXPECT_EQ(excerpt("\xf0\x9f\xbf\xbf \xf3\xa0\x81\x81 \xce\xb1"), "? ? \xce\xb1");
  EXPECT_EQ(excerpt("abc", 3), "abc");
  EXPECT_EQ(excerpt("abcd", 3), "abc...");
}

constexpr std::size_t tried = 6;
TEST(Doors, AreAllTried) { EXPECT_EQ(doors().size(), tried); }

INSTANTIATE_TEST_SUITE_P(Doors, Hostile, ::testing::Range<std::size_t>(0, tried),
                         [](const auto& door) { return std::string(doors()[door.param].name); });

}  // namespace
}  // namespace assay::hostile
