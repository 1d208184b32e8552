#pragma once
// Programs that tests read: those of the language's first implementation, in Python, with the digests that it gave
// them.
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/core/room.hpp"
#include "proptests/core/places.hpp"
#include "reference/core/error.hpp"

namespace assay::language {

struct Sample {
  const char *name, *digest, *gradient_digest;
};
inline constexpr Sample samples[] = {
    {"deltanet", "60ae9d8c875d2dc83c08a96cfa243c23719f1229af522dd80e7e8e971502947d",
     "a992b8813f766ebd39275482be26f2e92192f07b4848e18a49dc90fc1d2db76f"},
    {"gated_deltanet", "9e6610b2a8d4137dbc7da590dfa54b765d1573ec4530ab6bc789f9158e81db6f",
     "90eb1c1ac8fd85e02352c9d4798d12e60bb479ec09c36bc736d635f4d06b73d1"},
    {"kda", "9aeb3f1cdf0c167723ef8d08bf9a152c695f92312e8c0ab69e300d37a7a7aba5",
     "aae2682e6368ecf515cee071da888c5498facfe35c4bec5d5aafad1c22d13acf"},
    {"mamba2", "42af4996b1fa90a005928c0741b165ace85f470df06ab207f0b4ef4ffef89011",
     "6aa2ee50e27dd72af22579d786da6426457af2b12c0d0f06485e86d1360dd95e"},
    {"gla", "d2462024f0d4d6c88f164ac5d3ce1e90611f73103ae914c89428c525d593b76c",
     "f5a8287d806a008e5ad3322eb8d19155d1dbddb27e228db99dab7acccb123942"},
    {"retnet", "0c35ced9868f6409d4d52cb450b0127fe017b62dcbe43830084599d8698fa9e1",
     "02ec78cbf6ac449920f4515d526cda4f291838401d43c6d9487c16720bb60d64"},
    {"mdn", "da2f36a933b48a0dbbc65fe05c38ed1a578e1006dfa483bbcfc8babf8704d2d8",
     "621004a2ef74236b17bdb3915449dff897407819404a71e6808e603ef7f7eaa0"},
    {"falcon1", "918bce2dc43ee746c3c31decb225e22dcee528c77c1fd97c5b558a0f27fff5b4",
     "e7f051af2cf737a04ac2402465a6e115f653ede42b6dc57bc4c033555adefd26"},
    {"rwkv7", "9bc0a215f27351f6e9fbec84251438739ae13fda92321391b0e6d4f675b4c4cb",
     "34cd35383792a0cd387661e65adc03082a7a3a30d8b9d7c9e5c3bc64713b9a82"},
    {"gated_delta_product", "0f8e8973d591fd2c30c292a6ef03a07d54f235fd65039655a15defd025e00dd7",
     "7c880d4b1d6a6847e511ae891e4aa18473da758fc976f54f670742fe228ec5fd"},
    {"forgetting_attention", "49195ab8ec002ac2f7ce09282e826c74be3326e9cb62b9d6c8aa55fcab65c86f",
     "2c210e9a9a6ebd5968110b511c3cf9e8aa38e2515ff4fd7c7fdcd65463470bc6"},
    {"sink_attention", "f7abf588570847c70c7446efd1ba1a3a14d28c31ddae281fa6376efbed08ddc4",
     "9d7773fd3bb7580df2105365464d913962e6857311bc4ff3f240e34d72e4c617"},
    {"deltanet-next_latent", "fc58cc9d4d4af296ef40d77abca44ed1f5616755b6b30a84ff7a25d43da95423",
     "6e7968cb9712a1869fa36e8bc5b67641d036e70ad29074b7ec2f2312f378f00a"},
    {"gated_deltanet-undecayed", "8fc01983614022a71357279f9c1017e6975ea2a21cb4d012b2143728273c1df5",
     "6df00e881c82fccc953d50e9fb7a7fbb817463015891649ef08208352beb53aa"},
    {"falcon1-live", "b83e71d337f1f50db0ad67bee24dffb7b5b795885e39b690b0e259a4e8b8ad54",
     "029f9eaebbff79bd9b046e9b4968615dd3d91c8b7a9a98d4b1ca34c1c3cc2be5"},
    {"falcon1-detach", "35d113ea98f3ece2d90b9cd4221dde8c4161619e6e5de15d08de66894731be8d",
     "af8325bb240731fa265fb17219075c7bd7d19c79c8644cb50b6f9331bf72d830"},
    {"falcon1-same_step", "006fcd45acee1f30f98846489cad42fe5a18e517341d35378139f5fa2d9dedb2",
     "21907dbf79ec7e7d29047421d13c98d0b88b17815a60f0bd8f52133ba069484d"},
    {"sink_attention-plain", "37c59f0dc9bf64ac0e24f8b3ca0c5a4dc13cfbc16b534d54706cf0e542e37117",
     "b9c8b1392157f08cd60c43ac95fa8a69215f44dd8682bff864b5161f23779974"},
};

inline std::string path_of(const std::string& name) {
  return source_dir() + "/proptests/language/programs/" + name + ".json";
}
/// A program of the library.
/// The room of a program, for as long as the tests run.
inline const Room& program_room(std::string_view path) {
  static std::vector<std::shared_ptr<const Room>> held;
  held.push_back(find_room(std::string(path)));
  require(held.back() != nullptr, path, ": no program");
  return *held.back();
}
inline std::string in_library(const std::string& name) { return source_dir() + "/mechanisms/json/" + name + ".json"; }
inline std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace assay::language
