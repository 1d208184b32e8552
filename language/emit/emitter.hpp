#pragma once
// The text of one program: what is between inputs and scans node by node, and scans step by step.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "language/emit/emit.hpp"
#include "language/emit/nodes.hpp"
#include "language/emit/scope.hpp"
#include "language/emit/step.hpp"

namespace assay::language::device {

class Emitter {
 public:
  /// Keeps a reference to the program.
  explicit Emitter(const Program& program);

  /// Once. Throws InputError if something has no text.
  Emitted emitted();

 private:
  /// States before every step, which another scan reads that runs the other way: they are computed again there, from
  /// some that are kept.
  struct Replayed {
    int scan = 0, state = 0;
  };
  /// The step of another scan within one that reads its states.
  struct Again {
    int scan = 0;
    std::unique_ptr<Step> step;
    std::map<int, Place> states;  ///< those of a segment, by their numbers; the first index is the step's in it
  };
  /// A row of results, and where it goes.
  struct Row {
    int value = 0;
    Place to;
  };

  const Node& scan_at(int v) const { return *block_.node(v); }
  std::string name_of_scan(int v) const;
  void find_lengths();
  void put_inputs();
  void find_replayed();
  bool is_read_backwards(int get) const;
  void find_outputs();
  void line(std::string text) { lines_.push_back(std::move(text)); }
  std::string buffer(std::string name, std::string count);
  Place storage(int v);

  void scan(int v);
  bool is_in_tiles(int v) const { return tiles_.contains(v); }
  void scan_in_tiles(int v);
  void find_tokens(int v);
  std::string buffer_of_tile(std::string name, int v, std::vector<Dim> axes);
  std::vector<Again> agains_of(int v, Step& step, Shared& shared);
  bool is_replayed(int v) const;
  void keep_states(int v, Step& step);
  void loop(int v, Step& step, const std::vector<Row>& rows);
  void loop_back(int v, Step& step, const std::vector<Row>& rows, std::vector<Again>& agains);
  void compute_segment(Again& again);
  static void body(Step& step, const std::vector<Row>& rows);
  Place kept(int v, const Step& step, int state) const;
  std::string token(int v) const;
  std::string steps(int v) const;

  bool is_of_tiles() const;
  /// Whether it calls functions of products_text.
  bool has_calls() const { return !tiles_.empty() || nodes_.has_calls(); }
  std::string header(const std::string& name) const;
  std::string run_text(const std::string& name) const;

  const Program& program_;
  const Block& block_;
  Scope top_;
  std::vector<std::string> lines_;
  Nodes nodes_;
  std::map<int, std::shared_ptr<const Block>> tiles_;  ///< steps of scans whose tokens go side by side
  std::vector<std::string> tokens_of_tiles_;           ///< how many do
  std::vector<Dim> free_, lengths_;  ///< axes whose lengths are the launch's, and those that must be known
  std::vector<Dim> columns_;
  std::vector<int> need_;
  std::map<int, Replayed> replayed_;                          ///< by the value that has them
  std::map<int, std::size_t> output_of_;                      ///< values that are stored as an output
  std::vector<std::pair<std::string, std::string>> buffers_;  ///< of the workspace: names and counts
  std::vector<std::string> shared_;                           ///< numbers in shared memory that each scan has
};

}  // namespace assay::language::device
