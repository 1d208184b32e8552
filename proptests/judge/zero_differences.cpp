// An exact zero that is a difference of equal numbers: kernels leave of it what their orders of summation leave.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <string>
#include <vector>

#include "files/problem_file.hpp"
#include "judge/court/case_trial.hpp"
#include "judge/court/seeded_case.hpp"
#include "proptests/laws/property.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// Softmax attention of one token in fp32, as libraries have it: dS = P (dP - delta), dh = -sum dS s / h, with sums of
/// dP from the first channel on and of delta from the last. Operands leave and are read in `operands`.
class OneToken {
 public:
  OneToken(const Problem& problem, Format operands) : p_(problem), operands_(operands) {}

  Answer answer() const {
    const Array &q = p_.inputs.at("q"), &k = p_.inputs.at("k"), &v = p_.inputs.at("v"), &g = p_.cotangents.at("o");
    Answer a;
    a.outputs["o"] = Array(g.shape);
    for (const auto& [name, array] : p_.inputs) a.gradients[name] = Array(array.shape);
    a.gradients["bandwidth"] = Array(std::vector<int>{});
    const auto h = std::stof(std::get<std::string>(p_.params.at("bandwidth")));
    const auto extent = [](const Array& x, std::size_t axis) { return static_cast<std::size_t>(x.shape.at(axis)); };
    const std::size_t heads = extent(q, 0), group = heads / extent(k, 0), K = extent(q, 2), V = extent(v, 2);
    float dh = 0;
    for (std::size_t n = 0; n < heads; ++n) {
      const double *qn = &q.data[n * K], *kn = &k.data[n / group * K], *vn = &v.data[n / group * V],
                   *gn = &g.data[n * V];
      float s = 0, dp = 0, delta = 0;
      for (std::size_t c = 0; c < K; ++c) s += static_cast<float>(qn[c]) * static_cast<float>(kn[c]);
      s /= h;
      for (std::size_t c = 0; c < V; ++c) dp += static_cast<float>(gn[c]) * static_cast<float>(vn[c]);
      for (std::size_t c = V; c-- > 0;) delta += static_cast<float>(gn[c]) * static_cast<float>(vn[c]);
      const float ds = dp - delta;
      nonzero_ += ds != 0;
      dh -= ds * s / h;
      for (std::size_t c = 0; c < V; ++c)
        a.outputs["o"].data[n * V + c] = vn[c], a.gradients["v"].data[n / group * V + c] += gn[c];
      for (std::size_t c = 0; c < K; ++c) {
        a.gradients["q"].data[n * K + c] = ds * static_cast<float>(kn[c]) / h;
        a.gradients["k"].data[n / group * K + c] += ds * static_cast<float>(qn[c]) / h;
      }
    }
    a.gradients["bandwidth"].data[0] = dh;
    for (const char* name : {"q", "k", "v"})
      for (double& x : a.gradients[name].data) x = round_to(x, operands_);
    return a;
  }
  int nonzero() const { return nonzero_; }

 private:
  const Problem& p_;
  Format operands_;
  mutable int nonzero_ = 0;
};

std::map<std::string, Verdict> verdicts(Format precision, std::uint64_t seed, int dim, const std::string& contract,
                                        int& nonzero) {
  const CaseSpec spec{
      .mechanism = "softmax_attention", .shape = {2, 1, 4, 2, dim, dim, 0}, .precision = precision, .seed = seed};
  const Room& room = listed_room("softmax_attention");
  CaseTrial trial(arguments::draw_case(spec, "0"), {.contract = contract, .threads = 1}, "case");
  trial.prepare();
  const OneToken kernel(trial.file().problem, precision);
  TensorFile to;
  const Answer answer = kernel.answer();
  nonzero += kernel.nonzero();
  for (const auto& [name, array] : answer.outputs) to.put(name, array, answer_field(room, name), 2, "F32");
  for (const auto& [name, array] : answer.gradients)
    to.put("d_" + name, array, answer_field(room, "d_" + name), 2, "F32");
  std::map<std::string, Verdict> found;
  const auto all = [](const std::string&) { return true; };
  for (const ReportRow& row : trial.judge(trial.read(std::move(to).finish({}), {}, "answer"), all, ""))
    found[row.tensor] = row.judgement.verdict;
  return found;
}

/// Whether a right kernel may get it: rows that hold nothing but zeros have nothing to see.
bool is_healthy(Verdict verdict) { return passes(verdict) || verdict == Verdict::vacuous; }

/// By the model, and by the contract of the precision.
ASSAY_PROPERTY(ZeroDifferences, have_the_sigma_of_their_terms) {
  const Format precision = *rc::gen::element(Format::fp32, Format::bf16);
  const int dim = *rc::gen::element(16, 64);
  const auto seed = *rc::gen::inRange<std::uint64_t>(0, 100);
  const std::string contract = *rc::gen::element(std::string(), std::string(name_of(precision)));
  int nonzero = 0;
  const auto found = verdicts(precision, seed, dim, contract, nonzero);
  RC_PRE(nonzero > 0);  // else it is as exact as the answer
  for (const auto& [tensor, verdict] : found)
    if (!is_healthy(verdict))
      RC_FAIL(
          text(name_of(precision), ' ', contract, " d = ", dim, " seed ", seed, ": ", tensor, ' ', name_of(verdict)));
}

/// 64 roundings of each sum and 8 heads: more than one rounding at the largest of its terms allows.
TEST(ZeroDifferences, count_every_rounding) {
  int nonzero = 0;
  for (const auto& [tensor, verdict] : verdicts(Format::fp32, 13, 64, "fp32", nonzero))
    EXPECT_TRUE(is_healthy(verdict)) << tensor << ' ' << name_of(verdict);
  EXPECT_GT(nonzero, 0);
}

}  // namespace
}  // namespace assay
