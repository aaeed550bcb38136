// A c10::cuda::CUDACachingAllocator::CUDAAllocator for PyTorch whose memory is Millrace's.
//
// millrace.torch builds it for the installed PyTorch at the first use. The base class differs
// between PyTorch 2.9 and 2.15. Functions without `override` are virtual only in some of these
// versions, or have other parameters there. All forms are here, and each version uses its own.

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "millrace/memory/out_of_memory.hpp"
#include "records.hpp"

namespace millrace_torch {
namespace {

using Annotation = decltype(native::SnapshotInfo::external_annotations)::value_type;
using c10::DeviceIndex;
using c10::MempoolId_t;
using millrace::TorchMemory;

// The metadata of the calling thread.
thread_local std::vector<std::string> compile_contexts;
thread_local std::string user_metadata;

/// Segments from the allocator with which a MemPool was made, such as NCCL's.
class ForeignSource final : public millrace::SegmentSource {
 public:
  explicit ForeignSource(native::CUDAAllocator* allocator,
                         std::shared_ptr<native::CUDAAllocator> owner = nullptr)
      : allocator_(allocator), owner_(std::move(owner)) {}

  void* acquire(std::size_t bytes) override {
    void* const base = allocator_->raw_alloc(bytes);
    if (base != nullptr) return base;
    throw millrace::DeviceError{millrace::ErrorCode::out_of_memory, "raw_alloc",
                                "the pool's own allocator returned no memory"};
  }
  void release(void* base, std::size_t) override { allocator_->raw_delete(base); }
  [[nodiscard]] std::size_t granularity() const override { return std::size_t{2} << 20; }

 private:
  native::CUDAAllocator* allocator_;
  std::shared_ptr<native::CUDAAllocator> owner_;
};

void free_data(void* address);

class Allocator final : public native::CUDAAllocator {
 public:
  // Memory.

  c10::DataPtr allocate(std::size_t bytes) override {
    DeviceIndex gpu = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&gpu));
    void* const address = get(bytes, gpu, stream_now(gpu));
    return {address, address, &free_data, c10::Device(c10::DeviceType::CUDA, gpu)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_data; }

  void* raw_alloc(std::size_t bytes) override {
    DeviceIndex gpu = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&gpu));
    return get(bytes, gpu, stream_now(gpu));
  }
  void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override {
    DeviceIndex gpu = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&gpu));
    const TorchMemory::Stream now = stream_now(gpu);
    const bool stays = stream == nullptr || (stream == now.handle && now.stays);
    return get(bytes, gpu, {stream, stays});
  }
  void raw_delete(void* address) override {
    if (address == nullptr) return;
    TorchMemory* const memory = TorchMemory::holding(address);
    if (memory == nullptr) {
      TORCH_CHECK(TorchMemory::all().empty(), "not memory of Millrace: ", address);
      return;  // a forked child has nothing to free
    }
    const auto gpu = static_cast<DeviceIndex>(memory->device_id());
    if (const auto* const trace = c10::impl::GPUTrace::get_trace();
        C10_UNLIKELY(trace != nullptr)) {
      (*trace)->trace_gpu_memory_deallocation(c10::kCUDA,
                                              reinterpret_cast<std::uintptr_t>(address));
    }
    const bool profiled = c10::memoryProfilingEnabled();
    const std::int64_t before = profiled ? memory->statistics().allocated_bytes.all.current : 0;
    memory->deallocate(address, note(native::RecordContext::ALL));
    if (profiled) report(*memory, address, before, gpu);
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    C10_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
  }

  void recordStream(const c10::DataPtr& data, c10::cuda::CUDAStream stream) override {
    // Ignore memory of other allocators. PyTorch's own allocator also ignores it.
    if (data.get() == nullptr || data.get_deleter() != &free_data) return;
    if (TorchMemory* const memory = TorchMemory::holding(data.get())) {
      memory->record_use(data.get(), stream.stream());
    }
  }

  void* getBaseAllocation(void* address, std::size_t* size) override {
    TorchMemory* const memory = TorchMemory::holding(address);
    TORCH_CHECK(memory != nullptr, "not memory of Millrace: ", address);
    const auto [base, bytes] = memory->segment_of(address);
    if (size != nullptr) *size = bytes;
    return base;
  }

  void cacheInfo(DeviceIndex gpu, std::size_t* largest) override {
    const c10::cuda::CUDAGuard guard{gpu};
    std::size_t free = 0;
    std::size_t total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    const millrace::StreamRef stream{millrace::plain_stream(stream_now(gpu).handle)};
    *largest = std::max({*largest, free, memory(gpu).memory().usable(stream).largest});
  }

  // Lifetime.

  void init(int count) override {
    gpus_ = count;
    initialized_ = true;
  }
  bool initialized() override { return initialized_; }
  void enable(bool value) override {
    TORCH_CHECK(value, "Millrace cannot be turned off (caching_allocator_disabled)");
  }
  bool isEnabled() const override { return true; }
  std::string name() override { return "millrace"; }

  double getMemoryFraction(DeviceIndex gpu) { return memory(gpu).fraction(); }
  void setMemoryFraction(double fraction, DeviceIndex gpu) override {
    TORCH_CHECK(fraction >= 0 && fraction <= 1, "invalid fraction: ", fraction, ", wanted 0 to 1");
    memory(gpu).set_fraction(std::max(fraction, 1e-12));
  }

  void emptyCache(MempoolId_t pool) override {
    for (TorchMemory* const each : TorchMemory::all()) each->trim(pool);
  }

  // Statistics and history.

  native::DeviceStats getDeviceStats(DeviceIndex gpu) override {
    return statistics_of<native::DeviceStats>(memory(gpu).statistics());
  }
  void resetAccumulatedStats(DeviceIndex gpu) override { memory(gpu).reset_sums(); }
  void resetPeakStats(DeviceIndex gpu) override { memory(gpu).reset_peaks(); }

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR > 9  // 2.9 lacks the type
  std::vector<native::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex gpu) {
    std::vector<native::StreamSegmentSize> sizes;
    for (const millrace::TorchSegment& segment : memory(gpu).segments()) {
      if (segment.expandable) sizes.emplace_back(segment.stream, segment.small, segment.bytes);
    }
    return sizes;
  }
