#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/dirty_rows.hpp"
#include "capture/layout.hpp"
#include "millrace/pipeline/model/embedding_bags.hpp"
#include "millrace/streamer/captured_rows.hpp"
#include "millrace/streamer/schema.hpp"

namespace millrace::capture {

/** @brief Rows to gather, their places, and their expected number. */
struct GatheredRows {
  RowList list;
  const std::int32_t* slots = nullptr;  ///< slots of cached tables
  double rows = 0, bytes = 0;           ///< expected rows, and expected bytes of their values
  double at_home = 0;                   ///< share of these that is not in the cache
};

/** @brief Memory of a slot: device memory, or pinned memory. */
struct SlotMemory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool on_host = false;
};

/**
 * @brief The tables of an EmbeddingBags for captures: the parts of a row that are delivered, and
 * their layout in a slot.
 */
class SourceRows {
 public:
  struct Selection {
    RowContent content = RowContent::weights;
    std::span<const std::string> skipped{};  ///< names of tables
  };

  /** @throws std::invalid_argument if a table to skip does not exist */
  SourceRows(ModelContext& context, EmbeddingBags& bags, const Selection& selection);

  [[nodiscard]] std::vector<StreamedTable> schema() const;
  /** Number of rows of all tables. */
  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  [[nodiscard]] EmbeddingBags& bags() const noexcept { return bags_; }
  [[nodiscard]] std::span<const SourceTable> tables() const noexcept { return tables_; }
  /** @brief Returns the bytes of a row id. */
  [[nodiscard]] std::size_t id_bytes() const { return size_of(type_); }
  [[nodiscard]] bool skips(std::size_t table) const { return tables_[table].skipped != 0; }
  /** @return bytes that a slot needs for one row of any table, and for all rows of all tables */
  [[nodiscard]] std::size_t least_bytes() const;
  [[nodiscard]] std::size_t most_bytes() const;
  /** @return maximum number of rows that can fit into a slot of `bytes` */
  [[nodiscard]] std::size_t most_rows(std::size_t bytes) const;
  /** @return number of rows that fit into `bytes`, whichever rows they are */
  [[nodiscard]] std::size_t sure_rows(std::size_t bytes) const;
  /** @return bytes into which `rows` rows fit, whichever rows they are */
  [[nodiscard]] std::size_t sure_bytes(std::size_t rows) const;
  [[nodiscard]] std::size_t header_bytes() const { return ids_begin(tables_.size()); }

  [[nodiscard]] GatheredRows of(const RowUpdate& update) const;
  /**
   * @brief Describes a list of rows of all tables, expected in proportion to the tables' sizes.
   * @param rows  expected number
   */
  [[nodiscard]] GatheredRows of(const RowList& list, double rows) const;

  /** @brief Enqueues the gather of a list into a slot; rows without room become dirty. */
  void gather(const GatheredRows& rows, const SlotMemory& slot, const DirtyRows& dirty,
              Allocator& pinned, StreamRef stream);

  /** @brief Enqueues a kernel that copies gathered rows: as many bytes as their header says. */
  void drain(const GatheredRows& rows, const SlotMemory& from, const SlotMemory& to,
             StreamRef stream) const;

  /** @return true if the contents of a slot of `bytes` can be what a gather wrote */
  [[nodiscard]] bool valid(const std::byte* slot, std::size_t bytes) const;
  /** @brief Describes the contents of a slot that is on the host. */
  void read(const std::byte* slot, std::span<const std::uint32_t> numbers,
            CapturedRows& rows) const;
  /** @brief Returns the bytes of the values, without ids and rounding. */
  [[nodiscard]] std::size_t changed_bytes(const CapturedRows& rows) const;

 private:
  [[nodiscard]] std::size_t widest_row() const;  ///< bytes of the widest row, including its id
  void upload(Allocator& pinned, StreamRef stream);

  ModelContext& context_;
  EmbeddingBags& bags_;
  std::vector<SourceTable> tables_;
  GatherShape shape_;
  std::size_t rows_ = 0;
  /** Floats in the arrays of all tables. */
  std::size_t weights_ = 0, first_moment_ = 0, second_moment_ = 0;
  IndexType type_;
  Buffer on_device_;  ///< SourceTables, from the first gather on; allocated on main
};

}  // namespace millrace::capture
