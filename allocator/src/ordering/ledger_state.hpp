#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "millrace/ordering/ledger.hpp"
#include "ordering/slot_table.hpp"

namespace millrace {

struct Ledger::State {
  using Slot = ordering::Slot;
  using Phase = ordering::Phase;
  using Published = ordering::Published;

  mutable std::mutex mutex;  // of everything but the atomic members of slots
  ordering::SlotTable slots;
  std::vector<std::uint32_t> vacant;
  std::set<std::uint32_t> with_markers;
  std::vector<std::uint32_t> blocking;  // open ones, without the legacy stream
  std::optional<std::uint32_t> legacy;
  bool legacy_independent = false;  // there has been an independent blocking stream
  std::size_t tracked = 0;
  Frontier completed_frontier;  // of all slots; those that never completed anything are left out

  // Without the lock.
  Slot* tenant(StreamId stream) const;
  bool completed(Point point) const;
  static Marker within(const Slot& slot, Marker marker);  // nothing follows a closed one's last

  // Under the lock.
  Slot& open_slot(StreamId stream) const;
  void declare(std::uint32_t index, StreamTraits traits);
  Frontier outstanding(Frontier frontier) const;
  Frontier beyond_last(const Frontier& frontier) const;
  void order(Slot& slot, const Frontier& after);
  Frontier before(const Slot& slot) const;
  std::vector<Point> take_implied(const Slot& slot);

  const Published* find(Point marker) const;
  void insert(Point point, const Published& published);
  void erase(std::uint32_t index, std::vector<Published>::iterator marker);
  std::vector<MarkerToken> complete(const Frontier& frontier);
  void raise(Point point, std::vector<MarkerToken>& done);
  void vacate_if_complete(std::uint32_t index);

  template <typename Visit>
  void for_each_implicit(const Slot& slot, Visit visit) const {
    if (slot.traits.legacy) {
      for (const std::uint32_t index : blocking) visit(index, slots[index]);
    } else if (slot.traits.blocking && legacy) {
      visit(*legacy, slots[*legacy]);
    }
  }
};

}  // namespace millrace
