// How much an evaluation may take, before it takes it.
#include <algorithm>
#include <cmath>

#include "language/evaluate/evaluate.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

double count_of(const Type& type, const Sizes& sizes) {
  double n = 1;
  for (const Dim& dim : type.axes) n *= extent_of(dim, sizes);
  require_domain(n <= most_elements, -1, "[", text_of(type), "] would have ", n, " elements");
  return n;
}

/// Numbers that stay of a scan's result.
double kept(const Block& block, const Node& node, std::size_t i, const Sizes& sizes) {
  const double all = count_of(node.types[i], sizes);
  if (node.op != Op::scan || !is_replayed(block, node, i)) return all;
  const Type row{node.types[i].kind, {node.types[i].axes.begin() + 1, node.types[i].axes.end()}};
  const double one = count_of(row, sizes);
  return one > 0 ? one * (2 * std::sqrt(all / one) + 2) : 0;
}

}  // namespace

bool is_replayed(const Block& block, const Node& scan, std::size_t i) {
  const Block& body = *scan.attributes.body;
  if (static_cast<int>(i) < scan.attributes.carry || body.results[i] >= scan.attributes.carry) return false;
  for (std::size_t n = 0; n < block.nodes.size(); ++n) {
    const Node& get = block.nodes[n];
    const bool ours = get.op == Op::get && block.node(get.args[0]) == &scan;
    if (!ours || static_cast<std::size_t>(get.attributes.i) != i) continue;
    const int v = block.first() + static_cast<int>(n);
    if (std::find(block.results.begin(), block.results.end(), v) != block.results.end()) return false;
    for (const Node& user : block.nodes)
      for (std::size_t a = 0; a < user.args.size(); ++a) {
        const auto carry = static_cast<std::size_t>(user.attributes.carry);
        const bool row = user.op == Op::scan && a >= carry && a < carry + static_cast<std::size_t>(user.attributes.xs);
        if (user.args[a] == v && !row) return false;
      }
  }
  return true;
}

namespace {

/// Only those of the outermost block's scans are computed again.
double footprint_of(const Block& block, const Sizes& sizes, bool outermost) {
  double sum = 0, inner = 0;
  for (const Node& node : block.nodes) {
    const bool view = node.op == Op::expand || node.op == Op::transpose || node.op == Op::index || node.op == Op::get ||
                      node.op == Op::round;
    double n = 0;
    for (std::size_t i = 0; i < node.types.size(); ++i)
      n += outermost ? kept(block, node, i, sizes) : count_of(node.types[i], sizes);
    if (!view) sum += n;
    if (node.op == Op::scan) inner = std::max(inner, footprint_of(*node.attributes.body, sizes, false));
  }
  return sum + inner;
}

}  // namespace

double footprint(const Block& block, const Sizes& sizes) { return footprint_of(block, sizes, true); }

namespace detail {

void require_memory(const Program& program, const Sizes& sizes, std::size_t bytes);
void require_memory(const Program& program, const Sizes& sizes, std::size_t bytes) {
  const double needed = footprint(*program.body, sizes) * static_cast<double>(bytes);
  require_domain(needed <= most_memory, -1, "this would take ", needed / 0x1p30, " GiB of memory for each head; ",
                 most_memory / 0x1p30, " GiB is the most");
}

}  // namespace detail
}  // namespace assay::language
