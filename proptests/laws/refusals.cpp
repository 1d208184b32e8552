// Bad inputs of all rooms: by their kinds, and one by one in refusals.json, whose rows are a case of that file, what is
// changed in it, and what is said of it (the sentence, the status, the row, and whether in double), or nothing of what
// is legal. That file lists the rooms that take inputs of a kind, and what kinds each has.
#include <gtest/gtest.h>

#include <iterator>
#include <limits>
#include <string>

#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/table.hpp"

namespace assay::bad_inputs {
namespace {

/// A fault of how a room takes inputs of a kind, or "".
struct KindOfInputs {
  const char* name;
  std::string (*violation)(const Room&);
};
constexpr KindOfInputs kinds[] = {
    {"numbers that are not finite", numbers_must_be_finite},
    {"shapes that do not fit", shapes_must_fit},
    {"axes of length 0", empty_extents},
    {"heads that do not divide", heads_must_divide},
    {"overflow", overflow_names_the_first_token},
    {"any strength", any_strength_is_legal},
};
TEST(BadInputs, of_all_kinds_are_refused) {
  const Json rooms_of = test_table("laws/refusals.json").at("rooms that take");
  EXPECT_EQ(rooms_of.size(), std::size(kinds));
  for (const KindOfInputs& kind : kinds)
    for (const std::string room : rooms_of.at(kind.name))
      EXPECT_EQ(kind.violation(listed_room(room)), "") << room << ": " << kind.name;
}

/// The table repeats, for every room, the kinds of inputs that the checks follow.
TEST(BadInputs, are_of_the_kinds_that_rooms_have) {
  const Json table = test_table("laws/refusals.json").at("kinds of inputs");
  for (const auto& [room, is] : table.items())
    EXPECT_EQ(kinds_of_inputs(listed_room(room)), is.get<std::string>()) << room;
}

Json record_of(const Json& file, const Json& row) {
  Json record = file.at("cases").at(row.at(0).get<std::string>());
  record["id"] = "a";
  for (const auto& [place, value] : row.at(1).items()) record = changed(record, place, value);
  return record;
}

TEST(Refusals, say_what_is_wrong_and_where) {
  const Json file = test_table("laws/refusals.json");
  for (const Json& row : file.at("rows")) {
    DecimalOptions options;
    if (row.size() > 5) options = {.digits = 10, .tier = Tier::fp64};
    const CaseResult got = result_of(record_of(file, row), options);
    const bool is_legal = row.size() == 2;
    EXPECT_EQ(got.message, is_legal ? "" : row.at(2).get<std::string>()) << row;
    EXPECT_EQ(std::string(name_of(got.status)), is_legal ? "OK" : row.at(3).get<std::string>()) << row;
    EXPECT_EQ(got.row, is_legal ? -1 : row.at(4).get<int>()) << row;
    EXPECT_TRUE(is_legal || got.answer.outputs.empty()) << row;
  }
}

/// Far out, where log(1 + tiny), 1 + tanh(-large) or a ridge in units of weights would lose every digit, double keeps
/// its own or comes to zero (delta-family.md 6.6): a number is under 16 operations of at most 2 u each behind an exp,
/// which turns the error of one operation on its argument into twice the argument's size.
TEST(Refusals, do_not_stand_for_digits_that_double_has) {
  const Json file = test_table("laws/refusals.json");
  for (const Json& row : file.at("doubles")) {
    const Json record = record_of(file, row);
    const Decimals truths = result_of(record).answer,
                   in_double = result_of(record, {.digits = 17, .tier = Tier::fp64}).answer;
    const Mp50 limit = Mp50(16 * 2 + 2 * row.at(2).get<int>()) * ldexp(Mp50(1), -53);
    const auto compare = [&](const BasicArrays<Cell>& got, const BasicArrays<Cell>& want) {
      ASSERT_EQ(got.size(), want.size());
      for (const auto& [name, array] : want)
        for (std::size_t i = 0; i < array.data.size(); ++i) {
          if (array.data[i].text.empty()) continue;  // there is no such number
          const Mp50 truth(array.data[i].text), number(got.at(name).data[i].text);
          EXPECT_LE(abs(number - truth), abs(truth) * limit + Mp50(std::numeric_limits<double>::min()))
              << row.at(0) << ' ' << name << '[' << i << ']';
        }
    };
    EXPECT_FALSE(in_double.outputs.empty()) << row.at(0);
    compare(in_double.outputs, truths.outputs);
    compare(in_double.gradients, truths.gradients);
  }
}

}  // namespace
}  // namespace assay::bad_inputs
