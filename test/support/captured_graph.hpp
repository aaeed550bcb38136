#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "millrace/device/virtual_device.hpp"

namespace millrace::test {

/// What a program does on the streams of a capture, kept and run again as often as it is replayed:
/// kernels, and the edges between streams. Until `end` the device refuses what a capture forbids.
///
/// A replay is ordered as the graph is and no further: each captured stream is a stream of its own,
/// after what was enqueued on the stream of the launch, which goes on after all of them.
class CapturedGraph {
 public:
  CapturedGraph(VirtualDevice& device, StreamHandle origin);
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  /// A write of all bytes, whose value no other one of this graph has.
  void write(StreamHandle stream, void* address, std::size_t bytes);
  /// A read that has to see the latest write of this address so far.
  void read(StreamHandle stream, void* address, std::size_t bytes);
  /// @return what `wait` takes
  [[nodiscard]] std::size_t record(StreamHandle stream);
  /// A stream that took no part takes part from now on.
  void wait(StreamHandle stream, std::size_t event);
  void end();

  void replay(StreamHandle on);
  /// A read after a replay, which has to see what the graph wrote there last.
  void read_after(StreamHandle on, void* address, std::size_t bytes);
  /// Reads of replays that saw something else. Synchronize first.
  [[nodiscard]] std::size_t wrong_reads() const noexcept { return *wrong_; }

 private:
  enum class Kind { write, read, record, wait };
  struct Step {
    Kind kind;
    std::size_t branch;  // 0: the origin
    View view;
    std::uint64_t value = 0;
    std::size_t event = 0;
  };

  [[nodiscard]] std::size_t branch_of(StreamHandle stream) const;
  [[nodiscard]] Operation kernel(const Step& step) const;

  VirtualDevice& device_;
  std::vector<StreamHandle> captured_;  // by branch
  std::vector<StreamHandle> branches_;  // of replays; that of the origin is the launch's
  std::vector<Step> steps_;
  std::map<void*, std::uint64_t> latest_;
  std::uint64_t values_ = 0;
  std::size_t events_ = 0;
  bool capturing_ = true;
  std::shared_ptr<std::size_t> wrong_ = std::make_shared<std::size_t>(0);
};

}  // namespace millrace::test
