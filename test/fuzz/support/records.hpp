#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <span>
#include <vector>

#include "millrace/streamer/record.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace::fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "broken promise: " << what << '\n';
  std::abort();
}

/// Gives every record the checksum of its bytes, as far as the lengths are valid.
inline void mend(std::vector<std::byte>& bytes) {
  std::size_t at = 0;
  try {
    while (bytes.size() - at >= kRecordHeader) {
      const std::size_t length = record_length(std::span{bytes}.subspan(at));
      if (length > bytes.size() - at) return;
      const std::uint64_t sum = XXH3_64bits(bytes.data() + at, length - sizeof sum);
      std::memcpy(bytes.data() + at + length - sizeof sum, &sum, sizeof sum);
      at += length;
    }
  } catch (const RecordError&) {
  }
}

}  // namespace millrace::fuzz
