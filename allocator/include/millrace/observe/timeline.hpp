#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/allocator.hpp"

namespace millrace {

/**
 * @brief Records what a run did and when, for Perfetto and chrome://tracing.
 *
 *   Timeline timeline;
 *   timeline.note("seed", "1");
 *   timeline.attach(machine);                      // virtual: what streams and engines did
 *   timeline.attach(device);                       // what host threads called
 *   timeline.watch(allocator, "memory", main);     // what was reserved, active, stranded for main
 *   ... run ...
 *   timeline.stop();
 *   timeline.write(file);
 *
 * What is written is the JSON object format of the Chrome trace event format (docs/timeline.md): a
 * track for each stream, each engine and each host thread; an arrow from a record to each wait for
 * it; counters. Times are those of the machine's clock; without a machine, of the host's steady
 * clock since the first `attach`.
 *
 * It changes nothing of a virtual run: not a call, not a time, not an address. The same program and
 * seed give the same bytes. It costs about 120 bytes of memory an event, for so many as the options
 * say, and a walk over the allocator's blocks for each operation that is enqueued.
 * Thread-safe while it records.
 */
class Timeline {
 public:
  struct Options {
    /** Operations, arrows, host calls and samples that are kept; what comes after those is counted,
     * and left out. The file has about 300 bytes for each. */
    std::size_t most_events = 250'000;
  };

  Timeline();
  explicit Timeline(const Options& options);
  ~Timeline();  ///< stops
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /** @brief A fact about the run, for the file's metadata. The latest of each key counts. */
  void note(std::string_view key, std::string_view value);

  /**
   * @brief Records all work of the machine's devices, and takes its clock. While nothing is queued,
   * and before devices are attached. @throws std::logic_error if there is one already
   */
  void attach(VirtualMachine& machine);

  /**
   * @brief Records what host threads call of the device, and when it is that samples are taken.
   *
   * On a GPU that is all: what its streams and engines did is not recorded.
   */
  void attach(Device& device);

  /**
   * @brief Samples the allocator whenever an operation was enqueued on an attached device, and when
   *        the recording stops: reserved and active bytes, and those stranded for `stream`.
   * @param name    of its counters
   * @param stream  attached; none where the allocator can not say (the driver's pool)
   */
  void watch(Allocator& allocator, std::string_view name, std::optional<StreamRef> stream = {});

  /** @brief Samples all allocators now as well: where a figure is taken that the counters are to
   * show. From a host actor of the machine; of any other thread it is ignored. */
  void sample();

  /**
   * @brief Takes the last samples and lets go of machine, devices and allocators: while they live,
   * and nothing is queued. What was recorded stays; recording may begin again.
   */
  void stop() noexcept;

  [[nodiscard]] std::uint64_t recorded() const;  ///< events that are kept
  [[nodiscard]] std::uint64_t left_out() const;  ///< and that are not, for want of room

  /** @brief Writes the whole document. Once stopped. */
  void write(std::ostream& out) const;

 private:
  struct State;
  class MachineTap;
  class DeviceTap;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
