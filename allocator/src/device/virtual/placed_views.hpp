#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "device/virtual/device_model.hpp"
#include "device/virtual/memory.hpp"
#include "millrace/device/operation.hpp"

namespace millrace::simulation {

/** @brief What an operation touches, and where that is. */
using PlacedViews = std::vector<std::pair<Place, View>>;

/** @brief The range as the effect of an operation reaches it. @throws if it has been freed since */
[[nodiscard]] std::span<std::byte> reach(const Place& place, const View& view);

/** @brief Runs `use` with all views, of which those in device memory are open to it. */
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
