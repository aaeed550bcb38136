#include "engine/runtime.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "check/checker.hpp"
#include "check/exit.hpp"
#include "engine/kernels.hpp"
#include "engine/report.hpp"

namespace millrace::virtual_cuda {

Runtime* the_runtime = nullptr;
bool instant = false;

namespace {

// Runs at exit, before the destructors of static objects that are older than the first CUDA call.
void unload() {
  // A forked child has no usable runtime: the thread that held its lock does not exist there.
  if (process_refusal.load(std::memory_order_relaxed) == cudaErrorInitializationError) return;
  write_report(runtime());
  process_refusal.store(cudaErrorCudartUnloading, std::memory_order_relaxed);
}

void load_host_kernels(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw std::runtime_error("MILLRACE_VIRTUAL_KERNELS: " + std::string{dlerror()});
  using Register = void (*)(const MillraceVirtualCuda*);
  const auto add = reinterpret_cast<Register>(dlsym(library, "millrace_virtual_kernels"));
  if (add == nullptr)
    throw std::runtime_error("MILLRACE_VIRTUAL_KERNELS: " + file +
                             " has no function millrace_virtual_kernels");
  add(&virtual_cuda_table());
}

}  // namespace

Runtime::Runtime(const Settings& options, const DeviceProfile& facts)
    : settings{options},
      profile{facts},
      engine{settings, profile},
      memory{settings.gpus, profile.memory_bytes},
      ranges{memory},
      graph_memory{memory, settings.gpus},
      arrays{memory} {
  for (unsigned ordinal = 0; ordinal < settings.gpus; ++ordinal) {
    Gpu& gpu = *gpus.emplace_back(std::make_unique<Gpu>());
    gpu.ordinal = ordinal;
    gpu.profile = profile;
    gpu.primary = {CUctx_st::kMagic, true, 0, ++context_ids, &gpu};
    gpu.legacy.magic = CUstream_st::kMagic;
    gpu.legacy.role = CUstream_st::Role::legacy;
    gpu.legacy.device = ordinal;
    gpu.legacy.id = 1;
    gpu.default_pool = gpu.current_pool = nullptr;
  }
}

void make_runtime() {
  const Settings settings = Settings::from_environment();
  DeviceProfile profile = DeviceProfile::named(settings.profile);
  profile.memory_bytes = settings.memory.value_or(profile.memory_bytes);
  the_runtime = new Runtime{settings, profile};
  if (settings.check != Check::off) the_checker = new Checker{settings.check};
  instant = settings.mode == Mode::instant && the_checker == nullptr;
  for (const auto& gpu : runtime().gpus)
    gpu->default_pool = gpu->current_pool = make_pool(
        {cudaMemAllocationTypePinned, {cudaMemLocationTypeDevice, static_cast<int>(gpu->ordinal)}},
        true, 0);
  if (settings.mode == Mode::adversarial)
    std::fprintf(stderr, "millrace virtual CUDA: schedule %s\n", settings.schedule().c_str());
  if (!settings.costs.empty()) read_kernel_times(settings.costs);
  if (!settings.kernels.empty()) load_host_kernels(settings.kernels);
  std::atexit(unload);
  if (the_checker != nullptr) on_exit(keep_status, nullptr);
}

CUstream_st* make_stream(Gpu& gpu, CUstream_st::Role role, unsigned flags, int priority) {
  CUstream_st* const stream = runtime().streams.take();
  *stream = {};
  stream->magic = CUstream_st::kMagic;
  stream->role = role;
  stream->flags = flags;
  stream->priority = priority;
  stream->device = gpu.ordinal;
  stream->id = ++runtime().stream_ids;
  gpu.streams.push_back(stream);
  return stream;
}

void destroy_stream(CUstream_st& stream) {
  Gpu& gpu = *runtime().gpus[stream.device];
  std::erase_if(gpu.orphans, [](const auto& orphan) { return orphan.first->done(); });
  if (stream.tail && !stream.tail->done()) gpu.orphans.emplace_back(stream.tail, stream.blocking());
  std::erase(gpu.streams, &stream);
  note_stream_for_report(stream);
  for (const auto* const pools : {&gpu.pools, &runtime().host_pools})
    for (const cudaMemPool_t pool : *pools)
      for (auto& [address, block] : pool->live)
        if (block.stream == &stream) block.stream = nullptr;
  if (Checker* const check = checker()) check->stream_ended(stream);
  stream.magic = 0;
  stream.tail.reset();
  stream.capture.reset();
  runtime().streams.give(&stream);
}

CUstream_st* find_stream(cudaStream_t handle, Default meaning) noexcept {
  if (reinterpret_cast<std::uintptr_t>(handle) > 2) [[likely]]
    return handle->magic == CUstream_st::kMagic ? handle : nullptr;
  Gpu& gpu = runtime().current_gpu();
  if (handle == cudaStreamLegacy || (handle == nullptr && meaning == Default::legacy))
    return &gpu.legacy;
  Thread& thread = *this_thread;
  if (thread.per_thread_streams.size() <= gpu.ordinal)
    thread.per_thread_streams.resize(runtime().gpus.size());
  CUstream_st*& stream = thread.per_thread_streams[gpu.ordinal];
  if (stream == nullptr) {
    const Lock lock{runtime().engine.mutex()};
    stream = make_stream(gpu, CUstream_st::Role::per_thread, cudaStreamDefault, 0);
  }
  return stream;
}

void release_per_thread_streams(Thread& thread) {
  const Lock lock{runtime().engine.mutex()};
  for (CUstream_st* const stream : thread.per_thread_streams)
    if (stream != nullptr) destroy_stream(*stream);
  thread.per_thread_streams.clear();
}

std::vector<OperationRef> before(const CUstream_st& stream) {
  Gpu& gpu = *runtime().gpus[stream.device];
  std::vector<OperationRef> after;
  const auto add = [&](const OperationRef& tail) {
    if (tail && !tail->done()) after.push_back(tail);
  };
  add(stream.tail);
  if (stream.role == CUstream_st::Role::legacy) {
    for (const CUstream_st* const other : gpu.streams)
      if (other->blocking()) add(other->tail);
    for (const auto& [tail, blocking] : gpu.orphans)
      if (blocking) add(tail);
  } else if (stream.blocking()) {
    add(gpu.legacy.tail);
  }
  return after;
}

void enqueue(Lock& lock, CUstream_st& stream, Work work,
             const std::vector<OperationRef>& also_after, OperationRef* made) {
  std::vector<OperationRef> after = before(stream);
  after.insert(after.end(), also_after.begin(), also_after.end());
  ++stream.operations;
  const OperationRef operation =
      runtime().engine.add(std::move(work), stream.device, stream.id, after);
  stream.tail = operation;
  if (made != nullptr) *made = operation;
  if (Checker* const check = checker()) check->enqueued(stream, *operation);
  runtime().engine.announce(lock, operation);
}

std::vector<OperationRef> tails_of(const Gpu& gpu) {
  std::vector<OperationRef> tails{gpu.legacy.tail};
  for (const CUstream_st* const stream : gpu.streams) tails.push_back(stream->tail);
  for (const auto& orphan : gpu.orphans) tails.push_back(orphan.first);
  return tails;
}

void synchronize(Lock& lock, Gpu& gpu) {
  // One wait for all streams, so that the schedule chooses among them.
  const std::vector<OperationRef> tails = tails_of(gpu);
  if (std::any_of(tails.begin(), tails.end(),
                  [](const OperationRef& tail) { return tail && !tail->done(); })) {
    const OperationRef all = runtime().engine.add(EmptyWork{}, gpu.ordinal, 0, tails);
    runtime().engine.announce(lock, all);
    runtime().engine.wait(lock, all);
  }
  if (Checker* const check = checker()) check->synchronized(gpu);
  trim_pools(gpu);
}

void trim_pools(Gpu& gpu) {
  gpu.excess.store(false, std::memory_order_relaxed);
  for (const auto* const pools : {&gpu.pools, &runtime().host_pools})
    for (const cudaMemPool_t pool : *pools)
      if (pool->attributes.reserved >
          std::max(pool->attributes.release_threshold, pool->attributes.used))
        pool->trim(runtime().memory, pool->attributes.release_threshold);
}

std::vector<cudaMemPool_t>& pools_beside(const CUmemPoolHandle_st& pool) {
  return pool.place.on_gpu() ? runtime().gpus[pool.device]->pools : runtime().host_pools;
}

cudaMemPool_t make_pool(const PoolPlace& place, bool is_default, std::size_t max_bytes) {
  CUmemPoolHandle_st* const pool = runtime().pools.take();
  *pool = {};
  pool->magic = CUmemPoolHandle_st::kMagic;
  pool->is_default = is_default;
  pool->id = ++runtime().pool_ids;
  pool->place = place;
  if (place.location.type == cudaMemLocationTypeDevice)
    pool->device = static_cast<unsigned>(place.location.id);
  pool->granularity = runtime().profile.pool_granularity;
  pool->max_bytes = max_bytes;
  pools_beside(*pool).push_back(pool);
  return pool;
}

}  // namespace millrace::virtual_cuda
