#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/text.hpp"

namespace millrace::cli {

/**
 * @brief A list with a title for each column. The first column is aligned to the left, all others
 *        to the right. If a line is wider than the page, names in the first column are shortened.
 */
class List {
 public:
  explicit List(std::vector<std::string> titles) : titles_(std::move(titles)) {}

  void add_row(std::vector<TextTable::Cell> cells);

  [[nodiscard]] std::string render(const Painter& paint, std::size_t page) const;

 private:
  std::vector<std::string> titles_;
  std::vector<std::vector<TextTable::Cell>> rows_;
};

}  // namespace millrace::cli
