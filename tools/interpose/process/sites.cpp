#include "process/sites.hpp"

#include <vector>

namespace millrace::interpose {

trace::StackTable::Id Sites::here() {
  const CallStacks::Id found = stacks_.here();
  const std::lock_guard lock{mutex_};
  const auto [known, fresh] = written_.try_emplace(found, trace::StackTable::kNone);
  if (!fresh) return known->second;
  const std::vector<trace::StackFrame> frames = stacks_.frames_of(found);
  trace::StackTable::Id stack = trace::StackTable::kNone;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
    stack = writer_.stack(stack, writer_.frame(*frame));
  known->second = stack;
  return stack;
}

}  // namespace millrace::interpose
