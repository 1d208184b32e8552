#pragma once
// The table of bad inputs of delta-family.md section 7, for any room with tokens: each function answers what was not
// refused as it should be, or "".
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "files/case_file.hpp"
#include "oracles/core/room.hpp"
#include "oracles/scalars/precise.hpp"

namespace assay::bad_inputs {

/// The lengths of a case's axes.
struct Lengths {
  int T = 3, K = 2, V = 2;
  int of(Axis a) const { return a == Axis::key_dim ? K : a == Axis::value_dim ? V : T; }
};

/// Numbers 1/4, 2/4, 3/4, 1/4 ..., negative in log gates, nested as deep as the shape; "" if it is empty.
inline Json numbers(const std::vector<int>& shape, bool negative, std::size_t depth = 0, int* count = nullptr) {
  int first = 0;
  if (count == nullptr) count = &first;
  if (depth == shape.size()) return std::string(negative ? "-0." : "0.") + std::vector{"25", "5", "75"}[(*count)++ % 3];
  Json list = Json::array();
  for (int i = 0; i < shape[depth]; ++i) list.push_back(numbers(shape, negative, depth + 1, count));
  return list;
}

/// Every input and cotangent of the room, optional ones left out, with `heads` leading if > 0 (`shared` for shared
/// ones).
inline Json good_case(const Room& room, const Lengths& lengths = {}, int heads = 0, int shared = 0) {
  Json record{{"id", "a"},
              {"mechanism", room.name},
              {"params", Json::object()},
              {"inputs", Json::object()},
              {"cotangents", Json::object()}};
  const auto shape_of = [&](const RoomFacts::Ranked& r) {
    std::vector<int> shape;
    if (heads > 0) shape.push_back(r.field.heads == Field::Heads::own ? heads : shared);
    for (int i = 0; i < r.rank; ++i) shape.push_back(lengths.of(r.field.axes[static_cast<std::size_t>(i)]));
    return shape;
  };
  for (const RoomFacts::Ranked& r : room.inputs()) {
    const std::string name(r.field.name);
    if (r.field.missing == Field::Missing::absent || r.field.place == Field::Place::derived) continue;
    if (r.field.place == Field::Place::param)
      record["params"][name] = "0.5";
    else
      record["inputs"][name] = numbers(shape_of(r), r.field.domain == Domain::log_decay);
  }
  for (const RoomFacts::Ranked& r : room.outputs())
    if (r.field.missing != Field::Missing::absent)
      record["cotangents"][std::string(r.field.name)] = numbers(shape_of(r), false);
  return record;
}

/// What the room takes its inputs for, by name: what the checks below follow, and so what has to be said independently.
inline std::string kinds_of_inputs(const Room& room) {
  std::string gates, optional, shared;
  for (const auto& [f, rank] : room.inputs()) {
    if (f.place != Field::Place::input) continue;
    const std::string name = text(' ', f.name);
    if (f.domain == Domain::log_decay) gates += name;
    if (f.missing != Field::Missing::error) optional += name;
    if (f.heads == Field::Heads::shared) shared += name;
  }
  return text("log gates:", gates, "; optional:", optional, "; shared:", shared);
}

inline CaseResult result_of(const Json& record, const DecimalOptions& options = {}) {
  return answer_case(read_cases(case_file_text({record}), "in.json").at(0), options);
}

/// With the value at `place` ("/inputs/q/0/1") replaced; null removes it.
inline Json changed(Json record, const std::string& place, const Json& value) {
  const Json::json_pointer pointer(place);
  if (value.is_null())
    record[pointer.parent_pointer()].erase(pointer.back());
  else
    record[pointer] = value;
  return record;
}

/// "" if the case is refused as stated and has no answer.
inline std::string refusal(const Json& record, Status status, int row, const std::string& message) {
  const CaseResult r = result_of(record);
  if (r.status == status && r.row == row && r.message == message && r.answer.outputs.empty()) return "";
  return text(name_of(r.status), ", row ", r.row, ", '", r.message, "' instead of ", name_of(status), ", row ", row,
              ", '", message, "'");
}

/// NaN and infinities in any input, cotangent or parameter, but for -inf in a log gate.
inline std::string numbers_must_be_finite(const Room& room) {
  const Json good = good_case(room);
  if (const CaseResult r = result_of(good); r.status != Status::ok) return "the good case: " + r.message;
  const auto try_all = [&](const std::vector<RoomFacts::Ranked>& fields, const std::string& part) -> std::string {
    for (const auto& [f, rank] : fields) {
      const bool param = f.place == Field::Place::param;
      const std::string where = param ? "params" : part, name(f.name);
      if (!good[where].contains(name)) continue;
      const bool by_token = rank > 0 && f.axes[0] == Axis::seq_len;
      const std::string index = rank == 0 ? "" : rank == 1 ? "[1]" : "[1][0]";
      for (const char* number : {"nan", "inf", "-inf"}) {
        const bool legal = f.domain == Domain::log_decay && part == "inputs" && number == std::string_view("-inf");
        const char* at = rank == 0 ? "" : rank == 1 ? "/1" : "/1/0";
        const Json bad = changed(good, text("/", where, "/", name, at), number);
        const std::string tensor = where == "inputs" ? name : text(where, ".", name);
        if (legal && result_of(bad).status != Status::ok) return name + ": -inf closes a gate";
        if (!legal)
          if (std::string s =
                  refusal(bad, Status::nonfinite, by_token ? 1 : -1, text(tensor, index, ": not a finite number"));
              !s.empty())
            return s;
      }
      if (f.domain != Domain::log_decay || part != "inputs") continue;
      if (std::string s = refusal(changed(good, "/inputs/" + name + (rank == 1 ? "/1" : "/1/0"), "0.5"), Status::domain,
                                  1, name + index + ": a log decay must be <= 0");
          !s.empty())
        return s;
    }
    return "";
  };
  if (std::string s = try_all(room.inputs(), "inputs"); !s.empty()) return s;
  return try_all(room.outputs(), "cotangents");
}

/// A missing input, one too many, and one whose length is another's no longer.
inline std::string shapes_must_fit(const Room& room) {
  const Json good = good_case(room);
  if (std::string s =
          refusal(changed(good, "/inputs/w", "1"), Status::domain, -1, text("inputs.w: unknown to ", room.name));
      !s.empty())
    return s;
  if (std::string s =
          refusal(changed(good, "/params/w", "1"), Status::domain, -1, text("params.w: unknown to ", room.name));
      !s.empty())
    return s;
  for (const auto& [f, rank] : room.inputs()) {
    const std::string name(f.name);
    if (f.place != Field::Place::input || !good["inputs"].contains(name)) continue;
    if (f.missing == Field::Missing::error)
      if (std::string s = refusal(changed(good, "/inputs/" + name, nullptr), Status::domain, -1, name + ": missing");
          !s.empty())
        return s;
    const CaseResult deeper = result_of(changed(good, "/inputs/" + name, Json::array({good["inputs"][name]})));
    if (deeper.status != Status::domain) return name + ": another axis is accepted";
    if (rank == 0) continue;
    Json longer = good;
    Json& list = longer["inputs"][name];
    list.push_back(list[0]);
    const CaseResult r = result_of(longer);
    const bool says = r.message.find(": expected T = ") != std::string::npos ||
                      r.message.find(": expected K = ") != std::string::npos;
    if (r.status != Status::domain || r.row != -1 || !says) return name + ": one row too many: " + r.message;
  }
  return "";
}

/// Steps and weights of any sign and size, zero among them, and keys that are zero: legal, all of them (section 7).
inline std::string any_strength_is_legal(const Room& room) {
  Json record = good_case(room);
  bool found = false;
  for (const auto& [f, rank] : room.inputs()) {
    Json& input = record["inputs"][std::string(f.name)];
    if (f.domain == Domain::write_strength || f.domain == Domain::gradient_weight)
      input = Json::array({"-3", "0", "5"}), found = true;
    if (f.domain == Domain::key && rank == 2) input[1] = Json::array({"0", "0"});
    if (input.is_null()) record["inputs"].erase(std::string(f.name));
  }
  const CaseResult r = result_of(record);
  return !found ? "no strengths" : r.status == Status::ok ? "" : r.message;
}

/// Without tokens or value channels the states come back unchanged; without key channels there is nothing to ask.
inline std::string empty_extents(const Room& room) {
  for (const Lengths lengths : {Lengths{.T = 0}, Lengths{.V = 0}}) {
    const CaseResult r = result_of(good_case(room, lengths));
    if (r.status != Status::ok) return r.message;
    const Json good = good_case(room, lengths);
    for (const auto& [name, a] : r.answer.outputs) {
      const std::string initial = "initial_" + name.substr(std::min<std::size_t>(name.size(), 6));
      if (!name.starts_with("final_") || !good["inputs"].contains(initial)) continue;
      const Json want = good["inputs"][initial].flatten();
      for (std::size_t i = 0; i < a.data.size(); ++i)
        if (Mp50(a.data[i].text) !=
            Mp50(std::next(want.begin(), static_cast<std::ptrdiff_t>(i)).value().get<std::string>()))
          return name + ": changed without tokens";
    }
  }
  const CaseResult none = result_of(good_case(room, {.K = 0}));
  return none.status == Status::domain && none.message == "k: expected K >= 1, got 0" ? "" : "K = 0: " + none.message;
}

/// Value heads share key heads evenly, and every tensor has as many as its kind.
inline std::string heads_must_divide(const Room& room) {
  if (const CaseResult r = result_of(good_case(room, {}, 4, 2)); r.status != Status::ok) return r.message;
  if (std::string s = refusal(good_case(room, {}, 3, 2), Status::domain, -1, "heads: 3 is not a multiple of 2");
      !s.empty())
    return s;
  Json uneven = good_case(room, {}, 2, 2);
  uneven["cotangents"]["o"].erase(1);
  return refusal(uneven, Status::domain, -1, "cotangents.o: expected 2 heads, got 1");
}

/// In double, a value and a scale whose product is beyond it: the first token that reads it is named.
inline std::string overflow_names_the_first_token(const Room& room) {
  const Json record = changed(changed(good_case(room), "/inputs/v/1/0", "1e307"), "/params/scale", "1e10");
  const CaseResult r = result_of(record, {.digits = 10, .tier = Tier::fp64});
  if (r.status != Status::nonfinite || r.row != 1 || r.message != "o[1][0]: overflows in double")
    return text("row ", r.row, ": ", r.message);
  const CaseResult in_more = result_of(record);
  return in_more.status == Status::ok ? "" : in_more.message;
}

}  // namespace assay::bad_inputs

