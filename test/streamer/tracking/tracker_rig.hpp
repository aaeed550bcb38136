#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/streamer/change_tracker.hpp"
#include "test/streamer/capture/training_rig.hpp"

namespace millrace::test {

/// Tables that train while a tracker remembers what changes.
class TrackerRig : public TrainingRig {
 public:
  struct Told {
    std::vector<float> weights, state;
  };
  using Rows = std::map<RowName, Told>;

  explicit TrackerRig(const TrainingCase& what, const TrackerOptions& options = {})
      : TrainingRig(what), tracker({*bags, table_numbers()}, {context, pinned}, options) {}

  /// What a consumer reads until `most` chunks were told: the next one is refused.
  Rows read(std::string_view consumer, RowContent content, Stream& stream,
            std::size_t most = ~std::size_t{0});
  /// How rows that were read differ from what the tables have now; "" if they do not.
  [[nodiscard]] std::string compare(const Rows& rows, RowContent content);

  ChangeTracker tracker;
  ChangeTracker::Range range;      ///< of the last read
  std::vector<std::size_t> sizes;  ///< of its chunks, in rows
};

/// Their names.
[[nodiscard]] std::set<TrainingRig::RowName> names_of(const TrackerRig::Rows& rows);

}  // namespace millrace::test
