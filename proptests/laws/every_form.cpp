// The laws of kernel forms and of references, on every form and every room: what is left out, and why.
#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "proptests/core/mutants.hpp"
#include "proptests/core/table.hpp"
#include "proptests/laws/aimed_laws.hpp"
#include "proptests/laws/laws.hpp"
#include "proptests/laws/reference_laws.hpp"
#include "proptests/laws/uniform_laws.hpp"
#include "proptests/laws/unit_laws.hpp"

namespace assay::laws {
namespace {

/// `only` names the rooms that a law is about; "" is all.
struct FormLaw {
  std::string_view name;
  void (*holds)(const Subject&, const LawCase&);
  std::string_view only = {};
};
#define LAW(law) #law, law
constexpr FormLaw form_laws[] = {
    {LAW(stays_within_budget)},
    {LAW(exact_policy_is_the_oracle)},
    {LAW(tile_shape_changes_nothing)},
    {LAW(same_bits_twice)},
    {LAW(every_element_is_written)},
    {LAW(the_future_changes_no_bit)},
    {LAW(heads_are_independent)},
    {LAW(backward_is_the_adjoint)},
    {LAW(linear_in_values)},
    {LAW(reads_are_linear_in_the_query)},
    {LAW(segments_concatenate)},
    {LAW(units_change_no_bit), "softmax_attention parallax"},
    {LAW(weights_sum_to_one), "value_averaging affine_linear_attention"},
    {LAW(an_offset_costs_its_size), "affine_linear_attention"},
    {LAW(closed_gates_are_ordinary), "gated_deltanet mdn:chunkwise"},
    {LAW(no_momentum_is_ordinary), "mdn:chunkwise"},
    {LAW(constant_values_come_out), "softmax_attention:tiled parallax:tiled lla:tiled affine_mesanet"},
    {LAW(identical_keys_average), "softmax_attention:tiled"},
    {LAW(windows_of_one_and_of_all), "softmax_attention:tiled lla:tiled"},
    {LAW(no_probe_is_no_correction), "parallax:tiled parallax:covariance affine_linear_attention"},
    {LAW(huge_ridges_are_ordinary), "mesanet affine_mesanet lla:tiled"},
    {LAW(no_ridge_is_ordinary), "falcon2a"},
    {LAW(decays_of_zero_have_gradients), "falcon2"},
    {LAW(windows_come_in_parts), "falcon3:chunkwise"},
};
struct RoomLaw {
  std::string_view name;
  ReferenceLaw holds;
  std::string_view only = {};
};
constexpr RoomLaw room_laws[] = {
    {LAW(heads_are_independent)}, {LAW(backward_is_the_adjoint)}, {LAW(the_future_is_unseen)},
    {LAW(segments_concatenate)},  {LAW(is_its_reference)},
};
#undef LAW

/// Laws that some subjects, "room" or "room:form", are exempt from, and why: exceptions.json.
struct Exception {
  std::string laws, subjects, why;
};
const std::vector<Exception>& exceptions() {
  static const std::vector<Exception> all = [] {
    std::vector<Exception> list;
    for (const Json& row : test_table("laws/exceptions.json"))
      list.push_back(
          {row.at("laws").get<std::string>(), row.at("subjects").get<std::string>(), row.at("why").get<std::string>()});
    return list;
  }();
  return all;
}

/// Whether one of the words is `name`, or its room.
bool names(std::string_view words, std::string_view name) {
  std::istringstream stream{std::string(words)};
  for (std::string word; stream >> word;)
    if (word == name || word == name.substr(0, name.find(':'))) return true;
  return false;
}
bool is_about(std::string_view only, std::string_view law, const std::string& subject) {
  if (!only.empty() && !names(only, subject)) return false;
  return std::ranges::none_of(exceptions(),
                              [&](const Exception& e) { return names(e.laws, law) && names(e.subjects, subject); });
}

std::string test_name(std::string subject, std::string_view law) {
  std::replace(subject.begin(), subject.end(), ':', '_');
  return subject + '_' + std::string(law);
}

struct FormAndLaw {
  std::string_view room, form;
  const FormLaw* law;
  friend std::ostream& operator<<(std::ostream& os, const FormAndLaw& x) { return os << x.room << ':' << x.form; }
};
std::vector<FormAndLaw> forms_and_laws() {
  std::vector<FormAndLaw> all;
  for (const KernelRoom* room : kernel_rooms())
    for (const KernelForm& form : room->forms)
      for (const FormLaw& law : form_laws)
        if (is_about(law.only, law.name, text(room->name, ':', form.name)))
          all.push_back({room->name, form.name, &law});
  return all;
}
class Forms : public ::testing::TestWithParam<FormAndLaw> {};
INSTANTIATE_TEST_SUITE_P(Every, Forms, ::testing::ValuesIn(forms_and_laws()), [](const auto& x) {
  return test_name(text(x.param.room, ':', x.param.form), x.param.law->name);
});
TEST_P(Forms, obey) {
  const auto& [room, form, law] = GetParam();
  const Subject s = subject(kernel_rooms(), room, form);
  check_property([&, law = law] { law->holds(s, *law_cases(s.room, s.form)); });
}

struct RoomAndLaw {
  std::string_view room;
  const RoomLaw* law;
  friend std::ostream& operator<<(std::ostream& os, const RoomAndLaw& x) { return os << x.room; }
};
std::vector<RoomAndLaw> rooms_and_laws() {
  std::vector<RoomAndLaw> all;
  for (const Room* room : rooms())
    for (const RoomLaw& law : room_laws)
      if (is_about(law.only, text("reference:", law.name), std::string(room->name))) all.push_back({room->name, &law});
  return all;
}
class References : public ::testing::TestWithParam<RoomAndLaw> {};
INSTANTIATE_TEST_SUITE_P(Every, References, ::testing::ValuesIn(rooms_and_laws()),
                         [](const auto& x) { return test_name(std::string(x.param.room), x.param.law->name); });
TEST_P(References, obey) { EXPECT_EQ(first_violation(listed_room(GetParam().room), GetParam().law->holds), ""); }

/// An exception is of a law and of something that there is.
TEST(Exceptions, are_of_what_there_is) {
  std::vector<std::string> subjects;
  for (const Room* room : rooms()) subjects.emplace_back(room->name);
  for (const KernelRoom* room : kernel_rooms())
    for (const KernelForm& form : room->forms) subjects.push_back(text(room->name, ':', form.name));
  for (const Exception& e : exceptions()) {
    std::istringstream laws{e.laws};
    for (std::string law; laws >> law;)
      EXPECT_TRUE(
          std::any_of(std::begin(form_laws), std::end(form_laws), [&](const auto& l) { return l.name == law; }) ||
          std::any_of(std::begin(room_laws), std::end(room_laws),
                      [&](const auto& l) { return text("reference:", l.name) == law; }))
          << law;
    std::istringstream words{e.subjects};
    for (std::string word; words >> word;)
      EXPECT_NE(std::find(subjects.begin(), subjects.end(), word), subjects.end()) << word;
    EXPECT_FALSE(e.why.empty()) << e.laws;
  }
}

}  // namespace

#define MECHANISM(name) ASSAY_KILLS_ITS_MUTANTS(name)
#include "mechanisms.def"
#undef MECHANISM

}  // namespace assay::laws
