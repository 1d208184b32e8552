#include "language/evaluate/in_tiles.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "language/evaluate/side_by_side.hpp"
#include "language/program/builder.hpp"
#include "language/program/infer.hpp"
#include "language/program/lists.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

const Dim tile{tokens_of_tile, 0};

/// The parameters of a step, its sequences' rows behind their tokens.
std::vector<Type> params_of_tile(const Block& body, int carry, int xs) {
  std::vector<Type> params = body.params;
  for (int v = carry; v < carry + xs; ++v) params[index(v)].axes.insert(params[index(v)].axes.begin(), tile);
  return params;
}

/// A step written anew, value by value.
class Tiling {
 public:
  Tiling(const Block& body, int carry, int xs)
      : body_(body), out_(params_of_tile(body, carry, xs)), at_(first_values(index(values_of(body)))) {
    has_tokens_.assign(at_.size(), 0), moves_ = added_ = has_tokens_;
    std::vector<int> uses(at_.size(), 0);
    for (const int r : body.results) ++uses[index(r)];
    for (int v = 0; v < carry; ++v) moves_[index(v)] = 1;
    for (int v = carry; v < carry + xs; ++v) has_tokens_[index(v)] = 1;
    for (int v = body.first(); v < values_of(body); ++v)
      for (const int a : body.node(v)->args) {
        moves_[index(v)] |= moves_[index(a)], has_tokens_[index(v)] |= has_tokens_[index(a)], ++uses[index(a)];
      }
    for (int v = values_of(body) - 1; v >= body.first(); --v)
      for (const int a : body.node(v)->args) {
        const bool is_part = (moves_[index(v)] | added_[index(v)]) != 0 && moves_[index(a)] == 0 && uses[index(a)] == 1;
        if (is_part && body.node(v)->op == Op::add && (is(a, Op::add) || is(a, Op::contract))) added_[index(a)] = 1;
      }
  }

  std::shared_ptr<const Block> result() && {
    for (int v = body_.first(); v < values_of(body_); ++v) {
      const Node& node = *body_.node(v);
      if (moves_[index(v)] != 0)
        at_[index(v)] = next_state(node);
      else if (added_[index(v)] == 0)
        at_[index(v)] = written(v);
    }
    std::vector<int> results;
    for (const int r : body_.results) results.push_back(moves_[index(r)] != 0 ? at_[index(r)] : for_each_token(r));
    return std::move(out_).finish(std::move(results));
  }

 private:
  bool has_tokens(int v) const { return has_tokens_[index(v)] != 0; }
  bool is(int v, Op op) const { return body_.node(v) != nullptr && body_.node(v)->op == op; }

  /// A value with one for each token.
  int for_each_token(int v) {
    return has_tokens(v) ? at_[index(v)] : out_.emit(Op::expand, {at_[index(v)]}, along(tile));
  }

  int next_state(const Node& add) {
    const bool first = moves_[index(add.args[0])] != 0;
    return plus_tile(at_[index(add.args[first ? 0 : 1])], add.args[first ? 1 : 0]);
  }

  /// A state and the sum of a value over the tile.
  int plus_tile(int state, int v) {
    require(has_tokens(v), "a step adds what is the same for all tokens");
    if (added_[index(v)] == 0) return out_.emit(Op::add, {state, out_.emit(Op::sum, {at_[index(v)]}, {.axis = 0})});
    const Node* const node = body_.node(v);
    if (node->op == Op::add) return plus_tile(plus_tile(state, node->args[0]), node->args[1]);
    // Where both operands have tokens their index is one more that is summed.
    const bool both = has_tokens(node->args[0]) && has_tokens(node->args[1]);
    const int product = contracted(*node, !both);
    return out_.emit(Op::add, {state, both ? product : out_.emit(Op::sum, {product}, {.axis = 0})});
  }

  static char letter_beside(const std::string& letters) {
    char letter = 'a';
    while (letters.find(letter) != std::string::npos) ++letter;
    return letter;
  }

  int contracted(const Node& node, bool keeps_tokens) {
    Contraction c = contraction_from(node.attributes.spec);
    const char token = letter_beside(c.left + c.right);
    if (has_tokens(node.args[0])) c.left.insert(c.left.begin(), token);
    if (has_tokens(node.args[1])) c.right.insert(c.right.begin(), token);
    if (keeps_tokens && (has_tokens(node.args[0]) || has_tokens(node.args[1])))
      c.result.insert(c.result.begin(), token);
    Attributes attributes = node.attributes;
    attributes.spec = c.left + ',' + c.right + "->" + c.result;
    return out_.emit(Op::contract, mapped(node.args, at_), std::move(attributes));
  }

