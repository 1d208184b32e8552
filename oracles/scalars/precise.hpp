#pragma once
// The exact oracle's scalars: binary floating point of 168, 335 and 667 bits.
// Expression templates are off: they gain nothing for cpp_bin_float, and `auto` stays a value.
#include <boost/multiprecision/cpp_bin_float.hpp>

namespace assay {

using Mp50 = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<50>, boost::multiprecision::et_off>;
using Mp100 = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<100>, boost::multiprecision::et_off>;
using Mp200 = boost::multiprecision::number<boost::multiprecision::cpp_bin_float<200>, boost::multiprecision::et_off>;

}  // namespace assay
