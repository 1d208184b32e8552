#pragma once
// Cases for the engine of local linear attention, Parallax and softmax attention.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "oracles/multiword/lla/lla.hpp"
#include "proptests/words/cases.hpp"

namespace assay::words {

struct LlaCase {
  std::size_t queries = 0, keys = 0, dim = 0, values = 0, window = 0;
  bool causal = true;
  RidgeMode mode = RidgeMode::mass;
  KeyStyle style = KeyStyle::normal;
  int lambda_axes = 0, lambda_exponent = 0;
  std::uint64_t seed = 0;
  Slope slope = Slope::solved;

  friend std::ostream& operator<<(std::ostream& os, const LlaCase& c) {
    return os << "Tq " << c.queries << " Tk " << c.keys << " K " << c.dim << " V " << c.values << " window " << c.window
              << " causal " << c.causal << " mode " << static_cast<int>(c.mode) << " style "
              << static_cast<int>(c.style) << " lambda axes " << c.lambda_axes << " 2^" << c.lambda_exponent << " seed "
              << c.seed << " slope " << static_cast<int>(c.slope);
  }
};

struct LlaData {
  explicit LlaData(const LlaCase& c) {
    Random random(c.seed);
    k = keys_in(c.style, c.keys, c.dim, random);
    q = random.normals(c.queries * c.dim), v = random.normals(c.keys * c.values);
    if (c.style == KeyStyle::offset)
      for (double& x : q) x *= 0.1;
    const std::size_t count = c.lambda_axes == 0 ? 1 : c.lambda_axes == 1 ? c.queries : c.queries * c.dim;
    for (std::size_t i = 0; i < count; ++i) lambda.push_back(std::ldexp(1.5 + 0.5 * random.real(), c.lambda_exponent));
    problem = {c.queries, c.keys, c.dim,  c.values, q,        k,
               v,         lambda, c.mode, c.causal, c.window, reciprocal_sqrt(static_cast<double>(c.dim)),
               c.slope,   {}};
    g = random.normals(c.queries * c.values);
    if (c.slope != Slope::solved) problem.lambda = {};
    if (c.slope != Slope::given) return;
    probe = random.normals(c.queries * c.dim);
    if (c.seed % 8 == 7) std::fill(probe.begin(), probe.end(), 0.0);  // softmax attention
    problem.probe = probe;
  }
  std::vector<double> q, k, v, lambda, probe;
  std::vector<double> g;  ///< a cotangent of o
  LlaProblem problem;
};

inline rc::Gen<LlaCase> lla_cases() {
  return rc::gen::exec([] {
    LlaCase c;
    c.keys = *rc::gen::element<std::size_t>(1, 2, 17, 40, 70);
    c.queries = *rc::gen::element<std::size_t>(1, 2, 20, 45);
    c.dim = *rc::gen::element<std::size_t>(1, 3, 8, 13);
    c.values = *rc::gen::element<std::size_t>(1, 5, 16);
    c.causal = *rc::gen::element(true, true, false);
    c.window = c.causal ? *rc::gen::element<std::size_t>(0, 0, 1, 19) : 0;
    c.mode = *rc::gen::element(RidgeMode::absolute, RidgeMode::max, RidgeMode::mass);
    c.style = *rc::gen::elementOf(std::vector<KeyStyle>(std::begin(all_key_styles), std::end(all_key_styles)));
    c.lambda_axes = *rc::gen::element(0, 1, 2);
    c.lambda_exponent = *rc::gen::element(1, -10, -30);
    c.seed = *rc::gen::inRange<std::uint64_t>(0, 1u << 20);
    c.slope = *rc::gen::element(Slope::solved, Slope::zero, Slope::given);
    if (c.slope != Slope::solved) c.mode = RidgeMode::mass, c.lambda_axes = 0;
    return c;
  });
}

inline LlaCase square(std::size_t n, std::size_t d) {
  LlaCase c;
  c.queries = c.keys = n, c.dim = c.values = d;
  c.lambda_exponent = -10;
  return c;
}

}  // namespace assay::words
