#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

namespace millrace::test::kernels {

/**
 * @file
 * A machine that runs the threads of a kernel on the host, one at a time: block after block, in
 * each one a thread up to where it waits for others, then another one, drawn from the seed. Warps
 * have 32 lanes. What it is for: the code of the kernels themselves, where there is no GPU. What it
 * is not: a model of their memory's ordering, or of time.
 */

/** @brief Threads wait for each other at different places, or for one that never comes. */
struct Diverged : std::logic_error {
  using std::logic_error::logic_error;
};

struct Extent {
  unsigned x = 1, y = 1;
  [[nodiscard]] unsigned count() const { return x * y; }
};

struct Grid {
  Extent blocks, threads;
  std::size_t shared = 0;  ///< bytes of dynamic shared memory
};

/** @brief Calls `thread` once for each thread. @throws Diverged */
void run(const Grid& grid, const std::function<void()>& thread);

/** @brief From now on, which thread goes on is drawn from this. */
void draw_schedules(std::uint64_t seed);

/** @brief Of the calling thread of a kernel: x counts first. */
struct Place {
  unsigned thread = 0, block = 0;
  Grid grid;
};
[[nodiscard]] const Place& place();
/** @brief Anything is in it when a block begins. */
[[nodiscard]] std::byte* shared_memory();

/** @brief What a warp's lanes do together; all that have not ended take part. */
enum class Meeting { sync, shuffle, ballot };

void meet_block();
[[nodiscard]] bool any_of_block(bool own);
/** @brief Each lane brings a number. @return those of all lanes, until the next meeting but one */
[[nodiscard]] const std::uint64_t* meet_warp(Meeting meeting, std::uint64_t own);
/** @brief Which lanes of the warp brought one to that meeting. */
[[nodiscard]] std::uint32_t lanes_met();

template <typename T>
[[nodiscard]] T from_lane(T own, unsigned lane) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &own, sizeof own);
  const std::uint64_t* const all = meet_warp(Meeting::shuffle, bits);
  T value;
  std::memcpy(&value, &all[lane % 32], sizeof value);
  return value;
}

}  // namespace millrace::test::kernels
