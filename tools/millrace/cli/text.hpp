#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/page.hpp"

namespace millrace::cli {

/** @brief How a piece of text looks on a terminal that shows colors. */
enum class Look { plain, strong, faint, good, bad, step };

/** @brief Gives text its look, or leaves it plain if the output is not a terminal. */
class Painter {
 public:
  explicit Painter(bool colors) : colors_(colors) {}
  [[nodiscard]] std::string operator()(std::string_view text, Look look) const;

 private:
  bool colors_;
};

/**
 * @brief Makes text safe for a terminal. Names in a trace may contain any bytes.
 *
 * Control characters, characters that change the text direction, and bytes that are not UTF-8
 * become escape codes: `\x1b`, `\u202e`, `\xff`. Table cells are already safe. Call this function
 * for names that are printed outside a table.
 */
[[nodiscard]] std::string printable(std::string_view text);

/** @brief The number of terminal columns of UTF-8 text. Wide characters are counted as one column.
 */
[[nodiscard]] std::size_t width_of(std::string_view text);

enum class Align { left, right };
/** @brief Pads the text with spaces to `width`. */
[[nodiscard]] std::string pad(std::string_view text, std::size_t width, Align align);

/** @brief Breaks the text at spaces into lines of at most `width`, and indents all but the first.
 */
[[nodiscard]] std::string wrap(std::string_view text, std::size_t width, std::size_t indent);

/**
 * @brief A table whose columns form groups, each with a heading and a rule above it.
 *
 * A table that is wider than the page is split into several tables, printed one below the other.
 * Each of them repeats the columns of the leading groups without a heading.
 */
class TextTable {
 public:
  struct Column {
    std::string title;
    std::size_t width = 0;  ///< minimum width; the column is wider if its cells need it
  };
  struct Group {
    std::string heading;
    std::vector<Column> columns;
  };
  struct Cell {
    std::string text;
    Look look = Look::plain;
  };

  explicit TextTable(std::vector<Group> groups) : groups_(std::move(groups)) {}

  /** @brief Adds a row. The first column is aligned to the left, all others to the right. */
  void add_row(std::vector<Cell> cells);
  /** @brief Adds a row with one text across all columns. */
  void add_line(std::string text, Look look);
  /** @brief Adds a row with a first cell, and one text across all other columns. */
  void add_line(Cell first, Cell rest);

  /** @param width  page width in columns */
  [[nodiscard]] std::string render(const Painter& paint, std::size_t width = page_width()) const;

 private:
  struct Row {
    std::vector<Cell> cells;
    bool whole = false;  ///< the last cell extends to the end of the row
  };

  using Columns = std::vector<std::size_t>;  ///< indices of columns, or their widths

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
