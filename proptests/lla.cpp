// Local linear attention against its definitions: the weighted regression with an intercept, the Sigma form by
// elimination, conjugate gradients as the streaming kernel writes them, and the identities of lla-family.md sections 3
// to 6, 9 and 10.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/laws/laws.hpp"
#include "proptests/laws/lla_laws.hpp"
#include "proptests/laws/reference_laws.hpp"
#include "reference/core/rounding.hpp"
#include "reference/families/exact_rank.hpp"

ASSAY_KILLS_ITS_MUTANTS(lla)

namespace assay::laws {
namespace {

/// The settings of a problem, read by themselves.
struct Settings {
  bool causal = true;
  long window = 0, iterations = 0, blocks = 1;
  std::string mode = "mass", solver = "direct", form = "sigma";
  Mp100 h, tolerance;

  explicit Settings(const ExactProblem& p) : h(parameter(p, "bandwidth")), tolerance(parameter(p, "tolerance")) {
    const auto read = [&p](const char* name, auto& value) {
      if (const auto it = p.params.find(name); it != p.params.end())
        value = std::get<std::remove_reference_t<decltype(value)>>(it->second);
    };
    read("causal", causal), read("window", window), read("iterations", iterations), read("blocks", blocks);
    read("lambda_mode", mode), read("solver", solver), read("block_form", form);
  }
  bool direct() const { return solver == "direct"; }
  bool centred_blocks() const { return direct() && blocks > 1 && form == "centered"; }
  std::pair<int, int> visible(int i, int n, int T) const {
    const int last = causal ? std::max(0, std::min(T, i + T - n + 1)) : T;
    return {window > 0 ? std::max(0, last - static_cast<int>(window)) : 0, last};
  }
};

/// One head's tensors, with the ridge of every row and dimension; S carries slopes where a derivative is wanted.
template <class S>
struct Head {
  Tensor<S, 2> q, k, v, lambda;
  S h;
};

Head<Mp100> head_at(const ExactProblem& p, int head) {
  const int H = heads_of(p);
  const ExactMatrix q = head_of(p.inputs.at("q"), H, head);
  return {q, head_of(p.inputs.at("k"), H, head), head_of(p.inputs.at("v"), H, head),
          ridge_of(p.inputs.at("lambda"), H, head, q.size(0), q.size(1)), parameter(p, "bandwidth")};
}

/// L(7) for row i, weights unshifted: w, omega, mu, and Sigma with its ridge, off-diagonal blocks left out.
template <class S>
struct Sums {
  int first = 0, last = 0;
  S max = S(0), omega = S(0);
  std::vector<S> w, mu, ridge;
  Tensor<S, 2> z, sigma;
};

template <class S>
Sums<S> sums_of(const Settings& s, const Head<S>& in, int i) {
  const int K = in.k.size(1), size = K / static_cast<int>(s.blocks);
  Sums<S> r;
  std::tie(r.first, r.last) = s.visible(i, in.q.size(0), in.k.size(0));
  r.mu.assign(static_cast<std::size_t>(K), S(0));
  r.z = Tensor<S, 2>(r.last - r.first, K), r.sigma = Tensor<S, 2>(K, K);
  for (int j = r.first; j < r.last; ++j) {
    S score = S(0);
    for (int x = 0; x < K; ++x) score += in.q(i, x) * in.k(j, x) / in.h;
    if (j == r.first || score > r.max) r.max = score;
    r.w.push_back(exp(score));
    r.omega += r.w.back();
    for (int x = 0; x < K; ++x) r.z(j - r.first, x) = in.k(j, x) - in.q(i, x);
    for (int x = 0; x < K; ++x) {
      r.mu[static_cast<std::size_t>(x)] += r.w.back() * r.z(j - r.first, x);
      for (int y = 0; y < K; ++y)
        if (x / size == y / size) r.sigma(x, y) += r.w.back() * r.z(j - r.first, x) * r.z(j - r.first, y);
    }
  }
  const S phi = s.mode == "absolute" ? S(1) : s.mode == "max" ? exp(r.max) : r.omega;
  for (int x = 0; x < K; ++x) {
    r.ridge.push_back(phi * in.lambda(i, x));
    r.sigma(x, x) += r.ridge.back();
  }
  return r;
}

/// Section 5 for one block [from, to) and right-hand side `b`, in units of exp(s - m): x_T and the steps taken. The
/// matrix is never formed; its product is that of the streaming kernel, from uncentred sums.
std::pair<std::vector<Mp100>, int> flash_cg(const Settings& s, const Head<Mp100>& in, const Sums<Mp100>& r, int i,
                                            int from, int to, std::vector<Mp100> b) {
  const int T = static_cast<int>(s.iterations);
  const Mp100 unit = exp(-r.max);
  std::vector<Mp100> x(b.size()), p = b, M(b.size());
  const auto at = [from](auto& list, int a) -> auto& { return list[static_cast<std::size_t>(a - from)]; };
  for (int j = r.first; j < r.last; ++j)
    for (int a = from; a < to; ++a) at(M, a) += unit * r.w[static_cast<std::size_t>(j - r.first)] * in.k(j, a);
  const auto inner = [](const std::vector<Mp100>& a, const std::vector<Mp100>& c) {
    Mp100 sum = 0;
    for (std::size_t e = 0; e < a.size(); ++e) sum += a[e] * c[e];
    return sum;
  };
  for (int t = 0; t < T; ++t) {
    const Mp100 n = inner(b, b);
    if (sqrt(n) <= s.tolerance) return {x, t};
    Mp100 qp = 0;
    for (int a = from; a < to; ++a) qp += in.q(i, a) * at(p, a);
    const Mp100 Mp = inner(M, p);
    std::vector<Mp100> Sp(b.size());
    for (int j = r.first; j < r.last; ++j) {
      Mp100 kp = 0;
      for (int a = from; a < to; ++a) kp += in.k(j, a) * at(p, a);
      for (int a = from; a < to; ++a) at(Sp, a) += unit * r.w[static_cast<std::size_t>(j - r.first)] * kp * in.k(j, a);
    }
    for (int a = from; a < to; ++a)
      at(Sp, a) += -qp * at(M, a) - Mp * in.q(i, a) + unit * r.omega * qp * in.q(i, a) +
                   unit * r.ridge[static_cast<std::size_t>(a)] * at(p, a);
    const Mp100 alpha = n / inner(p, Sp);
    for (std::size_t e = 0; e < b.size(); ++e) x[e] += alpha * p[e], b[e] -= alpha * Sp[e];
    const Mp100 beta = inner(b, b) / n;
    for (std::size_t e = 0; e < b.size(); ++e) p[e] = b[e] + beta * p[e];
  }
  return {x, T};
}

/// Sigma^{-1} b in units of exp(s - m), by elimination or T steps; and the most steps of a block.
std::pair<std::vector<Mp100>, int> solved(const Settings& s, const Head<Mp100>& in, const Sums<Mp100>& r, int i,
                                          const std::vector<Mp100>& b) {
  const int K = in.k.size(1), size = K / static_cast<int>(s.blocks);
  if (s.direct()) {
    ExactMatrix shifted = r.sigma;
    for (Mp100& x : shifted.data) x *= exp(-r.max);
    return {eliminated(shifted, b), 0};
  }
  std::pair<std::vector<Mp100>, int> result;
  for (int from = 0; from < K; from += size) {
    const auto [x, steps] = flash_cg(s, in, r, i, from, from + size, {b.begin() + from, b.begin() + from + size});
    result.first.insert(result.first.end(), x.begin(), x.end());
    result.second = std::max(result.second, steps);
  }
  return result;
}

/// What row i answers and caches, from the definitions.
struct DefinedRow {
  std::vector<Mp100> o, probe;
  Mp100 denominator = 0, mean_t = 0;  // delta', tbar
  int iterations = 0;
};

/// y_b = (C_bb + eps_b)^{-1} zbar_b with C from raw second moments, o = sum_j p_j (1 - y.(k_j - kbar)) v_j.
DefinedRow centred_blocks(const Settings& s, const Head<Mp100>& in, const Sums<Mp100>& r) {
  const int K = in.k.size(1);
  ExactMatrix system = r.sigma;  // omega (C + eps + zbar zbar^T), in blocks
  std::vector<Mp100> offset = r.mu;
  for (Mp100& x : offset) x /= r.omega;
  for (int x = 0; x < K; ++x)
    for (int y = 0; y < K; ++y) {
      system(x, y) /= r.omega;
      if (x / (K / s.blocks) == y / (K / s.blocks))
        system(x, y) -= offset[static_cast<std::size_t>(x)] * offset[static_cast<std::size_t>(y)];
    }
  const std::vector<Mp100> tilt = eliminated(system, offset);
  DefinedRow d{std::vector<Mp100>(static_cast<std::size_t>(in.v.size(1))), tilt, 0, 0, 0};
  Mp100 eta = 0;
  for (std::size_t x = 0; x < tilt.size(); ++x) eta += offset[x] * tilt[x];
  for (int j = r.first; j < r.last; ++j) {
    Mp100 score = 1 + eta;
    for (int x = 0; x < K; ++x) score -= tilt[static_cast<std::size_t>(x)] * r.z(j - r.first, x);
    for (int x = 0; x < in.v.size(1); ++x)
      d.o[static_cast<std::size_t>(x)] += r.w[static_cast<std::size_t>(j - r.first)] / r.omega * score * in.v(j, x);
  }
  for (Mp100& x : d.probe) x /= 1 + eta;
  d.mean_t = eta / (1 + eta), d.denominator = r.omega * exp(-r.max) / (1 + eta);
  return d;
}

DefinedRow defined_row(const Settings& s, const Head<Mp100>& in, int i) {
  const int K = in.k.size(1), V = in.v.size(1);
  const Sums<Mp100> r = sums_of(s, in, i);
  DefinedRow d{std::vector<Mp100>(static_cast<std::size_t>(V)), std::vector<Mp100>(static_cast<std::size_t>(K)), 0, 0,
               0};
  if (r.first == r.last) return d;
  if (s.centred_blocks()) return centred_blocks(s, in, r);
  const Mp100 unit = exp(-r.max);
  std::vector<Mp100> mu = r.mu;
  for (Mp100& x : mu) x *= unit;
  std::tie(d.probe, d.iterations) = solved(s, in, r, i, mu);
  d.denominator = unit * r.omega;
  for (std::size_t x = 0; x < mu.size(); ++x) d.denominator -= mu[x] * d.probe[x];
  d.mean_t = 1 - d.denominator / (unit * r.omega);
  if (s.direct() && s.blocks == 1) {
    ExactMatrix visible(r.last - r.first, V);
    std::copy_n(in.v.data.begin() + std::ptrdiff_t{r.first} * V, visible.data.size(), visible.data.begin());
    d.o = regression_intercept(r.w, r.z, visible, r.ridge);
    return d;
  }
  for (int j = r.first; j < r.last; ++j) {
    Mp100 score = 1;
    for (int x = 0; x < K; ++x) score -= r.z(j - r.first, x) * d.probe[static_cast<std::size_t>(x)];
    for (int x = 0; x < V; ++x)
      d.o[static_cast<std::size_t>(x)] +=
          unit * r.w[static_cast<std::size_t>(j - r.first)] * score / d.denominator * in.v(j, x);
  }
  return d;
}

/// The room's answer and row caches are those of the definitions.
std::string is_what_it_is_defined_to_be(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  const Settings s(p);
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p);
  for (int head = 0; head < H; ++head) {
    const Head<Mp100> in = head_at(p, head);
    ExactArrays want;
    for (int i = 0; i < in.q.size(0); ++i) {
      const DefinedRow row = defined_row(s, in, i);
      const auto put = [&want](const char* name, const std::vector<Mp100>& numbers) {
        auto& data = want[name].data;
        data.insert(data.end(), numbers.begin(), numbers.end());
      };
      put("o", row.o), put("rows.probe", row.probe);
      put("rows.denominator", {row.denominator}), put("rows.mean_t", {row.mean_t});
      put("rows.boundary", {Mp100(row.mean_t / (1 - row.mean_t))});
      // Without a tolerance the steps after convergence are the rounding errors' own affair.
      if (!s.direct() && s.tolerance > 0) put("rows.iterations", {Mp100(row.iterations)});
    }
    for (const auto& [name, numbers] : want)
      if (std::string e = near(name, {{}, head_of(got.outputs.at(name), H, head).data}, numbers); !e.empty()) return e;
  }
  return "";
}

/// The quantity whose derivative the Sigma form's backward is, at a probe rho and a dual u that are held:
///   g.o(rho) + u.(mu - Sigma rho)
template <class S>
S held(const Settings& s, const Head<S>& in, int i, const std::vector<Mp100>& g, const std::vector<Mp100>& rho,
       const std::vector<Mp100>& u) {
  const int K = in.k.size(1);
  const Sums<S> r = sums_of(s, in, i);
  S numerator = S(0), delta = r.omega, residual = S(0);
  for (int x = 0; x < K; ++x) {
    const auto at = static_cast<std::size_t>(x);
    delta -= r.mu[at] * S(rho[at]);
    residual += S(u[at]) * r.mu[at];
    for (int y = 0; y < K; ++y) residual -= S(u[at]) * r.sigma(x, y) * S(rho[static_cast<std::size_t>(y)]);
  }
  for (int j = r.first; j < r.last; ++j) {
    S score = S(1), a = S(0);
    for (int x = 0; x < K; ++x) score -= r.z(j - r.first, x) * S(rho[static_cast<std::size_t>(x)]);
    for (int x = 0; x < in.v.size(1); ++x) a += S(g[static_cast<std::size_t>(x)]) * in.v(j, x);
    numerator += r.w[static_cast<std::size_t>(j - r.first)] * score * a;
  }
  return numerator / delta + residual;
}

/// Section 4: the gradient of the solution reached, not of the steps. For conjugate gradients, whose two solves it
/// takes as they end, and for direct solves, where it is the gradient.
std::string gradients_hold_the_solves(const Room& room, const Problem& given) {
  using D = Dual<Mp100>;
  const ExactProblem p = ungrouped(exact(given));
  const Settings s(p);
  if (s.centred_blocks()) return "";
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p);
  for (int head = 0; head < H; ++head) {
    const Head<Mp100> in = head_at(p, head);
    const ExactMatrix g = head_of(p.cotangents.at("o"), H, head);
    const int n = in.q.size(0), K = in.k.size(1);
    std::vector<std::vector<Mp100>> probes, duals;
    for (int i = 0; i < n; ++i) {
      const Sums<Mp100> r = sums_of(s, in, i);
      const DefinedRow row = defined_row(s, in, i);
      const Mp100 unit = exp(-r.max), delta = row.denominator / unit;
      std::vector<Mp100> b(static_cast<std::size_t>(K));
      Mp100 beta = 0;
      for (int x = 0; x < g.size(1); ++x) beta += g(i, x) * row.o[static_cast<std::size_t>(x)] / delta;
      for (int j = r.first; j < r.last; ++j)
        for (int x = 0; x < g.size(1); ++x)
          for (int y = 0; y < K; ++y)
            b[static_cast<std::size_t>(y)] +=
                g(i, x) * in.v(j, x) * r.w[static_cast<std::size_t>(j - r.first)] / delta * r.z(j - r.first, y);
      if (r.first < r.last) b = solved(s, in, r, i, b).first;
      for (std::size_t x = 0; x < b.size(); ++x) b[x] = beta * row.probe[x] - unit * b[x];
      probes.push_back(row.probe), duals.push_back(b);
    }
    const auto dual = [](const ExactMatrix& m) {
      Tensor<D, 2> t(m.extent);
      std::copy(m.data.begin(), m.data.end(), t.data.begin());
      return t;
    };
    for (const char* name : {"q", "k", "v", "lambda", "bandwidth"}) {
      Head<D> moved{dual(in.q), dual(in.k), dual(in.v), dual(in.lambda), D(in.h)};
      const std::string_view which = name;
      Tensor<D, 2>& tensor = which == "q" ? moved.q : which == "k" ? moved.k : which == "v" ? moved.v : moved.lambda;
      const ExactArray& gradient = got.gradients.at(name);
      // The gradient of a ridge is in the ridge's own shape: one direction for what it stands for.
      const int rows = which != "lambda" || gradient.shape.size() > 1 ? tensor.size(0) : 1;
      const int columns = which != "lambda" || gradient.shape.size() > 2 ? tensor.size(1) : 1;
      ExactMatrix direction(rows, columns);
      for (std::size_t e = 0; e < direction.data.size(); ++e)
        direction.data[e] = Mp100(static_cast<int>(e % 7) - 3) / 3;
      Mp100 predicted = 0, size = 1;
      if (which == "bandwidth") {
        if (H > 1) continue;  // summed over the heads
        moved.h.slope = 1, predicted = gradient.data[0];
      } else {
        const ExactMatrix own =
            which == "lambda" ? ridge_of(gradient, H, head, rows, columns) : head_of(gradient, H, head);
        for (int i = 0; i < tensor.size(0); ++i)
          for (int x = 0; x < tensor.size(1); ++x)
            tensor(i, x).slope = direction(rows == 1 ? 0 : i, columns == 1 ? 0 : x);
        for (std::size_t e = 0; e < own.data.size(); ++e) {
          predicted += own.data[e] * direction.data[e];
          size += abs(own.data[e] * direction.data[e]);
        }
      }
      Mp100 slope = 0;
      for (int i = 0; i < n; ++i)
        if (const auto [first, last] = s.visible(i, n, in.k.size(0)); first < last)
          slope +=
              held(s, moved, i, row_of(g, i), probes[static_cast<std::size_t>(i)], duals[static_cast<std::size_t>(i)])
                  .slope;
      if (!(abs(slope - predicted) <= Mp100("1e-80") * size))
        return text("d", name, " of head ", head, ": ", to_decimal(predicted, 20), " instead of ",
                    to_decimal(slope, 20));
    }
  }
  return "";
}

