#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/virtual/driver_pool.hpp"
#include "device/virtual/machine.hpp"
#include "device/virtual/memory.hpp"
#include "device/virtual/work.hpp"
#include "millrace/device/virtual_device.hpp"

namespace millrace::simulation {

constexpr std::uintptr_t kLegacyHandle = 1;     // in addition to the null handle, as in CUDA
constexpr std::uintptr_t kPerThreadHandle = 2;  // means another stream for each actor

/** @brief Counts for how long each engine was busy. */
class BusyTimes {
 public:
  void begin(Engine engine, Nanoseconds when);
  void end(Engine engine, Nanoseconds when);
  [[nodiscard]] Nanoseconds total(Engine engine, Nanoseconds now) const;

 private:
  struct EngineTime {
    unsigned running = 0;
    Nanoseconds since{0};
    Nanoseconds total{0};
  };
  std::array<EngineTime, static_cast<std::size_t>(Engine::count_)> engines_;
};

/** @brief The place of a range of memory, for a copy or a kernel. */
struct Place {
  DeviceModel* device = nullptr;  ///< nullptr: host memory
  bool pinned = false;
  std::byte* data = nullptr;  ///< nullptr on a device without data
};

/** @brief The state of one virtual device. */
class DeviceModel {
 public:
  DeviceModel(Machine& machine, unsigned ordinal, const VirtualDevice::Options& options);
  ~DeviceModel();

  /**
   * @brief Begins a call: checks that the calling actor may make it now, and charges its host time.
   */
  void enter(Call call, Nanoseconds more_host_time = Nanoseconds{0});
  /** @brief Begins a call that enqueues. Also waits for room in the launch queue. */
  void enter_enqueue(Call call);

  /** @throws DeviceError if the handle is not that of a stream of this device */
  [[nodiscard]] StreamState& stream(StreamHandle handle, Call call);
  /** @throws DeviceError also if its capture status is not `none` */
  [[nodiscard]] StreamState& working_stream(StreamHandle handle, Call call);
  [[nodiscard]] EventState& event(EventHandle handle, Call call);

  [[nodiscard]] StreamHandle add_stream(const StreamOptions& options);
  void destroy_stream(StreamHandle handle);
  [[nodiscard]] CaptureStatus capture_status(const StreamState& stream) const;
  /** @throws DeviceError (`capture`) unless the stream's capture status is `none` */
  void refuse_captured(const StreamState& stream, Call call) const;
  /** @throws DeviceError (`capture`) if any stream is captured */
  void refuse_any_capture(Call call) const;

  /** @brief Adds the item, and the dependencies that the rule of the legacy stream requires. */
  std::shared_ptr<WorkItem> enqueue(StreamState& stream, std::shared_ptr<WorkItem> item);
  [[nodiscard]] std::vector<std::shared_ptr<WorkItem>> last_items() const;
  /** @brief Lets the pool give memory back. Call it after a synchronization. */
  void synchronized(Call call);

  /** @throws DeviceError if a device range is not allocated */
  [[nodiscard]] Place place(const void* address, std::size_t bytes, Call call) const;

  /**
   * @brief Returns the host time to map or unmap the pages of `bytes`, without the call's own time.
   */
  [[nodiscard]] Nanoseconds mapping_time(std::size_t bytes) const;
  [[nodiscard]] Nanoseconds alias_time(std::size_t bytes) const;
  [[nodiscard]] Demand kernel_demand(const Cost& cost) const;
  [[nodiscard]] Demand copy_demand(std::size_t bytes, double bandwidth) const;
  [[nodiscard]] Demand local_copy_demand(std::size_t bytes) const;
  [[nodiscard]] Demand fill_demand(std::size_t bytes) const;

  void start_callback_actor();
  void add_callback(std::shared_ptr<WorkItem> item, Nanoseconds when);
  void lose(const std::string& why);
  void item_done(Nanoseconds when);  ///< frees a place in the launch queue

  Machine& machine;
  const unsigned ordinal;
  const DeviceProfile profile;
  const unsigned queue_depth;
  const bool data;
  DeviceMemory memory;
  const std::size_t page_bytes;  ///< page size of growable ranges
  DriverPool pool;
  BusyTimes busy;
  std::size_t pending = 0;
  std::list<std::unique_ptr<StreamState>> default_streams;  ///< legacy first, then per thread
  std::map<unsigned, StreamState*> thread_streams;          ///< key: actor
  std::vector<StreamState*> streams;                        ///< all streams that may have work
  std::deque<std::pair<Actor*, std::uint64_t>> room_waiters;

 private:
  [[nodiscard]] StreamState& legacy() const { return *default_streams.front(); }
  StreamState& thread_stream();
  std::unique_ptr<StreamState> make_stream(const StreamOptions& options);
  void run_callbacks();

  void forget_drained();
  void check_alive(Call call) const;

  std::string lost_;
  std::vector<std::unique_ptr<StreamState>> draining_;  ///< destroyed streams that still have work
  std::deque<std::pair<std::shared_ptr<WorkItem>, Nanoseconds>> callbacks_;
  Actor* callback_actor_ = nullptr;
  bool callback_actor_idles_ = false;
};

}  // namespace millrace::simulation
