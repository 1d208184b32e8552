#include "language/evaluate/side_by_side.hpp"

#include <algorithm>

#include "language/program/infer.hpp"
#include "language/program/lists.hpp"

namespace assay::language {
namespace {

/// The mask where a value is zero, for every value: weights of a softmax, and multiples of them.
std::vector<int> zeros_of(const Block& body) {
  std::vector<int> zeros(index(values_of(body)), -1);
  for (int v = body.first(); v < values_of(body); ++v) {
    const Node& node = *body.node(v);
    const auto of = [&](std::size_t i) { return zeros[index(node.args[i])]; };
    switch (node.op) {
      case Op::softmax:
        zeros[index(v)] = node.args[1];
        break;
      case Op::mul:
        zeros[index(v)] = of(0) >= 0 ? of(0) : of(1);
        break;
      case Op::div:
      case Op::neg:
        zeros[index(v)] = of(0);
        break;
      default:
        break;
    }
  }
  return zeros;
}

/// Whether a contraction has the same indices in both operands: a number of one of them meets one of the other.
bool has_alike(const Node& node) {
  const Contraction c = contraction_from(node.attributes.spec);
  return c.left == c.right;
}

/// The mask outside of which operand i of node v counts for nothing; -1: it counts everywhere; `own`: of v itself.
int mask_at(const Node& node, std::size_t i, const std::vector<int>& zeros, int own) {
  switch (node.op) {
    case Op::softmax:
    case Op::logsumexp:
      return i == 0 ? node.args[1] : -1;
    case Op::mul: {
      const int other = zeros[index(node.args[1 - i])];
      return other >= 0 ? other : own;
    }
    case Op::contract:
      return has_alike(node) ? zeros[index(node.args[1 - i])] : -1;
    case Op::add:
    case Op::sub:
    case Op::neg:
      return own;
    case Op::div:
      return i == 0 ? own : -1;
    default:
      return -1;
  }
}

/// Values that are of some kind and made of such alone.
template <class F>
std::vector<char> made_of(const Block& body, F&& is_one) {
  std::vector<char> made(index(values_of(body)), 0);
  for (int v = 0; v < values_of(body); ++v) {
    const Node* const node = body.node(v);
    const auto so = [&](int a) { return made[index(a)] != 0; };
    made[index(v)] = is_one(v) && (node == nullptr || std::ranges::all_of(node->args, so)) ? 1 : 0;
  }
  return made;
}
/// Integers and truth values.
std::vector<char> whole_of(const Block& body) {
  return made_of(body, [&](int v) { return body.types(v).size() == 1 && body.type(v).kind != Kind::real; });
}

}  // namespace

ScoreMasks masks_of(const Block& body) {
  ScoreMasks found;
  constexpr int unread = -2;
  const std::vector<int> zeros = zeros_of(body);
  const std::vector<char> whole = whole_of(body);
  std::vector<int>& mask = found.mask;
  mask.assign(index(values_of(body)), unread);
  for (const int r : body.results) mask[index(r)] = -1;
  for (int v = values_of(body) - 1; v >= body.first(); --v) {
    const Node& node = *body.node(v);
    if (mask[index(v)] == unread) mask[index(v)] = -1;
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      const int here = mask_at(node, i, zeros, mask[index(v)]);
      int& known = mask[index(node.args[i])];
      known = known == unread || known == here ? here : -1;
    }
  }
  found.early.assign(index(values_of(body)), 0);
  for (int v = values_of(body) - 1; v >= 0; --v) {
    int& m = mask[index(v)];
    const Node* node = body.node(v);
    const bool row = node != nullptr && node->op == Op::contract && !body.type(v).axes.empty();
    if (!row || m < 0 || whole[index(m)] == 0 || body.type(m).axes != body.type(v).axes) m = -1;
    if (m >= 0) found.early[index(m)] = 1, found.any = true;
  }
  for (int v = values_of(body) - 1; v >= body.first(); --v)
    if (found.early[index(v)] != 0)
      for (const int a : body.node(v)->args) found.early[index(a)] = 1;
  return found;
}

std::vector<char> counted_by(const Block& body) {
  return made_of(body, [&](int v) {
    const Node* const node = body.node(v);
    return node == nullptr ? body.type(v).kind != Kind::real : node->op != Op::scan;
  });
}

bool adds_up(const Block& body, int carry) {
  std::vector<char> moves(index(values_of(body)), 0);
  std::vector<int> uses(index(values_of(body)), 0);
  for (int v = 0; v < values_of(body); ++v) {
    const Node* node = body.node(v);
    moves[index(v)] = v < carry ? 1 : 0;
    if (node == nullptr) continue;
    if (node->op == Op::scan || node->op == Op::get) return false;
    for (const int a : node->args) ++uses[index(a)], moves[index(v)] |= moves[index(a)];
  }
  for (const int r : body.results) {
    if (body.type(r).kind != Kind::real) return false;
    ++uses[index(r)];
  }
  for (std::size_t i = index(carry); i < body.results.size(); ++i)
    if (moves[index(body.results[i])] != 0) return false;
  for (int i = 0; i < carry; ++i) {
    int v = body.results[index(i)];
    while (v != i) {
      const Node* node = body.node(v);
      if (node == nullptr || node->op != Op::add || uses[index(v)] != 1) return false;
      const bool first = moves[index(node->args[0])] != 0, second = moves[index(node->args[1])] != 0;
      if (first == second) return false;
      v = node->args[first ? 0 : 1];
    }
    if (uses[index(i)] != 1) return false;
  }
  return true;
}

}  // namespace assay::language
