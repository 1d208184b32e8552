#include "proptests/core/generators.hpp"

namespace assay {

rc::Gen<LawCase> law_cases(const Room& room, const KernelForm& form) {
  return rc::gen::exec([&room, &form] {
    LawCase c;
    c.tile = *rc::gen::inRange(0, static_cast<int>(form.tiles.size()));
    c.spec.mechanism = std::string(room.name);
    // Tiles are 16, 32 and 64 long: 1, one less, equal, one more, and a few tiles with a remainder.
    c.spec.shape.seq_len = *rc::gen::element(1, 2, 15, 16, 17, 31, 32, 33, 47, 49, 63, 64, 65, 70);
    c.spec.shape.key_dim = *rc::gen::element(1, 2, 5, 8, 16);
    c.spec.shape.value_dim = *rc::gen::element(1, 3, 8, 16);
    c.spec.shape.shared_heads = *rc::gen::element(1, 2);
    c.spec.shape.heads = c.spec.shape.shared_heads * *rc::gen::element(1, 2, 3);
    c.spec.style = *rc::gen::elementOf(std::vector<Style>(std::begin(all_styles), std::end(all_styles)));
    c.spec.precision =
        *rc::gen::elementOf(std::vector<Format>(std::begin(kernel_precisions), std::end(kernel_precisions)));
    c.spec.seed = *rc::gen::inRange<std::uint64_t>(0, 1u << 20);
    c.spec.params = *rc::gen::elementOf(room.variants());
    for (const RoomFacts::Ranked& input : room.inputs())  // what the room works out may be given, in place of a setting
      if (input.field.missing == Field::Missing::worked_out && *rc::gen::arbitrary<bool>())
        c.spec.params = room.variants().front(), c.spec.with = {{std::string(input.field.name), ""}};
    if (form.iterative) {  // each step is a pass over the keys, and there are as many as dimensions or more
      c.spec.shape.heads = std::max(c.spec.shape.shared_heads, std::min(c.spec.shape.heads, 2));
      // Few steps on eight-bit operands leave an error that is not small: draws do not tell how large it gets.
      if (info(c.spec.precision).bits == 8) c.spec.precision = Format::fp16;
      c.spec.shape.seq_len = std::min(c.spec.shape.seq_len, *rc::gen::element(17, 33));
      c.spec.shape.key_dim = std::min(c.spec.shape.key_dim, 8);
    }
    if (const auto blocks = c.spec.params.find("blocks"); blocks != c.spec.params.end()) {
      const int count = static_cast<int>(std::get<long>(blocks->second));
      c.spec.shape.key_dim = (c.spec.shape.key_dim + count - 1) / count * count;  // they are equally large
    }
    if (!groups_heads(room.inputs())) c.spec.shape.shared_heads = 0;
    if (form.name == "split_decode")
      c.spec.shape.query_len = std::min(*rc::gen::element(1, 2, 4), c.spec.shape.seq_len);
    return c;
  });
}

}  // namespace assay
