#pragma once
// Most attention kernels take a scale s where this project's rooms have a bandwidth h: weights exp(s q.k), s = 1/h.
#include "oracles/core/room.hpp"

namespace assay {

/// Replaces `scale` in a room that has a bandwidth and no scale by bandwidth = 1 / scale, in decimals: exactly, where
/// 400 digits hold it. Throws Refusal (DOMAIN) if both are there, or if the scale is no positive number.
void take_scale(const Room& room, Params& params);

}  // namespace assay
