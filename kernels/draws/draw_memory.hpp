#pragma once
// Memory of the device that draws run on: a GPU's, in the order of the calling thread's stream, or the CPU's.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include "kernels/cuda/device_array.hpp"
#include "kernels/draws/drawn.hpp"
#endif

namespace assay::draws {

/// Bytes, owned and shared by their copies.
class Bytes {
 public:
  Bytes() = default;
#if defined(__CUDACC__)
  explicit Bytes(std::size_t bytes) {
    void* p = nullptr;
    keep_pool();
    const cudaError_t status = bytes > 0 ? cudaMallocAsync(&p, bytes, cudaStreamPerThread) : cudaSuccess;
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // it is not the next call's
      throw NotDrawn(text("draws: the GPU has no ", bytes, " bytes left"));
    }
    cuda_check(status);
    data_ = std::shared_ptr<void>(p, [](void* q) {
      if (q != nullptr) cudaFreeAsync(q, cudaStreamPerThread);
    });
  }
  void set(int byte, std::size_t n) const {
    if (n > 0) cuda_check(cudaMemsetAsync(data(), byte, n, cudaStreamPerThread));
  }
  void from_host(const void* p, std::size_t n) const {
    if (n > 0) cuda_check(cudaMemcpyAsync(data(), p, n, cudaMemcpyHostToDevice, cudaStreamPerThread));
    if (n > 0) cuda_check(cudaStreamSynchronize(cudaStreamPerThread));
  }
  void to_host(void* p, std::size_t n) const {
    if (n > 0) cuda_check(cudaMemcpyAsync(p, data(), n, cudaMemcpyDeviceToHost, cudaStreamPerThread));
    cuda_check(cudaStreamSynchronize(cudaStreamPerThread));
  }
#else
  explicit Bytes(std::size_t bytes) : data_(::operator new(bytes), [](void* p) { ::operator delete(p); }) {}
  void set(int byte, std::size_t n) const { std::memset(data(), byte, n); }
  void from_host(const void* p, std::size_t n) const {
    if (n > 0) std::memcpy(data(), p, n);
  }
  void to_host(void* p, std::size_t n) const {
    if (n > 0) std::memcpy(p, data(), n);
  }
#endif
  void* data() const { return data_.get(); }
  const std::shared_ptr<void>& owner() const { return data_; }
  explicit Bytes(std::shared_ptr<void> owned) : data_(std::move(owned)) {}

 private:
#if defined(__CUDACC__)
  /// Keeps freed memory with this process: draws ask for the same sizes again and again.
  static void keep_pool() {
    static const bool kept = [] {
      cudaMemPool_t pool;
      std::uint64_t all = ~std::uint64_t{0};
      cuda_check(cudaDeviceGetDefaultMemPool(&pool, 0));
      cuda_check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
      return true;
    }();
    static_cast<void>(kept);
  }
#endif
  std::shared_ptr<void> data_;
};

class Memory {
 public:
  explicit Memory(std::size_t count) : bytes_(count * sizeof(double)), count_(count) {}
  /// The memory of numbers that several draws read at a time: uploaded once, and kept as long as one draw has them.
  static Memory of(const std::vector<double>& values) {
    static std::mutex guard;
    static std::map<const double*, std::weak_ptr<void>> present;
    if (values.empty()) return Memory(0);
    const std::lock_guard lock(guard);
    std::erase_if(present, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<void>& known = present[values.data()];
    if (std::shared_ptr<void> owner = known.lock()) return {Bytes(std::move(owner)), values.size()};
    Memory memory(values.size());
    memory.upload(values);
    known = memory.bytes_.owner();
    return memory;
  }
  double* data() const { return static_cast<double*>(bytes_.data()); }
  void fill_with_nan() const { bytes_.set(0xff, count_ * sizeof(double)); }
  void fill_with_zeros() const { bytes_.set(0, count_ * sizeof(double)); }
  void upload(const std::vector<double>& x) const {
    bytes_.from_host(x.data(), std::min(x.size(), count_) * sizeof(double));
  }
  std::vector<double> values() const {
    std::vector<double> x(count_);
    bytes_.to_host(x.data(), count_ * sizeof(double));
    return x;
  }

 private:
  Memory(Bytes bytes, std::size_t count) : bytes_(std::move(bytes)), count_(count) {}

  Bytes bytes_;
  std::size_t count_;
};

class Indices {
 public:
  explicit Indices(const std::vector<int>& x) : bytes_(x.size() * sizeof(int)) {
    bytes_.from_host(x.data(), x.size() * sizeof(int));
  }
  const int* data() const { return static_cast<const int*>(bytes_.data()); }

 private:
  Bytes bytes_;
};

#if defined(__CUDACC__)
/// The number of blocks of a launch: as many as fill the device twice.
inline int blocks_at_once() {
  static const int count = [] {
    int of_device = 0;
    cuda_check(cudaDeviceGetAttribute(&of_device, cudaDevAttrMultiProcessorCount, 0));
    return 2 * of_device;
  }();
  return count;
}
#endif

}  // namespace assay::draws
