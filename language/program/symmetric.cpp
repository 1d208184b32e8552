#include "language/program/symmetric.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "language/program/infer.hpp"
#include "language/program/lists.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

using Flags = std::vector<char>;

/// Which results of a step are symmetric, by which of its parameters are: scans in scans ask again and again.
using Known = std::map<std::pair<const Block*, Flags>, Flags>;

/// Which values of a block are symmetric in their last two axes.
class Symmetry {
 public:
  /// `params`: which parameters are. `where`: the block in messages; empty while states are not settled.
  Symmetry(const Block& block, Flags params, const std::string& where, Known& known)
      : b_(block), symmetric_(std::move(params)), known_(known) {
    for (int v = b_.first(); v < values_of(b_); ++v) {
      const Node& node = *b_.node(v);
      if (node.op == Op::scan) of_scan_[v] = scanned(node, where.empty() ? "" : inside(where, v));
      const bool proven = node.op != Op::solve || !node.attributes.definite || symmetric_[index(node.args[0])] != 0;
      require(proven || where.empty(), where, ": node ", v - b_.first(),
              " (solve): definite, but A may not be symmetric: write (A + A.T) / 2, or leave definite out");
      symmetric_.push_back(static_cast<char>(node.op != Op::scan && rank(v) >= 2 && holds(v)));
    }
  }

  Flags results() const {
    Flags flags;
    for (const int r : b_.results) flags.push_back(symmetric_[index(r)]);
    return flags;
  }

 private:
  static std::string inside(const std::string& where, int v) { return where + '.' + std::to_string(v); }
  int rank(int v) const { return static_cast<int>(b_.type(v).axes.size()); }

  const Flags& results_of(const Block& body, const Flags& params) const {
    const auto key = std::pair(&body, params);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    Flags results = Symmetry(body, params, "", known_).results();
    return known_.emplace(key, std::move(results)).first->second;
  }

  /// Which results of a scan are: states that start so and stay so, and rows.
  Flags scanned(const Node& node, const std::string& where) const {
    const Block& body = *node.attributes.body;
    const auto carry = index(node.attributes.carry), own = carry + index(node.attributes.xs);
    Flags params;
    for (std::size_t i = 0; i < node.args.size(); ++i)
      params.push_back(
          static_cast<char>(symmetric_[index(node.args[i])] != 0 && (i < carry || i >= own || rank(node.args[i]) > 2)));
    for (;;) {
      const Flags made = results_of(body, params);
      bool settled = true;
      for (std::size_t i = 0; i < carry; ++i)
        if (params[i] != 0 && made[i] == 0) params[i] = 0, settled = false;
      if (settled) break;
    }
    if (!where.empty()) Symmetry(body, params, where, known_);
    Flags results = results_of(body, params);
    std::copy_n(params.begin(), carry, results.begin());
    return results;
  }

  template <class F>
  static bool once(std::map<std::pair<int, int>, bool>& answers, int a, int b, F&& asked) {
    const auto key = std::pair(a, b);
    if (const auto found = answers.find(key); found != answers.end()) return found->second;
    return answers[key] = asked();
  }

  /// Whether v does not change along that axis, as written.
  bool is_flat(int v, int axis) const {
    return once(flat_, v, axis, [&] { return looks_flat(v, axis); });
  }
  bool looks_flat(int v, int axis) const {
    const Node* node = b_.node(v);
    if (node == nullptr) return false;
    if (node->op == Op::expand) {
      const int at = node->attributes.axis;
      return at == axis || is_flat(node->args[0], axis - (at < axis ? 1 : 0));
    }
    return is_elementwise(node->op) && std::ranges::all_of(node->args, [&](int a) { return is_flat(a, axis); });
  }

  /// v, or what it is a multiple of, by numbers that do not change along that axis.
  int base(int v, int axis) const {
    for (;;) {
      const Node* node = b_.node(v);
      if (node == nullptr || !any_of(node->op, {Op::mul, Op::div})) return v;
      if (is_flat(node->args[1], axis))
        v = node->args[0];
      else if (node->op == Op::mul && is_flat(node->args[0], axis))
        v = node->args[1];
      else
        return v;
    }
  }

  bool exchanges_last(const Node& node) const {
    const std::vector<int>& perm = node.attributes.perm;
    for (std::size_t i = 0; i + 2 < perm.size(); ++i)
      if (perm[i] != static_cast<int>(i)) return false;
    return perm.size() >= 2 && perm.back() == static_cast<int>(perm.size()) - 2;
  }

