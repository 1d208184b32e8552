#pragma once
// Functions for Python, on tensors as safetensors files have them: thin calls of those that the command line calls.
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/problem_file.hpp"
#include "files/safetensors.hpp"
#include "tools/run/checked.hpp"

namespace assay::python {

/// Hears how far the work is, from any thread, one at a time. An exception of its ends the work.
using Watch = std::function<void(std::string_view what, std::size_t done, std::size_t total)>;

/// The output of the program for these words of its command line.
struct Said {
  int code = 0;
  std::string out, err;
};
Said run_verb(const std::vector<std::string>& words, const Watch& watch);

/// An answer that was judged.
class Verdicts {
 public:
  /// `why`: seconds to look for causes, 0 for no cause at all; none: only what is found at once.
  Verdicts(const CheckOptions& options, Safetensors problem, Safetensors answer, std::optional<double> why,
           const Watch& watch);

  bool passed() const { return all_pass(checked_->rows); }
  /// The page in that format; a short one leaves out what columns and contracts mean.
  std::string page(const std::string& format, bool in_short) const;
  /// The first fault, its likely cause, the tensors that did not pass, and where: lines.
  std::string complaints() const;
  /// Writes the page's drawings as a file of SVG or PNG.
  void plot(const std::string& path) const;
  /// The expectation of a tensor: value, value.lo, bound, sigma and limit, as the answer's file has it.
  Safetensors expected(const std::string& tensor) const;

 private:
  std::shared_ptr<Checked> checked_;
};

/// The elements of an answer to a case with arguments, tensor by tensor; nothing for a case without. Throws InputError
/// if the case is refused.
std::optional<std::map<std::string, Scattered>> asked_of(Safetensors problem, const std::string& where);

/// The oracle's answer, as `assay oracle` writes it.
Safetensors oracle_answer(Safetensors problem, const std::string& where, const std::string& tier, int threads,
                          const Watch& watch);

/// The answers that its contract lets a correct kernel give: NAME, NAME.lo, NAME.bound, NAME.sigma, NAME.limit.
Safetensors expectation_of(Safetensors problem, const std::string& where, const Standard& standard, const Watch& watch);

}  // namespace assay::python
