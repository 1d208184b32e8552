#include "tools/run/plugin.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "files/descriptor.hpp"
#include "files/input_file.hpp"
#include "reference/core/error.hpp"
#include "reference/core/inputs.hpp"
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

/// Memory that a child and its parent share: a file without a name. Zeros at first.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t size) : file_(memfd_create("assay", MFD_CLOEXEC)), size_(size) {
    require(file_.get() >= 0 && ftruncate(file_.get(), static_cast<off_t>(size_)) == 0,
            "no memory to share with a plugin: ", std::strerror(errno));
    map();
  }
  /// Memory that another process has made.
  SharedMemory(int file, std::size_t size) : file_(dup(file)), size_(size) { map(); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { munmap(data_, size_); }
  int file() const { return file_.get(); }
  template <class T>
  T* at(std::size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::uint8_t*>(data_) + offset);
  }

 private:
  void map() {
    data_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }

  Descriptor file_;
  std::size_t size_;
  void* data_ = nullptr;
};

template <class Extents>
std::size_t count_of(const Extents& extents) {
  std::size_t n = 1;
  for (const auto extent : extents) n *= static_cast<std::size_t>(extent);
  return n;
}

/// The child's last words: a sentence for an end that was not of its own making.
struct Message {
  static constexpr std::size_t room = 1000;
  std::array<char, room> sentence;
  bool returned;  ///< run() has; a process can end before, with exit code 0

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
    return excerpt(words, room);
  }
};

/// The elements of an input or an output.
template <class Tensor>
std::size_t numbers_of(const Tensor& tensor) {
  return count_of(std::span(tensor.extents, static_cast<std::size_t>(tensor.rank)));
}

std::size_t room_of(const assay_output& output) { return numbers_of(output) * sizeof(double); }
std::size_t size_of(const assay_input& input) {
  return numbers_of(input) * dtype_sizes[static_cast<std::size_t>(input.dtype - 1)];
}

/// Runs a plugin on a device: inputs are copied there, outputs back to where `problem` has them.
const char* run_on_device(const assay_plugin_description& plugin, const assay_problem& problem,
                          const std::string& driver) {
  CudaDriver device(driver);
  std::vector<assay_input> inputs(problem.inputs, problem.inputs + problem.input_count);
  for (assay_input& input : inputs) {
    const std::size_t size = size_of(input) + 2 * padding;
    auto* there = static_cast<std::uint8_t*>(device.allocate(size));
    device.copy_to_device(there, static_cast<const std::uint8_t*>(input.data) - padding, size);
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
  // As they are now: PluginProcess::run() compares.
  for (std::size_t i = 0; i < inputs.size(); ++i)  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    device.copy_to_host(const_cast<void*>(problem.inputs[i].data), inputs[i].data, size_of(inputs[i]));
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
    message.returned = true;
    return error == nullptr ? 0 : refuse(text("says: ", error));
  } catch (const InputError& error) {
    return refuse(text("asks for memory on a device: ", error.what()));
  }
}

/// Where what is shared lies: a message, what the plugin sees of its outputs, and every tensor with its padding.
class Layout {
 public:
  explicit Layout(const PluginCall& call)
      : outputs_(sizeof(Message)), size_(outputs_ + call.outputs.size() * sizeof(assay_output)) {
    for (const auto& [name, tensor] : call.inputs) inputs_at_.push_back(place(tensor.bytes.size()));
    for (const auto& [name, shape] : call.outputs) outputs_at_.push_back(place(count_of(shape) * sizeof(double)));
  }
  std::size_t size() const { return size_; }
  std::size_t outputs() const { return outputs_; }
  std::size_t input(std::size_t i) const { return inputs_at_[i]; }
  std::size_t output(std::size_t i) const { return outputs_at_[i]; }

 private:
  /// The place of so many bytes, without the padding around them. The padding keeps them at the beginning of a page.
  std::size_t place(std::size_t bytes) {
    const std::size_t start = (size_ + padding - 1) / padding * padding;
    size_ = start + bytes + 2 * padding;
    return start + padding;
  }

  std::size_t outputs_, size_;
  std::vector<std::size_t> inputs_at_, outputs_at_;
};

