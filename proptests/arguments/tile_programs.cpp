// Tile programs with arguments: judged by the programs of arguments/programs, laws to the bit, and mutants.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "judge/held_out/arguments.hpp"
#include "judge/trial/published.hpp"
#include "kernels/arguments/device_forms.hpp"
#include "kernels/core/batch.hpp"
#include "proptests/arguments/tile_cases.hpp"
#include "proptests/core/places.hpp"
#include "proptests/core/share.hpp"
#include "proptests/core/table.hpp"

namespace assay::arguments {
namespace {

constexpr Shape unequal = {
    .batch = 1, .seq_len = 40, .heads = 4, .shared_heads = 2, .key_dim = 16, .value_dim = 16, .query_len = 24};
constexpr Shape equal = {.batch = 1, .seq_len = 40, .heads = 2, .key_dim = 16, .value_dim = 16};

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

class TilePrograms : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Arguments, TilePrograms,
                         ::testing::Values("softmax_attention", "parallax", "deltanet", "gated_deltanet", "comba",
                                           "linear_attention", "retnet", "mamba2", "gla", "kda"),
                         [](const auto& instance) { return std::string(instance.param); });

const KernelRoom& held_out_of(std::string_view mechanism) {
  return *held_out_with_arguments(text(mechanism, room_suffix));
}
/// With the faults of its tile programs and of what calls them for every sequence.
const KernelRoom& planted_of(std::string_view mechanism) { return *find_argument_forms(text(mechanism, room_suffix)); }
bool has_mutant(const KernelRoom& room, std::string_view name) {
  return std::any_of(room.forms.begin(), room.forms.end(), [&](const KernelForm& form) {
    return std::any_of(form.mutants.begin(), form.mutants.end(), [&](const Mutant& m) { return m.name == name; });
  });
}

/// All cases, or with ASSAY_CASE=NAME that one.
bool is_asked_for(const ArgumentCase& one) {
  const char* name = std::getenv("ASSAY_CASE");
  return name == nullptr || one.name == name;
}

TEST_P(TilePrograms, PassUnderContracts) {
  Share sampled(7);
  while (sampled.goes_on())
    for (const ArgumentCase& one : argument_cases(GetParam())) {
      if (!is_asked_for(one) || !sampled.takes()) continue;
      const bool softmax = one.request.mechanism == "softmax_attention" && one.request.precision == Format::bf16;
      const std::vector<const char*> contracts = one.name == "sink"
                                                     ? std::vector{"flash_attention", "torch_sdpa", "fla"}
                                                 : softmax ? std::vector{"flash_attention"}
                                                           : std::vector{name_of(one.request.precision)};
      for (const char* contract : contracts) {
        const Judged found = judged(one, *tile::kernel_rooms::with_arguments(GetParam()), "", contract);
        EXPECT_TRUE(keeps(found)) << one.name << ", " << contract << '\n' << words(found);
      }
    }
}
TEST_P(TilePrograms, KillTheirMutants) {
  Share sampled(16);
  while (sampled.goes_on())
    for (const ArgumentCase& one : argument_cases(GetParam()))
      for (const std::string_view mutant : one.mutants) {
        if (!is_asked_for(one) || !sampled.takes()) continue;
        const bool is_held_out = has_mutant(held_out_of(GetParam()), mutant);
        const KernelRoom& room = is_held_out ? held_out_of(GetParam()) : planted_of(GetParam());
        if (!is_held_out && !has_mutant(room, mutant)) continue;  // of an argument that others take
        const Judged found = judged(one, room, std::string(mutant), name_of(one.request.precision));
        EXPECT_EQ(found.verdict, Verdict::fail) << one.name << ", " << mutant << '\n' << words(found);
      }
}
/// Every mutant that a form has is one that some case above kills.
TEST_P(TilePrograms, HaveNoOtherMutants) {
  const std::vector<ArgumentCase> cases = argument_cases(GetParam());
  for (const KernelRoom* room : {&planted_of(GetParam()), &held_out_of(GetParam())})
    for (const KernelForm& form : room->forms)
      for (const Mutant& mutant : form.mutants)
        EXPECT_TRUE(std::any_of(cases.begin(), cases.end(),
                                [&](const ArgumentCase& one) {
                                  return one.form == form.name && std::find(one.mutants.begin(), one.mutants.end(),
                                                                            mutant.name) != one.mutants.end();
                                }))
            << form.name << ", " << mutant.name;
}

/// A small case that has the argument, and whatever it needs beside it: requests.json. An input is drawn where no row
/// says otherwise.
CaseSpec request_with(const std::string& mechanism, const Argument& argument) {
  static const Json requests = test_table("arguments/requests.json");
  const std::string name(argument.name);
  CaseSpec request{.mechanism = mechanism, .shape = {.seq_len = 9, .heads = 2, .key_dim = 4, .value_dim = 4}};
  const Json row = requests.value(name, Json::object());
  request.params = params_from(row);
  request.layout = row.value("layout", request.layout);
  if (argument.part == Part::inputs && !row.contains("with")) request.with = {{name, ""}};
  const Json with = row.value("with", Json::object());
  for (const auto& [input, numbers] : with.items()) request.with.emplace_back(input, numbers.get<std::string>());
  return request;
}

/// Tile programs take the arguments that docs/arguments.md says.
TEST_P(TilePrograms, TakeWhatTheTableSays) {
  const Facts facts = facts_of(GetParam());
  const KernelRoom& room = *find_argument_forms(GetParam() + std::string(room_suffix));
  int taken = 0;
  for (const Argument& argument : all_arguments()) {
    if (!why_not(facts, argument).empty()) continue;
    const ProblemFile file = read_problem(draw_case(request_with(GetParam(), argument), "test"), "case");
    ASSERT_FALSE(file.refusal) << argument.name << ": " << file.refusal->message;
    const std::string name(argument.name);
    const bool has = argument.part == Part::params   ? file.problem.params.contains(name)
                     : argument.part == Part::inputs ? file.problem.inputs.contains(name)
                                                     : file.problem.cotangents.contains(name);
    EXPECT_TRUE(has) << argument.name;
    EXPECT_EQ(room.forms.front().obstacle(file.problem), "") << argument.name;
    ++taken;
  }
  EXPECT_GE(taken, 9);
}
/// And its launches on the device: rooms of kernels/arguments/*.cu.
TEST_P(TilePrograms, HaveLaunchesOnTheDevice) {
  std::ifstream header(source_dir() + "/kernels/arguments/gpu_rooms.hpp");
  const std::string text{std::istreambuf_iterator<char>(header), {}};
  EXPECT_NE(text.find("&gpu::" + std::string(GetParam()) + "_with_arguments"), std::string::npos);
  EXPECT_TRUE(std::any_of(std::begin(device_forms), std::end(device_forms),
                          [&](const DeviceForm& form) { return form.mechanism == GetParam(); }));
}
/// The record of devices has a line for every form of the registry and for no other: its launches' where there are any.
TEST_P(TilePrograms, AreInTheRecordOfDevices) {
  std::ifstream page(source_dir() + "/records/argument-kernels.md");
  std::map<std::string, std::set<std::string>> lines;  // form: what follows it
  for (std::string line; std::getline(page, line);) {
    std::istringstream words(line);
    std::string bar, mechanism, form, what;
    if (words >> bar >> mechanism >> bar >> form >> bar && mechanism == GetParam()) {
      std::getline(words >> std::ws, what, '|');
      lines[form].insert(what);
    }
  }
  const std::span<const KernelForm> forms = tile::kernel_rooms::with_arguments(GetParam())->forms;
  EXPECT_EQ(lines.size(), forms.size());
  for (const KernelForm& form : forms) {
    const bool has_launches = std::any_of(std::begin(device_forms), std::end(device_forms), [&](const DeviceForm& d) {
      return d.mechanism == GetParam() && d.form == form.name;
    });
    const std::set<std::string>& found = lines[std::string(form.name)];
    EXPECT_FALSE(found.empty()) << form.name;
    EXPECT_EQ(found.contains("no launches on a device "), !has_launches) << form.name;
  }
}

constexpr const char* mechanisms_with_tiles[] = {"softmax_attention",
                                                 "parallax",
                                                 "deltanet",
                                                 "gated_deltanet",
                                                 "comba",
                                                 "linear_attention",
                                                 "retnet",
                                                 "mamba2",
                                                 "gla",
                                                 "kda"};

/// The faults that are planted in tile programs with arguments and in their callers, by name.
TEST(ArgumentFaults, AThirdOfThemIsHeldOut) {
  std::set<std::string_view> planted, held_out;
  for (const char* mechanism : mechanisms_with_tiles) {
    for (const KernelForm& form : planted_of(mechanism).forms)
      for (const Mutant& mutant : form.mutants) planted.insert(mutant.name);
    for (const KernelForm& form : held_out_of(mechanism).forms)
      for (const Mutant& mutant : form.mutants) held_out.insert(mutant.name);
  }
  for (const std::string_view name : held_out) EXPECT_FALSE(planted.contains(name)) << name;
  EXPECT_GE(3 * held_out.size(), planted.size() + held_out.size()) << planted.size() << " and " << held_out.size();
}
/// Two mutants at least are killed on cases with it.
TEST(ArgumentFaults, EveryArgumentIsInCasesThatKillTwo) {
  std::map<std::string, std::set<std::string_view>> killed;
  for (const char* mechanism : mechanisms_with_tiles)
    for (const ArgumentCase& one : argument_cases(mechanism)) {
      const Problem problem = read_problem(draw_case(one.request, "test"), "case").problem;
      for (const Argument& argument : all_arguments()) {
        const std::string name(argument.name);
        const bool has = argument.part == Part::params   ? problem.params.contains(name)
                         : argument.part == Part::inputs ? problem.inputs.contains(name)
                                                         : problem.cotangents.contains(name);
        if (has) killed[name].insert(one.mutants.begin(), one.mutants.end());
      }
    }
  for (const Argument& argument : all_arguments())
    EXPECT_GE(killed[std::string(argument.name)].size(), 2U) << argument.name;
}

// ---- published threads

/// The case of each lists the fault, so that it is killed above, and docs/published-bugs.md has the thread.
TEST(PublishedThreads, HaveCasesThatShowThem) {
  std::ifstream page(source_dir() + "/docs/published-bugs.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  int planted = 0;
  for (const PublishedThread& thread : published_threads()) {
    EXPECT_NE(text.find(thread.thread), std::string::npos) << thread.thread;
    if (thread.mutant.empty()) continue;
    const std::vector<ArgumentCase> cases = argument_cases(thread.mechanism);
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const ArgumentCase& one) {
      return one.name == thread.case_name &&
             std::find(one.mutants.begin(), one.mutants.end(), thread.mutant) != one.mutants.end();
    })) << thread.thread;
    ++planted;
  }
  EXPECT_GE(planted, 36);
}
TEST(PublishedThreads, AreFound) {
  Share sampled(20);
  while (sampled.goes_on()) {
    std::vector<std::string> names;
    for (const PublishedThread& thread : published_threads())
      if (!thread.mutant.empty() && sampled.takes()) names.emplace_back(thread.thread);
    for (const PublishedTrial& trial : try_published(names, 1, [](std::size_t, std::string_view) {})) {
      EXPECT_TRUE(passes(trial.healthy)) << trial.thread->thread << '\n' << trial.command;
      EXPECT_EQ(trial.planted, Verdict::fail) << trial.thread->thread << '\n' << trial.command;
      EXPECT_NE(trial.reason, "") << trial.thread->thread;
    }
  }
  EXPECT_THROW(try_published({"FA#1"}, 1, [](std::size_t, std::string_view) {}), InputError);
}

