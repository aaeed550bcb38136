#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "millrace/device/aliased_pages.hpp"
#include "millrace/device/device.hpp"

namespace millrace {

/**
 * @brief A device without memory or work. Its streams complete when a log says so.
 *
 * Allocations get the addresses that are expected next, or addresses far above all recorded ones.
 */
class TraceDevice final : public Device {
 public:
  /** @param bytes  memory of the device; 0: unlimited */
  explicit TraceDevice(std::size_t bytes);

  std::string name() const override { return "trace"; }
  bool modeled() const override { return true; }
  bool has_driver_pool() const override { return false; }
  // Must not equal the legacy stream's handle, 0.
  StreamHandle per_thread_stream() override { return {reinterpret_cast<void*>(2)}; }  // NOLINT
  std::size_t page_bytes() const override { return kPage; }
  bool can_alias() const override { return true; }

  /** @brief Gives this address to the next allocation of this size. */
  void expect(std::uint64_t address, std::size_t bytes);
  /** @brief Lets the next range begin here, even inside another one, unless a range begins here. */
  void expect_range(std::uint64_t base) { expected_range_ = base; }
  /** @brief Adds a range that the allocator got in another way. */
  void adopt_range(std::uint64_t base) { ranges_.insert(base); }
  /** @brief Adds mapped memory in a range. */
  void adopt_pages(std::uint64_t address, std::size_t bytes);
  /** @brief Forgets expected addresses that were not used. @return their number */
  std::size_t unexpect();
  /** @brief Declares all work on `stream`, past and future, complete. */
  void finish(StreamHandle stream);
  /** @brief Adds memory that the allocator got in another way. */
  void adopt(std::uint64_t address, std::size_t bytes);

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;

  struct EventState {
    StreamHandle stream;
    bool recorded = false;
  };

  [[nodiscard]] bool is_free(std::uint64_t address, std::size_t bytes) const;
  [[nodiscard]] std::optional<std::uint64_t> place(std::size_t bytes);

  void* do_allocate(std::size_t bytes) override;
  void cut_pages(std::uint64_t from, std::uint64_t to);
  void do_free(void* address) override;
  void* do_allocate_host(std::size_t bytes) override;
  void do_free_host(void*) override {}
  MemoryInfo do_memory_info() override;
  void* do_reserve_range(std::size_t bytes) override;
  void do_release_range(void* base, std::size_t) override;
  void do_map(void* address, std::size_t bytes) override;
  void do_unmap(void* address, std::size_t bytes) override;
  void do_alias(void* to, void* from, std::size_t bytes) override {
    aliased_.alias(to, from, bytes);
  }
  StreamHandle do_create_stream(const StreamOptions&) override;
  void do_destroy_stream(StreamHandle) override {}
  std::uint64_t do_stream_id(StreamHandle stream) override;
  bool do_blocking(StreamHandle stream) override { return blocking_.contains(stream.value); }
  bool do_query(StreamHandle stream) override;
  void do_synchronize(StreamHandle) override {}
  void do_synchronize() override {}
  EventHandle do_create_event(bool) override;
  void do_destroy_event(EventHandle event) override;
  void do_record(EventHandle event, StreamHandle stream) override;
  void do_wait(StreamHandle, EventHandle) override {}
  bool do_query(EventHandle event) override;
  void do_synchronize(EventHandle) override {}
  Nanoseconds do_event_time(EventHandle) override { return Nanoseconds{0}; }
  void do_copy(void*, const void*, std::size_t, CopyKind, StreamHandle) override {}
  void do_fill(void*, unsigned char, std::size_t, StreamHandle) override {}
  void do_launch(Operation, StreamHandle) override {}
  void do_callback(StreamHandle, std::function<void()> function, std::uint64_t) override;

  std::size_t bytes_;
  std::size_t used_ = 0;
  AliasedPages aliased_{kPage};
  std::uint64_t next_address_ = std::uint64_t{1} << 47;
  std::uint64_t next_handle_ = 16;
  std::deque<std::pair<std::uint64_t, std::size_t>> expected_;
  std::optional<std::uint64_t> expected_range_;
  std::set<std::uint64_t> ranges_;                // first addresses of recorded ranges
  std::map<std::uint64_t, std::uint64_t> pages_;  // mapped memory in them: begin, end
  std::map<std::uint64_t, std::size_t> taken_;
  std::unordered_map<void*, EventState> events_;
  std::unordered_set<void*> finished_, blocking_;
};

}  // namespace millrace
