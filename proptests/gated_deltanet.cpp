#include "proptests/core/mutants.hpp"
#include "proptests/laws/laws.hpp"
#include "proptests/laws/reference_laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(gated_deltanet)

namespace assay::laws {
namespace {

/// The whole sequence as one chunk (delta-family.md 3.3): E = (I + L)^{-1} (V - a p~ S_0), O = s (a q S_0 + A E).
std::string is_the_chunk_form(const Room& room, const Problem& p) {
  const Array &q = p.inputs.at("q"), &k = p.inputs.at("k"), &v = p.inputs.at("v"), &beta = p.inputs.at("beta"),
              &g = p.inputs.at("log_decay"), &S0 = p.inputs.at("initial_state");
  const int H = v.shape[0], T = v.shape[1], K = k.shape[2], V = v.shape[2], group = H / k.shape[0];
  const auto error = p.params.find("error");
  const bool decayed = error == p.params.end() || std::get<std::string>(error->second) == "decayed";
  const auto scale = from_decimal<Mp100>(std::get<std::string>(p.params.at("scale")));
  std::vector<Mp100> o;
  for (int h = 0; h < H; ++h) {
    const auto dot = [&](const Array& a, int i, const Array& b, int j) {
      Mp100 sum = 0;
      for (int x = 0; x < K; ++x)
        sum += Mp100(a.data[index(a, h / group, i, x)]) * Mp100(b.data[index(b, h / group, j, x)]);
      return sum;
    };
    const auto from_start = [&](const Array& a, int i, int j) {
      Mp100 sum = 0;
      for (int x = 0; x < K; ++x) sum += Mp100(a.data[index(a, h / group, i, x)]) * Mp100(S0.data[index(S0, h, x, j)]);
      return sum;
    };
    // The product of the decays after step j, up to step i.
    const auto kept = [&](int j, int i) {
      Mp100 product = 1;
      for (int t = j + 1; t <= i; ++t) product *= exp(Mp100(g.data[index(g, h, t)]));
      return product;
    };
    std::vector<std::vector<Mp100>> E;
    for (int i = 0; i < T; ++i) {
      const int seen = decayed ? i : i - 1;
      E.emplace_back(static_cast<std::size_t>(V));
      for (int x = 0; x < V; ++x) {
        Mp100& e = E.back()[static_cast<std::size_t>(x)];
        e = Mp100(v.data[index(v, h, i, x)]) - kept(-1, seen) * from_start(k, i, x);
        for (int j = 0; j < i; ++j)
          e -= Mp100(beta.data[index(beta, h, j)]) * kept(j, seen) * dot(k, i, k, j) *
               E[static_cast<std::size_t>(j)][static_cast<std::size_t>(x)];
      }
    }
    for (int i = 0; i < T; ++i)
      for (int x = 0; x < V; ++x) {
        Mp100 sum = kept(-1, i) * from_start(q, i, x);
        for (int j = 0; j <= i; ++j)
          sum += Mp100(beta.data[index(beta, h, j)]) * kept(j, i) * dot(q, i, k, j) *
                 E[static_cast<std::size_t>(j)][static_cast<std::size_t>(x)];
        o.push_back(scale * sum);
      }
  }
  return agrees("o", room.values(p, Tier::mp100).outputs.at("o"), o);
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(gated_deltanet, is_the_chunk_form)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(gated_deltanet, backward_is_the_adjoint, linear_in_values, the_future_is_unseen,
                                 reads_are_linear_in_the_query, segments_concatenate, is_the_chunk_form)

namespace assay {
namespace {

laws::Subject gated_chunkwise() { return laws::subject(kernel_rooms(), "gated_deltanet", "chunkwise"); }

/// Without decay it is DeltaNet, in either convention of the error.
ASSAY_PROPERTY(gated_deltanet_chunkwise, no_decay_is_deltanet) {
  const laws::Subject s = gated_chunkwise(), plain = laws::subject(kernel_rooms(), "deltanet", "chunkwise");
  const LawCase c = *law_cases(s.room, s.form);
  Problem p = s.problem(c);
  for (double& x : p.inputs.at("log_decay").data) x = 0;
  Problem same = p;
  same.mechanism = "deltanet";
  same.params.erase("error");
  same.inputs.erase("log_decay");
  Arrays allowed = laws::allowance(s, p, Format::fp64, c.tile);
  allowed.erase("d_log_decay");
  laws::expect_within(flat(s.run(p, Format::exact, c.tile)), flat(plain.run(same, Format::exact, c.tile)), allowed, 2);
}

/// log decay -inf at the last token: the state holds that write alone, beta k v^T, whatever came before.
ASSAY_PROPERTY(gated_deltanet_chunkwise, a_closed_gate_forgets_everything) {
  const laws::Subject s = gated_chunkwise();
  LawCase c = *law_cases(s.room, s.form);
  c.spec.params = {};
  Problem p = s.problem(c);
  const Array &k = p.inputs.at("k"), &v = p.inputs.at("v"), &beta = p.inputs.at("beta");
  const int T = k.shape[1], K = k.shape[2], V = v.shape[2], group = c.spec.shape.own() / c.spec.shape.shared();
  for (int h = 0; h < v.shape[0]; ++h)
    p.inputs.at("log_decay").data[static_cast<std::size_t>(h * T + T - 1)] = -std::numeric_limits<double>::infinity();
  const Array state = s.run(p, Format::exact, c.tile).outputs.at("final_state");
  for (int h = 0; h < v.shape[0]; ++h)
    for (int i = 0; i < K; ++i)
      for (int j = 0; j < V; ++j) {
        const double want = beta.data[laws::index(beta, h, T - 1)] * k.data[laws::index(k, h / group, T - 1, i)] *
                            v.data[laws::index(v, h, T - 1, j)];
        // Two products, in either order: each rounds once in fp64 here and in the kernel.
        RC_ASSERT(std::fabs(state.data[laws::index(state, h, i, j)] - want) <=
                  4 * unit_roundoff(Format::fp64) * std::fabs(want));
      }
}

/// undecayed(g, beta, v) = decayed(g, beta / alpha, alpha v) (delta-family.md I16), for alpha a power of two.
ASSAY_PROPERTY(gated_deltanet_chunkwise, the_two_errors_are_one_rule) {
  const laws::Subject s = gated_chunkwise();
  LawCase c = *law_cases(s.room, s.form);
  c.spec.params = {{"error", "undecayed"}};
  Problem p = s.problem(c);
  p.cotangents.clear();
  for (double& x : p.inputs.at("log_decay").data) x = -0.6931471805599453;  // log 1/2, off by 2.4e-17
  Problem other = p;
  other.params["error"] = "decayed";
  for (double& x : other.inputs.at("beta").data) x *= 2;
  for (double& x : other.inputs.at("v").data) x /= 2;
  Arrays allowed = laws::allowance(s, p, Format::fp64, c.tile);
  // alpha is 1/2 to one unit roundoff, which the fp64 contract's own gate site allows at every token.
  laws::expect_within(flat(s.run(p, Format::exact, c.tile)), flat(s.run(other, Format::exact, c.tile)), allowed, 2);
}

/// The gate gradients telescope (delta-family.md section 4, error on the decayed state, p = k):
///   dg_t + 2 beta_t dbeta_t - <k_t, dk_t> - <q_t, dq_t> = dg_{t+1},  and <dS_T, S_T> after the last token
/// since <k, dk> holds the write part, beta dbeta, and the read part <p, dp>.
ASSAY_PROPERTY(gated_deltanet_chunkwise, gate_gradients_telescope) {
  const laws::Subject s = gated_chunkwise();
  LawCase c = *law_cases(s.room, s.form);
  c.spec.params = {};
  c.spec.shape.heads = c.spec.shape.shared_heads;  // a shared key's gradient is a sum over heads
  const Problem p = s.problem(c);
  const Arrays got = flat(s.run(p, c.spec.precision, c.tile)),
               allowed = laws::allowance(s, p, c.spec.precision, c.tile);
  const Array one({1}, {1});
  const int T = c.spec.shape.seq_len;
  const auto part = [](const Array& a, int at, int count) {
    const std::size_t size = a.data.size() / static_cast<std::size_t>(count);
    const auto begin = a.data.begin() + static_cast<std::ptrdiff_t>(size) * at;
    return Array({static_cast<int>(size)}, {begin, begin + static_cast<std::ptrdiff_t>(size)});
  };
  for (int h = 0; h < c.spec.shape.own(); ++h)
    for (int t = 0; t < T; ++t) {
      const int at = h * T + t, all = c.spec.shape.own() * T;
      const auto term = [&](const char* name) {
        return laws::product(part(p.inputs.at(name), at, all), part(got.at(std::string("d_") + name), at, all),
                             part(allowed.at(std::string("d_") + name), at, all));
      };
      const auto gate = [&](int i) {
        return laws::product(one, part(got.at("d_log_decay"), i, all), part(allowed.at("d_log_decay"), i, all));
      };
      const laws::Product next = t + 1 < T ? gate(at + 1)
                                           : laws::product(part(p.cotangents.at("final_state"), h, c.spec.shape.own()),
                                                           part(got.at("final_state"), h, c.spec.shape.own()),
                                                           part(allowed.at("final_state"), h, c.spec.shape.own()));
      laws::expect_zero_sum({{1, gate(at)}, {2, term("beta")}, {-1, term("k")}, {-1, term("q")}, {-1, next}});
    }
}

}  // namespace
}  // namespace assay