// ---- laws, to the bit

/// The form's answer in bf16.
Answer answered(const Problem& problem, const std::string& mechanism, const char* form = "tiled") {
  const KernelForm& found = form_of(*tile::kernel_rooms::with_arguments(mechanism), form);
  return answer_of_sequences(found, problem, policy_of(found, Format::bf16), 0);
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
/// A bound of the scores, by the lengths of their vectors.
double largest_score(const Problem& problem) {
  const Problem own = FileCase::of(problem)->folded_doubles().problems().front();
  const auto longest = [&](const char* name) {
    const Array& x = own.inputs.at(name);
    const auto K = static_cast<std::size_t>(x.shape.back());
    double most = 0, squares = 0;
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      squares = i % K == 0 ? 0 : squares;
      squares += x.data[i] * x.data[i];
      most = std::max(most, squares);
    }
    return std::sqrt(most);
  };
  return longest("q") * longest("k") / own.inputs.at("bandwidth").data[0];
}
/// And no cap at all, but for roundings of fp32, u each, of what both sides compute of the same products. A score is
/// rounded once without a cap, with the factor log2(e) / h, and four times with one: 1 / h, t, tanh(t / c) and the
/// product with log2(e); c is a power of two, and what tanh bends is 2^-120 of a score. An lse moves by no more than
/// its scores do. Then each side rounds the weights, their rescaling and the sum of 40 weights, which move a logarithm
/// by u each, and lse three times: in base 2, ln 2 and their product.
TEST_P(TileLaws, ACapBeyondAllScoresIsNone) {
  const Problem problem = drawn_problem(GetParam(), {});
  const Answer capped =
      answered(drawn_problem(GetParam(), words_of({{"soft_cap", "1152921504606846976"}})), GetParam());
  const Answer plain = answered(problem, GetParam());
  const std::vector<double>&a = capped.outputs.at("lse").data, &b = plain.outputs.at("lse").data;
  const double u = unit_roundoff(Format::fp32), of_scores = (1 + 4) * largest_score(problem);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], u * (of_scores + 2 * (40 + 2 + 3 * std::fabs(b[i])))) << i;
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
  const KernelForm& form = form_of(*tile::kernel_rooms::with_arguments(GetParam()), "tiled");
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

