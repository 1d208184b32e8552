#include "judge/trial/program_variants.hpp"

#include <filesystem>

#include "files/names.hpp"
#include "judge/programs/program_form.hpp"
#include "kernels/core/policy.hpp"
#include "language/room.hpp"
#include "oracles/core/oracle.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

Policy policy_for(const tile::SiteTable& sites, Format precision) {
  Policy policy = Policy::of(sites, precision);
  policy.threads = 1;
  return policy;
}

/// Marks as wide as sums.
tile::SiteTable with_wide_marks(tile::SiteTable sites) {
  const Format wide = sites.entries[sites.find("op")].format;
  for (int i = 0; i < sites.size; ++i)
    if (sites.entries[i].role == tile::Role::operand) sites.entries[i].format = wide;
  return sites;
}

}  // namespace

std::vector<HealthyAnswer> program_answers(const Problem& problem, const std::vector<std::string>& forms,
                                           Format precision, const std::vector<std::string>& wanted) {
  const auto program = language::find_mechanism(problem.mechanism);
  require(program != nullptr, problem.mechanism, " is no program");
  std::vector<HealthyAnswer> list;
  const auto add = [&](const std::string& variant, const language::Mechanism& form, const Policy& policy) {
    if (asks_for(wanted, variant)) list.push_back({variant, flat(run_as_form(*program, form, problem, policy))});
  };
  add("token by token", *program, policy_for(sites_of_form(*program, problem.mechanism), precision));
  if (precision != Format::fp32 && precision != Format::fp64) {  // operands have fewer digits than sums
    const language::Mechanism marked = with_factors_marked(*program);
    add("operands rounded", marked, policy_for(sites_of_form(marked, problem.mechanism), precision));
  }
  for (const std::string& file : forms) {
    const auto form = program_form(file, problem.mechanism);
    const auto algorithm = language::find_mechanism(file);
    Policy policy = policy_for(form->sites, precision);
    const std::string name = "form " + std::filesystem::path(file).stem().string();
    add(name, *algorithm, policy);
    policy.sites = with_wide_marks(policy.sites);
    add(name + ", marks wide", *algorithm, policy);
  }
  return list;
}

}  // namespace assay
