#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

namespace millrace::ship {

/**
 * @brief The recaptures that a sink still waits for: their rows are missing in the sink.
 *
 * A recapture is pending until a shipment whose ticket is at least its own is delivered. Not
 * thread-safe: the shipper's mutex protects it.
 */
class PendingRecaptures {
 public:
  PendingRecaptures() { pending_.reserve(1); }

  /**
   * @brief Adds a recapture. If host memory runs out, it is merged with the last recapture: the
   * rows of both then count as missing until the newer one is delivered.
   * @param ticket  of the recapture; 0: another rank has the rows, and nothing is awaited
   * @param rows    number of rows
   */
  void add(std::uint64_t ticket, std::uint64_t rows) noexcept {
    if (ticket == 0) return;
    try {
      pending_.push_back({ticket, rows});
    } catch (const std::bad_alloc&) {  // room for one entry was reserved, so it is not empty
      pending_.back() = {std::max(pending_.back().ticket, ticket), pending_.back().rows + rows};
    }
  }

  /**
   * @brief Call before a shipment is written: drops the recaptures that it includes.
   * @param ticket  ticket of the shipment
   * @return rows of the other recaptures
   */
  std::uint64_t drop_included(std::uint64_t ticket) {
    std::erase_if(pending_, [&](const Entry& entry) { return entry.ticket <= ticket; });
    return rows_after(ticket);
  }
  /**
   * @brief Call after a shipment was delivered.
   * @param missing  missing rows of its commit, as counted at the capture
   */
  void delivered(std::uint64_t ticket, std::uint64_t missing) {
    ticket_ = ticket;
    missing_ = missing;
  }
  /**
   * @return rows that the sink lacks now: those that the last delivered commit counts, and those of
   * later recaptures
   */
  [[nodiscard]] std::uint64_t missing_now() const { return missing_ + rows_after(ticket_); }

 private:
  struct Entry {
    std::uint64_t ticket = 0, rows = 0;
  };

  [[nodiscard]] std::uint64_t rows_after(std::uint64_t ticket) const {
    std::uint64_t rows = 0;
    for (const Entry& entry : pending_) {
      if (entry.ticket > ticket) rows += entry.rows;
    }
    return rows;
  }

  std::vector<Entry> pending_;
  std::uint64_t ticket_ = 0, missing_ = 0;  ///< values of the last delivered shipment
};

}  // namespace millrace::ship
