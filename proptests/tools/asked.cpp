// What a case asks for is judged: whatever tensor of an answer is zero, another one's, misnamed or missing, it never
// passes unseen.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "files/problem_file.hpp"
#include "judge/court/case_trial.hpp"
#include "judge/court/seeded_case.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/laws/property.hpp"
#include "tools/cases/golden.hpp"

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

/// Verdicts by tensor; nothing where the answer is refused.
using Verdicts = std::map<std::string, Verdict>;
Verdicts verdicts_on(const CaseTrial& trial, Safetensors answer, std::vector<NotJudged>* unseen = nullptr) {
  try {
    const GivenAnswer given = trial.read(std::move(answer), {}, "answer");
    if (unseen != nullptr) *unseen = given.not_judged;
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

void expect_seen(const PosedCase& posed) {
  CaseTrial trial(posed.file, {.threads = 1}, "case");
  trial.prepare();
  Safetensors right = answer_file(read_problem(posed.file, "case"), std::nullopt, 1, "0");
  std::erase_if(right.tensors, [](const auto& one) { return one.first.find('.') != std::string::npos; });
  const Verdicts healthy = verdicts_on(trial, right);
  RC_ASSERT(!healthy.empty());
  Safetensors zeros = right;
  for (auto& [name, tensor] : zeros.tensors) std::fill(tensor.bytes.begin(), tensor.bytes.end(), std::uint8_t{0});
  const Safetensors turned = exchanged(right);
  for (const Safetensors* wrong : {&std::as_const(zeros), &turned})
    for (const auto& [name, verdict] : verdicts_on(trial, *wrong)) {
      const bool is_wrong = wrong->tensors.at(name).bytes != right.tensors.at(name).bytes;
      if (!is_wrong || healthy.at(name) != Verdict::pass || is_zero(right.tensors.at(name))) continue;
      if (verdict == Verdict::pass)
        RC_FAIL(text(posed.name, ": ", name, wrong == &zeros ? " is zero" : " is another's", " and passes"));
    }
  for (const auto& [name, tensor] : right.tensors) {
    Safetensors misnamed = right, missing = right;
    missing.tensors.erase(name), misnamed.tensors.erase(name), misnamed.tensors[name + "x"] = tensor;
    if (!verdicts_on(trial, misnamed).empty())
      RC_FAIL(text(posed.name, ": ", name, " is misnamed, and nobody says so"));
    std::vector<NotJudged> unseen;
    const bool refused = verdicts_on(trial, missing, &unseen).empty();
    const bool said =
        std::any_of(unseen.begin(), unseen.end(), [&](const NotJudged& one) { return one.tensor == name; });
    if (!refused && !said) RC_FAIL(text(posed.name, ": ", name, " is missing, and nobody says so"));
  }
}

class Asked : public testing::TestWithParam<const KernelRoom*> {};
TEST_P(Asked, is_judged) {
  laws::check_property([] { expect_seen(drawn_case(listed_room(GetParam()->name))); });
}
INSTANTIATE_TEST_SUITE_P(rooms, Asked, testing::ValuesIn(kernel_rooms().begin(), kernel_rooms().end()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace assay
