#include "language/program/mutants.hpp"

#include <functional>
#include <set>
#include <utility>

#include "language/program/builder.hpp"
#include "language/program/lists.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

using Made = std::shared_ptr<const Block>;
/// Makes a node otherwise, of operands that are there already.
using Make = std::function<int(Builder&, const std::vector<int>&)>;
using Tell = std::function<void(const std::string& what, const Make& make)>;

/// The block with node `changed` made otherwise.
Made rebuilt(const Block& block, std::size_t changed, const Make& make) {
  Builder out(block.params);
  std::vector<int> at = first_values(block.params.size());
  for (std::size_t n = 0; n < block.nodes.size(); ++n) {
    const std::vector<int> args = mapped(block.nodes[n].args, at);
    at.push_back(n == changed ? make(out, args) : out.emit(block.nodes[n].op, args, block.nodes[n].attributes));
  }
  return std::move(out).finish(mapped(block.results, at));
}

Make operand(std::size_t k) {
  return [k](Builder&, const std::vector<int>& a) { return a[k]; };
}
Make as(Op op, const Attributes& attributes = {}) {
  return [op, attributes](Builder& b, const std::vector<int>& a) { return b.emit(op, a, attributes); };
}

void terms(const Node& node, const std::string& name, const Tell& tell) {
  const bool drops_second = any_of(node.op, {Op::add, Op::mul, Op::sub, Op::div});
  if (drops_second) tell(name + ": only operand 1 is left", operand(0));
  if (any_of(node.op, {Op::add, Op::mul})) tell(name + ": only operand 2 is left", operand(1));
  if (node.op == Op::add) tell(name + ": wrong sign", as(Op::sub));
  if (node.op == Op::sub) tell(name + ": wrong sign", as(Op::add));
}

void masks(const Node& node, const Block& block, const std::string& name, const Tell& tell) {
  if (node.op == Op::lt) tell("comparison includes equality", as(Op::le));
  if (node.op == Op::le) tell("comparison excludes equality", as(Op::lt));
  if (node.op == Op::select) {
    tell("condition ignored, first", operand(1));
    tell("condition ignored, second", operand(2));
  }
  if (!any_of(node.op, {Op::softmax, Op::logsumexp})) return;
  tell(name + ": mask ignored", [&](Builder& b, const std::vector<int>& a) {
    return b.emit(node.op, {a[0], b.spread(b.emit(Op::const_, {}, {.truth = true}), block.type(node.args[1]).axes)});
  });
}

void rows(const Node& node, const Block& block, const Tell& tell) {
  Attributes other = node.attributes;
  if (node.op == Op::shift) {
    other.by += other.by > 0 ? 1 : -1;
    tell("shifted one more", as(Op::shift, other));
    tell("not shifted", operand(0));
  }
  if (node.op == Op::cumsum)
    tell("sum without its own row", [other](Builder& b, const std::vector<int>& a) {
      return b.emit(Op::sub, {b.emit(Op::cumsum, a, other), a[0]});
    });
  if (node.op == Op::solve) tell("right-hand side for the solution", operand(1));
  if (node.op != Op::index) return;
  const int size = block.type(node.args[0]).axes[index(other.axis)].written;
  if (size < 2) return;
  other.i = (other.i + 1) % size;
  tell("another index", as(Op::index, other));
}

/// Another parameter of the same type in an operand's place.
void exchanged(const Node& node, const Block& block, const Tell& tell) {
  for (std::size_t k = 0; node.op == Op::contract && k < node.args.size(); ++k) {
    const int v = node.args[k];
    for (int p = 0; v < block.first() && p < block.first(); ++p) {
      const bool other = p != node.args[0] && p != node.args[1] && block.type(p) == block.type(v);
      if (other)
        tell(text("contract reads parameter ", p, " for ", v), [&node, k, p](Builder& b, const std::vector<int>& a) {
          std::vector<int> args = a;
          args[k] = p;
          return b.emit(Op::contract, args, node.attributes);
        });
    }
  }
}

