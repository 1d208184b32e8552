#pragma once
// The registry of kernels: every room's forms, each a tile program (or several) behind one function.
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kernels/core/faults.hpp"
#include "kernels/core/policy.hpp"
#include "reference/core/problem.hpp"

namespace assay {

enum class Style;

/// Problems that a form is tried with.
struct Setting {
  Style style = {};  ///< the normal one
  Params params = {};
  int queries = 0;                ///< the last so many rows alone; 0 is all
  bool without_probe = false;     ///< a forward pass with W_R = 0
  bool exchanges_decays = false;  ///< of states and momenta
};
inline std::vector<Setting> defaults_alone() { return {{}}; }

/// A function, or one of an object, which is there for as long as the form.
class RunsForm {
 public:
  using Plain = Answer (*)(const Problem& problem, const Policy& policy, int tile);
  using Own = Answer (*)(const void* object, const Problem& problem, const Policy& policy, int tile);
  template <class F>
  requires std::is_convertible_v<F, Plain>
  constexpr RunsForm(F plain) : plain_(plain) {}  // NOLINT(google-explicit-constructor)
  constexpr RunsForm(const void* object, Own own) : object_(object), own_(own) {}
  Answer operator()(const Problem& problem, const Policy& policy, int tile) const {
    return plain_ != nullptr ? plain_(problem, policy, tile) : own_(object_, problem, policy, tile);
  }

 private:
  Plain plain_ = nullptr;
  const void* object_ = nullptr;
  Own own_ = nullptr;
};

/// One way to compute a mechanism: tiled, chunkwise, split decode.
struct KernelForm {
  std::string_view name, summary;
  const tile::SiteTable& sites;
  std::span<const std::string_view> tiles;  ///< tile shapes compiled in; the first is the default
  std::span<const Mutant> mutants;
  bool has_gradients;
  /// One sentence why this form cannot run that problem, or "" if it can (shape limits, decode takes one query row
  /// ...).
  std::string (*obstacle)(const Problem& problem);
  /// Outputs, and gradients if the problem has cotangents, all heads. `tile` indexes `tiles`. The problem has passed
  /// the door of its room (shapes, finiteness, domain).
  RunsForm run;
  /// The reason, in one sentence, why a published form fails where others meet the mathematics, and where it was
  /// published. It is run when it is asked for, and judged by what is expected of the room's first form. "": healthy.
  std::string_view unstable = {};
  bool iterative = false;         ///< solves a system for every query: what is judged by default is smaller
  bool independent_rows = false;  ///< no rounding of one row touches another's
  /// The settings that it is tried with on a device: the first at every shape, and the others, which take other
  /// branches of its launches and programs, at one.
  std::vector<Setting> (*settings)() = defaults_alone;
};

struct KernelRoom {
  std::string_view name;
  std::span<const KernelForm> forms;
  std::string_view folder;  ///< its sources are kernels/FOLDER/NAME.hpp, .cpp and .cu
};

/// All rooms' kernels, in the order of mechanisms.def.
std::span<const KernelRoom* const> kernel_rooms();

/// The kernels of that room, or null.
const KernelRoom* find_kernels(std::span<const KernelRoom* const> rooms, std::string_view name);

}  // namespace assay
