#pragma once
// Evidence `form`: the algorithm of a user's kernel, written as a program whose marks `round(x, "Tc")` are its sites,
// in the place of a tile program. docs/own-mechanism.md has an example.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "language/answers/posed.hpp"
#include "oracles/core/oracle.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// Whether --form says a file, and not the name of a form of ours.
bool is_program_form(std::string_view name);

/// The program in that file as a form of kernels of another program, `mechanism`. Sites are its marks, operands of the
/// precision; `op`, all its other arithmetic; `out` for outputs and gradients as they leave, `final` for states.
/// Throws InputError if the file is no program, or none that fits.
std::shared_ptr<const KernelForm> program_form(const std::string& file, const std::string& mechanism);

/// The algorithm that follows from a program alone: token by token, what products read rounded at the site `factors`,
/// as kernels on tensor cores do. Its other sites are those of any form.
std::shared_ptr<const KernelForm> own_form(const std::string& mechanism);
/// The same as a program, and what flows back rounded where a product reads it, no more.
language::Mechanism with_factors_marked(const language::Mechanism& program);

/// A healthy algorithm beside the tile program's; `how` tells which.
struct PublishedForm {
  std::shared_ptr<const KernelForm> form;
  std::string how;
};

/// Algorithms that others publish for a room (mechanisms/forms), and its equations as they are written where it has no
/// recurrence. None where none is known for the problem's mechanism and settings, and none that would take minutes.
std::vector<PublishedForm> published_forms(const Problem& problem);

/// The answer of an algorithm of the program that rounds where `form` has marks: at the policy's sites `op`, all other
/// arithmetic, `out` and `final`, as it leaves, and the marks.
Answer run_as_form(const language::Mechanism& program, const language::Mechanism& form, const Problem& problem,
                   const Policy& policy);
/// Those sites; `file` names the form in messages.
tile::SiteTable sites_of_form(const language::Mechanism& form, const std::string& file);

/// Throws InputError unless enclosures prove that form and mechanism answer the problem alike, whose truth is known.
void require_equal(const KernelForm& form, const Problem& problem, const Oracle& truth, int threads);

}  // namespace assay
