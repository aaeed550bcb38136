#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "millrace/device/device.hpp"
#include "millrace/device/profile.hpp"
#include "millrace/device/timeline.hpp"

namespace millrace {

namespace simulation {
class Machine;
class DeviceModel;
struct GrowableRange;
struct WorkItem;
}  // namespace simulation

/** @brief Blocks the work that is enqueued on a stream after the gate, until the gate is opened. */
class Gate {
 public:
  /**
   * @brief Opens the gate. Call it once, from any actor.
   *
   * Work after the gate starts at the time of that actor's clock or later.
   */
  void open();

 private:
  friend class VirtualDevice;
  Gate(simulation::Machine& machine, std::shared_ptr<simulation::WorkItem> operation);
  simulation::Machine* machine_;
  std::shared_ptr<simulation::WorkItem> operation_;
};

/**
 * @brief A deterministic GPU within the process, made by `VirtualMachine::add_device`.
 *
 * Device memory is address space that the host cannot access: a dereference faults. Kernels access
 * it through a second mapping, limited to the views that their Operation declares. Under
 * AddressSanitizer all other memory is poisoned while a kernel runs. If `data` is false no memory
 * is touched, so a large footprint costs no memory.
 *
 * Handles of destroyed streams and events are reused, as in CUDA; stream ids are not. A kernel or
 * callback that throws an exception loses the device. A callback that calls a device gets
 * `not_supported`.
 */
class VirtualDevice final : public Device {
 public:
  /** @brief Which GPU is modeled, and whether its memory has contents. */
  struct Options {
    DeviceProfile profile = DeviceProfile::named("h200");
    std::optional<std::size_t> memory_bytes;     ///< overrides the profile's value
    std::optional<unsigned> launch_queue_depth;  ///< overrides the profile's value
    bool data = true;  ///< whether to run host kernels, copies and fills on real data
  };

  ~VirtualDevice() override;

  [[nodiscard]] std::string name() const override;  ///< "virtual:h200"
  [[nodiscard]] bool modeled() const override { return true; }
  [[nodiscard]] bool has_driver_pool() const override { return true; }
  [[nodiscard]] DriverPoolInfo pool_info() override;
  [[nodiscard]] std::size_t page_bytes() const override;  ///< the profile's granularity
  [[nodiscard]] bool can_alias() const override { return true; }
  /** @brief Like cudaStreamPerThread: one handle that means a different stream for each actor. */
  [[nodiscard]] StreamHandle per_thread_stream() override;

  [[nodiscard]] const DeviceProfile& profile() const noexcept;
  [[nodiscard]] unsigned ordinal()
      const noexcept;  ///< number of this device in its machine, from 0

  /**
   * @brief Returns the offset of `address` in this device's address space; the same in every run.
   */
  [[nodiscard]] std::size_t offset_of(const void* address) const;
  /** @brief Returns the total time so far in which at least one operation ran on `engine`. */
  [[nodiscard]] Nanoseconds busy(Engine engine) const;
  /** @brief Returns the number of operations that were enqueued and have not ended. */
  [[nodiscard]] std::size_t pending() const;

  /** @brief Sets which freed memory the driver's pool reuses, as cudaMemPoolSetAttribute does. */
  void set_pool_policy(const DriverPoolPolicy& policy);
  /**
   * @brief Makes work enqueued on `stream` from now on wait until the gate is opened.
   * @return the gate
   */
  [[nodiscard]] Gate enqueue_gate(StreamHandle stream);
  /**
   * @brief Begins, breaks or ends a simulated capture. Unless `status` is `none`, work, records,
   *        waits and synchronization on `stream` throw DeviceError (`capture`). If `stream` is
   *        blocking, they throw on the legacy stream, too.
   * @param stream  not the legacy stream, which cannot be captured
   * @param status  not `blocked`, which only the legacy stream can be
   */
  void set_capture_status(StreamHandle stream, CaptureStatus status);

 private:
  friend class simulation::Machine;
  explicit VirtualDevice(std::unique_ptr<simulation::DeviceModel> model);
  [[nodiscard]] simulation::DeviceModel& model() const noexcept { return *model_; }
  [[nodiscard]] simulation::GrowableRange& range_with(const void* address, std::size_t bytes,
                                                      Call call);

  void* do_allocate(std::size_t bytes) override;
  void do_free(void* address) override;
  void* do_allocate_host(std::size_t bytes) override;
  void do_free_host(void* address) override;
  MemoryInfo do_memory_info() override;
  void* do_reserve_range(std::size_t bytes) override;
  void do_release_range(void* base, std::size_t bytes) override;
  void do_map(void* address, std::size_t bytes) override;
  void do_unmap(void* address, std::size_t bytes) override;
  void do_alias(void* to, void* from, std::size_t bytes) override;
  void* do_allocate_async(std::size_t bytes, StreamHandle stream) override;
  void do_free_async(void* address, StreamHandle stream) override;
  void do_trim_pool(std::size_t keep_bytes) override;
  StreamHandle do_create_stream(const StreamOptions& options) override;
  void do_destroy_stream(StreamHandle stream) override;
  std::uint64_t do_stream_id(StreamHandle stream) override;
  bool do_blocking(StreamHandle stream) override;
  CaptureStatus do_capture_status(StreamHandle stream) override;
  bool do_query(StreamHandle stream) override;
  void do_synchronize(StreamHandle stream) override;
  void do_synchronize() override;
  EventHandle do_create_event(bool timed) override;
  void do_destroy_event(EventHandle event) override;
  void do_record(EventHandle event, StreamHandle stream) override;
  void do_wait(StreamHandle stream, EventHandle event) override;
  bool do_query(EventHandle event) override;
  void do_synchronize(EventHandle event) override;
  Nanoseconds do_event_time(EventHandle event) override;
  void do_copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
               StreamHandle stream) override;
  void do_fill(void* address, unsigned char value, std::size_t bytes, StreamHandle stream) override;
  void do_launch(Operation operation, StreamHandle stream) override;
  void do_callback(StreamHandle stream, std::function<void()> function,
                   std::uint64_t serial) override;

  std::unique_ptr<simulation::DeviceModel> model_;
};

}  // namespace millrace
