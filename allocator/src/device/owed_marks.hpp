#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "device/stream_table.hpp"

namespace millrace {

/**
 * @brief Requested marks that could not be recorded yet: at most one for each stream, in order of
 *        request.
 */
class OwedMarks {
 public:
  void add(KnownStream& known, StreamId stream) {
    if (known.owes_mark.exchange(true)) return;
    const std::lock_guard lock{mutex_};
    streams_.push_back(stream);
    any_ = true;
  }

  [[nodiscard]] bool empty() const noexcept { return !any_; }

  /** @brief Calls `record` for each owed mark. After an exception, that mark and those after it
   * stay owed. */
  template <typename Record>
  void pay(StreamTable& table, Record record) {
    std::vector<StreamId> streams;
    {
      const std::lock_guard lock{mutex_};
      streams.swap(streams_);
      any_ = false;
    }
    std::size_t paid = 0;
    try {
      for (; paid < streams.size(); ++paid) {
        KnownStream* known = table.find(streams[paid]);
        if (known == nullptr) continue;
        known->owes_mark = false;  // before `record`: a request from now on needs another mark
        try {
          record(streams[paid]);
        } catch (...) {
          // As the last one: others may be recorded before it. The stream may be detached by now.
          if (table.find(streams[paid]) == known) add(*known, streams[paid]);
          throw;
        }
      }
    } catch (...) {
      const std::lock_guard lock{mutex_};
      const auto rest = streams.begin() + static_cast<std::ptrdiff_t>(paid + 1);
      streams_.insert(streams_.begin(), rest, streams.end());
      any_ = !streams_.empty();
      throw;
    }
  }

 private:
  std::mutex mutex_;
  std::vector<StreamId> streams_;
  std::atomic<bool> any_{false};
};

}  // namespace millrace
