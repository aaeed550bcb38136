#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "millrace/observe/trace/stacks.hpp"

namespace millrace {

/**
 * @brief The stacks of a program's calls, each kept once as its return addresses.
 *
 * `here` walks the calling thread's stack and looks it up by a hash, which takes about 0.4 us a
 * frame. Names are looked up on demand, in a library's exports and in the symbol table of a
 * program's file. Lines are not known. Keeps at most 65,536 stacks. Thread-safe.
 */
class CallStacks {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNone = 0;
  static constexpr std::size_t kMostFrames = 64;

  /** @param frames  number of innermost frames that are kept, at most `kMostFrames` */
  explicit CallStacks(std::size_t frames = 24);
  ~CallStacks();
  CallStacks(const CallStacks&) = delete;
  CallStacks& operator=(const CallStacks&) = delete;

  /**
   * @brief The calling thread's stack without Millrace's own innermost frames.
   *
   * A program that links Millrace statically needs symbols for that, because the frames are
   * recognized by name.
   * @return kNone if the stack is new and 65,536 stacks are already kept
   */
  [[nodiscard]] Id here();

  /** @brief Adds the stack's frames to another table. @return the stack's id there */
  [[nodiscard]] trace::StackTable::Id add_to(trace::StackTable& table, Id stack);
  /** @brief The stack's frames, the innermost first; none for kNone. */
  [[nodiscard]] std::vector<trace::StackFrame> frames_of(Id stack);

  [[nodiscard]] std::size_t size() const;  ///< number of different stacks, each kept once

 private:
  struct Names;

  const std::size_t frames_;
  mutable std::mutex mutex_;                         // guards the stacks
  std::vector<std::vector<std::uintptr_t>> stacks_;  // by id; the first is none
  std::unordered_map<std::uint64_t, Id> known_;      // by a hash of the addresses
  // A second mutex: to name a function takes the loader's lock, and `here` must not wait for that.
  std::mutex names_mutex_;
  std::unique_ptr<Names> names_;
};

}  // namespace millrace
