// Laws of recurrences that published cases with arguments do not show: calls that continue, and that every room takes
// sequences.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "arguments/registry.hpp"
#include "proptests/arguments/records.hpp"
#include "proptests/laws/property.hpp"

namespace assay::arguments {
namespace {

/// A list of numbers as nested lists of that shape.
Json nested(const Json& flat, const std::vector<int>& shape) {
  if (shape.empty()) return flat.at(0);
  Json list = Json::array();
  const auto one = flat.size() / static_cast<std::size_t>(std::max(shape[0], 1));
  for (int i = 0; i < shape[0]; ++i) {
    const int from = i * static_cast<int>(one);
    list.push_back(nested(part_of(flat, from, from + static_cast<int>(one)), {shape.begin() + 1, shape.end()}));
  }
  return list;
}

const std::vector<std::string> all = {"deltanet", "gated_deltanet",  "kda", "gla", "comba",
                                      "mamba2",   "linear_attention"};

/// One of them, of T tokens.
Record any_recurrence(Draw& draw, int T) {
  return recurrence(draw, all[static_cast<std::size_t>(draw.below(static_cast<int>(all.size())))], T, 2, 3);
}

bool is_state(const std::string& name) { return name == "initial_state" || name == "final_state"; }

/// Tokens from .. to - 1; the state that comes in and the cotangent of the one that goes out are the caller's.
Record tokens(const Record& whole, int from, int to) {
  Record some = whole;
  for (Json* part : {&some.inputs, &some.cotangents})
    for (auto&& [name, tensor] : part->items())
      if (tensor.is_array() && !is_state(name) && name != "state_at" && name != "states_at")
        tensor = part_of(tensor, from, to);
  return some;
}

/// A sequence in two calls, with cotangents of states inside of both.
ASSAY_PROPERTY(arguments_recurrences, two_calls_are_one) {
  Draw draw;
  const int T = 5, cut = 1 + draw.below(T - 1);
  Record whole = any_recurrence(draw, T);
  whole.inputs["state_at"] = {0, cut - 1, T - 1, 0};
  whole.cotangents["states_at"] = draw.tensor({4, 2, 3});
  Record head = tokens(whole, 0, cut), tail = tokens(whole, cut, T);
  const Json& ct = whole.cotangents["states_at"];
  head.inputs["state_at"] = {0, cut - 1, 0}, head.cotangents["states_at"] = {ct[0], ct[1], ct[3]};
  tail.inputs["state_at"] = {T - 1 - cut}, tail.cotangents["states_at"] = Json::array({ct[2]});
  tail.inputs["initial_state"] = answered(head)["outputs"]["final_state"];
  const Json second = answered(tail);
  head.cotangents["final_state"] = second["gradients"]["initial_state"];
  const Json first = answered(head), both = answered(whole);
  RC_ASSERT(agree(joined(first["outputs"]["o"], second["outputs"]["o"]), both["outputs"]["o"]));
  RC_ASSERT(agree(second["outputs"]["final_state"], both["outputs"]["final_state"]));
  RC_ASSERT(agree(first["gradients"]["initial_state"], both["gradients"]["initial_state"]));
  for (const char* name : {"q", "k", "v"})
    RC_ASSERT(agree(joined(first["gradients"][name], second["gradients"][name]), both["gradients"][name]));
}

/// Every room that the table says takes sequences and states, with its own generator.
TEST(ArgumentTable, SequencesAndStatesOfEveryRecurrence) {
  int rooms_seen = 0;
  for (const Room* room : rooms()) {
    if (facts_of(std::string(room->name)).family != Family::recurrence) continue;
    ++rooms_seen;
    const Problem problem = room->make({.mechanism = std::string(room->name), .shape = {1, 6, 1, 0, 2, 3, 0}});
    Record plain{std::string(room->name)};
    const auto spelled = [](const Array& array) {
      Json flat = Json::array();
      for (const double x : array.data) flat.push_back(to_decimal(x, 40));
      return nested(flat, {array.shape.begin() + 1, array.shape.end()});  // one head, without its axis
    };
    for (const auto& [name, param] : problem.params) plain.params.update(json_of({{name, param}}));
    for (const auto& [name, array] : problem.inputs) plain.inputs[name] = spelled(array);
    for (const auto& [name, array] : problem.cotangents) plain.cotangents[name] = spelled(array);
    Record packed = plain;
    packed.inputs["cu_seqlens"] = {0, 6};
    packed.params["state_layout"] = "k_first", packed.params["state_every"] = 4;
    for (Json* part : {&packed.inputs, &packed.cotangents})
      for (auto&& [name, tensor] : part->items())
        if (name.starts_with("initial_") || name.starts_with("final_") || name == "k_carry")
          tensor = Json::array({tensor});
    const Json a = attempted(plain), b = attempted(packed);
    ASSERT_EQ(a["status"], "OK") << room->name << a["message"];
    ASSERT_EQ(b["status"], "OK") << room->name << b["message"];
    for (const char* part : {"outputs", "gradients"})
      for (const auto& [name, tensor] : b[part].items())
        if (a[part].contains(name)) {
          EXPECT_TRUE(agree(a[part][name], tensor)) << room->name << ' ' << name;
        }
    EXPECT_EQ(b["outputs"]["chunk_states"].size(), 2u) << room->name;
  }
  EXPECT_EQ(rooms_seen, 14);
}

}  // namespace
}  // namespace assay::arguments
