#include "tools/plugin.hpp"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <variant>

#include "reference/core/error.hpp"
#include "tools/child.hpp"
#include "tools/device_memory.hpp"
#include "tools/plugin/assay_plugin.h"

namespace assay {
namespace {

/// In the order of enum assay_dtype, from 1 on.
constexpr std::array<const char*, 6> dtypes = {"F64", "F32", "BF16", "F16", "F8_E4M3", "F8_E5M2"};
constexpr std::array<std::size_t, 6> dtype_sizes = {8, 4, 2, 2, 1, 1};

std::int32_t code_of(const std::string& dtype) {
  const auto* const it = std::find(dtypes.begin(), dtypes.end(), dtype);
  require(it != dtypes.end(), "no plugin takes dtype ", dtype);
  return static_cast<std::int32_t>(it - dtypes.begin()) + 1;
}

/// Bytes in front of and behind every tensor: what a kernel reads there must not matter, and it must not write there.
constexpr std::size_t padding = std::size_t{1} << 16;

/// Memory that a child writes and its parent reads; every byte 0xff at first.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t size) : size_(std::max<std::size_t>(size, 1)) {
    data_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    std::memset(data_, 0xff, size_);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory(SharedMemory&&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory() { munmap(data_, size_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  std::size_t size_;
  void* data_;
};

std::size_t count_of(const std::vector<int>& shape) {
  std::size_t n = 1;
  for (const int extent : shape) n *= static_cast<std::size_t>(extent);
  return n;
}

std::string text_of(const Param& param) {
  if (const bool* flag = std::get_if<bool>(&param)) return *flag ? "true" : "false";
  if (const long* number = std::get_if<long>(&param)) return text(*number);
  return std::get<std::string>(param);
}

/// What the child says if it does not come to an end of its own making, and what it says then.
struct Message {
  static constexpr std::size_t room = 1000;
  std::array<char, room> sentence;

  void say(const std::string& words) {
    const std::size_t n = std::min(words.size(), room - 1);
    std::copy_n(words.begin(), n, sentence.begin());
    sentence[n] = '\0';
  }
  /// Without control characters; a plugin could write here, too.
  std::string read() const {
    std::string words;
    for (const char c : sentence) {
      if (c == '\0') break;
      words += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? ' ' : c;
    }
    return words;
  }
};

std::size_t count_of(const std::int64_t* extents, std::int32_t rank) {
  std::size_t n = 1;
  for (std::int32_t i = 0; i < rank; ++i) n *= static_cast<std::size_t>(extents[i]);
  return n;
}

std::size_t room_of(const assay_output& output) { return count_of(output.extents, output.rank) * sizeof(double); }

/// Runs a plugin on a device: inputs are copied there, outputs back to where `problem` has them.
const char* run_on_device(const assay_plugin_description& plugin, const assay_problem& problem,
                          const std::string& driver) {
  CudaDriver device(driver);
  std::vector<assay_input> inputs(problem.inputs, problem.inputs + problem.input_count);
  for (assay_input& input : inputs) {
    const std::size_t size =
        count_of(input.extents, input.rank) * dtype_sizes[static_cast<std::size_t>(input.dtype - 1)];
    auto* there = static_cast<std::uint8_t*>(device.allocate(size + 2 * padding));
    device.copy_to_device(there, static_cast<const std::uint8_t*>(input.data) - padding, size + 2 * padding);
    input.data = there + padding;
  }
  std::vector<assay_output> outputs(problem.outputs, problem.outputs + problem.output_count);
  for (assay_output& output : outputs) output.data = device.allocate(room_of(output));
  assay_problem there = problem;
  there.inputs = inputs.data(), there.outputs = outputs.data();
  const char* error = plugin.run(&there);
  if (error != nullptr) return error;
  device.synchronize();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    device.copy_to_host(problem.outputs[i].data, outputs[i].data, room_of(problem.outputs[i]));
    problem.outputs[i].dtype = outputs[i].dtype;
  }
  return nullptr;
}

/// In the child: 0, or 1 with a message.
int call_plugin(const std::string& path, const assay_problem& problem, const std::string& driver, Message& message) {
  const auto refuse = [&](const std::string& words) {
    message.say(words);
    return 1;
  };
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return refuse(text("cannot be loaded: ", dlerror()));
  using Entry = decltype(&assay_plugin);
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "assay_plugin"));
  if (entry == nullptr) return refuse("exports no assay_plugin (tools/plugin/assay_plugin.h)");
  const assay_plugin_description* description = entry();
  if (description == nullptr) return refuse("assay_plugin() returned null");
  if (description->version < 1 || description->version > ASSAY_PLUGIN_VERSION)
    return refuse(
        text("has version ", description->version, " of assay_plugin.h, this program has ", ASSAY_PLUGIN_VERSION));
  if (description->run == nullptr) return refuse("has no run()");
  const std::uint32_t memory = description->version == 1 ? std::uint32_t{ASSAY_HOST_MEMORY} : description->memory;
  if (memory > ASSAY_DEVICE_MEMORY) return refuse(text("asks for memory ", memory, ", which assay_plugin.h has not"));
  try {
    const char* error =
        memory == ASSAY_DEVICE_MEMORY ? run_on_device(*description, problem, driver) : description->run(&problem);
    return error == nullptr ? 0 : refuse(text("says: ", error));
  } catch (const InputError& error) {
    return refuse(text("asks for memory on a device: ", error.what()));
  }
}

}  // namespace

