#pragma once

#include <string>
#include <vector>

#include "millrace/device/virtual_machine.hpp"

namespace millrace::experiment {

/** @brief A stored copy of an ExecutedOperation. */
struct LoggedOperation {
  std::string name{}, stream{};
  unsigned device = 0;
  std::uint64_t index = 0;
  Engine engine = Engine::stream;
  Nanoseconds begin{0}, end{0}, alone{0};
  Cost cost;
  std::vector<View> views;
};

/** @brief Stores the operations of a virtual machine's engines. */
class OperationLog final : private TimelineObserver {
 public:
  explicit OperationLog(VirtualMachine& machine);
  ~OperationLog();
  OperationLog(const OperationLog&) = delete;
  OperationLog& operator=(const OperationLog&) = delete;

  /** @brief The operations that began at `from` or later, sorted by begin, then by index. */
  [[nodiscard]] std::vector<LoggedOperation> since(Nanoseconds from) const;

 private:
  void executed(const ExecutedOperation& operation) override;

  VirtualMachine& machine_;
  std::vector<LoggedOperation> operations_;
};

}  // namespace millrace::experiment