#endif

  native::SnapshotInfo snapshot(MempoolId_t pool, bool with_traces) {
    return snapshot_of(pool, with_traces);
  }
  native::SnapshotInfo snapshot(MempoolId_t pool) { return snapshot_of(pool, true); }

  bool isHistoryEnabled() override { return history_.enabled; }
  void recordHistory(bool enabled, native::CreateContextFn recorder, std::size_t most,
                     native::RecordContext when, bool clears,
                     const std::vector<std::string>& skip) {
    unsigned skipped = 0;
    const auto skip_action = [&](const char* action, millrace::TorchTraceEntry::Action bit) {
      if (std::find(skip.begin(), skip.end(), action) != skip.end()) {
        skipped |= 1U << static_cast<unsigned>(bit);
      }
    };
    using Action = millrace::TorchTraceEntry::Action;
    skip_action("alloc", Action::alloc);
    skip_action("free_requested", Action::free_requested);
    skip_action("free_completed", Action::free_completed);
    skip_action("segment_alloc", Action::segment_alloc);
    skip_action("segment_free", Action::segment_free);
    skip_action("segment_map", Action::segment_map);
    skip_action("segment_unmap", Action::segment_unmap);
    skip_action("oom", Action::out_of_memory);
    const std::lock_guard lock{mutex_};
    recorder_ = enabled ? recorder : nullptr;
    when_ = enabled ? when : native::RecordContext::NEVER;
    history_ = {.enabled = enabled, .most_entries = most, .skipped = skipped};
    recording_ = enabled;
    if (clears || !enabled) annotations_.clear();
    for (TorchMemory* const each : TorchMemory::all()) each->set_history(history_, clears);
  }
  void recordHistory(bool enabled, native::CreateContextFn recorder, std::size_t most,
                     native::RecordContext when, bool clears) {
    recordHistory(enabled, recorder, most, when, clears, {});
  }
  void recordHistory(bool enabled, native::CreateContextFn recorder, std::size_t most,
                     native::RecordContext when) {
    recordHistory(enabled, recorder, most, when, false, {});
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& data) override {
    DeviceIndex gpu = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&gpu));
    Annotation entry{gpu, 0};
    entry.time_.t_ = now_us();
    for (const auto& [key, value] : data) entry.recordUserMetadata(key, value);
    const std::lock_guard lock{mutex_};
    annotations_.push_back(std::move(entry));
  }
  void pushCompileContext(std::string& context) { compile_contexts.push_back(context); }
  void popCompileContext() {
    if (!compile_contexts.empty()) compile_contexts.pop_back();
  }
  bool supportsUserMetadata() { return true; }
  void setUserMetadata(const std::string& metadata) { user_metadata = metadata; }
  std::string getUserMetadata() { return user_metadata; }
  void annotateMemory(const void* address, const std::string& metadata) {
    TorchMemory* const memory = TorchMemory::holding(address);
    TORCH_CHECK(memory != nullptr, "not the address of a live allocation: ", address);
    auto made = std::make_shared<Note>();
    made->user_metadata = metadata;
    memory->annotate(address, std::move(made));
  }
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* address) {
    TorchMemory* const memory = TorchMemory::holding(address);
    return memory == nullptr ? nullptr : stack_of(memory->context(address));
  }

  void attachOutOfMemoryObserver(native::OutOfMemoryObserver observer) override {
    const std::lock_guard lock{mutex_};
    oom_observers_.push_back(std::move(observer));
  }
  // Millrace rejects no request before the driver or the limit refuses it, so the observer is never
  // called.
  template <typename Observer>
  void attachOomRejectionObserver(Observer) {}
  void attachOomRejectionObserver(
      std::function<void(std::int64_t, std::size_t, std::size_t, std::size_t)>) {}
  void attachAllocatorTraceTracker(native::AllocatorTraceTracker tracker) override {
    const std::lock_guard lock{mutex_};
    for (TorchMemory* const each : TorchMemory::all()) track(*each, tracker);
    trackers_.push_back(std::move(tracker));
  }

  // Pools.

  void beginAllocateToPool(DeviceIndex gpu, MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    memory(gpu).begin_route(pool, stream_now(gpu).handle, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex gpu, MempoolId_t pool) override {
    memory(gpu).end_route(pool);
  }
  void releasePool(DeviceIndex gpu, MempoolId_t pool) override { memory(gpu).release_pool(pool); }
  int getPoolUseCount(DeviceIndex gpu, MempoolId_t pool) override {
    return memory(gpu).pool_uses(pool);
  }
  void createOrIncrefPool(DeviceIndex gpu, MempoolId_t pool,
                          std::shared_ptr<native::CUDAAllocator> own) {
    native::CUDAAllocator* const plain = own.get();
    memory(gpu).use_pool(
        pool, plain == nullptr ? nullptr : std::make_shared<ForeignSource>(plain, std::move(own)));
  }
  void createOrIncrefPool(DeviceIndex gpu, MempoolId_t pool, native::CUDAAllocator* own) {
    memory(gpu).use_pool(pool, own == nullptr ? nullptr : std::make_shared<ForeignSource>(own));
  }
  // Free memory of every pool is released before a request fails, so these settings have no effect.
  void setUseOnOOM(DeviceIndex, MempoolId_t, bool) {}
  void setUseOnOOM(DeviceIndex, MempoolId_t) {}
  void setNoSplit(DeviceIndex gpu, MempoolId_t pool) { memory(gpu).set_no_split(pool); }
  bool checkPoolLiveAllocations(DeviceIndex gpu, MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override {
    return memory(gpu).pool_holds_only(pool, expected);
  }
  std::shared_ptr<native::AllocatorState> getCheckpointState(DeviceIndex, MempoolId_t) override {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false,
        "Millrace has no checkpoints of a pool's state, which torch.compile's "
        "graph trees (mode=\"reduce-overhead\") need");
  }
  native::CheckpointDelta setCheckpointPoolState(DeviceIndex gpu,
                                                 std::shared_ptr<native::AllocatorState>) override {
    getCheckpointState(gpu, {});
    return {};
  }

  // Several GPUs, and several processes.

  native::ShareableHandle shareIpcHandle(void*) override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "memory of Millrace cannot be shared with another process");
  }
  std::shared_ptr<void> getIpcDevPtr(std::string) override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "Millrace opens no memory of another process");
  }
  void enablePeerAccess(DeviceIndex user, DeviceIndex owner) override {
    memory(owner).allow_peer(user);
  }
  cudaError_t memcpyAsync(void* to, int to_gpu, const void* from, int from_gpu, std::size_t bytes,
                          cudaStream_t stream, bool has_access) override {
    if (has_access || to_gpu == from_gpu) {
      return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
    }
    return cudaMemcpyPeerAsync(to, to_gpu, from, from_gpu, bytes, stream);
  }

 private:
  static std::int64_t now_us() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  }

  // PyTorch never destroys its own streams. For a stream from outside, the id is the handle.
  static TorchMemory::Stream stream_now(DeviceIndex gpu) {
    const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(gpu);
    const auto handle = reinterpret_cast<std::intptr_t>(stream.stream());
    return {stream.stream(), handle == 0 || stream.id() != static_cast<c10::StreamId>(handle)};
  }

  TorchMemory& memory(DeviceIndex gpu) {
    TORCH_CHECK(initialized_, "CUDA has not been initialized");
    if (gpu < 0) C10_CUDA_CHECK(c10::cuda::GetDevice(&gpu));
    TORCH_CHECK(gpu < gpus_ && gpu < kMost, "unknown GPU ", static_cast<int>(gpu));
    std::atomic<TorchMemory*>& known = memories_[static_cast<std::size_t>(gpu)];
    if (TorchMemory* const here = known.load(std::memory_order_acquire)) return *here;
    const std::lock_guard lock{mutex_};
    if (TorchMemory* const here = known.load(std::memory_order_acquire)) return *here;
    TorchMemory& made = TorchMemory::of(gpu);
    made.set_history(history_, false);
    for (const auto& tracker : trackers_) track(made, tracker);
    known.store(&made, std::memory_order_release);
    return made;
  }

  static void track(TorchMemory& memory, const native::AllocatorTraceTracker& tracker) {
    const auto gpu = static_cast<DeviceIndex>(memory.device_id());
    memory.track([tracker, gpu](const millrace::TorchTraceEntry& entry) {
      tracker(entry_of<native::TraceEntry>(entry, gpu));
    });
  }

  // Call it without a lock: the recorder may take Python's lock.
  std::shared_ptr<Note> note(native::RecordContext needed) {
    if (!recording_.load(std::memory_order_relaxed)) return nullptr;
    auto made = std::make_shared<Note>();
    const native::RecordContext when = when_;
    const native::CreateContextFn recorder = recorder_;
    if (recorder != nullptr && when >= needed) made->stack = recorder();
    made->in_trace = when >= native::RecordContext::ALLOC;
    if (!compile_contexts.empty()) made->compile_context = compile_contexts.back();
    made->user_metadata = user_metadata;
    return made;
  }

  void* get(std::size_t bytes, DeviceIndex gpu, TorchMemory::Stream stream) {
    if (bytes == 0) return nullptr;
    TorchMemory& from = memory(gpu);
    const std::shared_ptr<Note> with = note(native::RecordContext::STATE);
    const bool profiled = c10::memoryProfilingEnabled();
    const std::int64_t before = profiled ? from.statistics().allocated_bytes.all.current : 0;
    void* address = nullptr;
    try {
      address = from.allocate(bytes, stream, with);
    } catch (const millrace::out_of_memory& first) {
      std::string message = first.what();
      if (callbacks_free_memory()) {
        try {
          address = from.allocate(bytes, stream, with);
        } catch (const millrace::out_of_memory& again) {
          message = again.what();
        }
      }
      if (address == nullptr) fail(from, bytes, gpu, message);
    }
    if (profiled) report(from, address, before, gpu);
    if (const auto* const trace = c10::impl::GPUTrace::get_trace();
        C10_UNLIKELY(trace != nullptr)) {
      (*trace)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<std::uintptr_t>(address));
    }
    return address;
  }

  static bool callbacks_free_memory() {
    bool freed = false;
    for (const std::string& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
      freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
    }
    return freed;
  }

  [[noreturn]] void fail(TorchMemory& from, std::size_t bytes, DeviceIndex gpu,
                         const std::string& message) {
    const c10::cuda::CUDAGuard guard{gpu};
    std::size_t free = 0;
    std::size_t total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    std::vector<native::OutOfMemoryObserver> observers;
    {
      const std::lock_guard lock{mutex_};
      observers = oom_observers_;
    }
    for (const auto& observer : observers) observer(gpu, bytes, total, free);
    const millrace::TorchStatistics now = from.statistics();
    c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(bytes),
                                     static_cast<std::size_t>(now.allocated_bytes.all.current),
                                     static_cast<std::size_t>(now.reserved_bytes.all.current),
                                     c10::Device(c10::DeviceType::CUDA, gpu));
    TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory on GPU ", static_cast<int>(gpu),
                     " (Millrace; limited to ", from.fraction() * 100, "% of ", total, " bytes). ",
                     message);
    std::abort();
  }

  static void report(TorchMemory& memory, void* address, std::int64_t before, DeviceIndex gpu) {
    const millrace::TorchStatistics now = memory.statistics();
    c10::reportMemoryUsageToProfiler(address, now.allocated_bytes.all.current - before,
                                     static_cast<std::size_t>(now.allocated_bytes.all.current),
                                     static_cast<std::size_t>(now.reserved_bytes.all.current),
                                     c10::Device(c10::DeviceType::CUDA, gpu));
  }

  native::SnapshotInfo snapshot_of(MempoolId_t pool, bool with_traces) {
    native::SnapshotInfo all{};
    all.device_traces.resize(static_cast<std::size_t>(gpus_));
    millrace::TorchSettings settings;
    for (TorchMemory* const memory : TorchMemory::all()) {
      const auto gpu = static_cast<DeviceIndex>(memory->device_id());
      settings = memory->settings();
      for (const millrace::TorchSegment& segment : memory->segments(pool)) {
        all.segments.push_back(segment_of<native::SegmentInfo>(segment, gpu));
      }
      if (!with_traces || gpu >= gpus_) continue;
      auto& entries = all.device_traces[static_cast<std::size_t>(gpu)];
      for (const millrace::TorchTraceEntry& entry : memory->trace()) {
        entries.push_back(entry_of<native::TraceEntry>(entry, gpu));
      }
    }
    describe(settings, all.config_metadata);
    const std::lock_guard lock{mutex_};
    if (with_traces) all.external_annotations = annotations_;
    return all;
  }

  static constexpr DeviceIndex kMost = 64;

  std::atomic<bool> initialized_{false};
  std::atomic<int> gpus_{0};
  std::array<std::atomic<TorchMemory*>, kMost> memories_{};
  std::mutex mutex_;  // guards the members below that are not atomic
  std::atomic<bool> recording_{false};
  std::atomic<native::CreateContextFn> recorder_{nullptr};
  std::atomic<native::RecordContext> when_{native::RecordContext::NEVER};
  millrace::TorchHistory history_;
  std::vector<Annotation> annotations_;
  std::vector<native::OutOfMemoryObserver> oom_observers_;
  std::vector<native::AllocatorTraceTracker> trackers_;
};

