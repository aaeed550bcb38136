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
 * @brief Reports what a program does on its devices, threads and memory to a RaceChecker.
 *
 * Use one object for all devices of a run. Attach it before streams are made: a stream made before
 * is treated as a non-blocking stream.
 *
 * Host threads are identified automatically; inside a host callback, the callback is the actor. The
 * order between host threads comes from an attached executor (spawn, join, conditions), and from
 * `released` and `acquired`, which code with its own lock must call. Without these calls, a pinned
 * buffer that one thread fills and another thread enqueues counts as a race. If one thread sees
 * that work is complete, its OrderedDevice records it. Another thread is ordered after that work
 * if, because of this record, it gets memory from an allocator or needs no wait.
 *
 * On a virtual device, pageable host memory is not checked: a copy has finished with it when the
 * call returns.
 *
 * Thread-safe. Calls of several threads are ordered by their arrival.
 */
class CheckingObserver final : public HostOrderObserver {
 public:
  CheckingObserver();
  ~CheckingObserver() override;  ///< detaches from all attached objects
  CheckingObserver(const CheckingObserver&) = delete;
  CheckingObserver& operator=(const CheckingObserver&) = delete;

  /**
   * @brief Observes `device` until `detach`. Call it while no other thread uses the device.
   * @param device  must not be destroyed while it is attached
   */
  void attach(Device& device);
  /** @brief Stops observing `device`. */
  void detach(Device& device);
  /**
   * @brief Observes the order between the actors of `executor`. Call it while no actor runs.
   * @param executor  only one may be attached; outlives this observer
   */
  void attach(Executor& executor);

  /** @brief Sets the thread's name in messages. The default is "thread 1", "thread 2", ... */
  void name_this_thread(std::string_view name);

  void released(std::uint64_t object) override;
  void acquired(std::uint64_t object) override;
  void ended() override;

  /**
   * @brief Reports that the calling thread reads pinned memory.
   * @param address  begin of the memory
   * @param bytes    size of the memory
   * @param name     the operation's name in messages
   */
  void host_reads(const void* address, std::size_t bytes, std::string_view name);
  /** @brief Reports that the calling thread writes pinned memory. Parameters like `host_reads`. */
  void host_writes(const void* address, std::size_t bytes, std::string_view name);

  /**
   * @brief Reports an allocation, after it was made.
   * @param address  begin of the memory
   * @param bytes    size of the memory
   * @param device   the device of `user`; must be attached
   * @param user     the stream that uses the memory first
   * @throws std::invalid_argument if part of the memory is allocated already
   */
  void allocated(const void* address, std::size_t bytes, Device& device, StreamHandle user);
  /** @brief Reports an allocation of pinned memory that the calling thread uses first. */
  void allocated_for_host(const void* address, std::size_t bytes);
  /**
   * @brief Reports a free, before it is made.
   * @throws std::invalid_argument if no allocation begins at `address`
   */
  void freed(const void* address);

  /** @brief Returns the races found so far. */
  [[nodiscard]] std::vector<RaceChecker::Race> races() const;
  /** @brief Returns the number of operations, allocations and frees seen so far. */
  [[nodiscard]] std::uint64_t operations() const;

 private:
  struct State;
  class Tap;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
