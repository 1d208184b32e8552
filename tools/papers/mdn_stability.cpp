// Momentum DeltaNet, section 3.2 and (9) to (13): steps whose eigenvalues are inside the unit circle and the right half
// plane, and weights from prefix sums of log gates.
#include <cmath>

#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"
#include "tools/papers/paper.hpp"
#include "tools/papers/trial.hpp"

namespace assay {
namespace {

constexpr double log_alpha = -0.05;

Problem problem_of(int tokens, int dims, std::uint64_t seed) {
  Problem p{.id = {}, .mechanism = "mdn", .params = {}, .inputs = {}, .cotangents = {}};
  const auto rows = [&](std::string_view name, double of) {
    return trial::drawn_rows(seed, name, tokens, dims, of, Format::fp32);
  };
  p.inputs["q"] = rows("q", 1), p.inputs["k"] = p.inputs["p"] = rows("k", 1), p.inputs["v"] = rows("v", 0);
  for (const char* state : {"initial_state", "initial_momentum"})
    p.inputs[state] = trial::filled(dims, dims, [](int, int) { return 0.0; });
  return p;
}

Table forms(const PaperOptions& options, std::vector<trial::Curve>& curves,
            const std::function<void(std::string_view)>& done) {
  Table table = Table().numbers({"log mu", "tokens", "|S|", "published form", "chunkwise"});
  for (const double log_mu : {-0.1, -0.5, -1.0, -2.0, -3.0}) {
    curves.push_back({text("published, log mu = ", log_mu), {}});
    for (const int tokens : {8, 16, 32, 64, 256, 1024}) {
      Problem p = problem_of(tokens, 16, options.seed);
      p.inputs["log_alpha"] = trial::filled(tokens, round_to(log_alpha, Format::fp32));
      p.inputs["log_mu"] = trial::filled(tokens, round_to(log_mu, Format::fp32));
      p.inputs["beta"] = trial::filled(tokens, 0.5), p.inputs["eta"] = trial::filled(tokens, 1.0);
      const std::vector<double> truth = trial::exact(p, "o");
      const double published = trial::relative_error(
                       trial::emulated(p, "log_domain", Format::fp32, "o", options.threads), truth),
                   chunkwise = trial::relative_error(
                       trial::emulated(p, "chunkwise", Format::fp32, "o", options.threads), truth);
      table.add(trial::shown(log_mu), tokens, trial::shown(trial::norm(trial::exact(p, "final_state"))),
                trial::shown(published), trial::shown(chunkwise));
      curves.back().points.emplace_back(tokens, published);
    }
    done(text("log mu = ", log_mu));
  }
  return table;
}

/// The six steps of docs/errata.md, E13: spectral radius below 0.99 each and eigenvalues in the right half plane, again
/// and again.
Table six_steps(std::vector<trial::Curve>& curves) {
  struct Step {
    double angle, eta, strength, decay, mu;
  };
  constexpr Step steps[] = {{-0.42, 1.6, 0, 0.99, 0.99},    {2.73, 1.99, 0.99, 0.99, 0.99},
                            {1.16, 1.99, 0.99, 0.99, 0.99}, {1.16, 1.99, 0.99, 0.99, 0.99},
                            {-0.36, 0.5, 0.08, 0.99, 0.37}, {2.75, 1.37, 0, 0.99, 0.39}};
  Table table = Table().numbers({"tokens", "|S|", "log |S| / tokens"});
  curves.push_back({"the six steps, repeated", {}});
  for (const int tokens : {6, 60, 240, 960}) {
    Problem p = problem_of(tokens, 2, 1);
    for (const char* gate : {"log_alpha", "log_mu", "beta", "eta"}) p.inputs[gate] = trial::filled(tokens, 0.0);
    for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
      const Step& s = steps[t % 6];
      const double phi = 0.39 * s.eta, alpha = s.decay / (1 + phi * phi);
      p.inputs["log_alpha"].data[t] = std::log(alpha), p.inputs["log_mu"].data[t] = std::log(s.mu);
      p.inputs["beta"].data[t] = phi * phi / (1 + phi * phi) * s.strength, p.inputs["eta"].data[t] = s.eta;
      for (const auto& [i, x] :
           {std::pair<std::size_t, double>{2 * t, std::cos(s.angle)}, {2 * t + 1, std::sin(s.angle)}})
        p.inputs["k"].data[i] = x, p.inputs["p"].data[i] = alpha * x;
    }
    const double size = trial::norm(trial::exact(p, "final_state"));
    table.add(tokens, trial::shown(size), trial::shown(std::log(size) / tokens));
    curves.back().points.emplace_back(tokens, size);
  }
  return table;
}

}  // namespace

PaperResult mdn_stability(const PaperOptions& options, const std::function<void(std::string_view)>& done) {
  PaperResult result;
  std::vector<trial::Curve> errors, states;
  Table by_gate = forms(options, errors, done), growing = six_steps(states);
  result.plots = {
      trial::curves("MDN: error of o in fp32 with the published weights, chunks of 64; curves end where numbers are no "
                    "longer finite",
                    "tokens", "relative error", errors),
      trial::curves("MDN: the norm of the state under six steps that are stable one by one", "tokens", "|S|", states)};
  result.tables.emplace_back("error of o in fp32, chunks of 64, under the same gates at every step",
                             std::move(by_gate));
  result.tables.emplace_back("six steps of spectral radius below 0.99, eigenvalues in the right half plane, repeated",
                             std::move(growing));
  result.chosen = {
      "the paper claims stability and prints no numbers; here: one head, K = V = 16, unit keys, p = k, values N(0, 1),",
      text("log alpha = ", log_alpha,
           ", beta = 0.5, eta = 1; its clamp is log mu >= -1, its 400M configurations have -2;"),
      "errors against the recurrence in doubles; the published weights without the 1e-6 that the code adds to beta"};
  result.says = {
      "The published weights lose digits where mu decays faster than alpha, within one chunk, and overflow at log mu = "
      "-2 and below; the recurrence of the weights does not.",
      "Eigenvalues of single steps do not bound products of steps: the state of the second table grows without end."};
  return result;
}

}  // namespace assay
