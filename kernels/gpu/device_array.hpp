#pragma once
// Arrays on a GPU, for the run that this thread is in (kernels/gpu/launches.hpp).
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/arguments.hpp"
#include "kernels/gpu/tensors.hpp"
#include "reference/core/format.hpp"

namespace assay {

/// [heads][rows][cols] on the device, each element in the memory format of `format`: tf32 lies in memory as fp32. In a
/// pack the arrays that all sequences make at one place are one allocation, [heads][all rows][cols]: what reads a row
/// too many reads another sequence's.
class DeviceArray {
 public:
  /// All bits set, which is NaN in every format: what a kernel forgets to write cannot pass for a number.
  DeviceArray(Format format, int heads, int rows, int cols);
  /// Zeros.
  static DeviceArray zeros(Format format, int heads, int rows, int cols);
  /// Somebody else's numbers, which stay there.
  DeviceArray(Format format, int heads, int rows, int cols, const GpuTensor& of);
  /// `values` rounded to nearest. Throws InputError unless there are heads * rows * cols of them.
  DeviceArray(Format format, int heads, int rows, int cols, std::span<const double> values);

  void* data() const { return data_; }
  KeptTensor kept() const { return {{data_, format_, count(), beside_}, request_}; }
  int heads() const { return heads_; }
  int rows() const { return rows_; }
  int cols() const { return cols_; }
  /// Where its rows lie.
  tile::HeadRows lie() const;
  std::size_t count() const;
  std::size_t bytes() const;

  /// As an argument of a tile program, whatever its executor's types.
  struct In {
    const DeviceArray& array;
    bool wanted = true;
    template <class To>
    operator To() const {  // NOLINT(google-explicit-constructor): that is what it is for
      return {array.lie(), wanted ? array.data() : nullptr, array.cols()};
    }
  };
  struct RowIn {
    const DeviceArray& array;
    bool logs;
    template <class To>
    operator To() const {  // NOLINT(google-explicit-constructor)
      return {array.lie(), array.data(), logs};
    }
  };
  struct RowOut {
    const DeviceArray& array;
    template <class To>
    operator To() const {  // NOLINT(google-explicit-constructor)
      return {array.lie(), array.data()};
    }
  };
  In in() const { return {*this}; }
  RowIn row_in(bool logs = true) const { return {*this, logs}; }
  /// Not wanted: no address, and a program writes nothing.
  In out(bool wanted = true) { return {*this, wanted}; }
  RowOut row_out() { return {*this}; }

  /// Back on the host, exactly. Waits for the kernels before it. Ones where results stay on the GPU.
  std::vector<double> values() const;

 private:
  struct Allocation;
  /// f(bytes from the first of each head's on the device, from the first on the host, and how many) for what lies
  /// together.
  template <class F>
  void each_part(F f) const;

  Format format_;
  int heads_, rows_, cols_, group_rows_, beside_ = 1;
  std::size_t request_ = 0;
  void* data_ = nullptr;
  std::shared_ptr<double> memory_;  ///< of this and its neighbours in a pack
};

/// A map of `array` whose boxes are the panels of a tile of so many rows. In a pack it begins at the sequence's first
/// row and ends at its last: what a box holds of its neighbour's rows is filled with zeros. Throws DeviceError.
tile::MappedIn mapped(const DeviceArray& array, Format format, int tile_rows);

}  // namespace assay
