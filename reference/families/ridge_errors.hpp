#pragma once
// How errors travel through recursive least squares, for scalars that enclose their numbers (carried_error.hpp): the
// covariance P shrinks and its inverse Y grows, and in the lengths that they measure no step makes an error longer.
// docs/error-analysis.md, section 8.
#include <cstddef>
#include <vector>

#include "reference/core/columns.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/carried_error.hpp"

namespace assay {

/// p = P x, s = 1 + x.p, the gain p / s and the residual r = v - S^T x of a step.
template <class S>
struct RidgeStep {
  std::vector<S> p, gain, r;
  S s = S(1);
};

/// The errors of a mean S and a covariance P; between steps the radii of both hold them. A step takes them off, maps
/// the middles, and puts the errors back, with its own.
template <class S>
class RidgeErrors {
 public:
  RidgeErrors(const Columns<S>&, const Tensor<S, 2>&, const S&) {}
  void take(Columns<S>&, Tensor<S, 2>&) const {}
  void put_back(Columns<S>&, Tensor<S, 2>&, const S&, RidgeStep<S>&) {}
};

/// The same of their adjoints G and Pi, all the way back.
template <class S>
class RidgeAdjointErrors {
 public:
  explicit RidgeAdjointErrors(int) {}
  void note_mean(Columns<S>&, const RidgeErrors<S>&) {}
  void note_covariance(Tensor<S, 2>&, const RidgeErrors<S>&) {}
  void step(const RidgeErrors<S>&, const RidgeErrors<S>&, const RidgeStep<S>&) {}
  NoBounds of_value(int) const { return {}; }
  NoBounds of_slope() const { return {}; }
  NoBounds of_feature() const { return {}; }
  NoBounds of_mean(int, const S&) const { return {}; }
  NoBounds of_covariance(const S&) const { return {}; }
};

namespace detail {
/// The upper triangle counts.
template <class S>
void make_symmetric(Tensor<S, 2>& A) {
  for (int i = 0; i < A.size(0); ++i)
    for (int l = 0; l < i; ++l) A(i, l) = A(l, i);
}
}  // namespace detail

template <Enclosure S>
class RidgeErrors<S> {
  using B = Bounds<S>;

 public:
  /// The errors of the state that the recurrence starts from, of precision lambda.
  RidgeErrors(Columns<S>& mean, Tensor<S, 2>& covariance, const S& lambda)
      : widest_(S(1) / lambda),
        trace_(size_of(S(S(covariance.size(0)) * lambda))),
        mean_(static_cast<std::size_t>(mean.size(1))) {
    note(mean, covariance);
  }

  void take(Columns<S>& mean, Tensor<S, 2>& covariance) const {
    S::take_joint_error(covariance.data.data(), static_cast<int>(covariance.data.size()));
    for (int c = 0; c < mean.size(1); ++c) S::take_joint_error(mean.column(c), mean.size(0));
  }
  /// After a step whose feature has the squared norm `square`; `step` shows its own errors, then all.
  void put_back(Columns<S>& mean, Tensor<S, 2>& covariance, const S& square, RidgeStep<S>& step) {
    const B reach = size_of(S(step.s - S(1))) * slack_;
    reach_ = sqrt(reach);
    step.s = step.s.widened(covariance_ * reach);
    share_ = sqrt(size_of(S(S(1) - S(1) / step.s)));
    const B of_p = covariance_ * sqrt(largest_) * reach_, of_gain = covariance_ * sqrt(largest_) * share_;
    for (S& p : step.p) p = p.widened(of_p);
    for (S& g : step.gain) g = g.widened(of_gain);
    for (std::size_t c = 0; c < mean_.size(); ++c) {
      const B before = mean_[c];
      mean_[c] = before + covariance_ * size_of(step.r[c]) * share_;
      step.r[c] = step.r[c].widened(before * reach_);
    }
    trace_ = trace_ + size_of(square);
    note(mean, covariance);
  }

 private:
  friend class RidgeAdjointErrors<S>;

  void note(Columns<S>& mean, Tensor<S, 2>& covariance) {
    const int K = covariance.size(0);
    detail::make_symmetric(covariance);
    S sum = S(0), most = S(0);
    covariance_ = covariance_ + S::take_errors(covariance.data.data(), K * K) * trace_;
    for (int i = 0; i < K; ++i) sum += covariance(i, i), most = larger(most, covariance(i, i));
    slack_ = size_of(S(S(1) / (S(1) - S(0).widened(covariance_))));
    largest_ = size_of(most) * slack_, norm_ = size_of(smaller(sum, widest_)) * slack_;
    S::set_joint_error(covariance.data.data(), K * K, covariance_ * largest_);
    for (int c = 0; c < mean.size(1); ++c) {
      B& error = mean_[static_cast<std::size_t>(c)];
      error = error + S::take_errors(mean.column(c), K) * sqrt(trace_);
      S::set_joint_error(mean.column(c), K, error * sqrt(largest_));
    }
  }

  S widest_;             // 1 / lambda, at least every eigenvalue of P
  B trace_;              // of Y
  B covariance_;         // theta, -theta P <= error <= theta P
  std::vector<B> mean_;  // psi of a column, error^T Y error <= psi^2
  B slack_;              // P <= slack times its middle
  B largest_, norm_;     // number of P's diagonal, and eigenvalue
  B reach_, share_;      // of the last step: sqrt(x^T P x) before it, and after it
};

template <Enclosure S>
class RidgeAdjointErrors<S> {
  using B = Bounds<S>;

 public:
  explicit RidgeAdjointErrors(int columns) : mean_(static_cast<std::size_t>(columns)) {}

  /// Notes the errors that G shows, made while the state was `state`.
  void note_mean(Columns<S>& G, const RidgeErrors<S>& state) {
    for (int c = 0; c < G.size(1); ++c) {
      B& error = mean_[static_cast<std::size_t>(c)];
      error = error + S::take_errors(G.column(c), G.size(0)) * sqrt(state.norm_);
    }
  }
  void note_covariance(Tensor<S, 2>& Pi, const RidgeErrors<S>& state) {
    detail::make_symmetric(Pi);
    covariance_ = covariance_ + S::take_errors(Pi.data.data(), static_cast<int>(Pi.data.size())) * state.norm_;
  }
  /// Takes the errors back over a step.
  void step(const RidgeErrors<S>& before, const RidgeErrors<S>& after, const RidgeStep<S>& step) {
    B pull;
    for (std::size_t c = 0; c < mean_.size(); ++c) pull = pull + mean_[c] * size_of(step.r[c]);
    share_ = after.share_;
    slope_ = (pull + covariance_ * share_) * share_;
    feature_ = sqrt(before.largest_) * (pull + size_of(S(3)) * covariance_ * after.reach_);
    covariance_ = covariance_ + pull * share_;
  }

  // Bounds of the errors that the step passes on: of G^T g, ds, P^T dp.
  B of_value(int c) const { return mean_[static_cast<std::size_t>(c)] * share_; }
  B of_slope() const { return slope_; }
  B of_feature() const { return feature_; }
  // Bounds for the numbers of G, and of Pi's diagonal, where Y is lambda I.
  B of_mean(int c, const S& lambda) const { return mean_[static_cast<std::size_t>(c)] * sqrt(size_of(lambda)); }
  B of_covariance(const S& lambda) const { return covariance_ * size_of(lambda); }

 private:
  std::vector<B> mean_;  // gamma of a column, error^T P error <= gamma^2
  B covariance_;         // pi, -pi Y <= error <= pi Y
  B share_, slope_, feature_;
};

}  // namespace assay
