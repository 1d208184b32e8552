#include "language/program/builder.hpp"

#include <algorithm>
#include <utility>

#include "language/program/infer.hpp"
#include "language/program/lists.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

std::string quoted(const std::string& text) { return '"' + text + '"'; }

std::string text_of(const std::vector<int>& numbers) {
  std::string out;
  for (const int n : numbers) out += (out.empty() ? "" : ",") + std::to_string(n);
  return '[' + out + ']';
}

std::string json_of(const Dim& dim) { return dim.name.empty() ? std::to_string(dim.written) : quoted(dim.name); }

std::string json_of(bool truth) { return truth ? "true" : "false"; }

/// The attributes of a node, keys sorted; "" if it has none.
std::string json_of(Op op, const Attributes& a) {
  switch (op) {
    case Op::const_:
      return "{\"value\":" + (a.fraction.empty() ? json_of(a.truth) : quoted(a.fraction)) + '}';
    case Op::int_:
      return "{\"value\":" + std::to_string(a.value) + '}';
    case Op::size:
    case Op::iota:
      return "{\"axis\":" + json_of(a.dim) + '}';
    case Op::get:
      return "{\"i\":" + std::to_string(a.i) + '}';
    case Op::expand:
      return "{\"at\":" + std::to_string(a.axis) + ",\"size\":" + json_of(a.dim) + '}';
    case Op::transpose:
      return "{\"perm\":" + text_of(a.perm) + '}';
    case Op::index:
      return "{\"axis\":" + std::to_string(a.axis) + ",\"i\":" + std::to_string(a.i) + '}';
    case Op::sum:
      return "{\"axis\":" + std::to_string(a.axis) + '}';
    case Op::shift:
      return "{\"by\":" + std::to_string(a.by) + '}';
    case Op::cumsum:
      return "{\"reverse\":" + json_of(a.reverse) + '}';
    case Op::contract:
      return (a.absorb ? "{\"absorb\":true,\"spec\":" : "{\"spec\":") + quoted(a.spec) + '}';
    case Op::round:
      return "{\"site\":" + quoted(a.spec) + '}';
    case Op::scan:
      return "{\"body\":" + a.body->text + ",\"carry\":" + std::to_string(a.carry) +
             ",\"reverse\":" + json_of(a.reverse) + ",\"xs\":" + std::to_string(a.xs) + '}';
    case Op::solve:
      if (a.definite) return a.absorb ? "{\"absorb\":true,\"definite\":true}" : "{\"definite\":true}";
      [[fallthrough]];
    case Op::mul:
    case Op::div:
      return a.absorb ? "{\"absorb\":true}" : "";
    default:
      return "";
  }
}

std::string text_of(Op op, const std::vector<int>& args, const Attributes& attributes) {
  const std::string more = json_of(op, attributes);
  return "[\"" + std::string(name_of(op)) + "\"," + text_of(args) + (more.empty() ? "" : ',' + more) + ']';
}

/// A block written anew, from its results.
class Canonical {
 public:
  explicit Canonical(const Block& from) : from_(from), plain_(looked_through(from)), out_(from.params) {
    at_.assign(plain_.size(), -1);
    for (int v = 0; v < from.first(); ++v) at_[index(v)] = v;
  }

  std::shared_ptr<const Block> result() && {
    std::vector<int> results;
    for (const int r : from_.results) results.push_back(visited(r));
    return std::move(out_).finish(std::move(results));
  }

 private:
  /// The value that stands for each value once index of expand and neg of neg are gone.
  static std::vector<int> looked_through(const Block& from) {
    std::vector<int> plain(index(from.first()) + from.nodes.size());
    for (int v = 0; v < static_cast<int>(plain.size()); ++v) {
      plain[index(v)] = v;
      const Node* node = from.node(v);
      if (node == nullptr || (node->op != Op::index && node->op != Op::neg)) continue;
      const Node* inner = from.node(plain[index(node->args[0])]);
      if (inner == nullptr) continue;
      const bool undone = node->op == Op::neg
                              ? inner->op == Op::neg
                              : inner->op == Op::expand && inner->attributes.axis == node->attributes.axis;
      if (undone) plain[index(v)] = plain[index(inner->args[0])];
    }
    return plain;
  }

  /// A node whose operands are on their way.
  struct Open {
    int value;
    std::vector<int> args;
    Attributes attributes;
    std::size_t next = 0;
  };

  Open opened(int v) const {
    const Node& node = *from_.node(v);
    Open open{v, node.args, node.attributes};
    if (node.op == Op::scan) drop_unused(open);
    open.args = mapped(std::move(open.args), plain_);
    return open;
  }

  /// Leaves a scan the outer values that its step reads, in the order of first use.
  static void drop_unused(Open& scan) {
    const std::shared_ptr<const Block> body = canonical(*scan.attributes.body);
    const int own = scan.attributes.carry + scan.attributes.xs;
    std::vector<int> renamed(body->params.size(), -1), used;
    for (int v = 0; v < own; ++v) renamed[index(v)] = v;
    const auto use = [&](int v) {
      if (v >= body->first() || renamed[index(v)] >= 0) return;
      renamed[index(v)] = own + static_cast<int>(used.size());
      used.push_back(v);
    };
    for (const Node& node : body->nodes) std::for_each(node.args.begin(), node.args.end(), use);
    std::for_each(body->results.begin(), body->results.end(), use);
    scan.attributes.body = with_params(*body, own, used, std::move(renamed));
    std::vector<int> args(scan.args.begin(), scan.args.begin() + own);
    for (const int v : used) args.push_back(scan.args[index(v)]);
    scan.args = std::move(args);
  }

