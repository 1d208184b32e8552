#include "proptests/core/places.hpp"

namespace assay {

std::string source_dir() { return ASSAY_SOURCE_DIR; }
std::string plugin_built(const std::string& name) { return ASSAY_PLUGINS "/libplugin_" + name + ".so"; }
std::string compiler() { return ASSAY_COMPILER; }

}  // namespace assay
