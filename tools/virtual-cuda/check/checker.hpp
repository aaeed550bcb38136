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
 * @brief Reports the program's work, waits and memory to a RaceChecker.
 *
 * It exists only if the program is checked. No call is `quick` then, so that every call is
 * reported, under the engine's lock and in the order of the calls. Calls are reported after they
 * succeed, frees before they take place.
 */
class Checker {
 public:
  using Actor = RaceChecker::Actor;

  explicit Checker(Check mode);

  /** @brief Work was enqueued on a stream. Call this before the work can begin. */
  void enqueued(const CUstream_st& stream, Operation& operation);
  void stream_ended(const CUstream_st& stream);
  void thread_ended(const Thread& thread);

  // Events.
  void waits(const CUstream_st& stream, const CUevent_st& event);
  void recorded_all(const Gpu& gpu, const CUevent_st& event);  ///< the event follows all streams
  void forget(const CUevent_st& event);

  // The host has waited for work.
  void synchronized(const CUstream_st& stream);
  void synchronized(const CUevent_st& event);
  void synchronized(const Gpu& gpu);
  void synchronized_all();

  // A launch of a graph, with its operations in the order of their addition.
  void begin_launch(const CUstream_st& stream, const void* executable);
  /** @param after  the node's predecessors; operations of other launches do not count */
  void node(Operation& operation, const std::vector<OperationRef>& after);
  void node_waits(const Operation& operation, const CUevent_st& event);
  void end_launch(const void* executable);
  void forget_launches(const void* executable);

  /** @brief The host function of this operation has returned. */
  void callback_ended(const Operation& operation);

  // All kinds of memory of the runtime.
  void allocated(const void* address, std::size_t bytes);
  /** @brief Memory was mapped in a range. An access may continue into an adjacent mapping. */
  void mapped(const void* address, std::size_t bytes);
  /** @brief The host frees an allocation. Host memory is forgotten; device memory keeps its history
   *         for the next allocation. */
  void freed(const void* address, bool on_device);
  void pool_allocated(const void* address, std::size_t bytes, const CUstream_st& stream);
  void pool_freed(const void* address, const CUstream_st& stream);
  /** @brief A pool returns host memory whose blocks are all free. */
  void host_memory_ended(const void* address, std::size_t bytes);
  /** @brief All allocations in the range are freed. */
  void range_freed(const void* address, std::size_t bytes);

  // Annotations of the program, through the table of virtual_cuda.h.
  void host_access(const Access& access);
  void sub_allocated(const void* address, std::size_t bytes, const CUstream_st* stream);
  void region(const void* address, std::size_t bytes);
  void sub_freed(const void* address);
  void add_heap(const void* address, std::size_t bytes);
  void reset_heap(const void* address);
  void released(std::uint64_t object);
  void acquired(std::uint64_t object);

  /**
   * @brief The memory that a kernel will access, by its host implementation or its signature.
   * @param arguments  arguments of the launch; null: not known
   * @return null if the accesses are not known
   */
  [[nodiscard]] std::shared_ptr<const std::vector<Access>> accesses_of_kernel(
      const KernelWork& work, void** arguments);

  [[nodiscard]] const RaceLog& log() const noexcept { return log_; }
  void write_summary(std::FILE* file) const;

 private:
  using Address = std::uintptr_t;

  /** Memory that accesses must stay in. Sub-allocations replace the allocation around them. */
  struct Live {
    std::size_t bytes = 0;
    std::string made;  ///< call and place
    bool mapped = false;
  };
  /** A graph launch in progress. The stream itself is the actor of the first chain of nodes. */
  struct Launch {
    const CUstream_st* stream = nullptr;
    std::uint64_t start = 0;  ///< event before all nodes
    std::unordered_map<const Operation*, Actor> actors;
    std::unordered_map<const Operation*, std::uint64_t> ends;  ///< events after the nodes
    std::unordered_map<Actor, const Operation*> last;          ///< null: no node yet
    std::vector<Actor> made;
  };
  struct KernelFacts {
    std::string name;
    std::optional<std::vector<PointerParameter>> pointers;
  };

  [[nodiscard]] Actor host();
  [[nodiscard]] Actor actor(const CUstream_st& stream);
  /** A text such as "cudaMemcpyAsync at app+0x1234". @param unnamed  used if the call's name is not
   * known. @param part  a part of the call that has a name of its own; may be empty */
  [[nodiscard]] std::string here(std::string_view unnamed, std::string_view part = {});
  void perform(Actor on, Operation& operation);
  [[nodiscard]] std::string name_of(const Work& work);
  [[nodiscard]] const KernelFacts& facts(const Kernel& kernel);
  [[nodiscard]] std::uint64_t key(const CUevent_st& event);
  void order(Actor before, Actor after);
  void touch(RaceChecker::OpIndex operation, const Access& access);
  /** Accesses of a copy or a fill. @param call  the call's name for messages */
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
  std::unordered_map<const void*, std::uint64_t> launches_;  // event after the last launch
  std::map<Address, Live> live_;
  std::map<Address, std::size_t> heaps_;  // memory that was cut into sub-allocations
  Launch launch_;
  std::uint64_t keys_ = 0;
  std::unordered_map<const Kernel*, KernelFacts> kernels_;
  std::uint64_t unknown_launches_ = 0;
};

/** @brief Null if the program is not checked. */
extern Checker* the_checker;
[[nodiscard]] inline Checker* checker() noexcept { return the_checker; }

/** @brief The same functions, for calls that are quick without a checker. They are not inlined, so
 * that these calls use few registers. They do nothing without a checker. */
namespace checking {
void synchronized(const CUstream_st& stream);
void synchronized(const CUevent_st& event);
void waits(const CUstream_st& stream, const CUevent_st& event);
}  // namespace checking

}  // namespace millrace::virtual_cuda
