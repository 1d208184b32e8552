// What a case asks for is judged: whatever tensor of an answer is zero, another one's, misnamed or missing, it never
// passes unseen, by whatever door it comes. Those of Python are in python/tests/package/test_plugin.py.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "judge/court/cache.hpp"
#include "judge/court/case_trial.hpp"
#include "judge/court/judge_answer.hpp"
#include "judge/court/seeded_case.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/places.hpp"
#include "proptests/core/share.hpp"
#include "proptests/laws/property.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/cases/golden.hpp"
#include "tools/run/checked.hpp"

namespace assay {
namespace {

struct PosedCase {
  std::string name;
  Safetensors file;
};

/// A case of a room, plain or with arguments, with cotangents or without.
PosedCase drawn_case(const Room& room) {
  const std::string name(room.name);
  const std::vector<GoldenRequest> golden = golden_requests(name);
  const std::size_t which = *rc::gen::inRange<std::size_t>(0, 2 * golden.size() + 1);
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1000);
  if (which == 2 * golden.size()) {
    const CaseSpec spec{.mechanism = name, .shape = {2, 7, 1, 0, 4, 4, 0}, .precision = Format::fp32, .seed = seed};
    return {name, arguments::draw_case(spec, "0")};
  }
  CaseSpec request = golden[which / 2].request;
  request.cotangents = which % 2 == 0, request.seed = seed;
  return {text(name, ' ', golden[which / 2].name, request.cotangents ? "" : ", forward", ", seed ", seed),
          arguments::draw_case(request, "0")};
}

/// The answer as it is judged; nothing where it is refused.
std::optional<GivenAnswer> read_by(const CaseTrial& trial, Safetensors answer) {
  try {
    return trial.read(std::move(answer), {}, "answer");
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// Verdicts by tensor; nothing where the answer is refused.
using Verdicts = std::map<std::string, Verdict>;
Verdicts verdicts_on(const CaseTrial& trial, Safetensors answer) {
  try {
    const GivenAnswer given = trial.read(std::move(answer), {}, "answer");
    Verdicts verdicts;
    for (const ReportRow& row : trial.judge(
             given, [](const std::string&) { return true; }, ""))
      verdicts[row.tensor] = row.judgement.verdict;
    return verdicts;
  } catch (const InputError&) {
    return {};
  }
}

bool is_zero(const StoredTensor& tensor) {
  return std::all_of(tensor.bytes.begin(), tensor.bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

/// Each tensor in the place of the next one of its shape.
Safetensors exchanged(const Safetensors& right) {
  Safetensors wrong = right;
  std::map<std::vector<int>, std::vector<std::string>> alike;
  for (const auto& [name, tensor] : right.tensors) alike[tensor.shape].push_back(name);
  for (const auto& [shape, names] : alike)
    for (std::size_t i = 0; i < names.size(); ++i)
      wrong.tensors[names[i]] = right.tensors.at(names[(i + 1) % names.size()]);
  return wrong;
}

/// Does an answer damage, at the tensor of that name.
using Damage = void (*)(Safetensors& answer, const std::string& name);

void zero(Safetensors& answer, const std::string& name) {
  std::vector<std::uint8_t>& bytes = answer.tensors.at(name).bytes;
  std::fill(bytes.begin(), bytes.end(), std::uint8_t{0});
}

void leave_out(Safetensors& answer, const std::string& name) { answer.tensors.erase(name); }

void misname(Safetensors& answer, const std::string& name) {
  answer.tensors[name + "x"] = answer.tensors.at(name);
  answer.tensors.erase(name);
}

void exchange(Safetensors& answer, const std::string& name) {
  answer.tensors.at(name) = exchanged(answer).tensors.at(name);
}

/// Leaves out all gradients.
void detach(Safetensors& answer, const std::string&) {
  std::erase_if(answer.tensors, [](const auto& one) { return one.first.starts_with("d_"); });
}

constexpr std::pair<const char*, Damage> damages[] = {
    {"zero", zero}, {"missing", leave_out}, {"misnamed", misname}, {"exchanged", exchange}, {"detached", detach}};

/// What f says in refusing; "" if it does not.
template <class F>
std::string refusal_of(F f) {
  try {
    f();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}
/// An answer that is refused once the oracle was asked is refused before, with the same words, but in cases with
/// arguments and in rooms whose references answer.
void expect_refused_before(const PosedCase& posed, const CaseTrial& asked, Safetensors answer) {
  const std::string then = refusal_of([&] { asked.read(answer, {}, "answer"); });
  CaseTrial trial(posed.file, {.threads = 1}, "case");
  const std::string now = refusal_of([&] { trial.admit(answer, {}, "answer"); });
  const std::string_view room = trial.file().room->name;
  const bool is_known = !trial.file().has_arguments() && room != "lla" && !room.starts_with("falcon3");
  if (now != (is_known ? then : "")) RC_FAIL(text(posed.name, ": first: ", now, "; then: ", then));
}

void expect_seen(const PosedCase& posed, const std::filesystem::path& folder) {
  CaseTrial trial(posed.file, {.threads = 1}, "case");
  Cache cache(folder);
  trial.prepare({}, &cache);
  const auto verdicts = [&](const Safetensors& answer) {
    cache = Cache(folder);  // finds what was kept before it was made: all answers are judged by the same sigma
    return verdicts_on(trial, answer);
  };
  const Safetensors right = right_answer(posed.file);
  const Verdicts healthy = verdicts(right);
  RC_ASSERT(!healthy.empty());
  Safetensors zeros = right;
  for (const auto& [name, tensor] : right.tensors) zero(zeros, name);
  const Safetensors turned = exchanged(right);
  for (const Safetensors* wrong : {&std::as_const(zeros), &turned})
    for (const auto& [name, verdict] : verdicts(*wrong)) {
      const bool is_wrong = wrong->tensors.at(name).bytes != right.tensors.at(name).bytes;
      if (!is_wrong || healthy.at(name) != Verdict::pass || is_zero(right.tensors.at(name))) continue;
      if (verdict == Verdict::pass)
        RC_FAIL(text(posed.name, ": ", name, wrong == &zeros ? " is zero" : " is another's", " and passes"));
    }
  for (const auto& [name, tensor] : right.tensors) {
    Safetensors misnamed = right, missing = right;
    leave_out(missing, name), misname(misnamed, name);
    for (const Safetensors* answer : {&right, &std::as_const(misnamed), &std::as_const(missing)})
      expect_refused_before(posed, trial, *answer);
    if (read_by(trial, misnamed)) RC_FAIL(text(posed.name, ": ", name, " is misnamed, and nobody says so"));
    const std::optional<GivenAnswer> given = read_by(trial, missing);
    const bool said = !given || std::any_of(given->not_judged.begin(), given->not_judged.end(),
                                            [&missed = name](const NotJudged& one) { return one.tensor == missed; });
    if (!said) RC_FAIL(text(posed.name, ": ", name, " is missing, and nobody says so"));
  }
}

class Asked : public CliFiles, public testing::WithParamInterface<const KernelRoom*> {};
TEST_P(Asked, is_judged) {
  laws::check_property([this] { expect_seen(drawn_case(listed_room(GetParam()->name)), folder); });
}
INSTANTIATE_TEST_SUITE_P(rooms, Asked, testing::ValuesIn(kernel_rooms().begin(), kernel_rooms().end()),
                         [](const auto& info) { return std::string(info.param->name); });

/// Answers to a case in a file, handed in as users do.
class Doors : public CliFiles {
 protected:
  /// Whether an answer to the case in that file passes.
  using Door = std::function<bool(const std::string& problem, const Safetensors& answer)>;

  static bool lets_pass(CheckOptions options, const std::string& problem) {
    std::ostringstream out, err;
    Console console{out, err, false};
    options.problem = problem, options.standard.threads = 1;
    try {
      return all_pass(check_case(options, console).rows);
    } catch (const InputError&) {
      return false;
    }
  }

  /// Of a plain case and one with arguments: a share of all damages to all tensors.
  void expect_closed(const Door& door) {
    std::map<std::string, Safetensors> answers;  // by the file of their case
    for (const bool has_arguments : {false, true}) {
      const std::string file = path(has_arguments ? "gated.st" : "plain.st");
      std::vector<std::string> words = {"case",        "gated_deltanet", "--shape", "1,7,1,4",
                                        "--precision", "fp32",           "-o",      file};
      if (has_arguments) words.emplace_back("--param"), words.emplace_back("gate=softplus");
      ASSERT_EQ(run_assay(words).code, exit_passed) << file;
      answers[file] = right_answer(read_safetensors(file));
      ASSERT_TRUE(door(file, answers.at(file))) << file;
    }
    Share share(8);
    while (share.goes_on())
      for (const auto& [file, right] : answers)
        for (const auto& [what, damage] : damages)
          for (const auto& [name, tensor] : right.tensors) {
            Safetensors wrong = right;
            damage(wrong, name);
            const auto left = wrong.tensors.find(name);
            const bool is_right = left != wrong.tensors.end() && left->second.bytes == tensor.bytes;
            if (is_right || !share.takes()) continue;
            EXPECT_FALSE(door(file, wrong)) << name << " of " << file << ": " << what;
          }
  }
};

TEST_F(Doors, of_commands_are_closed) {
  expect_closed([this](const std::string& problem, const Safetensors& answer) {
    write_safetensors(std::filesystem::path(path("given.st")), answer);
    CheckOptions options;
    options.kernel = "cp " + path("given.st") + " {out} # {case}";
    return lets_pass(std::move(options), problem);
  });
}

/// The library answers what lies in a folder, a file of doubles for each tensor.
TEST_F(Doors, of_plugins_are_closed) {
  expect_closed([this](const std::string& problem, const Safetensors& answer) {
    const std::filesystem::path given = folder / "given";
    std::filesystem::remove_all(given);
    std::filesystem::create_directory(given);
    for (const auto& [name, tensor] : answer.tensors) {
      std::ofstream file(given / name, std::ios::binary);
      file.write(reinterpret_cast<const char*>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size()));
    }
    ::setenv("ASSAY_ANSWERS", given.c_str(), 1);
    CheckOptions options;
    options.plugin = plugin_built("recorded");
    const bool is_open = lets_pass(std::move(options), problem);
    ::unsetenv("ASSAY_ANSWERS");
    return is_open;
  });
}

TEST_F(Doors, of_googletest_are_closed) {
  expect_closed([](const std::string& problem, const Safetensors& answer) {
    std::map<std::string, Array> arrays;
    for (const auto& [name, tensor] : answer.tensors) arrays[name] = load(name, tensor);
    return judge(std::filesystem::path(problem), arrays, {.threads = 1}).verdict == Verdict::pass;
  });
}

}  // namespace
}  // namespace assay
