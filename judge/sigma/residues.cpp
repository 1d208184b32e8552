#include "judge/sigma/residues.hpp"

#include <cmath>
#include <cstdint>

#include "judge/sigma/expected.hpp"
#include "kernels/core/policy.hpp"
#include "reference/core/random.hpp"

namespace assay {
namespace {

/// Toward zero, where every domain goes on: by up to 64 half bits, so that terms that cancel seldom move alike.
void move(Arrays& arrays, std::uint64_t seed, const char* kind) {
  for (auto& [name, array] : arrays) {
    const Stream stream(seed, kind + name);
    for (std::size_t i = 0; i < array.data.size(); ++i) array.data[i] *= 1 - stream.integer(i, 64) * 0x1p-53;
  }
}

}  // namespace

Arrays residues(const KernelForm& form, const Problem& problem, int tile) {
  Policy policy = Policy::exact(form.sites);
  policy.threads = 1;
  const auto run = [&](const Problem& p) { return flat(form.run(p, policy, tile)); };
  // Any one element stands still in a run by chance, once in 64 where it has two terms: not in three.
  constexpr std::uint64_t runs = 3;
  // The variance of 0, 1, ..., 63. A change that all elements share moves a residue by as little as it is.
  constexpr double variance = (64.0 * 64 - 1) / 12;
  const Arrays still = run(problem);
  Arrays squares;
  for (const auto& [name, array] : still) squares[name] = Array(array.shape);
  for (std::uint64_t r = 1; r <= runs; ++r) {
    Problem moved = problem;
    move(moved.inputs, r, ""), move(moved.cotangents, r, "d_");
    for (const auto& [name, array] : run(moved))
      for (std::size_t i = 0; i < array.data.size(); ++i) {
        const double by = array.data[i] - still.at(name).data[i];
        if (std::isfinite(by)) squares.at(name).data[i] += by * by / (runs * variance);
      }
  }
  for (auto& [name, array] : squares)
    for (double& x : array.data) x = std::sqrt(x);
  return squares;
}

}  // namespace assay
