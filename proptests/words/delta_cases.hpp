#pragma once
// Problems of the delta engine.
#include <rapidcheck.h>

#include <array>
#include <cmath>
#include <limits>
#include <ostream>
#include <utility>
#include <vector>

#include "oracles/multiword/delta.hpp"
#include "proptests/words/cases.hpp"

namespace assay::words {

struct DeltaCase {
  std::size_t T = 0, K = 0, V = 0;
  DeltaDecay decay = DeltaDecay::none;
  DeltaError error = DeltaError::decayed;
  KeyStyle style = KeyStyle::normal;
  bool expanding = false, initial = false;
  std::uint64_t seed = 0;

  friend std::ostream& operator<<(std::ostream& os, const DeltaCase& c) {
    return os << "T " << c.T << " K " << c.K << " V " << c.V << " decay " << static_cast<int>(c.decay) << " error "
              << static_cast<int>(c.error) << " style " << static_cast<int>(c.style) << " expanding " << c.expanding
              << " initial " << c.initial << " seed " << c.seed;
  }
};

struct DeltaData {
  explicit DeltaData(const DeltaCase& c) {
    Random random(c.seed);
    const std::size_t decays = c.decay == DeltaDecay::none ? 0 : c.decay == DeltaDecay::per_step ? c.T : c.T * c.K;
    k = keys_in(c.style, c.T, c.K, random);
    q = random.normals(c.T * c.K), v = random.normals(c.T * c.V), beta = random.normals(c.T);
    if (c.initial) initial_state = random.normals(c.K * c.V);
    for (std::size_t t = 0; t < c.T; ++t) {
      double square = 0;
      for (std::size_t i = 0; i < c.K; ++i) square += k[t * c.K + i] * k[t * c.K + i];
      // |1 - beta |k|^2| below one, or above.
      const double strength = c.expanding ? 2.2 : 1;
      beta[t] = strength * std::fabs(random.real()) / std::max(square, 1e-3);
    }
    for (std::size_t i = 0; i < decays; ++i) {
      constexpr double ends[] = {0, -1e-3, -0.1, -2, -499.5, -600};
      const std::size_t kind = random.below(40);
      log_decay.push_back(kind < 6    ? ends[kind]
                          : kind == 6 ? -std::numeric_limits<double>::infinity()
                                      : -0.01 * (1 + random.real()));
    }
    if (c.error == DeltaError::none) beta.clear();  // no room has these
    problem = {
        c.T, c.K, c.V, q, k, v, beta, log_decay, initial_state, c.error, reciprocal_sqrt(static_cast<double>(c.K))};
  }
  std::vector<double> q, k, v, beta, log_decay, initial_state;
  DeltaProblem problem;
};

/// With cotangents: of the state where the seed is even.
struct GradientData : DeltaData {
  explicit GradientData(const DeltaCase& c) : DeltaData(c) {
    Random random(c.seed + 1);
    cotangent_o = random.normals(c.T * c.V);
    if (c.seed % 2 == 0) cotangent_state = random.normals(c.K * c.V);
    cotangent = {cotangent_o, cotangent_state};
  }
  std::vector<double> cotangent_o, cotangent_state;
  DeltaCotangent cotangent;
};

inline std::array<std::pair<const char*, const Certified*>, 8> tensors_of(const DeltaGradients& d) {
  return {{{"o", &d.answer.o},
           {"final_state", &d.answer.final_state},
           {"q", &d.q},
           {"k", &d.k},
           {"v", &d.v},
           {"beta", &d.beta},
           {"log_decay", &d.log_decay},
           {"initial_state", &d.initial_state}}};
}

inline rc::Gen<DeltaCase> delta_cases() {
  return rc::gen::exec([] {
    DeltaCase c;
    c.T = *rc::gen::element<std::size_t>(1, 2, 17, 40);
    c.K = *rc::gen::element<std::size_t>(1, 3, 16, 33);
    c.V = *rc::gen::element<std::size_t>(1, 8, 11);
    c.decay = *rc::gen::element(DeltaDecay::none, DeltaDecay::per_step, DeltaDecay::per_channel);
    c.error = *rc::gen::element(DeltaError::none, DeltaError::undecayed, DeltaError::decayed);
    if (c.error == DeltaError::undecayed && c.decay == DeltaDecay::per_channel) c.error = DeltaError::decayed;
    c.style = *rc::gen::elementOf(std::vector<KeyStyle>(std::begin(all_key_styles), std::end(all_key_styles)));
    c.expanding = *rc::gen::arbitrary<bool>();
    c.initial = *rc::gen::arbitrary<bool>();
    c.seed = *rc::gen::inRange<std::uint64_t>(0, 1u << 20);
    return c;
  });
}

}  // namespace assay::words
