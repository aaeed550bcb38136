#pragma once

#include <utility>

#include "millrace/ordering/ledger.hpp"

namespace millrace::test {

/** @brief A ledger whose driver calls all succeed at once. */
class Streams {
 public:
  Ledger ledger;
  MarkerToken last_token = 100;

  /** @brief Returns the point that a free on `stream` has now. */
  Point freed(StreamId stream) { return {stream, ledger.next(stream)}; }

  Point record(StreamId stream) {
    PendingRecord record = ledger.begin_record(stream);
    const Point point = record.point;
    ledger.publish_record(std::move(record), ++last_token);
    return point;
  }
};

}  // namespace millrace::test
