// Problems that single forms cannot compute, sites that must be in use, axes of length 0, and forms with operands in 8
// bits: tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "proptests/core/table.hpp"
#include "proptests/laws/aimed_laws.hpp"
#include "proptests/laws/laws.hpp"
#include "proptests/laws/unit_laws.hpp"

namespace assay::laws {
namespace {

/// Rows of obstacles.json: the problem of a form, inputs that are set, to one number or to a list of what all of its
/// numbers are and the fourth, and the form's sentence, or where that starts; "" where it has none.
TEST(Obstacles, are_said_in_one_sentence) {
  const auto number = [](const Json& text) { return std::stod(text.get<std::string>()); };
  for (const Json& row : test_table("laws/obstacles.json")) {
    const std::string form = row.at("form"), room = form.substr(0, form.find(':')), says = row.at("says");
    const Subject s = subject(kernel_rooms(), room, form.substr(room.size() + 1));
    const Shape shape = shape_from(row.at("shape").get<std::string>());
    Problem p = s.room.make({room, shape, Format::fp32, Style::normal, 3, params_from(row)});
    const Json inputs = row.value("inputs", Json::object());
    for (const auto& [name, numbers] : inputs.items()) {
      Array& input = p.inputs.at(name);
      if (numbers.is_string())
        input = Array({}, {number(numbers)});
      else
        set_all(input, number(numbers.at(0)));
      if (numbers.size() > 1) input.data.at(3) = number(numbers.at(1));
    }
    const std::string said = s.form.obstacle(p);
    EXPECT_TRUE(said.starts_with(says) && said.empty() == says.empty()) << row << ": " << said;
  }
}

/// Gradients divide by a decay's logarithm; outputs do not.
TEST(Obstacles, a_decay_of_zero_has_no_logarithm) {
  const Subject s = subject(kernel_rooms(), "falcon2a", "chunkwise");
  Problem p =
      s.room.make({"falcon2a", {1, 3, 1, 1, 2, 2, 0}, Format::fp64, Style::normal, 3, {{"alignment", "same_step"}}});
  p.params["eps"] = "0";
  std::fill_n(p.inputs.at("k").data.begin() + 2, 2, 0.0);
  p.inputs.at("beta").data[1] = 1;
  EXPECT_THROW(s.run(p, Format::exact, 0), InputError);
  p.cotangents.clear();
  EXPECT_NO_THROW(s.run(p, Format::exact, 0));
}

/// Every site of a form's table rounds something: alone in bf16 among fp32 it moves the answer.
TEST(Sites, are_all_in_use) {
  struct Row {
    std::string_view room, form;
    CaseSpec spec;
    int tile;
  };
  const Shape ragged{1, 21, 2, 1, 5, 4, 0}, one_head{1, 40, 1, 0, 5, 3, 0}, chunks{1, 70, 2, 1, 6, 6, 0};
  const Params floor{{"sequence_start", false}, {"decay_floor", "0.875"}},
      window{{"window", 3L}, {"sequence_start", false}, {"decay_floor", "0.875"}};
  for (const auto& [room, form, spec, tile] :
       {Row{"deltanet", "chunkwise", {"deltanet", chunks, Format::fp32, Style::normal, 3, {}}, 2},
        Row{"gated_deltanet", "chunkwise", {"gated_deltanet", chunks, Format::fp32, Style::normal, 3, {}}, 2},
        Row{"mdn", "chunkwise", {"mdn", one_head, Format::fp32, Style::normal, 2, {}}, 2},
        Row{"mdn", "log_domain", {"mdn", one_head, Format::fp32, Style::normal, 2, {}}, 2},
        Row{"falcon2_lite", "renormalized", {"falcon2_lite", ragged, Format::fp32, Style::normal, 3, floor}, 2},
        Row{"falcon3", "chunkwise", {"falcon3", ragged, Format::fp32, Style::normal, 3, window}, 1},
        Row{"falcon3", "tensor_inverse", {"falcon3", ragged, Format::fp32, Style::normal, 3, window}, 1}}) {
    const Subject s = subject(kernel_rooms(), room, form);
    const Problem p = s.room.make(spec);
    const Policy single = Policy::of(s.form.sites, Format::fp32);
    const Arrays base = flat(s.form.run(p, single, tile));
    for (int i = 0; i < s.form.sites.size; ++i) {
      Policy policy = single;
      policy.sites = policy.sites.with(s.form.sites.entries[i].view(), Format::bf16);
      EXPECT_NE(flat(s.form.run(p, policy, tile)), base)
          << room << ':' << form << ' ' << s.form.sites.entries[i].view();
    }
  }
}

/// All are written in full: a number that is none is no distance.
TEST(Sites, round_less_in_wider_formats) {
  const auto distance = [](const Arrays& a, const Arrays& b) {
    double sum = 0;
    for (const auto& [name, array] : a)
      for (std::size_t i = 0; i < array.data.size(); ++i) sum += std::pow(array.data[i] - b.at(name).data[i], 2);
    return std::sqrt(sum);
  };
  for (const char* room : {"deltanet", "gated_deltanet"}) {
    const Subject s = subject(kernel_rooms(), room, "chunkwise");
    const Problem p = s.room.make({room, {1, 70, 2, 1, 6, 6, 0}, Format::fp64, Style::normal, 3, {}});
    for (int tile = 0; tile < 3; ++tile) {
      const Arrays exact = flat(s.run(p, Format::exact, tile));
      double nearer = 0;
      for (const Format f : {Format::fp64, Format::fp32, Format::tf32, Format::bf16, Format::e4m3}) {
        const double error = distance(flat(s.run(p, f, tile)), exact);
        EXPECT_GT(error, nearer) << room << ' ' << name_of(f);  // false for NaN
        nearer = error;
      }
    }
  }
}

/// The problem with an axis of length 0.
Problem without(Axis axis, const Room& room, Problem p) {
  const auto empty = [&](Arrays& arrays, const std::vector<RoomFacts::Ranked>& facts) {
    for (const auto& [field, rank] : facts) {
      const auto it = arrays.find(field.name);
      for (std::size_t i = 0; it != arrays.end() && i + 1 < it->second.shape.size(); ++i)
        if (field.axes.at(i) == axis) it->second.shape[i + 1] = 0, it->second.data.clear();
    }
  };
  empty(p.inputs, room.inputs()), empty(p.cotangents, room.outputs());
  return p;
}

TEST(Empty, segments_hand_on_what_came_in) {
  const Params window{{"window", 3L}, {"sequence_start", false}};
  for (const auto& [room, heads, params] :
       {std::tuple("deltanet", 1, Params{}), {"gated_deltanet", 1, Params{}}, {"falcon3", 2, window}}) {
    const Subject s = subject(kernel_rooms(), room, "chunkwise");
    const CaseSpec spec{room, {1, 1, heads, 1, 5, 4, 0}, Format::fp32, Style::normal, 3, params};
    const Problem p = without(Axis::seq_len, s.room, s.room.make(spec));
    const Answer got = s.run(p, Format::exact, 0);
    EXPECT_EQ(got.outputs.at("o").count(), 0U) << room;
    int carried = 0;
    for (const auto& [out, in] :
         {std::pair("final_state", "initial_state"), {"final_tail_k", "tail_k"}, {"final_tail_v", "tail_v"}}) {
      if (!p.inputs.contains(in)) continue;
      EXPECT_EQ(got.outputs.at(out).data, p.inputs.at(in).data) << room << ' ' << in;
      EXPECT_EQ(got.gradients.at(in).data, p.cotangents.at(out).data) << room << ' ' << in;
      ++carried;
    }
    EXPECT_EQ(carried, params.empty() ? 1 : 3) << room;
  }
}

TEST(Empty, values_have_no_gradients_of_the_rest) {
  for (const char* room : {"deltanet", "gated_deltanet"}) {
    const Subject s = subject(kernel_rooms(), room, "chunkwise");
    const CaseSpec spec{room, {1, 20, 1, 1, 5, 1, 0}, Format::fp32, Style::normal, 3, {}};
    const Answer got = s.run(without(Axis::value_dim, s.room, s.room.make(spec)), Format::exact, 0);
    for (const char* name : {"q", "k", "beta"})
      for (const double x : got.gradients.at(name).data) EXPECT_EQ(x, 0) << room << ' ' << name;
  }
}

TEST(Units, are_what_wide_heads_need) {
  for (const char* form : {"tiled", "split_decode"})
    wide_heads_need_units(subject(kernel_rooms(), "softmax_attention", form));
  for (const char* form : {"tiled", "split_decode", "covariance"})
    wide_heads_need_units(subject(kernel_rooms(), "parallax", form));
}

}  // namespace
}  // namespace assay::laws
