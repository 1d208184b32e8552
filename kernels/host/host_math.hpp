#pragma once
// Inner loops of the CPU executor, compiled once for each instruction set: the same bits on all of them.
namespace assay::tile {

/// c[j] += sum_{k < depth} a[k] b[k * cols + j], k ascending.
void multiply_add(double* c, const double* a, const double* b, int depth, int cols);
void multiply_add(long double* c, const long double* a, const long double* b, int depth, int cols);

}  // namespace assay::tile
