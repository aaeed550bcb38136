#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "millrace/device/virtual_device.hpp"

namespace millrace::test {

/// Records the kernels on the streams of a capture and the edges between the streams. A replay runs
/// them again. Until `end`, the device refuses calls that a capture forbids.
///
/// A replay has the order of the graph and no more: each captured stream becomes its own stream,
/// after the earlier work on the stream of the launch. Later work there comes after all of them.
class CapturedGraph {
 public:
  CapturedGraph(VirtualDevice& device, StreamHandle origin);
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  /// Captures a write of all bytes, with a value that no other write of this graph has.
  void write(StreamHandle stream, void* address, std::size_t bytes);
  /// Captures a read that must see the latest captured write of this address.
  void read(StreamHandle stream, void* address, std::size_t bytes);
  /// @return the event for `wait`
  [[nodiscard]] std::size_t record(StreamHandle stream);
  /// Captures a wait. A stream that was not captured joins the capture.
  void wait(StreamHandle stream, std::size_t event);
  void end();

  void replay(StreamHandle on);
  /// Launches a read after a replay. It must see the graph's last write of this address.
  void read_after(StreamHandle on, void* address, std::size_t bytes);
  /// Returns the number of reads that saw another value. Synchronize first.
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
  std::vector<StreamHandle> branches_;  // streams of replays, without the origin's
  std::vector<Step> steps_;
  std::map<void*, std::uint64_t> latest_;
  std::uint64_t values_ = 0;
  std::size_t events_ = 0;
  bool capturing_ = true;
  std::shared_ptr<std::size_t> wrong_ = std::make_shared<std::size_t>(0);
};

}  // namespace millrace::test
