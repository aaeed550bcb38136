#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/device/executor.hpp"
#include "millrace/ordering/race_checker.hpp"

namespace millrace {

/**
 * @brief Feeds a RaceChecker with what a program does on its devices, threads and memory.
 *
 * One for all devices of a run. Attached before streams are made: one that was made before is taken
 * for a non-blocking stream. Threads are told apart by themselves, and inside a host callback the
 * callback is the actor. Orders between host threads come from an attached executor (spawn, join,
 * conditions) and from `released` / `acquired`, which a queue with a lock of its own has to tell; a
 * pinned buffer that one thread fills and another one enqueues is a race without. What any thread
 * saw complete is known to the allocators, and through them to every thread that is given memory.
 * On a virtual device pageable host memory is not watched: a copy has finished with it when the
 * call returns.
 * Thread-safe; calls of several threads count in the order in which they get here.
 */
class CheckingObserver final : public HostOrderObserver {
 public:
  CheckingObserver();
  ~CheckingObserver() override;  ///< detaches from what is still attached
  CheckingObserver(const CheckingObserver&) = delete;
  CheckingObserver& operator=(const CheckingObserver&) = delete;

  /** @brief From now on, until detached. The device outlives that. Not while others use it. */
  void attach(Device& device);
  void detach(Device& device);
  /** @brief At most one; outlives this observer. While none of its actors runs. */
  void attach(Executor& executor);

  /** @brief For messages; else threads are "thread 1", "thread 2", ... */
  void name_this_thread(std::string_view name);

  void released(std::uint64_t object) override;
  void acquired(std::uint64_t object) override;
  void ended() override;

  /** @brief The calling thread touches memory that devices see as well: pinned memory. */
  void host_reads(const void* address, std::size_t bytes, std::string_view name);
  void host_writes(const void* address, std::size_t bytes, std::string_view name);

  /**
   * @brief An allocator has given this out, for `user` to use first. Told when it has.
   * @throws std::invalid_argument if part of it is allocated already
   */
  void allocated(const void* address, std::size_t bytes, Device& device, StreamHandle user);
  /** @brief The same for pinned memory that the calling thread uses first. */
  void allocated_for_host(const void* address, std::size_t bytes);
  /** @brief About to be given back. @throws std::invalid_argument if it is not allocated */
  void freed(const void* address);

  [[nodiscard]] std::vector<RaceChecker::Race> races() const;
  /** @brief Operations, allocations and frees seen so far. */
  [[nodiscard]] std::uint64_t operations() const;

 private:
  struct State;
  class Tap;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