/// Where the system is solved, backward is the adjoint; conjugate gradients have their own law. So has a lone key in
/// blocks of Sigma: o = v whatever the rest, and gradients that should vanish are rounding errors.
std::string direct_backward_is_the_adjoint(const Room& room, const Problem& p) {
  const Settings s(exact(p));
  const bool lone = p.inputs.at("k").shape[1] == 1 && s.blocks > 1 && !s.centred_blocks();
  return s.direct() && !lone ? backward_is_the_adjoint(room, p) : "";
}

ExactProblem with(ExactProblem p, const std::vector<std::pair<std::string, Param>>& params) {
  for (const auto& [name, value] : params) p.params[name] = value;
  return p;
}
ExactProblem without(ExactProblem p, const std::vector<std::string>& params) {
  for (const std::string& name : params) p.params.erase(name);
  return p;
}

/// T >= K steps are the solution, gradients included.
std::string as_many_steps_as_dimensions_solve(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  const Settings s(p);
  if (s.centred_blocks()) return "";
  const ExactAnswer direct = answer(room, with(p, {{"solver", "direct"}}));
  const ExactAnswer steps =
      answer(room, with(p, {{"solver", "cg"}, {"iterations", long{p.inputs.at("k").shape[2]}}, {"tolerance", "0"}}));
  if (std::string e = near("o", steps.outputs.at("o"), direct.outputs.at("o")); !e.empty()) return e;
  for (const auto& [name, a] : direct.gradients)
    if (std::string e = near(name, steps.gradients.at(name), a); !e.empty()) return "gradients." + e;
  return "";
}

