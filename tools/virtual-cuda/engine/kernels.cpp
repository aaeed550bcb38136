#include "engine/kernels.hpp"

#include <cxxabi.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "check/annotations.hpp"
#include "engine/allocations.hpp"
#include "engine/reachable.hpp"
#include "engine/runtime.hpp"
#include "engine/thread.hpp"
#include "graph/condition.hpp"
#include "millrace/round_up.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace::virtual_cuda {
namespace {

/** Never destroyed, because static destructors unregister fat binaries. */
struct Registry {
  std::mutex mutex;
  struct Module {
    std::unique_ptr<const std::vector<Image>> images;
    std::map<std::string, Kernel*, std::less<>> asked_for;  ///< by name
  };
  std::map<void**, Module> modules;
  /// Images of unregistered modules; launches may refer to them.
  std::vector<std::unique_ptr<const std::vector<Image>>> retired_images;
  std::set<const void*> handles;  ///< of all kernels that are registered
  std::unordered_map<const void*, std::unique_ptr<Kernel>> kernels;
  std::vector<std::unique_ptr<Kernel>> retired;  ///< unregistered; launches may refer to them
  std::unordered_map<const void*, Variable> variables;
  std::deque<HostKernel> host_kernels;
  std::vector<std::pair<std::string, GivenCost>> costs;  ///< costs of kernels, by name pattern
};

Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text{
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free};
  return text == nullptr ? name : text.get();
}

const std::string& readable(Kernel& kernel) {
  if (kernel.readable.empty()) kernel.readable = demangled(kernel.name);
  return kernel.readable;
}

// Programs register many thousands of kernels. So a name is demangled only for a real pattern.
bool matches(const std::string& pattern, Kernel& kernel) {
  const bool plain = pattern.find_first_of("*?[\\(<: ") == std::string::npos;
  if (plain) return pattern == kernel.name;
  return fnmatch(pattern.c_str(), kernel.name.c_str(), 0) == 0 ||
         fnmatch(pattern.c_str(), readable(kernel).c_str(), 0) == 0;
}

const HostKernel* match(const Registry& all, Kernel& kernel) {
  for (const HostKernel& host : all.host_kernels)
    if (matches(host.pattern, kernel)) return &host;
  return nullptr;
}

void set_cost(const Registry& all, Kernel& kernel) {
  const auto found = std::find_if(all.costs.begin(), all.costs.end(),
                                  [&](const auto& cost) { return matches(cost.first, kernel); });
  kernel.given_cost = found == all.costs.end() ? GivenCost{} : found->second;
  if (kernel.given_cost.by_bytes)
    kernel.pointers =
        pointer_parameters(readable(kernel)).value_or(std::vector<PointerParameter>{});
}

/** Parses a number with the unit ns, us, ms or s; nothing if the word is not such a time. */
std::optional<Nanoseconds> parse_time(const std::string& word) {
  std::string_view rest{word};
  const double number = text::take_number<double>(rest).value_or(-1);
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  if (!(number >= 0)) return std::nullopt;
  for (const auto& [name, nanoseconds] : kUnits)
    if (rest == name && number * nanoseconds < 1e15)
      return Nanoseconds{static_cast<std::int64_t>(std::ceil(number * nanoseconds))};
  return std::nullopt;
}

std::optional<GivenCost> parse_cost(const std::string& word) {
  if (word == "bytes") return GivenCost{Nanoseconds{0}, true};
  const std::optional<Nanoseconds> time = parse_time(word);
  if (!time) return std::nullopt;
  return GivenCost{*time, false};
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
void each_kernel(void (*visit)(const MillraceRegistered*, void*), void* data) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  for (auto& [pointer, kernel] : all.kernels) {
    const MillraceRegistered registered{kernel->name.c_str(), readable(*kernel).c_str(),
                                        kernel->host_kernel != nullptr ? 1 : 0};
    visit(&registered, data);
  }
}

thread_local unsigned running_on = 0;  // the GPU of the kernel that this thread runs
int kernel_reaches(const void* address) { return reachable(address, running_on) ? 1 : 0; }
void set_conditional(unsigned long long handle, unsigned value) { set_condition(handle, value); }
void lose(int error) {
  process_refusal.store(static_cast<cudaError_t>(error), std::memory_order_relaxed);
}

/** A launch as its host implementation sees it. */
struct LaunchedKernel {
  LaunchedKernel(const KernelWork& work, std::byte* copies) {
    for (const std::size_t offset : work.offsets) arguments.push_back(copies + offset);
    seen = {work.kernel->name.c_str(),
            {work.grid.x, work.grid.y, work.grid.z},
            {work.block.x, work.block.y, work.block.z},
            work.shared_bytes,
            arguments.data()};
  }
  std::vector<void*> arguments;
  MillraceLaunch seen;
};

}  // namespace

