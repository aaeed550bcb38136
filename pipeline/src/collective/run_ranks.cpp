#include "millrace/pipeline/collective/run_ranks.hpp"

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "millrace/pipeline/collective/collective_error.hpp"

namespace millrace {

void run_ranks(Executor& executor, unsigned ranks, const std::function<void(unsigned)>& body) {
  std::vector<std::unique_ptr<Executor::Task>> tasks;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    tasks.push_back(executor.spawn("rank " + std::to_string(rank), [&body, rank] { body(rank); }));
  }
  std::exception_ptr own, of_group;
  for (const auto& task : tasks) {
    try {
      task->join();
    } catch (const CollectiveError&) {
      if (!of_group) of_group = std::current_exception();
    } catch (...) {
      if (!own) own = std::current_exception();
    }
  }
  if (own) std::rethrow_exception(own);
  if (of_group) std::rethrow_exception(of_group);
}

}  // namespace millrace