  /// Products, summed over their common axis, of rows of weights and rows of value v. Where these are sums of products
  /// themselves, the weights go into them first: kernels take the sum of weights times their gradients, which softmax
  /// asks for, as <d_o, o>, and it errs as o does.
  int summed_by(int weights, int v) {
    const Node* const node = body_.node(v);
    const auto one = [&](std::size_t i) { return node->args[i]; };
    if (has_tokens(v) && node != nullptr) {
      if (any_of(node->op, {Op::add, Op::sub}))
        return out_.emit(node->op, {summed_by(weights, one(0)), summed_by(weights, one(1))});
      if (node->op == Op::mul && is(one(0), Op::contract))
        return summed_by(out_.emit(Op::mul, {weights, for_each_token(one(1))}), one(0));
      if (node->op == Op::contract) {
        const Contraction c = contraction_from(node->attributes.spec);
        const bool left = c.left.find(c.result) != std::string::npos,
                   right = c.right.find(c.result) != std::string::npos;
        if (c.result.size() == 1 && left != right)
          return summed_through(weights, c, one(left ? 0 : 1), one(left ? 1 : 0), left);
      }
    }
    return out_.emit(Op::contract, {weights, for_each_token(v)}, {.spec = "ab,ab->a"});
  }
  /// As above, of a contraction: `rows` is the operand that has the axis, the left one if `left`.
  int summed_through(int weights, const Contraction& c, int rows, int other, bool left) {
    const std::string &of_rows = left ? c.left : c.right, &of_other = left ? c.right : c.left;
    const char token = letter_beside(c.left + c.right);
    std::string rest = of_rows;
    rest.erase(rest.find(c.result), 1), rest.insert(rest.begin(), token);
    const auto with_tokens = [&](const std::string& letters, int v) {
      return has_tokens(v) ? token + letters : letters;
    };
    const int sums = out_.emit(Op::contract, {weights, at_[index(rows)]},
                               {.spec = token + c.result + ',' + with_tokens(of_rows, rows) + "->" + rest});
    return out_.emit(Op::contract, {at_[index(other)], sums},
                     {.spec = with_tokens(of_other, other) + ',' + rest + "->" + token});
  }

  int written(int v) {
    const Node& node = *body_.node(v);
    if (!has_tokens(v)) return out_.emit(node.op, mapped(node.args, at_), node.attributes);
    if (node.op == Op::contract && node.types[0].axes.empty() && body_.type(node.args[0]).axes.size() == 1)
      for (const std::size_t weights : {0U, 1U})
        if (is(node.args[weights], Op::softmax))
          return summed_by(for_each_token(node.args[weights]), node.args[1 - weights]);
    if (node.op == Op::contract) return contracted(node, true);
    std::vector<int> args;
    for (const int a : node.args) args.push_back(for_each_token(a));
    Attributes attributes = node.attributes;
    if (any_of(node.op, {Op::expand, Op::index, Op::sum})) ++attributes.axis;
    if (node.op == Op::transpose) {
      for (int& axis : attributes.perm) ++axis;
      attributes.perm.insert(attributes.perm.begin(), 0);
    }
    if (node.op != Op::cumsum && node.op != Op::shift)
      return out_.emit(node.op, std::move(args), std::move(attributes));
    // These go along the first axis.
    std::vector<int> exchanged(out_.type(args[0]).axes.size());
    std::iota(exchanged.begin(), exchanged.end(), 0);
    std::swap(exchanged[0], exchanged[1]);
    const int along_first = out_.emit(Op::transpose, std::move(args), {.perm = exchanged});
    return out_.emit(Op::transpose, {out_.emit(node.op, {along_first}, std::move(attributes))}, {.perm = exchanged});
  }

  const Block& body_;
  Builder out_;
  std::vector<int> at_;
  /// Of the body's values: others for other tokens; made of states; parts of what is added to one, products and sums of
  /// them, which are written where they are added.
  std::vector<char> has_tokens_, moves_, added_;
};

}  // namespace

std::shared_ptr<const Block> step_of_tile(const Block& body, int carry, int xs) {
  if (!adds_up(body, carry)) return nullptr;
  try {
    return Tiling(body, carry, xs).result();
  } catch (const InputError&) {
    return nullptr;
  }
}

int tile_of(const Block& step, const Sizes& sizes) {
  Sizes one = sizes;
  one[tokens_of_tile] = 1;
  double largest = 1;
  for (int v = 0; v < values_of(step); ++v) {
    const std::vector<Dim>& axes = step.type(v).axes;
    if (axes.empty() || axes[0] != tile) continue;
    largest = std::max(largest, static_cast<double>(shape_of(step.type(v), one).count()));
  }
  return static_cast<int>(std::clamp<double>(most_numbers_of_tile / largest, 1, most_tokens_of_tile));
}

}  // namespace assay::language