void wrong_nodes(const Node& node, const Block& block, const Tell& tell) {
  const std::string name(name_of(node.op));
  const bool real = node.types[0].kind == Kind::real;
  if (real) terms(node, name, tell);
  masks(node, block, name, tell);
  rows(node, block, tell);
  exchanged(node, block, tell);
  const bool function =
      any_of(node.op, {Op::exp, Op::tanh, Op::sqrt, Op::sigmoid, Op::softplus, Op::neg, Op::abs, Op::max});
  if (real && function) tell(name + " left out", operand(0));
}

// ---- mistakes that only an answer can tell from one another

/// The block in which node n reads value v as operand k.
Made rewired(const Block& block, std::size_t n, std::size_t k, int v) {
  Block other = block;
  Node& node = other.nodes[n];
  node.args[k] = v;
  return rebuilt(other, n, as(node.op, node.attributes));
}

/// Makes a value in the place of another, of those there are.
using Stand = std::function<int(Builder&, const std::vector<int>& values)>;

/// The block in which node n is made as if value v were another; other readers of v see v.
Made read_through(const Block& block, std::size_t n, int v, const Stand& stand) {
  Builder out(block.params);
  std::vector<int> at = first_values(block.params.size()), other = at;
  const auto last = block.first() + static_cast<int>(n);
  for (const Node& node : block.nodes) {
    const int value = static_cast<int>(at.size());
    other.push_back(value == v      ? stand(out, other)
                    : value <= last ? out.emit(node.op, mapped(node.args, other), node.attributes)
                                    : -1);
    at.push_back(value == last ? other.back() : out.emit(node.op, mapped(node.args, at), node.attributes));
  }
  return std::move(out).finish(mapped(block.results, at));
}

/// A system A x = b solved otherwise.
class Solved {
 public:
  Solved(Builder& block, const std::vector<int>& operands) : b_(block), A_(operands[0]), rhs_(operands[1]) {
    const std::vector<Dim>& axes = b_.type(rhs_).axes;
    require(axes.size() == 1, "solve: not one right-hand side");
    dim_ = axes[0];
  }

  /// b over the diagonal of A.
  int by_diagonal() {
    const int i = b_.emit(Op::iota, {}, along(dim_));
    const int same = b_.emit(Op::eq, {repeated(i, 1), repeated(i, 0)});
    const int zeros = repeated(repeated(b_.emit(Op::const_, {}, {.fraction = "0"}), 0), 0);
    return b_.emit(Op::div, {rhs_, b_.emit(Op::sum, {b_.emit(Op::select, {same, A_, zeros})}, along(dim_, 1))});
  }
  /// After so many steps of conjugate gradients, from zero or from by_diagonal().
  int by_steps(int steps, bool from_diagonal) {
    int x = from_diagonal ? by_diagonal() : -1;
    int r = from_diagonal ? b_.emit(Op::sub, {rhs_, applied(x)}) : rhs_;
    int p = r, rr = dot(r, r);
    for (int step = 0; step < steps; ++step) {
      const int image = applied(p), length = ratio(rr, dot(p, image)), moved = times(length, p);
      x = x < 0 ? moved : b_.emit(Op::add, {x, moved});
      r = b_.emit(Op::sub, {r, times(length, image)});
      const int next = dot(r, r);
      p = b_.emit(Op::add, {r, times(ratio(next, rr), p)});
      rr = next;
    }
    return x;
  }

 private:
  int repeated(int v, int axis) { return b_.emit(Op::expand, {v}, along(dim_, axis)); }
  int contract(const char* spec, int x, int y) { return b_.emit(Op::contract, {x, y}, {.spec = spec}); }
  int applied(int x) { return contract("xa,a->x", A_, x); }
  int dot(int x, int y) { return contract("a,a->", x, y); }
  int times(int factor, int x) { return b_.emit(Op::mul, {repeated(factor, 0), x}); }
  /// Where nothing is left to solve, zero.
  int ratio(int x, int y) { return b_.emit(Op::div, {x, y}, {.absorb = true}); }

