#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "millrace/ordering/point.hpp"

namespace millrace::interpose {

/** @brief What a program did, as far as memory and its order are concerned. */
enum class Did : std::uint8_t {
  allocated,          ///< cudaMallocAsync
  allocated_for_all,  ///< cudaMalloc
  freed,              ///< in the order of a stream
  freed_completed,    ///< cudaFree
  recorded,           ///< a marker on a stream
  waited,             ///< a stream waits for a marker
  passed,             ///< the host knows that a marker is complete
  passed_stream,      ///< the same of all work of a stream
  passed_device,
};

/** @brief One thing that it did. */
struct LogEntry {
  Did did{};
  StreamId stream;  ///< of the memory, of the marker, or that waits
  Point marker;     ///< recorded, waited, passed
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
};

/** @brief The first things that a program did on one GPU, in order. */
class Log {
 public:
  // 14 MiB, which the model at the end repeats in a few seconds.
  static constexpr std::size_t kMost = std::size_t{1} << 18;

  void add(const LogEntry& entry) {
    const std::lock_guard lock{mutex_};
    if (entries_.size() < kMost) {
      entries_.push_back(entry);
    } else {
      ++left_out_;
    }
  }

  [[nodiscard]] std::vector<LogEntry> entries() const {
    const std::lock_guard lock{mutex_};
    return entries_;
  }
  [[nodiscard]] std::size_t left_out() const {
    const std::lock_guard lock{mutex_};
    return left_out_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<LogEntry> entries_;
  std::size_t left_out_ = 0;
};

}  // namespace millrace::interpose
