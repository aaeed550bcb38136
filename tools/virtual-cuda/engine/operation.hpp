#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/work.hpp"
#include "millrace/device/profile.hpp"

namespace millrace::virtual_cuda {

struct Operation;
using OperationRef = std::shared_ptr<Operation>;

/** @brief Work that was enqueued. It may run once everything in `after` is done. */
struct Operation {
  enum class State : unsigned char { waiting, running, done };

  std::uint64_t number = 0;     ///< in the order of the enqueuing calls, from 1
  std::uint64_t stream_id = 0;  ///< 0: a node of a graph
  unsigned device = 0;
  State state = State::waiting;
  Work work;
  std::vector<OperationRef> after;  ///< emptied when this is done, so that no chain grows
  Nanoseconds begin{0};             ///< virtual time; the schedule `timed` plans it at the enqueue
  Nanoseconds end{0};
  unsigned refusals = kUndrawn;          ///< adversarial: remaining "not ready" answers
  std::uint32_t callback = kNoCallback;  ///< the checker's number for a host function's call

  // State of one search in Engine::needed.
  std::uint64_t search = 0;
  unsigned blockers = 0;
  std::vector<Operation*> unblocks;

  static constexpr unsigned kUndrawn = ~0U;
  static constexpr std::uint32_t kNoCallback = ~std::uint32_t{0};

  [[nodiscard]] bool done() const noexcept { return state == State::done; }
};

}  // namespace millrace::virtual_cuda