void** register_module(const void* fat_binary) {
  auto images = std::make_unique<const std::vector<Image>>(images_of(fat_binary));
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  void** const module = new void* {nullptr};
  all.modules[module].images = std::move(images);
  return module;
}

bool is_module(void** module) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  return all.modules.contains(module);
}

void unregister_module(void** module) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  for (auto entry = all.kernels.begin(); entry != all.kernels.end();) {
    if (entry->second->module != module) {
      ++entry;
      continue;
    }
    all.handles.erase(entry->second.get());
    all.retired.push_back(std::move(entry->second));
    entry = all.kernels.erase(entry);
  }
  if (const auto place = all.modules.find(module); place != all.modules.end()) {
    all.retired_images.push_back(std::move(place->second.images));
    all.modules.erase(place);
  }
  delete module;
}

void register_kernel(void** module, const void* host_function, const char* name) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  std::unique_ptr<Kernel>& place = all.kernels[host_function];
  if (place != nullptr) {
    all.handles.erase(place.get());
    all.retired.push_back(std::move(place));
  }
  place = std::make_unique<Kernel>();
  all.handles.insert(place.get());
  Kernel& kernel = *place;
  kernel.name = name;
  kernel.host_function = host_function;
  kernel.module = module;
  if (const auto from = all.modules.find(module); from != all.modules.end())
    kernel.images = from->second.images.get();
  kernel.host_kernel = match(all, kernel);
  set_cost(all, kernel);
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
  if (entry != all.kernels.end()) return entry->second.get();
  if (!all.handles.contains(host_function)) return nullptr;
  return const_cast<Kernel*>(static_cast<const Kernel*>(host_function));
}

std::optional<CodeVersions> code_versions(const Kernel& kernel) {
  const cudaDeviceProp gpu = runtime().current_gpu().properties();
  const int architecture = gpu.major * 10 + gpu.minor;
  if (kernel.images == nullptr || kernel.images->empty())
    return CodeVersions{architecture, architecture};
  return choose(*kernel.images, architecture);
}

bool has_code(const Kernel& kernel) {
  if (kernel.images == nullptr) return true;
  int runs = kernel.runs.load(std::memory_order_relaxed);
  if (runs == 0) {  // all GPUs are of one kind
    runs = code_versions(kernel) ? 1 : -1;
    kernel.runs.store(runs, std::memory_order_relaxed);
  }
  return runs > 0;
}

Kernel* module_kernel(void** module, const char* name) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  const auto place = all.modules.find(module);
  if (place == all.modules.end()) return nullptr;
  Kernel*& known = place->second.asked_for[name];
  if (known != nullptr) return known;
  auto made = std::make_unique<Kernel>();
  Kernel* const kernel = known = made.get();
  kernel->name = name;
  kernel->host_function = kernel;
  kernel->module = module;
  kernel->host_kernel = match(all, *kernel);
  set_cost(all, *kernel);
  all.handles.insert(kernel);
  all.kernels[kernel] = std::move(made);
  return kernel;
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

std::vector<std::pair<std::string, std::uint64_t>> uncomputed_kernels() {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  std::vector<std::pair<std::string, std::uint64_t>> found;
  const auto add_kernel = [&](Kernel& kernel) {
    const std::uint64_t launches = kernel.uncomputed.load(std::memory_order_relaxed);
    if (launches != 0) found.emplace_back(readable(kernel), launches);
  };
  for (auto& [pointer, kernel] : all.kernels) add_kernel(*kernel);
  for (auto& kernel : all.retired) add_kernel(*kernel);
  return found;
}

void add_host_kernel(const MillraceKernel& kernel) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  all.host_kernels.push_back(
      {kernel.pattern,
       {kernel.argument_bytes, kernel.argument_bytes + kernel.argument_count},
       kernel.run,
       kernel.cost,
       kernel.accesses});
  for (auto& [pointer, known] : all.kernels)
    if (known->host_kernel == nullptr && matches(all.host_kernels.back().pattern, *known))
      known->host_kernel = &all.host_kernels.back();
}

void add_kernel_cost(const std::string& pattern, const GivenCost& cost) {
  Registry& all = registry();
  const std::lock_guard lock{all.mutex};
  all.costs.emplace_back(pattern, cost);
  for (auto& [pointer, known] : all.kernels) set_cost(all, *known);
}

