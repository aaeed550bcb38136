#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "millrace/device/virtual_machine.hpp"

namespace millrace::test {

/** @brief One step of a random program. Numbers select streams and buffers modulo their count. */
struct Step {
  enum Kind : std::uint8_t {
    allocate,          ///< on a stream
    allocate_for,      ///< owned by one stream, first used by another
    write,             ///< a kernel on a stream fills a buffer
    read,              ///< a kernel on a stream checks a buffer
    record_use,        ///< without a use
    transfer,          ///< a buffer to another stream
    free,              ///< on the owner
    free_on,           ///< on another stream
    free_behind,       ///< after a marker of a stream
    free_in_callback,  ///< from a host callback on a stream
    mark,
    order,         ///< one stream after another
    synchronize,   ///< the host with a stream
    poll,          ///< as statistics and usable do
    trim,          ///< to a few megabytes or none
    renew_stream,  ///< destroys a stream and creates another in its place
    attach,        ///< attaches a raw stream, or detaches it and uses the raw handle
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
  waiting,  ///< like millrace, but waits whenever it may
  ordered,  ///< grows before it waits
  drop_in,  ///< like ordered, for programs that report nothing: DeviceMemory
  pinned,   ///< host memory, which the host writes as soon as it gets it
  driver,
};

enum class LaneKind : std::uint8_t { plain, blocking, raw, independent, legacy };

/** @brief The machine, streams and allocator of a program. */
struct Setup {
  Preset preset = Preset::millrace;
  VirtualMachine::Schedule schedule = VirtualMachine::Schedule::adversarial;
  std::uint64_t seed = 0;
  std::vector<LaneKind> lanes{LaneKind::plain, LaneKind::plain};
  std::size_t memory_bytes = std::size_t{48} << 20;
  std::size_t limit_bytes = 0;  ///< limit of the allocator; 0: none
};

std::ostream& operator<<(std::ostream& out, const Step& step);
std::ostream& operator<<(std::ostream& out, const Setup& setup);

/** @brief Generates up to `length` steps times RapidCheck's size, which grows to 100. */
rc::Gen<Program> random_program(double length = 2.0);
rc::Gen<Setup> random_setup();
rc::Gen<Setup> random_setup(Preset preset);

/** @brief Returns a value that the generator draws with a seed. */
template <typename T>
T drawn(const rc::Gen<T>& from, std::uint64_t seed) {
  constexpr int kSize = 100;
  return from(rc::Random{seed}, kSize).value();
}

}  // namespace millrace::test
