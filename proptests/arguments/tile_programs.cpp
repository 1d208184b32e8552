// Tile programs with arguments: judged by the programs of arguments/programs, laws to the bit, and mutants.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "arguments/drawn_case.hpp"
#include "arguments/file_case.hpp"
#include "judge/court/argument_form.hpp"
#include "judge/court/cache.hpp"
#include "judge/held_out/arguments.hpp"
#include "judge/trial/argument_trial.hpp"
#include "judge/trial/published.hpp"
#include "kernels/arguments/device_forms.hpp"
#include "kernels/arguments/rooms.hpp"
#include "kernels/core/batch.hpp"
#include "kernels/gpu/argument_rooms.hpp"
#include "proptests/core/places.hpp"
#include "proptests/core/share.hpp"
#include "proptests/core/table.hpp"
#include "tools/gpu/argument_cases.hpp"

namespace assay::arguments {
namespace {

using With = std::vector<std::pair<std::string, std::string>>;

constexpr Shape unequal = {
    .batch = 1, .seq_len = 40, .heads = 4, .shared_heads = 2, .key_dim = 16, .value_dim = 16, .query_len = 24};
constexpr Shape equal = {.batch = 1, .seq_len = 40, .heads = 2, .key_dim = 16, .value_dim = 16};
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

class TilePrograms : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Arguments, TilePrograms, ::testing::ValuesIn(mechanisms_with_tiles),
                         [](const auto& instance) { return std::string(instance.param); });

/// Truth and sigma of a case, for all its mutants: a folder of this process, gone with it.
Cache& kept_by_tests() {
  struct Kept {
    std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("assay_tile_cases_" + std::to_string(getpid()));
    Cache cache{folder};
    Kept() = default;
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    ~Kept() {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
  };
  static Kept kept;
  return kept.cache;
}
/// The verdict on a form's own answer, by that contract.
Judged judged(const ArgumentCase& one, const KernelRoom& room, const std::string& fault, const std::string& contract) {
  return judged_answer(one, room, fault, contract, &kept_by_tests());
}
std::string words(const Judged& judged) {
  std::string all = judged.reason;
  for (const ReportRow& row : judged.rows)
    all += assay::text(row.tensor, ": ", name_of(row.judgement.verdict), ' ', row.judgement.reason, " (", row.evidence,
                       ")\n");
  return all;
}
/// A tensor of four numbers may be too small for anything to be seen in it. In fp64 the oracle may not be sharp enough
/// for one of which closed gates leave next to nothing.
bool keeps(const Judged& judged, bool in_fp64 = false) {
  return !judged.rows.empty() && std::all_of(judged.rows.begin(), judged.rows.end(), [&](const ReportRow& row) {
    const Verdict verdict = row.judgement.verdict;
    return passes(verdict) || verdict == Verdict::vacuous || (in_fp64 && verdict == Verdict::undecided);
  });
}

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

/// Whether a mutant is to be killed on the case.
bool shows(const ArgumentCase& one, std::string_view mutant) {
  return std::find(one.mutants.begin(), one.mutants.end(), mutant) != one.mutants.end();
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
/// Next to nothing is rounded: whatever is wrong in a formula shows, however small. So every identity that the
/// mathematics has, between arguments, heads, sequences and calls, is theirs.
TEST_P(TilePrograms, AreTheTruthInFp64) {
  Share sampled(12);
  while (sampled.goes_on())
    for (ArgumentCase one : argument_cases(GetParam())) {
      if (!is_asked_for(one) || !sampled.takes()) continue;
      one.request.precision = Format::fp64;
      const Judged found = judged(one, *tile::kernel_rooms::with_arguments(GetParam()), "", "fp64");
      EXPECT_TRUE(keeps(found, true)) << one.name << '\n' << words(found);
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
        EXPECT_TRUE(
            std::any_of(cases.begin(), cases.end(),
                        [&](const ArgumentCase& one) { return one.form == form.name && shows(one, mutant.name); }))
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

bool has(const Problem& problem, const Argument& argument) {
  const std::string name(argument.name);
  return argument.part == Part::params   ? problem.params.contains(name)
         : argument.part == Part::inputs ? problem.inputs.contains(name)
                                         : problem.cotangents.contains(name);
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
    EXPECT_TRUE(has(file.problem, argument)) << argument.name;
    EXPECT_EQ(room.forms.front().obstacle(file.problem), "") << argument.name;
    ++taken;
  }
  EXPECT_GE(taken, 9);
}
/// And its launches on a GPU are those of device_forms, and take heads as wide as it says and no wider.
TEST_P(TilePrograms, HaveLaunchesOnTheDevice) {
  const std::string mechanism(GetParam());
  const auto* const room = std::find_if(std::begin(gpu_argument_rooms), std::end(gpu_argument_rooms),
                                        [&](const GpuRoom* r) { return r->name == mechanism + "+arguments"; });
  ASSERT_NE(room, std::end(gpu_argument_rooms));
  std::size_t launches = 0;
  for (const DeviceForm& listed : device_forms) {
    if (listed.mechanism != mechanism) continue;
    const auto form = std::find_if((*room)->forms.begin(), (*room)->forms.end(),
                                   [&](const GpuForm& f) { return f.name == listed.form; });
    ASSERT_NE(form, (*room)->forms.end()) << listed.form;
    ++launches;
    for (const bool forward : {false, true})
      for (const int more : {0, 8}) {
        const int d = (forward ? listed.widest_forward : listed.widest) + more;
        if (!forward && listed.widest == 0) continue;
        Problem problem = device_cases::cases(mechanism, {1, 1, d, d}).front().problem;
        if (forward && listed.widest != listed.widest_forward) problem.cotangents.clear();
        EXPECT_EQ(form->obstacle(problem, Format::bf16).empty(), more == 0) << listed.form << " of " << d;
      }
  }
  EXPECT_EQ(launches, (*room)->forms.size());
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
      for (const Argument& argument : all_arguments())
        if (has(problem, argument)) killed[std::string(argument.name)].insert(one.mutants.begin(), one.mutants.end());
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
      return one.name == thread.case_name && shows(one, thread.mutant);
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

Policy policy_of(const KernelForm& form) {
  Policy policy = Policy::of(form.sites, Format::bf16);
  policy.threads = 1;
  return policy;
}
const KernelForm& form_of(std::string_view mechanism, std::string_view name) {
  const auto& forms = tile::kernel_rooms::with_arguments(mechanism)->forms;
  return *std::find_if(forms.begin(), forms.end(), [&](const KernelForm& form) { return form.name == name; });
}
/// The form's answer in bf16.
Answer answered(const Problem& problem, std::string_view mechanism, const char* form = "tiled") {
  const KernelForm& found = form_of(mechanism, form);
  return answer_of_sequences(found, problem, policy_of(found), 0);
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
Problem drawn_problem(const char* mechanism, Params params, With with = {{"lse", ""}}, const Shape& shape = unequal) {
  const CaseSpec request{.mechanism = mechanism, .shape = shape, .params = std::move(params), .with = std::move(with)};
  return read_problem(draw_case(request, "test"), "case").problem;
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
  EXPECT_EQ(differences(form.run(plain, policy_of(form), 0), answered(problem, GetParam())), "");
}

/// One problem in two spellings, at the ends of arguments, which no case draws.
struct Spellings {
  const char* what;
  Params params;
  With with;
  void (*one)(Problem&);
  void (*other)(Problem&);
  bool decodes = false;  ///< in split_decode as well
};
void as_drawn(Problem&) {}
const std::vector<Spellings>& spellings() {
  static const With lse = {{"lse", ""}};
  static const std::vector<Spellings> all = {
      {"a window of all keys", {}, lse, as_drawn, [](Problem& p) { p.params["window_left"] = 40L; }, true},
      {"a window that counts its own key",
       {{"window", 5L}},
       lse,
       as_drawn,
       [](Problem& p) { p.params.erase("window"), p.params["window_left"] = 4L; }},
      {"causal", {}, lse, as_drawn, [](Problem& p) { p.params["causal"] = false, p.params["window_right"] = 0L; }},
      {"caps beyond all scores",
       {{"soft_cap", std::string("1152921504606846976")}},
       lse,
       as_drawn,
       [](Problem& p) { p.params["soft_cap"] = std::string("2305843009213693952"); }},
      {"a mask of everything",
       {},
       lse,
       as_drawn,
       [](Problem& p) {
         p.inputs["mask"] = Array({24, 40}, std::vector<double>(24 * 40, 1.0));
       }},
      {"one document",
       {},
       lse,
       as_drawn,
       [](Problem& p) {
         p.inputs["documents_q"] = Array({24}, std::vector<double>(24, 7.0));
         p.inputs["documents_k"] = Array({40}, std::vector<double>(40, 7.0));
       }},
      {"signed slopes where nobody looks ahead",
       {},
       {{"alibi_slopes", ""}},
       as_drawn,
       [](Problem& p) { p.params["alibi_form"] = std::string("signed"); }},
      {"sinks of minus infinity",
       {},
       {{"sink", ""}},
       [](Problem& p) { p.inputs.erase("sink"); },
       [](Problem& p) { p.inputs.at("sink").data.assign(4, -INFINITY); },
       true},
  };
  return all;
}
TEST_P(TileLaws, SpellingsOfOneProblemHaveTheSameBits) {
  const std::string_view mechanism = GetParam();
  for (const Spellings& s : spellings())
    for (const char* form : {"tiled", "split_decode"}) {
      const bool is_tiled = form == std::string_view("tiled"), has_sink = s.with.front().first == "sink";
      if ((has_sink && mechanism != "softmax_attention") || (!is_tiled && !s.decodes)) continue;
      Problem one = drawn_problem(GetParam(), s.params, s.with);
      if (!is_tiled) one = first_rows(std::move(one), 8);
      Problem other = one;
      s.one(one), s.other(other);
      EXPECT_EQ(differences(answered(one, mechanism, form), answered(other, mechanism, form)), "")
          << s.what << ", " << form;
    }
  const Problem shorter = drawn_problem(GetParam(), {{"window", 5L}}),
                longer = drawn_problem(GetParam(), {{"window_left", 5L}});
  EXPECT_NE(differences(answered(shorter, mechanism), answered(longer, mechanism)), "");
}

/// Sequences in a pack, in one launch each, and one by one.
TEST_P(TileLaws, PackedSequencesAreSeparateCalls) {
  const Problem packed = drawn_problem(GetParam(), {{"soft_cap", std::string("2")}},
                                       {{"cu_seqlens", "0,0,1,18,18,40"}, {"alibi_slopes", ""}, {"lse", ""}}, equal);
  const Answer whole = answered(packed, GetParam());
  const KernelForm& form = form_of(GetParam(), "tiled");
  const auto& sequences = FileCase::of(packed)->folded_doubles().problems();
  const std::vector<Problem> list(sequences.begin(), sequences.end());
  const Policy policy = policy_of(form);
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
