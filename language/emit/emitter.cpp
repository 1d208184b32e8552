#include "language/emit/emitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "language/emit/prelude.hpp"
#include "language/evaluate/in_tiles.hpp"
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
    : program_(program),
      block_(*program.body),
      top_(*program.body, program.name, 0),
      nodes_(top_, lines_, /*in_tiles=*/false, [this](int v, const std::vector<Dim>& axes) {
        return buffer(fmt::format("factors{}", v), count_of(axes));
      }) {
  for (int v = block_.first(); v < values_of(block_); ++v)
    if (const Node& node = *block_.node(v); node.op == Op::scan)
      if (auto tile = step_of_tile(*node.attributes.body, node.attributes.carry, node.attributes.xs))
        tiles_[v] = std::move(tile);
}

Emitted Emitter::emitted() {
  find_lengths();
  put_inputs();
  need_ = top_.needed(block_.results);
  find_replayed();
  find_outputs();
  for (const int v : need_) {
    const Node* node = block_.node(v);
    if (node == nullptr || top_.is_text(v) || top_.is_inside(v) || node->op == Op::get) continue;
    if (is_in_tiles(v)) {
      scan_in_tiles(v);
    } else if (node->op == Op::scan) {
      scan(v);
    } else {
      const Place to = storage(v);
      nodes_.compute(v, to);
      top_.put(v, to);
    }
  }
  for (std::size_t r = 0; r < block_.results.size(); ++r) {
    const int v = block_.results[r];
    if (const auto found = output_of_.find(v); found != output_of_.end() && found->second == r) continue;
    const Place to = dense(fmt::format("out{}", r), top_.axes(v));
    nodes_.copy(top_.axes(v), to, [&](const Indices& at) { return top_.written(v, at); });
  }
  const std::string name = word_of(program_.name);
  Emitted result{"assay_" + name, {}, {}, {}};
  result.text = prelude(!is_of_tiles());
  if (has_calls()) result.text += products_text();
  result.text += header(name) + run_text(name);
  for (const Dim& dim : lengths_) result.macros.push_back("ASSAY_" + dim.name);
  for (const Dim& dim : free_) result.lengths.push_back(dim.name);
  return result;
}

/// A step that goes token by token has its values in registers and shared memory, whose lengths must be known.
void Emitter::find_lengths() {
  const auto add = [this](const Dim& dim, std::vector<Dim>& to) {
    if (!dim.name.empty() && !is_among(free_, dim) && !is_among(lengths_, dim)) to.push_back(dim);
  };
  const auto add_all = [&add](const Block& block, std::vector<Dim>& to) {
    for (const Type& type : block.params)
      for (const Dim& dim : type.axes) add(dim, to);
    for (const Node& node : block.nodes) {
      add(node.attributes.dim, to);
      for (const Type& type : node.types)
        for (const Dim& dim : type.axes) add(dim, to);
    }
  };
  for (const Node& node : block_.nodes)
    if (node.op == Op::scan) add(block_.type(node.args[index(node.attributes.carry)]).axes[0], free_);
  for (int v = block_.first(); v < values_of(block_); ++v)
    if (block_.node(v)->op == Op::scan && !is_in_tiles(v)) add_all(*scan_at(v).attributes.body, lengths_);
  add_all(block_, free_);
  for (const auto& [v, step] : tiles_) add_all(*scan_at(v).attributes.body, free_);
  require(free_.size() <= most_free_lengths, program_.name, ": it has ", free_.size(),
          " axes whose lengths no text knows, and none is emitted for more than ", most_free_lengths, " yet");
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
          (node->op != Op::scan || is_in_tiles(v) || of.reverse == reverse || i < of.carry || i >= of.carry + of.xs))
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
  return where_it_varies(top_, v,
                         found != output_of_.end() ? fmt::format("out{}", found->second)
                                                   : buffer(fmt::format("w{}", v), count_of(top_.varying(v))));
}

/// Whether no step goes token by token. Products of matrices have many registers.
bool Emitter::is_of_tiles() const {
  return !tiles_.empty() && std::ranges::all_of(need_, [this](int v) {
    return block_.node(v) == nullptr || block_.node(v)->op != Op::scan || is_in_tiles(v);
  });
}

std::string Emitter::header(const std::string& name) const {
  std::string text = fmt::format("\nnamespace emitted_{} {{\n", name);
  constexpr const char* least_threads = "64";  // where nothing says how many lanes there are
  std::vector<std::string> threads{columns_.empty() ? least_threads : "1"}, shared{"0"};
  for (const Dim& dim : lengths_) {
    text += fmt::format("constexpr int n_{0} = ASSAY_{0};\n", dim.name);
    threads.push_back(length_of(dim));
  }
  for (const Dim& dim : columns_) threads.push_back(length_of(dim));
  if (has_calls()) shared.emplace_back("stage_of_products(lanes * groups)");
  shared.insert(shared.end(), shared_.begin(), shared_.end());
  text += fmt::format("constexpr int lanes = LANES({}), groups = GROUPS(lanes);\n", largest_of(threads));
  text += fmt::format("constexpr int stage_lines = groups * share;\nconstexpr long shared_numbers = {};\n",
                      largest_of(shared));
  return text;
}

std::string Emitter::run_text(const std::string& name) const {
  std::string lengths;
  for (std::size_t i = 0; i < free_.size(); ++i)
    lengths += fmt::format("const int n_{0} = launch.length[{1}];\n(void)n_{0};\n", free_[i].name, i);
  for (const std::string& one : tokens_of_tiles_) lengths += one + '\n';
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
