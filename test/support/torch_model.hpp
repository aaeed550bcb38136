#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "millrace/observe/trace/torch_snapshot.hpp"

namespace millrace::test {

/// The decisions of PyTorch's caching allocator on one device without expandable segments. This
/// oracle follows PyTorch's rules and shares no code with the library. It records PyTorch's events.
class TorchModel {
 public:
  using Segment = trace::TorchSegment;
  using Block = trace::TorchBlock;
  /// Returns the address for a segment of `bytes` bytes.
  using Driver = std::function<std::uint64_t(std::uint64_t bytes)>;

  TorchModel(trace::TorchSettings settings, Driver driver, const std::vector<Segment>& start = {});

  std::uint64_t allocate(std::uint64_t requested, std::int64_t stream);
  void request_free(std::uint64_t address);
  void complete_free(std::uint64_t address);
  /// Gives whole free segments back to the driver.
  void release_cached();
  /// Gives one free segment back.
  void release(std::uint64_t segment);

  [[nodiscard]] std::vector<Segment> segments() const;
  [[nodiscard]] const std::vector<trace::TorchEvent>& events() const { return events_; }
  [[nodiscard]] std::vector<std::uint64_t> in_state(trace::BlockState state) const;

 private:
  struct Piece {
    Block block;
    std::uint64_t segment;
  };
  using Pieces = std::map<std::uint64_t, Piece>;
  using FreeKey = std::tuple<bool, std::uint64_t, std::uint64_t,
                             std::uint64_t>;  // large, stream, size, address

  [[nodiscard]] std::uint64_t rounded(std::uint64_t requested) const;
  [[nodiscard]] bool splits(const Piece& piece, std::uint64_t bytes) const;
  [[nodiscard]] FreeKey key(const Piece& piece) const;
  Pieces::iterator best_fit(std::uint64_t bytes, std::int64_t stream);
  Pieces::iterator new_segment(std::uint64_t bytes, std::int64_t stream);
  [[nodiscard]] bool free_in_same_segment(Pieces::iterator a, Pieces::iterator b) const;
  void record(trace::TorchAction action, std::uint64_t address, std::uint64_t bytes,
              std::int64_t stream);

  trace::TorchSettings settings_;
  Driver driver_;
  std::map<std::uint64_t, Segment> segments_;  // without their blocks
  Pieces pieces_;
  std::set<FreeKey> free_;
  std::vector<trace::TorchEvent> events_;
};

}  // namespace millrace::test
