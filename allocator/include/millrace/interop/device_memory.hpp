#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "millrace/interop/plain_handles.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/observe/trace/torch_snapshot.hpp"

namespace millrace {

/**
 * @brief The memory of one GPU: the one object to begin with.
 *
 *   millrace::DeviceMemory memory{0};
 *   void* batch = memory.allocate(bytes, stream);   // a plain cudaStream_t
 *   ... work on stream ...
 *   memory.deallocate(batch, stream);
 *
 * Makes and owns the device, the order of its streams, the source of segments and a caching
 * allocator. It is an Allocator, and every function of an Allocator that takes a stream also takes
 * a plain `cudaStream_t`. docs/device-memory.md describes it.
 *
 * **Streams that Millrace did not make.** Each call asks the driver for the stream's id, which is
 * never reused. A destroyed stream whose handle the driver has given to another stream is therefore
 * never mistaken for that one. A handle is used only in a call that receives it. In such a call
 * Millrace may record an event on the stream:
 *   - when the calling thread uses this stream again after another one, on which at least 1 MiB was
 *     allocated meanwhile;
 *   - when a free that names the stream leaves it without a live allocation;
 *   - when another stream wanted memory that this stream has freed.
 * A poll finds that these events are complete. The memory then serves every stream. The program
 * reports nothing. A program that uses `attach`, `record` and `wait` reports the order of its
 * streams: memory is then reused before those events complete.
 *
 * A call on a stream that is being captured is refused (DeviceError `capture`), unless
 * `Options::find_captures` is set.
 *
 * Thread-safe. In a child process after a fork every call throws DeviceError (`device_lost`), since
 * CUDA does not work there, and the destructor does nothing.
 */
class DeviceMemory final : public Allocator {
 public:
  /** @brief How the memory is managed. The defaults suit every CUDA program. */
  struct Options {
    Policy policy = drop_in();
    MemoryLimits limits;
    Completion completion = Completion::polled;
    /// Captures that the program does not announce use memory of a graph pool that this object
    /// keeps (CaptureDetector). Costs one driver call for each call that names a stream.
    bool find_captures = false;
    /// The source of segments. It outlives the memory. nullptr: the device.
    SegmentSource* source = nullptr;
    /// Tells tools which memory is allocated, by NVTX's memory API. The checker of the virtual CUDA
    /// runtime then finds uses of memory that is not allocated (docs/memory-errors.md). Without
    /// growable ranges, and slower. Also set by MILLRACE_DEBUG=tools.
    bool notify_tools = false;
    /// Fills memory with bytes 0xff (as floats, NaNs) when it is allocated, in the order of the
    /// stream that uses it first. Also set by MILLRACE_DEBUG=poison.
    bool poison = false;
    /// Whether MILLRACE_DEBUG applies to this object.
    bool reads_environment = true;
  };

  /**
   * @brief Policy::millrace(), except that no stream is made to wait before memory grows.
   *
   * An additional wait can deadlock a stream that runs collectives or spinning kernels, if Millrace
   * does not know that it is `independent`. A program without such streams uses Policy::millrace(),
   * which reserves less.
   */
  [[nodiscard]] static Policy drop_in();

  /**
   * @brief Opens GPU `device_id` and reserves nothing yet.
   * @throws DeviceError `not_supported` in a build without CUDA; `invalid_argument` if the GPU does
   *         not exist: the message lists the GPUs, or the reason why none exists
   * @throws std::invalid_argument if MILLRACE_DEBUG has an unknown item
   */
  explicit DeviceMemory(int device_id);
  DeviceMemory(int device_id, const Options& options);
  /** @brief Uses a device of the caller, which outlives this object. */
  DeviceMemory(Device& device, int device_id, const Options& options);
  /** @brief Waits for the device and releases all memory. Live allocations become invalid. */
  ~DeviceMemory() override;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] int device_id() const noexcept;
  /** @brief For limits, reserves and other features that only a CachingAllocator has. */
  [[nodiscard]] CachingAllocator& caching() noexcept;
  [[nodiscard]] OrderedDevice& device() const noexcept override;

  using Allocator::allocate;
  using Allocator::deallocate;

  // The functions of Allocator, with a plain cudaStream_t.
  [[nodiscard, gnu::always_inline]] void* allocate(std::size_t bytes, CUstream_st* stream,
                                                   Tag tag = {}) {
    return allocate(bytes, ref(stream), tag);
  }
  [[nodiscard, gnu::always_inline]] void* allocate(std::size_t bytes, CUstream_st* owner,
                                                   CUstream_st* first_user, Tag tag = {}) {
    return allocate(bytes, ref(owner), ref(first_user), tag);
  }
  /** @brief Frees the block in the order of `stream`, as cudaFreeAsync does. */
  [[gnu::always_inline]] void deallocate(void* address, CUstream_st* stream) {
    deallocate(address, ref(stream));
  }
  [[gnu::always_inline]] void record_use(void* address, CUstream_st* stream) {
    record_use(address, ref(stream));
  }
  [[gnu::always_inline]] void transfer(void* address, CUstream_st* new_owner) {
    transfer(address, ref(new_owner));
  }
  /** @brief Allocates `bytes` bytes that free themselves; see Buffer. */
  [[nodiscard, gnu::always_inline]] Buffer buffer(std::size_t bytes, CUstream_st* stream) {
    return Buffer{*this, bytes, ref(stream)};
  }
  /** @brief Allocates memory for `size` objects of `T` that frees itself; see Array. */
  template <typename T>
  [[nodiscard, gnu::always_inline]] Array<T> array(std::size_t size, CUstream_st* stream) {
    return Array<T>{*this, size, ref(stream)};
  }

