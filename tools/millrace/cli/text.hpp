#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/page.hpp"

namespace millrace::cli {

/** @brief How a piece of text looks on a terminal that shows colours. */
enum class Look { plain, strong, faint, good, bad, step };

/** @brief Writes text with looks, or without if the reader is no terminal. */
class Painter {
 public:
  explicit Painter(bool colours) : colours_(colours) {}
  [[nodiscard]] std::string operator()(std::string_view text, Look look) const;

 private:
  bool colours_;
};

/** @brief Characters that a terminal shows of this UTF-8 text (none of them wide). */
[[nodiscard]] std::size_t width_of(std::string_view text);

enum class Align { left, right };
/** @brief With blanks up to `width`. */
[[nodiscard]] std::string pad(std::string_view text, std::size_t width, Align align);

/** @brief Breaks at blanks so that no line is wider, each line after the first indented. */
[[nodiscard]] std::string wrap(std::string_view text, std::size_t width, std::size_t indent);

/**
 * @brief A table whose columns stand in groups, each with a heading and a rule over it. One that is
 *        wider than the page becomes several, one below the other, each with the first columns that
 *        have no heading.
 */
class TextTable {
 public:
  struct Column {
    std::string title;
    std::size_t width = 0;  ///< at least
  };
  struct Group {
    std::string heading;
    std::vector<Column> columns;
  };
  struct Cell {
    std::string text;
    Look look = Look::plain;
  };

  /** @brief The first column is to the left, all others to the right. */
  explicit TextTable(std::vector<Group> groups) : groups_(std::move(groups)) {}

  void add_row(std::vector<Cell> cells);
  /** @brief One text over all columns. */
  void add_line(std::string text, Look look);
  /** @brief The first cell, and one text over all others. */
  void add_line(Cell first, Cell rest);

  /** @param width  of the page */
  [[nodiscard]] std::string render(const Painter& paint, std::size_t width = page_width()) const;

 private:
  struct Row {
    std::vector<Cell> cells;
    bool whole = false;  ///< the last cell goes to the end
  };

  using Columns = std::vector<std::size_t>;  ///< numbers of columns, or their widths

  [[nodiscard]] Columns widths() const;
  [[nodiscard]] Columns columns_of(std::size_t group) const;
  [[nodiscard]] std::size_t group_of(std::size_t column) const;
  [[nodiscard]] std::vector<Columns> parts(std::size_t page) const;
  [[nodiscard]] std::string gap(const Columns& part, std::size_t at) const;
  [[nodiscard]] std::size_t total(const Columns& part) const;
  [[nodiscard]] std::string headings(const Columns& part, const Painter& paint) const;
  [[nodiscard]] std::string cells(const Columns& part, const Row& row, const Painter& paint) const;
  [[nodiscard]] std::string line(const Row& row, bool whole, std::size_t page,
                                 const Painter& paint) const;

  std::vector<Group> groups_;
  std::vector<Row> rows_;
};

}  // namespace millrace::cli