Safetensors run_plugin(const std::string& path, const PluginCall& call, std::chrono::duration<double> limit) {
  require(std::filesystem::is_regular_file(path), path, ": cannot be read");
  // Names, extents and values have to stay where they are while the plugin runs.
  std::vector<std::vector<std::int64_t>> extents;
  extents.reserve(call.inputs.size() + call.outputs.size());
  const auto extents_of = [&](const std::vector<int>& shape) {
    return extents.emplace_back(shape.begin(), shape.end()).data();
  };
  std::vector<std::pair<std::string, std::string>> settings;
  for (const auto& [name, value] : call.params) settings.emplace_back(name, text_of(value));
  std::vector<assay_param> params;
  for (const auto& [name, value] : settings) params.push_back({name.c_str(), value.c_str()});
  std::vector<assay_input> inputs;
  std::vector<std::vector<std::uint8_t>> padded;
  for (const auto& [name, tensor] : call.inputs) {
    std::vector<std::uint8_t>& bytes = padded.emplace_back(tensor.bytes.size() + 2 * padding, call.around);
    std::copy(tensor.bytes.begin(), tensor.bytes.end(), bytes.begin() + padding);
    inputs.push_back({name.c_str(), extents_of(tensor.shape), bytes.data() + padding,
                      static_cast<std::int32_t>(tensor.shape.size()), code_of(tensor.dtype)});
  }
  const SharedMemory shared_message(sizeof(Message)), shared_outputs(call.outputs.size() * sizeof(assay_output));
  std::vector<std::unique_ptr<SharedMemory>> data;
  auto* outputs = shared_outputs.as<assay_output>();
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const auto& [name, shape] = call.outputs[i];
    data.push_back(std::make_unique<SharedMemory>(count_of(shape) * sizeof(double) + 2 * padding));
    outputs[i] = {name.c_str(), extents_of(shape), data.back()->as<std::uint8_t>() + padding,
                  static_cast<std::int32_t>(shape.size()), code_of(call.dtype)};
  }
  auto& message = *shared_message.as<Message>();
  message.say("");
  const assay_problem problem = {call.mechanism.c_str(), params.data(), inputs.data(),      outputs,
                                 params.size(),          inputs.size(), call.outputs.size()};
  const std::string library = std::filesystem::absolute(path).string();  // a name alone is looked for elsewhere
  const ChildEnd ended = run_child([&] { return call_plugin(library, problem, call.driver, message); }, limit);
  if (ended.interrupted != 0) std::raise(ended.interrupted);
  const std::string refusal = message.read();
  require(ended.passed(), path, ": ", refusal.empty() || ended.signal != 0 ? ended.sentence() : refusal);

  Safetensors answer;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const auto& [name, shape] = call.outputs[i];
    const std::int32_t dtype = outputs[i].dtype;
    require(dtype >= 1 && dtype <= static_cast<std::int32_t>(dtypes.size()), path, ": tensor ", name, ": dtype ", dtype,
            " is none of assay_plugin.h");
    const auto at = static_cast<std::size_t>(dtype - 1);
    const auto *start = data[i]->as<std::uint8_t>(), *bytes = start + padding,
               *end = bytes + count_of(shape) * sizeof(double);
    const auto untouched = [](std::uint8_t byte) { return byte == 0xff; };
    require(std::all_of(start, bytes, untouched), path, ": tensor ", name, ": written in front of its memory");
    require(std::all_of(end, end + padding, untouched), path, ": tensor ", name, ": written behind its memory");
    answer.tensors[name] = {dtypes[at], shape, {bytes, bytes + count_of(shape) * dtype_sizes[at]}};
  }
  return answer;
}

}  // namespace assay
