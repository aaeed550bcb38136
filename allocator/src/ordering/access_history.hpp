#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ordering/operation_log.hpp"

namespace millrace::ordering {

using Address = std::uintptr_t;

/** One generation of a range: from an allocation to the next one. */
struct Allocation {
  Address begin = 0, end = 0;
  std::shared_ptr<const Op> allocated, freed;
};

/**
 * An earlier access that a later one may race with. `allocation` is the generation that it used.
 */
struct PastAccess {
  std::shared_ptr<const Op> op;
  bool write = false;
  std::shared_ptr<const Allocation> allocation;
  friend bool operator==(const PastAccess&, const PastAccess&) = default;
};

/** Bytes with the same history of accesses. */
struct Cell {
  Address end = 0;
  std::shared_ptr<const Allocation> allocation;  // the latest one; nullptr if there was none
  std::vector<PastAccess> accesses;

  [[nodiscard]] bool same_past(const Cell& other) const {
    return allocation == other.allocation && accesses == other.accesses;
  }
};

/** Keeps the accesses that may still matter, by address. */
class AccessHistory {
 public:
  /** Visits the cells that make up [begin, end). Splits and creates cells as needed. */
  template <typename Visit>
  void visit(Address begin, Address end, Visit visit) {
    for (auto it = cover(begin, end); it != cells_.end() && it->first < end; ++it) {
      size_ -= it->second.accesses.size();
      visit(it->second);
      size_ += it->second.accesses.size();
    }
    merge(begin, end);
  }

  /**
   * Gives [to, to + bytes) the history of [from, from + bytes) and no other. They must not overlap.
   */
  void copy(Address to, Address from, std::size_t bytes);

  /** Drops the cells of [begin, end). */
  void erase(Address begin, Address end);

  /** Drops the accesses for which `done` is true, and then the cells without information. */
  template <typename Predicate>
  void drop_if(Predicate done) {
    for (auto it = cells_.begin(); it != cells_.end();) {
      Cell& cell = it->second;
      size_ -= std::erase_if(cell.accesses, done);
      it = cell.accesses.empty() && cell.allocation == nullptr ? cells_.erase(it) : std::next(it);
    }
    if (!cells_.empty()) merge(cells_.begin()->first, cells_.rbegin()->second.end);
  }

  /** Visits every remembered operation, perhaps more than once. */
  template <typename Visit>
  void for_each_op(Visit visit) const {
    for (const auto& [begin, cell] : cells_) {
      for (const PastAccess& access : cell.accesses) visit(*access.op);
      if (cell.allocation != nullptr) visit(*cell.allocation->allocated);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t cells() const noexcept { return cells_.size(); }

 private:
  using Cells = std::map<Address, Cell>;

  Cells::iterator cover(Address begin, Address end);
  void split(Address at);
  void merge(Address begin, Address end);

  Cells cells_;
  std::size_t size_ = 0;
};

}  // namespace millrace::ordering