/// No step, no correction: softmax attention, gradients included.
std::string no_steps_are_softmax_attention(const Room& room, const Problem& given) {
  const ExactProblem p = with(exact(given), {{"solver", "cg"}, {"iterations", 0L}, {"block_form", "sigma"}});
  const ExactAnswer none = answer(room, p);
  ExactProblem plain = without(p, {"solver", "iterations", "blocks", "block_form", "lambda_mode", "tolerance"});
  plain.inputs.erase("lambda");
  const ExactAnswer softmax = answer("softmax_attention", plain);
  if (std::string e = near("o", none.outputs.at("o"), softmax.outputs.at("o")); !e.empty()) return e;
  for (const auto& [name, a] : softmax.gradients)
    if (std::string e = near(name, none.gradients.at(name), a); !e.empty()) return "gradients." + e;
  return "";
}

/// LLA is Parallax along (1 + eta) rho*, and 1 + eta times as far from softmax attention as Parallax along rho*; for
/// conjugate gradients and blocks too, with what they reach.
std::string is_parallax_along_its_probe(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  const ExactAnswer got = answer(room, p);
  ExactProblem other = without(p, {"solver", "iterations", "blocks", "block_form", "lambda_mode", "tolerance"});
  other.inputs.erase("lambda");
  const ExactAnswer softmax = answer("softmax_attention", other);
  const ExactArray factor = mapped(got.outputs.at("rows.boundary"), [](const Mp100& eta) { return Mp100(1 + eta); });
  other.inputs["rho"] = got.outputs.at("rows.probe");
  const ExactAnswer along = answer("parallax", other);
  other.inputs["rho"] = scaled_rows(got.outputs.at("rows.probe"), factor);
  if (std::string e = near("o", answer("parallax", other).outputs.at("o"), got.outputs.at("o")); !e.empty()) return e;
  const auto from_softmax = [&](const ExactAnswer& a) {
    return mapped(a.outputs.at("o"), softmax.outputs.at("o"),
                  [](const Mp100& x, const Mp100& y) { return Mp100(x - y); });
  };
  return near("o - softmax", scaled_rows(from_softmax(along), factor), from_softmax(got));
}

/// 0 <= tbar < 1 and delta > 0 in one block, for every number of steps, and |o - vbar|^2 <= eta tr Cov_p(v).
std::string stays_within_its_bounds(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  const Settings s(p);
  if (s.blocks > 1) return "";
  const ExactAnswer got = answer(room, p);
  const int H = heads_of(p);
  for (int head = 0; head < H; ++head) {
    const Head<Mp100> in = head_at(p, head);
    const ExactMatrix o = head_of(got.outputs.at("o"), H, head), mean = head_of(got.outputs.at("rows.mean_v"), H, head);
    const auto cache = [&](const char* name, int i) { return head_of(got.outputs.at(name), H, head)(i, 0); };
    for (int i = 0; i < o.size(0); ++i) {
      const Sums<Mp100> r = sums_of(s, in, i);
      if (r.first == r.last) continue;
      const Mp100 tbar = cache("rows.mean_t", i), eta = cache("rows.boundary", i);
      if (!(tbar >= 0 && tbar < 1 && cache("rows.denominator", i) > 0))
        return text("tbar of row ", i, " is not in [0, 1)");
      Mp100 spread = 0, distance = 0;
      for (int x = 0; x < o.size(1); ++x) {
        distance += (o(i, x) - mean(i, x)) * (o(i, x) - mean(i, x));
        for (int j = r.first; j < r.last; ++j)
          spread += r.w[static_cast<std::size_t>(j - r.first)] / r.omega * (in.v(j, x) - mean(i, x)) *
                    (in.v(j, x) - mean(i, x));
      }
      if (!(distance <= eta * spread * (1 + Mp100("1e-80")))) return text("row ", i, " is too far from the mean");
    }
  }
  return "";
}

/// One more coordinate t in every query and key moves all scores by t^2 / h and no offset. Nothing changes, but in mode
/// absolute, where lambda has grown with the weights; along t the gradient says so: sum_j D_ij = 0, or
/// sum_j D_ij + lambda.dlambda = 0 (Euler).
std::string a_common_shift_is_a_unit_of_the_ridge(const Room& room, const Problem& given) {
  const ExactProblem p = ungrouped(exact(given));
  const Settings s(p);
  if (s.blocks > 1 || !s.direct()) return "";
  const Mp100 t = Mp100(5) / 4;
  const int H = heads_of(p), K = p.inputs.at("k").shape[2];
  const auto widened = [K](const ExactArray& a, const Mp100& last) {
    ExactArray wide({a.shape[0], a.shape[1], K + 1});
    for (std::size_t i = 0, from = 0; i < wide.data.size(); ++i)
      wide.data[i] = i % static_cast<std::size_t>(K + 1) == static_cast<std::size_t>(K) ? last : a.data[from++];
    return wide;
  };
  ExactProblem shifted = p;
  for (const char* name : {"q", "k"}) shifted.inputs.at(name) = widened(p.inputs.at(name), t);
  ExactArray& lambda = shifted.inputs.at("lambda");
  if (lambda.shape.size() == 3) lambda = widened(lambda, 1);
  if (s.mode == "absolute") lambda = mapped(lambda, [&](const Mp100& x) { return Mp100(x * exp(t * t / s.h)); });
  const ExactAnswer plain = answer(room, p), got = answer(room, shifted);
  if (std::string e = near("o", got.outputs.at("o"), plain.outputs.at("o")); !e.empty()) return e;
  ExactArray of_shift({H}), expected({H});
  for (int head = 0; head < H; ++head) {
    for (const char* name : {"q", "k"}) {
      const ExactMatrix d = head_of(got.gradients.at(name), H, head);
      for (int i = 0; i < d.size(0); ++i) of_shift.data[static_cast<std::size_t>(head)] += d(i, K);
    }
    if (s.mode != "absolute") continue;
    const int n = p.inputs.at("q").shape[1];
    const ExactMatrix ridge = ridge_of(lambda, H, head, n, K + 1);
    const ExactArray& dlambda = got.gradients.at("lambda");
    const std::size_t axes = dlambda.shape.size();
    const ExactMatrix d = ridge_of(dlambda, H, head, n, K + 1);
    // The gradient has one number for all that share a ridge: it counts once.
    for (int i = 0; i < (axes > 1 ? n : 1); ++i)
      for (int x = 0; x < (axes > 2 ? K + 1 : 1); ++x)
        expected.data[static_cast<std::size_t>(head)] -= 2 * t / s.h * ridge(i, x) * d(i, x);
  }
  return near("sum_j D", of_shift, expected);
}

/// (q, k, h, lambda) -> (c q, c k, c^2 h, c^2 lambda) changes nothing: q.dq + k.dk + 2 h dh + 2 lambda.dlambda = 0.
std::string units_do_not_matter(const Room& room, const Problem& given) {
  const ExactProblem p = exact(given);
  if (!Settings(p).direct()) return "";
  const ExactAnswer got = answer(room, p);
  Mp100 sum = 2 * parameter(p, "bandwidth") * got.gradients.at("bandwidth").data[0];
  for (const auto& [name, weight] : {std::pair{"q", 1}, {"k", 1}, {"lambda", 2}})
    for (const Mp100& x : product(p.inputs.at(name), got.gradients.at(name)).data) sum += weight * x;
  return near("q.dq + k.dk + 2 h dh + 2 lambda.dlambda", {{}, {sum}}, {{}, {Mp100(0)}});
}

