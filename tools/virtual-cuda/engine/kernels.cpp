#include "engine/kernels.hpp"

#include <fnmatch.h>

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "engine/runtime.hpp"

namespace millrace::virtual_cuda {
namespace {

/** Never destroyed: fat binaries are unregistered by static destructors. */
struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<Kernel>> kernels;
  std::vector<std::unique_ptr<Kernel>> retired;  ///< unregistered; launches may refer to them
  std::unordered_map<const void*, Variable> variables;
  std::deque<HostKernel> host_kernels;
};

Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

const HostKernel* match(const Registry& all, const std::string& name) {
  for (const HostKernel& host : all.host_kernels)
    if (fnmatch(host.pattern.c_str(), name.c_str(), 0) == 0) return &host;
  return nullptr;
}

void add(const MillraceKernel* kernel) { add_host_kernel(*kernel); }
void* data(const void* address) { return runtime().memory.data(address); }
std::size_t pending() {
  const Lock lock{runtime().engine.mutex()};
  return runtime().engine.pending().size();
}
long long now() {
  const Lock lock{runtime().engine.mutex()};
  return runtime().engine.schedule().now().count();
}

}  // namespace

void** register_module() { return new void* {nullptr}; }

void unregister_module(void** module) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  for (auto entry = all.kernels.begin(); entry != all.kernels.end();) {
    if (entry->second->module != module) {
      ++entry;
      continue;
    }
    all.retired.push_back(std::move(entry->second));
    entry = all.kernels.erase(entry);
  }
  delete module;
}

void register_kernel(void** module, const void* host_function, const char* name) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  std::unique_ptr<Kernel>& place = all.kernels[host_function];
  if (place != nullptr) all.retired.push_back(std::move(place));
  place = std::make_unique<Kernel>();
  Kernel& kernel = *place;
  kernel.name = name;
  kernel.host_function = host_function;
  kernel.module = module;
  kernel.host_kernel = match(all, kernel.name);
}

void register_variable(const void* host_variable, const char* name, std::size_t bytes,
                       void** managed_pointer) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  all.variables[host_variable] = {name, bytes, managed_pointer != nullptr, managed_pointer, {}};
}

Kernel* find_kernel(const void* host_function) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  const auto entry = all.kernels.find(host_function);
  return entry == all.kernels.end() ? nullptr : entry->second.get();
}

Variable* find_variable(const void* host_variable) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  const auto entry = all.variables.find(host_variable);
  return entry == all.variables.end() ? nullptr : &entry->second;
}

std::vector<Variable*> managed_variables() {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  std::vector<Variable*> found;
  for (auto& [pointer, variable] : all.variables)
    if (variable.managed) found.push_back(&variable);
  return found;
}

void add_host_kernel(const MillraceKernel& kernel) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  all.host_kernels.push_back(
      {kernel.pattern,
       {kernel.argument_bytes, kernel.argument_bytes + kernel.argument_count},
       kernel.run});
  for (auto& [pointer, known] : all.kernels) known->host_kernel = match(all, known->name);
}

void copy_arguments(KernelWork& work, void** arguments) {
  constexpr std::size_t kAlignment = alignof(std::max_align_t);
  for (std::size_t i = 0; i < work.kernel->host_kernel->argument_bytes.size(); ++i) {
    const std::size_t bytes = work.kernel->host_kernel->argument_bytes[i];
    const std::size_t offset = (work.arguments.size() + kAlignment - 1) / kAlignment * kAlignment;
    work.arguments.resize(offset + bytes);
    std::memcpy(work.arguments.data() + offset, arguments[i], bytes);
    work.offsets.push_back(offset);
  }
}

void perform(const KernelWork& work) {
  const HostKernel* const host = work.kernel->host_kernel;
  if (host == nullptr || work.offsets.size() != host->argument_bytes.size()) return;
  std::vector<std::byte> copies = work.arguments;  // a graph launches the same work again
  std::vector<void*> arguments;
  for (const std::size_t offset : work.offsets) arguments.push_back(copies.data() + offset);
  const MillraceLaunch launch{work.kernel->name.c_str(),
                              {work.grid.x, work.grid.y, work.grid.z},
                              {work.block.x, work.block.y, work.block.z},
                              work.shared_bytes,
                              arguments.data()};
  host->run(&launch);
}

const MillraceVirtualCuda& virtual_cuda_table() {
  static const MillraceVirtualCuda table{sizeof(MillraceVirtualCuda), add, data, pending, now};
  return table;
}

}  // namespace millrace::virtual_cuda
