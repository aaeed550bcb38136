#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "millrace/observe/trace/trace_writer.hpp"
#include "process/symbols.hpp"

namespace millrace::interpose {

/** @brief The stacks of the program's calls, in a trace. Frames of this library are left out. */
class Sites {
 public:
  explicit Sites(trace::TraceWriter& writer) : writer_(writer) {}

  /** @brief The calling thread's stack: its innermost 24 frames. */
  [[nodiscard]] trace::StackTable::Id here();

 private:
  trace::StackTable::FrameId frame_of(std::uintptr_t pc);

  trace::TraceWriter& writer_;
  std::mutex mutex_;  // of what follows
  Symbols symbols_;
  std::unordered_map<std::uintptr_t, trace::StackTable::FrameId> frames_;
  std::unordered_map<std::uint64_t, trace::StackTable::Id> stacks_;  // by a hash of the addresses
};

}  // namespace millrace::interpose
