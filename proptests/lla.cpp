// Local linear attention: where its iterations end, raw moments, which are the published form, and exact ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "oracles/scalars/scalar.hpp"
#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/published_form.hpp"
#include "proptests/laws/aimed_laws.hpp"
#include "proptests/laws/laws.hpp"
#include "reference/families/exact_rank.hpp"

namespace assay::laws {
namespace {

Subject lla_tiled() { return subject(kernel_rooms(), "lla", "tiled"); }

bool is_direct(const Params& params) { return !params.contains("solver"); }

/// Conjugate gradients that stop have another gradient: the solution's, at what they have reached. And where one key is
/// seen, blocks of Sigma have gradients that are rounding errors.
ASSAY_PROPERTY(lla_tiled, backward_is_the_adjoint) {
  const Subject s = lla_tiled();
  const LawCase c = *law_cases(s.room, s.form);
  RC_PRE(is_direct(c.spec.params));
  const auto form = c.spec.params.find("block_form");
  // RC_PRE evaluates both sides of what it is given.
  const bool is_sigma = form != c.spec.params.end() && std::get<std::string>(form->second) != "centered";
  RC_PRE(!is_sigma || c.spec.shape.seq_len > 1);
  backward_is_the_adjoint(s, c);
}

/// No step of conjugate gradients, and weights that are equal as the bandwidth grows.
ASSAY_PROPERTY(lla_tiled, no_steps_and_equal_weights_are_ordinary) {
  const Subject s = lla_tiled();
  LawCase c = *law_cases(s.room, s.form);
  const bool no_steps = *rc::gen::arbitrary<bool>();
  c.spec.params = {{"lambda_mode", *rc::gen::element("mass", "absolute", "max")}};
  if (no_steps) c.spec.params = {{"solver", "cg"}, {"iterations", 0L}, {"tolerance", "0"}};
  Problem p = s.problem(c);
  if (!no_steps) p.params["bandwidth"] = "1e30";
  is_the_oracle_in({"o", "d_q", "d_k", "d_v", no_steps ? "d_bandwidth" : "d_lambda"}, s, p, c.tile);
}

/// One block is none, to the bit; blocks of one or two dimensions are the oracle's, in both forms.
ASSAY_PROPERTY(lla_tiled, blocks_end_where_they_should) {
  const Subject s = lla_tiled();
  LawCase c = *law_cases(s.room, s.form);
  const std::string form = *rc::gen::element("sigma", "centered");
  c.spec.params = {{"blocks", 1L}, {"block_form", form}};
  const Problem p = s.problem(c);
  Problem none = p;
  none.params.erase("blocks"), none.params.erase("block_form");
  RC_ASSERT(flat(s.run(p, c.spec.precision, c.tile)) == flat(s.run(none, c.spec.precision, c.tile)));
  const int K = c.spec.shape.key_dim;
  c.spec.shape.seq_len = std::min(c.spec.shape.seq_len, 33);
  c.spec.params["blocks"] = K % 2 == 0 && *rc::gen::arbitrary<bool>() ? K / 2L : long{K};
  exact_policy_is_the_oracle(s, c);
}

/// A row that has converged is left alone while others of its tile go on: it has the bits that it has by itself.
ASSAY_PROPERTY(lla_tiled, a_row_at_rest_keeps_its_bits) {
  const Subject s = lla_tiled();
  LawCase c = *law_cases(s.room, s.form);
  c.spec.shape.heads = c.spec.shape.shared_heads = 1;
  c.spec.params = {{"causal", false}};
  if (*rc::gen::arbitrary<bool>())
    c.spec.params = {{"causal", false}, {"solver", "cg"}, {"iterations", 9L}, {"tolerance", "0.5"}};
  Problem p = s.problem(c);
  Array& lambda = p.inputs.at("lambda");
  const int n = c.spec.shape.seq_len, K = c.spec.shape.key_dim, row = *rc::gen::inRange(0, n);
  if (*rc::gen::arbitrary<bool>())  // it is at rest before the first step
    for (int x = 0; x < K; ++x) p.inputs.at("q").data[index(p.inputs.at("q"), 0, row, x)] = 0;
  Problem alone = p;
  const auto keep = [&](Array& a) {
    const auto width = static_cast<std::ptrdiff_t>(a.data.size()) / n;
    a.data = {a.data.begin() + row * width, a.data.begin() + (row + 1) * width};
    a.shape[1] = 1;
  };
  keep(alone.inputs.at("q")), keep(alone.cotangents.at("o"));
  if (lambda.shape.size() > 1) keep(alone.inputs.at("lambda"));
  const Answer all = s.run(p, c.spec.precision, c.tile), one = s.run(alone, c.spec.precision, c.tile);
  const auto same_bits = [&](const Array& a, const Array& b) {
    const std::size_t width = b.data.size();
    for (std::size_t x = 0; x < width; ++x) RC_ASSERT(a.data[static_cast<std::size_t>(row) * width + x] == b.data[x]);
  };
  same_bits(all.outputs.at("o"), one.outputs.at("o"));
  same_bits(all.gradients.at("q"), one.gradients.at("q"));
}

// ---- the published form

Subject raw_moments() { return subject(kernel_rooms(), "lla", "raw_moments"); }

/// Keys and queries with that offset.
Problem lla_with_offset(double offset, Format precision) {
  Problem p = with_offset("lla", {"q", "k"}, {}, offset, precision);
  for (double& x : p.inputs.at("lambda").data) x = 0.125;
  return p;
}

/// lla-family.md section 11, fp32, n <= 64, d = 16: raw moments 3e-3 where keys and queries share an offset of 30 and
/// 1.3e-5 where they share none, keys less the query 2e-4 and 3.4e-5: here the same to half an order of magnitude.
TEST(lla_raw_moments, are_as_far_off_as_measured) {
  struct Measured {
    double offset, raw, about_query;
  };
  for (const Measured& m : {Measured{0, 1.3e-5, 3.4e-5}, Measured{30, 3e-3, 2e-4}}) {
    const Problem p = lla_with_offset(m.offset, Format::fp32);
    const Oracle truth = oracle_of(lla_tiled().room, p);
    Problem about_query = p;  // until they converge
    about_query.params["solver"] = "cg", about_query.params["iterations"] = 32L, about_query.params["tolerance"] = "0";
    const auto error_of = [&](const Subject& s, const Problem& of, Format precision) {
      return errors_of(truth, s.run(of, precision, 0)).at("o");
    };
    const double raw = error_of(raw_moments(), p, Format::fp32), centred = error_of(lla_tiled(), p, Format::fp32),
                 steps = error_of(lla_tiled(), about_query, Format::fp32);
    EXPECT_NEAR(std::log10(raw), std::log10(m.raw), 0.5) << m.offset;
    EXPECT_NEAR(std::log10(steps), std::log10(m.about_query), 0.5) << m.offset;
    EXPECT_LT(centred, steps) << m.offset;
    // Without rounding the three are one.
    EXPECT_LT(error_of(raw_moments(), p, Format::exact), raw * 0x1p-30) << m.offset;
    EXPECT_LT(error_of(lla_tiled(), about_query, Format::exact), raw * 0x1p-30) << m.offset;
  }
}

/// Expects these verdicts on raw moments, but for d_bandwidth, which is a sum of rounding errors.
void expect_verdicts(const Problem& p, Format precision, Verdict of_raw) {
  for (const auto& [name, verdict] : verdicts(lla_tiled(), raw_moments().form, p, precision, "d_bandwidth"))
    EXPECT_EQ(verdict, of_raw) << name << ' ' << name_of(precision);
}

TEST(lla_raw_moments, fail_where_keys_and_queries_share_an_offset) {
  for (const Format precision : {Format::fp32, Format::bf16, Format::fp64})
    expect_verdicts(lla_with_offset(30, precision), precision, Verdict::fail);
}

/// Queries amid 64 keys, about zero: nothing cancels, and 1 - rho.zbar is near 1.
TEST(lla_raw_moments, pass_where_queries_are_amid_the_keys) {
  for (const Format precision : {Format::fp32, Format::bf16}) {
    Problem p = listed_room("lla").make(
        {"lla", {1, 64, 1, 1, 16, 16, 0}, precision, Style::normal, 0, {{"bandwidth", "1024"}, {"causal", false}}});
    for (double& x : p.inputs.at("q").data) x *= 0x1p-4;
    for (double& x : p.inputs.at("lambda").data) x = 1;
    expect_verdicts(p, precision, Verdict::pass);
  }
}

/// In exact arithmetic it is the same, gradients included: where little cancels, 64 bits are enough to say so.
ASSAY_PROPERTY(lla_raw_moments, exact_policy_is_the_oracle_where_little_cancels) {
  const Subject s = lla_tiled();
  LawCase c = *law_cases(s.room, s.form);
  c.spec.style = Style::normal;
  const Problem p = s.problem(c);
  RC_PRE(raw_moments().form.obstacle(p).empty());
  expect_within(flat(raw_moments().run(p, Format::exact, c.tile)), values_of(oracle_of(s.room, p)),
                allowance(raw_moments(), p, Format::fp64, c.tile), 1);
}

// ---- ranks and caches

using bad_inputs::changed, bad_inputs::result_of;

/// Three tokens in the plane with a ridge of 1/2.
Json lla_case() {
  return Json::parse(R"({"id": "a", "mechanism": "lla", "params": {"bandwidth": "2"}, "inputs": {
    "q": [["1", "2"], ["3", "4"], ["0.5", "1"]], "k": [["1", "0"], ["0", "1"], ["1", "1"]],
    "v": [["1"], ["2"], ["3"]], "lambda": "0.5"}, "cotangents": {"o": [["1"], ["1"], ["1"]]}})");
}
Json lla_cg_case() {
  Json record = changed(lla_case(), "/params/solver", "cg");
  record["params"]["iterations"] = 2;
  return record;
}

