#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"
#include "observe/trace/millrace/record_fields.hpp"

namespace millrace::trace {

inline constexpr std::uint64_t kTraceAddresses = std::uint64_t{1} << 57;
/** @brief The latest time in microseconds, and the greatest number of a marker. */
inline constexpr std::uint64_t kTraceLatest = std::uint64_t{1} << 62;

/**
 * @brief What events name by number: devices, streams with their markers, stacks and labels.
 *
 * The `read_...` functions add a record to the log. The others take the number of such a record
 * from the fields of an event, and refuse one that does not exist.
 */
class NamedRecords {
 public:
  NamedRecords(AllocationLog& log, RecordFields& fields) : log_(log), fields_(fields) {}

  void read_device();
  void read_stream();
  void read_frame();
  void read_stack();
  void read_label();

  std::uint32_t device();
  std::uint32_t stream() { return fields_.at(streams_, "a stream"); }
  StackTable::Id stack() { return fields_.one_based(stacks_, "a stack"); }
  LabelTable::Id label() { return fields_.one_based(labels_, "a label"); }

  /** @brief The marker that a stream gets next: the record says by how much its number grows. */
  std::uint64_t next_marker(std::uint32_t stream);
  /** @brief A marker that the stream has. */
  std::uint64_t marker(std::uint32_t stream);

  /** @brief A stream of a device, for events of the device that name none. */
  std::uint32_t first_stream(std::uint32_t device);
  /** @brief One more than the highest number of a device so far. */
  [[nodiscard]] std::uint32_t device_count() const noexcept { return device_count_; }

 private:
  AllocationLog& log_;
  RecordFields& fields_;
  std::uint32_t device_count_ = 0;
  std::vector<std::uint32_t> streams_;       // by the file's number: the log's
  std::vector<std::uint64_t> last_marker_;   // by the log's number of the stream
  std::vector<StackTable::FrameId> frames_;  // by the file's number
  std::vector<StackTable::Id> stacks_;
  std::vector<LabelTable::Id> labels_;
  std::unordered_map<std::uint32_t, std::uint32_t> first_stream_;  // by device
};

}  // namespace millrace::trace
