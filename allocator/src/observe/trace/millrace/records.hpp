#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::trace {

/// The format of docs/record.md, for its writer and its reader.

inline constexpr char kTraceVersion = 1;

/** @brief The kinds of records: the first byte of each. */
enum class RecordKind : std::uint8_t {
  nothing = 0,  ///< not a record: nothing was written here
  program = 1,
  device = 2,
  stream = 3,
  frame = 4,
  stack = 5,
  label = 6,
  allocated = 16,
  freed = 17,
  completed = 18,
  failed = 19,
  used = 20,
  marked = 21,
  waited = 22,
  passed = 23,
  passed_stream = 24,
  passed_device = 25,
  closed = 26,
  reserved = 27,
  released = 28,
  device_reset = 29,
  pool_keeps = 30,
  pool_trimmed = 31,
  not_passed = 32,
  stream_not_passed = 33,
  ended = 127,
};

/** @brief Bits of the flags of a stream. */
inline constexpr std::uint64_t kLegacy = 1, kBlocking = 2, kForAll = 4;

/** @brief Bits of the flags of a device. */
inline constexpr std::uint64_t kTimesArePositions = 1, kAddressesAreMadeUp = 2;

/** @brief Bits of the flags of what is known to be complete. */
inline constexpr std::uint64_t kQueried = 1;

inline constexpr std::size_t kMostVarintBytes = 10;

/** @brief Takes a number off the front of `bytes`: seven bits a byte, the lowest first. Nothing if
 *         it is cut short, or longer than 64 bits. */
[[nodiscard]] inline std::optional<std::uint64_t> take_varint(std::string_view& bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < kMostVarintBytes; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const std::uint64_t bits = byte & 0x7fU;
    if (i == kMostVarintBytes - 1 && bits > 1) return std::nullopt;
    value |= bits << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace millrace::trace