/// The rank is that of the numbers given: points of the plane off a line by little, or on it though far apart, where
/// rounding or a prime with small powers of two would see the opposite.
TEST(lla_singular, the_rank_is_decided_exactly) {
  const auto rank_of = [](const auto& from_double, std::vector<double> points) {
    using S = decltype(from_double(0.0));
    Tensor<S, 2> k(static_cast<int>(points.size()) / 2, 2);
    std::transform(points.begin(), points.end(), k.data.begin(), from_double);
    const Residues residues = residues_of(k);
    const std::vector<int> both{0, 1};
    return exact_rank(residues, 0, k.size(0), residues, 0, both);
  };
  const auto as_double = [](double x) { return x; };
  const auto scaled = [](double x) { return Mp50(Mp50(x) * Mp50(from_decimal<Mp50>("1e500"))); };
  for (const double off : {0x1p-52, 0x1p-500, 0x1p-1000}) {
    const double x = off == 0x1p-52 ? 1 : 0;
    EXPECT_EQ(rank_of(as_double, {0, 0, x, x + off, 1, 1}), 2) << off;
    EXPECT_EQ(rank_of(scaled, {0, 0, x, x + off, 1, 1}), 2) << off;
    EXPECT_EQ(rank_of(as_double, {0, 0, x, x, 1, 1}), 1) << off;
  }
  for (const double far : {0x1p31, 0x1p61, 0x1p64, 0x1p127, 0x1p500}) {
    EXPECT_EQ(rank_of(as_double, {0, 0, far, 1, 1, far}), 2) << far;
    EXPECT_EQ(rank_of(as_double, {0, 0, far, 1, 1, 1 / far}), 1) << far;
    EXPECT_EQ(rank_of(as_double, {1, 0, far, 0, 1, 1}), 2) << far;
    EXPECT_EQ(rank_of(scaled, {0, 0, far, 1, -1, -1 / far}), 1) << far;
  }
  // The refusal, too, is decided exactly: a key off the line in its last bit is enough.
  Json record = changed(changed(lla_case(), "/inputs/lambda", "0"), "/params/causal", false);
  record["inputs"]["k"] = Json::parse(R"([["1", "1"], ["2", "2"], ["3", "3"]])");
  EXPECT_EQ(result_of(record).status, Status::singular);
  record["inputs"]["k"][2][0] = to_decimal(Mp100(3 + 0x1p-51), 60);
  EXPECT_EQ(result_of(record).status, Status::ok) << result_of(record).message;
}

