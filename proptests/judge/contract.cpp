// Contracts: those of precisions change no bit, files say what they mean (proptests/transcripts/contract.md has how
// they are refused), and a state in bf16 is allowed by the contracts that say so alone.
#include "judge/contract/contract.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "judge/sigma/expected.hpp"
#include "judge/verdict/judge.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/table.hpp"
#include "proptests/judge/cases.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

std::vector<const KernelForm*> all_forms() {
  std::vector<const KernelForm*> forms;
  for (const KernelRoom* room : kernel_rooms())
    for (const KernelForm& form : room->forms) forms.push_back(&form);
  return forms;
}

/// A contract on top of another one, with these entries.
Contract based_on(const std::string& base, const std::string& entries) {
  return parse_contract(R"({"name": "x", "base": ")" + base + "\", " + entries + "}", "x.json");
}

void expect_equal(const Policy& got, const Policy& want) {
  ASSERT_EQ(got.sites.size, want.sites.size);
  for (int i = 0; i < want.sites.size; ++i) {
    EXPECT_EQ(got.sites.entries[i].view(), want.sites.entries[i].view());
    EXPECT_EQ(got.sites.entries[i].format, want.sites.entries[i].format) << want.sites.entries[i].view();
  }
  EXPECT_EQ(got.rounding, want.rounding);
  EXPECT_EQ(got.products, want.products);
  EXPECT_EQ(got.seed, want.seed);
}

TEST(Contract, of_a_precision_is_its_policy) {
  for (const Format precision : all_formats) {
    if (precision == Format::exact) continue;
    const Contract* contract = find_contract(name_of(precision));
    ASSERT_NE(contract, nullptr) << name_of(precision);
    EXPECT_TRUE(contract->plain());
    for (const KernelForm* form : all_forms())
      expect_equal(contract->policy(form->sites), Policy::of(form->sites, precision));
  }
}

TEST(Contract, names_fit_the_kernels_they_are_about) {
  for (const KernelForm* form : all_forms()) {
    const bool scores = form->sites.find("m") >= 0;  // a running maximum
    const Contract &state = *find_contract("bf16_state"), &flash = *find_contract("flash_attention");
    EXPECT_NE(state.obstacle(form->sites).empty(), scores) << form->summary;
    if (scores) continue;
    EXPECT_EQ(state.policy(form->sites).sites.at("S"), Format::bf16) << form->summary;
    EXPECT_FALSE(flash.obstacle(form->sites).empty()) << form->summary;
  }
  // FlashAttention rounds as the contract of bf16 says of the same tile program.
  for (const KernelForm& form : find_kernels(kernel_rooms(), "softmax_attention")->forms)
    expect_equal(find_contract("flash_attention")->policy(form.sites), Policy::of(form.sites, Format::bf16));
}

TEST(Contract, gives_sites_the_formats_of_the_table) {
  const Json rows = test_table("judge/contracts.json");
  for (const Json& row : rows) {
    SCOPED_TRACE(row.dump());
    const Json& named = row.at("contract");
    const Contract contract =
        named.is_object() ? parse_contract(named.dump(), "x.json") : contract_from(named.get<std::string>());
    const Policy policy = contract.policy(first_form(row.at("mechanism").get<std::string>()).sites);
    for (const auto& [sites, format] : row.at("formats").items()) {
      std::istringstream words(sites);
      for (std::string site; words >> site;)
        EXPECT_EQ(name_of(policy.sites.at(site)), format.get<std::string>()) << site;
    }
  }
}

TEST(Contract, follows_the_precision_of_a_case) {
  const tile::SiteTable &delta = first_form("gated_deltanet").sites, &softmax = first_form("softmax_attention").sites;
  const Contract& fla = *find_contract("fla");
  EXPECT_EQ(fla.in(Format::fp16).name, "fla");
  for (const Format as_it_stands : {Format::bf16, Format::e4m3})
    expect_equal(fla.in(as_it_stands).policy(delta), fla.policy(delta));
  expect_equal(find_contract("flash_attention")->in(Format::fp16).policy(softmax), Policy::of(softmax, Format::fp16));
  // The rules of a file are meant as they stand, whatever it is based on; and a name may say bf16.
  const Contract mine = based_on("fla", R"("sites": {"U": "bf16"})").in(Format::fp16);
  EXPECT_EQ(mine.policy(delta).sites.at("U"), Format::bf16);
  EXPECT_EQ(mine.policy(delta).sites.at("W"), Format::fp16);
  EXPECT_EQ(find_contract("bf16_state")->in(Format::fp16).precision, Format::bf16);
}

