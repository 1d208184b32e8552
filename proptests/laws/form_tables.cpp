// Problems that single forms cannot compute, sites that must be in use, and forms with operands in 8 bits: tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "proptests/laws/aimed_laws.hpp"
#include "proptests/laws/laws.hpp"
#include "proptests/laws/unit_laws.hpp"

namespace assay::laws {
namespace {

/// A problem that a form has an obstacle to, and its sentence, or where that starts; "" where it has none.
struct Obstacle {
  std::string_view room, form;
  Shape shape;
  Params params;
  void (*change)(Problem&);
  std::string_view says;
};
void nothing(Problem&) {}
void with_lambda(Problem& p, double x) { p.inputs.at("lambda") = Array({}, {x}); }
void with_gate(Problem& p, const char* name, double x) {
  for (const char* gate : {"log_alpha", "log_mu"}) set_all(p.inputs.at(gate), -0.5);
  set_all(p.inputs.at("beta"), 0.25);
  if (name != nullptr) p.inputs.at(name).data[3] = x;
}
constexpr double infinity = std::numeric_limits<double>::infinity();

const std::vector<Obstacle>& obstacles() {
  static const std::string_view no_ridge = "lambda: conjugate gradients need a ridge in every dimension, got 0",
                                small_ridge = "lambda: too small for conjugate gradients: the condition may reach ",
                                no_floor =
                                    "without a decay_floor a decay may be 0, and nothing is renormalised by that";
  static const Shape three{1, 3, 1, 1, 2, 2, 0}, nine{1, 9, 1, 1, 4, 3, 0}, wide{1, 300, 1, 1, 128, 1, 0},
      long_one{1, 128, 1, 1, 8, 8, 0};
  static const Params steps{{"solver", "cg"}, {"iterations", 2L}}, centred{{"blocks", 2L}, {"block_form", "centered"}},
      centred_steps{{"blocks", 2L}, {"block_form", "centered"}, {"solver", "cg"}, {"iterations", 2L}};
  static const std::vector<Obstacle> all = {
      {"mesanet", "chunkwise", three, {}, [](Problem& p) { with_lambda(p, 0.5); }, ""},
      {"mesanet", "chunkwise", three, {}, [](Problem& p) { with_lambda(p, 0); }, no_ridge},
      {"mesanet", "chunkwise", three, {}, [](Problem& p) { with_lambda(p, 0x1p-40); }, small_ridge},
      {"affine_mesanet", "chunkwise", three, {}, [](Problem& p) { with_lambda(p, 0.5); }, ""},
      {"affine_mesanet", "chunkwise", three, {}, [](Problem& p) { with_lambda(p, 0); }, no_ridge},
      {"lla", "tiled", nine, {}, nothing, ""},
      {"lla", "tiled", nine, {}, [](Problem& p) { with_lambda(p, 0x1p-60); }, small_ridge},
      {"lla", "tiled", nine, steps, [](Problem& p) { with_lambda(p, 0x1p-60); }, ""},
      {"lla", "tiled", nine, steps, [](Problem& p) { with_lambda(p, 0); }, no_ridge},
      {"lla", "raw_moments", nine, {{"blocks", 2L}}, nothing, ""},
      {"lla", "raw_moments", nine, centred, nothing, "raw moments are moved to q: blocks of C are about kbar"},
      {"lla", "tiled", nine, centred, nothing, ""},
      {"lla", "raw_moments", nine, centred_steps, nothing, ""},  // steps are towards rho, blocks are Sigma's
      {"falcon3",
       "chunkwise",
       wide,
       {},
       nothing,
       "the windows of all tokens are laid side by side, of which 8388608 numbers fit: these have 11520000"},
      {"falcon3", "chunkwise", wide, {{"window", 200L}}, nothing, ""},
      {"falcon3", "tensor_inverse", long_one, {{"decay_floor", "0.5"}, {"window", 16L}}, nothing, ""},
      {"falcon3",
       "tensor_inverse",
       long_one,
       {{"decay_floor", "0.5"}, {"window", 17L}},
       nothing,
       "a window is part of one system, of 16 pairs at most: got 17"},
      {"falcon3",
       "tensor_inverse",
       long_one,
       {{"decay_floor", "0.5"}},
       nothing,
       "a window is part of one system, of 16 pairs at most: got 128"},
      {"falcon3", "tensor_inverse", long_one, {{"window", 16L}}, nothing, no_floor},
      {"falcon2_lite", "renormalized", long_one, {{"decay_floor", "0.5"}}, nothing, ""},
      {"falcon2_lite", "renormalized", long_one, {}, nothing, no_floor},
      {"mdn", "log_domain", long_one, {}, [](Problem& p) { with_gate(p, nullptr, 0); }, ""},
      {"mdn", "log_domain", long_one, {}, [](Problem& p) { with_gate(p, "beta", 0); }, "beta[3]"},
      {"mdn", "log_domain", long_one, {}, [](Problem& p) { with_gate(p, "beta", -1); }, "beta[3]"},
      {"mdn", "log_domain", long_one, {}, [](Problem& p) { with_gate(p, "log_alpha", -infinity); }, "log_alpha[3]"},
      {"mdn", "log_domain", long_one, {}, [](Problem& p) { with_gate(p, "log_mu", -infinity); }, "log_mu[3]"},
      {"mdn", "chunkwise", long_one, {}, [](Problem& p) { with_gate(p, "log_mu", -infinity); }, ""},
  };
  return all;
}
TEST(Obstacles, are_said_in_one_sentence) {
  for (const Obstacle& o : obstacles()) {
    const Subject s = subject(kernel_rooms(), o.room, o.form);
    Problem p = s.room.make({std::string(o.room), o.shape, Format::fp32, Style::normal, 3, o.params});
    o.change(p);
    const std::string said = s.form.obstacle(p);
    EXPECT_TRUE(said.starts_with(o.says) && said.empty() == o.says.empty()) << o.room << ':' << o.form << ": " << said;
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
  const Shape ragged{1, 21, 2, 1, 5, 4, 0}, one_head{1, 40, 1, 0, 5, 3, 0};
  const Params floor{{"sequence_start", false}, {"decay_floor", "0.875"}},
      window{{"window", 3L}, {"sequence_start", false}, {"decay_floor", "0.875"}};
  for (const auto& [room, form, spec, tile] :
       {Row{"mdn", "chunkwise", {"mdn", one_head, Format::fp32, Style::normal, 2, {}}, 2},
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

TEST(Units, are_what_wide_heads_need) {
  for (const char* form : {"tiled", "split_decode"})
    wide_heads_need_units(subject(kernel_rooms(), "softmax_attention", form));
  for (const char* form : {"tiled", "split_decode", "covariance"})
    wide_heads_need_units(subject(kernel_rooms(), "parallax", form));
}

}  // namespace
}  // namespace assay::laws
