// CUDA's run-time compiler on the host, as far as language/device calls it: tests load it in that one's place. A binary
// is the path of a library.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

using Handle = void*;

struct Source {
  std::string text, library, headers;
};

/// Where libraries are while the process lives.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("assay_stub_" + std::to_string(getpid()));
  std::atomic<int> libraries = 0;

  Folder() { std::filesystem::create_directories(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

Folder& folder() {
  static Folder one;
  return one;
}
std::string next_library() {
  return (folder().path / ("text" + std::to_string(folder().libraries++) + ".so")).string();
}

/// Where files are that a text includes, but those of the standard library, which a host has.
std::string headers_in(int count, const char* const* texts, const char* const* names) {
  static const std::string path = [&] {
    const std::filesystem::path all = folder().path / "headers";
    for (int i = 0; i < count; ++i) {
      const std::filesystem::path file = all / names[i];
      if (std::string(names[i]).find('/') == std::string::npos) continue;
      std::filesystem::create_directories(file.parent_path());
      std::ofstream(file) << texts[i];
    }
    return all.string();
  }();
  return path;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's
extern "C" {
// Set by tests: random numbers do not know their token.
bool stub_breaks = false;

int nvrtcVersion(int* major, int* minor) { return *major = *minor = 0; }
int nvrtcCreateProgram(Handle* program, const char* text, const char*, int count, const char* const* texts,
                       const char* const* names) {
  *program = new Source{text, next_library(), count == 0 ? "" : headers_in(count, texts, names)};
  return 0;
}
int nvrtcDestroyProgram(Handle* program) { return delete static_cast<Source*>(*program), 0; }
int nvrtcCompileProgram(Handle program, int options, const char* const* list) {
  const auto* const source = static_cast<const Source*>(program);
  const std::string file = source->library + ".cpp";
  std::string text = source->text;
  const std::string token = "(unsigned)t, ";
  for (std::size_t at = text.find(token); stub_breaks && at != std::string::npos; at = text.find(token, at))
    text.replace(at, token.size(), "0, ");
  std::ofstream(file) << text;
  std::string command = "\"" STUB_COMPILER "\" -std=c++20 -O0 -w -ffp-contract=off -shared -fPIC";
  for (int i = 0; i < options; ++i)
    if (std::string(list[i]).starts_with("-D")) command += std::string(" ") + list[i];
  if (!source->headers.empty()) command += " -I\"" + source->headers + "\"";
  return std::system((command + " -o \"" + source->library + "\" \"" + file + "\"").c_str()) == 0 ? 0 : 1;
}
int nvrtcGetCUBINSize(Handle program, std::size_t* bytes) {
  return *bytes = static_cast<const Source*>(program)->library.size() + 1, 0;
}
int nvrtcGetCUBIN(Handle program, char* bytes) {
  const std::string& library = static_cast<const Source*>(program)->library;
  return std::memcpy(bytes, library.c_str(), library.size() + 1), 0;
}
int nvrtcGetProgramLogSize(Handle, std::size_t* bytes) { return *bytes = 1, 0; }
int nvrtcGetProgramLog(Handle, char* text) { return *text = 0; }
}
// NOLINTEND(readability-identifier-naming)
