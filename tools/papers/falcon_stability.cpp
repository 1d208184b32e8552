// FALCON, sections 3.2 and 3.3 and appendix E: states stay bounded whatever the scale of the keys, and chunks whose
// values are divided by their decays are stable.
#include <cmath>
#include <limits>

#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"
#include "tools/papers/paper.hpp"
#include "tools/papers/trial.hpp"

namespace assay {
namespace {

constexpr int dims = 16;

/// Keys of that length, values N(0, 1), in fp32.
Problem problem_of(std::string_view mechanism, int tokens, double length, std::uint64_t seed) {
  Problem p{.id = {}, .mechanism = std::string(mechanism), .params = {}, .inputs = {}, .cotangents = {}};
  const auto rows = [&](std::string_view name, double of) {
    return trial::drawn_rows(seed, name, tokens, dims, of, Format::fp32);
  };
  p.inputs["q"] = rows("q", length), p.inputs["k"] = rows("k", length), p.inputs["v"] = rows("v", 0);
  p.inputs["initial_state"] = trial::filled(dims, dims, [](int, int) { return 0.0; });
  p.inputs["beta"] = trial::filled(tokens, 1.0);
  return p;
}

/// The first token of which v / c_{t-1} overflows fp32, of a value of 1 under the same decay at every step.
std::string global_rescale_ends(double decay) {
  const double steps = std::log(static_cast<double>(std::numeric_limits<float>::max())) / -std::log(decay);
  return std::to_string(static_cast<int>(std::floor(steps)) + 2);
}

/// The norm of the state at the end; infinite where doubles overflow on the way.
double size_of_state(const Problem& problem) {
  try {
    return trial::norm(trial::exact(problem, "final_state"));
  } catch (const InputError&) {
    return std::numeric_limits<double>::infinity();
  }
}

Table forms(const PaperOptions& options, std::vector<trial::Curve>& theirs, std::vector<trial::Curve>& ours,
            const std::function<void(std::string_view)>& done) {
  Table table = Table().numbers(
      {"decay", "tokens", "|S|", "published form", "chunkwise", "global rescaling: first token at infinity"});
  for (const double decay : {0.98, 0.9, 0.5, 0.25, 0.1}) {
    theirs.push_back({text("published, decay ", decay), {}}), ours.push_back({text("chunkwise, decay ", decay), {}});
    for (const int tokens : {16, 64, 256, 1024}) {
      Problem p = problem_of("falcon2_lite", tokens, 1, options.seed);
      // beta = 1, |x| = 1, eps = 0: eta = 1 / (1 + lambda), and the decay 1 - eta lambda = 1 / (1 + lambda).
      p.inputs["lambda"] = trial::filled(tokens, round_to(1 / decay - 1, Format::fp32));
      p.params["decay_floor"] = std::string("1e-6");
      const std::vector<double> truth = trial::exact(p, "o");
      const double published = trial::relative_error(
                       trial::emulated(p, "renormalized", Format::fp32, "o", options.threads), truth),
                   chunkwise = trial::relative_error(
                       trial::emulated(p, "chunkwise", Format::fp32, "o", options.threads), truth);
      table.add(trial::shown(decay), tokens, trial::shown(size_of_state(p)), trial::shown(published),
                trial::shown(chunkwise), global_rescale_ends(decay));
      theirs.back().points.emplace_back(tokens, published), ours.back().points.emplace_back(tokens, chunkwise);
    }
    done(text("decay ", decay));
  }
  return table;
}

Table scales(const PaperOptions& options, std::vector<trial::Curve>& curves) {
  Table table = Table().numbers({"|k|", "tokens", "FALCON-1: |S|", "delta rule: |S|"});
  for (const double length : {1.0, 2.0, 4.0}) {
    curves.push_back({text("FALCON-1, |k| = ", length), {}}),
        curves.push_back({text("delta rule, |k| = ", length), {}});
    for (const int tokens : {16, 64, 256, 1024}) {
      Problem falcon = problem_of("falcon1", tokens, length, options.seed);
      falcon.inputs["lambda"] = trial::filled(tokens, 0.0);
      const Problem delta = problem_of("deltanet", tokens, length, options.seed);
      const double normalised = size_of_state(falcon), plain = size_of_state(delta);
      table.add(trial::shown(length), tokens, trial::shown(normalised), trial::shown(plain));
      curves[curves.size() - 2].points.emplace_back(tokens, normalised),
          curves.back().points.emplace_back(tokens, plain);
    }
  }
  return table;
}

}  // namespace

PaperResult falcon_stability(const PaperOptions& options, const std::function<void(std::string_view)>& done) {
  PaperResult result;
  std::vector<trial::Curve> theirs, ours, states;
  Table errors = forms(options, theirs, ours, done), norms = scales(options, states);
  std::vector<trial::Curve> drawn(theirs.begin(), theirs.end());
  drawn.push_back(ours.back());
  result.plots = {
      trial::curves(
          "FALCON: error of o in fp32 along the length, chunks of 64; curves end where numbers are no longer finite",
          "tokens", "relative error", drawn),
      trial::curves("FALCON: the norm of the state with normalised steps, and of the delta rule's", "tokens", "|S|",
                    states)};
  result.tables.emplace_back("error of o in fp32, chunks of 64: FALCON-2-lite under one decay at every step",
                             std::move(errors));
  result.tables.emplace_back("norm of the state, beta = 1, no decay", std::move(norms));
  result.chosen = {
      "the paper claims stability and prints no numbers; here: one head, K = V = 16, unit keys in the first table, "
      "values N(0, 1),",
      "beta = 1 and the ridge that gives the decay; errors against the recurrence in doubles"};
  result.says = {
      "Normalised steps keep the state bounded whatever the length of keys, as claimed; a fixed step does not beyond "
      "|k|^2 = 2.",
      "The chunk's renormalisation (Algorithms 10 and 11) removes the overflow that grows with the sequence, not that "
      "within a chunk: it divides by the product of a chunk's decays."};
  return result;
}

}  // namespace assay
