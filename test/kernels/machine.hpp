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
 * A machine that runs the threads of a kernel on the host, one at a time. Blocks run one after the
 * other. In a block, a thread runs until it waits for others; then another thread, drawn from the
 * seed, runs. Warps have 32 lanes. The machine tests the code of the kernels without a GPU. It
 * models neither the ordering of memory nor time.
 */

/** @brief Threads wait for each other at different places, or for a thread that never comes. */
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

/** @brief Calls `thread` once for each thread of the grid. @throws Diverged */
void run(const Grid& grid, const std::function<void()>& thread);

/** @brief From now on, this seed decides which thread runs next. */
void draw_schedules(std::uint64_t seed);

/** @brief The place of the calling thread of a kernel. In numbers, x counts first. */
struct Place {
  unsigned thread = 0, block = 0;
  Grid grid;
};
[[nodiscard]] const Place& place();
/** @brief The shared memory of the block. Its contents are arbitrary when the block begins. */
[[nodiscard]] std::byte* shared_memory();

/** @brief What a warp's lanes do together. All lanes that have not ended take part. */
enum class Meeting { sync, shuffle, ballot };

void meet_block();
[[nodiscard]] bool any_of_block(bool own);
/** @brief Each lane brings a number. @return all lanes' numbers, until the second next meeting */
[[nodiscard]] const std::uint64_t* meet_warp(Meeting meeting, std::uint64_t own);
/** @brief The lanes of the warp that brought a number to the last meeting. */
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
