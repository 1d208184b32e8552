#include "language/program/gradient.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "language/program/builder.hpp"
#include "language/program/infer.hpp"
#include "language/program/lists.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

using Flags = std::vector<char>;

bool stops(Op op) {
  for (const Op zero : {Op::detach, Op::real, Op::const_, Op::int_, Op::size, Op::iota, Op::lt, Op::le, Op::eq,
                        Op::and_, Op::or_, Op::not_})
    if (op == zero) return true;
  return false;
}

/// Which values depend on what gradients are asked of.
struct Activity {
  Flags value;
  std::map<int, Flags> results;  ///< of the scans
  std::map<int, Flags> params;   ///< of the scans' bodies: states too that become active on the way
};

class Activities {
 public:
  const Activity& of(const Block& block, const Flags& flags) {
    const auto key = std::pair(&block, flags);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    Activity on;
    for (std::size_t p = 0; p < block.params.size(); ++p)
      on.value.push_back(static_cast<char>(flags[p] != 0 && block.params[p].kind == Kind::real));
    for (const Node& node : block.nodes) {
      const int v = static_cast<int>(on.value.size());
      const bool real = node.types[0].kind == Kind::real;
      const bool reads = std::ranges::any_of(node.args, [&](int a) { return on.value[index(a)] != 0; });
      bool active = !stops(node.op) && real && reads;
      if (node.op == Op::scan) on_scan(node, v, on), active = false;
      if (node.op == Op::get) active = real && on.results[node.args[0]][index(node.attributes.i)] != 0;
      on.value.push_back(static_cast<char>(active));
    }
    return known_.emplace(key, std::move(on)).first->second;
  }

 private:
  void on_scan(const Node& node, int v, Activity& on) {
    const Block& body = *node.attributes.body;
    Flags flags;
    for (const int a : node.args) flags.push_back(on.value[index(a)]);
    const auto carry = index(node.attributes.carry);
    for (;;) {
      const Activity& inner = of(body, flags);
      Flags next = flags, results;
      for (std::size_t i = 0; i < body.results.size(); ++i) {
        const char active = inner.value[index(body.results[i])];
        results.push_back(static_cast<char>(active != 0 || (i < carry && flags[i] != 0)));
        if (i < carry && active != 0) next[i] = 1;
      }
      if (next == flags) {
        on.results[v] = std::move(results), on.params[v] = std::move(flags);
        return;
      }
      flags = std::move(next);
    }
  }

  std::map<std::pair<const Block*, Flags>, Activity> known_;
};

using Cotangents = std::map<int, int>;

/// Where a block's values are in the gradient's block, and the states of its scans.
struct Forward {
  std::vector<int> at;
  std::map<int, std::vector<int>> states;
};

/// Makes the block of a gradient.
class Reverse {
 public:
  Reverse(std::vector<Type> params, Activities& activities, std::size_t& written)
      : b_(std::move(params)), activities_(activities), written_(written) {}

  int e(Op op, std::vector<int> args, Attributes a = {}) { return b_.emit(op, std::move(args), std::move(a)); }
  std::shared_ptr<const Block> finish(std::vector<int> results) && {
    auto block = canonical(*std::move(b_).finish(std::move(results)));
    written_ += block->text.size();
    require(written_ <= 8 * most_bytes, "the gradient is too large: scans in scans double it");
    return block;
  }

  int constant(const char* value, const Type& like) {
    return b_.spread(e(Op::const_, {}, {.fraction = value}), like.axes);
  }
  int whole(std::int64_t value, const Type& like) { return b_.spread(e(Op::int_, {}, {.value = value}), like.axes); }

  /// The block here, its scans with their states as further rows.
  Forward forward(const Block& block, std::vector<int> args) {
    Forward f{std::move(args), {}};
    for (const Node& node : block.nodes) {
      std::vector<int> a = mapped(node.args, f.at);
      if (node.op != Op::scan) {
        f.at.push_back(e(node.op, std::move(a), node.attributes));
        continue;
      }
      Attributes wide = node.attributes;
      Block body = *wide.body;
      const int results = static_cast<int>(body.results.size());
      for (int k = 0; k < wide.carry; ++k) body.results.push_back(k);
      wide.body = canonical(body);
      const int scan = e(Op::scan, std::move(a), wide);
      std::vector<int>& states = f.states[static_cast<int>(f.at.size())];
      for (int k = 0; k < wide.carry; ++k) states.push_back(got(scan, results + k));
      f.at.push_back(scan);
    }
    return f;
  }

