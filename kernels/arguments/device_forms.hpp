#pragma once
// Which tile programs with arguments have launches on a device, and how wide their heads may be there: for pages, which
// know no GPU. proptests/arguments/tile_programs.cpp holds the launches against it.
#include <string_view>

namespace assay {

struct DeviceForm {
  std::string_view mechanism, form;
  /// Channels of keys and values in bf16, any multiple of 8 up to so many, with gradients and without.
  int widest, widest_forward;
};
inline constexpr DeviceForm device_forms[] = {
    {"softmax_attention", "tiled", 256, 576}, {"softmax_attention", "split_decode", 0, 576},
    {"parallax", "tiled", 256, 256},          {"parallax", "split_decode", 0, 256},
    {"deltanet", "chunkwise", 256, 256},      {"gated_deltanet", "chunkwise", 256, 256},
    {"comba", "chunkwise", 256, 256},         {"linear_attention", "chunkwise", 256, 256},
    {"retnet", "chunkwise", 256, 256},        {"mamba2", "chunkwise", 256, 256},
    {"gla", "chunkwise", 256, 256},           {"kda", "chunkwise", 256, 256}};

}  // namespace assay
