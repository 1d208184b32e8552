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
#include "kernels/core/batch.hpp"

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
  drawn.params.merge(params);
  return drawn;
}
Drawn with_inputs(Drawn drawn, std::vector<std::pair<std::string, std::string>> with) {
  drawn.with = std::move(with);
  return drawn;
}

Policy policy_of(const KernelForm& form, Format precision, const std::string& fault = "") {
  Policy policy = Policy::of(form.sites, precision);
  policy.fault = fault, policy.threads = 1;
  return policy;
}

/// The first so many rows of every query's tensor of a batch of one, without cotangents.
Problem first_rows(Problem problem, int rows) {
  problem.cotangents.clear();
  for (const char* name : {"q", "rho"}) {
    const auto found = problem.inputs.find(name);
    if (found == problem.inputs.end()) continue;
    Array& x = found->second;
    x.data.resize(x.data.size() / static_cast<std::size_t>(x.shape[1]) * static_cast<std::size_t>(rows));
    x.shape[1] = rows;
  }
  return problem;
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

constexpr Shape unequal = {
    .batch = 1, .seq_len = 40, .heads = 4, .shared_heads = 2, .key_dim = 16, .value_dim = 16, .query_len = 24};
constexpr Shape equal = {.batch = 1, .seq_len = 40, .heads = 2, .key_dim = 16, .value_dim = 16};

Params words_of(std::initializer_list<std::pair<const char*, const char*>> list) {
  Params params;
  for (const auto& [name, value] : list) params[name] = std::string(value);
  return params;
}

/// What every attention form takes.
std::vector<Named> shared_cases(const std::string& mechanism) {
  const Drawn base{.mechanism = mechanism, .shape = unequal};
  Drawn decode = base, window = base, open = base, same = base, empty = base, packed = base;
  decode.form = "split_decode", decode.shape.query_len = 3, decode.shape.seq_len = 300;
  window.params = {{"window_left", 6L}};
  open.params = {{"causal", false}};
  same.shape = equal, same.style = "short_documents";
  empty.style = "empty_rows", empty.params = {{"causal", false}};
  packed.shape = equal, packed.style = "short_sequences";
  std::vector<Named> cases = {
      {"cap",
       with_inputs(with_params(base, words_of({{"soft_cap", "2"}, {"lse_base", "2"}})), {{"lse", ""}}),
       {"score_times_its_tanh", "slope_of_the_cap_forgotten", "lse_off_by_ln_2", "lse_cotangent_dropped",
        "aligned_at_the_first_key"}},
      {"signed_alibi",
       with_inputs(with_params(open, words_of({{"alibi_form", "signed"}})), {{"alibi_slopes", "0.03125"}}),
       {"alibi_gradient_of_the_other_form"}},
      {"alibi_in_a_window",
       with_inputs(window, {{"alibi_slopes", ""}}),
       {"window_one_off_at_unequal_lengths", "aligned_at_the_first_key"}},
      {"bias_before_the_scale",
       with_inputs(with_params(base, words_of({{"bias_place", "before_scale"}, {"soft_cap", "2"}})), {{"bias", ""}}),
       {"bias_after_the_cap", "bias_gradient_without_scale"}},
      {"bias_before_the_cap",
       with_inputs(with_params(base, words_of({{"bias_place", "before_cap"}, {"soft_cap", "2"}})), {{"bias", ""}}),
       {"bias_after_the_cap"}},
      {"masks", with_inputs(open, {{"mask", ""}, {"bias", ""}}), {"mask_of_the_next_key"}},
      {"aligned_at_start", with_params(base, words_of({{"causal_align", "start"}, {"scale", "-0.5"}})), {}},
      {"empty_rows", empty, {"mask_of_the_next_key"}},
      {"documents", with_inputs(same, {{"lse", ""}}), {"documents_ignored", "lse_cotangent_dropped"}},
      {"packed",
       with_inputs(with_params(packed, words_of({{"soft_cap", "2"}})), {{"lse", ""}}),
       {"slope_of_the_cap_forgotten", "lse_cotangent_dropped"}},
      {"decode",
       with_params(decode, words_of({{"soft_cap", "2"}})),
       {"lse_off_by_ln_2", "score_times_its_tanh", "aligned_at_the_first_key"}},
  };
  if (mechanism != "softmax_attention")
    for (Named& named : cases)  // where the probe shows, and not a mean of many keys
      named.drawn.seed = 1;
  return cases;
}

/// And softmax attention alone.
std::vector<Named> sink_cases() {
  const Drawn base{.shape = unequal};
  Drawn decode = base, low = base, high = base, paged = base;
  decode.form = "split_decode", decode.shape.query_len = 3, decode.shape.seq_len = 300;
  low.shape = high.shape = equal, low.style = "low_lse", high.style = "high_lse";
  low.precision = high.precision = Format::fp32;
  return {
      {"sink",
       with_inputs(with_params(base, words_of({{"soft_cap", "2"}})), {{"sink", ""}, {"lse", ""}}),
       {"sink_counted_twice", "sink_in_base_e", "lse_off_by_ln_2", "lse_cotangent_dropped"}},
      {"decode_sink", with_inputs(decode, {{"sink", "3"}}), {"sink_in_every_split", "sink_in_base_e"}},
      {"low_lse", low, {"lse_off_by_ln_2"}},
      {"high_lse", high, {"lse_off_by_ln_2"}},
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
  const bool softmax = drawn.mechanism == "softmax_attention" && drawn.precision == Format::bf16;
  const bool all = GetParam().name == std::string_view("sink");
  const std::vector<const char*> contracts = all       ? std::vector{"flash_attention", "torch_sdpa", "fla"}
                                             : softmax ? std::vector{"flash_attention"}
                                                       : std::vector{name_of(drawn.precision)};
  for (const char* contract : contracts) {
    const Judged found = judged(drawn, *find_argument_kernels(drawn.mechanism), "", contract);
    EXPECT_TRUE(keeps(found)) << contract << '\n' << words(found);
  }
}
TEST_P(TilePrograms, KillTheirMutants) {
  const Drawn& drawn = GetParam().drawn;
  for (const char* mutant : GetParam().mutants) {
    const Judged found = judged(drawn, *find_argument_mutants(drawn.mechanism), mutant, name_of(drawn.precision));
    EXPECT_EQ(found.verdict, Verdict::fail) << mutant << '\n' << words(found);
  }
}
const auto called = [](const auto& instance) { return std::string(instance.param.name); };
INSTANTIATE_TEST_SUITE_P(SoftmaxAttention, TilePrograms, ::testing::ValuesIn(shared_cases("softmax_attention")),
                         called);
INSTANTIATE_TEST_SUITE_P(Sinks, TilePrograms, ::testing::ValuesIn(sink_cases()), called);
INSTANTIATE_TEST_SUITE_P(Parallax, TilePrograms, ::testing::ValuesIn(shared_cases("parallax")), called);

/// Every mutant that a form has is one that some case above kills.
TEST(TileProgramMutants, AreAllKilled) {
  for (const char* mechanism : {"softmax_attention", "parallax"}) {
    std::vector<Named> cases = shared_cases(mechanism);
    if (mechanism == std::string_view("softmax_attention"))
      for (const Named& named : sink_cases()) cases.push_back(named);
    for (const KernelForm& form : find_argument_mutants(mechanism)->forms)
      for (const Mutant& mutant : form.mutants)
        EXPECT_TRUE(std::any_of(cases.begin(), cases.end(),
                                [&](const Named& named) {
                                  return named.drawn.form == form.name &&
                                         std::find(named.mutants.begin(), named.mutants.end(), mutant.name) !=
                                             named.mutants.end();
                                }))
            << mechanism << ", " << form.name << ", " << mutant.name;
  }
}

// ---- laws, to the bit

/// What the form answers in bf16.
Answer answered(const Problem& problem, const std::string& mechanism, const char* form = "tiled") {
  const KernelForm& found = form_of(*find_argument_kernels(mechanism), form);
  return answer_of_sequences(found, problem, policy_of(found, Format::bf16), 0);
}
/// Names of tensors in which the answers differ, of those that both have.
std::string differences(const Answer& a, const Answer& b) {
  std::string names;
  const auto compare = [&](const Arrays& x, const Arrays& y, const char* prefix) {
    for (const auto& [name, array] : x)
      if (const auto other = y.find(name); other != y.end() && array.data != other->second.data)
        names += text(' ', prefix, name);
  };
  compare(a.outputs, b.outputs, ""), compare(a.gradients, b.gradients, "d_");
  return names;
}

Problem drawn_problem(const char* mechanism, Params params,
                      std::vector<std::pair<std::string, std::string>> with = {{"lse", ""}}) {
  return Drawn{.mechanism = mechanism, .shape = unequal, .params = std::move(params), .with = std::move(with)}
      .problem()
      .problem;
}

class TileLaws : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Arguments, TileLaws, ::testing::Values("softmax_attention", "parallax"),
                         [](const auto& instance) { return std::string(instance.param); });

/// Without arguments the steps are nothing: the bits are those of the room's own form.
TEST_P(TileLaws, NoArgumentIsThePlainForm) {
  Problem problem = drawn_problem(GetParam(), {});
  problem.cotangents.erase("lse");
  const KernelForm& form = find_kernels(kernel_rooms(), GetParam())->forms.front();
  Problem plain = FileCase::of(problem)->folded_doubles().problems().front();
  plain.mechanism = GetParam();
  plain.params = {{"bandwidth", std::to_string(plain.inputs.at("bandwidth").data[0])}};
  plain.inputs.erase("bandwidth");
  EXPECT_EQ(differences(form.run(plain, policy_of(form, Format::bf16), 0), answered(problem, GetParam())), "");
}
TEST_P(TileLaws, AWindowOfAllKeysIsNone) {
  for (const char* form : {"tiled", "split_decode"}) {
    Problem all = drawn_problem(GetParam(), {}), wide = drawn_problem(GetParam(), {{"window_left", 40L}});
    if (form == std::string_view("split_decode")) all = first_rows(all, 8), wide = first_rows(wide, 8);
    EXPECT_EQ(differences(answered(all, GetParam(), form), answered(wide, GetParam(), form)), "") << form;
  }
}
TEST_P(TileLaws, ACapBeyondAllScoresIsAnyOther) {
  const Answer a = answered(drawn_problem(GetParam(), words_of({{"soft_cap", "1152921504606846976"}})), GetParam());
  const Answer b = answered(drawn_problem(GetParam(), words_of({{"soft_cap", "2305843009213693952"}})), GetParam());
  EXPECT_EQ(differences(a, b), "");
}
TEST_P(TileLaws, AMaskOfEverythingIsNone) {
  const Problem problem = drawn_problem(GetParam(), {});
  Problem masked = problem;
  masked.inputs["mask"] = Array({24, 40}, std::vector<double>(24 * 40, 1.0));
  EXPECT_EQ(differences(answered(problem, GetParam()), answered(masked, GetParam())), "");
}
TEST_P(TileLaws, OneDocumentIsNone) {
  const Problem problem = drawn_problem(GetParam(), {});
  Problem marked = problem;
  marked.inputs["documents_q"] = Array({24}, std::vector<double>(24, 7.0));
  marked.inputs["documents_k"] = Array({40}, std::vector<double>(40, 7.0));
  EXPECT_EQ(differences(answered(problem, GetParam()), answered(marked, GetParam())), "");
}
TEST_P(TileLaws, SignedSlopesAreDistancesWhereNobodyLooksAhead) {
  const Answer a = answered(drawn_problem(GetParam(), {}, {{"alibi_slopes", ""}}), GetParam());
  const Answer b =
      answered(drawn_problem(GetParam(), words_of({{"alibi_form", "signed"}}), {{"alibi_slopes", ""}}), GetParam());
  EXPECT_EQ(differences(a, b), "");
}

TEST(TileLawsOfSinks, ASinkOfMinusInfinityIsNone) {
  for (const char* form : {"tiled", "split_decode"}) {
    Problem with = drawn_problem("softmax_attention", {}, {{"sink", ""}});
    if (form == std::string_view("split_decode")) with = first_rows(with, 8);
    Problem without = with;
    without.inputs.erase("sink");
    with.inputs.at("sink").data.assign(4, -INFINITY);
    EXPECT_EQ(differences(answered(with, "softmax_attention", form), answered(without, "softmax_attention", form)), "");
    // And of one head alone.
    Problem some = with;
    some.inputs.at("sink").data = {-INFINITY, 1, 2, 3};
    const Array a = answered(some, "softmax_attention", form).outputs.at("o"),
                b = answered(without, "softmax_attention", form).outputs.at("o");
    EXPECT_TRUE(
        std::equal(a.data.begin(), a.data.begin() + static_cast<std::ptrdiff_t>(a.data.size() / 4), b.data.begin()));
  }
}

/// Sequences in a pack, in one launch each, and one by one.
TEST_P(TileLaws, PackedSequencesAreSeparateCalls) {
  const Problem packed = Drawn{.mechanism = GetParam(),
                               .shape = equal,
                               .params = words_of({{"soft_cap", "2"}}),
                               .with = {{"cu_seqlens", "0,0,1,18,18,40"}, {"alibi_slopes", ""}, {"lse", ""}}}
                             .problem()
                             .problem;
  const Answer whole = answered(packed, GetParam());
  const KernelForm& form = form_of(*find_argument_kernels(GetParam()), "tiled");
  const auto& sequences = FileCase::of(packed)->folded_doubles().problems();
  const std::vector<Problem> list(sequences.begin(), sequences.end());
  const Policy policy = policy_of(form, Format::bf16);
  const std::vector<Answer> together = run_packed(form, list, policy, 0);
  std::vector<double> o(whole.outputs.at("o").data.size());
  int row = 0;
  for (std::size_t n = 0; n < list.size(); ++n) {
    EXPECT_EQ(differences(form.run(list[n], policy, 0), together[n]), "") << n;
    const Array& one = together[n].outputs.at("o");
    const int rows = one.shape[1], width = one.shape[2];
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < rows * width; ++i)
        o[static_cast<std::size_t>((h * 40 + row) * width + i)] =
            one.data[static_cast<std::size_t>(h * rows * width + i)];
    row += rows;
  }
  EXPECT_EQ(o, whole.outputs.at("o").data);
}

}  // namespace
}  // namespace assay::arguments