/// Tokens visible to all: no mask.
ExactProblem unmasked(const Problem& given) { return with(without(exact(given), {"window"}), {{"causal", false}}); }

/// Values on a line v = b + B k come out as b + B q without a ridge, where the keys span the dimensions.
std::string lines_are_reproduced(const Room& room, const Problem& given) {
  ExactProblem p = unmasked(given);
  const Settings s(p);
  const int H = heads_of(p), T = p.inputs.at("k").shape[1], K = p.inputs.at("k").shape[2];
  if (s.blocks > 1 || !s.direct() || T <= K) return "";
  const int V = p.inputs.at("v").shape[2];
  const auto on_line = [&](const ExactMatrix& x) {
    ExactMatrix y(x.size(0), V);
    for (int i = 0; i < y.size(0); ++i)
      for (int c = 0; c < V; ++c) {
        y(i, c) = Mp100(c + 1) / 2;
        for (int a = 0; a < K; ++a) y(i, c) += Mp100(2 * a - 3 * c + 1) / 4 * x(i, a);
      }
    return y;
  };
  const int shared = p.inputs.at("k").shape[0];
  for (int head = 0; head < shared; ++head)
    set_head(p.inputs.at("v"), head, on_line(head_of(p.inputs.at("k"), shared, head)));
  for (Mp100& x : p.inputs.at("lambda").data) x = 0;
  const ExactAnswer got = answer(room, p);
  for (int head = 0; head < H; ++head)
    if (std::string e = near("o", {{}, head_of(got.outputs.at("o"), H, head).data},
                             {{}, on_line(head_of(p.inputs.at("q"), H, head)).data});
        !e.empty())
      return e;
  return "";
}

/// Every token doubled is lambda halved, or nothing at all in mode mass; dq is the same.
std::string doubled_tokens_halve_the_ridge(const Room& room, const Problem& given) {
  ExactProblem p = unmasked(given);
  const Settings s(p);
  if (!s.direct()) return "";
  ExactProblem twice = p;
  for (const char* name : {"k", "v"}) {
    ExactArray& a = twice.inputs.at(name);
    const std::size_t row = static_cast<std::size_t>(a.shape[2]);
    ExactArray wide({a.shape[0], 2 * a.shape[1], a.shape[2]});
    for (std::size_t i = 0; i < wide.data.size(); ++i) wide.data[i] = a.data[i / (2 * row) * row + i % row];
    a = wide;
  }
  if (s.mode != "mass")
    for (Mp100& x : p.inputs.at("lambda").data) x /= 2;
  const ExactAnswer one = answer(room, p), two = answer(room, twice);
  if (std::string e = near("o", two.outputs.at("o"), one.outputs.at("o")); !e.empty()) return e;
  return near("dq", two.gradients.at("q"), one.gradients.at("q"));
}

/// The order of what is seen does not matter.
std::string visible_tokens_may_be_reordered(const Room& room, const Problem& given) {
  const ExactProblem p = unmasked(given);
  ExactProblem backwards = p;
  const auto reversed = [](const ExactArray& a) {
    ExactArray b = a;
    const int H = a.shape[0], T = a.shape[1];
    for (int head = 0; head < H; ++head) {
      ExactMatrix m = head_of(a, H, head), r = m;
      for (int i = 0; i < T; ++i)
        for (int x = 0; x < m.size(1); ++x) r(i, x) = m(T - 1 - i, x);
      set_head(b, head, r);
    }
    return b;
  };
  for (const char* name : {"k", "v"}) backwards.inputs.at(name) = reversed(p.inputs.at(name));
  const ExactAnswer a = answer(room, p), b = answer(room, backwards);
  if (std::string e = near("o", b.outputs.at("o"), a.outputs.at("o")); !e.empty()) return e;
  if (std::string e = near("dq", b.gradients.at("q"), a.gradients.at("q")); !e.empty()) return e;
  return near("dk", b.gradients.at("k"), reversed(a.gradients.at("k")));
}

/// A window as long as the sequence is none, and one key is its own value.
std::string windows_end_where_they_should(const Room& room, const Problem& given) {
  const ExactProblem p = with(without(exact(given), {"window"}), {{"causal", true}});
  const ExactArray& v = p.inputs.at("v");
  const ExactAnswer full = answer(room, p), whole = answer(room, with(p, {{"window", long{v.shape[1]}}}));
  if (std::string e = same("o", whole.outputs.at("o"), full.outputs.at("o")); !e.empty()) return e;
  const ExactAnswer single = answer(room, with(p, {{"window", 1L}}));
  const int H = heads_of(p);
  for (int head = 0; head < H; ++head)
    if (std::string e = near("o", {{}, head_of(single.outputs.at("o"), H, head).data}, {{}, head_of(v, H, head).data});
        !e.empty())
      return e;
  return "";
}

/// One block is no blocks in either form; one dimension a block, centred, is a ratio a dimension.
std::string blocks_end_where_they_should(const Room& room, const Problem& given) {
  const ExactProblem p = with(without(exact(given), {"block_form"}), {{"blocks", 1L}, {"solver", "direct"}});
  const ExactAnswer full = answer(room, without(p, {"blocks"}));
  for (const char* form : {"sigma", "centered"})
    if (std::string e = same("o", answer(room, with(p, {{"block_form", form}})).outputs.at("o"), full.outputs.at("o"));
        !e.empty())
      return e;
  const ExactProblem single =
      with(p, {{"blocks", long{p.inputs.at("k").shape[2]}}, {"block_form", "centered"}, {"lambda_mode", "mass"}});
  const ExactAnswer got = answer(room, single);
  const Settings s(single);
  const int H = heads_of(p);
  for (int head = 0; head < H; ++head) {
    const Head<Mp100> in = head_at(single, head);
    ExactArray want;
    for (int i = 0; i < in.q.size(0); ++i) {
      const Sums<Mp100> r = sums_of(s, in, i);
      for (int c = 0; c < in.v.size(1); ++c) {
        const auto mean_of = [&](const auto& f) {
          Mp100 sum = 0;
          for (int j = r.first; j < r.last; ++j) sum += r.w[static_cast<std::size_t>(j - r.first)] / r.omega * f(j);
          return sum;
        };
        Mp100 o = mean_of([&](int j) { return in.v(j, c); });
        for (int x = 0; x < in.k.size(1); ++x) {
          const auto k = [&](int j) { return in.k(j, x); };
          const Mp100 mean_k = mean_of(k), mean_v = mean_of([&](int j) { return in.v(j, c); });
          const Mp100 variance = mean_of([&](int j) { return Mp100(in.k(j, x) * in.k(j, x)); }) - mean_k * mean_k;
          const Mp100 covariance = mean_of([&](int j) { return Mp100(in.k(j, x) * in.v(j, c)); }) - mean_k * mean_v;
          o -= covariance * (mean_k - in.q(i, x)) / (variance + in.lambda(i, x));
        }
        want.data.push_back(o);
      }
    }
    if (std::string e = near("o", {{}, head_of(got.outputs.at("o"), H, head).data}, want); !e.empty()) return e;
  }
  return "";
}

/// Where half of the coordinates have no ridge, o is what small ones lead to, of which three tell all but the third
/// order: keys that are few, and what the other half has, included.
std::string no_ridge_is_where_small_ones_lead(const Room& room, const Problem& given) {
  ExactProblem p = exact(given);
  const Settings s(p);
  if (!s.direct() || (s.blocks > 1 && !s.centred_blocks())) return "";
  p.cotangents.clear();
  p.params["lambda0"] = "limit";
  const std::vector<int>& shape = p.inputs.at("q").shape;
  const auto o = [&](const Mp100& ridge) {
    ExactArray lambda(shape);
    for (std::size_t i = 0; i < lambda.data.size(); ++i) lambda.data[i] = i % 2 == 0 ? ridge : 1;
    p.inputs["lambda"] = lambda;
    return answer(room, p).outputs.at("o");
  };
  const Mp100 ridge("1e-25");
  const ExactArray none = o(0), one = o(ridge), two = o(2 * ridge), four = o(4 * ridge);
  Mp100 size = 1;
  for (const Mp100& x : none.data) size = std::max<Mp100>(size, abs(x));
  for (std::size_t i = 0; i < none.data.size(); ++i) {
    const Mp100 slope = abs(two.data[i] - one.data[i]) / size;
    const Mp100 limit = (8 * one.data[i] - 6 * two.data[i] + four.data[i]) / 3;
    // Beyond that the ridge is not small yet; the next order is about slope^3, and a solve loses what the ridge does.
    if (slope < Mp100("1e-15") && !(abs(limit - none.data[i]) <= Mp100("1e-40") * size))
      return text("o[", i, "]: ", to_decimal(none.data[i], 20), " where small ridges lead to ", to_decimal(limit, 20));
  }
  return "";
}