/// The task of the child in a call; the numbers are in the shared memory.
std::string task_of(const PluginCall& call, const Layout& layout) {
  nlohmann::json params = nlohmann::json::array(), inputs = params, outputs = params;
  for (const auto& [name, value] : call.params) params.push_back({name, word_of(value)});
  for (const auto& [name, tensor] : call.inputs)
    inputs.push_back({{"name", name},
                      {"dtype", code_of(tensor.dtype)},
                      {"shape", tensor.shape},
                      {"at", layout.input(inputs.size())}});
  for (const auto& [name, shape] : call.outputs)
    outputs.push_back({{"name", name}, {"shape", shape}, {"at", layout.output(outputs.size())}});
  const nlohmann::json task = {{"mechanism", call.mechanism},
                               {"params", params},
                               {"inputs", inputs},
                               {"outputs", outputs},
                               {"dtype", code_of(call.dtype)},
                               {"driver", call.driver},
                               {"size", layout.size()},
                               {"outputs_at", layout.outputs()}};
  return task.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// In the child: calls the plugin as the task says.
int serve(const std::string& library, const std::string& task, int file) {
  const nlohmann::json call = nlohmann::json::parse(task);
  // Stays: threads that the plugin has left behind may still write there.
  static const SharedMemory shared(file, call.at("size").get<std::size_t>());
  // Names and extents have to stay where they are while the plugin runs.
  const auto mechanism = call.at("mechanism").get<std::string>();
  const auto settings = call.at("params").get<std::vector<std::pair<std::string, std::string>>>();
  std::vector<assay_param> params;
  for (const auto& [name, value] : settings) params.push_back({name.c_str(), value.c_str()});
  std::vector<std::string> names;
  std::vector<std::vector<std::int64_t>> extents;
  for (const char* key : {"inputs", "outputs"})
    for (const auto& tensor : call.at(key))
      names.push_back(tensor.at("name")), extents.push_back(tensor.at("shape").get<std::vector<std::int64_t>>());
  std::size_t n = 0;
  std::vector<assay_input> inputs;
  for (const auto& tensor : call.at("inputs")) {
    inputs.push_back({names[n].c_str(), extents[n].data(), shared.at<std::uint8_t>(tensor.at("at")),
                      static_cast<std::int32_t>(extents[n].size()), tensor.at("dtype").get<std::int32_t>()});
    ++n;
  }
  auto* const outputs = shared.at<assay_output>(call.at("outputs_at"));
  const std::size_t first = n;
  for (const auto& tensor : call.at("outputs")) {
    outputs[n - first] = {names[n].c_str(), extents[n].data(), shared.at<std::uint8_t>(tensor.at("at")),
                          static_cast<std::int32_t>(extents[n].size()), call.at("dtype").get<std::int32_t>()};
    ++n;
  }
  const assay_problem problem = {mechanism.c_str(), params.data(), inputs.data(), outputs,
                                 params.size(),     inputs.size(), n - first};
  return call_plugin(library, problem, call.at("driver"), *shared.at<Message>(0));
}

/// The tensors that the plugin has left in the shared memory.
Safetensors answer_in(const SharedMemory& shared, const PluginCall& call, const Layout& layout,
                      const std::string& path) {
  Safetensors answer;
  const auto* outputs = shared.at<assay_output>(layout.outputs());
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const auto& [name, shape] = call.outputs[i];
    const std::int32_t dtype = outputs[i].dtype;
    require(dtype >= 1 && dtype <= static_cast<std::int32_t>(dtypes.size()), path, ": tensor ", name, ": dtype ", dtype,
            " is none of assay_plugin.h");
    const auto at = static_cast<std::size_t>(dtype - 1);
    const auto *bytes = shared.at<std::uint8_t>(layout.output(i)), *start = bytes - padding,
               *end = bytes + count_of(shape) * sizeof(double);
    const auto untouched = [](std::uint8_t byte) { return byte == 0xff; };
    require(std::all_of(start, bytes, untouched), path, ": tensor ", name, ": written in front of its memory");
    require(std::all_of(end, end + padding, untouched), path, ": tensor ", name, ": written behind its memory");
    answer.tensors[name] = {dtypes[at], shape, {bytes, bytes + count_of(shape) * dtype_sizes[at]}};
  }
  return answer;
}

/// A path that can be loaded: of a name alone the loader looks elsewhere.
std::string library_at(const std::string& path) {
  require(!InputFile(path).is_pipe(), path, ": cannot be read: a pipe is no library");
  return std::filesystem::absolute(path).string();
}

}  // namespace

PluginProcess::PluginProcess(std::string path, const std::filesystem::path& folder)
    : path_(std::move(path)),
      keeper_([library = library_at(path_)](const std::string& task, int file) { return serve(library, task, file); },
              folder) {}

Safetensors PluginProcess::run(const PluginCall& call, std::chrono::duration<double> limit) {
  const Layout layout(call);
  const SharedMemory shared(layout.size());
  for (std::size_t i = 0; const auto& [name, tensor] : call.inputs) {
    auto* bytes = shared.at<std::uint8_t>(layout.input(i++));
    std::memset(bytes - padding, call.around, tensor.bytes.size() + 2 * padding);
    std::copy(tensor.bytes.begin(), tensor.bytes.end(), bytes);
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const std::size_t size = count_of(call.outputs[i].second) * sizeof(double);
    std::memset(shared.at<std::uint8_t>(layout.output(i)) - padding, 0xff, size + 2 * padding);
    shared.at<assay_output>(layout.outputs())[i].dtype = code_of(call.dtype);
  }
  const ChildEnd ended = keeper_.run(task_of(call, layout), shared.file(), limit);
  if (ended.interrupted != 0) std::raise(ended.interrupted);
  const std::string refusal = shared.at<Message>(0)->read();
  require(ended.passed(), path_, ": ", refusal.empty() || ended.signal != 0 ? ended.sentence() : refusal);
  require(shared.at<Message>(0)->returned, path_, ": ends the process in run(), which has to return");
  for (std::size_t i = 0; const auto& [name, tensor] : call.inputs)
    require(std::equal(tensor.bytes.begin(), tensor.bytes.end(), shared.at<std::uint8_t>(layout.input(i++))), path_,
            ": tensor ", name, ": the plugin has overwritten its input");
  return answer_in(shared, call, layout, path_);
}

Safetensors run_plugin(const std::string& path, const PluginCall& call, std::chrono::duration<double> limit) {
  return PluginProcess(path).run(call, limit);
}

}  // namespace assay
