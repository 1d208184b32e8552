#pragma once
// A problem as hypotheses change it: its tensors by head and row, and parts of it that cost less to answer.
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracles/core/room.hpp"

namespace assay::hypotheses {

using Values = std::vector<double>;

/// How a tensor lies: [heads][rows][cols], where it has no such axis 1.
struct Grid {
  std::size_t heads = 1, rows = 1, cols = 1;
  bool by_head = false;   ///< it has an axis of heads
  bool by_token = false;  ///< its rows are tokens

  std::size_t size() const { return heads * rows * cols; }
  std::size_t at(std::size_t head, std::size_t row, std::size_t col) const { return (head * rows + row) * cols + col; }
  /// The same, of a token: what has no rows is one number for all tokens.
  std::size_t at_token(std::size_t head, std::size_t token, std::size_t col) const {
    return at(head, by_token ? token : 0, col);
  }
  friend bool operator==(const Grid&, const Grid&) = default;
};
Grid grid_of(const RoomFacts::Ranked& ranked, const std::vector<int>& shape);

/// A problem and what its room says of it. Output head h reads shared head h / group().
struct Scene {
  Scene() = default;
  Scene(const Room& of, Problem asked, int sequences)
      : room(&of), problem(std::move(asked)), batch(sequences), fields_(of.inputs()), answered_(of.outputs()) {}

  const Room* room = nullptr;
  Problem problem;
  int batch = 1;
  bool in_parts = true;  ///< whether its first tokens are a problem, too; a case with arguments may be packed
  Arrays seen = {};      ///< gradients of tokens that were answered, by the names of a report

  /// The room's description of an input, an output or, for "d_NAME", the input; null if there is none.
  const RoomFacts::Ranked* described(std::string_view tensor) const;
  /// The array of an input, or null.
  const Array* input(std::string_view name) const;
  /// The inputs of the room, and those that the problem has as arrays, in the room's order.
  const std::vector<RoomFacts::Ranked>& fields() const { return fields_; }
  std::vector<std::string> inputs() const;
  std::size_t own_heads() const;
  std::size_t shared_heads() const;
  std::size_t group() const { return own_heads() / shared_heads(); }
  std::size_t tokens() const;
  /// Whether queries and keys are as many, so that row i of each is token i.
  bool aligned() const;
  /// A parameter that is a number; `otherwise` where it has none.
  double number(std::string_view name, double otherwise) const;
  /// A factor of scores or of what is read, where parameters say one; else 1.
  double scale() const;
  /// Whether queries do not see later keys: unless it says causal=false.
  bool is_causal() const;

  /// Multiplications of one answer, roughly: a core does 8 * 10^8 in a second.
  double work() const;

 private:
  std::vector<RoomFacts::Ranked> fields_, answered_;
};

/// Outputs and gradients by the names of a report, by the reference in doubles. Throws what the room throws.
Arrays answer_of(const Room& room, const Problem& problem);

/// Those heads of one side in a tensor that has `count` of them: of the states of packed sequences those of each.
std::vector<std::size_t> of_all_sequences(const Scene& scene, Field::Heads side, std::size_t count,
                                          const std::vector<std::size_t>& heads);

/// A part of a problem whose answer is a part of the answer: some heads, the first tokens.
struct Part {
  Scene scene;
  std::vector<std::size_t> own, shared;  ///< heads of the whole problem
  std::size_t tokens = 0;                ///< of each sequence, from the first
  bool all_heads = true, all_tokens = true;
};
Part whole_of(const Scene& scene);
/// One shared head and those that read it.
Part group_of(const Scene& scene, std::size_t shared_head);
Part outputs_of(Part part);
/// Its first tokens, without cotangents: what is answered is the part's where nothing looks ahead.
Part prefix_of(Part part, std::size_t tokens);

/// Tokens begin to end - 1 of the problem, in `names` or in all that have tokens; without cotangents, states as they
/// are.
Problem tokens_of(const Scene& scene, std::size_t begin, std::size_t end, const std::vector<std::string>& names = {});

/// f(head, row, the numbers of that row).
void each_row(const Grid& grid, Values& values,
              const std::function<void(std::size_t head, std::size_t row, std::span<double>)>& f);
/// How a tensor of that name lies; one that the room does not describe is one row.
Grid grid_in(const Scene& scene, std::string_view tensor, const Array& array);

/// Rows in the reverse order, in every head.
void reverse_rows(const Grid& grid, Values& values);
/// Memory [heads][m][n] read as if it were [heads][n][m], in either direction.
void read_transposed(const Grid& grid, Values& values, bool back);
/// Rows by token and head for rows by head and token, of so many sequences: what lies at (t, h) of memory [T][H] is
/// taken for (h', t') with h' T + t' = t H + h, in either direction.
void exchange_axes(const Grid& grid, int sequences, Values& values, bool back);

/// An input that a kernel changes before it reads it, or, `back`, its gradient, before it is the input's.
struct Moved {
  const Scene& scene;
  const std::string& name;
  Grid grid;
  Values& values;
  bool back;
};
using Move = std::function<void(const Moved&)>;
/// What is known of such a gradient: nothing; what kernels answer that leave it as it is, under "d_x, raw"; both.
enum class Gradient { unknown, raw, moved };
/// The answer where `move` changes these inputs. Throws what the room throws.
Arrays answer_moved(const Scene& scene, const std::vector<std::string>& inputs, Gradient gradient, const Move& move);

}  // namespace assay::hypotheses
