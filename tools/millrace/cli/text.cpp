#include "cli/text.hpp"

#include <fmt/color.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "millrace/text/utf8.hpp"

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

/** The code point of a character. Its bytes must be valid UTF-8. */
std::uint32_t code_point(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first;
  std::uint32_t value = first & (0xffU >> (character.size() + 1));
  for (const char byte : character.substr(1))
    value = value << 6 | (static_cast<unsigned char>(byte) & 0x3fU);
  return value;
}

/** Whether a terminal acts on the character: controls, line breaks and direction marks. */
bool is_obeyed(std::uint32_t point) {
  const bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);
  const bool breaks = point == 0x2028 || point == 0x2029;
  const bool directs = point == 0x200e || point == 0x200f || point == 0x61c ||
                       (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
  return control || breaks || directs;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = text::utf8_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else if (const std::uint32_t point = code_point(character); !is_obeyed(point)) {
      shown += character;
    } else {
      shown += point < 0x80 ? fmt::format("\\x{:02x}", point) : fmt::format("\\u{:04x}", point);
    }
    text.remove_prefix(character.size());
  }
  return shown;
}

std::string Painter::operator()(std::string_view text, Look look) const {
  if (!colors_ || look == Look::plain) return std::string{text};
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

void TextTable::add_row(std::vector<Cell> cells) {
  for (Cell& cell : cells) cell.text = printable(cell.text);
  rows_.push_back({std::move(cells), false});
}

void TextTable::add_line(std::string text, Look look) {
  rows_.push_back({{{printable(text), look}}, true});
}

void TextTable::add_line(Cell first, Cell rest) {
  first.text = printable(first.text);
  rest.text = printable(rest.text);
  rows_.push_back({{std::move(first), std::move(rest)}, true});
}

TextTable::Columns TextTable::widths() const {
  Columns widths;
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
  std::size_t first = 0;
  for (const Group& group : groups_) {  // make the group wide enough for its heading
    std::size_t total = group.columns.size() - 1;
    for (std::size_t i = 0; i < group.columns.size(); ++i) total += widths[first + i];
    widths[first] += std::max(total, width_of(group.heading)) - total;
    first += group.columns.size();
  }
  return widths;
}

TextTable::Columns TextTable::columns_of(std::size_t group) const {
  std::size_t first = 0;
  for (std::size_t i = 0; i < group; ++i) first += groups_[i].columns.size();
  Columns columns(groups_[group].columns.size());
  std::iota(columns.begin(), columns.end(), first);
  return columns;
}

std::size_t TextTable::group_of(std::size_t column) const {
  std::size_t group = 0;
  while (column >= groups_[group].columns.size()) column -= groups_[group++].columns.size();
  return group;
}

std::string TextTable::gap(const Columns& part, std::size_t at) const {
  if (at == 0) return "";
  return group_of(part[at]) == group_of(part[at - 1]) ? " " : "  ";
}

std::size_t TextTable::total(const Columns& part) const {
  const Columns widths = this->widths();
  std::size_t total = 0;
  for (std::size_t i = 0; i < part.size(); ++i) total += gap(part, i).size() + widths[part[i]];
  return total;
}

std::vector<TextTable::Columns> TextTable::parts(std::size_t page) const {
  Columns keys;
  std::size_t group = 0;
  for (; group < groups_.size() && groups_[group].heading.empty(); ++group) {
    const Columns columns = columns_of(group);
    keys.insert(keys.end(), columns.begin(), columns.end());
  }
  std::vector<Columns> parts;
  Columns part = keys;
  const auto make_room = [&](const Columns& more) {
    Columns both = part;
    both.insert(both.end(), more.begin(), more.end());
    if (part.size() == keys.size() || total(both) <= page) return;
    parts.push_back(std::exchange(part, keys));
  };
  for (; group < groups_.size(); ++group) {
    make_room(columns_of(group));
    for (const std::size_t column : columns_of(group)) {
      make_room({column});
      part.push_back(column);
    }
  }
  parts.push_back(std::move(part));
  return parts;
}

std::string TextTable::headings(const Columns& part, const Painter& paint) const {
  const Columns widths = this->widths();
  std::string headings, rules, titles;
  for (std::size_t at = 0; at < part.size();) {
    const std::size_t number = group_of(part[at]);
    const std::vector<Column>& columns = groups_[number].columns;
    if (at > 0) headings += "  ", rules += "  ";
    Columns run;
    for (; at < part.size() && group_of(part[at]) == number; ++at) {
      const std::string& title = columns[part[at] - columns_of(number).front()].title;
      titles += gap(part, at) + pad(title, widths[part[at]], at == 0 ? Align::left : Align::right);
      run.push_back(part[at]);
    }
    const std::size_t width = total(run);
    const std::string heading = wrap(groups_[number].heading, width, 0);
    headings += pad(heading.substr(0, heading.find('\n')), width, Align::left);
    for (std::size_t i = 0; i < width; ++i) rules += heading.empty() ? " " : "─";
  }
  return paint(headings, Look::faint) + '\n' + paint(rules, Look::faint) + '\n' +
         paint(titles, Look::strong) + '\n';
}

std::string TextTable::cells(const Columns& part, const Row& row, const Painter& paint) const {
  const Columns widths = this->widths();
  std::string out;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const Cell& cell = row.cells[part[i]];
    const Align align = i == 0 ? Align::left : Align::right;
    out += gap(part, i) + paint(pad(cell.text, widths[part[i]], align), cell.look);
  }
  return out;
}

std::string TextTable::line(const Row& row, bool whole, std::size_t page,
                            const Painter& paint) const {
  const Cell& first = row.cells.front();
  if (row.cells.size() == 1) return paint(wrap(first.text, page, 0), first.look);
  if (!whole) return paint(first.text, first.look);
  const Cell& rest = row.cells[1];
  const std::string begin = pad(first.text, widths().front(), Align::left) + gap({0, 1}, 1);
  const std::size_t indent = width_of(begin);
  std::string text = wrap(rest.text, page - std::min(page, indent), 0);
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
    text.insert(at + 1, std::string(indent, ' '));
  }
  return paint(begin, first.look) + paint(text, rest.look);
}

std::string TextTable::render(const Painter& paint, std::size_t width) const {
  std::string out;
  for (const Columns& part : parts(width)) {
    const bool first = out.empty();
    if (!first) out += '\n';
    out += headings(part, paint);
    for (const Row& row : rows_) {
      out += row.whole ? line(row, first, width, paint) : cells(part, row, paint);
      out += '\n';
    }
  }
  return out;
}

}  // namespace millrace::cli
