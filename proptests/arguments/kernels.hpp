#pragma once
// Kernels with arguments as users write them, in doubles that are rounded where kernels round: attention with all that
// changes its scores, and the gated delta rule with its front end. Each can be wrong as published kernels were.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "files/safetensors.hpp"
#include "reference/core/rounding.hpp"

namespace assay::arguments {

/// A case in the layout [B, T, H, d], and its answer.
class UserKernel {
 public:
  UserKernel(const Safetensors& problem, std::string bug) : bug_(std::move(bug)) {
    params_ = nlohmann::json::parse(problem.metadata.at("params"));
    for (const auto& [name, tensor] : problem.tensors) {
      const auto integers = load_integers(tensor);
      tensors_[name] = integers ? *integers : load(name, tensor);
    }
    precision_ = *format_from(problem.metadata.at("precision"));
    const std::vector<int>& q = at("q").shape;
    B_ = q[0], Tq_ = q[1], H_ = q[2], K_ = q[3];
    Tk_ = at("k").shape[1], V_ = at("v").shape[3];
  }

  Safetensors attention() {
    take("o", {B_, Tq_, H_, V_}), take("lse", {B_, Tq_, H_});
    for (const char* name : {"q", "k", "v", "sink", "bias", "alibi_slopes"})
      if (has(name)) take(std::string("d_") + name, at(name).shape);
    for (int n = 0; n < sequences(); ++n)
      for (int h = 0; h < H_; ++h)
        for (int i = 0; i < query_count(n); ++i) attention_row(n, h, i);
    return answer();
  }

  Safetensors delta_rule() {
    H_ = at("v").shape[2];  // q and k may have fewer
    take("o", {B_, Tq_, H_, V_}), take("final_state", at("initial_state").shape);
    for (const char* name : {"q", "k", "v", "a", "b", "beta", "log_decay", "a_log", "dt_bias", "initial_state"})
      if (has(name)) take(std::string("d_") + name, at(name).shape);
    for (int n = 0; n < sequences(); ++n)
      for (int h = 0; h < H_; ++h) delta_head(n, h);
    return answer();
  }

 private:
  using Vector = std::vector<double>;