  /// `ct`: cotangents by value of the block; those of its parameters are added.
  void backward(const Block& block, const Forward& f, Cotangents& ct, const Flags& flags) {
    const Activity on = activities_.of(block, flags);
    std::map<int, Cotangents> of_scan;
    const auto add = [&](int v, int x) {
      if (on.value[index(v)] == 0) return;
      const auto known = ct.find(v);
      ct[v] = known == ct.end() ? x : e(Op::add, {known->second, x});
    };
    for (int v = static_cast<int>(f.at.size()) - 1; v >= block.first(); --v) {
      const Node& node = *block.node(v);
      const std::vector<int> a = mapped(node.args, f.at);
      const auto here = ct.find(v);
      if (node.op == Op::get && here != ct.end()) {
        of_scan[node.args[0]][node.attributes.i] = here->second;
      } else if (node.op == Op::scan) {
        if (!of_scan.contains(v)) continue;
        for (const auto& [arg, x] : scan(node, a, f.states.at(v), of_scan[v], on.params.at(v)))
          add(node.args[index(arg)], x);
      } else if (here != ct.end() && !stops(node.op)) {
        Flags need;
        for (const int x : node.args) need.push_back(on.value[index(x)]);
        const std::vector<std::optional<int>> parts = rule(node, here->second, f.at[index(v)], a, block, need);
        for (std::size_t i = 0; i < parts.size(); ++i)
          if (parts[i]) add(node.args[i], *parts[i]);
      }
    }
  }

 private:
  using Parts = std::vector<std::optional<int>>;

  int got(int scan, int i) { return e(Op::get, {scan}, {.i = i}); }
  int times(int x, int y) { return e(Op::mul, {x, y}, {.absorb = true}); }
  int over(int x, int y) { return e(Op::div, {x, y}, {.absorb = true}); }
  int contracted(int x, int y, const std::string& spec) {
    return e(Op::contract, {x, y}, {.spec = spec, .absorb = true});
  }

  /// The cotangents of a node's operands.
  Parts rule(const Node& n, int ct, int y, const std::vector<int>& a, const Block& block, const Flags& need) {
    const Type& t = n.types[0];
    switch (n.op) {
      case Op::add:
        return {ct, ct};
      case Op::sub:
        return {ct, need[1] != 0 ? std::optional(e(Op::neg, {ct})) : std::nullopt};
      case Op::mul:
        return {need[0] != 0 ? std::optional(times(ct, a[1])) : std::nullopt,
                need[1] != 0 ? std::optional(times(ct, a[0])) : std::nullopt};
      case Op::div: {
        const int x = over(ct, a[1]);
        return {x, need[1] != 0 ? std::optional(e(Op::neg, {times(x, y)})) : std::nullopt};
      }
      case Op::max: {
        const int first = e(Op::lt, {a[1], a[0]}), zero = constant("0", t);
        return {e(Op::select, {first, ct, zero}), e(Op::select, {first, zero, ct})};
      }
      case Op::pow: {
        const int k = e(Op::real, {a[1]}), below = e(Op::add, {a[1], e(Op::neg, {whole(1, t)})});
        return {times(e(Op::mul, {ct, k}), e(Op::pow, {a[0], below})), std::nullopt};
      }
      case Op::select: {
        const int zero = constant("0", t);
        return {std::nullopt, e(Op::select, {a[0], ct, zero}), e(Op::select, {a[0], zero, ct})};
      }
      case Op::contract:
        return contraction(n, ct, a, need);
      case Op::softmax:
      case Op::logsumexp:
        return rows(n, ct, y, a, block);
      case Op::solve:
        return solution(n, ct, y, a, block, need);
      default:
        return {unary(n, ct, y, a, block)};
    }
  }

  int unary(const Node& n, int ct, int y, const std::vector<int>& a, const Block& block) {
    const Type& t = n.types[0];
    switch (n.op) {
      case Op::neg:
        return e(Op::neg, {ct});
      case Op::round:  // what autograd makes of a cast
        return e(Op::round, {ct}, n.attributes);
      case Op::exp:
        return times(ct, y);
      case Op::log:
        return over(ct, a[0]);
      case Op::sqrt:
        return over(ct, e(Op::add, {y, y}));
      case Op::tanh:
        return times(ct, e(Op::sub, {constant("1", t), e(Op::mul, {y, y})}));
      case Op::sigmoid:
        return times(ct, e(Op::mul, {y, e(Op::sub, {constant("1", t), y})}));
      case Op::softplus:
        return times(ct, e(Op::sigmoid, {a[0]}));
      case Op::abs: {
        const int zero = constant("0", t), up = e(Op::select, {e(Op::lt, {zero, a[0]}), ct, zero});
        return e(Op::select, {e(Op::lt, {a[0], zero}), e(Op::neg, {ct}), up});
      }
      default:
        return moved(n, ct, block);
    }
  }

