#include "language/program/marked.hpp"

#include <utility>

#include "language/program/builder.hpp"
#include "language/program/lists.hpp"

namespace assay::language {
namespace {

std::shared_ptr<const Block> marked(const Block& block, const Attributes& site) {
  Builder out(block.params);
  std::vector<int> at = first_values(block.params.size());
  for (const Node& node : block.nodes) {
    std::vector<int> args = mapped(node.args, at);
    Attributes attributes = node.attributes;
    if (node.op == Op::contract)
      for (int& operand : args) operand = out.emit(Op::round, {operand}, site);
    if (node.op == Op::scan) attributes.body = marked(*attributes.body, site);
    at.push_back(out.emit(node.op, std::move(args), std::move(attributes)));
  }
  return std::move(out).finish(mapped(block.results, at));
}

}  // namespace

Program with_operands_marked(const Program& program, const std::string& site) {
  Program out = program;
  out.body = marked(*program.body, {.spec = site});
  return out;
}

}  // namespace assay::language
