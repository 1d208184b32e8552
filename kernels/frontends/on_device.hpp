#pragma once
// What follows kernels/draws/on_device.hpp in the text of draws of forms with arguments: front and back ends.
#define ASSAY_HOST_FUNCTIONS
#if defined(__CUDACC__)
namespace std {
inline double sqrt(double x) { return ::sqrt(x); }
}  // namespace std
#endif
#include "kernels/frontends/gates.hpp"
#include "kernels/frontends/operands.hpp"
#include "kernels/frontends/rows.hpp"