TEST(Contract, may_be_asked_for_in_a_precision) {
  const tile::SiteTable& delta = first_form("gated_deltanet").sites;
  for (const auto& [name, precision] : {std::pair("fla/bf16", Format::bf16), std::pair("fla/fp16", Format::fp16),
                                        std::pair("fla/fp32", Format::tf32)}) {
    const Contract contract = contract_from(name);
    EXPECT_EQ(contract.name, name);
    EXPECT_EQ(contract.precision, precision);
    expect_equal(contract.policy(delta), find_contract("fla")->in(precision).policy(delta));
    expect_equal(contract.in(Format::bf16).policy(delta), contract.policy(delta));
  }
  EXPECT_EQ(contract_from("torch_sdpa/fp32").precision, Format::fp32);
  for (const char* none : {"flash_attention/fp32", "fla/tf32", "bf16_state/fp16"})
    EXPECT_THROW(contract_from(none), InputError) << none;
}

/// How often sigma of one tensor is larger under another contract, in the median.
double wider(const Problem& problem, const std::string& tensor, const Contract& contract, const Contract& than) {
  const Oracle oracle = oracle_of(listed_room(problem.mechanism), problem);
  const auto sigmas = [&](const Contract& c) {
    const KernelUnderTest kernel{&first_form(problem.mechanism), c.precision, 0, 1, &c};
    for (auto& [name, e] : expect(oracle, kernel, problem, default_draws).tensors)
      if (name == tensor) return e.sigma;
    return std::vector<double>();
  };
  const std::vector<double> a = sigmas(contract), b = sigmas(than);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (b[i] > 0) ratios.push_back(a[i] / b[i]);
  if (ratios.empty()) return 0;
  const auto median = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), median, ratios.end());
  return *median;
}

TEST(Contract, allows_what_is_cut_off_and_no_more) {
  const Problem problem = drawn({"softmax_attention", {1, 24, 2, 0, 16, 16, 0}, Format::fp32});
  const Contract cut = based_on("tf32", R"("rounding": {"operands": "toward_zero"})");
  const Contract& nearest = *find_contract("tf32");
  EXPECT_FALSE(cut.plain());
  EXPECT_EQ(cut.clauses(), (std::vector<std::string>{"operands may be cut off"}));
  const KernelForm& form = first_form("softmax_attention");
  Policy policy = Policy::of(form.sites, Format::tf32);
  policy.rounding = Rounding::toward_zero;
  const Answer got = form.run(problem, policy, 0);
  const auto failing = [&](const Contract& contract) {
    const Expectation expectation = expected_on(problem, {&form, Format::tf32, 0, 1, &contract});
    return failures(judged_tensors(expectation, got));
  };
  EXPECT_GT(failing(nearest), 0);
  EXPECT_EQ(failing(cut), 0);
  EXPECT_LT(wider(problem, "o", cut, nearest), 4);
  // And a base's mode is taken back.
  const Contract back = based_on("fla/fp32", R"("rounding": {"operands": "nearest_even"})");
  EXPECT_TRUE(back.towards_zero.empty());
  EXPECT_EQ(contract_from("fla/fp32").towards_zero, (std::vector<std::string>{"operands"}));
}

TEST(Contract, draws_factors_on_either_operand) {
  const Problem problem = drawn({"mamba2", {1, 24, 2, 0, 16, 16, 0}, Format::bf16});
  const Contract& plain = *find_contract("bf16");
  const Contract keys = based_on("bf16", R"("factors": ["k"])");
  const Contract queries = based_on("bf16", R"("factors": ["q"])");
  EXPECT_GT(wider(problem, "final_state", keys, plain), 1.1);
  EXPECT_LT(wider(problem, "final_state", keys, plain), 3);
  EXPECT_EQ(wider(problem, "final_state", queries, plain), 1);  // no query enters it
  EXPECT_GT(wider(problem, "d_initial_state", queries, plain), 1.1);
}

