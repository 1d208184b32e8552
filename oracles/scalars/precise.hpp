#pragma once
// The exact oracle's scalars: binary floating point of about 50, 100 and 200 digits, by MPFR on the stack.
// Expression templates are off: `auto` stays a value.
#include <boost/multiprecision/mpfr.hpp>

namespace assay {

template <unsigned Digits>
using Precise = boost::multiprecision::number<
    boost::multiprecision::mpfr_float_backend<Digits, boost::multiprecision::allocate_stack>,
    boost::multiprecision::et_off>;
using Mp50 = Precise<50>;
using Mp100 = Precise<100>;
using Mp200 = Precise<200>;

}  // namespace assay