/// Never destroyed, because tensors are freed until the end of the process.
const std::shared_ptr<Allocator>& the_allocator() {
  static const auto* const made = new std::shared_ptr<Allocator>{std::make_shared<Allocator>()};
  return *made;
}

void free_data(void* address) { the_allocator()->raw_delete(address); }

void install() {
  TORCH_CHECK(std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") == nullptr,
              "PYTORCH_NO_CUDA_MEMORY_CACHING is set: unset it, or do not switch Millrace on");
  const millrace::TorchSettings settings = millrace::TorchSettings::from_environment();
  if (!settings.without_effect.empty()) {
    std::string keys;
    for (const std::string& key : settings.without_effect) keys += (keys.empty() ? "" : ", ") + key;
    TORCH_WARN("millrace: these keys of PyTorch's allocator configuration change nothing: ", keys);
  }
  torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(the_allocator());
}

}  // namespace
}  // namespace millrace_torch

/// Makes Millrace PyTorch's allocator. Returns nullptr, or an error message that is valid until the
/// thread's next call.
extern "C" __attribute__((visibility("default"))) const char* millrace_torch_extension_install() {
  thread_local std::string error;
  try {
    millrace_torch::install();
    return nullptr;
  } catch (const c10::Error& failed) {
    error = failed.what_without_backtrace();
  } catch (const std::exception& failed) {
    error = failed.what();
  }
  return error.c_str();
}