TEST(Contract, rounds_what_query_heads_share_for_each_of_them) {
  const auto made = [](int shared) {
    return drawn({"softmax_attention", {1, 24, 8, shared, 16, 16, 0}, Format::bf16});
  };
  const Contract parts = based_on("bf16", R"("per_query_head": true)");
  const Contract& plain = *find_contract("bf16");
  EXPECT_GT(wider(made(1), "d_v", parts, plain), 1.1);
  EXPECT_EQ(wider(made(1), "d_q", parts, plain), 1);
  EXPECT_EQ(wider(made(1), "o", parts, plain), 1);
  EXPECT_EQ(wider(made(0), "d_v", parts, plain), 1);  // heads of their own
}

/// The errors that per_query_head adds to two draws are independent: their products cancel, where equal ones add up to
/// all of the squares.
TEST(Contract, rounds_what_query_heads_share_anew_in_every_draw) {
  const Problem problem = drawn({"softmax_attention", {1, 24, 4, 1, 8, 8, 0}, Format::bf16});
  const Contract parts = based_on("bf16", R"("per_query_head": true)");
  const auto drawn = [&](const Contract& contract) {
    const KernelUnderTest kernel{&first_form("softmax_attention"), Format::bf16, 0, 1, &contract};
    KernelRuns runs;
    add_runs(runs, kernel, problem, 2);
    return runs.drawn;
  };
  const std::vector<Named<Array>> with = drawn(parts), without = drawn(*find_contract("bf16"));
  double squares = 0, products = 0;
  for (std::size_t t = 0; t < with[0].size(); ++t) {
    if (with[0][t].first != "d_v") continue;
    const auto more = [&](std::size_t k, std::size_t i) {
      return with[k][t].second.data[i] - without[k][t].second.data[i];
    };
    for (std::size_t i = 0; i < with[0][t].second.data.size(); ++i)
      squares += more(0, i) * more(0, i), products += more(0, i) * more(1, i);
  }
  EXPECT_GT(squares, 0);
  EXPECT_LT(products, squares / 2);
}

TEST(Contract, says_how_sums_may_be_made) {
  using enum Accumulation;
  const tile::SiteTable& mamba = first_form("mamba2").sites;
  const auto ways = [&](const Contract& c) { return c.accumulations(mamba); };
  EXPECT_EQ(ways(*find_contract("bf16")), (std::vector{exact_blocks, cut_off, one_by_one}));
  EXPECT_EQ(ways(*find_contract("fp32")), std::vector{one_by_one});
  EXPECT_EQ(ways(*find_contract("bf16_state")), std::vector{exact_blocks});
  const Contract blocks = based_on("bf16", R"("accumulation": ["exact_blocks"])"),
                 one = based_on("bf16", R"("accumulation": ["one_by_one"])");
  EXPECT_EQ(ways(blocks), std::vector{exact_blocks});
  EXPECT_EQ(blocks.policy(mamba).products, 16);
  EXPECT_EQ(one.policy(mamba).products, 1);
  EXPECT_FALSE(blocks.plain());
  // A state that is summed token by token is what bf16 allows, and blocks alone do not.
  const Problem problem = drawn({"linear_attention", {1, 200, 2, 0, 16, 16, 0}, Format::bf16});
  EXPECT_GT(wider(problem, "final_state", *find_contract("bf16"), blocks), 1.2);
  const Contract fp32_units = based_on("bf16", R"("accumulation": ["exact_blocks", "one_by_one"])");
  const auto witnesses = [&](const Contract& contract) {
    const KernelUnderTest kernel{&first_form("linear_attention"), Format::bf16, 0, 1, &contract};
    KernelRuns runs;
    add_runs(runs, kernel, problem, 1);
    return runs.witnesses;
  };
  const auto in_blocks = witnesses(blocks), one_by_one_too = witnesses(fp32_units);
  ASSERT_EQ(in_blocks.size(), 1U);
  ASSERT_EQ(one_by_one_too.size(), 1U);
  EXPECT_NE(in_blocks[0][0].second.data, one_by_one_too[0][0].second.data);
  EXPECT_EQ(witnesses(*find_contract("bf16")).size(), 2U);
}

