// Batches of sequences of several lengths: packed in one launch, every form of every room gives each sequence the bits
// that it has alone, in every precision and under randomised rounding.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "judge/trial/fault_trials.hpp"
#include "kernels/core/batch.hpp"
#include "kernels/core/kernel_room.hpp"
#include "kernels/core/pack.hpp"
#include "proptests/core/bits.hpp"
#include "proptests/core/generators.hpp"
#include "proptests/laws/laws.hpp"

namespace assay {
namespace {

/// A form of a room, by name.
struct Named {
  std::string room, form;
  friend std::ostream& operator<<(std::ostream& os, const Named& n) { return os << n.room << ':' << n.form; }
};
std::vector<Named> all_forms() {
  std::vector<Named> all;
  for (const KernelRoom* room : kernel_rooms())
    for (const KernelForm& form : room->forms) all.push_back({std::string(room->name), std::string(form.name)});
  return all;
}

/// A case, and the lengths of the sequences that it is made at.
struct Batch {
  LawCase of;
  std::vector<int> lengths;

  std::vector<Problem> problems(const Room& room) const {
    std::vector<Problem> all;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      CaseSpec spec = of.spec;
      spec.shape.seq_len = lengths[s];
      spec.shape.query_len = std::min(spec.shape.query_len, lengths[s]);
      do {  // what broadcasts comes in every kind, by the seed; a batch has one kind of it
        all.resize(s);
        spec.seed += s;
        all.push_back(room.make(spec));
      } while (!pack::obstacle(all).empty());
    }
    return all;
  }
  friend std::ostream& operator<<(std::ostream& os, const Batch& b) {
    os << "lengths";
    for (const int n : b.lengths) os << ' ' << n;
    return os << " of " << b.of;
  }
};

/// Rows of tile shape `tile`: "64", "64x32" and "64x32/256" have 64.
int rows_of(const KernelForm& form, int tile) {
  return std::stoi(std::string(form.tiles[static_cast<std::size_t>(tile)]));
}
/// Lengths around a tile's rows; iterative forms cost their square, and have small tiles.
std::vector<int> aimed_lengths(const KernelForm& form, int tile) {
  const int rows = rows_of(form, tile);
  std::vector<int> lengths = {1, 2, rows - 1, rows, rows + 1, 2 * rows + 3};
  if (form.iterative) std::erase_if(lengths, [](int n) { return n > 35; });
  return lengths;
}

rc::Gen<Batch> batches(const laws::Subject& s) {
  return rc::gen::exec([&s] {
    Batch batch;
    batch.of = *law_cases(s.room, s.form);
    const auto length = rc::gen::elementOf(aimed_lengths(s.form, batch.of.tile));
    batch.lengths = *rc::gen::container<std::vector<int>>(*rc::gen::inRange(2, 5), length);
    return batch;
  });
}

/// Where the answers differ from those of the sequences alone, or "".
std::string difference(const std::vector<Answer>& got, const KernelForm& form, const std::vector<Problem>& problems,
                       const Policy& policy, int tile) {
  if (got.size() != problems.size()) return "another number of answers";
  for (std::size_t s = 0; s < problems.size(); ++s) {
    const Arrays packed = flat(got[s]), alone = flat(form.run(problems[s], policy, tile));
    if (packed.size() != alone.size()) return text("sequence ", s, ": another number of tensors");
    for (const auto& [name, array] : alone)
      if (!same_bits(packed.at(name), array)) return text("sequence ", s, ": ", name);
  }
  return "";
}

/// Rounds to nearest, and at random.
std::vector<Policy> policies(const KernelForm& form, Format precision, std::uint64_t seed) {
  std::vector<Policy> all(2, Policy::of(form.sites, precision));
  all[1].rounding = Rounding::jittered;
  all[1].seed = seed;
  for (Policy& policy : all) policy.threads = 2;
  return all;
}

class Packed : public ::testing::TestWithParam<Named> {
 protected:
  static laws::Subject healthy() { return laws::subject(kernel_rooms(), GetParam().room, GetParam().form); }
};

TEST_P(Packed, is_separate) {
  const laws::Subject s = healthy();
  laws::check_property([&s] {
    const Batch batch = *batches(s);
    const std::vector<Problem> problems = batch.problems(s.room);
    for (const Problem& p : problems) RC_PRE(s.form.obstacle(p).empty());
    for (const Policy& policy : policies(s.form, batch.of.spec.precision, batch.of.spec.seed)) {
      const std::string where =
          difference(run_packed(s.form, problems, policy, batch.of.tile), s.form, problems, policy, batch.of.tile);
      if (!where.empty()) RC_FAIL(where + " differs");
    }
  });
}

/// Four sequences around the smallest tile's rows in bf16, in the first setting of the room that the form can run.
std::vector<Problem> fixed_problems(const laws::Subject& s) {
  for (const Params& params : s.room.variants()) {
    Batch batch;
    const int rows = rows_of(s.form, smallest_tile(s.form));
    batch.lengths = {rows + 1, 1, rows - 1, 2 * rows};
    batch.of.spec = {std::string(s.room.name), {1, 1, 2, 1, 8, 8, 0}, Format::bf16, Style::normal, 1, params};
    if (!groups_heads(s.room.inputs())) batch.of.spec.shape.shared_heads = 0;
    if (s.form.name == "split_decode") batch.of.spec.shape.query_len = 3;
    std::vector<Problem> problems = batch.problems(s.room);
    if (std::ranges::all_of(problems, [&](const Problem& p) { return s.form.obstacle(p).empty(); })) return problems;
  }
  return {};
}

TEST_P(Packed, mutants_are_killed) {
  const laws::Subject s = healthy();
  const int tile = smallest_tile(s.form);
  const std::vector<Problem> problems = fixed_problems(s);
  ASSERT_FALSE(problems.empty());
  for (const Mutant& mutant : pack_mutants) {
    std::string where;
    for (Policy policy : policies(s.form, Format::bf16, 1)) {
      policy.threads = 1;
      policy.fault = mutant.name;
      if (where.empty())
        where = difference(run_packed(s.form, problems, policy, tile), s.form, problems, policy.healthy(), tile);
    }
    EXPECT_NE(where, "") << mutant.name;
  }
}

INSTANTIATE_TEST_SUITE_P(rooms, Packed, ::testing::ValuesIn(all_forms()),
                         [](const auto& of) { return of.param.room + "_" + of.param.form; });

// ---- the meeting itself

struct Number : pack::Request {
  int value = 0;
};
/// The sum of those that came, and their order as digits.
void add(std::span<pack::Request* const> requests) {
  int digits = 0;
  for (pack::Request* r : requests) digits = 10 * digits + static_cast<Number*>(r)->value;
  for (pack::Request* r : requests) static_cast<Number*>(r)->value = digits;
}
int meet_with(int value, std::intptr_t key) {
  Number number;
  number.value = value;
  pack::meet({add, key}, number);
  return number.value;
}

TEST(pack, serves_who_launches_more_without_the_others) {
  for (int repetition = 0; repetition < 50; ++repetition) {
    std::array<int, 3> extra{}, met{};
    pack::run(3, [&](int s) {
      const auto at = static_cast<std::size_t>(s);
      if (s != 1) extra[at] = meet_with(s + 1, 7);
      met[at] = meet_with(s + 1, 0);
      if (s == 2) extra[at] = meet_with(9, 0);
    });
    EXPECT_EQ(extra, (std::array{13, 0, 9}));
    EXPECT_EQ(met, (std::array{123, 123, 123}));
  }
}

TEST(pack, releases_the_others_of_one_that_fails_and_names_it) {
  for (int repetition = 0; repetition < 50; ++repetition) {
    std::atomic<int> past = 0;
    const auto body = [&](int s) {
      meet_with(s, 0);
      require(s < 1, "no such length");
      meet_with(s, 1);
      ++past;
    };
    try {
      pack::run(3, body);
      ADD_FAILURE();
    } catch (const InputError& e) {
      EXPECT_STREQ(e.what(), "sequence 1: no such length");
    }
    EXPECT_EQ(past, 0);
  }
}

TEST(pack, a_request_s_error_is_thrown_where_it_waits) {
  const auto refuse = [](std::span<pack::Request* const> requests) {
    requests[1]->error = std::make_exception_ptr(InputError("out of memory"));
  };
  try {
    pack::run(2, [&](int) {
      Number number;
      pack::meet({refuse}, number);
    });
    ADD_FAILURE();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "sequence 1: out of memory");
  }
}

