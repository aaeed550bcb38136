#pragma once

#include <mutex>
#include <unordered_map>

#include "millrace/observe/call_stacks.hpp"
#include "millrace/observe/trace/trace_writer.hpp"

namespace millrace::interpose {

/** @brief The stacks of the program's calls, in a trace. Frames of this library are left out. */
class Sites {
 public:
  explicit Sites(trace::TraceWriter& writer) : writer_(writer) {}

  /** @brief The calling thread's stack: its innermost 24 frames. */
  [[nodiscard]] trace::StackTable::Id here();

 private:
  trace::TraceWriter& writer_;
  CallStacks stacks_;
  std::mutex mutex_;  // of what follows
  std::unordered_map<CallStacks::Id, trace::StackTable::Id> written_;
};

}  // namespace millrace::interpose
