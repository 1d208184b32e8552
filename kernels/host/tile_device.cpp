#include "kernels/host/tile_device.hpp"

#include <string_view>
#include <utility>

#include "kernels/core/type_name.hpp"

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
  std::string text = type_name(type);
  replace_all(text, "assay::tile::HostBlock<double>", "assay::draws::DrawBlock");
  for (std::size_t i = 0; i < run_sizes.of.size(); ++i)
    replace_all(text, assay::text("Size{", ~static_cast<int>(i), '}'), assay::text("Size{", run_sizes.of[i], '}'));
  return text;
}

}  // namespace assay::tile