/// lambda (LLA - SA) -> -X zbar as lambda grows (mode mass): the next order is 1 / lambda.
std::string large_ridges_leave_softmax_attention(const Room& room, const Problem& given) {
  ExactProblem p = with(exact(given), {{"solver", "direct"}, {"lambda_mode", "mass"}, {"blocks", 1L}});
  const Mp100 huge("1e85");
  for (Mp100& x : p.inputs.at("lambda").data) x = huge;
  const ExactAnswer got = answer(room, p);
  const Settings s(p);
  const int H = heads_of(p);
  for (int head = 0; head < H; ++head) {
    const Head<Mp100> in = head_at(p, head);
    const ExactMatrix mean = head_of(got.outputs.at("rows.mean_v"), H, head);
    ExactMatrix o = head_of(got.outputs.at("o"), H, head), want(o.extent);
    for (int i = 0; i < o.size(0); ++i) {
      const Sums<Mp100> r = sums_of(s, in, i);
      for (int c = 0; c < o.size(1); ++c) {
        o(i, c) = (o(i, c) - mean(i, c)) * huge;
        for (int j = r.first; j < r.last; ++j) {
          Mp100 along = 0;
          for (int x = 0; x < in.k.size(1); ++x)
            along += (r.z(j - r.first, x) - r.mu[static_cast<std::size_t>(x)] / r.omega) *
                     r.mu[static_cast<std::size_t>(x)] / r.omega;
          want(i, c) -= r.w[static_cast<std::size_t>(j - r.first)] / r.omega * along * in.v(j, c);
        }
      }
    }
    // 100 digits less the 85 that o and vbar share.
    for (std::size_t e = 0; e < o.data.size(); ++e)
      if (!(abs(o.data[e] - want.data[e]) <= Mp100("1e-12") * (1 + abs(want.data[e]))))
        return text("lambda (o - vbar): ", to_decimal(o.data[e], 15), " instead of ", to_decimal(want.data[e], 15));
  }
  return "";
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(lla, direct_backward_is_the_adjoint)
ASSAY_REFERENCE_OBEYS(lla, gradients_hold_the_solves)
ASSAY_REFERENCE_OBEYS(lla, is_what_it_is_defined_to_be)
ASSAY_REFERENCE_OBEYS(lla, as_many_steps_as_dimensions_solve)
ASSAY_REFERENCE_OBEYS(lla, no_steps_are_softmax_attention)
ASSAY_REFERENCE_OBEYS(lla, is_parallax_along_its_probe)
ASSAY_REFERENCE_OBEYS(lla, stays_within_its_bounds)
ASSAY_REFERENCE_OBEYS(lla, a_common_shift_is_a_unit_of_the_ridge)
ASSAY_REFERENCE_OBEYS(lla, units_do_not_matter)
ASSAY_REFERENCE_OBEYS(lla, lines_are_reproduced)
ASSAY_REFERENCE_OBEYS(lla, doubled_tokens_halve_the_ridge)
ASSAY_REFERENCE_OBEYS(lla, visible_tokens_may_be_reordered)
ASSAY_REFERENCE_OBEYS(lla, windows_end_where_they_should)
ASSAY_REFERENCE_OBEYS(lla, blocks_end_where_they_should)
ASSAY_REFERENCE_OBEYS(lla, no_ridge_is_where_small_ones_lead)
ASSAY_REFERENCE_OBEYS(lla, large_ridges_leave_softmax_attention)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(lla, is_what_it_is_defined_to_be, direct_backward_is_the_adjoint,
                                 gradients_hold_the_solves, no_ridge_is_where_small_ones_lead)

namespace assay {
namespace {

laws::Subject tiled() { return laws::subject(kernel_rooms(), "lla", "tiled"); }

/// `names` of `got`, which the kernel answers to `p` or nearly that without rounding, against `want`, as sharply as the
/// fp64 contracts of both can say.
void expect_exactly(const laws::Subject& s, const Problem& p, int tile, const Arrays& got, const Arrays& want,
                    const std::vector<std::string>& names, const Arrays& allowed_to_want = {}, double times = 2) {
  Arrays allowed = laws::allowance(s, p, Format::fp64, tile);
  std::erase_if(allowed, [&](const auto& entry) { return std::ranges::find(names, entry.first) == names.end(); });
  for (auto& [name, limits] : allowed)
    if (const auto it = allowed_to_want.find(name); it != allowed_to_want.end())
      for (std::size_t i = 0; i < limits.data.size(); ++i) limits.data[i] += it->second.data[i];
  laws::expect_within(got, want, allowed, times);
}

/// Where the answers lead as 1 / x vanishes, from what they are at x in `near` and at 2 x in `nearer`: 1e-30 away from
/// it they are not there yet, which shows where it is zero. Times counts three answers.
constexpr double richardson = 3;
Arrays in_the_limit(const laws::Subject& s, const Problem& near, const Problem& nearer, int tile) {
  const Arrays at = flat(s.run(near, Format::exact, tile));
  Arrays limit = flat(s.run(nearer, Format::exact, tile));
  for (auto& [name, array] : limit)
    for (std::size_t i = 0; i < array.data.size(); ++i) array.data[i] += array.data[i] - at.at(name).data[i];
  return limit;
}

/// Conjugate gradients that stop have another gradient: the solution's, at what they have reached. And where one key is
/// seen, blocks of Sigma have gradients that are rounding errors.
ASSAY_PROPERTY(lla_tiled, backward_is_the_adjoint) {
  const laws::Subject s = tiled();
  const LawCase c = *law_cases(s.room, s.form);
  const laws::Settings settings(laws::exact(s.problem(c)));
  RC_PRE(settings.direct());
  RC_PRE(settings.blocks == 1 || settings.centred_blocks() || c.spec.shape.seq_len > 1);
  laws::backward_is_the_adjoint(s, c);
}

/// (q, k, h, lambda) -> (c q, c k, c^2 h, c^2 lambda) changes nothing (lla-family.md section 10):
///   <q, dq> + <k, dk> + 2 h dh + 2 <lambda, dlambda> = 0
ASSAY_PROPERTY(lla_tiled, gradients_obey_scale) {
  const laws::Subject s = tiled();
  const LawCase c = *law_cases(s.room, s.form);
  const Problem p = s.problem(c);
  RC_PRE(laws::Settings(laws::exact(p)).direct());
  const Arrays got = flat(s.run(p, c.spec.precision, c.tile));
  const Arrays allowed = laws::allowance(s, p, c.spec.precision, c.tile);
  const auto against = [&](const std::string& name, const Array& known) {
    return laws::product(known, got.at("d_" + name), allowed.at("d_" + name));
  };
  const Array h({}, {std::stod(std::get<std::string>(p.params.at("bandwidth")))});
  laws::expect_zero_sum({{1, against("q", p.inputs.at("q"))},
                         {1, against("k", p.inputs.at("k"))},
                         {2, against("lambda", p.inputs.at("lambda"))},
                         {2, against("bandwidth", h)}});
}

/// The scores sum to one: constant values come out as they went in. (After a few steps in eight bits they are numbers
/// of any size, whose rounding is the whole of that sum.)
ASSAY_PROPERTY(lla_tiled, constant_values_come_out) {
  const laws::Subject s = tiled();
  const LawCase c = *law_cases(s.room, s.form);
  Problem p = s.problem(c);
  RC_PRE(laws::Settings(laws::exact(p)).direct() || info(c.spec.precision).bits > 8);
  for (double& x : p.inputs.at("v").data) x = 0.75;
  const Arrays got = flat(s.run(p, c.spec.precision, c.tile));
  const Arrays allowed = laws::allowance(s, p, c.spec.precision, c.tile);
  for (std::size_t i = 0; i < got.at("o").data.size(); ++i)
    RC_ASSERT(std::fabs(got.at("o").data[i] - 0.75) <= allowed.at("o").data[i]);
}

/// A ridge beyond all keys, or no step of conjugate gradients: softmax attention, gradients included.
ASSAY_PROPERTY(lla_tiled, ends_at_softmax_attention) {
  const laws::Subject s = tiled(), softmax = laws::subject(kernel_rooms(), "softmax_attention", "tiled");
  LawCase c = *law_cases(s.room, s.form);
  const bool no_steps = *rc::gen::arbitrary<bool>();
  if (no_steps)
    c.spec.params = {{"solver", "cg"}, {"iterations", 0L}, {"tolerance", "0"}};
  else
    c.spec.params = {{"lambda_mode", "mass"}};
  Problem p = s.problem(c);
  if (!no_steps)
    for (double& x : p.inputs.at("lambda").data) x = 0x1p100;
  Problem nearer = p, plain = p;
  for (double& x : nearer.inputs.at("lambda").data) x *= 2;
  plain.mechanism = "softmax_attention";
  plain.inputs.erase("lambda");
  plain.params = {{"bandwidth", p.params.at("bandwidth")}};
  expect_exactly(s, p, c.tile, in_the_limit(s, p, nearer, c.tile), flat(softmax.run(plain, Format::exact, c.tile)),
                 {"o", "d_q", "d_k", "d_v", "d_bandwidth"}, laws::allowance(softmax, plain, Format::fp64, c.tile),
                 richardson);
}

/// Equal weights, as the bandwidth grows: Affine MesaNet, with the ridge on the means (mode mass) or on the sums.
ASSAY_PROPERTY(lla_tiled, equal_weights_are_affine_mesanet) {
  const laws::Subject s = tiled();
  LawCase c = *law_cases(s.room, s.form);
  const bool mass = *rc::gen::arbitrary<bool>();
  c.spec.params = {{"lambda_mode", mass ? "mass" : *rc::gen::element("absolute", "max")}};
  Problem p = s.problem(c);
  Problem equal = p, nearer = p;
  p.params["bandwidth"] = "1e30", nearer.params["bandwidth"] = "2e30";
  equal.mechanism = "affine_mesanet";
  equal.params = {{"lambda_scaling", mass ? "mean" : "sum"}};
  Arrays want;
  for (const auto& [name, tensor] : oracle_of(listed_room("affine_mesanet"), equal).tensors) {
    Array& a = want[name] = Array(tensor.shape);
    std::ranges::transform(tensor.value, a.data.begin(), [](const HiLo& x) { return x.hi; });
  }
  expect_exactly(s, p, c.tile, in_the_limit(s, p, nearer, c.tile), want, {"o", "d_q", "d_k", "d_v", "d_lambda"}, {},
                 richardson);
}

/// As many steps as dimensions are the solution, in the Sigma form as in the centred one.
ASSAY_PROPERTY(lla_tiled, as_many_steps_as_dimensions_solve) {
  const laws::Subject s = tiled();
  LawCase c = *law_cases(s.room, s.form);
  c.spec.style = Style::normal;
  c.spec.params = {};
  RC_PRE(c.spec.shape.key_dim <= 8);
  const Problem p = s.problem(c);
  Problem steps = p;
  steps.params["solver"] = "cg", steps.params["iterations"] = 2L * c.spec.shape.key_dim;
  steps.params["tolerance"] = "0";
  expect_exactly(s, p, c.tile, flat(s.run(p, Format::exact, c.tile)), flat(s.run(steps, Format::exact, c.tile)),
                 {"o", "d_q", "d_k", "d_v", "d_lambda", "d_bandwidth"},
                 laws::allowance(s, steps, Format::fp64, c.tile));
}

/// One block is none, to the bit; blocks of one or two dimensions are the oracle's, in both forms.
ASSAY_PROPERTY(lla_tiled, blocks_end_where_they_should) {
  const laws::Subject s = tiled();
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
  laws::exact_policy_is_the_oracle(s, c);
}

/// A window of one key returns its value, and one that reaches back to the start changes no bit.
ASSAY_PROPERTY(lla_tiled, windows_of_one_and_of_all) {
  const laws::Subject s = tiled();
  LawCase c = *law_cases(s.room, s.form);
  c.spec.params = {{"window", 1L}};
  Problem p = s.problem(c);
  // Rounded, k - kbar is zero in most runs and not in all: so few draws can miss it.
  const Array one = s.run(p, Format::exact, c.tile).outputs.at("o");
  const Array allowed = laws::allowance(s, p, Format::fp64, c.tile).at("o");
  const Array& v = p.inputs.at("v");
  const std::size_t head = one.data.size() / static_cast<std::size_t>(c.spec.shape.own());
  const auto group = static_cast<std::size_t>(c.spec.shape.own() / c.spec.shape.shared());
  for (std::size_t i = 0; i < one.data.size(); ++i)
    RC_ASSERT(std::fabs(one.data[i] - v.data[i / head / group * head + i % head]) <= allowed.data[i]);
  p.params["window"] = static_cast<long>(c.spec.shape.seq_len);
  Problem unlimited = p;
  unlimited.params.erase("window");
  RC_ASSERT(flat(s.run(p, c.spec.precision, c.tile)) == flat(s.run(unlimited, c.spec.precision, c.tile)));
}

/// A row that has converged is left alone while others of its tile go on: it has the bits that it has by itself.
ASSAY_PROPERTY(lla_tiled, a_row_at_rest_keeps_its_bits) {
  const laws::Subject s = tiled();
  LawCase c = *law_cases(s.room, s.form);
  c.spec.shape.heads = c.spec.shape.shared_heads = 1;
  c.spec.params = {{"causal", false}};
  if (*rc::gen::arbitrary<bool>())
    c.spec.params = {{"causal", false}, {"solver", "cg"}, {"iterations", 9L}, {"tolerance", "0.5"}};
  Problem p = s.problem(c);
  Array& lambda = p.inputs.at("lambda");
  const int n = c.spec.shape.seq_len, K = c.spec.shape.key_dim, row = *rc::gen::inRange(0, n);
  if (*rc::gen::arbitrary<bool>())  // it is at rest before the first step
    for (int x = 0; x < K; ++x) p.inputs.at("q").data[laws::index(p.inputs.at("q"), 0, row, x)] = 0;
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

/// What conjugate gradients cannot solve is refused in one sentence.
TEST(lla_tiled, refuses_systems_without_a_ridge) {
  const laws::Subject s = tiled();
  Problem p = s.room.make({"lla", {1, 9, 1, 1, 4, 3, 0}, Format::fp32, Style::normal, 3, {}});
  EXPECT_EQ(s.form.obstacle(p), "");
  for (double& x : p.inputs.at("lambda").data) x = 0x1p-60;
  EXPECT_NE(s.form.obstacle(p).find("too small for conjugate gradients"), std::string::npos);
  p.params["solver"] = "cg", p.params["iterations"] = 2L;
  EXPECT_EQ(s.form.obstacle(p), "");
  p.inputs.at("lambda").data[0] = 0;
  EXPECT_EQ(s.form.obstacle(p), "lambda: conjugate gradients need a ridge in every dimension, got 0");
}

// ---- the published form

laws::Subject raw_moments() { return laws::subject(kernel_rooms(), "lla", "raw_moments"); }

/// 64 tokens in 16 dimensions, in bf16 under any contract: keys and queries with that much in common in every channel,
/// and a bandwidth to which it is next to nothing.
Problem with_offset(double offset, Format precision) {
  Problem p =
      listed_room("lla").make({"lla", {1, 64, 1, 1, 16, 16, 0}, precision, Style::normal, 0, {{"bandwidth", "1024"}}});
  p.cotangents.clear();
  for (const char* name : {"q", "k"})
    for (double& x : p.inputs.at(name).data) x += offset;
  for (auto& [name, array] : p.inputs) round_span(array.data.data(), array.data.size(), Format::bf16);
  for (double& x : p.inputs.at("lambda").data) x = 0.125;
  return p;
}

/// The largest error of o, relative to its largest element.
double error_of(const Oracle& truth, const Answer& answer) {
  const std::vector<double>& o = answer.outputs.at("o").data;
  double error = 0, size = 0;
  for (const auto& [name, tensor] : truth.tensors)
    for (std::size_t i = 0; name == "o" && i < o.size(); ++i) {
      error = std::max(error, std::fabs(o[i] - tensor.value[i].hi));
      size = std::max(size, std::fabs(tensor.value[i].hi));
    }
  return error / size;
}

/// lla-family.md section 11, fp32, n <= 64, d = 16: raw moments 3e-3 where keys and queries share an offset of 30 and
/// 1.3e-5 where they share none, keys less the query 2e-4 and 3.4e-5: here the same to half an order of magnitude.
TEST(lla_raw_moments, are_as_far_off_as_measured) {
  struct Measured {
    double offset, raw, about_query;
  };
  for (const Measured& m : {Measured{0, 1.3e-5, 3.4e-5}, Measured{30, 3e-3, 2e-4}}) {
    const Problem p = with_offset(m.offset, Format::fp32);
    const Oracle truth = oracle_of(tiled().room, p);
    Problem about_query = p;  // until they converge
    about_query.params["solver"] = "cg", about_query.params["iterations"] = 32L, about_query.params["tolerance"] = "0";
    const double raw = error_of(truth, raw_moments().run(p, Format::fp32, 0)),
                 centred = error_of(truth, tiled().run(p, Format::fp32, 0)),
                 steps = error_of(truth, tiled().run(about_query, Format::fp32, 0));
    EXPECT_NEAR(std::log10(raw), std::log10(m.raw), 0.5) << m.offset;
    EXPECT_NEAR(std::log10(steps), std::log10(m.about_query), 0.5) << m.offset;
    EXPECT_LT(centred, steps) << m.offset;
    // Without rounding the three are one.
    for (const double exact : {error_of(truth, raw_moments().run(p, Format::exact, 0)),
                               error_of(truth, tiled().run(about_query, Format::exact, 0))})
      EXPECT_LT(exact, raw * 0x1p-30) << m.offset;
  }
}

/// What the judge says of every tensor, from raw moments and from the healthy kernel.
void expect_verdicts(const Problem& p, Format precision, Verdict of_raw) {
  const Expectation e = expect(oracle_of(tiled().room, p), {&tiled().form, precision, 0, 1}, p, default_draws);
  const auto got = in_report_order(raw_moments().run(p, precision, 0), e);
  for (std::size_t t = 0; t < e.tensors.size(); ++t) {
    const auto& [name, expected] = e.tensors[t];
    if (name == "d_bandwidth") continue;  // a sum of rounding errors
    EXPECT_EQ(judge(expected, got[t].second).verdict, of_raw) << name << ' ' << name_of(precision);
    EXPECT_EQ(judge(expected, e.emulated[t].second).verdict, Verdict::pass) << name << ' ' << name_of(precision);
  }
}

TEST(lla_raw_moments, fail_where_keys_and_queries_share_an_offset) {
  for (const Format precision : {Format::fp32, Format::bf16, Format::fp64})
    expect_verdicts(with_offset(30, precision), precision, Verdict::fail);
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
  const laws::Subject s = tiled();
  LawCase c = *law_cases(s.room, s.form);
  c.spec.style = Style::normal;
  const Problem p = s.problem(c);
  RC_PRE(raw_moments().form.obstacle(p).empty());
  Arrays want;
  for (const auto& [name, tensor] : oracle_of(s.room, p).tensors) {
    Array& a = want[name] = Array(tensor.shape);
    std::ranges::transform(tensor.value, a.data.begin(), [](const HiLo& x) { return x.hi; });
  }
  laws::expect_within(flat(raw_moments().run(p, Format::exact, c.tile)), want,
                      laws::allowance(raw_moments(), p, Format::fp64, c.tile), 1);
}

TEST(lla_raw_moments, refuses_systems_about_the_mean) {
  const laws::Subject s = raw_moments();
  Problem p = s.room.make({"lla", {1, 9, 1, 1, 4, 3, 0}, Format::fp32, Style::normal, 3, {{"blocks", 2L}}});
  EXPECT_EQ(s.form.obstacle(p), "");
  p.params["block_form"] = "centered";
  EXPECT_EQ(s.form.obstacle(p), "raw moments are moved to q: blocks of C are about kbar");
  EXPECT_EQ(tiled().form.obstacle(p), "");
  p.params["solver"] = "cg", p.params["iterations"] = 2L;
  EXPECT_EQ(s.form.obstacle(p), "") << "steps are towards rho, blocks are Sigma's";
}

using bad_inputs::changed, bad_inputs::refusal, bad_inputs::result_of;

/// Three tokens in the plane with a ridge of 1/2.
Json good_case() {
  return Json::parse(R"({"id": "a", "mechanism": "lla", "params": {"bandwidth": "2"}, "inputs": {
    "q": [["1", "2"], ["3", "4"], ["0.5", "1"]], "k": [["1", "0"], ["0", "1"], ["1", "1"]],
    "v": [["1"], ["2"], ["3"]], "lambda": "0.5"}, "cotangents": {"o": [["1"], ["1"], ["1"]]}})");
}
Json cg_case() {
  Json record = changed(good_case(), "/params/solver", "cg");
  record["params"]["iterations"] = 2;
  return record;
}

TEST(lla_bad_inputs, parameters) {
  ASSERT_EQ(result_of(good_case()).status, Status::ok) << result_of(good_case()).message;
  ASSERT_EQ(result_of(cg_case()).status, Status::ok) << result_of(cg_case()).message;
  const struct {
    Json record;
    const char* place;
    Json value;
    const char* message;
  } table[] = {
      {good_case(), "/params/bandwidth", "0", "bandwidth: expected a finite number > 0"},
      {good_case(), "/params/bandwidth", "-1", "bandwidth: expected a finite number > 0"},
      {good_case(), "/params/bandwidth", "nan", "bandwidth: expected a finite number > 0"},
      {good_case(), "/params/bandwidth", "inf", "bandwidth: expected a finite number > 0"},
      {good_case(), "/params/bandwidth", nullptr, "params.bandwidth: missing"},
      {good_case(), "/params/window", 0, "window: expected at least 1, got 0"},
      {good_case(), "/params/lambda_mode", "sum", "params.lambda_mode: unknown value 'sum'"},
      {good_case(), "/params/solver", "cholesky", "params.solver: unknown value 'cholesky'"},
      {good_case(), "/params/block_form", "diagonal", "params.block_form: unknown value 'diagonal'"},
      {good_case(), "/params/blocks", 3, "blocks: 3 do not divide K = 2"},
      {good_case(), "/params/blocks", 0, "blocks: 0 do not divide K = 2"},
      {good_case(), "/params/scale", "1", "params.scale: unknown to lla"},
      {cg_case(), "/params/iterations", nullptr, "iterations: solver cg needs it"},
      {cg_case(), "/params/iterations", -1, "iterations: expected 0 to 100000, got -1"},
      {cg_case(), "/params/iterations", 1000000000, "iterations: expected 0 to 100000, got 1000000000"},
      {cg_case(), "/params/iterations", "2", "params.iterations: expected an integer"},
      {cg_case(), "/params/tolerance", "-1e-30", "tolerance: expected a finite number >= 0"},
      {cg_case(), "/params/tolerance", "nan", "tolerance: expected a finite number >= 0"},
      {cg_case(), "/params/tolerance", "inf", "tolerance: expected a finite number >= 0"},
      {good_case(), "/inputs/lambda", nullptr, "lambda: missing"},
      {good_case(), "/inputs/lambda", "-0.5", "lambda: expected a finite number >= 0"},
      {good_case(), "/inputs/lambda", "nan", "lambda: expected a finite number >= 0"},
      {good_case(), "/inputs/lambda", "inf", "lambda: expected a finite number >= 0"},
      {good_case(), "/inputs/lambda", Json::array({"1", "1"}), "lambda: expected T (queries) = 3, got 2"},
  };
  for (const auto& row : table)
    EXPECT_EQ(refusal(changed(row.record, row.place, row.value), Status::domain, -1, row.message), "") << row.place;
  Json blocks = changed(cg_case(), "/params/blocks", 2);
  EXPECT_EQ(result_of(blocks).status, Status::ok);
  EXPECT_EQ(refusal(changed(blocks, "/params/block_form", "centered"), Status::domain, -1,
                    "block_form: solver cg solves the sigma form"),
            "");
}

TEST(lla_bad_inputs, a_ridge_names_its_row) {
  const Json by_row = changed(good_case(), "/inputs/lambda", Json::array({"1", "0.5", "-1"}));
  EXPECT_EQ(refusal(by_row, Status::domain, 2, "lambda[2]: expected a finite number >= 0"), "");
  const Json by_dimension =
      changed(good_case(), "/inputs/lambda", Json::parse(R"([["1", "1"], ["1", "nan"], ["-1", "1"]])"));
  EXPECT_EQ(refusal(by_dimension, Status::domain, 1, "lambda[1][1]: expected a finite number >= 0"), "");
}

TEST(lla_bad_inputs, numbers_must_be_finite) {
  for (const char* place : {"/inputs/q", "/inputs/k", "/inputs/v", "/cotangents/o"})
    for (const char* number : {"nan", "inf", "-inf"}) {
      const std::string name = std::string(place).substr(place[1] == 'i' ? 8 : 1);
      const std::string where = name == "cotangents/o" ? "cotangents.o" : name;
      EXPECT_EQ(refusal(changed(good_case(), place + std::string("/1/0"), number), Status::nonfinite, 1,
                        where + "[1][0]: not a finite number"),
                "");
    }
}

/// Without a ridge C must be regular: in the plane, three keys that are not on one line.
TEST(lla_singular, the_first_row_whose_keys_do_not_span_is_named) {
  const Json bare = changed(good_case(), "/inputs/lambda", "0");
  EXPECT_EQ(refusal(bare, Status::singular, 0,
                    "lambda: zero in 2 dimensions of row 0, where its keys less the first have rank 0"),
            "");
  EXPECT_EQ(result_of(changed(bare, "/params/causal", false)).status, Status::ok);
  Json line = changed(bare, "/params/causal", false);
  line["inputs"]["k"] = Json::parse(R"([["1", "0.5"], ["2", "1"], ["-3", "-1.5"]])");
  EXPECT_EQ(refusal(line, Status::singular, 0,
                    "lambda: zero in 2 dimensions of row 0, where its keys less the first have rank 1"),
            "");
  // A ridge per row and dimension: only the dimensions without one count, and only in their rows.
  const Json ridge = Json::parse(R"([["1", "1"], ["1", "0"], ["0", "0"]])");
  EXPECT_EQ(result_of(changed(good_case(), "/inputs/lambda", ridge)).status, Status::ok);
  Json windowed = changed(good_case(), "/inputs/lambda", ridge);
  windowed["params"]["window"] = 2;
  EXPECT_EQ(refusal(windowed, Status::singular, 2,
                    "lambda: zero in 2 dimensions of row 2, where its keys less the first have rank 1"),
            "");
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
  // What is decided is the refusal too: a key off the line in its last bit is enough.
  Json record = changed(changed(good_case(), "/inputs/lambda", "0"), "/params/causal", false);
  record["inputs"]["k"] = Json::parse(R"([["1", "1"], ["2", "2"], ["3", "3"]])");
  EXPECT_EQ(result_of(record).status, Status::singular);
  record["inputs"]["k"][2][0] = to_decimal(Mp100(3 + 0x1p-51), 60);
  EXPECT_EQ(result_of(record).status, Status::ok) << result_of(record).message;
}

/// The literal block form needs offsets z that span each block, and a denominator; the centred one keys that do.
TEST(lla_singular, blocks) {
  Json one = Json::parse(R"({"id": "a", "mechanism": "lla", "params": {"bandwidth": "2", "blocks": 2}, "inputs": {
    "q": [["0", "0"]], "k": [["1", "1"]], "v": [["3"]], "lambda": "1"}, "cotangents": {"o": [["1"]]}})");
  // z^2 = lambda in both blocks: tbar = 1/2 + 1/2.
  EXPECT_EQ(refusal(one, Status::singular, 0, "k: the denominator of row 0 vanishes: no local line through q"), "");
  EXPECT_EQ(result_of(changed(one, "/inputs/lambda", "2")).status, Status::ok);
  EXPECT_EQ(result_of(changed(one, "/params/block_form", "centered")).status, Status::ok);
  // Without a ridge one offset spans a block of one dimension: tbar = 1 + 1, o = v.
  const CaseResult bare = result_of(changed(one, "/inputs/lambda", "0"));
  ASSERT_EQ(bare.status, Status::ok) << bare.message;
  EXPECT_EQ(Mp50(bare.answer.outputs.at("o").data[0].text), 3);
  EXPECT_EQ(refusal(changed(changed(one, "/inputs/lambda", "0"), "/inputs/q/0/1", "1"), Status::singular, 0,
                    "lambda: zero in 1 dimensions of row 0, where its keys less q have rank 0"),
            "");
  EXPECT_EQ(refusal(changed(changed(one, "/inputs/lambda", "0"), "/params/block_form", "centered"), Status::singular, 0,
                    "lambda: zero in 1 dimensions of row 0, where its keys less the first have rank 0"),
            "");
}