  /// The gradient of an operation that moves numbers about.
  int moved(const Node& n, int ct, const Block& block) {
    Attributes a = n.attributes;
    switch (n.op) {
      case Op::expand:
        return e(Op::sum, {ct}, along({}, a.axis));
      case Op::transpose:
        for (std::size_t i = 0; i < a.perm.size(); ++i) a.perm[index(n.attributes.perm[i])] = static_cast<int>(i);
        return e(Op::transpose, {ct}, a);
      case Op::shift:
        a.by = -a.by;
        return e(Op::shift, {ct}, a);
      case Op::cumsum:
        a.reverse = !a.reverse;
        return e(Op::cumsum, {ct}, a);
      default:
        break;
    }
    const Type& from = block.type(n.args[0]);
    const Dim& dim = from.axes[index(a.axis)];
    const int everywhere = e(Op::expand, {ct}, along(dim, a.axis));
    if (n.op == Op::sum) return everywhere;
    const Type line{Kind::integer, {dim}};
    int here = e(Op::eq, {e(Op::iota, {}, along(dim, 0)), whole(a.i, line)});
    for (std::size_t j = 0; j < from.axes.size(); ++j)
      if (static_cast<int>(j) != a.axis) here = e(Op::expand, {here}, along(from.axes[j], static_cast<int>(j)));
    return e(Op::select, {here, everywhere, constant("0", from)});
  }

  Parts contraction(const Node& n, int ct, const std::vector<int>& a, const Flags& need) {
    const Contraction c = contraction_from(n.attributes.spec);
    Parts parts(2);
    if (need[0] != 0) parts[0] = contracted(ct, a[1], c.result + ',' + c.right + "->" + c.left);
    if (need[1] != 0) parts[1] = contracted(ct, a[0], c.result + ',' + c.left + "->" + c.right);
    return parts;
  }

  Parts rows(const Node& n, int ct, int y, const std::vector<int>& a, const Block& block) {
    const Type& scores = block.type(n.args[0]);
    const auto last = scores.axes.size() - 1;
    const Attributes back = along(scores.axes[last], static_cast<int>(last));
    if (n.op == Op::logsumexp) return {times(e(Op::expand, {ct}, back), e(Op::softmax, a)), std::nullopt};
    // A contraction, and so a rounding site: flash kernels round its parts, too.
    const std::string rest = std::string("abcdefgh").substr(0, last), all = rest + 's';
    std::string spec = all;
    spec.append(",").append(all).append("->").append(rest);
    const int mean = e(Op::expand, {contracted(ct, y, spec)}, back);
    return {times(y, e(Op::sub, {ct, mean})), std::nullopt};
  }

  /// With l = A^{-T} ct: l of the right-hand side, -l x^T of A, of several columns their sum.
  Parts solution(const Node& n, int ct, int x, const std::vector<int>& a, const Block& block, const Flags& need) {
    const std::size_t rank = block.type(n.args[0]).axes.size();
    const std::string lead = std::string("abcdef").substr(0, rank - 2);
    const std::string column = n.types[0].axes.size() == rank ? "m" : "";
    Attributes back = n.attributes, swap;
    back.absorb = true;
    for (std::size_t i = 0; i < rank; ++i) swap.perm.push_back(static_cast<int>(i + 2 < rank ? i : 2 * rank - 3 - i));
    const int l = e(Op::solve, {back.definite ? a[0] : e(Op::transpose, {a[0]}, swap), ct}, back);
    if (need[0] == 0) return {std::nullopt, l};
    const std::string rows = lead + 'x' + column, columns = lead + 'y' + column;
    return {e(Op::neg, {contracted(l, x, rows + ',' + columns + "->" + lead + "xy")}), l};
  }

  /// The numbers of those that a flag stands beside.
  static std::vector<int> chosen(const Flags& flags, int from, int to) {
    std::vector<int> list;
    for (int i = from; i < to; ++i)
      if (flags[index(i)] != 0) list.push_back(i);
    return list;
  }