  static std::shared_ptr<const Block> with_params(const Block& body, int own, const std::vector<int>& used,
                                                  std::vector<int> renamed) {
    std::vector<Type> params(body.params.begin(), body.params.begin() + own);
    for (const int v : used) params.push_back(body.params[index(v)]);
    Builder out(std::move(params));
    for (const Node& node : body.nodes)
      renamed.push_back(out.append(node.op, mapped(node.args, renamed), node.attributes));
    return std::move(out).finish(mapped(body.results, renamed));
  }

  /// Not recursive: programs may be as deep as they are long.
  int visited(int result) {
    const int wanted = plain_[index(result)];
    std::vector<Open> stack;
    if (at_[index(wanted)] < 0) stack.push_back(opened(wanted));
    while (!stack.empty()) {
      Open& top = stack.back();
      if (top.next < top.args.size()) {
        const int v = top.args[top.next];
        if (at_[index(v)] < 0) {
          stack.push_back(opened(v));
          continue;
        }
        top.args[top.next++] = at_[index(v)];
        continue;
      }
      at_[index(top.value)] = out_.emit(from_.node(top.value)->op, std::move(top.args), std::move(top.attributes));
      stack.pop_back();
    }
    return at_[index(wanted)];
  }

  const Block& from_;
  std::vector<int> plain_, at_;
  Builder out_;
};

}  // namespace

int Builder::append(Op op, std::vector<int> args, Attributes attributes) {
  const int next = block_.first() + static_cast<int>(block_.nodes.size());
  std::vector<std::span<const Type>> operands;
  for (const int v : args) {
    require(v >= 0 && v < next, "there is no value ", v, " yet");
    const Node* node = block_.node(v);
    const bool scan = node != nullptr && node->op == Op::scan;
    require(scan == (op == Op::get), op == Op::get ? "takes a result of a scan, and value " : "value ", v,
            op == Op::get ? " is none" : " is a scan, whose results get takes");
    operands.push_back(block_.types(v));
  }
  std::vector<Type> types = infer(op, operands, attributes);
  texts_.push_back(text_of(op, args, attributes));
  block_.nodes.push_back({op, std::move(args), std::move(attributes), std::move(types)});
  return next;
}

int Builder::emit(Op op, std::vector<int> args, Attributes attributes) {
  std::string text = text_of(op, args, attributes);
  if (const auto found = known_.find(text); found != known_.end()) return found->second;
  const int v = append(op, std::move(args), std::move(attributes));
  known_.emplace(std::move(text), v);
  return v;
}

int Builder::zeros(const Type& of) { return spread(emit(Op::const_, {}, {.fraction = "0"}), of.axes); }

int Builder::spread(int v, const std::vector<Dim>& axes) {
  for (std::size_t i = 0; i < axes.size(); ++i) v = emit(Op::expand, {v}, along(axes[i], static_cast<int>(i)));
  return v;
}

void Builder::mark_added() {
  std::vector<int> uses(block_.last_use.size(), 0);
  for (const Node& node : block_.nodes)
    for (const int v : node.args) uses[static_cast<std::size_t>(v)] += node.op == Op::add ? 1 : 2;
  for (const int r : block_.results) uses[static_cast<std::size_t>(r)] += 2;
  for (std::size_t n = 0; n < block_.nodes.size(); ++n) {
    Node& node = block_.nodes[n];
    node.is_added = node.op == Op::contract && uses[block_.params.size() + n] == 1;
  }
}

std::shared_ptr<const Block> Builder::finish(std::vector<int> results) && {
  block_.results = std::move(results);
  const int end = static_cast<int>(block_.nodes.size());
  block_.last_use.assign(block_.params.size() + block_.nodes.size(), -1);
  for (int n = 0; n < end; ++n)
    for (const int v : block_.nodes[static_cast<std::size_t>(n)].args) block_.last_use[static_cast<std::size_t>(v)] = n;
  for (const int r : block_.results) block_.last_use[static_cast<std::size_t>(r)] = end;
  mark_added();
  std::string& text = block_.text = "{\"nodes\":[";
  for (std::size_t n = 0; n < texts_.size(); ++n) text += (n > 0 ? "," : "") + texts_[n];
  text += "],\"params\":[";
  for (std::size_t p = 0; p < block_.params.size(); ++p)
    text += (p > 0 ? "," : "") + quoted(language::text_of(block_.params[p]));
  text += "],\"results\":" + text_of(block_.results) + '}';
  return std::make_shared<const Block>(std::move(block_));
}

Block sorted_by_name(Block body, std::vector<std::string>& outputs) {
  std::vector<std::pair<std::string, int>> named;
  for (std::size_t i = 0; i < outputs.size(); ++i) named.emplace_back(outputs[i], body.results[i]);
  std::sort(named.begin(), named.end());
  for (std::size_t i = 0; i < named.size(); ++i) outputs[i] = named[i].first, body.results[i] = named[i].second;
  return body;
}

std::shared_ptr<const Block> canonical(const Block& block) { return Canonical(block).result(); }

}  // namespace assay::language