/// What oracles/identities/lla_identities.cpp measures is right; here, what a problem in the limit has and has not.
TEST(lla_singular, the_limit) {
  Json bare = changed(changed(good_case(), "/inputs/lambda", "0"), "/params/lambda0", "limit");
  EXPECT_EQ(refusal(bare, Status::singular, 0,
                    "lambda: zero in 2 dimensions of row 0, where its keys less the first have rank 0"),
            "");
  EXPECT_EQ(result_of(changed(bare, "/params/causal", false)).status, Status::ok) << "with gradients, nothing singular";
  bare.erase("cotangents");
  const CaseResult got = result_of(bare);
  ASSERT_EQ(got.status, Status::ok) << got.message;
  const auto text = [&](const char* name, std::size_t i) { return got.answer.outputs.at(name).data.at(i).text; };
  // One key: its value. Of three that span the plane, the probe too.
  EXPECT_EQ(Mp50(text("o", 0)), Mp50(bare["inputs"]["v"][0][0].get<std::string>()));
  for (const char* name : {"rows.denominator", "rows.boundary", "rows.mean_t"}) {
    EXPECT_EQ(text(name, 0), "") << name;
    EXPECT_NE(text(name, 2), "") << name;
  }
  EXPECT_EQ(text("rows.probe", 0), "");
  EXPECT_NE(text("rows.probe", 4), "");
  EXPECT_TRUE(got.answer.bounds.contains("o"));

  // Equal keys are one key, with the mean of their values; what has a ridge never was singular.
  Json equal = changed(bare, "/params/causal", false);
  equal["inputs"]["k"] = Json::parse(R"([["1", "1"], ["1", "1"], ["1", "1"]])");
  equal["inputs"]["v"] = Json::parse(R"([["1"], ["2"], ["6"]])");
  EXPECT_EQ(Mp50(result_of(equal).answer.outputs.at("o").data[1].text), 3);
  const Json ridge = changed(bare, "/inputs/lambda", "0.5");
  EXPECT_EQ(result_of(ridge).answer.outputs.at("o").data,
            result_of(changed(ridge, "/params/lambda0", "refuse")).answer.outputs.at("o").data);

  for (const char* solver : {"cg", "direct"}) {
    Json sigma = changed(changed(bare, "/params/solver", solver), "/params/iterations", 2);
    sigma["params"]["blocks"] = std::string(solver) == "cg" ? 1 : 2;
    EXPECT_EQ(result_of(sigma).status, Status::singular) << solver;
  }
  EXPECT_EQ(
      refusal(changed(bare, "/params/lambda0", "zero"), Status::domain, -1, "params.lambda0: unknown value 'zero'"),
      "");
}