class RecurrentTileLaws : public ::testing::TestWithParam<const char*> {
 protected:
  Answer chunkwise(const Problem& problem) const { return answered(problem, GetParam(), "chunkwise"); }
  Problem drawn(Params params, std::vector<std::pair<std::string, std::string>> with = {}) const {
    return Drawn{.mechanism = GetParam(),
                 .form = "chunkwise",
                 .shape = equal,
                 .params = std::move(params),
                 .with = std::move(with)}
        .problem()
        .problem;
  }
};
INSTANTIATE_TEST_SUITE_P(Arguments, RecurrentTileLaws,
                         ::testing::Values("deltanet", "gated_deltanet", "comba", "linear_attention", "retnet",
                                           "mamba2", "gla", "kda"),
                         [](const auto& instance) { return std::string(instance.param); });

/// [..][A][B] as [..][B][A].
Array transposed(const Array& x) {
  const std::size_t rank = x.shape.size(), a = static_cast<std::size_t>(x.shape[rank - 2]),
                    b = static_cast<std::size_t>(x.shape[rank - 1]);
  Array y = x;
  std::swap(y.shape[rank - 2], y.shape[rank - 1]);
  for (std::size_t i = 0; i < x.data.size(); ++i)
    y.data[i / (a * b) * (a * b) + i % b * a + i % (a * b) / b] = x.data[i];
  return y;
}

