#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check/accesses.hpp"
#include "check/race_log.hpp"
#include "check/rules.hpp"
#include "check/signature.hpp"
#include "check/site.hpp"
#include "engine/engine.hpp"
#include "engine/event.hpp"
#include "engine/gpu.hpp"
#include "engine/settings.hpp"
#include "engine/stream.hpp"
#include "engine/thread.hpp"
#include "millrace/ordering/race_checker.hpp"

namespace millrace::virtual_cuda {

/**
 * @brief Tells a RaceChecker what the program does: its work, waits and memory.
 *
 * Exists only where the program is to be checked; then no call is `quick`, so that every call
 * comes here, under the engine's lock and in the order in which the calls were made. Calls are
 * reported after they succeeded, and frees before they are made.
 */
class Checker {
 public:
  using Actor = RaceChecker::Actor;

  explicit Checker(Check mode);

  /** @brief Work on a stream; it may not have begun. */
  void enqueued(const CUstream_st& stream, Operation& operation);
  void stream_ended(const CUstream_st& stream);
  void thread_ended(const Thread& thread);

  // Events.
  void waits(const CUstream_st& stream, const CUevent_st& event);
  void recorded_all(const Gpu& gpu, const CUevent_st& event);  ///< the event follows all streams
  void forget(const CUevent_st& event);

  // The host has seen work complete.
  void synchronized(const CUstream_st& stream);
  void synchronized(const CUevent_st& event);
  void synchronized(const Gpu& gpu);
  void synchronized_all();

  // A launch of a graph: its operations in the order in which they were added.
  void begin_launch(const CUstream_st& stream, const void* executable);
  /** @param after  the operations that it comes after; those of other launches do not count */
  void node(Operation& operation, const std::vector<OperationRef>& after);
  void node_waits(const Operation& operation, const CUevent_st& event);
  void end_launch(const void* executable);
  void forget_launches(const void* executable);

  /** @brief The host function of this operation has returned. */
  void callback_ended(const Operation& operation);

  // Memory of the runtime, of any kind.
  void allocated(const void* address, std::size_t bytes);
  /** @brief Memory is mapped in a range. An access may go on in a mapping that adjoins. */
  void mapped(const void* address, std::size_t bytes);
  /** @brief The host frees it. What it will hold next is followed if it is of a GPU. */
  void freed(const void* address, bool on_device);
  void pool_allocated(const void* address, std::size_t bytes, const CUstream_st& stream);
  void pool_freed(const void* address, const CUstream_st& stream);
  /** @brief A pool gives back host memory, whose blocks are freed. */
  void host_memory_ended(const void* address, std::size_t bytes);
  /** @brief All allocations that lie in the range are freed. */
  void range_freed(const void* address, std::size_t bytes);

  // What the program says of itself, through the table of virtual_cuda.h.
  void host_access(const Access& access);
  void sub_allocated(const void* address, std::size_t bytes, const CUstream_st* stream);
  void region(const void* address, std::size_t bytes);
  void sub_freed(const void* address);
  void add_heap(const void* address, std::size_t bytes);
  void reset_heap(const void* address);
  void released(std::uint64_t object);
  void acquired(std::uint64_t object);

  /**
   * @brief What a kernel is to read and write, as its host implementation or its signature says.
   * @param arguments  of the launch; null: not known
   */
  [[nodiscard]] std::shared_ptr<const std::vector<Access>> accesses_of_kernel(
      const KernelWork& work, void** arguments);

  [[nodiscard]] const RaceLog& log() const noexcept { return log_; }
  void write_summary(std::FILE* file) const;

 private:
  using Address = std::uintptr_t;

  /** Memory that an access must lie in. Sub-allocations replace what they were cut from. */
  struct Live {
    std::size_t bytes = 0;
    std::string made;  ///< call and place
    bool mapped = false;
  };
  /** A graph that is being launched. Its first chain of nodes is on the stream itself. */
  struct Launch {
    const CUstream_st* stream = nullptr;
    std::uint64_t start = 0;  ///< event before all nodes
    std::unordered_map<const Operation*, Actor> actors;
    std::unordered_map<const Operation*, std::uint64_t> ends;  ///< events after the nodes
    std::unordered_map<Actor, const Operation*> last;          ///< null: nothing of the graph yet
    std::vector<Actor> made;
  };
  struct KernelFacts {
    std::string name;
    std::optional<std::vector<PointerParameter>> pointers;
  };

  [[nodiscard]] Actor host();
  [[nodiscard]] Actor actor(const CUstream_st& stream);
  /** "cudaMemcpyAsync at app+0x1234". @param unnamed  where the call has no name that can be known
   * @param part  what the call does, where that needs a name, too */
  [[nodiscard]] std::string here(std::string_view unnamed, std::string_view part = {});
  void perform(Actor on, Operation& operation);
  [[nodiscard]] std::string name_of(const Work& work);
  [[nodiscard]] const KernelFacts& facts(const Kernel& kernel);
  [[nodiscard]] std::uint64_t key(const CUevent_st& event);
  void order(Actor before, Actor after);
  void touch(RaceChecker::OpIndex operation, const Access& access);
  /** Accesses of a copy or a fill. @param call  names it */
  void touch(RaceChecker::OpIndex operation, std::vector<Access> accesses, const std::string& call);
  void keep_in_bounds(std::vector<Access>& rows, const std::string& call);
  [[nodiscard]] Address end_of(const std::pair<const Address, Live>& live) const;
  [[nodiscard]] const std::pair<const Address, Live>* live_at(const void* address) const;
  void end_live(std::map<Address, Live>::iterator live, const std::string& call);
  void end_completed(std::map<Address, Live>::iterator live, const std::string& call);
  bool end_heap(const void* address, const std::string& call);
  void end_stale(const void* address, std::size_t bytes, const std::string& call);
  void make_room(const void* address, std::size_t bytes, const std::string& call);
  [[nodiscard]] std::string describe(const Access& access) const;
  void collect(const Access& access);
  [[nodiscard]] std::uint64_t next_key() noexcept { return ++keys_; }

  Races races_;
  const Check mode_;
  Sites sites_;
  RaceLog log_{sites_};
  std::map<std::pair<unsigned, std::uint64_t>, Actor> streams_;  // by device and id
  std::map<std::uint64_t, Actor> threads_;                       // by number
  Actor host_ = 0;
  std::unordered_map<const CUevent_st*, std::uint64_t> events_;
  std::unordered_map<const void*, std::uint64_t> launches_;  // events after the last launch
  std::map<Address, Live> live_;
  std::map<Address, std::size_t> heaps_;  // memory that was cut into sub-allocations
  Launch launch_;
  std::uint64_t keys_ = 0;
  std::unordered_map<const Kernel*, KernelFacts> kernels_;
  std::uint64_t unknown_launches_ = 0;
};

/** @brief Null where the program is not checked. */
extern Checker* the_checker;
[[nodiscard]] inline Checker* checker() noexcept { return the_checker; }

/** @brief The same, for calls that are quick without a checker: not inlined, so that these keep
 * their few registers. They do nothing without a checker. */
namespace checking {
void synchronized(const CUstream_st& stream);
void synchronized(const CUevent_st& event);
void waits(const CUstream_st& stream, const CUevent_st& event);
}  // namespace checking

}  // namespace millrace::virtual_cuda
