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
 * @brief Streams, each once, in the order in which they were added.
 *
 * Nearly always there are none or one. Many have an index, so that adding n streams costs n.
 */
class StreamUses : Few<StreamRef> {
 public:
  using Few<StreamRef>::begin;
  using Few<StreamRef>::empty;
  using Few<StreamRef>::end;
  using Few<StreamRef>::size;

  static constexpr std::size_t kFew = 8;  // searched one by one

  /** @return false: it is there already, and nothing changes */
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
  /** @brief Of many streams, the last one takes its place, so that this costs the same. */
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

  // Of many; nullptr while there are none.
  std::unique_ptr<std::unordered_map<StreamId, std::size_t>> places_;
};

}  // namespace millrace
