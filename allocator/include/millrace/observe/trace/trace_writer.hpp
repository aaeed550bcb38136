#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"
#include "millrace/observe/trace/stacks.hpp"

namespace millrace::trace {

/** @brief The first bytes of a trace in Millrace's own format. */
inline constexpr std::string_view kTraceMagic = "\x8dMRTRACE";

/** @brief Receives a trace, one record at a time. */
class TraceSink {
 public:
  TraceSink() = default;
  virtual ~TraceSink() = default;
  TraceSink(const TraceSink&) = delete;
  TraceSink& operator=(const TraceSink&) = delete;

  /** @brief Keeps a record of at most `kMostRecordBytes`. @return false if the sink has no room */
  virtual bool write(std::string_view record) = 0;

  static constexpr std::size_t kMostRecordBytes = std::size_t{1} << 16;
};

/**
 * @brief Opens a new file for a trace.
 *
 * A record is in the file at once, so the file of a killed process has every record that was
 * written. It then ends with zeros, which the destructor would remove. The file grows in steps of
 * 1 MiB, to at most 4 GiB. Only its end is mapped.
 * @throws std::system_error if it exists or cannot be written
 */
[[nodiscard]] std::unique_ptr<TraceSink> create_trace_file(const std::string& path);

/** @brief One allocation, for TraceWriter::allocated. */
struct WrittenAllocation {
  std::uint32_t stream = 0;  ///< number of the stream, from `TraceWriter::stream`
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  ///< requested
  StackTable::Id stack = StackTable::kNone;
  LabelTable::Id label = LabelTable::kNone;
};

/** @brief The meaning of a trace's times and addresses. */
struct RecordedForm {
  bool times_are_positions = false;    ///< one microsecond for each event
  bool addresses_are_made_up = false;  ///< addresses are not the real ones
};

/**
 * @brief Writes a trace in Millrace's own format, which docs/record.md defines.
 *
 * Devices, streams, frames, stacks and labels are written before the events that name them. Call a
 * function for an event when it happens: an allocation after it succeeded, a free before it. The
 * writer keeps the frames, stacks and labels, and a few bytes for each stream; nothing for each
 * event. After a record for which the sink has no room, it writes nothing more and counts what it
 * leaves out. Thread-safe; numbers are those of this writer.
 */
class TraceWriter {
 public:
  using Clock = std::function<std::int64_t()>;  ///< microseconds, never decreasing

  /** @brief Begins a trace. `sink` outlives this object. */
  explicit TraceWriter(TraceSink& sink, Clock clock = {});
  ~TraceWriter();  ///< finishes the trace
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  /** @brief The recorded program in words: a command, a workload. */
  void program(std::string_view text);
  /** @param bytes  memory of the device */
  void device(std::uint32_t number, std::uint64_t bytes, std::string_view name,
              RecordedForm form = {});
  [[nodiscard]] std::uint32_t stream(const LoggedStream& stream);

  [[nodiscard]] StackTable::FrameId frame(const StackFrame& frame);
  /** @return kNone if the trace already has the maximum number of stacks (65,536) */
  [[nodiscard]] StackTable::Id stack(StackTable::Id outer, StackTable::FrameId inner);
  [[nodiscard]] LabelTable::Id label(std::string_view text);

  /** @return the number of the block */
  std::uint64_t allocated(const WrittenAllocation& allocation);
  /** @brief The block is freed in the order of `stream`. */
  void freed(std::uint64_t block, std::uint32_t stream);
  /** @brief All uses of a freed block are known to be complete. */
  void completed(std::uint64_t block);
  /** @brief A request that got no memory. */
  void failed(std::uint32_t stream, std::uint64_t bytes);

  void used(std::uint64_t block, std::uint32_t stream);
  /** @param marker  greater than the stream's last marker; ignored otherwise */
  void marked(std::uint32_t stream, std::uint64_t marker);
  /** @param marker  a marker of `other`; ignored if it is newer than the last one of `other` */
  void waited(std::uint32_t stream, std::uint32_t other, std::uint64_t marker);
  /** @param queried  whether a query proved it; at another time its answer may differ */
  void passed(std::uint32_t stream, std::uint64_t marker, bool queried = false);
  void passed_stream(std::uint32_t stream, bool queried = false);
  /** @brief A query found that the marker was not complete. */
  void not_passed(std::uint32_t stream, std::uint64_t marker);
  void stream_not_passed(std::uint32_t stream);
  void passed_device(std::uint32_t device);
  void closed(std::uint32_t stream);

  /** @brief The allocator got memory from the driver. @param address  0 if unknown */
  void reserved(std::uint32_t device, std::uint64_t address, std::uint64_t bytes);
  /** @brief The allocator returned memory to the driver. */
  void released(std::uint32_t device, std::uint64_t address, std::uint64_t bytes);
  /** @brief From now on the device's pool keeps `bytes` at a synchronization. */
  void pool_keeps(std::uint32_t device, std::uint64_t bytes);
  /** @brief The program trimmed the device's pool to `bytes`. */
  void pool_trimmed(std::uint32_t device, std::uint64_t bytes);
  /** @brief All memory of the device is gone. */
  void device_reset(std::uint32_t device);

  /** @brief Marks the trace as complete. Later records are neither written nor counted. */
  void finish();
  /** @brief Records for which the sink had no room. */
  [[nodiscard]] std::uint64_t left_out() const;

 private:
  class Record;

  void put(Record& record);

  TraceSink& sink_;
  const Clock clock_;
  mutable std::mutex mutex_;
  std::string buffer_;
  bool finished_ = false;
  std::int64_t last_time_ = 0;
  std::uint64_t blocks_ = 0, left_out_ = 0;
  std::vector<std::uint64_t> last_marker_;  // by stream
  StackTable stacks_;
  LabelTable labels_;
};

}  // namespace millrace::trace
