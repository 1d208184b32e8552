// Evidence `form`: a user's own chunk algorithm, marked where it rounds, in the place of a tile program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "judge/court/judge_answer.hpp"
#include "judge/programs/program_form.hpp"
#include "judge/sigma/expected.hpp"
#include "proptests/core/places.hpp"
#include "proptests/core/share.hpp"
#include "proptests/language/programs.hpp"
#include "proptests/tools/cli.hpp"
#include "reference/core/rounding.hpp"

namespace assay::language {
namespace {

std::string form_of(const std::string& name) {
  return source_dir() + "/mechanisms/forms/json/" + name + "_chunks.json";
}

Problem problem_of(const std::string& program, const Shape& shape, std::uint64_t seed, bool gradients = true) {
  const Room& room = program_room(program);
  CaseSpec spec{.mechanism = std::string(room.name), .shape = shape, .seed = seed};
  Problem problem = room.make(spec);
  if (!gradients) problem.cotangents.clear();
  return problem;
}

/// Bugs of a kernel.
enum class Bug { none, state_in_bf16, mask_without_diagonal };

/// The implicit delta rule in chunks of 16 tokens, in floats: what a careful author of a kernel would write, and
/// nothing of the language. Operands of products with the inverse are bf16, as the form's marks have it.
class ChunkKernel {
 public:
  ChunkKernel(const Problem& problem, Bug bug) : problem_(problem), bug_(bug) {
    K_ = at("k").shape[2], V_ = at("v").shape[2], T_ = at("k").shape[1];
  }
  Answer answer() {
    Answer answer;
    const int heads = at("k").shape[0];
    Array &o = answer.outputs["o"], &state = answer.outputs["final_state"];
    o = Array({heads, T_, V_}), state = Array({heads, K_, V_});
    for (int h = 0; h < heads; ++h) {
      std::vector<float> S(z(K_ * V_));
      for (int i = 0; i < K_ * V_; ++i) S[z(i)] = value("initial_state", h * K_ * V_ + i);
      for (int start = 0; start < T_; start += 16) chunk(h, start, std::min(16, T_ - start), S, o);
      for (int i = 0; i < K_ * V_; ++i) state.data[z(h * K_ * V_ + i)] = S[z(i)];
    }
    return answer;
  }

 private:
  static std::size_t z(int i) { return static_cast<std::size_t>(i); }
  static float bf16(float x) { return static_cast<float>(round_to(x, Format::bf16)); }
  const Array& at(const std::string& name) const { return problem_.inputs.at(name); }
  float value(const std::string& name, int i) const { return static_cast<float>(at(name).data[z(i)]); }
  float key(int h, int t, int i) const { return value("k", (h * T_ + t) * K_ + i); }
  float query(int h, int t, int i) const { return value("q", (h * T_ + t) * K_ + i); }

  /// (1 + A)^-1, by forward substitution, row by row.
  static std::vector<float> inverse(const std::vector<float>& A, int n) {
    std::vector<float> X(z(n * n), 0.0F);
    for (int r = 0; r < n; ++r)
      for (int c = 0; c <= r; ++c) {
        float sum = r == c ? 1.0F : 0.0F;
        for (int s = c; s < r; ++s) sum -= A[z(r * n + s)] * X[z(s * n + c)];
        X[z(r * n + c)] = sum;
      }
    return X;
  }

