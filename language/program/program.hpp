#pragma once
// A mechanism as a program: typed, functional, over the real numbers, for one head of one sequence. It says what is
// meant: no dtypes, no rounding, no loops but `scan`. docs/mechanism-language.md has the language.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace assay::language {

enum class Kind { real, integer, boolean };

/// The length of an axis: by name, one length per problem, or written.
struct Dim {
  std::string name;  ///< "" if it is written
  int written = 0;
  friend bool operator==(const Dim&, const Dim&) = default;
};
/// "K" or "2".
std::string text_of(const Dim& dim);

/// Kind and axes of a value.
struct Type {
  Kind kind = Kind::real;
  std::vector<Dim> axes;
  friend bool operator==(const Type&, const Type&) = default;
};
/// "real T K", as files have it.
std::string text_of(const Type& type);
/// Whether its axes are those of these names.
bool has_axes(const Type& type, std::initializer_list<std::string_view> names);

/// The operations, in no order that means anything. `const_` is the file's "const", and so on.
enum class Op {
  const_,
  int_,
  size,
  iota,
  real,
  pow,
  not_,
  select,
  expand,
  transpose,
  index,
  shift,
  sum,
  cumsum,
  contract,
  scan,
  get,
  neg,
  exp,
  log,
  sqrt,
  tanh,
  sigmoid,
  softplus,
  abs,
  detach,
  add,
  sub,
  mul,
  div,
  max,
  lt,
  le,
  eq,
  and_,
  or_,
  softmax,
  logsumexp,
  round,
  solve
};
inline constexpr int op_count = 40;
/// "const", "softmax", ...
std::string_view name_of(Op op);
std::optional<Op> op_from(std::string_view name);

struct Block;

/// The attributes of a node beside its operands; each operation has its own.
struct Attributes {
  std::string fraction = {};   ///< const: "1/10"; "" for a truth value
  std::string spec = {};       ///< contract: "ab,bc->ac"; round: its site
  bool truth = false;          ///< const
  bool absorb = false;         ///< mul, div, contract: where the first operand is exactly zero, so is the product;
                               ///< solve: where the right-hand side is, so is the solution
  bool definite = false;       ///< solve: the matrix is symmetric and positive definite
  bool reverse = false;        ///< scan, cumsum
  std::int64_t value = 0;      ///< int
  Dim dim = {};                ///< size, iota: along; expand: of the new axis
  int axis = 0;                ///< index, sum; expand: where the new axis stands
  int i = 0;                   ///< index: which element; get: which result
  int by = 0;                  ///< shift
  int carry = 0, xs = 0;       ///< scan: how many states, how many sequences
  std::vector<int> perm = {};  ///< transpose
  std::shared_ptr<const Block> body = {};  ///< scan
};

struct Node {
  Op op = Op::const_;
  std::vector<int> args;
  Attributes attributes;
  std::vector<Type> types;  ///< one; of a scan those of its results
  bool is_added = false;    ///< a contraction that one addition reads, and nothing else
};

/// Values are numbered, parameters first, then one for every node.
struct Block {
  std::vector<Type> params;
  std::vector<Node> nodes;
  std::vector<int> results;
  std::string text;           ///< as a canonical file has it
  std::vector<int> last_use;  ///< of every value: the node that reads it last; past the end for a result

  int first() const { return static_cast<int>(params.size()); }
  /// The node that makes value v, or null for a parameter.
  const Node* node(int v) const { return v < first() ? nullptr : &nodes[static_cast<std::size_t>(v - first())]; }
  /// One type, or those of a scan's results.
  std::span<const Type> types(int v) const {
    return v < first() ? std::span(&params[static_cast<std::size_t>(v)], 1) : std::span(node(v)->types);
  }
  const Type& type(int v) const { return types(v).front(); }
  const Type& result_type(std::size_t i) const { return type(results[i]); }
};

struct Input {
  std::string name;
  Type type;
  std::string domain;
  std::shared_ptr<const Block>
      missing;           ///< what stands for it where a case has none; its parameters are the inputs before
  bool gradient = true;  ///< false: a parameter, shared by all heads
  /// How cases draw it: low, high, unit.
  std::map<std::string, std::string, std::less<>> hint = {};
};

using Setting = std::variant<std::monostate, bool, std::int64_t, std::string>;
/// "true", "-3", "silu"; `nothing` for one that is not set.
std::string spelled(const Setting& setting, std::string_view nothing);

/// Inputs by name, one body, outputs by name; one result of the body for each output.
struct Program {
  std::string name;
  std::map<std::string, Setting, std::less<>> settings;  ///< what its source was traced with
  std::vector<Input> inputs;
  std::shared_ptr<const Block> body;
  std::vector<std::string> outputs;

  /// The input of that name; null if there is none.
  const Input* input(std::string_view of) const;
  /// The value of the body that is the output of that name; nothing if there is none.
  std::optional<int> output(std::string_view of) const;
  /// 3 if it solves systems of equations, else 2 if something is marked as rounded, else 1.
  int version() const;
  /// The text whose digest it is: canonical JSON without name, settings and hints.
  std::string text() const;
  /// SHA-256 of text(), 64 hexadecimal digits: two spellings of one computation agree.
  std::string digest() const;
};

/// The most that readers let in: nodes of a whole file, scans in one another, axes of a value, bytes of a file.
inline constexpr std::size_t most_nodes = 100000, most_depth = 16, most_axes = 8, most_bytes = std::size_t{32} << 20;
/// The most values that axes of written length may make alone.
inline constexpr double most_written = 0x1p24;

/// The program in `text`, in its canonical form. Reading is validation: types are inferred. `source` names the file in
/// messages. Throws InputError, one sentence that names the node: "gdn2.json: body.0: node 7 (contract): axis V meets
/// axis K".
Program read_program(const std::string& text, std::string_view source);
/// As above, of the file at `path`.
Program load_program(const std::string& path);

/// Whether inputs may be of that domain: the names of reference/core/field.hpp, "real" and "cotangent".
bool is_domain(std::string_view name);

}  // namespace assay::language
