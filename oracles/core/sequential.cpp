#include "oracles/core/sequential.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace assay {

/// Of oracles/core/product_sum.cpp.
Answer run_product_sum(const Problem& problem, const Policy& policy, int tile);

namespace {

constexpr tile::SiteTable::Init site_list[] = {{"op", tile::Role::accumulator}};
constexpr tile::SiteTable sites{site_list};
constexpr std::string_view tiles[] = {"1"};

std::string no_obstacle(const Problem&) { return ""; }

constexpr KernelForm form_of(Answer (*run)(const Problem&, const Policy&, int)) {
  return {"sequential", "the reference in the arithmetic of the contract", sites, tiles, {}, true, no_obstacle, run};
}

constexpr tile::SiteTable::Init factor_list[] = {{"P", tile::Role::operand}, {"out", tile::Role::output}};
constexpr tile::SiteTable with_factors = sites.with(factor_list);
constexpr KernelForm product_sum = {
    "product_sum", "row by row, D = sum_j P_ij dP_ij", with_factors, tiles, {}, true, no_obstacle, run_product_sum};

}  // namespace

namespace sequential {
#define MECHANISM(name) Answer run_##name(const Problem& problem, const Policy& policy, int tile);
#include "mechanisms.def"
#undef MECHANISM
}  // namespace sequential

const KernelForm* sequential_form(std::string_view room) {
  struct Entry {
    std::string_view room;
    KernelForm form;
  };
#define MECHANISM(name) {#name, form_of(sequential::run_##name)},
  static constexpr Entry all[] = {
#include "mechanisms.def"
  };
#undef MECHANISM
  const auto* const it = std::find_if(std::begin(all), std::end(all), [&](const Entry& e) { return e.room == room; });
  return it == std::end(all) ? nullptr : &it->form;
}

const KernelForm* product_sum_form(std::string_view room) {
  return room == "softmax_attention" ? &product_sum : nullptr;
}

}  // namespace assay
