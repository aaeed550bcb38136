#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <vector>

namespace millrace::ship {

/**
 * @brief The recaptures that a sink still waits for, and so the rows that it lacks.
 *
 * A recapture is pending until a shipment whose ticket is at least its own is delivered. Not
 * thread-safe: the shipper's mutex protects it.
 */
class PendingRecaptures {
 public:
  PendingRecaptures() { pending_.reserve(1); }

  /**
   * @brief Adds a recapture. Without host memory it becomes one with the last recapture: their rows
   *        then count as missing until the newer of the two is delivered.
   * @param ticket  of the recapture; 0: another rank has the rows, and nothing is awaited
   * @param rows    how many
   */
  void add(std::uint64_t ticket, std::uint64_t rows) noexcept {
    if (ticket == 0) return;
    try {
      pending_.push_back({ticket, rows});
    } catch (const std::bad_alloc&) {  // it had room for one, so it is not empty
      pending_.back() = {std::max(pending_.back().ticket, ticket), pending_.back().rows + rows};
    }
  }

  /** @brief A shipment is about to be written: drops the recaptures that it includes.
   *  @param ticket  of the shipment. @return rows of the other recaptures */
  std::uint64_t drop_included(std::uint64_t ticket) {
    std::erase_if(pending_, [&](const Entry& entry) { return entry.ticket <= ticket; });
    return rows_after(ticket);
  }
  /** @brief A shipment was delivered. @param missing  in its commit, as captured */
  void delivered(std::uint64_t ticket, std::uint64_t missing) {
    ticket_ = ticket;
    missing_ = missing;
  }
  /** @return rows that the sink lacks now: those that the last delivered commit counts, and those
   * of later recaptures */
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
  std::uint64_t ticket_ = 0, missing_ = 0;  ///< of the last delivered shipment
};

}  // namespace millrace::ship
