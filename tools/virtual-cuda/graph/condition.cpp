#include "graph/condition.hpp"

#include <unordered_map>

#include "engine/work.hpp"

namespace millrace::virtual_cuda {
namespace {

std::unordered_map<cudaGraphConditionalHandle, Condition*>& conditions() {
  static auto* const all = new std::unordered_map<cudaGraphConditionalHandle, Condition*>;
  return *all;
}

cudaGraphConditionalHandle next_handle() {
  static cudaGraphConditionalHandle last = 0;
  return ++last;
}

}  // namespace

Condition::Condition(unsigned default_value, bool assign_default)
    : handle{next_handle()},
      initial{default_value},
      assigned{assign_default},
      value{default_value} {
  conditions()[handle] = this;
}

Condition::~Condition() { conditions().erase(handle); }

void set_condition(cudaGraphConditionalHandle handle, unsigned value) {
  const auto found = conditions().find(handle);
  if (found != conditions().end()) found->second->value = value;
}

void perform(const AssignWork& work) {
  for (const std::shared_ptr<Condition>& condition : work.conditions)
    condition->value = condition->initial;
}

}  // namespace millrace::virtual_cuda