  Builder& b_;
  int A_, rhs_;
  Dim dim_;
};

/// Operands that are twice there, or the other way round, and systems that are solved otherwise.
void unusual_node(const Node& node, const std::vector<int>& steps, const Tell& tell) {
  const Op op = node.op;
  if (any_of(op, {Op::add, Op::sub}))
    tell("operand 2 twice", [op](Builder& b, const std::vector<int>& a) {
      return b.emit(op, {b.emit(op, {a[0], a[1]}), a[1]});
    });
  if (node.types[0].axes.empty() && !node.args.empty())
    tell("squared", [&node](Builder& b, const std::vector<int>& a) {
      const int value = b.emit(node.op, a, node.attributes);
      return b.emit(Op::mul, {value, value});
    });
  if (op == Op::sub) {
    tell("operands exchanged", [](Builder& b, const std::vector<int>& a) { return b.emit(Op::sub, {a[1], a[0]}); });
    tell("without operand 1", [](Builder& b, const std::vector<int>& a) { return b.emit(Op::neg, {a[1]}); });
  }
  if (op == Op::mul) tell("div", as(Op::div));
  if (op == Op::div) tell("mul", as(Op::mul));
  if (op != Op::solve) return;
  tell("solved twice", [&node](Builder& b, const std::vector<int>& a) {
    return b.emit(Op::solve, {a[0], b.emit(Op::solve, a, node.attributes)}, node.attributes);
  });
  tell("solved by the diagonal of its matrix alone",
       [](Builder& b, const std::vector<int>& a) { return Solved(b, a).by_diagonal(); });
  for (const bool diagonal : {false, true})
    for (const int n : steps)
      tell(text("solved by ", n, " steps of conjugate gradients from ", diagonal ? "b over the diagonal" : "zero"),
           [n, diagonal](Builder& b, const std::vector<int>& a) { return Solved(b, a).by_steps(n, diagonal); });
}

/// The axis that a node sums over, "" if it is none or a written one.
Dim summed_axis(const Node& node, const Block& block) {
  const std::vector<Dim>& axes = block.type(node.args[0]).axes;
  if (node.op == Op::sum) return axes[index(node.attributes.axis)];
  if (node.op != Op::contract) return {};
  const std::string& spec = node.attributes.spec;
  const std::string left = spec.substr(0, spec.find(',')), out = spec.substr(spec.find('>') + 1);
  const std::size_t at = left.find_first_not_of(out);
  return at == std::string::npos ? Dim{} : axes[at];
}

/// Sums that are means, and norms that are roots.
void other_sums(const Node& node, const Block& block, const Tell& tell) {
  if (!any_of(node.op, {Op::sum, Op::contract})) return;
  if (node.types[0].axes.empty())
    tell("root of it", [&node](Builder& b, const std::vector<int>& a) {
      return b.emit(Op::sqrt, {b.emit(node.op, a, node.attributes)});
    });
  const Dim dim = summed_axis(node, block);
  if (dim.name.empty()) return;
  tell("mean for the sum", [&node, dim](Builder& b, const std::vector<int>& a) {
    const int count = b.spread(b.emit(Op::real, {b.emit(Op::size, {}, along(dim))}), node.types[0].axes);
    return b.emit(Op::div, {b.emit(node.op, a, node.attributes), count});
  });
}

/// The step whose rows read state k before its update.
Made stale(const Block& body, int carry, int k) {
  Builder out(body.params);
  std::vector<int> at = first_values(body.params.size()), again = at;
  for (const Node& node : body.nodes) at.push_back(out.emit(node.op, mapped(node.args, at), node.attributes));
  for (std::size_t n = 0; n < body.nodes.size(); ++n) {
    const bool updates = body.first() + static_cast<int>(n) == body.results[index(k)];
    again.push_back(updates ? k
                            : out.emit(body.nodes[n].op, mapped(body.nodes[n].args, again), body.nodes[n].attributes));
  }
  std::vector<int> results = mapped(body.results, again);
  for (int i = 0; i < carry; ++i) results[index(i)] = at[index(body.results[index(i)])];
  return std::move(out).finish(std::move(results));
}

