#include "kernels/host/gated_delta.hpp"

namespace assay::tile {

ASSAY_EACH_SCALAR(ASSAY_GATED_DELTA, );

}  // namespace assay::tile
