#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "millrace/observe/trace/trace_writer.hpp"
#include "observe/trace/millrace/records.hpp"

namespace millrace::trace {

/** @brief One record: its kind and what it holds. */
struct RawRecord {
  RecordKind kind = RecordKind::nothing;
  std::string_view payload;
  std::size_t begin = 0;  ///< in the file
};

/** @brief Takes the records of a file one by one, up to the first that is not whole. */
class RecordCursor {
 public:
  explicit RecordCursor(std::string_view bytes)
      : bytes_{bytes}, rest_{bytes.substr(std::min(bytes.size(), kTraceMagic.size() + 1))} {}

  /** @return false at the end of the whole records; `record` is then unspecified */
  bool next(RawRecord& record) {
    std::string_view rest = rest_;
    if (rest.empty() || rest.front() == '\0') return false;
    record.begin = bytes_.size() - rest.size();
    record.kind = static_cast<RecordKind>(rest.front());
    rest.remove_prefix(1);
    const auto length = take_varint(rest);
    if (!length || *length > rest.size()) return false;
    record.payload = rest.substr(0, *length);
    rest.remove_prefix(*length);
    rest_ = rest;
    return true;
  }

 private:
  std::string_view bytes_, rest_;
};

}  // namespace millrace::trace
