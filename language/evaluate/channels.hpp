#pragma once
#include "language/evaluate/joint.hpp"

namespace assay::language {

/// Whether the step maps column c of the joint's one state, rows along another axis, to a_c x + b_c u (w . x) and what
/// is given, with vectors u and w that all columns share. Then `channels` is the block that makes a, b [columns] and
/// u, w [rows] of the body's values; without a second term a alone. docs/error-analysis.md, section 8.4.
bool has_channels(const Block& body, Joint& joint);

}  // namespace assay::language
