#include "judge/hypotheses/probe_form.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "judge/hypotheses/matrix.hpp"
#include "reference/core/inputs.hpp"

namespace assay::hypotheses {
namespace {

/// The term that is made otherwise: o = w v with w = p (1 + tbar - t), t = rho k^T, tbar = sum p t. With u = d_o v^T
/// and its mean ubar, dt = p (ubar - u), dp = u (1 + tbar - t) + ubar t, ds = p (dp - sum p dp).
constexpr Told probe_slips[] = {
    {"no_mean", "o", "the mean of the probe's scores missing (weights p (1 - t))", "weights are p (1 + tbar - t)"},
    {"probe_without_mean", "d_rho", "what the mean of the probe's scores owes the probe missing (dt = -p u)",
     "dt = p (ubar - u)"},
    {"weights_without_mean", "d_q", "what the mean of the probe's scores owes the softmax weights missing",
     "dp = u (1 + tbar - t) + ubar t"},
    {"plain_weights", "d_q", "the scores' gradient of softmax attention alone (dp = d_o v^T)",
     "dp = u (1 + tbar - t) + ubar t"},
    {"k_without_probe", "d_k", "what the probe owes d_k (dt^T rho) missing", "keys are read twice: add both"},
    {"v_of_softmax", "d_v", "d_v of the softmax weights, not of p (1 + tbar - t)", "d_v = w^T d_o"},
};

/// All heads, pairs of tokens written out.
class Probed {
 public:
  Probed(const Scene& scene, const Told& slip) : scene_(scene), slip_(&slip) {}

  Arrays answer() const {
    Arrays answer;
    if (is("no_mean")) {
      const Array &q = *scene_.input("q"), &v = *scene_.input("v");
      answer["o"] = Array({q.shape[0], q.shape[1], v.shape[2]});
    } else {
      for (const char* name : {"q", "k", "v", "rho"})
        answer["d_" + std::string(name)] = Array(scene_.input(name)->shape);
    }
    for (std::size_t h = 0; h < scene_.own_heads(); ++h) head(h, answer);
    return answer;
  }

 private:
  bool is(RowOf<probe_slips> row) const { return slip_ == row.told; }

  /// Softmax weights of the keys that each query sees.
  Matrix weights(const Matrix& q, const Matrix& k) const {
    const bool masks = scene_.is_causal();
    Matrix p = (1 / scene_.number("bandwidth", std::sqrt(static_cast<double>(q.cols)))) * (q * transposed(k));
    for (std::size_t i = 0; i < p.rows; ++i) {
      const auto seen = [&](std::size_t j) { return !masks || j + p.rows <= i + p.cols; };
      double largest = -std::numeric_limits<double>::infinity(), norm = 0;
      for (std::size_t j = 0; j < p.cols; ++j) largest = seen(j) ? std::max(largest, p(i, j)) : largest;
      for (std::size_t j = 0; j < p.cols; ++j) norm += p(i, j) = seen(j) ? std::exp(p(i, j) - largest) : 0;
      for (std::size_t j = 0; j < p.cols && norm > 0; ++j) p(i, j) /= norm;
    }
    return p;
  }
  /// The sum of p x of every row.
  static Values means(const Matrix& p, const Matrix& x) {
    Values means(p.rows, 0.0);
    for (std::size_t i = 0; i < p.rows; ++i)
      for (std::size_t j = 0; j < p.cols; ++j) means[i] += p(i, j) * x(i, j);
    return means;
  }

  void head(std::size_t h, Arrays& answer) const {
    const std::size_t shared = h / scene_.group();
    const Matrix q = head_of(*scene_.input("q"), h), rho = head_of(*scene_.input("rho"), h),
                 k = head_of(*scene_.input("k"), shared), v = head_of(*scene_.input("v"), shared);
    const Matrix p = weights(q, k), t = rho * transposed(k);
    const Values tbar = is("no_mean") ? Values(p.rows, 0.0) : means(p, t);
    const Matrix factors = mapped(t, [&](std::size_t i, std::size_t, double x) { return 1 + tbar[i] - x; });
    const Matrix w = each(p, factors);
    if (is("no_mean")) return add_to_head(answer.at("o"), w * v, h);
    const Matrix d_o = head_of(scene_.problem.cotangents.at("o"), h), u = d_o * transposed(v);
    const Values ubar = means(p, u);
    const auto owed_probe = [&](std::size_t i, std::size_t, double x) {
      return (is("probe_without_mean") ? 0 : ubar[i]) - x;
    };
    const Matrix dt = each(p, mapped(u, owed_probe));
    Matrix dp = is("plain_weights") ? u : each(u, factors);
    if (!is("plain_weights") && !is("weights_without_mean"))
      dp = std::move(dp) + mapped(t, [&](std::size_t i, std::size_t, double x) { return ubar[i] * x; });
    const Values mean = means(p, dp);
    const double scale = 1 / scene_.number("bandwidth", std::sqrt(static_cast<double>(q.cols)));
    const Matrix ds = scale * each(p, mapped(dp, [&](std::size_t i, std::size_t, double x) { return x - mean[i]; }));
    add_to_head(answer.at("d_q"), ds * k, h), add_to_head(answer.at("d_rho"), dt * k, h);
    add_to_head(answer.at("d_k"), transposed(ds) * q, shared);
    if (!is("k_without_probe")) add_to_head(answer.at("d_k"), transposed(dt) * rho, shared);
    add_to_head(answer.at("d_v"), transposed(is("v_of_softmax") ? p : w) * d_o, shared);
  }

  const Scene& scene_;
  const Told* slip_;
};

}  // namespace

void add_probe_slips(std::vector<Convention>& list, const Scene& scene) {
  if (scene.room->name != "parallax") return;
  for (const char* name : {"q", "k", "v", "rho"})
    if (scene.input(name) == nullptr || scene.input(name)->shape.size() != 3) return;
  for (const auto& [name, value] : scene.problem.params)
    if (name != "bandwidth" && name != "causal") return;
  for (const Told& told : probe_slips) {
    if (told.slip != "no_mean" && !scene.problem.cotangents.contains("o")) continue;
    list.push_back({told.what, told.what, told.mend, [&told](const Scene& s) { return Probed(s, told).answer(); }});
    list.back().only = told.tensor, list.back().is_term = true, list.back().asks_room = false;
  }
}

}  // namespace assay::hypotheses