/// A contract of a library says where it was read: release or commit, file and lines.
TEST(Contract, names_the_sources_of_a_library) {
  const std::regex lines(
      R"((fla-core 0\.6\.0|torch 2\.\d+\.0|[\w-]+/[\w-]+@[0-9a-f]{7}) [\w/.-]+:\d+(-\d+)?(,\d+(-\d+)?)*)");
  std::vector<Contract> read = library_contracts();
  for (Contract& contract : block_contracts()) read.push_back(std::move(contract));
  for (const Contract& contract : read) {
    EXPECT_FALSE(contract.sources.empty()) << contract.name;
    for (const std::string& source : contract.sources) EXPECT_TRUE(std::regex_match(source, lines)) << source;
    EXPECT_EQ(find_contract(contract.name)->sources, contract.sources);
    EXPECT_TRUE(contract.follows) << contract.name;
  }
}

// ---- what contracts allow

/// A kernel run to nearest under one contract, `runs`, and judged by another.
struct Kept {
  std::vector<Verdict> verdicts;
  double worst_rms = 0, stall = 0;

  Kept(const Problem& problem, const std::string& runs, const std::string& judges) {
    const KernelForm& form = first_form(problem.mechanism);
    const Contract *run = find_contract(runs), *by = find_contract(judges);
    const Expectation e = expected_on(problem, {&form, by->precision, 0, 1, by});
    const Answer got = form.run(problem, KernelUnderTest{&form, run->precision, 0, 1, run}.policy(), 0);
    for (const auto& [name, expected, numbers, j] : judged_tensors(e, got)) {
      verdicts.push_back(j.verdict);
      worst_rms = std::max(worst_rms, j.rms_z / j.rms_limit), stall = std::max(stall, expected.stall);
    }
  }
  bool any(Verdict verdict) const { return std::ranges::count(verdicts, verdict) > 0; }
  bool all(Verdict verdict) const { return std::ranges::count(verdicts, verdict) == std::ssize(verdicts); }
};

/// In a delta rule, sixteen tokens to a rounding of the state are hidden by what operands lose anyhow.
TEST(Contract, decides_whether_a_state_may_be_kept_in_bf16) {
  for (const auto& [room, narrow] : {std::pair{"deltanet", "bf16_state_per_token"},
                                     {"gated_deltanet", "bf16_state_per_token"},
                                     {"mamba2", "bf16_state"}}) {
    const Problem problem = drawn_forward({room, {1, 300, 1, 0, 16, 16, 0}, Format::bf16, Style::long_memory, 3, {}});
    EXPECT_TRUE(Kept(problem, narrow, narrow).all(Verdict::pass)) << room;
    EXPECT_TRUE(Kept(problem, narrow, "bf16").any(Verdict::fail)) << room;
    EXPECT_TRUE(Kept(problem, "bf16", narrow).all(Verdict::pass)) << room;
    EXPECT_EQ(Kept(problem, narrow, narrow).stall, 0) << room;
  }
}

/// One key, one value and steps of a hundredth: the state creeps towards the value, until a step is less than half a
/// unit in its last place. There bf16 stalls for good, and random rounding goes on.
TEST(Contract, allows_the_stall_of_a_narrow_state_where_it_allows_the_state) {
  Problem problem = drawn_forward({"deltanet", {1, 1024, 1, 0, 4, 4, 0}, Format::bf16});
  for (auto& [name, array] : problem.inputs)
    for (std::size_t i = 0; i < array.data.size(); ++i)
      array.data[i] = name == "beta"               ? 0x1p-7
                      : name == "q" || name == "k" ? (i % 4 == 0 ? 1 : 0)
                      : name == "v"                ? 1 + 0x1p-5 * static_cast<double>(i % 4)
                                                   : 0;
  const Kept kept(problem, "bf16_state_per_token", "bf16_state_per_token");
  EXPECT_GT(kept.stall, 1);
  EXPECT_FALSE(kept.any(Verdict::fail)) << kept.worst_rms;
  EXPECT_TRUE(Kept(problem, "bf16_state_per_token", "bf16").all(Verdict::fail));
}

}  // namespace
}  // namespace assay
