#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "device/virtual/device_model.hpp"
#include "device/virtual/memory.hpp"
#include "millrace/device/operation.hpp"

namespace millrace::simulation {

/** @brief The views of an operation, and where each of them is. */
using PlacedViews = std::vector<std::pair<Place, View>>;

/**
 * @brief Returns the view's bytes for the effect of an operation.
 * @throws std::runtime_error if the memory was freed meanwhile
 */
[[nodiscard]] std::span<std::byte> reach(const Place& place, const View& view);

/** @brief Calls `use` with all views. Views in device memory are accessible during the call. */
template <typename Use>
void with_access(const PlacedViews& views, Use use) {
  std::vector<std::span<std::byte>> all;
  std::vector<std::span<std::byte>> on_device;
  for (const auto& [place, view] : views) {
    all.push_back(reach(place, view));
    if (place.device != nullptr) on_device.push_back(all.back());
  }
  const KernelAccess access{on_device};
  use(all);
}

}  // namespace millrace::simulation
