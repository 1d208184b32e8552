#include "kernels/host/decayed_sums.hpp"

namespace assay::tile {

ASSAY_EACH_SCALAR(ASSAY_DECAYED_SUMS, );

}  // namespace assay::tile