  void chunk(int h, int start, int n, std::vector<float>& S, Array& o) const {
    std::vector<float> A(z(n * n), 0.0F), P(z(n * n), 0.0F), d(z(n)), wrong(z(n * V_)), error(z(n * V_), 0.0F);
    for (int r = 0; r < n; ++r) {
      float square = 0;
      for (int i = 0; i < K_; ++i) square += key(h, start + r, i) * key(h, start + r, i);
      const float beta = value("beta", h * T_ + start + r);
      d[z(r)] = beta / (1 + beta * square);
      for (int s = 0; s <= r; ++s) {
        float kk = 0, qk = 0;
        for (int i = 0; i < K_; ++i)
          kk += key(h, start + r, i) * key(h, start + s, i), qk += query(h, start + r, i) * key(h, start + s, i);
        if (s < r) A[z(r * n + s)] = d[z(r)] * kk;
        if (s < r || bug_ != Bug::mask_without_diagonal) P[z(r * n + s)] = bf16(qk);
      }
      for (int c = 0; c < V_; ++c) {
        float read = 0;
        for (int i = 0; i < K_; ++i) read += key(h, start + r, i) * S[z(i * V_ + c)];
        wrong[z(r * V_ + c)] = d[z(r)] * (value("v", (h * T_ + start + r) * V_ + c) - read);
      }
    }
    const std::vector<float> T = inverse(A, n);
    for (int r = 0; r < n; ++r)
      for (int c = 0; c < V_; ++c) {
        float sum = 0;
        for (int s = 0; s <= r; ++s) sum += bf16(T[z(r * n + s)]) * wrong[z(s * V_ + c)];
        error[z(r * V_ + c)] = bf16(sum);
      }
    const float scale = 1 / std::sqrt(static_cast<float>(K_));
    for (int r = 0; r < n; ++r)
      for (int c = 0; c < V_; ++c) {
        float sum = 0;
        for (int i = 0; i < K_; ++i) sum += query(h, start + r, i) * S[z(i * V_ + c)];
        for (int s = 0; s <= r; ++s) sum += P[z(r * n + s)] * error[z(s * V_ + c)];
        o.data[z((h * T_ + start + r) * V_ + c)] = bf16(scale * sum);
      }
    for (int i = 0; i < K_; ++i)
      for (int c = 0; c < V_; ++c) {
        float& x = S[z(i * V_ + c)];
        for (int r = 0; r < n; ++r) x += key(h, start + r, i) * error[z(r * V_ + c)];
        if (bug_ == Bug::state_in_bf16) x = bf16(x);
      }
  }

  const Problem& problem_;
  Bug bug_;
  int K_ = 0, V_ = 0, T_ = 0;
};

Judged judged(const Problem& problem, Bug bug, const std::string& form) {
  return judge(problem, ChunkKernel(problem, bug).answer(), {.form = form, .threads = 1, .precision = "bf16"});
}

const ReportRow& row_of(const Judged& judged, const std::string& tensor) {
  return *std::find_if(judged.rows.begin(), judged.rows.end(), [&](const ReportRow& r) { return r.tensor == tensor; });
}

/// One seed in eight, or more.
TEST(ProgramForms, HealthyChunkKernelsPass) {
  Share sampled(8);
  while (sampled.goes_on())
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      if (!sampled.takes()) continue;
      const Problem problem = problem_of(path_of("implicit_delta"), {1, 40, 2, 0, 8, 6, 0}, seed, false);
      const Judged found = judged(problem, Bug::none, path_of("implicit_delta_chunks"));
      ASSERT_EQ(found.verdict, Verdict::pass) << "seed " << seed << found.reason;
      for (const ReportRow& row : found.rows) {
        EXPECT_EQ(row.evidence, "form " + path_of("implicit_delta_chunks") + ", bf16");
        // Sigma is what such kernels are off by, and not a bound.
        EXPECT_GT(row.judgement.rms_z, 0.5) << seed << ' ' << row.tensor;
        EXPECT_LT(row.judgement.rms_z, 1.5) << seed << ' ' << row.tensor;
      }
    }
}

TEST(ProgramForms, FailWhatTheyDoNotDeclare) {
  Share sampled(3);
  while (sampled.goes_on())
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      if (!sampled.takes()) continue;
      const Problem problem = problem_of(path_of("implicit_delta"), {1, 512, 1, 0, 32, 32, 0}, seed, false);
      const std::string form = path_of("implicit_delta_chunks");
      EXPECT_EQ(judged(problem, Bug::none, form).verdict, Verdict::pass) << seed;
      EXPECT_EQ(judged(problem, Bug::mask_without_diagonal, form).verdict, Verdict::fail) << seed;
      // No algorithm's own roundings would exceed what the model lets pass; those of this one, as it is declared, do.
      const Judged narrow = judged(problem, Bug::state_in_bf16, form);
      EXPECT_EQ(row_of(narrow, "final_state").judgement.verdict, Verdict::fail) << seed;
      ASSERT_TRUE(row_of(narrow, "final_state").by_model);
      EXPECT_EQ(row_of(narrow, "final_state").by_model->verdict, Verdict::pass) << seed;
      EXPECT_EQ(judged(problem, Bug::state_in_bf16, "").verdict, Verdict::pass) << seed;
    }
}