using Found = std::function<void(const std::string& what, Made block)>;
/// Finds the errors that node n of a block may have.
using Wrong = std::function<void(const Block& block, std::size_t n, const std::string& where, const Found& found)>;

/// Passes what `make` makes to `found`, unless it is of another type, which a compiler finds.
void offer(const Found& found, const std::string& what, const std::function<Made()>& make) {
  Made made;
  try {
    made = make();
  } catch (const InputError&) {
    return;
  }
  found(what, made);
}

/// The block with another step in scan n.
Made with_step(const Block& block, std::size_t n, const Made& step) {
  Attributes attributes = block.nodes[n].attributes;
  attributes.body = step;
  return rebuilt(block, n, as(Op::scan, attributes));
}

void wrong_scans(const Block& block, std::size_t n, const std::string& where, const Found& found) {
  const Node& node = block.nodes[n];
  const Block& body = *node.attributes.body;
  const int carry = node.attributes.carry, own = carry + node.attributes.xs;
  for (int k = carry; k < own; ++k) {
    if (body.params[index(k)].kind != Kind::real) continue;
    found(text(where, " sequence ", k - carry, " one token late"),
          rebuilt(block, n, [&](Builder& b, const std::vector<int>& a) {
            std::vector<int> args = a;
            args[index(k)] = b.emit(Op::shift, {a[index(k)]}, {.by = node.attributes.reverse ? -1 : 1});
            return b.emit(Op::scan, args, node.attributes);
          }));
  }
  for (int k = 0; k < carry; ++k)
    if (body.params[index(k)].kind == Kind::real)
      found(text(where, " rows read state ", k, " before its update"), with_step(block, n, stale(body, carry, k)));
}

void usual(const Block& block, std::size_t n, const std::string& where, const Found& found) {
  wrong_nodes(block.nodes[n], block, [&](const std::string& what, const Make& make) {
    offer(found, where + ' ' + what, [&] { return rebuilt(block, n, make); });
  });
  if (block.nodes[n].op == Op::scan) wrong_scans(block, n, where, found);
}

/// Operands of a node, and theirs.
std::set<int> made_of(const Block& block, const Node& node) {
  std::set<int> all;
  for (const int a : node.args) {
    all.insert(a);
    if (const Node* of = block.node(a)) all.insert(of->args.begin(), of->args.end());
  }
  return all;
}
bool is_real(const Block& block, int v) { return block.types(v).size() == 1 && block.type(v).kind == Kind::real; }

/// Products and differences with a number too much that multiplies or divides them.
void scaled_once_more(const Node& node, const Block& block, const Tell& tell) {
  if (!any_of(node.op, {Op::contract, Op::sub})) return;
  for (int p = 0; p < block.first(); ++p)
    for (const Op by : {Op::mul, Op::div})
      if (is_real(block, p) && block.type(p).axes.empty())
        tell(text(name_of(by), " by parameter ", p), [&node, p, by](Builder& b, const std::vector<int>& a) {
          const int value = b.emit(node.op, a, node.attributes);
          return b.emit(by, {value, b.spread(p, node.types[0].axes)});
        });
}

/// A factor of one term that multiplies the other one, too: a (S + w) for a S + w.
void distributed(const Block& block, std::size_t n, const std::string& where, const Found& found) {
  const Node& node = block.nodes[n];
  if (!any_of(node.op, {Op::add, Op::sub})) return;
  for (const std::size_t k : {0, 1}) {
    const Node* product = block.node(node.args[k]);
    const int other = node.args[1 - k];
    if (product == nullptr || product->op != Op::mul || other < block.first() || !is_real(block, other)) continue;
    for (const int factor : product->args) {
      if (factor >= other || block.type(factor) != block.type(other)) continue;
      const Node& term = *block.node(other);
      offer(found, text(where, " factor ", factor, " of ", other, " as well"), [&] {
        return read_through(block, n, other, [&](Builder& b, const std::vector<int>& values) {
          const int made = b.emit(term.op, mapped(term.args, values), term.attributes);
          return b.emit(Op::mul, {values[index(factor)], made});
        });
      });
    }
  }
}

