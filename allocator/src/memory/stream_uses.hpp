#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "memory/few.hpp"
#include "millrace/device/ordered_device.hpp"
#include "ordering/steps.hpp"

namespace millrace {

/**
 * @brief A set of streams, in the order in which they were added until one is removed.
 *
 * It is nearly always empty, or has one stream. A larger set has an index, so that adding n streams
 * takes O(n).
 */
class StreamUses : Few<StreamRef> {
 public:
  using Few<StreamRef>::begin;
  using Few<StreamRef>::empty;
  using Few<StreamRef>::end;
  using Few<StreamRef>::size;

  static constexpr std::size_t kFew = 8;  // up to this size without an index

  /** @brief Adds a stream. @return false if the set has it already */
  bool add(StreamRef stream) {
    if (empty()) {
      push_back(stream);
      return true;
    }
    if (places_ != nullptr || size() == kFew) return add_to_many(stream);
    if (place_among_few(stream.id()) != size()) return false;
    push_back(stream);
    return true;
  }
  /** @brief Removes a stream if the set has it. If there is an index, this takes O(1): the last
   * stream then takes its place. */
  void remove(StreamId stream);
  void clear() noexcept {
    Few<StreamRef>::clear();
    places_.reset();
  }

 private:
  [[nodiscard]] std::size_t place_among_few(StreamId stream) const noexcept {
    const auto same = [&](const StreamRef known) { return known.id() == stream; };
    const StreamRef* const at = std::find_if(begin(), end(), same);
    const auto place = static_cast<std::size_t>(at - begin());
    ordering::count_steps(place);
    return place;
  }
  bool add_to_many(StreamRef stream);

  // The index; nullptr while the streams are few.
  std::unique_ptr<std::unordered_map<StreamId, std::size_t>> places_;
};

}  // namespace millrace
