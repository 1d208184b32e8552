// How much an evaluation may take, before it takes it.
#include <algorithm>

#include "language/evaluate.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

double count_of(const Type& type, const Sizes& sizes) {
  double n = 1;
  for (const Dim& dim : type.axes) {
    const auto found = sizes.find(dim.name);
    n *= dim.name.empty() ? dim.written : found == sizes.end() ? 0 : found->second;
  }
  require_domain(n <= most_elements, -1, "[", text_of(type), "] would have ", n, " elements");
  return n;
}

}  // namespace

double footprint(const Block& block, const Sizes& sizes) {
  double sum = 0, inner = 0;
  for (const Node& node : block.nodes) {
    const bool view = node.op == Op::expand || node.op == Op::transpose || node.op == Op::index || node.op == Op::get;
    double n = 0;
    for (const Type& type : node.types) n += count_of(type, sizes);
    if (!view) sum += n;
    if (node.op == Op::scan) inner = std::max(inner, footprint(*node.attributes.body, sizes));
  }
  return sum + inner;
}

namespace detail {

void require_memory(const Program& program, const Sizes& sizes, std::size_t bytes);
void require_memory(const Program& program, const Sizes& sizes, std::size_t bytes) {
  const double needed = footprint(*program.body, sizes) * static_cast<double>(bytes);
  require_domain(needed <= most_memory, -1, "this would take ", needed / 0x1p30, " GiB of memory for each head; ",
                 most_memory / 0x1p30, " GiB is the most");
}

}  // namespace detail
}  // namespace assay::language
