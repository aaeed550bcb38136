#include "millrace/pipeline/collective/run_ranks.hpp"

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/pipeline/collective/collective_error.hpp"

namespace millrace {

void run_ranks(Executor& executor, unsigned ranks, const std::function<void(unsigned)>& body) {
  std::vector<std::unique_ptr<Executor::Task>> tasks;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    tasks.push_back(executor.spawn("rank " + std::to_string(rank), [&body, rank] { body(rank); }));
  }
  std::exception_ptr own, of_group, waiting;  // from cause to consequence
  const auto keep_first = [](std::exception_ptr& kept) {
    if (!kept) kept = std::current_exception();
  };
  for (const auto& task : tasks) {
    try {
      task->join();
    } catch (const Deadlock&) {
      keep_first(waiting);
    } catch (const CollectiveError&) {
      keep_first(of_group);
    } catch (...) {
      keep_first(own);
    }
  }
  for (const std::exception_ptr& error : {own, of_group, waiting}) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace millrace