  /// Cotangents of the scan's operands, with their positions: states, outer values, sequences.
  std::vector<std::pair<int, int>> scan(const Node& n, const std::vector<int>& a, const std::vector<int>& states,
                                        const Cotangents& cts, const Flags& flags) {
    const int c = n.attributes.carry, m = n.attributes.xs, end = static_cast<int>(a.size());
    const Block& body = *n.attributes.body;
    const std::vector<int> C = chosen(flags, 0, c), X = chosen(flags, c, c + m), W = chosen(flags, c + m, end);
    std::vector<int> Y;
    for (const auto& [i, x] : cts)
      if (i >= c) Y.push_back(i);
    const int k = static_cast<int>(C.size() + W.size()), at_x = k + static_cast<int>(Y.size());
    std::vector<Type> params;
    for (const auto* list : {&C, &W})
      for (const int i : *list) params.push_back(body.params[index(i)]);
    for (const int i : Y) params.push_back(body.result_type(index(i)));
    for (int i = c; i < c + m; ++i) params.push_back(body.params[index(i)]);
    for (int i = 0; i < c; ++i) params.push_back(body.params[index(i)]);
    for (int i = c + m; i < end; ++i) params.push_back(body.params[index(i)]);
    Attributes step;
    step.carry = k, step.xs = static_cast<int>(Y.size()) + m + c, step.reverse = !n.attributes.reverse;
    step.body = step_back(body, std::move(params), {C, W, X, Y}, at_x, c, m, flags);

    std::vector<int> args;
    for (const int i : C) args.push_back(cts.contains(i) ? cts.at(i) : constant("0", body.params[index(i)]));
    for (const int i : W) args.push_back(constant("0", body.params[index(i)]));
    for (const int i : Y) args.push_back(cts.at(i));
    args.insert(args.end(), a.begin() + c, a.begin() + c + m);
    args.insert(args.end(), states.begin(), states.end());
    args.insert(args.end(), a.begin() + c + m, a.end());
    const int scan = e(Op::scan, std::move(args), step);
    std::vector<std::pair<int, int>> out;
    for (const auto* list : {&C, &W, &X})
      for (const int i : *list) out.emplace_back(i, got(scan, static_cast<int>(out.size())));
    return out;
  }

  struct Chosen {
    const std::vector<int>&C, &W, &X, &Y;  ///< active states, outer values, sequences; rows with a cotangent
  };

  /// One step again from its state, and back.
  std::shared_ptr<const Block> step_back(const Block& body, std::vector<Type> params, const Chosen& on, int at_x, int c,
                                         int m, const Flags& flags) {
    Reverse r(std::move(params), activities_, written_);
    std::vector<int> args;
    const int at_s = at_x + m, at_w = at_s + c;
    for (int i = 0; i < c; ++i) args.push_back(at_s + i);
    for (int i = 0; i < m; ++i) args.push_back(at_x + i);
    for (int i = c + m; i < body.first(); ++i) args.push_back(at_w + i - c - m);
    const Forward inner = r.forward(body, std::move(args));
    Cotangents ct;
    const Activity active = activities_.of(body, flags);
    const auto enter = [&](int result, int x) {
      const int v = body.results[index(result)];
      const auto known = ct.find(v);
      const int sum = known == ct.end() ? x : r.e(Op::add, {known->second, x});
      if (active.value[index(v)] != 0) ct[v] = sum;
    };
    for (std::size_t j = 0; j < on.C.size(); ++j) enter(on.C[j], static_cast<int>(j));
    for (std::size_t j = 0; j < on.Y.size(); ++j) enter(on.Y[j], static_cast<int>(on.C.size() + on.W.size() + j));
    r.backward(body, inner, ct, flags);
    const auto of = [&](int i) {
      const auto known = ct.find(i);
      return known == ct.end() ? r.constant("0", body.params[index(i)]) : known->second;
    };
    std::vector<int> results;
    for (const int i : on.C) results.push_back(of(i));
    for (std::size_t j = 0; j < on.W.size(); ++j)
      results.push_back(r.e(Op::add, {static_cast<int>(on.C.size() + j), of(on.W[j])}));
    for (const int i : on.X) results.push_back(of(i));
    return std::move(r).finish(std::move(results));
  }

  Builder b_;
  Activities& activities_;
  std::size_t& written_;
};

}  // namespace

Program gradient_of(const Program& program) {
  const Block& body = *program.body;
  std::vector<Type> params = body.params;
  Program g = program;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    params.push_back(body.result_type(i));
    g.inputs.push_back({"d_" + program.outputs[i], body.result_type(i), "cotangent", nullptr, false});
  }
  Activities activities;
  std::size_t written = 0;
  Reverse r(std::move(params), activities, written);
  std::vector<int> args;
  Flags flags;
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    args.push_back(static_cast<int>(i)), flags.push_back(static_cast<char>(program.inputs[i].gradient));
  const Forward f = r.forward(body, std::move(args));
  const Activity on = activities.of(body, flags);
  Cotangents ct;
  for (std::size_t i = 0; i < body.results.size(); ++i) {
    const int v = body.results[i], x = static_cast<int>(program.inputs.size() + i);
    const auto known = ct.find(v);
    const int sum = known == ct.end() ? x : r.e(Op::add, {known->second, x});
    if (on.value[index(v)] != 0) ct[v] = sum;
  }
  r.backward(body, f, ct, flags);
  std::vector<int> results = mapped(body.results, f.at);
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    if (!program.inputs[i].gradient) continue;
    const auto found = ct.find(static_cast<int>(i));
    results.push_back(found == ct.end() ? r.constant("0", program.inputs[i].type) : found->second);
    g.outputs.push_back("d_" + program.inputs[i].name);
  }
  g.body = std::move(r).finish(std::move(results));
  return g;
}

}  // namespace assay::language
