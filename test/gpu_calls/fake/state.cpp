#include "test/gpu_calls/fake/state.hpp"

#include <utility>

namespace millrace::test::fake {
namespace {

thread_local int current = -1;

}  // namespace

State& state() {
  static State all;
  return all;
}

void reset() {
  State& all = state();
  const std::lock_guard lock{all.mutex};
  all.calls.clear();
  all.contexts.clear();
  all.failures.clear();
  all.hooks.clear();
  all.busy = false;
  all.has_pools = true;
  all.time = 0;
  current = -1;
  static_cast<void>(cudaGetLastError());
}

int called(const std::string& name, const void* object, long long value) {
  State& all = state();
  std::function<void()> hook;
  {
    const std::lock_guard lock{all.mutex};
    all.calls.push_back({name, reinterpret_cast<std::uintptr_t>(object), value});
    if (const auto found = all.hooks.find(name); found != all.hooks.end()) hook = found->second;
  }
  if (hook) hook();
  const std::lock_guard lock{all.mutex};
  const auto found = all.failures.find(name);
  return found == all.failures.end() ? 0 : found->second;
}

int device_of_context() { return current; }

void set_context(int device) {
  current = device;
  if (device < 0) return;
  const std::lock_guard lock{state().mutex};
  state().contexts.insert(device);
}

int current_device() {
  if (current < 0) set_context(0);
  return current;
}

std::vector<Call> calls() {
  const std::lock_guard lock{state().mutex};
  return state().calls;
}

std::vector<Call> calls(const std::string& name) {
  std::vector<Call> found;
  for (const Call& call : calls()) {
    if (call.name == name) found.push_back(call);
  }
  return found;
}

std::set<int> contexts() {
  const std::lock_guard lock{state().mutex};
  return state().contexts;
}

void fail(const std::string& function, int error) {
  const std::lock_guard lock{state().mutex};
  state().failures[function] = error;
}

void set_busy(bool busy) {
  const std::lock_guard lock{state().mutex};
  state().busy = busy;
}

void set_pools(bool supported) {
  const std::lock_guard lock{state().mutex};
  state().has_pools = supported;
}

void set_time(std::int64_t nanoseconds) {
  const std::lock_guard lock{state().mutex};
  state().time = nanoseconds;
}

std::size_t live_events() {
  const std::lock_guard lock{state().mutex};
  return state().events;
}

void on(const std::string& function, std::function<void()> hook) {
  const std::lock_guard lock{state().mutex};
  state().hooks[function] = std::move(hook);
}

}  // namespace millrace::test::fake
