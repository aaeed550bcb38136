#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/**
 * @brief Finds memory accesses that nothing orders, and names the missing edge.
 *
 * Actors are streams, host threads and host callbacks. Each has a vector clock over *operations*,
 * not over markers. The checker shares no code with Ledger, so that one mistake cannot hide in
 * both. Memory is an interval map for each generation of an allocation. The history of an
 * allocation is kept after its free until later accesses dominate it, so the checker also finds an
 * allocator that gives memory to the next user too early.
 *
 * Order of operations
 * - An operation comes after all earlier work on its stream, and after everything that the
 *   enqueuing thread had done or seen complete.
 * - An event keeps a snapshot of its stream; recording it again does not change earlier waits. A
 *   wait for an event that was never recorded orders nothing.
 * - Each operation, record and wait on the legacy stream comes after all earlier work, and before
 *   all later work, on the blocking streams of its device.
 * - A callback comes after all earlier work on its stream and before all later work there. It is
 *   not ordered with the thread that enqueued it. Its accesses may be reported late, when it runs.
 *   An edge that it acquires orders the callback and the work enqueued after its end.
 * - A meeting of streams orders all work before any part with all work after any part. Since calls
 *   arrive in host order, this holds only for work reported after the last part. Work on one stream
 *   after its part, and work on another stream before its part that is reported later, are not
 *   ordered.
 * - Removing a stream orders nothing.
 *
 * Kinds of races
 * - two accesses of the same byte, at least one of them a write, neither of which happens before
 *   the other (`early_reuse` if they belong to different allocations of that byte);
 * - `early_reuse`: an access that does not happen before the next operation of the stream (or
 *   thread) that the memory is allocated for next;
 * - `use_after_free`: an access that is reported after the free, or enqueued by a call that does
 *   not happen before the free; in a driver's pool, an access not before the free in stream order;
 * - `use_before_allocate`: an access that does not happen after the allocating call; in a driver's
 *   pool, not after it in stream order.
 *
 * The last two apply only to memory that was reported as an allocation at least once.
 *
 * If an operation races with earlier ones, at least one such pair is reported, and each pair once.
 * Calls must arrive in host order. Not thread-safe. Every function that takes an actor throws
 * std::invalid_argument if the actor does not exist or is of the wrong kind.
 */
class RaceChecker {
 public:
  using Actor = std::uint32_t;     ///< from add_stream, add_thread or begin_callback
  using EventKey = std::uint64_t;  ///< the caller's number for an event
  using OpIndex = std::uint64_t;   ///< operations, allocations and frees, counted from 1

  enum class Access { read, write };  ///< what an operation does with a range
  /** @brief The kinds of races. The comment of the class defines them. */
  enum class RaceKind {
    read_after_write,
    write_after_read,
    write_after_write,
    early_reuse,
    use_after_free,
    use_before_allocate
  };

  /** @brief Two operations that nothing orders. */
  struct Race {
    RaceKind kind;
    OpIndex first;                        ///< the operation that should have come first
    OpIndex second;                       ///< the operation that is not ordered after it
    std::string message;                  ///< the two operations, and a cheap edge that orders them
    std::string first_name, second_name;  ///< as the operations were named when reported
  };

  RaceChecker();
  ~RaceChecker();
  RaceChecker(RaceChecker&&) noexcept;
  RaceChecker& operator=(RaceChecker&&) noexcept;

  /**
   * @brief Adds a stream.
   * @param name      the stream's name in messages
   * @param blocking  whether it synchronizes with the legacy stream of its device
   * @param legacy    whether it is the legacy stream of its device
   * @param device    the caller's number for the stream's device
   * @return the actor, for the other calls
   * @throws std::invalid_argument for a second legacy stream of `device`
   */
  [[nodiscard]] Actor add_stream(std::string name, bool blocking = true, bool legacy = false,
                                 unsigned device = 0);
  /**
   * @brief Adds a thread. It comes after nothing until it acquires what its creator released.
   *
   * Add a thread when it is created: accesses that come before all known threads are forgotten
   * after a while.
   * @param name  the thread's name in messages
   * @return the actor, for the other calls
   */
  [[nodiscard]] Actor add_thread(std::string name);
  /**
   * @brief Removes a stream; its work continues. A new actor may get its number once nothing refers
   *        to it.
   */
  void remove_stream(Actor stream);
  /** @brief Removes a thread that has ended. Orders nothing: a joiner acquires what it released. */
  void remove_thread(Actor thread);

  /**
   * @brief Reports an operation enqueued on `stream` by `thread`.
   * @param stream  the stream that executes the operation
   * @param thread  a thread or a callback
   * @param name    the operation's name in messages
   * @return its number, for `access`
   */
  OpIndex enqueue(Actor stream, Actor thread, std::string_view name);
  /**
   * @brief Reports host code that accesses memory now, for instance filling pinned memory.
   * @return its number, for `access`
   */
  OpIndex host_operation(Actor thread, std::string_view name);
  /**
   * @brief Reports a range that an operation accesses. Finds the races of this access.
   * @param op       the latest operation of its actor
   * @param address  begin of the range
   * @param bytes    size of the range; 0 is ignored
   * @param kind     whether the operation reads or writes the range
   * @throws std::invalid_argument if `op` is not the latest operation of any actor
   */
  void access(OpIndex op, const void* address, std::size_t bytes, Access kind);

