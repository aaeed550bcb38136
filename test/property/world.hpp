#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "interop/plain_streams.hpp"
#include "millrace/device/checking.hpp"
#include "millrace/device/stream.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/segment_source.hpp"
#include "millrace/observe/allocation_trace.hpp"
#include "test/property/faults.hpp"
#include "test/property/flaws.hpp"
#include "test/property/program.hpp"
#include "test/support/cuda/content_kernels.hpp"
#include "test/support/tampered_device.hpp"

namespace millrace::test {

/** @brief A position on a lane, counted in operations. It does not use markers, because they are
 * part of the tested code. */
struct Moment {
  std::size_t lane = 0;
  std::uint64_t operation = 0;
};

/** @brief For each lane the last operation that is known to come before. */
class Knowledge {
 public:
  [[nodiscard]] bool covers(Moment moment) const;
  void learn(Moment moment);
  void learn(const Knowledge& other);

 private:
  std::vector<std::uint64_t> last_;
};

/** @brief A stream, from its creation to its destruction. */
struct Lane {
  LaneKind kind;
  std::size_t index = 0;
  StreamHandle handle{};
  StreamRef ref{StreamHandle{}};
  std::unique_ptr<Stream> owned{};
  std::uint64_t operations = 0;
  Knowledge after{};
  bool alive = true;
  bool attached = true;
  Event last{};  ///< for a dead lane: recorded after all its work
};

/** @brief Counts forbidden waits of the allocator: on independent streams, or for them. */
class IndependenceWatch final : public DeviceObserver {
 public:
  void declare(StreamHandle stream) { independent_.push_back(stream); }
  void retract(StreamHandle stream) { std::erase(independent_, stream); }
  void recorded(EventHandle event, StreamHandle stream) override;
  void waited(StreamHandle stream, EventHandle event) override;

  std::size_t violations = 0;

 private:
  [[nodiscard]] bool independent(StreamHandle stream) const;
  std::vector<StreamHandle> independent_;
  std::vector<EventHandle> recorded_there_;
};

/** @brief A block that an allocator gave out and that is not freed yet. */
struct LiveBlock {
  std::size_t requested, bytes;
};

/** @brief A machine with one device, streams and the allocator under test. */
class World {
 public:
  explicit World(const Setup& setup, Flaw flaw = Flaw::none);
  /**
   * @brief A world on a GPU, whose schedule cannot be chosen. Kernels check the data that they
   *        read, and the trace shows which memory was given out. The race checker does not run.
   */
  World(const Setup& setup, Device& gpu, ContentKernels& kernels);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /** @brief Returns the living stream in this place (modulo). */
  [[nodiscard]] Lane& lane_at(std::size_t place);
  /** @brief Destroys the stream in this place and makes another of its kind. */
  void renew(std::size_t place);
  /** @brief Attaches the raw stream in this place. */
  void attach(std::size_t place);
  /** @brief Detaches the stream. The library then sees its handle as another stream. */
  void detach(std::size_t place);

  /** @brief Runs all enqueued work and callbacks, even if the device is lost for the library. */
  void drain();

  [[nodiscard]] bool host_memory() const { return setup.preset == Preset::pinned; }
  [[nodiscard]] std::size_t offset_of(const void* address) const;

  /** @throws std::logic_error if the block overlaps another */
  void gave_out(void* address, std::size_t requested, const Lane& user);
  void takes_back(void* address);
  /** @brief Checks law 1. No call may be in progress. @throws std::logic_error */
  void check_sums();
  /** @brief Checks law 2 by kernels, the race checker and the trace. @throws std::logic_error */
  void check_order() const;

  Setup setup;
  VirtualMachine machine;
  VirtualDevice& modeled;
  Device& device;           ///< `modeled`, or a GPU
  ContentKernels* kernels;  ///< for a GPU; otherwise nullptr
  CheckingObserver checker;
  TamperedDevice door;  ///< the library calls a virtual device through it
  Device& way;          ///< the device that the library calls: `door` or a GPU
  OrderedDevice ordered;
  LibraryFault faults;
  IndependenceWatch independence;
  std::unique_ptr<SegmentSource> driver_source;
  std::unique_ptr<WatchedSource> source;
  std::unique_ptr<Allocator> tested;
  CachingAllocator* caching = nullptr;   ///< `tested`, or nullptr for the driver's pool
  std::unique_ptr<PlainStreams> plain;   ///< wraps `tested`, with Preset::drop_in
  std::unique_ptr<Allocator> allocator;  ///< the allocator with its flaw
  AllocationTrace trace;
  std::vector<std::unique_ptr<Lane>> lanes;  ///< including dead ones
  std::map<void*, LiveBlock> live;
  std::uint64_t serial = 0;         ///< number of buffers so far
  std::vector<std::string> errors;  ///< found by kernels, which cannot fail a test themselves

 private:
  World(const Setup& setup, Flaw flaw, Device* gpu, ContentKernels* kernels);

  void open(Lane& lane);
  void close_raw_streams();
  void make_allocator(Flaw flaw);
  void leave(Lane& lane);
  Lane& succeed(std::size_t place);

  std::uint64_t corrupted_before_ = 0;  ///< count of earlier worlds
  std::vector<std::size_t> places_;     ///< index of the living lane in each place
};

[[nodiscard]] Policy small_policy(Preset preset);

}  // namespace millrace::test