/// Rows before the first key are zero, counted, and never singular.
TEST(lla_empty, rows_without_keys) {
  Json record = good_case();
  record["inputs"]["k"].erase(2), record["inputs"]["v"].erase(2);
  for (const char* lambda : {"0.5", "0"}) {
    Json ridge = Json::array({lambda, "1", "1"});
    const CaseResult r = result_of(changed(record, "/inputs/lambda", ridge));
    ASSERT_EQ(r.status, Status::ok) << r.message;
    EXPECT_EQ(r.answer.outputs.at("empty_rows").data[0].text, "1");
    EXPECT_EQ(r.answer.outputs.at("o").data[0].text, "0.0");
    EXPECT_EQ(r.answer.outputs.at("rows.row_max").data[0].text, "-inf");
    for (const char* name : {"q", "lambda"}) EXPECT_EQ(r.answer.gradients.at(name).data[0].text, "0.0");
  }
}

TEST(lla_empty, no_tokens) {
  const CaseResult r = result_of(Json::parse(R"({"id": "a", "mechanism": "lla", "params": {"bandwidth": "2"},
    "inputs": {"q": [], "k": [], "v": [], "lambda": "0"}, "cotangents": {"o": []}})"));
  ASSERT_EQ(r.status, Status::ok) << r.message;
  EXPECT_TRUE(r.answer.outputs.at("o").data.empty());
  EXPECT_EQ(r.answer.gradients.at("lambda").data[0].text, "0.0");
}

