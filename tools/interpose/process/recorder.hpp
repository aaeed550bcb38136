#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "millrace/observe/trace/trace_writer.hpp"
#include "process/sites.hpp"

namespace millrace::interpose {

/**
 * @brief Records the program's calls in Millrace's own trace format: in a file that the user named,
 *        or the first records in memory, for the figures of the report.
 */
class Recorder {
 public:
  /// Most records in memory: 3 MiB, which the models at the end replay in a few seconds.
  static constexpr std::size_t kMostInMemory = std::size_t{1} << 18;

  /**
   * @param file   file of the trace; empty: memory. If the file exists, another process of the
   *               job writes it, and this one writes FILE.PID
   * @param sites  whether the trace has the stacks of allocations
   */
  Recorder(const std::string& file, bool sites);

  [[nodiscard]] trace::TraceWriter& writer() noexcept { return *writer_; }
  /** @brief The stack of the calling thread's call of CUDA; kNone if there are no sites. */
  [[nodiscard]] trace::StackTable::Id site() { return sites_ ? sites_->here() : 0; }

  /** @brief Writes the last record. Nothing is recorded from now on. */
  void finish();
  /** @brief The trace's file; empty if the trace is in memory. */
  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  /** @brief The log of the whole trace, or of the first records in memory. Call `finish` first.
   *  @throws trace::ParseError if it is too long to be read here */
  [[nodiscard]] trace::AllocationLog log() const;
  [[nodiscard]] std::uint64_t left_out() const { return writer_->left_out(); }

 private:
  class MemorySink;

  std::string file_;
  std::unique_ptr<trace::TraceSink> sink_;
  MemorySink* memory_ = nullptr;  // the sink, if it is in memory
  std::unique_ptr<trace::TraceWriter> writer_;
  std::unique_ptr<Sites> sites_;
};

}  // namespace millrace::interpose
