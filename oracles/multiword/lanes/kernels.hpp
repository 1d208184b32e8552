#pragma once
// The inner loops that exist once per instruction set, behind one table of function pointers.
#include <cstddef>
#include <string_view>

namespace assay::words {

enum class Isa { scalar, avx2, avx512 };
inline constexpr Isa all_isas[] = {Isa::scalar, Isa::avx2, Isa::avx512};

std::string_view name_of(Isa isa);
/// Whether this machine can run it.
bool supported(Isa isa);
/// The widest that this machine can run.
Isa best_isa();

/// Weights and decays below e^-500 count as zero, and their bound as error: no word of a larger one underflows.
inline constexpr double exp_lowest = -500;
inline constexpr double dropped_weight = 0x1p-721;  ///< > e^-500

enum class DeltaDecay { none, per_step, per_channel };
enum class DeltaError { none, undecayed, decayed };

/// How one step changes the bound of a column and what its output may be off by; docs/error-analysis.md, section 4.
struct DeltaBound {
  double growth;        ///< of the error so far
  double of_state;      ///< times the column's size before the step
  double of_residual;   ///< times |v| + size(P^T p)
  double of_write;      ///< times size(beta e)
  double floor;         ///< underflow
  double out_of_state;  ///< of the output: times (error + read_error size)
  double out_floor;
};

/// Sums along the keys that do not wait for each other, where the words leave registers for them.
constexpr std::size_t delta_parts(int words) { return words < 4 ? 2 : 1; }

/// As many columns of one problem as there are lanes. Layouts: state [key][word][lanes], decay [step][word] or
/// [step][key][word].
struct DeltaSlab {
  std::size_t steps, keys, value_stride;
  DeltaDecay decay_kind;
  DeltaError error_kind;
  const double *q, *k;  ///< [steps][keys]
  const double* v;      ///< [steps][value_stride], at the slab's first column
  const double* beta;   ///< [steps]
  const double* decay;
  const double* scale;  ///< [word]
  const DeltaBound* bound;
  double read_error, scale_error;
  double* state;
  double* error;       ///< [lanes] bounds of the columns' 2-norm errors: before, afterwards after the last step
  double* const* out;  ///< [word] -> [steps][value_stride]
  double* out_bound;   ///< [steps][value_stride]
};

/// Planes of words: planes[w][at].
using Planes = double* const*;
using ConstPlanes = const double* const*;

/// Covariance, Cholesky factors and solves in float or double (precondition.hpp).
template <class R>
struct Preconditioner {
  void (*covariance)(const R* keys, const R* root_weight, const R* center, std::size_t n, std::size_t stride, R* z,
                     R* A);
  bool (*cholesky)(R* A, std::size_t d, std::size_t stride);
  void (*transpose)(R* U, R* L, std::size_t d, std::size_t stride);
  void (*solve)(const R* U, const R* L, R* x, std::size_t d, std::size_t stride);
};

/// Numbers of a pack (pack.hpp): as many as the widest vector holds, on every machine.
inline constexpr int pack_size = 8;
/// Underflows of one operation on a pack add up to less: some 2^5 residues below 2^-1074.
inline constexpr double pack_underflow = 0x1p-1050;

/// The rounding errors of a pack's operations; magnitude.hpp says relative to what.
struct PackConstants {
  double add, multiply, multiply_add, dot, exp;
};

/// Packs in memory, `step` doubles apart.
struct PackLine {
  double* first;
  std::ptrdiff_t step;
};
struct ConstPackLine {
  const double* first;
  std::ptrdiff_t step;
};

/// ball_kernels.hpp. A result may be one of the operands.
struct PackKernels {
  using Binary = void (*)(double* result, const double* a, const double* b, const PackConstants&);
  using Dot = void (*)(double* result, ConstPackLine a, ConstPackLine b, std::size_t n, const PackConstants&);
  using Scaled = void (*)(PackLine result, const double* a, ConstPackLine b, std::size_t n, const PackConstants&);
  Binary add, subtract, multiply, divide, multiply_add, multiply_subtract;
  Dot add_dot, subtract_dot;
  Scaled add_scaled, subtract_scaled;
  void (*exp)(double* result, const double* a, const PackConstants&);
  void (*leading_words)(ConstPackLine rows, std::size_t n, double* A, double* rest);
};

/// definite_kernels.hpp: eight symmetric positive definite systems of doubles.
struct DefiniteKernels {
  void (*factor)(double* A, std::size_t n);
  void (*solve)(const double* L, double* x, std::size_t n);
};

/// The kernels that depend on the number of words: matrix.hpp, delta_slab.hpp, passes.hpp.
struct WordKernels {
  void (*product)(const double* A, std::size_t lda, ConstPlanes B, std::size_t bk, std::size_t bn, Planes C,
                  std::size_t ldc, std::size_t rows, std::size_t columns, std::size_t K);
  void (*product_plain)(const double* A, std::size_t lda, ConstPlanes B, std::size_t bk, std::size_t bn, Planes C,
                        std::size_t ldc, std::size_t rows, std::size_t columns, std::size_t K);
  void (*product_words)(ConstPlanes A, std::size_t lda, ConstPlanes B, std::size_t bk, std::size_t bn, Planes C,
                        std::size_t ldc, std::size_t rows, std::size_t columns, std::size_t K);
  void (*dot)(ConstPlanes a, ConstPlanes b, std::size_t n, double* out);
  void (*residual)(Planes t, Planes u, ConstPlanes weight, const double* offset, std::size_t n, double* sum);
  void (*residual_end)(Planes r, ConstPlanes pull, ConstPlanes ridge, ConstPlanes eta, ConstPlanes center,
                       const double* sum_u, std::size_t n);
  void (*center)(Planes center, Planes pull, const double* q, const double* factor, std::size_t n);
  void (*output)(Planes out, ConstPlanes weight, const double* factor, ConstPlanes u, std::size_t n);
  void (*multiply)(Planes out, ConstPlanes a, ConstPlanes b, std::size_t n);
  void (*score_gradient)(Planes out, ConstPlanes u, ConstPlanes slope, ConstPlanes weight, const double* share,
                         const double* factor, std::size_t n);
  // Not for one word:
  void (*weights)(Planes x, std::size_t n, std::size_t first, std::size_t last, const double* factor, double shift,
                  double* sum);
  void (*exp_of_doubles)(const double* x, double* out);
  void (*delta)(const DeltaSlab&);
  PackKernels pack;
};

struct Kernels {
  std::size_t lanes;  ///< doubles per vector
  WordKernels words[5];
  Preconditioner<float> in_float;
  Preconditioner<double> in_double;
  DefiniteKernels definite;
};

const Kernels& kernels(Isa isa);

}  // namespace assay::words
