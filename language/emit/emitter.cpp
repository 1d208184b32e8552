#include "language/emit/emitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "language/emit/prelude.hpp"
#include "language/program/lists.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace device {
namespace {

/// A program's name as one of C++.
std::string word_of(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

}  // namespace

Emitter::Emitter(const Program& program)
    : program_(program), block_(*program.body), top_(*program.body, program.name, 0) {}

Emitted Emitter::emitted() {
  find_lengths();
  put_inputs();
  need_ = top_.needed(block_.results);
  find_replayed();
  find_outputs();
  for (const int v : need_) {
    const Node* node = block_.node(v);
    if (node == nullptr || top_.is_text(v) || top_.is_inside(v) || node->op == Op::get) continue;
    if (node->op == Op::scan)
      scan(v);
    else
      compute(v);
  }
  for (std::size_t r = 0; r < block_.results.size(); ++r) {
    const int v = block_.results[r];
    if (const auto found = output_of_.find(v); found != output_of_.end() && found->second == r) continue;
    const Place to = dense(fmt::format("out{}", r), top_.axes(v));
    over(top_.axes(v), [&](const Indices& at) {
      return std::vector<std::string>{fmt::format("{} = {};", to(at), top_.written(v, at))};
    });
  }
  const std::string name = word_of(program_.name);
  Emitted result{"assay_" + name, prelude() + header(name) + run_text(name), {}, {}};
  for (const Dim& dim : lengths_) result.macros.push_back("ASSAY_" + dim.name);
  for (const Dim& dim : tokens_) result.lengths.push_back(dim.name);
  return result;
}

void Emitter::find_lengths() {
  std::vector<const Block*> blocks{&block_};
  for (const Node& node : block_.nodes) {
    if (node.op != Op::scan) continue;
    blocks.push_back(node.attributes.body.get());
    const Dim& along = block_.type(node.args[index(node.attributes.carry)]).axes[0];
    if (!along.name.empty()) add_once(tokens_, along);
  }
  require(tokens_.size() <= most_scan_axes, program_.name, ": its scans run along ", tokens_.size(),
          " axes, and no text is emitted for more than ", most_scan_axes, " yet");
  const auto add = [this, has_scans = !tokens_.empty()](const Dim& dim) {
    if (!has_scans && dim.name == "T") add_once(tokens_, dim);  // as scans would
    if (!dim.name.empty() && !is_among(tokens_, dim)) add_once(lengths_, dim);
  };
  for (const Block* block : blocks) {
    for (const Type& type : block->params)
      for (const Dim& dim : type.axes) add(dim);
    for (const Node& node : block->nodes) {
      add(node.attributes.dim);
      for (const Type& type : node.types)
        for (const Dim& dim : type.axes) add(dim);
    }
  }
}

/// All inputs are arrays of doubles, integers and truth values, too.
void Emitter::put_inputs() {
  for (int i = 0; i < block_.first(); ++i) {
    const Place of = dense(fmt::format("in{}", i), top_.axes(i));
    const Kind kind = block_.type(i).kind;
    if (kind == Kind::real)
      top_.put(i, of);
    else if (kind == Kind::integer)
      top_.put(i, [of](const Indices& at) { return fmt::format("((long){})", of(at)); });
    else
      top_.put(i, [of](const Indices& at) { return fmt::format("({} != 0 ? 1 : 0)", of(at)); });
  }
}

void Emitter::find_replayed() {
  for (const int v : need_) {
    const Node* node = block_.node(v);
    if (node == nullptr || node->op != Op::get) continue;
    const Attributes& of = scan_at(node->args[0]).attributes;
    const int state = of.body->results[index(node->attributes.i)];
    if (node->attributes.i >= of.carry && state < of.carry && of.body->type(state).axes.size() == 2 &&
        is_read_backwards(v))
      replayed_[v] = {node->args[0], state};
  }
}

/// Whether nothing reads it but scans that run the other way, row by row.
bool Emitter::is_read_backwards(int get) const {
  if (std::count(block_.results.begin(), block_.results.end(), get) > 0) return false;
  const bool reverse = scan_at(block_.node(get)->args[0]).attributes.reverse;
  for (const int v : need_) {
    const Node* node = block_.node(v);
    if (node == nullptr) continue;
    const Attributes& of = node->attributes;
    for (int i = 0; i < static_cast<int>(node->args.size()); ++i)
      if (node->args[index(i)] == get &&
          (node->op != Op::scan || of.reverse == reverse || i < of.carry || i >= of.carry + of.xs))
        return false;
  }
  return true;
}

void Emitter::find_outputs() {
  for (std::size_t r = 0; r < block_.results.size(); ++r) {
    const int v = block_.results[r];
    const Node* node = block_.node(v);
    if (node == nullptr || top_.is_text(v) || output_of_.contains(v)) continue;
    if (node->op == Op::get || top_.varying(v).size() == top_.axes(v).size()) output_of_[v] = r;
  }
}

std::string Emitter::buffer(std::string name, std::string count) {
  buffers_.emplace_back(std::move(name), std::move(count));
  return buffers_.back().first;
}

/// The array that is an output, or a part of the workspace that has what varies.
Place Emitter::storage(int v) {
  const auto found = output_of_.find(v);
  const std::vector<char> varies = top_.varies(v);
  const Place all = dense(found != output_of_.end() ? fmt::format("out{}", found->second)
                                                    : buffer(fmt::format("w{}", v), count_of(top_.varying(v))),
                          top_.varying(v));
  return [all, varies](const Indices& at) {
    Indices own;
    for (std::size_t i = 0; i < at.size(); ++i)
      if (varies[i] != 0) own.push_back(at[i]);
    return all(own);
  };
}

/// A loop over the elements of an array; threads meet after it.
void Emitter::over(const std::vector<Dim>& axes, const Statements& statements) {
  line(fmt::format("EACH_LONG(n, {}) {{", count_of(axes)));
  Indices at(axes.size());
  std::string rest = "n";
  for (std::size_t i = axes.size(); i-- > 0;) {
    at[i] = fmt::format("i{}", i);
    line(i > 0 ? fmt::format("const int {} = (int)({} % {});", at[i], rest, length_of(axes[i]))
               : fmt::format("const int {} = (int)({});", at[i], rest));
    rest += " / " + length_of(axes[i]);
  }
  for (std::string& statement : statements(at)) line(std::move(statement));
  line("}");
  line("MEET;");
}

/// A node that is no scan.
void Emitter::compute(int v) {
  const Node& node = *block_.node(v);
  if (any_of(node.op, {Op::softmax, Op::logsumexp, Op::solve}))
    top_.refuse(v, "no text is emitted for this operation yet");
  const Place to = storage(v);
  const std::vector<Dim>& axes = top_.axes(v);
  if (node.op == Op::cumsum)
    over(std::vector<Dim>(axes.begin() + 1, axes.end()), [&](const Indices& at) { return cumulated(v, to, at); });
  else if (node.op == Op::shift)
    over(axes, [&](const Indices& at) { return shifted(node, to, at); });
  else
    over(top_.varying(v), [&](const Indices& at) { return computed(v, to, at); });
  top_.put(v, to);
}

std::vector<std::string> Emitter::cumulated(int v, const Place& to, const Indices& at) const {
  const Node& node = *block_.node(v);
  const Indices whole = with_first("t", at);
  const std::string length = length_of(top_.axes(node.args[0])[0]);
  return {"double sum = 0;",
          fmt::format("for (int step = 0; step < {}; ++step) {{", length),
          node.attributes.reverse ? fmt::format("const int t = {} - 1 - step;", length) : "const int t = step;",
          fmt::format("const double x = {};", top_.written(node.args[0], whole)),
          fmt::format("sum = step == 0 ? x : rounded(draw, {}, 0, x + sum);", top_.numbers_of(v, whole)),
          fmt::format("{} = sum; }}", to(whole))};
}

std::vector<std::string> Emitter::shifted(const Node& node, const Place& to, const Indices& at) const {
  Indices from = at;
  from[0] = fmt::format("({} - ({}))", at[0], node.attributes.by);
  return {fmt::format("{} = {} >= 0 && {} < {} ? {} : 0.0;", to(at), from[0], from[0],
                      length_of(top_.axes(node.args[0])[0]), top_.written(node.args[0], from))};
}

/// `varying`: indices of the axes that vary.
std::vector<std::string> Emitter::computed(int v, const Place& to, const Indices& varying) const {
  Indices at;
  std::size_t next = 0;
  for (const char varies : top_.varies(v)) at.push_back(varies != 0 ? varying[next++] : "0");
  const std::optional<Sum> sum = top_.sum_of(v);
  if (!sum) return {fmt::format("{} = {};", to(at), top_.formula(v, at))};
  Letters letters;
  for (std::size_t i = 0; i < sum->kept.size(); ++i) letters[sum->kept[i]] = at[i];
  return {fmt::format("double sum = {};", top_.start(*sum, letters, at)), top_.chain(*sum, letters, "sum"),
          fmt::format("{} = sum;", to(at))};
}

std::string Emitter::header(const std::string& name) const {
  std::string text = fmt::format("\nnamespace emitted_{} {{\n", name);
  std::vector<std::string> threads{"1"}, shared{"0"};
  for (const Dim& dim : lengths_) {
    text += fmt::format("constexpr int n_{0} = ASSAY_{0};\n", dim.name);
    threads.push_back(length_of(dim));
  }
  for (const Dim& dim : columns_) threads.push_back(length_of(dim));
  shared.insert(shared.end(), shared_.begin(), shared_.end());
  text += fmt::format("constexpr int lanes = LANES({}), groups = GROUPS(lanes);\n", largest_of(threads));
  text += fmt::format("constexpr int stage_lines = groups * share;\nconstexpr long shared_numbers = {};\n",
                      largest_of(shared));
  return text;
}

std::string Emitter::run_text(const std::string& name) const {
  std::string lengths;
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    lengths += fmt::format("const int n_{0} = launch.length[{1}];\n(void)n_{0};\n", tokens_[i].name, i);
  std::string text = "DEVICE long workspace_numbers(const Launch& launch) {\n(void)launch;\n" + lengths + "return 0L";
  for (const auto& [own, count] : buffers_) text += " + " + count;
  text +=
      ";\n}\nDEVICE void run(const Launch& launch, const Draw& draw, const int head, double* const shared) {\n"
      "const int group = GROUP;\n(void)draw, (void)shared, (void)group;\n" +
      lengths + top_.declared_keys("0");
  for (std::size_t i = 0; i < program_.inputs.size(); ++i)
    text += fmt::format("const double* const in{0} = launch.inputs[{0}] + head * ({1});  // {2}\n(void)in{0};\n", i,
                        count_of(block_.params[i].axes), program_.inputs[i].name);
  for (std::size_t i = 0; i < program_.outputs.size(); ++i)
    text += fmt::format("double* const out{0} = launch.outputs[{0}] + head * ({1});  // {2}\n", i,
                        count_of(block_.result_type(i).axes), program_.outputs[i]);
  text += "double* work = launch.workspace + head * workspace_numbers(launch);\n(void)work;\n";
  for (const auto& [own, count] : buffers_) text += fmt::format("double* const {} = work;\nwork += {};\n", own, count);
  for (const std::string& one : lines_) text += one + '\n';
  return text + fmt::format("}}\n}}  // namespace emitted_{0}\nENTRY({0})\n", name);
}

}  // namespace device

Emitted emit(const Program& program) { return device::Emitter(program).emitted(); }

}  // namespace assay::language
