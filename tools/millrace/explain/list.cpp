#include "explain/list.hpp"

#include <algorithm>
#include <utility>

#include "explain/words.hpp"

namespace millrace::cli {

void List::add_row(std::vector<TextTable::Cell> cells) {
  for (TextTable::Cell& cell : cells) cell.text = printable(cell.text);
  rows_.push_back(std::move(cells));
}

std::string List::render(const Painter& paint, std::size_t page) const {
  constexpr std::size_t kGap = 2, kLeastName = 12;
  std::vector<std::size_t> widths;
  for (const std::string& title : titles_) widths.push_back(width_of(title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(row[i].text));
    }
  }
  std::size_t others = 0;
  for (std::size_t i = 1; i < widths.size(); ++i) others += kGap + widths[i];
  const std::size_t room = page > others + kLeastName ? page - others : kLeastName;
  widths[0] = std::min(widths[0], room);

  std::string text;
  const auto add = [&](std::size_t column, const std::string& cell, Look look) {
    if (column == 0) {
      text += paint(pad(shortened(cell, widths[0]), widths[0], Align::left), look);
    } else {
      text += std::string(kGap, ' ') + paint(pad(cell, widths[column], Align::right), look);
    }
  };
  for (std::size_t i = 0; i < titles_.size(); ++i) add(i, titles_[i], Look::faint);
  text += '\n';
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) add(i, row[i].text, row[i].look);
    text += '\n';
  }
  return text;
}

}  // namespace millrace::cli
