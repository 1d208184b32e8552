#pragma once
// The text that a device's compiler is given for draws of forms with arguments: that of all others, and front and back
// ends.
#include "kernels/draws/on_device.hpp"
#if defined(__CUDACC__)
namespace std {
inline double sqrt(double x) { return ::sqrt(x); }
}  // namespace std
#endif
#include "kernels/frontends/gates.hpp"
#include "kernels/frontends/operands.hpp"
#include "kernels/frontends/rows.hpp"