  bool is(const char* bug) const { return bug_ == bug; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  const Array& at(const std::string& name) const { return tensors_.at(name); }
  double number(const char* name, double missing) const {
    const auto it = params_.find(name);
    if (it == params_.end()) return missing;
    return it->is_string() ? std::stod(it->get<std::string>()) : it->get<double>();
  }
  std::string word(const char* name, const char* missing) const { return params_.value(name, std::string(missing)); }
  double narrow(double x) const { return round_to(x, precision_); }

  void take(const std::string& name, std::vector<int> shape) { out_[name] = Array(std::move(shape)); }
  Safetensors answer() {
    Safetensors file;
    for (auto& [name, array] : out_) {
      const bool is_wide = name == "lse" || name == "final_state" || name == "d_sink" || name == "d_alibi_slopes" ||
                           name == "d_a_log" || name == "d_dt_bias" || name == "d_initial_state";
      file.tensors[name] = store(array, dtype_of(is_wide ? Format::fp32 : precision_));
    }
    return file;
  }

  static std::size_t flat(const Array& array, std::initializer_list<int> index) {
    std::size_t at = 0, axis = 0;
    for (const int i : index) at = at * static_cast<std::size_t>(array.shape[axis++]) + static_cast<std::size_t>(i);
    return at;
  }
  double get(const std::string& name, std::initializer_list<int> index) const {
    return at(name).data[flat(at(name), index)];
  }
  double& out(const std::string& name, std::initializer_list<int> index) {
    Array& array = out_.at(name);
    return array.data[flat(array, index)];
  }

  // ---- sequences

  const Array* starts(const char* side) const {
    for (const std::string& name : {std::string("cu_seqlens_") + side, std::string("cu_seqlens")})
      if (has(name)) return &at(name);
    return nullptr;
  }
  int sequences() const { return starts("q") == nullptr ? B_ : starts("q")->shape[0] - 1; }
  int first(int n, const char* side) const {
    const Array* cu = starts(side);
    return cu == nullptr ? 0 : static_cast<int>(cu->data[static_cast<std::size_t>(n)]);
  }
  int count(int n, const char* side, int all) const {
    for (const std::string& name : {std::string("lengths_") + side, std::string("lengths")})
      if (has(name)) return static_cast<int>(at(name).data[static_cast<std::size_t>(n)]);
    const Array* cu = starts(side);
    return cu == nullptr ? all : static_cast<int>(cu->data[static_cast<std::size_t>(n) + 1]) - first(n, side);
  }
  int query_count(int n) const { return count(n, "q", Tq_); }
  int key_count(int n) const {
    const int keys = count(n, "k", Tk_);
    return is("reads padding") ? std::min(keys + 1, Tk_ - first(n, "k")) : keys;
  }
  int batch(int n) const { return starts("q") == nullptr ? n : 0; }

  // ---- attention

  bool sees(int n, int i, int c, int j) const {
    const int left = static_cast<int>(number("window", 0)) - 1;
    const int reach = static_cast<int>(number("window_left", left)) + (is("window one off") ? 1 : 0);
    if (reach >= 0 && j < c - reach) return false;
    const int right = params_.value("causal", true) ? 0 : static_cast<int>(number("window_right", -1));
    if (right >= 0 && j > c + right) return false;
    if (has("documents_q") && !is("ignores documents"))
      if (get("documents_q", {i}) !=
          at(has("documents_k") ? "documents_k" : "documents_q").data[static_cast<std::size_t>(j)])
        return false;
    static_cast<void>(n);
    return !has("mask") || get("mask", {i, j}) != 0;
  }
  double bias(int n, int h, int i, int j) const {
    if (!has("bias")) return 0;
    if (at("bias").shape.size() == 4) return get("bias", {batch(n), h, i, j});
    return at("bias").shape.size() == 3 ? get("bias", {h, i, j}) : get("bias", {i, j});
  }

  void attention_row(int n, int h, int i) {
    const int b = batch(n), q0 = first(n, "q") + i, k0 = first(n, "k"), Tk = key_count(n),
              g = h / (H_ / at("k").shape[2]);
    const int delta = word("causal_align", "end") == "start" || is("starts at the first key") ? 0 : Tk - query_count(n);
    const double scale = params_.contains("scale") ? number("scale", 1) : 1 / number("bandwidth", 1);
    const double cap = number("soft_cap", 0), slope = has("alibi_slopes") ? get("alibi_slopes", {h}) : 0;
    const bool is_signed = word("alibi_form", "distance") == "signed";
    const std::string place = word("bias_place", "after_cap");
    std::vector<int> keys;
    Vector s, slack, capped;
    for (int j = 0; j < Tk; ++j) {
      if (!sees(n, i, i + delta, j)) continue;
      double x = 0;
      for (int d = 0; d < K_; ++d) x += get("q", {b, q0, h, d}) * get("k", {b, k0 + j, g, d});
      const int distance = i + delta - j;
      const double add = bias(n, h, i, j) - slope * (is_signed ? distance : std::abs(distance));
      double t = place == "before_scale" ? scale * (x + add) : scale * x + (place == "before_cap" ? add : 0),
             slope_of_cap = 1;
      if (cap > 0) {
        const double ratio = std::tanh(t / cap);
        t = is("s tanh s") ? t * std::tanh(t) : cap * ratio, slope_of_cap = 1 - ratio * ratio;
      }
      keys.push_back(j), s.push_back(t + (place == "after_cap" ? add : 0)), slack.push_back(distance);
      capped.push_back(slope_of_cap);
    }
    double most = -std::numeric_limits<double>::infinity();
    for (const double x : s) most = std::max(most, x);
    const int sinks = !has("sink") || !std::isfinite(get("sink", {h})) ? 0 : is("sink counted twice") ? 2 : 1;
    if (sinks > 0) most = std::max(most, get("sink", {h}));
    if (!std::isfinite(most)) return empty_row(n, h, i);
    double total = sinks > 0 ? sinks * std::exp(get("sink", {h}) - most) : 0;
    for (const double x : s) total += std::exp(x - most);
    const double lse = most + std::log(total);
    out("lse", {b, q0, h}) =
        (lse + (is("lse off by ln 2") ? std::log(2.0) : 0)) / (word("lse_base", "e") == "2" ? std::log(2.0) : 1);
    Vector p;
    for (const double x : s) {
      // Kernels that take the exponential of lse itself, and not of a difference, run out of fp32.
      const bool overflows = is("exponential of lse") && (lse < -88 || lse > 88);
      p.push_back(overflows ? std::numeric_limits<double>::quiet_NaN() : std::exp(x - lse));
    }
    for (int v = 0; v < V_; ++v) {
      double o = 0;
      for (std::size_t m = 0; m < keys.size(); ++m) o += narrow(p[m]) * get("v", {b, k0 + keys[m], g, v});
      out("o", {b, q0, h, v}) = o;
    }
    if (has("d_o")) backward_row(n, h, i, keys, p, slack, capped, scale, lse);
  }

  void empty_row(int n, int h, int i) {
    const double lowest = -std::numeric_limits<double>::infinity();
    out("lse", {batch(n), first(n, "q") + i, h}) = is("lse of an empty row is +inf") ? -lowest : lowest;
    if (!is("averages in an empty row")) return;
    for (int v = 0; v < V_; ++v) {
      double mean = 0;
      for (int j = 0; j < key_count(n); ++j)
        mean += get("v", {batch(n), first(n, "k") + j, h / (H_ / at("k").shape[2]), v}) / key_count(n);
      out("o", {batch(n), first(n, "q") + i, h, v}) = mean;
    }
  }

  void backward_row(int n, int h, int i, const std::vector<int>& keys, const Vector& p, const Vector& distance,
                    const Vector& capped, double scale, double lse) {
    const int b = batch(n), q0 = first(n, "q") + i, k0 = first(n, "k"), g = h / (H_ / at("k").shape[2]);
    double tau = 0;
    for (int v = 0; v < V_; ++v) tau += get("d_o", {b, q0, h, v}) * out("o", {b, q0, h, v});
    double dlse = has("d_lse") && !is("drops the cotangent of lse") ? get("d_lse", {b, q0, h}) : 0;
    if (word("lse_base", "e") == "2") dlse /= std::log(2.0);
    const std::string place = word("bias_place", "after_cap");
    const bool is_signed = word("alibi_form", "distance") == "signed";
    double mean = 0, weight = 0;
    Vector D;
    for (std::size_t m = 0; m < keys.size(); ++m) {
      double gv = 0;
      for (int v = 0; v < V_; ++v) {
        gv += get("d_o", {b, q0, h, v}) * get("v", {b, k0 + keys[m], g, v});
        out("d_v", {b, k0 + keys[m], g, v}) += narrow(p[m]) * get("d_o", {b, q0, h, v});
      }
      D.push_back(p[m] * (gv - tau + dlse));
      mean += D.back(), weight += p[m];
    }
    for (std::size_t m = 0; m < keys.size(); ++m) {
      const double E = D[m] * (is("forgets the cap's slope") ? 1 : capped[m]), ds = narrow(E * scale);
      const double db = place == "after_cap" ? D[m] : place == "before_cap" ? E : scale * E;
      const double centre = is("centres the scores' gradient") ? scale * mean / weight * p[m] : 0;
      for (int d = 0; d < K_; ++d) {
        out("d_q", {b, q0, h, d}) += (ds - centre) * get("k", {b, k0 + keys[m], g, d});
        out("d_k", {b, k0 + keys[m], g, d}) += ds * get("q", {b, q0, h, d});
      }
      if (has("bias") && !is("no gradient of bias")) {
        const std::size_t axes = at("bias").shape.size();
        (axes == 4   ? out("d_bias", {b, h, i, keys[m]})
         : axes == 3 ? out("d_bias", {h, i, keys[m]})
                     : out("d_bias", {i, keys[m]})) += db;
      }
      if (has("alibi_slopes"))
        out("d_alibi_slopes", {h}) +=
            db * (is_signed && !is("sign of ALiBi's distance") ? -distance[m] : -std::fabs(distance[m]));
    }
    if (has("sink")) out("d_sink", {h}) += std::exp(get("sink", {h}) - lse) * (dlse - tau);
  }

  // ---- gated delta rule

  /// x over its length, and what its gradient needs.
  Vector unit(const std::string& name, int b, int t, int h, double& length) const {
    const double eps = number("l2_eps", 0);
    Vector x;
    double squares = 0;
    for (int d = 0; d < K_; ++d) x.push_back(get(name, {b, t, h, d})), squares += x.back() * x.back();
    length = 1;
    if (!params_.contains("l2_norm")) return x;
    length = is("eps outside of the root") ? std::sqrt(squares) + eps : std::sqrt(squares + eps);
    for (double& y : x) y = narrow(y / length);
    return x;
  }
  void unit_backward(const std::string& name, int b, int t, int h, const Vector& y, double length, const Vector& dy) {
    double along = 0;
    for (std::size_t d = 0; d < y.size(); ++d) along += y[d] * dy[d];
    for (std::size_t d = 0; d < y.size(); ++d)
      out("d_" + name, {b, t, h, static_cast<int>(d)}) +=
          params_.contains("l2_norm") ? (dy[d] - y[d] * along) / length : dy[d];
  }
  std::size_t state(int n, int h, int k, int v) const {
    const Array& s = at("initial_state");
    return word("state_layout", "k_first") == "v_first" ? flat(s, {n, h, v, k}) : flat(s, {n, h, k, v});
  }

  struct Step {
    Vector q, k, before, u, rest;  ///< before: the state that it reads, decayed
    double q_length, k_length, beta, decay, x;
  };

  void delta_head(int n, int h) {
    const int b = batch(n), rows = query_count(n), g = h / (H_ / at("k").shape[2]);
    const auto cells = static_cast<std::size_t>(K_) * static_cast<std::size_t>(V_);
    const auto cell = [&](int k, int v) {
      return static_cast<std::size_t>(k) * static_cast<std::size_t>(V_) + static_cast<std::size_t>(v);
    };
    const double scale = number("scale", 1 / std::sqrt(static_cast<double>(K_)));
    Vector S(cells);
    for (int k = 0; k < K_; ++k)
      for (int v = 0; v < V_; ++v) S[cell(k, v)] = at("initial_state").data[state(n, h, k, v)];
    std::vector<Step> steps;
    std::vector<Vector> states = {S};
    for (int i = 0; i < rows; ++i) {
      const int t = first(n, "q") + i;
      Step step;
      step.q = unit("q", b, t, g, step.q_length), step.k = unit("k", b, t, g, step.k_length);
      step.beta = has("beta") ? get("beta", {b, t, h}) : number("beta_scale", 1) / (1 + std::exp(-get("b", {b, t, h})));
      if (is("beta without its factor")) step.beta = 1 / (1 + std::exp(-get("b", {b, t, h})));
      step.x = has("a") ? get("a", {b, t, h}) + (is("forgets dt_bias") ? 0 : get("dt_bias", {h})) : 0;
      const double softplus = std::max(step.x, 0.0) + std::log1p(std::exp(-std::fabs(step.x)));
      step.decay = std::exp(has("a") ? -std::exp(get("a_log", {h})) * softplus : get("log_decay", {b, t, h}));
      for (double& s : S) s *= step.decay;
      step.before = S;
      for (int v = 0; v < V_; ++v) {
        double read = 0;
        for (int k = 0; k < K_; ++k) read += step.k[static_cast<std::size_t>(k)] * S[cell(k, v)];
        step.rest.push_back(get("v", {b, t, h, v}) - read), step.u.push_back(narrow(step.beta * step.rest.back()));
      }
      for (int k = 0; k < K_; ++k)
        for (int v = 0; v < V_; ++v)
          S[cell(k, v)] += step.k[static_cast<std::size_t>(k)] * step.u[static_cast<std::size_t>(v)];
      for (int v = 0; v < V_; ++v) {
        double o = 0;
        for (int k = 0; k < K_; ++k) o += step.q[static_cast<std::size_t>(k)] * S[cell(k, v)];
        out("o", {b, t, h, v}) = scale * o;
      }
      steps.push_back(std::move(step)), states.push_back(S);
    }
    if (rows == 0 && is("empty sequences end in zero")) std::fill(S.begin(), S.end(), 0.0);
    for (int k = 0; k < K_; ++k)
      for (int v = 0; v < V_; ++v) {
        const bool swapped = is("states with K first") && K_ == V_;
        out_.at("final_state").data[state(n, h, swapped ? v : k, swapped ? k : v)] = S[cell(k, v)];
      }
    if (has("d_o")) delta_backward(n, h, g, scale, steps, states);
  }

  void delta_backward(int n, int h, int g, double scale, const std::vector<Step>& steps,
                      const std::vector<Vector>& states) {
    const int b = batch(n);
    const auto cell = [&](int k, int v) {
      return static_cast<std::size_t>(k) * static_cast<std::size_t>(V_) + static_cast<std::size_t>(v);
    };
    Vector dS(states[0].size());
    for (int k = 0; k < K_; ++k)
      for (int v = 0; v < V_; ++v) dS[cell(k, v)] = get_state("d_final_state", n, h, k, v);
    for (int i = static_cast<int>(steps.size()); i-- > 0;) {
      const Step& step = steps[static_cast<std::size_t>(i)];
      const Vector& S = states[static_cast<std::size_t>(i) + 1];
      const int t = first(n, "q") + i;
      Vector dq(step.q.size()), dk(step.q.size()), du(step.u.size());
      double dbeta = 0, decay = 0;
      for (int k = 0; k < K_; ++k)
        for (int v = 0; v < V_; ++v) {
          const double go = scale * get("d_o", {b, t, h, v});
          dq[static_cast<std::size_t>(k)] += go * S[cell(k, v)];
          dS[cell(k, v)] += go * step.q[static_cast<std::size_t>(k)];
        }
      for (int k = 0; k < K_; ++k)
        for (int v = 0; v < V_; ++v) {
          dk[static_cast<std::size_t>(k)] += dS[cell(k, v)] * step.u[static_cast<std::size_t>(v)];
          du[static_cast<std::size_t>(v)] += dS[cell(k, v)] * step.k[static_cast<std::size_t>(k)];
        }
      for (int v = 0; v < V_; ++v) {
        const double wide = step.beta * du[static_cast<std::size_t>(v)];
        dbeta += du[static_cast<std::size_t>(v)] * step.rest[static_cast<std::size_t>(v)];
        out("d_v", {b, t, h, v}) += wide;
        for (int k = 0; k < K_; ++k) {
          dk[static_cast<std::size_t>(k)] -= step.before[cell(k, v)] * wide;
          dS[cell(k, v)] -= step.k[static_cast<std::size_t>(k)] * wide;
        }
      }
      for (std::size_t c = 0; c < dS.size(); ++c) decay += dS[c] * step.before[c], dS[c] *= step.decay;
      if (has("b"))
        out("d_b", {b, t, h}) = dbeta * step.beta * (1 - step.beta / number("beta_scale", 1));
      else
        out("d_beta", {b, t, h}) = dbeta;
      if (has("a")) {
        const double rate = -std::exp(get("a_log", {h})), da = rate / (1 + std::exp(-step.x)) * decay;
        out("d_a", {b, t, h}) = da, out("d_dt_bias", {h}) += da, out("d_a_log", {h}) += std::log(step.decay) * decay;
      } else {
        out("d_log_decay", {b, t, h}) = decay;
      }
      unit_backward("q", b, t, g, step.q, step.q_length, dq), unit_backward("k", b, t, g, step.k, step.k_length, dk);
    }
    for (int k = 0; k < K_; ++k)
      for (int v = 0; v < V_; ++v) out_.at("d_initial_state").data[state(n, h, k, v)] = dS[cell(k, v)];
  }
  double get_state(const std::string& name, int n, int h, int k, int v) const {
    return at(name).data[state(n, h, k, v)];
  }

  std::string bug_;
  nlohmann::json params_;
  std::map<std::string, Array> tensors_, out_;
  Format precision_ = Format::bf16;
  int B_ = 0, Tq_ = 0, Tk_ = 0, H_ = 0, K_ = 0, V_ = 0;
};

}  // namespace assay::arguments
