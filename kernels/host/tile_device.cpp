#include "kernels/host/tile_device.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <string_view>
#include <utility>

namespace assay::tile {
namespace {

thread_local TileDevice* of_thread = nullptr;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

}  // namespace

TileDevice* TileDevice::current() { return of_thread; }

OnDevice::OnDevice(TileDevice& device) : before_(std::exchange(of_thread, &device)) {}
OnDevice::~OnDevice() { of_thread = before_; }

TileDevice::Memory TileDevice::holding(const std::vector<double>& values) {
  Memory all = memory(values.size());
  upload(all, values.data(), values.size() * sizeof(double));
  return all;
}

std::string TileDevice::type_on_device(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  std::string text = status == 0 ? name.get() : type.name();
  replace_all(text, "assay::tile::HostBlock<double>", "assay::draws::DrawBlock");
  for (std::size_t i = 0; i < run_sizes.of.size(); ++i)
    replace_all(text, assay::text("Size{", ~static_cast<int>(i), '}'), assay::text("Size{", run_sizes.of[i], '}'));
  return text;
}

}  // namespace assay::tile