/// The whole table for a room that reads a state.
#define ASSAY_REFUSES_BAD_INPUTS(mechanism)                                                              \
  TEST(mechanism##_bad_inputs, numbers_must_be_finite) {                                                 \
    EXPECT_EQ(::assay::bad_inputs::numbers_must_be_finite(*::assay::find_room(#mechanism)), "");         \
  }                                                                                                      \
  TEST(mechanism##_bad_inputs, shapes_must_fit) {                                                        \
    EXPECT_EQ(::assay::bad_inputs::shapes_must_fit(*::assay::find_room(#mechanism)), "");                \
  }                                                                                                      \
  TEST(mechanism##_bad_inputs, empty_extents) {                                                          \
    EXPECT_EQ(::assay::bad_inputs::empty_extents(*::assay::find_room(#mechanism)), "");                  \
  }                                                                                                      \
  TEST(mechanism##_bad_inputs, heads_must_divide) {                                                      \
    EXPECT_EQ(::assay::bad_inputs::heads_must_divide(*::assay::find_room(#mechanism)), "");              \
  }                                                                                                      \
  TEST(mechanism##_bad_inputs, overflow_names_the_first_token) {                                         \
    EXPECT_EQ(::assay::bad_inputs::overflow_names_the_first_token(*::assay::find_room(#mechanism)), ""); \
  }
