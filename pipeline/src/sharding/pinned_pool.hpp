#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "millrace/device/stream.hpp"

namespace millrace::sharding {

/** @brief Small pieces of pinned memory that are used again, once the device is through with them.
 */
class PinnedPool {
 public:
  struct Piece {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    Event used;  ///< behind what the device does with it; recorded by the user
  };

  explicit PinnedPool(OrderedDevice& device) : device_(device) {}
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  [[nodiscard]] Piece take(std::size_t bytes);
  void give_back(Piece piece) { idle_.push_back(std::move(piece)); }

 private:
  OrderedDevice& device_;
  std::vector<Piece> idle_;
};

}  // namespace millrace::sharding
