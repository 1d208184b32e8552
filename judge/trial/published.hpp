#pragma once
// Public threads about wrong or disputed kernels, one by one: the error of each planted in a tile program of ours, and
// the case that shows it. None of the threads was run again.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "judge/verdict/judge.hpp"

namespace assay {

struct PublishedThread {
  std::string_view thread;  ///< "FA#2402"
  std::string_view error;
  bool is_its_own = false;  ///< whether the planted error is the one that the thread tells of; else one of its kind
  // The planted fault: a case of judge/trial/argument_cases.hpp, and a fault of its form. "": nothing is planted.
  std::string_view mechanism = {}, case_name = {}, mutant = {};
};
std::span<const PublishedThread> published_threads();

/// The result of one thread.
struct PublishedTrial {
  const PublishedThread* thread = nullptr;
  Verdict healthy = Verdict::unsupported, planted = Verdict::unsupported;  ///< as they stay where nothing is planted
  std::string command;                                                     ///< that draws the case
  std::string reason;                                                      ///< of the first tensor that fails

  bool passed() const { return thread->mutant.empty() || (passes(healthy) && planted == Verdict::fail); }
};
/// Those of these names, or all if none is named, side by side. `done` hears how many there are. Throws InputError if
/// there is no such thread, or if this program is not linked with faults.
std::vector<PublishedTrial> try_published(const std::vector<std::string>& names, int threads,
                                          const std::function<void(std::size_t total, std::string_view what)>& done);

}  // namespace assay
