#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace::test {

/// A device for tests with real threads. Each stream is a thread that runs host kernels on memory
/// of the process, so that a sanitizer sees missing order. Streams do not block with the legacy
/// stream, which does nothing. The device has no driver pool, no timing and no capture.
class ThreadedDevice final : public Device {
 public:
  explicit ThreadedDevice(std::size_t memory_bytes);
  ~ThreadedDevice() override;

  std::string name() const override { return "threads"; }
  bool modeled() const override { return true; }
  bool has_driver_pool() const override { return false; }
  StreamHandle per_thread_stream() override { return {&capacity_}; }
  std::size_t page_bytes() const override;
  bool can_alias() const override { return true; }

  [[nodiscard]] std::size_t allocated() const noexcept { return allocated_; }

 private:
  /// A place in a stream that is reached once.
  class Milestone {
   public:
    void reach();
    void wait();
    [[nodiscard]] bool reached();

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool reached_ = false;
  };

  class Worker;
  class MappedPages;
  using Work = std::function<void()>;

  void enqueue(StreamHandle stream, Work work);
  [[nodiscard]] std::shared_ptr<Milestone> tail(StreamHandle stream);
  [[nodiscard]] std::shared_ptr<Milestone> latest(EventHandle event);

  void* do_allocate(std::size_t bytes) override;
  void do_free(void* address) override;
  void* do_reserve_range(std::size_t bytes) override;
  void do_release_range(void* base, std::size_t bytes) override;
  void do_map(void* address, std::size_t bytes) override;
  void do_unmap(void* address, std::size_t bytes) override;
  void do_alias(void* to, void* from, std::size_t bytes) override;
  void* do_allocate_host(std::size_t bytes) override { return do_allocate(bytes); }
  void do_free_host(void* address) override { do_free(address); }
  MemoryInfo do_memory_info() override { return {capacity_ - allocated_, capacity_}; }
  StreamHandle do_create_stream(const StreamOptions& options) override;
  void do_destroy_stream(StreamHandle stream) override;
  std::uint64_t do_stream_id(StreamHandle stream) override;
  bool do_blocking(StreamHandle stream) override { return stream == legacy_stream(); }
  bool do_query(StreamHandle stream) override { return tail(stream)->reached(); }
  void do_synchronize(StreamHandle stream) override { tail(stream)->wait(); }
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
  void do_callback(StreamHandle stream, Work function, std::uint64_t serial) override;

  std::size_t capacity_;
  std::atomic<std::size_t> allocated_ = 0;
  std::mutex mutex_;  // protects the members below
  std::map<void*, std::size_t> memory_;
  const std::unique_ptr<MappedPages> pages_;  // pages of growable ranges
  std::map<void*, std::shared_ptr<Worker>> streams_;
  std::vector<std::shared_ptr<Worker>> leaving_;  // destroyed, with work left
  std::map<void*, std::shared_ptr<Milestone>> events_;
  std::uint64_t next_id_ = 1;
};

}  // namespace millrace::test
