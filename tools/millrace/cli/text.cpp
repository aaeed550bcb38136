#include "cli/text.hpp"

#include <fmt/color.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace millrace::cli {
namespace {

fmt::text_style style(Look look) {
  switch (look) {
    case Look::strong:
      return fmt::emphasis::bold;
    case Look::faint:
      return fmt::fg(fmt::terminal_color::bright_black);
    case Look::good:
      return fmt::emphasis::bold | fmt::fg(fmt::terminal_color::green);
    case Look::bad:
      return fmt::fg(fmt::terminal_color::red);
    case Look::step:
      return fmt::fg(fmt::terminal_color::yellow);
    case Look::plain:
      break;
  }
  return {};
}

}  // namespace

std::string Painter::operator()(std::string_view text, Look look) const {
  if (!colours_ || look == Look::plain) return std::string{text};
  return fmt::format(style(look), "{}", text);
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xc0) != 0x80; }));
}

std::string pad(std::string_view text, std::size_t width, Align align) {
  const std::string blanks(width - std::min(width, width_of(text)), ' ');
  return align == Align::left ? std::string{text} + blanks : blanks + std::string{text};
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  std::string result;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (column > indent && column + 1 + width_of(word) > width) {
      result += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
    column += width_of(word);
    begin = end + 1;
  }
  return result;
}

void TextTable::add_row(std::vector<Cell> cells) { rows_.push_back({std::move(cells), false}); }

void TextTable::add_line(std::string text, Look look) {
  rows_.push_back({{{std::move(text), look}}, true});
}

void TextTable::add_line(Cell first, Cell rest) {
  rows_.push_back({{std::move(first), std::move(rest)}, true});
}

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths;
  for (const Group& group : groups_) {
    for (const Column& column : group.columns) {
      widths.push_back(std::max(column.width, width_of(column.title)));
    }
  }
  for (const Row& row : rows_) {
    if (row.whole) continue;
    if (row.cells.size() != widths.size())
      throw std::logic_error{"a table's row has other columns"};
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(row.cells[i].text));
    }
  }
  return widths;
}

std::string TextTable::headings(const std::vector<std::size_t>& widths,
                                const Painter& paint) const {
  std::string headings, rules, titles;
  std::size_t column = 0;
  for (const Group& group : groups_) {
    const bool first = column == 0;
    std::size_t total = group.columns.size() - 1;
    for (const Column& entry : group.columns) {
      if (column > 0) titles += &entry == &group.columns.front() ? "  " : " ";
      titles += pad(entry.title, widths[column], first ? Align::left : Align::right);
      total += widths[column++];
    }
    if (!first) headings += "  ", rules += "  ";
    headings += pad(group.heading, total, Align::left);
    for (std::size_t i = 0; i < total; ++i) rules += group.heading.empty() ? " " : "─";
  }
  return paint(headings, Look::faint) + '\n' + paint(rules, Look::faint) + '\n' +
         paint(titles, Look::strong) + '\n';
}

std::string TextTable::render(const Painter& paint) const {
  const std::vector<std::size_t> widths = this->widths();
  std::string out = headings(widths, paint);
  for (const Row& row : rows_) {
    std::size_t column = 0;
    for (const Group& group : groups_) {
      for (std::size_t i = 0; i < group.columns.size() && column < row.cells.size(); ++i) {
        if (column > 0) out += i == 0 ? "  " : " ";
        const Cell& cell = row.cells[column];
        const bool to_end = row.whole && column + 1 == row.cells.size();
        const Align align = column == 0 ? Align::left : Align::right;
        out += paint(to_end ? cell.text : pad(cell.text, widths[column], align), cell.look);
        ++column;
      }
    }
    out += '\n';
  }
  return out;
}

}  // namespace millrace::cli
