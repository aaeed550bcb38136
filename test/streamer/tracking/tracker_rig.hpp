#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/streamer/change_tracker.hpp"
#include "test/streamer/capture/training_rig.hpp"

namespace millrace::test {

/// Tables that train while a tracker records their changes.
class TrackerRig : public TrainingRig {
 public:
  struct Delivered {
    std::vector<float> weights, state;
  };
  using Rows = std::map<RowName, Delivered>;

  explicit TrackerRig(const TrainingCase& what, const TrackerOptions& options = {})
      : TrainingRig(what),
        tracker(std::in_place, ChangeTracker::Source{*bags, table_numbers()},
                TrackerEnvironment{context, pinned}, options) {}

  /// How a visitor handles chunks, which are counted from 0.
  struct Visits {
    std::size_t refused = ~std::size_t{0};   ///< does not take this chunk
    std::size_t put_back = ~std::size_t{0};  ///< takes this chunk and puts it back
    bool ordered = true;                     ///< orders the stream after all use of the tables
  };
  /// The rows that a consumer reads.
  Rows read(std::string_view consumer, RowContent content, Stream& stream, const Visits& visits);
  Rows read(std::string_view consumer, RowContent content, Stream& stream) {
    return read(consumer, content, stream, Visits{});
  }
  /// Some rows of the last read, to be put back later.
  struct Chunk {
    std::vector<std::uint64_t> ids;  ///< counted through all tables
    std::uint64_t after = 0;
  };
  void put_back(std::string_view consumer, const Chunk& chunk, Stream& stream);
  /// How rows that were read differ from the tables' contents now; "" if they do not.
  [[nodiscard]] std::string compare(const Rows& rows, RowContent content);

  std::optional<ChangeTracker> tracker;
  ChangeTracker::Range range;  ///< of the last read
  std::vector<Chunk> chunks;   ///< of the last read
};

/// Names of the rows.
[[nodiscard]] std::set<TrainingRig::RowName> names_of(const TrackerRig::Rows& rows);

}  // namespace millrace::test
