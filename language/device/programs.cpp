#include "language/device/programs.hpp"

#include "files/embedded.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/sha256.hpp"

namespace assay::language::device {
namespace {

/// The compiler has no standard library: its headers are empty, and oracles/multiword/blocks/device_std.hpp is in their
/// place.
constexpr const char* standard_headers[] = {"algorithm",   "array",       "bit",    "cmath",    "cstddef",
                                            "cstdint",     "cstring",     "limits", "optional", "stdexcept",
                                            "string_view", "type_traits", "utility"};

struct Files {
  std::vector<const char*> names, texts;
  std::string digest;

  Files() {
    Sha256 all;
    for (const EmbeddedText& file : embedded_device_code) {
      names.push_back(file.path.data()), texts.push_back(file.text);
      all.update(file.path).update(file.text);
    }
    for (const char* name : standard_headers) names.push_back(name), texts.push_back("");
    digest = all.hex();
  }
};
const Files& files() {
  static const Files all;
  return all;
}

std::string text_of(const std::string& code, const std::string& line) { return code + line + '\n'; }

}  // namespace

Programs::Programs(const Gpu& gpu, KeptTexts kept,
                   std::function<void(const std::string& what, const std::string& why)> refuses,
                   std::vector<std::string> options)
    : gpu_(gpu), kept_(std::move(kept)), refuses_(std::move(refuses)), options_(std::move(options)) {
  if (options_.empty()) options_ = options_of_same_bits(gpu), options_.emplace_back("--std=c++20");
}

void Programs::make(const std::string& code, const std::set<std::string>& lines, const std::string& what,
                    const std::function<void(std::size_t missing)>& says) {
  std::vector<std::string> missing;
  {
    const std::lock_guard lock(guard_);
    for (const std::string& line : lines)
      if (!known_.contains(text_of(code, line))) missing.push_back(line);
  }
  std::once_flag said;
  words::in_parallel(missing.size(), words::threads_or_all(0), [&](std::size_t i) {
    const Entered entered(gpu_);
    find(code, missing[i], what, [&] { std::call_once(said, [&] { says(missing.size()); }); });
  });
}

Program Programs::find(const std::string& code, const std::string& line, const std::string& what,
                       const std::function<void()>& says) {
  const std::string text = text_of(code, line);
  {
    const std::lock_guard lock(guard_);
    if (const auto it = known_.find(text); it != known_.end()) return it->second;
  }
  Program program;
  try {
    program = made_of<Program>(gpu_, kept_, {text, options_, files().names, files().texts, files().digest}, says,
                               [&](const std::string& binary) { return loaded(binary); });
  } catch (const TextFailure& failure) {
    program.why = failure.what();
    refuses_(what, program.why);
  }
  const std::lock_guard lock(guard_);
  return known_.emplace(text, program).first->second;
}

Program Programs::loaded(const std::string& binary) const {
  const Driver& d = gpu_.driver();
  Driver::Handle module = nullptr;
  gpu_.must(d.load_module(&module, binary.data()));
  Program program;
  gpu_.must(d.get_function(&program.run, module, "assay_run"));
  Address start = 0;
  std::size_t bytes = 0;
  gpu_.must(d.get_global(&start, &bytes, module, "assay_start"));
  Stream(gpu_).download(&program.start, start, sizeof program.start);
  constexpr int dynamic_shared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  if (program.start.shared > 0)
    gpu_.must(d.set_attribute(program.run, dynamic_shared, static_cast<int>(program.start.shared * sizeof(double))));
  return program;
}

}  // namespace assay::language::device
