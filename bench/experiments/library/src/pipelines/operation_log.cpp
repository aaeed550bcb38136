#include "pipelines/operation_log.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace millrace::experiment {

OperationLog::OperationLog(VirtualMachine& machine) : machine_(machine) {
  machine_.add_timeline(*this);
}

OperationLog::~OperationLog() { machine_.remove_timeline(*this); }

void OperationLog::executed(const ExecutedOperation& operation) {
  if (operation.engine == Engine::stream) return;
  operations_.push_back({.name = std::string{operation.name},
                         .stream = std::string{operation.stream_name},
                         .device = operation.device,
                         .index = operation.index,
                         .engine = operation.engine,
                         .begin = operation.begin,
                         .end = operation.end,
                         .alone = operation.alone,
                         .cost = operation.cost,
                         .views = {operation.views.begin(), operation.views.end()}});
}

std::vector<LoggedOperation> OperationLog::since(Nanoseconds from) const {
  std::vector<LoggedOperation> result;
  std::ranges::copy_if(operations_, std::back_inserter(result),
                       [&](const LoggedOperation& operation) { return operation.begin >= from; });
  std::ranges::sort(result, [](const LoggedOperation& a, const LoggedOperation& b) {
    return std::tie(a.begin, a.index) < std::tie(b.begin, b.index);
  });
  return result;
}

}  // namespace millrace::experiment
