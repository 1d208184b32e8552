#pragma once
// A device that runs what is planned for the CPU (host_device.hpp) to its bits: draws on a GPU
// (kernels/draws/gpu_draws.hpp).
#include <cstddef>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include "kernels/draws/tile_launch.hpp"
#include "reference/core/error.hpp"

namespace assay {

/// A device does not take that problem or contract: the CPU does.
struct NotDrawn : InputError {
  using InputError::InputError;
};

namespace tile {

/// Its functions may throw NotDrawn; all that is asked for is done in the order of the calls.
class TileDevice {
 public:
  /// Doubles that only the device reads.
  using Memory = std::shared_ptr<double>;

  TileDevice() = default;
  TileDevice(const TileDevice&) = delete;
  TileDevice& operator=(const TileDevice&) = delete;
  virtual ~TileDevice() = default;

  virtual Memory memory(std::size_t numbers) = 0;
  /// That of values which stay where they are while they are in use, and which nobody writes.
  virtual Memory memory_of(const std::vector<double>& values) = 0;
  virtual void upload(const Memory& to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const Memory& from, std::size_t bytes) = 0;
  /// `program`: the line of code that kernels/draws/on_device.hpp ends with.
  virtual void launch(const std::string& program, const draws::TileLaunch& launch, const void* arguments,
                      std::size_t bytes) = 0;

  /// A number for each.
  Memory holding(const std::vector<double>& values);
  /// Calls f(i) for each i < n.
  template <class F>
  void each(std::size_t n, const F& f) {
    draws::TileLaunch turns;
    turns.elements = n;
    launch("ASSAY_EACH(" + type_on_device(typeid(F)) + ")", turns, &f, sizeof f);
  }
  template <class Kernel>
  void run(const Policy& policy, int blocks, int of_head, int rows, const typename Kernel::Args& args) {
    draws::TileLaunch grid;
    grid.policy = draws::DrawPolicy(policy), grid.blocks = blocks, grid.of_head = of_head, grid.rows = rows;
    launch("ASSAY_TILE_PROGRAM(" + type_on_device(typeid(Kernel)) + ")", grid, &args, sizeof args);
  }

  /// The device of what this thread plans, or null: the CPU.
  static TileDevice* current();

 private:
  /// The type as a device's compiler is told it: its executor, and numbers for the names of sizes.
  static std::string type_on_device(const std::type_info& type);
};

/// What this thread plans is that device's until this ends.
class OnDevice {
 public:
  explicit OnDevice(TileDevice& device);
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice();

 private:
  TileDevice* before_;
};

}  // namespace tile
}  // namespace assay
