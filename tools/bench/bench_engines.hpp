#pragma once
// The cost of the certified engines beside a plain double loop and cpp_bin_float_50, measured in one run on one core.
#include <cstddef>
#include <string>
#include <vector>

namespace assay::words {

/// Processor time of this thread in seconds: other work on the machine does not count.
double processor_time();

struct BenchRow {
  std::string mechanism;
  std::string tier;       ///< "double loop", "cpp_bin_float_50", "2 words avx512", ...
  double seconds = 0;     ///< processor time per token (delta rule) or per query (local linear attention)
  double per_double = 0;  ///< of the double loop's time
  double faster = 0;      ///< cpp_bin_float_50's time over this one
  double log2_bound = 0;  ///< worst bound / largest output; 0 where there is none
};

struct BenchSize {
  std::size_t tokens = 1024, dim = 128;
  /// Tokens (delta rule) or late queries that the slow types compute: their cost per token does not depend on it.
  std::size_t sample = 1;
};

/// gated_deltanet, scalar decay: every number of words on every instruction set of this machine.
std::vector<BenchRow> bench_delta(const BenchSize& size);
/// The time of cpp_bin_float_50 over that of mp50, both in the delta rule's loop.
double bin_float_over_mp50();
/// lla, ridge mode max, lambda 1e-3: the last 32 queries of the head.
std::vector<BenchRow> bench_lla(const BenchSize& size);

}  // namespace assay::words
