#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "millrace/device/error.hpp"
#include "millrace/device/operation.hpp"

namespace millrace {

/** @brief A driver's stream handle (CUDA: `cudaStream_t`); 0 is the legacy default stream. */
struct StreamHandle {
  void* value = nullptr;
  friend bool operator==(StreamHandle, StreamHandle) = default;
};

/** @brief A driver's event handle (CUDA: `cudaEvent_t`). */
struct EventHandle {
  void* value = nullptr;
  friend bool operator==(EventHandle, EventHandle) = default;
};

/** @brief Where a copy reads and where it writes. Pinned and pageable memory are both `host`. */
enum class CopyKind { host_to_device, device_to_host, device_to_device, host_to_host };

/** @brief The state of a stream in captures of CUDA graphs (cudaStreamCaptureStatus). */
enum class CaptureStatus : std::uint8_t {
  none,         ///< not captured: its work runs
  active,       ///< captured: its work becomes nodes of a graph
  invalidated,  ///< captured, but an earlier call broke the capture; it still has to be ended
  blocked,      ///< the legacy stream, which would wait for a captured blocking stream
};

/** @brief Returns whether the stream itself is captured, so that its work is not run now. */
[[nodiscard]] constexpr bool is_captured(CaptureStatus status) noexcept {
  return status == CaptureStatus::active || status == CaptureStatus::invalidated;
}

/** @brief Returns why calls on a stream with this status are refused, for messages. */
[[nodiscard]] const char* why_refused(CaptureStatus status) noexcept;

/** @brief Names of the driver calls that Millrace makes, for counting and for injecting errors. */
enum class Call : unsigned char {
  allocate,
  free,
  allocate_host,
  free_host,
  allocate_async,
  free_async,
  trim_pool,
  memory_info,
  reserve_range,
  release_range,
  map,
  unmap,
  create_stream,
  destroy_stream,
  stream_id,
  stream_flags,
  capture_status,
  create_event,
  destroy_event,
  record,
  wait,
  query_event,
  query_stream,
  synchronize_event,
  synchronize_stream,
  synchronize_device,
  copy,
  fill,
  launch,
  callback,
  event_time,
  count_  ///< number of enumerators
};

/** @brief Returns the call's name, for messages. */
[[nodiscard]] const char* to_string(Call call) noexcept;

/** @brief How a stream is made. */
struct StreamOptions {
  bool blocking = false;  ///< whether it synchronizes with the legacy stream
  int priority = 0;       ///< lower numbers run first, as in CUDA
  std::string name;       ///< shown in reports and timelines
};

/** @brief Memory of a device, in bytes. */
struct MemoryInfo {
  std::size_t free = 0;  ///< bytes that the driver can still allocate
  std::size_t total = 0;
};

/** @brief State of the driver's own stream-ordered pool, in bytes. */
struct DriverPoolInfo {
  std::size_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
};

/**
 * @brief Receives each call on a device, in host order. Used by the race checker, traces and tests.
 *
 * `before` may throw a DeviceError; the call is then not made (fault injection). The other
 * functions are called on the calling thread after the call succeeded. They must not throw and must
 * not call the device. `after` comes last, also if the call failed.
 */
class DeviceObserver {
 public:
  virtual ~DeviceObserver() = default;
  virtual void before(Call) {}
  virtual void after(Call) {}
  virtual void stream_created(StreamHandle, const StreamOptions&) {}
  virtual void stream_destroyed(StreamHandle) {}
  virtual void enqueued(StreamHandle, const Operation&) {}  ///< a kernel, copy or fill
  virtual void recorded(EventHandle, StreamHandle) {}
  virtual void waited(StreamHandle, EventHandle) {}
  virtual void event_completed(EventHandle) {}    ///< after a synchronization or a query
  virtual void stream_completed(StreamHandle) {}  ///< after a synchronization or a query
  virtual void device_completed() {}
  /**
   * @brief Reports that the calling thread is now ordered after all completions that any thread has
   *        seen. This is not a driver call.
   */
  virtual void completions_learned() {}
  virtual void event_destroyed(EventHandle) {}
  /** @brief The pages at `from` are mapped at `to` as well. */
  virtual void aliased(void* /*to*/, void* /*from*/, std::size_t /*bytes*/) {}
  virtual void pool_allocated(StreamHandle, void* /*address*/, std::size_t /*bytes*/) {}
  /**
   * @brief Reports a free to the driver's pool. Called before the driver call, so that it precedes
   *        the next `pool_allocated` of the same bytes.
   */
  virtual void pool_freed(StreamHandle, void* /*address*/) {}
  /**
   * @brief Reports an enqueued callback. Called before the driver call, so that it precedes
   *        `callback_started`.
   */
  virtual void callback_enqueued(StreamHandle, std::uint64_t /*serial*/) {}
  virtual void callback_started(StreamHandle, std::uint64_t /*serial*/) {}
  /**
   * @brief Reports that a callback ended. Without a preceding `callback_started`, the call failed
   *        and the callback never runs.
   */
  virtual void callback_ended(StreamHandle, std::uint64_t /*serial*/) {}
};

/**
 * @brief The few driver calls that the library needs. All access to a GPU goes through this class.
 *
 * Copies, fills, kernels, records and waits are enqueued: the calls return when the driver's calls
 * would. Every call may throw DeviceError and then has done nothing. Thread-safe. The public
 * functions count calls and inform observers; devices implement the `do_` functions.
 */
class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] virtual std::string name() const = 0;      ///< e.g. "virtual:h200"
  [[nodiscard]] virtual bool modeled() const = 0;          ///< times are modeled, not measured
  [[nodiscard]] virtual bool has_driver_pool() const = 0;  ///< whether `allocate_async` works

  /**
   * @brief Allocates device memory with the driver's synchronous call (cudaMalloc).
   * @param bytes  size in bytes; the driver rounds it up to its granularity
   * @throws DeviceError (`out_of_memory`) if the device has too little free memory
   */
  [[nodiscard]] void* allocate(std::size_t bytes);
  void free(void* address);  ///< may synchronize the device
  /** @brief Allocates `bytes` bytes of pinned host memory (cudaMallocHost). */
  [[nodiscard]] void* allocate_host(std::size_t bytes);
  void free_host(void* address);  ///< may synchronize the device
  /** @brief Returns the free and the total bytes of the device. */
  [[nodiscard]] MemoryInfo memory_info();

  // Growable ranges: reserve addresses first, then map memory in whole pages. The contents of newly
  // mapped memory are unspecified. These calls act at host time: unmap only memory whose uses are
  // complete.
  /** @brief Page size in bytes; 0 if this device cannot map memory: the calls below then fail. */
  [[nodiscard]] virtual std::size_t page_bytes() const { return 0; }
  [[nodiscard]] void* reserve_range(std::size_t bytes);  ///< reserves addresses without memory
  void release_range(void* base, std::size_t bytes);     ///< a whole range with nothing mapped
  void map(void* address, std::size_t bytes);            ///< pages of a range that are not mapped
  void unmap(void* address, std::size_t bytes);          ///< pages that are all mapped; may wait
  /** @brief Returns whether `alias` works. */
  [[nodiscard]] virtual bool can_alias() const { return false; }
  /**
   * @brief Maps the pages at `from` at `to` as well. Work on `from` may still be enqueued.
   *
   * Both addresses are then the same memory, until one of them is unmapped. The device frees the
   * memory when no address maps it. Work that uses one address must be ordered with work that uses
   * the other as if the address were the same: kernels that overlap may not use both. Counts as a
   * call of `map`.
   * @param to     addresses at which nothing is mapped
   * @param from   pages that are all mapped
   * @param bytes  size, in whole pages of the device's ranges
   * @throws DeviceError if these conditions do not hold, or `can_alias()` is false; nothing has
   *         changed then
   */
  void alias(void* to, void* from, std::size_t bytes);

  // The driver's stream-ordered pool (cudaMallocAsync). Without one, these calls throw DeviceError
  // (`not_supported`); `trim_pool` and `pool_info` may also do nothing.
  /**
   * @brief Allocates from the driver's pool. Work enqueued on `stream` from now on may use the
   *        memory.
   */
  [[nodiscard]] void* allocate_async(std::size_t bytes, StreamHandle stream);
  void free_async(void* address, StreamHandle stream);  ///< ordered after the stream's work so far
  void trim_pool(std::size_t keep_bytes);  ///< keeps at least this many bytes in the pool
  /** @brief Returns the state of the driver's pool. Call it only if `has_driver_pool()`. */
  [[nodiscard]] virtual DriverPoolInfo pool_info() { return {}; }

  // Streams. The driver may reuse the handle of a destroyed stream; it never reuses an id.
  [[nodiscard]] StreamHandle create_stream(const StreamOptions& options = {});
  void destroy_stream(StreamHandle stream);  ///< enqueued work still runs
  [[nodiscard]] StreamHandle legacy_stream() const noexcept { return {}; }
  /** @brief Returns the handle that means another stream on each thread (cudaStreamPerThread). */
  [[nodiscard]] virtual StreamHandle per_thread_stream() = 0;
  [[nodiscard]] std::uint64_t stream_id(StreamHandle stream);  ///< the driver's id, never reused
  /**
   * @brief Returns whether the stream synchronizes with the legacy stream (not
   *        cudaStreamNonBlocking).
   */
  [[nodiscard]] bool blocking(StreamHandle stream);
  /**
   * @brief Returns the stream's capture status. Unless the status is `none`, work, records, waits
   *        and synchronization of the stream throw DeviceError (`capture`).
   */
  [[nodiscard]] CaptureStatus capture_status(StreamHandle stream);
  /** @return true if all work enqueued on the stream so far is complete; never blocks */
  [[nodiscard]] bool query(StreamHandle stream);
  void synchronize(StreamHandle stream);  ///< blocks until the stream's work so far is complete
  void synchronize();                     ///< blocks until all work of the device is complete

  /**
   * @brief Creates an event that was not recorded yet.
   * @param timed  whether `event_time` works for it; a timed event costs the driver more
   */
  [[nodiscard]] EventHandle create_event(bool timed = false);
  void destroy_event(EventHandle event);  ///< enqueued records and waits still take effect
  /**
   * @brief Records the event after the stream's work so far. Earlier waits keep the earlier record.
   */
  void record(EventHandle event, StreamHandle stream);
  /**
   * @brief Orders later work of `stream` after the newest record of `event`. The host does not
   *        block. An event that was never recorded orders nothing.
   */
  void wait(StreamHandle stream, EventHandle event);
  /** @return true if the work before the newest record is complete, or the event was never
   *          recorded; never blocks */
  [[nodiscard]] bool query(EventHandle event);
  /** @brief Blocks the host until the work before the newest record is complete. */
  void synchronize(EventHandle event);
  /** @brief Returns the time of a timed, completed event, measured from the device's own epoch. */
  [[nodiscard]] Nanoseconds event_time(EventHandle event);

  // Work. A copy from or to pageable host memory blocks, as in CUDA.
  /**
   * @brief Copies `bytes` bytes after the stream's work so far. `kind` says where `to` and `from`
   *        are.
   */
  void copy(void* to, const void* from, std::size_t bytes, CopyKind kind, StreamHandle stream);
  /** @brief Sets `bytes` bytes to `value` after the stream's work so far. */
  void fill(void* address, unsigned char value, std::size_t bytes, StreamHandle stream);
  /** @brief Runs the operation after the stream's work so far. */
  void launch(Operation operation, StreamHandle stream);
  /**
   * @brief Runs `function` on a driver thread after the stream's work so far. The function must not
   *        call the device.
   */
  void callback(StreamHandle stream, std::function<void()> function);

  /** @brief Returns the number of calls of this kind so far, including failed ones. */
  [[nodiscard]] std::uint64_t calls(Call call) const noexcept;
  /** @brief Returns the number of all calls so far, including failed ones. */
  [[nodiscard]] std::uint64_t calls() const noexcept;

  /** @brief Adds an observer, which is not owned. Call it while no other thread uses the device. */
  void add_observer(DeviceObserver& observer);
  void remove_observer(DeviceObserver& observer);

  /**
   * @brief Informs observers that the calling thread is ordered after all completions that any
   *        thread has seen, because it has synchronized with those threads. Not a driver call.
   */
  void learn_completions();

 protected:
  Device() = default;

 private:
  // The functions that a device implements. Calls that not every device has (ranges, the driver's
  // pool, capture) refuse or do nothing here, so that only devices with them override them.
  virtual void* do_allocate(std::size_t bytes) = 0;
  virtual void do_free(void* address) = 0;
  virtual void* do_allocate_host(std::size_t bytes) = 0;
  virtual void do_free_host(void* address) = 0;
  virtual MemoryInfo do_memory_info() = 0;
  virtual void* do_reserve_range(std::size_t bytes);
  virtual void do_release_range(void* base, std::size_t bytes);
  virtual void do_map(void* address, std::size_t bytes);
  virtual void do_unmap(void* address, std::size_t bytes);
  virtual void do_alias(void* to, void* from, std::size_t bytes);
  virtual void* do_allocate_async(std::size_t bytes, StreamHandle stream);
  virtual void do_free_async(void* address, StreamHandle stream);
  virtual void do_trim_pool(std::size_t) {}
  virtual StreamHandle do_create_stream(const StreamOptions& options) = 0;
  virtual void do_destroy_stream(StreamHandle stream) = 0;
  virtual std::uint64_t do_stream_id(StreamHandle stream) = 0;
  virtual bool do_blocking(StreamHandle stream) = 0;
  virtual CaptureStatus do_capture_status(StreamHandle) { return CaptureStatus::none; }
  virtual bool do_query(StreamHandle stream) = 0;
  virtual void do_synchronize(StreamHandle stream) = 0;
  virtual void do_synchronize() = 0;
  virtual EventHandle do_create_event(bool timed) = 0;
  virtual void do_destroy_event(EventHandle event) = 0;
  virtual void do_record(EventHandle event, StreamHandle stream) = 0;
  virtual void do_wait(StreamHandle stream, EventHandle event) = 0;
  virtual bool do_query(EventHandle event) = 0;
  virtual void do_synchronize(EventHandle event) = 0;
  virtual Nanoseconds do_event_time(EventHandle event) = 0;
  virtual void do_learn_completions() {}  // for a device in front of another one
  virtual void do_copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
                       StreamHandle stream) = 0;
  virtual void do_fill(void* address, unsigned char value, std::size_t bytes,
                       StreamHandle stream) = 0;
  virtual void do_launch(Operation operation, StreamHandle stream) = 0;
  virtual void do_callback(StreamHandle stream, std::function<void()> function,
                           std::uint64_t serial) = 0;

  /** @brief One call, from before it is made until it has returned or thrown. */
  class Entry {
   public:
    Entry(Device& device, Call call);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    void notify_before() const;
    void notify_after() const noexcept;

    Device& device_;
    const Call call_;
  };

  template <typename Notify>
  void notify_observers(Notify notify);

  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Call::count_)> calls_{};
  std::vector<DeviceObserver*> observers_;
  std::atomic<std::uint64_t> callback_serial_{0};
};

}  // namespace millrace
