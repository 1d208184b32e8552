#include "judge/held_out/rooms.hpp"

#include <algorithm>
#include <deque>
#include <sstream>
#include <string>
#include <vector>

#include "judge/held_out/faults.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

using held_out::Fault;

constexpr std::string_view form_names[] = {"tiled", "chunkwise", "split_decode"};

const std::vector<const Fault*>& all_faults() {
  static const std::vector<const Fault*> all = [] {
    std::vector<const Fault*> list;
    for (const std::span<const Fault> faults :
         {held_out::input_faults(), held_out::option_faults(), held_out::sequence_faults(), held_out::output_faults(),
          held_out::gradient_faults()})
      for (const Fault& fault : faults) list.push_back(&fault);
    return list;
  }();
  return all;
}

const KernelForm& healthy_form(std::string_view room, std::string_view form) {
  const auto& forms = find_kernels(kernel_rooms(), room)->forms;
  return *std::find_if(forms.begin(), forms.end(), [&](const KernelForm& f) { return f.name == form; });
}

/// The fault of that name, or null.
const Fault* find_fault(std::string_view name) {
  const auto& faults = all_faults();
  const auto it = std::find_if(faults.begin(), faults.end(), [&](const Fault* f) { return f->mutant.name == name; });
  return it == faults.end() ? nullptr : *it;
}

template <std::size_t Form>
Answer run(const Problem& problem, const Policy& policy, int tile) {
  const Policy healthy = policy.healthy();
  const held_out::Call call{*find_room(problem.mechanism), healthy_form(problem.mechanism, form_names[Form]), problem,
                            healthy, tile};
  const Fault* const fault = find_fault(policy.fault);
  if (fault == nullptr) return call.healthy();
  try {
    return fault->run(call);
  } catch (const InputError&) {
    return call.healthy();
  }
}

auto runner_of(std::string_view form) {
  return form == form_names[0] ? run<0> : form == form_names[1] ? run<1> : run<2>;
}

bool lists(const Fault& fault, const KernelRoom& room, const KernelForm& form) {
  std::istringstream words{std::string(fault.kernels)};
  for (std::string word; words >> word;)
    if (word == text(room.name, ':', form.name) || (word == room.name && &form == room.forms.data())) return true;
  return false;
}

/// Owns what the registry's views point to; nothing in it moves once it is there.
struct Registry {
  std::deque<std::vector<Mutant>> mutants;
  std::deque<std::vector<KernelForm>> forms;
  std::deque<KernelRoom> rooms;
  std::vector<const KernelRoom*> list;

  Registry() {
    for (const KernelRoom* room : kernel_rooms()) {
      std::vector<KernelForm> with_faults;
      for (const KernelForm& form : room->forms) {
        std::vector<Mutant> its;
        for (const Fault* fault : all_faults())
          if (lists(*fault, *room, form)) its.push_back(fault->mutant);
        if (its.empty()) continue;
        KernelForm planted = form;
        planted.mutants = mutants.emplace_back(std::move(its)), planted.run = runner_of(form.name);
        with_faults.push_back(planted);
      }
      if (!with_faults.empty())
        list.push_back(
            &rooms.emplace_back(KernelRoom{room->name, forms.emplace_back(std::move(with_faults)), room->folder}));
    }
  }
};

}  // namespace

std::span<const KernelRoom* const> held_out_rooms() {
  static const Registry registry;
  return registry.list;
}

std::string_view survival_of(std::string_view mutant) {
  const Fault* const fault = find_fault(mutant);
  return fault == nullptr ? std::string_view() : fault->survives;
}

}  // namespace assay
