#include "language/program/mutants.hpp"

#include <functional>
#include <numeric>
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

std::vector<int> mapped(const std::vector<int>& args, const std::vector<int>& at) {
  std::vector<int> out;
  for (const int a : args) out.push_back(at[index(a)]);
  return out;
}

/// The block with node `changed` made otherwise.
Made rebuilt(const Block& block, std::size_t changed, const Make& make) {
  Builder out(block.params);
  std::vector<int> at(block.params.size());
  std::iota(at.begin(), at.end(), 0);
  for (std::size_t n = 0; n < block.nodes.size(); ++n) {
    const std::vector<int> args = mapped(block.nodes[n].args, at);
    at.push_back(n == changed ? make(out, args) : out.emit(block.nodes[n].op, args, block.nodes[n].attributes));
  }
  return std::move(out).finish(mapped(block.results, at));
}

Make operand(std::size_t k) {
  return [k](Builder&, const std::vector<int>& a) { return a[k]; };
}
Make as(Op op, Attributes attributes = {}) {
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
    Attributes yes;
    yes.truth = true;
    int all = b.emit(Op::const_, {}, yes);
    const std::vector<Dim>& axes = block.type(node.args[1]).axes;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      Attributes along;
      along.axis = static_cast<int>(i), along.dim = axes[i];
      all = b.emit(Op::expand, {all}, along);
    }
    return b.emit(node.op, {a[0], all});
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

/// The step whose rows read state k before its update.
Made stale(const Block& body, int carry, int k) {
  Builder out(body.params);
  std::vector<int> at(body.params.size());
  std::iota(at.begin(), at.end(), 0);
  std::vector<int> again = at;
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

void variants(const Block& block, const std::string& path, const Found& found);

void wrong_scans(const Block& block, std::size_t n, const std::string& where, const Found& found) {
  const Node& node = block.nodes[n];
  const Block& body = *node.attributes.body;
  const int carry = node.attributes.carry, own = carry + node.attributes.xs;
  for (int k = carry; k < own; ++k) {
    if (body.params[index(k)].kind != Kind::real) continue;
    found(text(where, " sequence ", k - carry, " one token late"),
          rebuilt(block, n, [&](Builder& b, const std::vector<int>& a) {
            Attributes late;
            late.by = node.attributes.reverse ? -1 : 1;
            std::vector<int> args = a;
            args[index(k)] = b.emit(Op::shift, {a[index(k)]}, late);
            return b.emit(Op::scan, args, node.attributes);
          }));
  }
  const auto with_body = [&](const Made& changed) {
    Attributes attributes = node.attributes;
    attributes.body = changed;
    return rebuilt(block, n, as(Op::scan, attributes));
  };
  for (int k = 0; k < carry; ++k)
    if (body.params[index(k)].kind == Kind::real)
      found(text(where, " rows read state ", k, " before its update"), with_body(stale(body, carry, k)));
  variants(body, where + '.', [&](const std::string& what, const Made& changed) {
    Made whole;
    try {
      whole = with_body(changed);
    } catch (const InputError&) {
      return;  // of another type
    }
    found(what, whole);
  });
}

void variants(const Block& block, const std::string& path, const Found& found) {
  for (std::size_t n = 0; n < block.nodes.size(); ++n) {
    const std::string where = path + std::to_string(n);
    wrong_nodes(block.nodes[n], block, [&](const std::string& what, const Make& make) {
      Made changed;
      try {
        changed = rebuilt(block, n, make);
      } catch (const InputError&) {
        return;  // of another type: a compiler finds it
      }
      found(where + ' ' + what, changed);
    });
    if (block.nodes[n].op == Op::scan) wrong_scans(block, n, where, found);
  }
}

}  // namespace

std::vector<Mutant> mutants_of(const Program& program) {
  std::vector<Mutant> list;
  std::set<std::string> known = {program.digest()};
  variants(*program.body, "", [&](const std::string& what, const Made& changed) {
    Mutant mutant{what, program};
    mutant.program.body = canonical(*changed);
    if (known.insert(mutant.program.digest()).second) list.push_back(std::move(mutant));
  });
  return list;
}

}  // namespace assay::language
