#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "memory/block.hpp"
#include "memory/tally.hpp"
#include "ordering/steps.hpp"

namespace millrace {

/**
 * @brief The highest values since each of several scopes was opened.
 *
 * A value is compared with the newest scope only, so its cost does not depend on the number of
 * scopes. The peaks of an older scope are the maximum of its own and those of all newer scopes. A
 * scope that is closed passes its peaks on to the one before it.
 */
class ScopedPeaks {
 public:
  struct Peaks {
    std::size_t requested = 0, allocated = 0, active = 0, reserved = 0, cached = 0;

    void raise(const Peaks& other) noexcept;
  };

  void see(const MemoryGauges& now) noexcept {
    if (newest_ != nullptr) newest_->raise(current(now));
  }
  void see(const Peaks& peaks) noexcept {
    if (newest_ != nullptr) newest_->raise(peaks);
  }
  [[nodiscard]] ScopeId open(const MemoryGauges& now);
  /** @throws std::invalid_argument if the scope is not open */
  [[nodiscard]] Peaks since(ScopeId scope) const;
  void close(ScopeId scope);

 private:
  static Peaks current(const MemoryGauges& now) noexcept {
    return {now.requested.current, now.allocated.current, now.active.current, now.reserved.current,
            now.cached.current};
  }

  std::map<std::uint64_t, Peaks> scopes_;
  Peaks* newest_ = nullptr;
  std::uint64_t next_ = 1;
};

struct TagHash {
  using is_transparent = void;
  [[nodiscard]] std::size_t operator()(std::string_view name) const noexcept {
    return std::hash<std::string_view>{}(name);
  }
};
struct SameTag {
  using is_transparent = void;
  [[nodiscard]] bool operator()(std::string_view a, std::string_view b) const noexcept {
    ordering::count_steps(1);
    return a == b;
  }
};
/** @brief Numbers of tags by name. Names never move, and a lookup does not copy its name. */
using TagNumbers = std::unordered_map<std::string, std::uint16_t, TagHash, SameTag>;

/** @brief Counts bytes in total, by stream, by tag, and in every open scope. Takes no lock. */
class Meter {
 public:
  void allocated(std::size_t requested, std::size_t bytes, StreamId owner, Tag tag) {
    all_.requested.add(requested);
    all_.allocated.add(bytes);
    all_.active.add(bytes);
    changed();
    gauge_of(owner).add(bytes);
    tags_[tag.index].allocated.add(bytes);
    ++counts_.allocations;
    ++live_;
  }
  void freed(std::size_t requested, std::size_t bytes, StreamId owner, Tag tag) {
    all_.requested.subtract(requested);
    all_.allocated.subtract(bytes);
    all_.active.subtract(bytes);
    changed();
    leave(owner, bytes);
    tags_[tag.index].allocated.subtract(bytes);
    ++counts_.frees;
    --live_;
  }
  void moved(std::size_t bytes, StreamId from, StreamId to);
  /** @brief Adds the allocations and frees in `tally`, and empties it. */
  void add(Tally& tally);
  /** @brief Adds a change of the bytes that `stream` owns, and empties it. */
  void add(StreamId stream, Tally::Change& share);
  void drained(std::size_t bytes);   ///< freed bytes that no longer count as active
  void draining(std::size_t bytes);  ///< freed bytes that still count as active
  void reserved(std::size_t bytes);
  void released(std::size_t bytes);

  [[nodiscard]] Tag tag(std::string_view name);
  [[nodiscard]] bool known(Tag tag) const noexcept { return tag.index < tags_.size(); }
  [[nodiscard]] std::string_view name(Tag tag) const;

  [[nodiscard]] ScopeId open_scope() { return scopes_.open(all_); }
  [[nodiscard]] MemoryGauges peaks(ScopeId scope) const;
  void close_scope(ScopeId scope) { scopes_.close(scope); }

  [[nodiscard]] const MemoryGauges& bytes() const noexcept { return all_; }
  [[nodiscard]] MemoryCounters& counts() noexcept { return counts_; }

  /** @brief Returns the statistics that do not depend on where blocks are. */
  [[nodiscard]] MemoryStatistics statistics(const OrderedDevice& device) const;

 private:
  struct StreamShare {
    StreamId stream;
    Gauge allocated;
  };
  struct TagShare {
    std::string_view name;  // in `tag_numbers_`
    Gauge allocated;
  };

  /** Updates the cached bytes and the scopes. Call it after any other gauge has changed. */
  void changed() noexcept {
    const std::size_t reserved = all_.reserved.current, active = all_.active.current;
    // The reserved bytes of the driver's pool may be noted later than its active bytes.
    all_.cached.current = reserved > active ? reserved - active : 0;
    all_.cached.peak = std::max(all_.cached.peak, all_.cached.current);
    scopes_.see(all_);
  }
  Gauge& gauge_of(StreamId stream) {
    const bool is_known = stream.slot < streams_.size() && streams_[stream.slot].stream == stream;
    return is_known ? streams_[stream.slot].allocated : new_gauge_of(stream);
  }
  Gauge& new_gauge_of(StreamId stream);
  void leave(StreamId stream, std::size_t bytes);

  MemoryGauges all_;
  MemoryCounters counts_;
  ScopedPeaks scopes_;
  std::vector<StreamShare> streams_;            // by slot, for the latest stream of each slot
  std::unordered_map<StreamId, Gauge> former_;  // earlier streams that still own bytes
  std::size_t shares_ = 0;                      // elements of `streams_` in use
  TagNumbers tag_numbers_{{"untagged", 0}};
  std::vector<TagShare> tags_{{.name = tag_numbers_.begin()->first, .allocated = {}}};
  std::size_t live_ = 0;
};

}  // namespace millrace
