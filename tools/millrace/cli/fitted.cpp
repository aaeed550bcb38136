#include "cli/fitted.hpp"

#include <algorithm>

namespace millrace::cli {
namespace {

/** Length in bytes of the first character or color sequence of the text. */
std::size_t next_length(std::string_view text) {
  if (text.starts_with("\x1b[")) {
    const std::size_t end = text.find('m');
    return end == std::string_view::npos ? text.size() : end + 1;
  }
  std::size_t length = 1;
  while (length < text.size() && (text[length] & 0xc0) == 0x80) ++length;
  return length;
}

/** The position of the last space at which the line fits into the width; its size if no break is
 * needed. */
std::size_t break_of(std::string_view line, std::size_t width, std::size_t indent) {
  std::size_t column = 0, blank = std::string_view::npos;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t length = next_length(line.substr(at));
    if (line[at] == ' ' && column > indent) blank = at;
    if (line[at] != '\x1b' && ++column > width && blank != std::string_view::npos) return blank;
    at += length;
  }
  return line.size();
}

std::string fitted_line(std::string_view line, std::size_t width) {
  const std::size_t indent = std::min({line.find_first_not_of(' '), line.size(), width / 2});
  const std::string blanks(indent, ' ');
  std::string lines;
  for (std::size_t end = break_of(line, width, indent); end < line.size();
       end = break_of(line, width - indent, 0)) {
    const std::string_view piece = line.substr(0, end);
    lines += piece.substr(0, piece.find_last_not_of(' ') + 1);
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
    if (line.empty()) return lines;
    lines += '\n' + blanks;
  }
  return lines.append(line);
}

}  // namespace

std::string fitted(std::string_view text, std::size_t width) {
  std::string result;
  for (;;) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    result += fitted_line(text.substr(0, end), width);
    if (end == text.size()) return result;
    result += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace millrace::cli