/// Its own rounding to nearest, gradients as well.
TEST(ProgramForms, TheirOwnRunsPass) {
  Share sampled(3);
  while (sampled.goes_on())
    for (const char* name : {"deltanet", "gated_deltanet", "kda"})
      for (const Format precision : {Format::bf16, Format::fp16, Format::fp32})
        for (std::uint64_t seed = 0; seed < 4; ++seed) {
          if (!sampled.takes()) continue;
          const Problem problem = problem_of(in_library(name), {1, 37, 2, 0, 8, 6, 0}, seed);
          const auto form = program_form(form_of(name), problem.mechanism);
          const KernelUnderTest kernel{form.get(), precision, 0, 1};
          const Answer own = form->run(problem, kernel.policy(), 0);
          std::vector<std::string> answered;
          for (const auto& [tensor, array] : flat(own)) answered.push_back(tensor);
          const Judged found =
              judge(problem, own,
                    {.form = form_of(name), .tensors = answered, .threads = 1, .precision = name_of(precision)});
          ASSERT_EQ(found.verdict, Verdict::pass) << name << ' ' << name_of(precision) << ' ' << seed << found.reason;
          EXPECT_EQ(found.rows.size(), std::string(name) == "deltanet" ? 7U : 8U);
        }
}

/// The root mean square of sigma over a tensor.
double spread(const Expected& e) {
  double sum = 0;
  for (const double x : e.sigma) sum += x * x;
  return std::sqrt(sum / static_cast<double>(e.sigma.size()));
}

/// A room's tile program and a form in the language know nothing of one another, and expect the same.
TEST(ProgramForms, ExpectWhatTilePrograms) {
  for (const char* name : {"deltanet", "gated_deltanet"}) {
    Problem problem = problem_of(in_library(name), {1, 96, 2, 0, 16, 16, 0}, 1);
    const auto of_program = program_form(form_of(name), problem.mechanism);
    const KernelUnderTest by_form{of_program.get(), Format::bf16, 0, 1};
    const Oracle truth = oracle_of(program_room(in_library(name)), problem);
    const Expectation form = expect(truth, by_form, problem, default_draws);
    problem.mechanism = name;
    const KernelUnderTest by_tiles{&find_kernels(kernel_rooms(), name)->forms.front(), Format::bf16, 0, 1};
    const Expectation tiles = expect(truth, by_tiles, problem, default_draws);
    ASSERT_EQ(form.tensors.size(), tiles.tensors.size());
    for (std::size_t t = 0; t < form.tensors.size(); ++t) {
      const double ratio = spread(form.tensors[t].second) / spread(tiles.tensors[t].second);
      EXPECT_GT(ratio, 0.5) << name << ' ' << form.tensors[t].first;
      EXPECT_LT(ratio, 2) << name << ' ' << form.tensors[t].first;
      RecordProperty(name + ('_' + form.tensors[t].first), std::to_string(ratio));
    }
  }
}

class FormFiles : public CliFiles {
 protected:
  /// The healthy kernel by a contract of the user's own, which says what the marks are rounded to.
  Judged judged_with_sites(const std::string& sites) {
    const std::string contract = write("mine.json", R"({"name":"mine","base":"bf16","sites":)" + sites + "}");
    const JudgeBy by{.contract = contract, .form = path_of("implicit_delta_chunks"), .threads = 1};
    return judge(problem, ChunkKernel(problem, Bug::none).answer(), by);
  }
  const Problem problem = problem_of(path_of("implicit_delta"), {1, 60, 1, 0, 8, 8, 0}, 3, false);
};

/// The site that rounds where the contract does not let it.
TEST_F(FormFiles, WhyNamesTheSite) {
  const Judged found = judged_with_sites(R"({"Uc":"fp32"})");
  EXPECT_EQ(found.verdict, Verdict::fail) << found.reason;
  const Why why = found.why(60);
  ASSERT_TRUE(why.explanations.known());
  EXPECT_EQ(why.explanations.list.front().name, "Uc");
  EXPECT_NE(why.explanations.list.front().what.find("in bf16"), std::string::npos);
}

TEST_F(FormFiles, TakeAContract) {
  const Judged found = judged_with_sites(R"({"Tc":"fp32","Uc":"fp32","P":"fp32"})");
  EXPECT_EQ(found.verdict, Verdict::fail) << found.reason;
  ASSERT_EQ(found.rows.size(), 2U);
  EXPECT_EQ(row_of(found, "final_state").evidence, "form " + path_of("implicit_delta_chunks") + ", mine");
  EXPECT_NE(judged_with_sites(R"({"Zc":"fp32"})").reason.find("no site Zc"), std::string::npos);
}

}  // namespace
}  // namespace assay::language
