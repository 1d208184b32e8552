#include "tools/run/same_bits.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "files/in_words.hpp"
#include "judge/verdict/judge.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// The bytes of sequence `b` of `batch`.
Bytes part_of(const StoredTensor& tensor, int b, int batch) {
  const std::size_t size = tensor.bytes.size() / static_cast<std::size_t>(batch);
  const auto first = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(size * static_cast<std::size_t>(b));
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

int batch_of(const Safetensors& file) {
  int batch = 1;
  for (const auto& [name, tensor] : file.tensors)
    if (!tensor.shape.empty()) batch = std::max(batch, tensor.shape.front());
  return batch;
}

/// Two numbers of other bits, each in as many digits as tell them apart; two that are no numbers are the same words.
std::pair<std::string, std::string> told_apart(double is, double was) {
  const auto in_digits = [](double x, int digits) {
    std::ostringstream out;
    out << std::setprecision(digits) << unsigned_nan(x);
    return out.str();
  };
  int digits = 6;
  while (digits < std::numeric_limits<double>::max_digits10 && in_digits(is, digits) == in_digits(was, digits))
    ++digits;
  return {in_digits(is, digits), in_digits(was, digits)};
}

/// "o[1][5][0][2] is 0.25 when it is run again, and was 0.5", or "" if both have the same bits. `was` and `is` are
/// sequence `first` and those after it.
std::string difference(const std::string& name, StoredTensor was, const StoredTensor& is, int first,
                       const std::string& when) {
  if (was.dtype != is.dtype) return text(name, " is ", is.dtype, ' ', when, ", and was ", was.dtype);
  if (was.bytes == is.bytes) return "";
  const Array before = load(name, was), after = load(name, is);
  const std::size_t size = was.bytes.size() / std::max<std::size_t>(1, before.data.size());
  std::size_t at = 0;
  while (std::equal(was.bytes.begin() + static_cast<std::ptrdiff_t>(at * size),
                    was.bytes.begin() + static_cast<std::ptrdiff_t>((at + 1) * size),
                    is.bytes.begin() + static_cast<std::ptrdiff_t>(at * size)))
    ++at;
  std::string where = place(was.shape, at);
  if (first > 0) where.replace(0, where.find(']'), text('[', first));
  const auto [now, then] = told_apart(after.data[at], before.data[at]);
  return text(name, where, " is ", now, ' ', when, ", and was ", then, now == then ? " of other bits" : "");
}

}  // namespace

Safetensors sequence_alone(const Safetensors& batch, int b) {
  const int sequences = batch_of(batch);
  Safetensors alone{{}, batch.metadata};
  for (const auto& [name, tensor] : batch.tensors) {
    StoredTensor& part = alone.tensors[name] = {tensor.dtype, tensor.shape, {}};
    const bool whole = tensor.shape.empty();
    part.bytes = whole ? tensor.bytes : part_of(tensor, b, sequences);
    if (!whole) part.shape.front() = 1;
  }
  return alone;
}

std::map<std::string, std::string> changed_bits(const Safetensors& problem, const Safetensors& answer,
                                                const KernelRun& run,
                                                const std::function<Safetensors()>& other_padding) {
  std::map<std::string, std::string> changed;
  const auto compare = [&](const Safetensors& was, const Safetensors& is, int first, const std::string& when) {
    for (const auto& [name, tensor] : was.tensors) {
      const auto found = is.tensors.find(name);
      const std::string what = found == is.tensors.end() ? name + " is missing " + when
                               : found->second.shape != tensor.shape
                                   ? name + " has another shape " + when
                                   : difference(name, tensor, found->second, first, when);
      if (!what.empty()) changed.emplace(name, what);
    }
  };
  const int batch = batch_of(problem);
  compare(answer, run(problem, batch), 0, "when it is run again");
  if (other_padding) compare(answer, other_padding(), 0, "with zeros around the inputs in place of NaN");
  if (batch == 1) return changed;
  for (const int b : {0, batch - 1}) {
    Safetensors part = sequence_alone(answer, b);
    // A tensor without axes is of all sequences together.
    std::erase_if(part.tensors, [](const auto& tensor) { return tensor.second.shape.empty(); });
    compare(part, run(sequence_alone(problem, b), 1), b, text("when sequence ", b, " is run alone"));
  }
  return changed;
}

}  // namespace assay