TEST(pack, refuses_what_is_no_batch) {
  const laws::Subject s = laws::subject(kernel_rooms(), "deltanet", "chunkwise");
  const CaseSpec spec{"deltanet", {1, 5, 2, 0, 8, 8, 0}, Format::bf16};
  const auto with = [&](auto change) {
    CaseSpec other = spec;
    other.shape.seq_len = 9;
    change(other);
    return std::vector{s.room.make(spec), s.room.make(other)};
  };
  const auto why = [](const std::vector<Problem>& problems) { return pack::obstacle(problems); };
  EXPECT_EQ(why(with([](CaseSpec&) {})), "");
  EXPECT_EQ(why(with([](CaseSpec& c) { c.shape.heads = 4; })),
            "sequence 1 differs from sequence 0 in the input 'beta' by more than its length");
  EXPECT_EQ(why(with([](CaseSpec& c) { c.params["alignment"] = "next_latent"; })),
            "sequence 1 has other parameters than sequence 0");
  auto problems = with([](CaseSpec&) {});
  problems[1].cotangents.erase("o");
  EXPECT_EQ(why(problems), "sequence 1 has no cotangent 'o', sequence 0 has");
  EXPECT_THROW(run_packed(s.form, problems, Policy::exact(s.form.sites), 0), InputError);
  problems[0].cotangents.clear();
  EXPECT_EQ(why(problems), "sequence 1 has the cotangent 'final_state', sequence 0 has not");
}

}  // namespace
}  // namespace assay
