#include "proptests/core/mutants.hpp"
#include "proptests/laws/laws.hpp"
#include "proptests/laws/reference_laws.hpp"
#include "proptests/laws/unit_laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(softmax_attention)

namespace assay::laws {
namespace {

/// o_i = sum_j exp(q_i.k_j / h) v_j / sum_j exp(q_i.k_j / h) over the visible keys, with no shift.
std::string is_the_quotient_of_sums(const Room& room, const Problem& p) {
  return agrees("o", room.values(p, Tier::mp100).outputs.at("o"),
                attention_by_definition(p, [](int, int, int) { return Mp100(0); }));
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(softmax_attention, is_the_quotient_of_sums)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(softmax_attention, backward_is_the_adjoint, linear_in_values, the_future_is_unseen,
                                 constants_are_reproduced, is_the_quotient_of_sums)

namespace assay {
namespace {

laws::Subject tiled() { return laws::subject(kernel_rooms(), "softmax_attention", "tiled"); }

/// Scores depend on q and h through q / h, and on q and k through q.k: <q, dq> = <k, dk> = -h dh; and a key translation
/// multiplies every weight of a row alike: sum_j dk_j = 0 (lla-family.md section 10).
ASSAY_PROPERTY(softmax_attention_tiled, gradients_obey_scale_and_translation) {
  const laws::Subject s = tiled();
  const LawCase c = *law_cases(s.room, s.form);
  const Problem p = s.problem(c);
  const Arrays got = flat(s.run(p, c.spec.precision, c.tile));
  const Arrays allowed = laws::allowance(s, p, c.spec.precision, c.tile);
  const auto against = [&](const std::string& name, const Array& known) {
    return laws::product(known, got.at("d_" + name), allowed.at("d_" + name));
  };
  const Array h({}, {std::stod(std::get<std::string>(p.params.at("bandwidth")))});
  laws::expect_zero_sum({{1, against("q", p.inputs.at("q"))}, {1, against("bandwidth", h)}});
  laws::expect_zero_sum({{1, against("k", p.inputs.at("k"))}, {1, against("bandwidth", h)}});
  const Array& k = p.inputs.at("k");
  for (int x = 0; x < k.shape[2]; ++x) {
    Array column(k.shape);
    for (std::size_t i = 0; i < k.data.size(); ++i)
      column.data[i] = static_cast<int>(i % static_cast<std::size_t>(k.shape[2])) == x ? 1 : 0;
    laws::expect_zero_sum({{1, against("k", column)}});
  }
}

/// Values that are all the same come out as they went in: the weights sum to one.
ASSAY_PROPERTY(softmax_attention_tiled, constant_values_come_out) {
  const laws::Subject s = tiled();
  const LawCase c = *law_cases(s.room, s.form);
  Problem p = s.problem(c);
  for (double& x : p.inputs.at("v").data) x = 0.75;
  const Arrays got = flat(s.run(p, c.spec.precision, c.tile));
  const Arrays allowed = laws::allowance(s, p, c.spec.precision, c.tile);
  for (std::size_t i = 0; i < got.at("o").data.size(); ++i)
    RC_ASSERT(std::fabs(got.at("o").data[i] - 0.75) <= allowed.at("o").data[i]);
}

/// A window of one key returns its value, and one that reaches back to the start changes no bit.
ASSAY_PROPERTY(softmax_attention_tiled, windows_of_one_and_of_all) {
  const laws::Subject s = tiled();
  LawCase c = *law_cases(s.room, s.form);
  c.spec.params = {{"window", 1L}};
  Problem p = s.problem(c);
  const Array one = s.run(p, c.spec.precision, c.tile).outputs.at("o");
  const Array allowed = laws::allowance(s, p, c.spec.precision, c.tile).at("o");
  const Array& v = p.inputs.at("v");
  const std::size_t head = one.data.size() / static_cast<std::size_t>(c.spec.shape.own());
  const auto group = static_cast<std::size_t>(c.spec.shape.own() / c.spec.shape.shared());
  for (std::size_t i = 0; i < one.data.size(); ++i)
    RC_ASSERT(std::fabs(one.data[i] - v.data[i / head / group * head + i % head]) <= allowed.data[i]);
  p.params = {{"window", static_cast<long>(c.spec.shape.seq_len)}, {"bandwidth", p.params.at("bandwidth")}};
  Problem unlimited = p;
  unlimited.params.erase("window");
  RC_ASSERT(flat(s.run(p, c.spec.precision, c.tile)) == flat(s.run(unlimited, c.spec.precision, c.tile)));
}

/// With identical keys every visible value weighs the same.
ASSAY_PROPERTY(softmax_attention_tiled, identical_keys_average) {
  const laws::Subject s = tiled();
  LawCase c = *law_cases(s.room, s.form);
  c.spec.params = {};
  Problem p = s.problem(c);
  Array& k = p.inputs.at("k");
  for (std::size_t i = 0; i < k.data.size(); ++i) k.data[i] = k.data[i % static_cast<std::size_t>(k.shape[2])];
  const Array o = s.run(p, Format::exact, c.tile).outputs.at("o");
  const Array allowed = laws::allowance(s, p, Format::fp64, c.tile).at("o");
  const Array& v = p.inputs.at("v");
  const int T = v.shape[1], V = v.shape[2], group = c.spec.shape.own() / c.spec.shape.shared();
  for (int h = 0; h < o.shape[0]; ++h)
    for (int x = 0; x < V; ++x) {
      long double sum = 0;
      for (int t = 0; t < T; ++t) {
        sum += static_cast<long double>(v.data[laws::index(v, h / group, t, x)]);
        const std::size_t at = laws::index(o, h, t, x);
        RC_ASSERT(std::fabs(o.data[at] - static_cast<double>(sum / (t + 1))) <= allowed.data[at]);
      }
    }
}

TEST(softmax_attention_units, wide_heads_need_them) {
  for (const char* form : {"tiled", "split_decode"})
    laws::wide_heads_need_units(laws::subject(kernel_rooms(), "softmax_attention", form));
}

/// Splitting the keys over blocks and merging them gives what one pass gives.
ASSAY_PROPERTY(softmax_attention_split_decode, is_the_tiled_kernel) {
  const laws::Subject split = laws::subject(kernel_rooms(), "softmax_attention", "split_decode");
  const LawCase c = *law_cases(split.room, split.form);
  const Problem p = split.problem(c);
  laws::expect_within(flat(split.run(p, Format::exact, c.tile)), flat(tiled().run(p, Format::exact, 0)),
                      laws::allowance(split, p, Format::fp64, c.tile), 2);
}

}  // namespace
}  // namespace assay