  /// Whether y is x with its last two axes exchanged.
  bool swapped(int x, int y) const {
    return once(swapped_, x, y, [&] { return looks_swapped(x, y); });
  }
  bool looks_swapped(int x, int y) const {
    if (x == y) return symmetric_[index(x)] != 0;
    const Node *m = b_.node(x), *n = b_.node(y);
    const auto transposes = [&](const Node* node, int other) {
      return node != nullptr && node->op == Op::transpose && node->args[0] == other && exchanges_last(*node);
    };
    if (transposes(m, y) || transposes(n, x)) return true;
    if (m == nullptr || n == nullptr || m->op != n->op || m->attributes.absorb != n->attributes.absorb) return false;
    if (m->op == Op::expand && m->args[0] == n->args[0]) {
      const auto [low, high] = std::minmax(m->attributes.axis, n->attributes.axis);
      return low == rank(x) - 2 && high == rank(x) - 1;
    }
    return is_elementwise(m->op) && m->op != Op::round &&
           std::equal(m->args.begin(), m->args.end(), n->args.begin(), [&](int p, int q) { return swapped(p, q); });
  }

  /// Whether it holds on the diagonal alone: i == j, as iota writes it.
  bool is_diagonal(int v) const {
    const Node* node = b_.node(v);
    if (node == nullptr || node->op != Op::eq || !swapped(node->args[0], node->args[1])) return false;
    const Node* side = b_.node(node->args[0]);
    const Node* line = side == nullptr || side->op != Op::expand ? nullptr : b_.node(side->args[0]);
    return line != nullptr && line->op == Op::iota;
  }

  /// The operand of a contraction behind its transposes, with its letters.
  std::pair<int, std::string> untransposed(int v, std::string letters) const {
    for (const Node* node = b_.node(v); node != nullptr && node->op == Op::transpose; node = b_.node(v)) {
      std::string inner = letters;
      for (std::size_t i = 0; i < letters.size(); ++i) inner[index(node->attributes.perm[i])] = letters[i];
      v = node->args[0], letters = inner;
    }
    return {v, letters};
  }

  /// Sums of x_i x_j: both sides multiples of the same numbers.
  bool is_square(const Node& node) const {
    const Contraction c = contraction_from(node.attributes.spec);
    const char row = c.result[c.result.size() - 2], column = c.result.back();
    auto x = untransposed(node.args[0], c.left), y = untransposed(node.args[1], c.right);
    if (x.second.find(row) == std::string::npos) std::swap(x, y);
    const std::size_t at = x.second.find(row), other = y.second.find(column);
    if (at == std::string::npos || at != other) return false;
    if (x.second.find(column) != std::string::npos || y.second.find(row) != std::string::npos) return false;
    y.second[other] = row;
    const int axis = static_cast<int>(at);
    return x.second == y.second && base(x.first, axis) == base(y.first, axis);
  }

  bool holds(int v) const {
    const Node& node = *b_.node(v);
    const std::vector<Dim>& axes = node.types[0].axes;
    const int last = rank(v) - 1;
    if (!(axes[index(last)] == axes[index(last - 1)])) return false;
    const auto is = [&](std::size_t i) { return symmetric_[index(node.args[i])] != 0; };
    switch (node.op) {
      case Op::get:
        return of_scan_.at(node.args[0])[index(node.attributes.i)] != 0;
      case Op::expand:
        return node.attributes.axis < last - 1 ? is(0) : is_flat(node.args[0], last - 1);
      case Op::contract:
        return is_square(node);
      case Op::select:
        return is(2) && (is_diagonal(node.args[0]) || (is(0) && is(1)));
      case Op::transpose:
        return is(0) && node.attributes.perm[index(last)] + node.attributes.perm[index(last - 1)] == 2 * last - 1;
      case Op::sum:
      case Op::index:
        return is(0) && node.attributes.axis < last;
      case Op::shift:
      case Op::cumsum:
        return is(0) && last > 1;
      default:
        break;
    }
    if (any_of(node.op, {Op::add, Op::mul, Op::max, Op::and_, Op::or_, Op::eq}) && swapped(node.args[0], node.args[1]))
      return true;
    return is_elementwise(node.op) && std::ranges::all_of(node.args, [&](int a) { return symmetric_[index(a)] != 0; });
  }

  const Block& b_;
  Flags symmetric_;
  Known& known_;
  std::map<int, Flags> of_scan_;
  mutable std::map<std::pair<int, int>, bool> flat_, swapped_;
};

}  // namespace

void require_symmetric(const Program& program) {
  Known known;
  const auto check = [&](const Block& block, const std::string& where) {
    Symmetry(block, Flags(block.params.size(), 0), where, known);
  };
  if (program.version() < 3) return;
  check(*program.body, "body");
  for (const Input& in : program.inputs)
    if (in.missing) check(*in.missing, "default of " + in.name);
}

}  // namespace assay::language