void read_kernel_times(const std::string& file) {
  std::ifstream lines{file};
  const auto refuse = [&](const std::string& what) {
    throw std::runtime_error("MILLRACE_VIRTUAL_COSTS: " + file + what);
  };
  if (!lines) refuse(" cannot be read");
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words{line};
    std::string time, pattern;
    words >> time >> std::ws;
    if (time.empty() || time.front() == '#') continue;
    std::getline(words, pattern);
    const std::optional<GivenCost> parsed = parse_cost(time);
    if (!parsed || pattern.empty())
      refuse(", line " + std::to_string(number) + ": '" + line +
             "' is not a cost; a line is a time and a pattern: 12.5us *gemm*; or: bytes *copy*");
    add_kernel_cost(pattern, *parsed);
  }
}

void copy_arguments(KernelWork& work, void** arguments) {
  constexpr std::size_t kAlignment = alignof(std::max_align_t);
  const HostKernel& host = *work.kernel->host_kernel;
  for (std::size_t i = 0; i < host.argument_bytes.size(); ++i) {
    const std::size_t bytes = host.argument_bytes[i];
    const std::size_t offset = round_up(work.arguments.size(), kAlignment);
    work.arguments.resize(offset + bytes);
    if (bytes != 0) std::memcpy(work.arguments.data() + offset, arguments[i], bytes);
    work.offsets.push_back(offset);
  }
  if (host.cost == nullptr) return;
  MillraceCost cost{0, 0, 0, 0};
  const LaunchedKernel launch{work, work.arguments.data()};
  host.cost(&launch.seen, &cost);
  work.cost_known = true;
  work.flops = cost.flops;
  work.bytes = cost.bytes;
  work.fixed = Nanoseconds{cost.nanoseconds};
  work.whole_machine = cost.whole_machine != 0 || cost.flops > 0 || cost.bytes > 0;
}

void cost_bytes_of_pointers(KernelWork& work, void** arguments) {
  if (work.cost_known || !work.kernel->given_cost.by_bytes || arguments == nullptr) return;
  std::map<std::uintptr_t, std::uintptr_t> lowest;  // lowest pointer, by the allocation's end
  for (const PointerParameter& parameter : work.kernel->pointers) {
    const void* const pointer = *static_cast<void**>(arguments[parameter.index]);
    const std::optional<Memory::Range> allocation = allocation_of(pointer);
    if (!allocation) continue;
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const auto [entry, added] = lowest.try_emplace(allocation->begin + allocation->bytes, address);
    if (!added) entry->second = std::min(entry->second, address);
  }
  if (lowest.empty()) return;
  work.cost_known = work.whole_machine = true;
  for (const auto& [end, begin] : lowest) work.bytes += static_cast<double>(end - begin);
}

Nanoseconds time_of(const KernelWork& work, const DeviceProfile& profile) {
  if (!work.cost_known) return work.kernel->given_cost.time;
  const double seconds =
      std::max(work.flops / profile.flops, work.bytes / profile.memory_bandwidth);
  return work.fixed + Nanoseconds{static_cast<std::int64_t>(std::ceil(seconds * 1e9))};
}

void perform(const KernelWork& work, unsigned gpu) {
  const HostKernel* const host = work.kernel->host_kernel;
  if (host == nullptr || host->run == nullptr ||
      work.offsets.size() != host->argument_bytes.size()) {
    work.kernel->note_uncomputed();
    return;
  }
  std::vector<std::byte> copies = work.arguments;  // copied: a graph launches the same work again
  const LaunchedKernel launch{work, copies.data()};
  running_on = gpu;
  host->run(&launch.seen);
}

std::string readable_name(const Kernel& kernel) { return demangled(kernel.name); }

bool declared_accesses(const KernelWork& work, std::vector<Access>& found) {
  const HostKernel* const host = work.kernel->host_kernel;
  if (host == nullptr || host->accesses == nullptr ||
      work.offsets.size() != host->argument_bytes.size())
    return false;
  std::vector<std::byte> copies = work.arguments;
  const LaunchedKernel launch{work, copies.data()};
  const MillraceAccesses accesses{
      &found, [](void* list, const void* address, std::size_t bytes, int writes) {
        static_cast<std::vector<Access>*>(list)->push_back({address, bytes, writes != 0});
      }};
  host->accesses(&launch.seen, &accesses);
  return true;
}

const MillraceVirtualCuda& virtual_cuda_table() {
  static const MillraceVirtualCuda table{sizeof(MillraceVirtualCuda),
                                         add,
                                         data,
                                         pending,
                                         now,
                                         each_kernel,
                                         kernel_reaches,
                                         lose,
                                         annotations::host_access,
                                         annotations::allocated,
                                         annotations::freed,
                                         annotations::release,
                                         annotations::acquire,
                                         annotations::races,
                                         set_conditional};
  return table;
}

}  // namespace millrace::virtual_cuda