  /**
   * @name Reporting the order
   * The functions of OrderedDevice, with CUDA's handles. An event that was recorded through this
   * object must always be recorded through it, until `forget` is called.
   * @{
   */
  /**
   * @brief Adds a stream that lives long. Calls with it, also with its plain handle, no longer ask
   *        the driver, and Millrace may record on it at any time. Detach it before it is destroyed.
   * @throws std::invalid_argument as OrderedDevice::attach
   */
  [[gnu::always_inline]] StreamRef attach(CUstream_st* stream, AttachOptions options = {}) {
    return attach(plain_stream(stream), std::move(options));
  }
  [[gnu::always_inline]] void detach(CUstream_st* stream) { detach(ref(stream)); }
  /** @brief Ends a phase: other streams can then wait for earlier work without any later work. */
  [[gnu::always_inline]] Point mark(CUstream_st* stream) { return mark(ref(stream)); }
  /** @brief Calls cudaEventRecord, and notes the order. */
  [[gnu::always_inline]] void record(CUevent_st* event, CUstream_st* stream) {
    record(plain_event(event), ref(stream));
  }
  /** @brief Calls cudaStreamWaitEvent, and notes the order. */
  [[gnu::always_inline]] void wait(CUstream_st* stream, CUevent_st* event) {
    wait(ref(stream), plain_event(event));
  }
  /** @brief Forgets an event. Call it before an event that was recorded here is destroyed. */
  void forget(CUevent_st* event) { forget(plain_event(event)); }
  /** @brief Calls cudaStreamSynchronize, and notes what is complete. */
  [[gnu::always_inline]] void synchronize(CUstream_st* stream) { synchronize(ref(stream)); }

  // The same, with Millrace's handles.
  StreamRef attach(StreamHandle stream, AttachOptions options);
  void detach(StreamRef stream);
  Point mark(StreamRef stream);
  void record(EventHandle event, StreamRef stream);
  void wait(StreamRef stream, EventHandle event);
  void forget(EventHandle event);
  void synchronize(StreamRef stream);
  /** @} */

  // Allocator
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override;
  void deallocate(void* address) override;
  void deallocate(void* address, StreamRef stream) override;
  void deallocate(void* address, Point marker) override;
  void record_use(void* address, StreamRef stream) override;
  void transfer(void* address, StreamRef new_owner) override;
  bool is_live(const void* address) const override;
  std::size_t trim(std::size_t keep_bytes = 0) override;
  Tag tag(std::string_view name) override;
  MemoryStatistics statistics() override;
  UsableBytes usable(StreamRef stream) override;
  ScopeId open_scope() override;
  MemoryGauges peaks(ScopeId scope) override;
  void close_scope(ScopeId scope) override;
  void observe(AllocationObserver* observer) override;

  /**
   * @name Snapshots
   * In the form of PyTorch's snapshots. `trace::write_torch_snapshot` writes one as a file.
   * @{
   */
  /** @brief How much is recorded for snapshots. */
  struct History {
    /// Minimum number of newest allocations to keep; up to a quarter more may be kept. Live
    /// allocations, and those that another stream may still use, are always kept. 0 records
    /// nothing.
    std::size_t allocations = 0;
    /// Innermost frames that are kept of each allocation's stack, at most 64. 0: no stacks.
    std::size_t stack_frames = 0;
  };
  /**
   * @brief Records the allocations, frees and segments from now on, for `snapshot`, and forgets
   *        earlier records.
   *
   * Allocations that are already live have no stack. Recording makes calls slower, as an observer
   * does: docs/costs.md. Other threads may use the memory during this call.
   * @throws DeviceError{device_lost} in a forked child, as all three functions do
   */
  void record_history(const History& history);
  /** @brief Begins a named part of the program in the history. Does nothing without a history. */
  void annotate(std::string name);
  /** @brief Every segment and block, with their tags; with a history also its events, times,
   *         stacks and annotations. Does not wait for the GPU; threads that allocate wait while the
   *         history is read, not while functions are named. */
  [[nodiscard]] trace::TorchSnapshot snapshot();
  /** @} */

 private:
  [[gnu::always_inline]] static StreamRef ref(CUstream_st* stream) noexcept {
    return StreamRef{plain_stream(stream)};
  }

  struct State;
  std::unique_ptr<State> state_;
};

/**
 * @brief The memory that a program uses for a GPU if it names none.
 *
 * Inside a DefaultMemoryScope of the calling thread, it is that scope's memory. Otherwise it is one
 * object for each GPU, made at the first call with default options. It is never destroyed, so
 * memory may be freed at any time, also by destructors of static objects; the process returns it
 * when it ends.
 * @throws DeviceError as the constructor of DeviceMemory; the next call then tries again
 */
[[nodiscard]] DeviceMemory& default_memory(int device_id);

/**
 * @brief Makes `memory` the calling thread's default for its GPU while this object lives.
 *
 * Scopes nest. End a scope on the thread that began it, in reverse order; `memory` outlives it.
 */
class DefaultMemoryScope {
 public:
  explicit DefaultMemoryScope(DeviceMemory& memory) noexcept;
  ~DefaultMemoryScope();
  DefaultMemoryScope(const DefaultMemoryScope&) = delete;
  DefaultMemoryScope& operator=(const DefaultMemoryScope&) = delete;

 private:
  friend DeviceMemory* find_default_memory(int device_id);
  friend std::vector<DeviceMemory*> default_memories();
  DeviceMemory& memory_;
  DefaultMemoryScope* const outer_;
};

}  // namespace millrace
