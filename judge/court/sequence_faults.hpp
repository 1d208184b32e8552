#pragma once
// Errors of what calls a tile program once for every sequence of a case (docs/arguments.md): packed rows, pages, states
// inside of sequences, and arguments that go astray on the way. They are planted between the case and the tile program,
// which is healthy, and only where faults are.
#include <cstddef>
#include <string_view>
#include <vector>

#include "arguments/file_case.hpp"
#include "kernels/core/faults.hpp"

namespace assay {

/// Those of a mechanism's cases; `gradients`: among them those of a backward pass.
std::vector<Mutant> sequence_mutants(std::string_view mechanism, bool gradients);
bool is_sequence_fault(std::string_view name);

/// One of them at work on one case, whose sequences come one after the other.
class SequenceFault {
 public:
  /// Keeps a reference to `file`. A fault of any other name changes nothing.
  SequenceFault(std::string_view name, const arguments::FileCase& file) : name_(name), file_(file) {}

  /// Plants the fault in sequence number `n`.
  void spoil(std::size_t n, Problem& sequence) const;
  /// Plants the fault in a sequence's answer; `states`: before which of its tokens its state is asked for.
  void spoil(std::size_t n, const std::vector<int>& states, Answer& answer);

 private:
  bool is(std::string_view name) const { return name_ == name; }

  std::string_view name_;
  const arguments::FileCase& file_;
  Array left_;  ///< the last sequence's final state
};

}  // namespace assay