TEST_P(RecurrentTileLaws, StatesWithValuesFirstAreTransposed) {
  Problem k_first = drawn({{"state_every", 8L}}, {{"state_at", "3,30"}});
  Problem v_first = k_first;
  v_first.params["state_layout"] = std::string("v_first");
  for (Arrays* arrays : {&v_first.inputs, &v_first.cotangents})
    for (auto& [name, array] : *arrays)
      if (name.ends_with("_state") || name.ends_with("states") || name == "states_at")
        if (array.shape.size() > 2) array = transposed(array);
  const Answer a = chunkwise(k_first), b = chunkwise(v_first);
  // The judge's tensors have blocks of states in one axis: K and V are equal here, and so is every shape.
  for (const auto& [name, array] : a.outputs) {
    const bool is_state = name != "o";
    EXPECT_EQ(
        is_state ? transposed(Array({static_cast<int>(array.data.size() / 256), 16, 16}, array.data)).data : array.data,
        b.outputs.at(name).data)
        << name;
  }
  for (const auto& [name, array] : a.gradients) {
    const bool is_state = name == "initial_state";
    EXPECT_EQ(
        is_state ? transposed(Array({static_cast<int>(array.data.size() / 256), 16, 16}, array.data)).data : array.data,
        b.gradients.at(name).data)
        << name;
  }
}
/// A state before token 16 is what a call of 16 tokens leaves.
TEST_P(RecurrentTileLaws, StatesInsideAreFinalStatesOfShorterCalls) {
  const Problem whole = drawn({{"state_every", 16L}});
  Problem first = whole;
  first.params.erase("state_every"), first.cotangents.clear();
  first.inputs["cu_seqlens"] = Array({2}, {0, 16});
  Problem inside = whole;
  inside.cotangents.clear();
  const std::vector<double> states = chunkwise(inside).outputs.at("chunk_states").data,
                            left = chunkwise(first).outputs.at("final_state").data;
  const auto one = static_cast<std::ptrdiff_t>(left.size());
  ASSERT_EQ(states.size(), 3 * left.size());
  EXPECT_TRUE(std::equal(left.begin(), left.end(), states.begin() + one));
}

}  // namespace
}  // namespace assay::arguments
