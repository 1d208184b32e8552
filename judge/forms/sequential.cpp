#include "judge/forms/sequential.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace assay {

/// Of judge/forms/product_sum.cpp.
Answer run_product_sum(const Problem& problem, const Policy& policy, int tile);

namespace {

constexpr tile::SiteTable::Init site_list[] = {{"op", tile::Role::accumulator}};
constexpr tile::SiteTable sites{site_list};
constexpr std::string_view tiles[] = {"1"};

std::string no_obstacle(const Problem&) { return ""; }

constexpr KernelForm form_of(Answer (*run)(const Problem&, const Policy&, int)) {
  return {"sequential", "the reference in the arithmetic of the contract", sites, tiles, {}, true, no_obstacle, run};
}

constexpr tile::SiteTable::Init recurrent_list[] = {{"op", tile::Role::accumulator},
                                                    {"S", tile::Role::accumulator},
                                                    {"G", tile::Role::accumulator},
                                                    {"final", tile::Role::accumulator},
                                                    {"out", tile::Role::output}};
constexpr tile::SiteTable recurrent_sites{recurrent_list};
constexpr std::string_view no_tiles[] = {"none"};

constexpr KernelForm recurrent_form_of(Answer (*run)(const Problem&, const Policy&, int)) {
  return {"recurrent", "token by token, no products of blocks", recurrent_sites, no_tiles, {}, true, no_obstacle, run};
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

namespace {

struct Entry {
  std::string_view room;
  KernelForm form;
};

/// The form of that room, or null.
template <std::size_t N>
const KernelForm* find(const Entry (&entries)[N], std::string_view room) {
  const auto* const it = std::find_if(entries, entries + N, [&](const Entry& e) { return e.room == room; });
  return it == entries + N ? nullptr : &it->form;
}

}  // namespace

const KernelForm* sequential_form(std::string_view room) {
#define MECHANISM(name) {#name, form_of(sequential::run_##name)},
  static constexpr Entry all[] = {
#include "mechanisms.def"
  };
#undef MECHANISM
  return find(all, room);
}

const KernelForm* recurrent_form(std::string_view room) {
#define MECHANISM(name) {#name, recurrent_form_of(sequential::run_##name)},
  static constexpr Entry all[] = {
#include "mechanisms.def"
  };
#undef MECHANISM
  // Attention sees all keys of a row at once: nothing is carried.
  constexpr std::string_view attention[] = {"softmax_attention", "parallax", "lla"};
  const bool carries = std::find(std::begin(attention), std::end(attention), room) == std::end(attention);
  return carries ? find(all, room) : nullptr;
}

std::vector<const KernelForm*> forms_of(const KernelRoom& kernels) {
  std::vector<const KernelForm*> forms;
  for (const KernelForm& form : kernels.forms) forms.push_back(&form);
  if (const KernelForm* recurrent = recurrent_form(kernels.name)) forms.push_back(recurrent);
  return forms;
}

bool is_reference(const KernelForm& form) { return form.sites.find("op") >= 0; }

const KernelForm* product_sum_form(std::string_view room) {
  return room == "softmax_attention" ? &product_sum : nullptr;
}

}  // namespace assay
