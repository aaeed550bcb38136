#include "data/line_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "millrace/pipeline/data/epoch_source.hpp"

namespace millrace {
namespace {

constexpr std::size_t kShownText = 80;

std::string printable(std::string_view text) {
  std::string shown;
  for (const char letter : text.substr(0, kShownText)) {
    if (letter == '\t') {
      shown += "\\t";
    } else if (letter >= ' ' && letter <= '~') {
      shown += letter;
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
    }
  }
  return text.size() > kShownText ? shown + "..." : shown;
}

}  // namespace

std::optional<std::string_view> LineReader::next() {
  line_.clear();
  too_long_ = false;
  bool begun = false;
  for (std::size_t length = 0;; length += unread_.size(), unread_ = {}) {
    if (length > kEndless) {
      throw DataError{
          fmt::format("{}: line {} goes on for more than {} bytes: this is not a text "
                      "of lines",
                      name_, number_ + 1, kEndless)};
    }
    if (unread_.empty()) {
      const std::size_t count = stream_->read(buffer_);
      if (count == 0) break;
      unread_ = std::string_view{buffer_}.substr(0, count);
    }
    begun = true;
    const std::size_t end = unread_.find('\n');
    append(unread_.substr(0, end));
    if (end != std::string_view::npos) {
      unread_.remove_prefix(end + 1);
      break;
    }
  }
  if (!begun) return std::nullopt;
  // Accepts line ends of Windows.
  if (line_.ends_with('\r')) line_.pop_back();
  ++number_;
  return line_;
}

void LineReader::append(std::string_view piece) {
  // The rest of a line that is too long is read and dropped; its caller counts it as malformed.
  const std::size_t room = kLongest - line_.size();
  too_long_ = too_long_ || piece.size() > room;
  line_ += piece.substr(0, room);
}

void MalformedCounter::add(std::uint64_t number, std::string reason, std::string_view text) {
  ++lines_.count;
  if (lines_.first.size() < limit_.shown) {
    lines_.first.push_back({number, std::move(reason), printable(text)});
  }
  if (lines_.count > limit_.limit) {
    throw DataError{fmt::format("{}: more than the {} malformed lines that are accepted: {}",
                                source_, limit_.limit, lines_.describe())};
  }
}

std::string MalformedLines::describe() const {
  if (count == 0) return {};
  std::string text = fmt::format("{} malformed line{}", count, count == 1 ? "" : "s");
  for (const MalformedLine& line : first) {
    text += fmt::format("; line {}: {}: '{}'", line.number, line.reason, line.text);
  }
  if (count > first.size() && !first.empty()) text += "; ...";
  return text;
}

}  // namespace millrace