/// Values in the place of others that are made of them, wherever this node is made of those; other parameters.
void unusual(const Block& block, std::size_t n, const std::string& where, const Found& found,
             const std::vector<int>& steps) {
  const Node& node = block.nodes[n];
  if (node.types[0].kind != Kind::real || node.op == Op::scan) return;
  const Tell tell = [&](const std::string& what, const Make& make) {
    offer(found, where + ' ' + what, [&] { return rebuilt(block, n, make); });
  };
  unusual_node(node, steps, tell);
  other_sums(node, block, tell);
  scaled_once_more(node, block, tell);
  distributed(block, n, where, found);
  for (std::size_t k = 0; k < node.args.size(); ++k) {
    const int v = node.args[k];
    for (int p = 0; v < block.first() && p < block.first(); ++p)
      if (p != v && block.type(p) == block.type(v))
        offer(found, text(where, " reads parameter ", p, " for ", v), [&] { return rewired(block, n, k, p); });
    for (int made = block.first(); made < block.first() + static_cast<int>(n) && is_real(block, v); ++made)
      if (is_real(block, made) && block.type(made) == block.type(v) && made_of(block, *block.node(made)).contains(v))
        offer(found, text(where, " reads ", made, ", made of ", v), [&] { return rewired(block, n, k, made); });
  }
  for (const int v : made_of(block, node)) {
    if (v < block.first() || block.types(v).size() != 1) continue;
    const Node& value = *block.node(v);
    for (const int by : made_of(block, value)) {
      if (block.types(by).size() != 1 || block.type(by) != block.type(v)) continue;
      offer(found, text(where, " of ", by, " for ", v), [&] {
        return read_through(block, n, v, [by](Builder&, const std::vector<int>& values) { return values[index(by)]; });
      });
    }
    if (value.op == Op::softmax)
      offer(found, text(where, " of equal weights for ", v), [&] {
        return read_through(block, n, v, [&value](Builder& b, const std::vector<int>& values) {
          const int scores = values[index(value.args[0])];
          return b.emit(Op::softmax, {b.emit(Op::sub, {scores, scores}), values[index(value.args[1])]});
        });
      });
  }
}

void variants(const Block& block, const std::string& path, const Wrong& wrong, const Found& found) {
  for (std::size_t n = 0; n < block.nodes.size(); ++n) {
    const std::string where = path + std::to_string(n);
    wrong(block, n, where, found);
    if (block.nodes[n].op != Op::scan) continue;
    variants(*block.nodes[n].attributes.body, where + '.', wrong, [&](const std::string& what, const Made& changed) {
      offer(found, what, [&] { return with_step(block, n, changed); });
    });
  }
}

/// Those whose programs are not among `known`, where they are then.
std::vector<Mutant> collected(const Program& program, const Wrong& wrong, std::set<std::string>& known) {
  std::vector<Mutant> list;
  variants(*program.body, "", wrong, [&](const std::string& what, const Made& changed) {
    Mutant mutant{what, program};
    mutant.program.body = canonical(*changed);
    if (known.insert(mutant.program.digest()).second) list.push_back(std::move(mutant));
  });
  return list;
}

}  // namespace

std::vector<Mutant> mutants_of(const Program& program) {
  std::set<std::string> known = {program.digest()};
  return collected(program, usual, known);
}

std::vector<Mutant> further_mutants_of(const Program& program, const std::vector<int>& steps) {
  std::set<std::string> known = {program.digest()};
  collected(program, usual, known);
  return collected(
      program,
      [&](const Block& block, std::size_t n, const std::string& where, const Found& found) {
        unusual(block, n, where, found, steps);
      },
      known);
}

}  // namespace assay::language