/// Row i sees i + 1 keys, and its residual is zero after as many steps, or two: whether others were made is unknown,
/// and nothing but the count needs to know.
TEST(lla_caches, steps_that_may_not_have_been_made_cost_no_bound) {
  const CaseResult direct = result_of(lla_case());
  for (const std::optional<Tier> tier : {std::optional<Tier>(), std::optional(Tier::ball), std::optional(Tier::w2)}) {
    const Decimals cg = result_of(changed(lla_cg_case(), "/params/iterations", 5), {.digits = 30, .tier = tier}).answer;
    EXPECT_NEAR(cg.bounds.at("rows.iterations"), 4, 1e-6);
    EXPECT_EQ(cg.bounds.size(), cg.outputs.size() + cg.gradients.size());
    const auto compare = [&](const BasicArrays<Cell>& got, const BasicArrays<Cell>& want, const std::string& prefix) {
      for (const auto& [name, array] : got) {
        if (name == "rows.iterations") continue;
        const double bound = cg.bounds.at(prefix + name);
        EXPECT_LE(bound, 1e-28) << name;
        for (std::size_t i = 0; i < array.data.size(); ++i)
          EXPECT_LE(abs(Mp50(array.data[i].text) - Mp50(want.at(name).data[i].text)), Mp50(bound) + Mp50("1e-37"))
              << name << ' ' << i;
      }
    };
    compare(cg.outputs, direct.answer.outputs, "");
    compare(cg.gradients, direct.answer.gradients, "d_");
  }
}

/// With equal weights everything is rational, and a rational number is off by its last digit's rounding.
TEST(lla_caches, rational_where_no_query_prefers_a_key) {
  Json record = lla_case();
  record["inputs"]["q"] = Json::parse(R"([["0", "0"], ["0", "0"], ["0", "0"]])");
  const CaseResult exact = result_of(record, {.digits = 40, .tier = Tier::exact}), proven = result_of(record);
  ASSERT_EQ(exact.status, Status::ok) << exact.message;
  for (const auto& [name, array] : exact.answer.outputs)
    EXPECT_TRUE(array.data == proven.answer.outputs.at(name).data) << name;
  for (const auto& [name, array] : exact.answer.gradients)
    EXPECT_TRUE(array.data == proven.answer.gradients.at(name).data) << name;
  ASSERT_EQ(exact.answer.bounds.size(), proven.answer.bounds.size());
  for (const auto& [name, bound] : exact.answer.bounds) EXPECT_LE(bound, 1e-38) << name;
  EXPECT_GT(exact.answer.bounds.at("o"), 0);
}

}  // namespace
}  // namespace assay::laws
