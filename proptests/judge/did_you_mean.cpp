// Names that there are not: what was probably meant, and nothing where nobody knows.
#include "files/did_you_mean.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "files/case_file.hpp"
#include "oracles/core/room.hpp"

namespace assay {
namespace {

TEST(DidYouMean, slips_of_the_keyboard) {
  const std::vector<std::string> verbs = {"list", "report", "check", "baseline", "case", "oracle"};
  for (const char* typed : {"chekc", "chek", "Check", "checkk", "cheek", "chec"})
    EXPECT_EQ(nearest_name(typed, verbs), "check") << typed;
  EXPECT_EQ(nearest_name("base", verbs), "case");  // one letter is less than four that are not there
  EXPECT_EQ(nearest_name("basel", verbs), "baseline");
  EXPECT_EQ(did_you_mean("scal", {"alignment", "scale"}), " (did you mean scale?)");
  for (const std::string& typed : {std::string(), std::string("x"), std::string("frobnicate"), std::string(100, 'c')})
    EXPECT_EQ(did_you_mean(typed, verbs), "") << typed;
  EXPECT_EQ(did_you_mean("d_z", {"d_q", "d_k"}), "") << "nobody knows which";
}

TEST(DidYouMean, what_other_projects_call_mechanisms) {
  for (const auto& [theirs, ours] : {std::pair{"gdn", "gated_deltanet"},
                                     {"GDN", "gated_deltanet"},
                                     {"gated_delta", "gated_deltanet"},
                                     {"Gated-Delta-Rule", "gated_deltanet"},
                                     {"simple_gla", "mamba2"},
                                     {"sdpa", "softmax_attention"},
                                     {"flash_attention", "softmax_attention"},
                                     {"delta_rule", "deltanet"},
                                     {"deltnet", "deltanet"}})
    EXPECT_NE(std::string(unknown_mechanism(theirs).what()).find(text("(did you mean ", ours, "?)")), std::string::npos)
        << unknown_mechanism(theirs).what();
  for (const char* nobody : {"nothing", "rwkv7", "q"})
    EXPECT_STREQ(unknown_mechanism(nobody).what(), text("mechanism '", nobody, "' is not in this build").c_str());
}

/// What a case file calls a tensor is called so. Single letters are other things elsewhere, and only unknown names are
/// translated.
TEST(DidYouMean, tensors_of_all_rooms_are_called_what_they_are) {
  for (const Room* room : rooms())
    for (const auto& fields : {room->inputs(), room->outputs()})
      for (const RoomFacts::Ranked& ranked : fields) {
        const std::string name(ranked.field.name);
        if (name.size() == 1 && name != "q" && name != "o") continue;
        EXPECT_EQ(tensor_called(name), name);
        EXPECT_EQ(tensor_called("d_" + name), "d_" + name);
      }
}

}  // namespace
}  // namespace assay
