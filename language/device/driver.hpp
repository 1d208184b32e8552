#pragma once
// CUDA's driver and its run-time compiler, from the machine's libraries at first use: nothing of CUDA is needed to
// build, and a machine without them has no device.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace assay::language::device {

/// The functions of libcuda and libnvrtc that are called here. Types as their headers have them.
struct Driver {
  using Handle = void*;
  using Address = unsigned long long;
  using Status = int;

  Status (*init)(unsigned flags);
  Status (*device_get)(int* device, int ordinal);
  Status (*device_attribute)(int* value, int attribute, int device);
  Status (*device_name)(char* name, int size, int device);
  Status (*retain_context)(Handle* context, int device);
  Status (*push_context)(Handle context);
  Status (*pop_context)(Handle* context);
  Status (*error_text)(Status status, const char** text);
  Status (*load_module)(Handle* module, const void* image);
  Status (*get_function)(Handle* function, Handle module, const char* name);
  Status (*get_global)(Address* address, std::size_t* bytes, Handle module, const char* name);
  Status (*set_attribute)(Handle function, int attribute, int value);
  Status (*memory_info)(std::size_t* free, std::size_t* total);
  Status (*default_pool)(Handle* pool, int device);
  Status (*set_pool)(Handle pool, int attribute, void* value);
  Status (*trim_pool)(Handle pool, std::size_t kept);
  Status (*allocate)(Address* address, std::size_t bytes, Handle stream);
  Status (*release)(Address address, Handle stream);
  Status (*to_device)(Address to, const void* from, std::size_t bytes, Handle stream);
  Status (*to_host)(void* to, Address from, std::size_t bytes, Handle stream);
  Status (*on_device)(Address to, Address from, std::size_t bytes, Handle stream);
  Status (*fill)(Address to, unsigned char value, std::size_t bytes, Handle stream);
  Status (*create_stream)(Handle* stream, unsigned flags);
  Status (*destroy_stream)(Handle stream);
  Status (*synchronise)(Handle stream);
  Status (*create_event)(Handle* event, unsigned flags);
  Status (*destroy_event)(Handle event);
  Status (*record)(Handle event, Handle stream);
  Status (*await_event)(Handle event);
  Status (*milliseconds)(float* between, Handle begin, Handle end);
  Status (*version)(int* driver);
  Status (*launch)(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream, void** arguments,
                   void** extra);
  /// Null in drivers before 12.
  Status (*encode_tensor_map)(void* map, int type, std::uint32_t rank, void* data, const std::uint64_t* extents,
                              const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* unit,
                              int interleave, int swizzle, int promotion, int fill);

  Status (*create_program)(Handle* program, const char* source, const char* name, int headers,
                           const char* const* sources, const char* const* names);
  Status (*destroy_program)(Handle* program);
  Status (*compile)(Handle program, int options, const char* const* list);
  Status (*binary_size)(Handle program, std::size_t* bytes);
  Status (*binary)(Handle program, char* bytes);
  Status (*log_size)(Handle program, std::size_t* bytes);
  Status (*log)(Handle program, char* text);
  Status (*compiler_version)(int* major, int* minor);

  /// Both libraries, loaded once; null where one is missing. `why`: a clause that says which.
  static const Driver* find(std::string& why);
};

}  // namespace assay::language::device
