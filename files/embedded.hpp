#pragma once
// Files that the binary carries with it; the build writes the lists of them (embed.cmake).
#include <span>
#include <string_view>

namespace assay {

/// A file of the source tree, or a part of one that the next entry follows.
struct EmbeddedText {
  std::string_view path;
  const char* text;
  /// The first of its folders.
  constexpr std::string_view folder() const { return path.substr(0, path.find('/')); }
  /// Without folders and ending.
  constexpr std::string_view name() const {
    const std::string_view file = path.substr(path.rfind('/') + 1);
    return file.substr(0, file.rfind('.'));
  }
};
/// The programs of mechanisms/ and arguments/programs/, and tables of the judge and of suites; the rows of
/// mechanisms/identities; the code that draws are compiled from for a device (kernels/draws/on_device.hpp).
extern const std::span<const EmbeddedText> embedded_programs, embedded_rows, embedded_device_code;

}  // namespace assay
