#pragma once
// Where tests find files: the only unit that knows the folders of this checkout and build.
#include <string>

namespace assay {

/// The root of the checkout.
std::string source_dir();
/// A plugin that the build has made for tests, by the name of its source.
std::string plugin_built(const std::string& name);
/// The compiler that has made the build.
std::string compiler();

}  // namespace assay
