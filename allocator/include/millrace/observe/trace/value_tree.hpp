#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/observe/trace/limits.hpp"

namespace millrace::trace {

enum class ValueKind : std::uint8_t {
  none,
  boolean,
  integer,
  big_integer,  ///< beyond 64 signed bits; its value is not kept
  real,
  string,
  bytes,
  list,
  tuple,
  dict,
  other,  ///< a set or a bytearray, which is not kept
};

/** @brief "a dict", "an integer", ...: for messages. */
[[nodiscard]] const char* to_string(ValueKind kind) noexcept;

struct ValueStore;

/** @brief One value of a ValueTree; borrows the tree's memory. Cheap to copy. */
class Value {
 public:
  Value(const ValueStore& store, std::uint64_t node) : store_{&store}, node_{node} {}

  [[nodiscard]] ValueKind kind() const noexcept;
  [[nodiscard]] bool is(ValueKind expected) const noexcept { return kind() == expected; }

  /// @name What the value holds; the caller has looked at kind().
  /// @{
  [[nodiscard]] bool boolean() const noexcept;
  [[nodiscard]] std::int64_t integer() const noexcept;
  [[nodiscard]] double real() const noexcept;   ///< may be infinite or NaN
  [[nodiscard]] std::string_view text() const;  ///< of a string or bytes; any bytes
  [[nodiscard]] std::size_t size() const;       ///< items of a list or tuple, entries of a dict
  [[nodiscard]] Value item(std::size_t index) const;  ///< of a list or tuple
  [[nodiscard]] std::pair<Value, Value> entry(
      std::size_t index) const;  ///< key and value of a dict
  /// @}

  /** @brief The entry of a dict under this string; the last one, if there are several. O(entries).
   */
  [[nodiscard]] std::optional<Value> find(std::string_view key) const;

 private:
  const ValueStore* store_;
  std::uint64_t node_;
};

/**
 * @brief The plain data of a pickle or JSON file: none, booleans, numbers, strings, lists, tuples
 * and dicts. A container may be reached along several paths (a pickle shares objects) but never
 * contains itself, and nesting is bounded, so whoever walks the tree needs no guard of his own
 * against depth.
 *
 * Beside the bytes of the file, a value takes 8 bytes, and a container 17 more.
 */
class ValueTree {
 public:
  explicit ValueTree(std::unique_ptr<const ValueStore> store);
  ValueTree(ValueTree&&) noexcept;
  ValueTree& operator=(ValueTree&&) noexcept;
  ValueTree(const ValueTree&) = delete;
  ValueTree& operator=(const ValueTree&) = delete;
  ~ValueTree();

  [[nodiscard]] Value root() const noexcept;

  /** @brief More than the dicts of the file, however often it refers to each. A reader that unfolds
   * shared dicts into records can take this as a bound that no honest file reaches. */
  [[nodiscard]] std::size_t record_bound() const noexcept;
  /** @brief Bytes of memory that the file may take beside its own and those of the tree. */
  [[nodiscard]] std::uint64_t memory_left() const noexcept;

 private:
  std::unique_ptr<const ValueStore> store_;
};

/**
 * @brief Reads JSON. Numbers that fit neither 64-bit integers nor doubles become big integers and
 * infinities, and text that is not UTF-8 is kept as it is: only who uses a value judges it.
 * @param text    the whole file
 * @param source  its name, for messages
 * @throws ParseError with line and column, also for what TraceLimits refuses
 */
[[nodiscard]] ValueTree read_json(std::string text, const std::string& source,
                                  const TraceLimits& limits = {});

}  // namespace millrace::trace
