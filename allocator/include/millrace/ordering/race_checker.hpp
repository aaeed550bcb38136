#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/**
 * @brief Finds accesses that nothing orders, and says which edge is missing.
 *
 * Actors are streams, host threads and host callbacks, each with a vector clock over *operations*
 * (not over markers: it shares nothing with Ledger, so that one mistake can not hide in both).
 * Memory is an interval map per allocation generation; history outlives a free until it is
 * dominated, so an allocator that hands memory on too early is found as well.
 *
 * What orders what
 * - An operation follows what was enqueued on its stream before, and all that the thread which
 *   enqueued it had done or seen complete.
 * - An event keeps a snapshot of its stream: recording it again does not change what earlier
 *   waiters got. Waiting on one that was never recorded orders nothing.
 * - Each operation, record and wait on the legacy stream follows all that its device's blocking
 *   streams were given before, and is before all that they are given later.
 * - A callback follows its stream's work so far; what is enqueued there later follows it. It is not
 *   ordered with the thread that enqueued it. Its own accesses may be told late, when it runs; what
 *   it acquires orders itself and what is enqueued after its end.
 * - A meeting of streams orders what each was given before with what each is given after. Told in
 *   host order, it orders what is told later than the last part that concerns it: between work on
 *   one stream behind its part and work told later on another stream before its part, nothing.
 * - Removing a stream orders nothing.
 *
 * What is a race
 * - two accesses of the same byte, one of them a write, and neither before the other
 *   (`early_reuse` if they belong to different allocations of it);
 * - `early_reuse`: an access that is not before the next operation of the stream (or the thread)
 *   that the memory is allocated for next;
 * - `use_after_free`: an access told after the free, or one enqueued by a call that is not before
 * it; in a driver's pool, one that is not before it in stream order;
 * - `use_before_allocate`: an access that is not after the call that allocated; in a driver's pool,
 * not in stream order.
 * The last two only concern memory that was told as an allocation at least once.
 *
 * For each operation that races with earlier ones at least one such pair is reported, each pair
 * once. Calls must arrive in host order. Not synchronised. Every function that takes an actor
 * throws std::invalid_argument if there is none such, or not of that sort.
 */
class RaceChecker {
 public:
  using Actor = std::uint32_t;     ///< from add_stream, add_thread or begin_callback
  using EventKey = std::uint64_t;  ///< the caller's name of an event
  using OpIndex = std::uint64_t;   ///< operations, allocations and frees, counted from 1

  enum class Access { read, write };
  enum class RaceKind {
    read_after_write,
    write_after_read,
    write_after_write,
    early_reuse,
    use_after_free,
    use_before_allocate
  };

  struct Race {
    RaceKind kind;
    OpIndex first;        ///< the operation that had to come before
    OpIndex second;       ///< the one that was not ordered after it
    std::string message;  ///< which two, where, and a cheap edge that would order them
  };

  RaceChecker();
  ~RaceChecker();
  RaceChecker(RaceChecker&&) noexcept;
  RaceChecker& operator=(RaceChecker&&) noexcept;

  /** @throws std::invalid_argument if `device` has a legacy stream already and this is another */
  [[nodiscard]] Actor add_stream(std::string name, bool blocking = true, bool legacy = false,
                                 unsigned device = 0);
  /**
   * @brief Follows nothing until it acquires what the thread that made it released. To be added
   *        when it is made: accesses that every thread here follows are forgotten in time.
   */
  [[nodiscard]] Actor add_thread(std::string name);
  /** @brief Its work goes on. The number may be given to another actor once nothing refers to it.
   */
  void remove_stream(Actor stream);
  /** @brief It has ended. Orders nothing: whoever joined it acquires what it released. */
  void remove_thread(Actor thread);

  /** @brief An operation enqueued on `stream` by `thread` (or by a callback). */
  OpIndex enqueue(Actor stream, Actor thread, std::string_view name);
  /** @brief Host code that touches memory now: a fill of pinned memory, a read-back. */
  OpIndex host_operation(Actor thread, std::string_view name);
  /** @brief A range that `op` touches. To be told before the next operation of the same actor. */
  void access(OpIndex op, const void* address, std::size_t bytes, Access kind);

  void record(EventKey event, Actor stream, Actor thread);
  void wait(Actor stream, EventKey event, Actor thread);
  /** @brief The latest operation of `stream` is one of `parties` parts of this meeting. */
  void meet(std::uint64_t meeting, std::size_t parties, Actor stream);
  void event_synchronized(EventKey event, Actor thread);  ///< or a query that said complete
  void stream_synchronized(Actor stream, Actor thread);   ///< or a query that said complete
  void device_synchronized(Actor thread, unsigned device = 0);
  void forget_event(EventKey event);
  /** @brief A callback is enqueued: an actor of its own, to be ended once it has run. */
  [[nodiscard]] Actor begin_callback(Actor stream, Actor thread, std::string_view name);
  void end_callback(Actor callback);
  /** @brief Host-side synchronisation through `object` (a mutex, a queue, an allocator's lock). */
  void release(Actor thread, std::uint64_t object);
  void acquire(Actor thread, std::uint64_t object);

  /**
   * @brief The range starts a new generation, first used by stream `user`.
   * @throws std::invalid_argument if part of it is allocated already
   */
  OpIndex allocated(const void* address, std::size_t bytes, Actor user, Actor thread);
  /** @brief For memory that `thread` itself will use at once (pinned memory). */
  OpIndex allocated_for_host(const void* address, std::size_t bytes, Actor thread);
  /** @throws std::invalid_argument if nothing is allocated at just this address */
  OpIndex freed(const void* address, Actor thread);

  /**
   * @brief Memory of a driver's stream-ordered pool. Allocating and freeing are operations of
   *        `stream`: every use has to come after the one and before the other. Between a free and
   *        the next allocation the pool orders streams unseen, and is taken at its word.
   * @throws std::invalid_argument as `allocated` and `freed`
   */
  OpIndex pool_allocated(const void* address, std::size_t bytes, Actor stream, Actor thread);
  OpIndex pool_freed(const void* address, Actor stream, Actor thread);

  [[nodiscard]] const std::vector<Race>& races() const noexcept;
  /** @brief Forgets accesses that all to come will follow. Done anyway when there are many. */
  void forget_dominated();
  /** @brief Memory kept: accesses that may still matter. */
  [[nodiscard]] std::size_t history_size() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/** @brief "read after write", "early reuse", ... */
[[nodiscard]] const char* to_string(RaceChecker::RaceKind kind) noexcept;

}  // namespace millrace
