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
 * dominated, so an allocator that hands memory on too early is found as well. Rules:
 * reference "Checker rules": an event keeps a snapshot of its stream's clock and re-recording it
 * does not change what earlier waiters got; waiting on a never-recorded event orders nothing;
 * legacy-stream operations join every blocking stream and are joined by it; a callback is an
 * actor of its own; destroying a stream orders nothing. Calls must arrive in host order.
 * Not synchronised.
 */
class RaceChecker {
 public:
  using Actor = std::uint32_t;     ///< from add_stream / add_thread
  using EventKey = std::uint64_t;  ///< the caller's name of an event
  using OpIndex = std::uint64_t;   ///< position in the checker's operation log

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
    std::string message;  ///< e.g. "record on copy after op 91 (h2d), wait on main before op 104"
  };

  RaceChecker();
  ~RaceChecker();
  RaceChecker(RaceChecker&&) noexcept;
  RaceChecker& operator=(RaceChecker&&) noexcept;

  [[nodiscard]] Actor add_stream(std::string name, bool blocking = true, bool legacy = false);
  [[nodiscard]] Actor add_thread(std::string name);
  void remove_stream(Actor stream);

  /** @brief An operation enqueued on `stream` by `thread`. Accesses follow with `access`. */
  OpIndex enqueue(Actor stream, Actor thread, std::string_view name);
  /** @brief Host code on `thread` that touches memory now (a fill of pinned memory, a read-back).
   */
  OpIndex host_operation(Actor thread, std::string_view name);
  /** @brief The range that operation `op` touches. */
  void access(OpIndex op, const void* address, std::size_t bytes, Access kind);

  void record(EventKey event, Actor stream, Actor thread);
  void wait(Actor stream, EventKey event, Actor thread);
  void event_synchronized(EventKey event, Actor thread);  ///< or a query that said complete
  void stream_synchronized(Actor stream, Actor thread);   ///< or a query that said complete
  void device_synchronized(Actor thread);
  void forget_event(EventKey event);
  /** @brief A callback on `stream`: an actor that starts after its work; later work follows it. */
  [[nodiscard]] Actor begin_callback(Actor stream, Actor thread, std::string_view name);
  void end_callback(Actor callback);
  /** @brief Host-side synchronisation through `object` (a mutex, a queue, an allocator's lock). */
  void release(Actor thread, std::uint64_t object);
  void acquire(Actor thread, std::uint64_t object);

  /** @brief The range starts a new generation, first used by `user`: old accesses must be before.
   */
  void allocated(const void* address, std::size_t bytes, Actor user, Actor thread);
  /** @brief For memory that `thread` itself will use at once (pinned memory). */
  void allocated_for_host(const void* address, std::size_t bytes, Actor thread);
  void freed(const void* address, Actor thread);

  [[nodiscard]] const std::vector<Race>& races() const noexcept;
  /** @brief Memory kept: accesses that may still matter. */
  [[nodiscard]] std::size_t history_size() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
