// Tile programs with arguments: judged by the programs of arguments/programs, laws to the bit, and mutants.
#include <gtest/gtest.h>

#include <algorithm>

#include "arguments/drawn_case.hpp"
#include "arguments/file_case.hpp"
#include "arguments/file_rooms.hpp"
#include "judge/contract/contract.hpp"
#include "judge/court/argument_form.hpp"
#include "judge/court/judge_answer.hpp"
#include "kernels/arguments/rooms.hpp"
#include "proptests/tools/cli.hpp"

namespace assay::arguments {
namespace {

/// A form of a mechanism's, healthy or planted.
const KernelForm& form_of(const KernelRoom& room, std::string_view name) {
  return *std::find_if(room.forms.begin(), room.forms.end(), [&](const KernelForm& f) { return f.name == name; });
}

/// What `assay case` would write.
struct Drawn {
  std::string mechanism = "softmax_attention", form = "tiled";
  Shape shape;
  Params params = {};
  std::vector<std::pair<std::string, std::string>> with = {};
  std::string style = "normal";
  Format precision = Format::bf16;
  std::uint64_t seed = 0;

  Safetensors file() const {
    know_arguments();
    return draw_case({.mechanism = mechanism,
                      .shape = shape,
                      .precision = precision,
                      .style = style,
                      .seed = seed,
                      .params = params,
                      .with = with,
                      .cotangents = form != "split_decode"},
                     "test");
  }
  ProblemFile problem() const { return read_problem(file(), "case"); }
};

Drawn with_params(Drawn drawn, Params params) {
  drawn.params = std::move(params);
  return drawn;
}
Drawn with_inputs(Drawn drawn, std::vector<std::pair<std::string, std::string>> with) {
  drawn.with = std::move(with);
  return drawn;
}

constexpr Shape unequal = {
    .batch = 1, .seq_len = 40, .heads = 4, .shared_heads = 2, .key_dim = 16, .value_dim = 16, .query_len = 24};

Policy policy_of(const KernelForm& form, Format precision, const std::string& fault = "") {
  Policy policy = Policy::of(form.sites, precision);
  policy.fault = fault, policy.threads = 1;
  return policy;
}

/// What a kernel answers, as a file.
Safetensors answer_file(const ProblemFile& file, const Answer& answer, Format precision) {
  Safetensors stored;
  const auto put = [&](const std::string& name, const Array& array) {
    const Scattered& place = file.scattered.at(name);
    Array whole(place.shape);
    for (std::size_t i = 0; i < array.data.size(); ++i) whole.data[place.at[i]] = array.data[i];
    for (const std::size_t i : place.endless) whole.data[place.at[i]] = -INFINITY;
    const bool narrow = name == "o" || name == "d_q" || name == "d_k" || name == "d_v" || name == "d_rho";
    stored.tensors[name] = store(whole, dtype_of(narrow ? precision : Format::fp32));
  };
  for (const auto& [name, array] : answer.outputs) put(name, array);
  for (const auto& [name, array] : answer.gradients) put("d_" + name, array);
  return stored;
}

/// The verdict on a form's own answer, by that contract.
Judged judged(const Drawn& drawn, const KernelRoom& room, const std::string& fault, const std::string& contract) {
  const ProblemFile file = drawn.problem();
  const KernelForm& form = form_of(room, drawn.form);
  const Answer answer = answer_of_sequences(form, file.problem, policy_of(form, drawn.precision, fault), 0);
  return judge(drawn.file(), answer_file(file, answer, drawn.precision),
               {.contract = contract, .form = drawn.form, .threads = 1});
}

std::string words(const Judged& judged) {
  std::string all = judged.reason;
  for (const ReportRow& row : judged.rows)
    all += assay::text(row.tensor, ": ", name_of(row.judgement.verdict), ' ', row.judgement.reason, " (", row.evidence,
                       ")\n");
  return all;
}

struct Named {
  const char* name;
  Drawn drawn;
  std::vector<const char*> mutants;
  friend std::ostream& operator<<(std::ostream& os, const Named& n) { return os << n.name; }
};

std::vector<Named> all_cases() {
  const Drawn base{.shape = unequal};
  Drawn decode = base;
  decode.form = "split_decode", decode.shape.query_len = 3, decode.shape.seq_len = 600;
  return {
      {"cap_sink_lse",
       with_inputs(with_params(base, {{"soft_cap", std::string("2")}}), {{"sink", ""}, {"lse", ""}}),
       {"score_times_its_tanh", "slope_of_the_cap_forgotten", "sink_counted_twice", "sink_in_base_e", "lse_off_by_ln_2",
        "lse_cotangent_dropped", "aligned_at_the_first_key"}},
      {"signed_alibi",
       with_inputs(with_params(base, {{"alibi_form", std::string("signed")}, {"causal", false}}),
                   {{"alibi_slopes", ""}}),
       {"alibi_gradient_of_the_other_form"}},
      {"alibi_in_a_window",
       with_inputs(with_params(base, {{"window_left", 6L}}), {{"alibi_slopes", ""}}),
       {"window_one_off_at_unequal_lengths", "window_one_wider", "aligned_at_the_first_key"}},
      {"bias_before_the_scale",
       with_inputs(with_params(base, {{"bias_place", std::string("before_scale")}, {"soft_cap", std::string("2")}}),
                   {{"bias", ""}}),
       {"bias_after_the_cap", "bias_gradient_without_scale"}},
      {"bias_before_the_cap",
       with_inputs(with_params(base, {{"bias_place", std::string("before_cap")}, {"soft_cap", std::string("2")}}),
                   {{"bias", ""}}),
       {"bias_after_the_cap"}},
      {"masks", with_inputs(with_params(base, {{"causal", false}}), {{"mask", ""}, {"bias", ""}}), {}},
      {"decode_cap_sink",
       with_inputs(with_params(decode, {{"soft_cap", std::string("2")}}), {{"sink", ""}}),
       {"sink_in_every_split", "sink_in_base_e", "lse_off_by_ln_2", "score_times_its_tanh",
        "aligned_at_the_first_key"}},
  };
}

/// A tensor of four numbers may be too small for anything to be seen in it.
bool keeps(const Judged& judged) {
  return !judged.rows.empty() && std::all_of(judged.rows.begin(), judged.rows.end(), [](const ReportRow& row) {
    return row.judgement.verdict == Verdict::pass || row.judgement.verdict == Verdict::vacuous;
  });
}

class TilePrograms : public ::testing::TestWithParam<Named> {};

TEST_P(TilePrograms, PassUnderContracts) {
  const Drawn& drawn = GetParam().drawn;
  for (const char* contract : {"flash_attention", "torch_sdpa", "fla"}) {
    const Judged found = judged(drawn, *find_argument_kernels(drawn.mechanism), "", contract);
    EXPECT_TRUE(keeps(found)) << contract << '\n' << words(found);
  }
}
TEST_P(TilePrograms, KillTheirMutants) {
  const Drawn& drawn = GetParam().drawn;
  for (const char* mutant : GetParam().mutants) {
    const Judged found = judged(drawn, *find_argument_mutants(drawn.mechanism), mutant, "bf16");
    EXPECT_EQ(found.verdict, Verdict::fail) << mutant << '\n' << words(found);
  }
}
INSTANTIATE_TEST_SUITE_P(Arguments, TilePrograms, ::testing::ValuesIn(all_cases()),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace assay::arguments