  /** @brief Reports that `thread` recorded `event` on `stream`. */
  void record(EventKey event, Actor stream, Actor thread);
  /** @brief Reports that `thread` made `stream` wait for `event`. */
  void wait(Actor stream, EventKey event, Actor thread);
  /**
   * @brief Reports that the latest operation of `stream` is one part of a meeting.
   * @param meeting  the caller's number for the meeting
   * @param parties  number of parts of the meeting
   * @param stream   the stream of this part
   */
  void meet(std::uint64_t meeting, std::size_t parties, Actor stream);
  /** @brief Reports that `thread` saw the event complete, by a synchronization or a query. */
  void event_synchronized(EventKey event, Actor thread);
  /** @brief Reports that `thread` saw the stream complete, by a synchronization or a query. */
  void stream_synchronized(Actor stream, Actor thread);
  /** @brief Reports that `thread` synchronized a device. */
  void device_synchronized(Actor thread, unsigned device = 0);
  void forget_event(EventKey event);  ///< call it when the event is destroyed
  /** @brief Reports that a callback is enqueued. It is its own actor until `end_callback`. */
  [[nodiscard]] Actor begin_callback(Actor stream, Actor thread, std::string_view name);
  void end_callback(Actor callback);  ///< reports that the callback has returned
  /**
   * @brief Reports host synchronization through `object` (a mutex, a queue, a lock). All that
   *        `thread` did so far comes before all that follows the next `acquire` of the object.
   */
  void release(Actor thread, std::uint64_t object);
  /** @brief Reports that `thread` comes after all earlier `release` calls with `object`. */
  void acquire(Actor thread, std::uint64_t object);

  /**
   * @brief Reports an allocation: the range starts a new generation.
   * @param address  begin of the range
   * @param bytes    size of the range
   * @param user     the stream that uses the memory first
   * @param thread   the actor that made the call
   * @param name     the call's name in messages
   * @return the number of the allocation among all operations
   * @throws std::invalid_argument if part of the range is allocated already
   */
  OpIndex allocated(const void* address, std::size_t bytes, Actor user, Actor thread,
                    std::string_view name = "allocate");
  /** @brief Reports an allocation of pinned memory that `thread` uses first. */
  OpIndex allocated_for_host(const void* address, std::size_t bytes, Actor thread,
                             std::string_view name = "allocate");
  /**
   * @brief Reports an allocation whose first user is not known. Only its accesses are compared with
   *        those of earlier generations.
   */
  OpIndex allocated_for_any(const void* address, std::size_t bytes, Actor thread,
                            std::string_view name = "allocate");
  /** @brief Reports a free. @throws std::invalid_argument if no allocation begins at `address` */
  OpIndex freed(const void* address, Actor thread, std::string_view name = "free");
  /**
   * @brief Reports that the memory at `from` is also at `to` from now on. Earlier accesses count at
   *        both addresses, later accesses at the address that they use.
   * @throws std::invalid_argument if part of `to` is allocated
   */
  void aliased(const void* to, const void* from, std::size_t bytes);
  /**
   * @brief Forgets the accesses of a range. Call it for host memory that is freed: malloc may
   *        return it for another purpose.
   * @throws std::invalid_argument if part of it is allocated
   */
  void forget(const void* address, std::size_t bytes);

  /**
   * @brief Reports an allocation from a driver's stream-ordered pool. The allocation and the free
   *        are operations of `stream`: every use must come after the allocation and before the
   *        free.
   *
   * The pool orders a free before the next allocation of the memory in ways that are not visible
   * here; the checker assumes that it does so correctly.
   * @return the number of the allocation among all operations
   * @throws std::invalid_argument if part of the range is allocated already
   */
  OpIndex pool_allocated(const void* address, std::size_t bytes, Actor stream, Actor thread,
                         std::string_view name = "allocation from the pool");
  /**
   * @brief Reports a free to a driver's pool.
   * @throws std::invalid_argument if no allocation begins at `address`
   */
  OpIndex pool_freed(const void* address, Actor stream, Actor thread,
                     std::string_view name = "free to the pool");

  /** @brief Returns the races found so far, without those that `take_races` returned. */
  [[nodiscard]] const std::vector<Race>& races() const noexcept;
  /**
   * @brief Returns the races since the last call and forgets them, so that memory does not grow
   *        with the length of a run.
   */
  [[nodiscard]] std::vector<Race> take_races();
  /**
   * @brief Forgets accesses that come before all future work. The checker also does this from time
   *        to time, so that memory does not grow with the length of a run. Call it before
   *        `history_size`.
   */
  void forget_dominated();
  /** @brief Returns the number of accesses that are kept because they may still matter. */
  [[nodiscard]] std::size_t history_size() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/** @brief Returns the kind's name: "read after write", "early reuse", ... */
[[nodiscard]] const char* to_string(RaceChecker::RaceKind kind) noexcept;

}  // namespace millrace
