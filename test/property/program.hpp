#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "millrace/device/virtual_machine.hpp"

namespace millrace::test {

/** @brief One step of a random program. Numbers pick among what there is, modulo. */
struct Step {
  enum Kind : std::uint8_t {
    allocate,          ///< on a stream
    allocate_for,      ///< of one stream, for another to use first
    write,             ///< a kernel on a stream fills a buffer
    read,              ///< a kernel on a stream checks a buffer
    record_use,        ///< without using it
    transfer,          ///< a buffer to another stream
    free,              ///< on the owner
    free_on,           ///< on another stream
    free_behind,       ///< behind a marker of a stream
    free_in_callback,  ///< from a host callback on a stream
    mark,
    order,         ///< one stream after another
    synchronize,   ///< the host with a stream
    poll,          ///< as statistics and usable do
    trim,          ///< to a few megabytes or none
    renew_stream,  ///< a stream dies, and another takes its place
    attach,        ///< a raw stream; or detach it, and go on with the raw handle
    kinds_
  };
  Kind kind;
  std::uint8_t stream, other, choice;
  std::uint16_t buffer;
  std::uint32_t bytes;
};

using Program = std::vector<Step>;

enum class Preset : std::uint8_t {
  torch,
  millrace,
  waiting,  ///< as millrace, but waits whenever it can
  ordered,  ///< grows before it waits
  drop_in,  ///< the same, for programs that report nothing: DeviceMemory
  pinned,   ///< host memory: the host writes it as soon as it gets it
  driver,
};

enum class LaneKind : std::uint8_t { plain, blocking, raw, independent, legacy };

/** @brief What a program runs on. */
struct Setup {
  Preset preset = Preset::millrace;
  VirtualMachine::Schedule schedule = VirtualMachine::Schedule::adversarial;
  std::uint64_t seed = 0;
  std::vector<LaneKind> lanes{LaneKind::plain, LaneKind::plain};
  std::size_t memory_bytes = std::size_t{48} << 20;
  std::size_t limit_bytes = 0;  ///< that the allocator keeps to; 0: none
};

std::ostream& operator<<(std::ostream& out, const Step& step);
std::ostream& operator<<(std::ostream& out, const Setup& setup);

/** @brief Up to `length` times as many steps as RapidCheck's size, which grows to 100. */
rc::Gen<Program> random_program(double length = 2.0);
rc::Gen<Setup> random_setup();
rc::Gen<Setup> random_setup(Preset preset);

/** @brief One of these, drawn from a seed. */
template <typename T>
T drawn(const rc::Gen<T>& from, std::uint64_t seed) {
  constexpr int kSize = 100;
  return from(rc::Random{seed}, kSize).value();
}

}  // namespace millrace::test