/// A direct solve makes no steps: its count is undefined, not zero.
TEST(lla_caches, only_conjugate_gradients_count_steps) {
  EXPECT_EQ(result_of(good_case()).answer.outputs.at("rows.iterations").data[0].kind, Cell::Kind::undefined);
  const auto cells = result_of(cg_case()).answer.outputs.at("rows.iterations").data;
  EXPECT_EQ(cells[2].kind, Cell::Kind::count);
  EXPECT_EQ(cells[2].text, "2");
}

/// Row i sees i + 1 keys, and its residual is zero after as many steps, or two: whether others were made nobody can
/// tell, and nothing but the count needs to know.
TEST(lla_caches, steps_that_may_not_have_been_made_cost_no_bound) {
  const CaseResult direct = result_of(good_case());
  for (const std::optional<Tier> tier : {std::optional<Tier>(), std::optional(Tier::ball), std::optional(Tier::w2)}) {
    const Decimals cg = result_of(changed(cg_case(), "/params/iterations", 5), {.digits = 30, .tier = tier}).answer;
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
  Json record = good_case();
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

/// In mode absolute the ridge in units of the weights, lambda exp(-lse), is beyond double where the scores are below
/// -1400 or above: softmax attention, or the limit of no ridge, and no NaN.
TEST(lla_extremes, ridges_that_overflow_in_double) {
  Json record = changed(good_case(), "/params/lambda_mode", "absolute");
  record["inputs"]["k"] = Json::parse(R"([["-800", "-40"], ["-805", "-35"], ["-801", "-42"]])");
  record["inputs"]["q"] = Json::parse(R"([["4", "1"], ["4", "1"], ["4", "1"]])");
  const CaseResult exact = result_of(record), rough = result_of(record, {.digits = 10, .tier = Tier::fp64});
  ASSERT_EQ(rough.status, Status::ok) << rough.message;
  for (std::size_t i = 0; i < exact.answer.outputs.at("o").data.size(); ++i) {
    const double a = std::stod(exact.answer.outputs.at("o").data[i].text),
                 b = std::stod(rough.answer.outputs.at("o").data[i].text);
    // Ten digits printed; the scores of size 1600 cost an exp(s - m) 1600 u.
    EXPECT_NEAR(a, b, 1e-9 * std::fabs(a));
  }
  for (const Cell& x : rough.answer.gradients.at("lambda").data) EXPECT_EQ(x.text, "0.0");
}

}  // namespace
}  // namespace assay
