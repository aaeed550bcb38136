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
 * @brief Records the operations of a run with their times, for Perfetto and chrome://tracing.
 *
 *   Timeline timeline;
 *   timeline.note("seed", "1");
 *   timeline.attach(machine);                      // virtual device: streams and engines
 *   timeline.attach(device);                       // calls of host threads
 *   timeline.watch(allocator, "memory", main);     // bytes reserved, active, stranded for main
 *   ... run ...
 *   timeline.stop();
 *   timeline.write(file);
 *
 * The file has the JSON object format of the Chrome trace event format (docs/timeline.md): a track
 * for each stream, each engine and each host thread; an arrow from each record to each wait for it;
 * and counters. Times are on the machine's clock; without a machine, on the host's steady clock
 * since the first `attach`.
 *
 * Recording changes no call, no time and no address of a virtual run, and the same program and seed
 * give the same file, byte for byte. It costs about 120 bytes of memory per event, and a walk over
 * the allocator's blocks for each enqueued operation. Thread-safe while it records.
 */
class Timeline {
 public:
  /** @brief How much a timeline keeps. */
  struct Options {
    /// Maximum number of events (operations, arrows, host calls, samples) to keep. Later events are
    /// only counted. The file has about 300 bytes per event.
    std::size_t most_events = 250'000;
  };

  Timeline();
  explicit Timeline(const Options& options);
  ~Timeline();  ///< stops
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  /** @brief Adds a fact about the run to the file's metadata, or replaces it. */
  void note(std::string_view key, std::string_view value);

  /**
   * @brief Records all work of the machine's devices, and uses the machine's clock.
   *
   * Call it while no work is enqueued, and before devices are attached.
   * @throws std::logic_error if a machine is already attached
   */
  void attach(VirtualMachine& machine);

  /**
   * @brief Records the calls of host threads on the device; watched allocators are sampled at them.
   *
   * The work of a GPU's streams and engines is not recorded.
   */
  void attach(Device& device);

  /**
   * @brief Samples an allocator whenever an operation is enqueued on an attached device, and when
   *        the recording stops: reserved and active bytes, and bytes stranded for `stream`.
   * @param name    name of the counters
   * @param stream  an attached stream; std::nullopt for an allocator that does not know stranded
   *                bytes (the driver's pool)
   */
  void watch(Allocator& allocator, std::string_view name, std::optional<StreamRef> stream = {});

  /**
   * @brief Samples all watched allocators now, so that the counters show a certain moment.
   *
   * Call it from a host actor of the machine; it ignores other threads.
   */
  void sample();

  /**
   * @brief Takes the last samples, and detaches machine, devices and allocators.
   *
   * Call it while they live and no work is enqueued. The recorded events stay; recording may begin
   * again.
   */
  void stop() noexcept;

  [[nodiscard]] std::uint64_t recorded() const;  ///< number of events that are kept
  [[nodiscard]] std::uint64_t left_out() const;  ///< number of events beyond `most_events`

  /** @brief Writes the whole document. Call `stop` first. */
  void write(std::ostream& out) const;

 private:
  struct State;
  class MachineTap;
  class DeviceTap;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
