#pragma once

#include <mutex>
#include <unordered_map>

#include "millrace/observe/call_stacks.hpp"
#include "millrace/observe/trace/trace_writer.hpp"

namespace millrace::interpose {

/** @brief Writes stacks of the program's calls to a trace, without frames of this library. */
class Sites {
 public:
  explicit Sites(trace::TraceWriter& writer) : writer_(writer) {}

  /** @brief The calling thread's stack: its innermost 24 frames. */
  [[nodiscard]] trace::StackTable::Id here();

 private:
  trace::TraceWriter& writer_;
  CallStacks stacks_;
  std::mutex mutex_;  // guards the member below
  std::unordered_map<CallStacks::Id, trace::StackTable::Id> written_;
};

}  // namespace millrace::interpose
