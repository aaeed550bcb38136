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

/** @brief The type of a Value. */
enum class ValueKind : std::uint8_t {
  none,
  boolean,
  integer,
  big_integer,  ///< does not fit into a signed 64-bit integer; its value is not kept
  real,
  string,
  bytes,
  list,
  tuple,
  dict,
  other,  ///< a set or a bytearray; its value is not kept
};

/** @brief "a dict", "an integer", ..., for messages. */
[[nodiscard]] const char* to_string(ValueKind kind) noexcept;

struct ValueStore;

/** @brief One value of a ValueTree; borrows the tree's memory. Cheap to copy. */
class Value {
 public:
  Value(const ValueStore& store, std::uint64_t node) : store_{&store}, node_{node} {}

  [[nodiscard]] ValueKind kind() const noexcept;
  [[nodiscard]] bool is(ValueKind expected) const noexcept { return kind() == expected; }

  /// @name The contents. Call only the function for the value's kind().
  /// @{
  [[nodiscard]] bool boolean() const noexcept;
  [[nodiscard]] std::int64_t integer() const noexcept;
  [[nodiscard]] double real() const noexcept;   ///< may be infinite or NaN
  [[nodiscard]] std::string_view text() const;  ///< string or bytes; may contain any bytes
  [[nodiscard]] std::size_t size() const;       ///< items of a list or tuple, entries of a dict
  [[nodiscard]] Value item(std::size_t index) const;  ///< item of a list or tuple
  [[nodiscard]] std::pair<Value, Value> entry(
      std::size_t index) const;  ///< key and value of a dict
  /// @}

  /** @brief The value of a key in a dict; the last one if the key appears several times. Takes
   *         O(entries). */
  [[nodiscard]] std::optional<Value> find(std::string_view key) const;

  /** @brief Equal for two containers of a tree if and only if they are the same one, reached along
   *         two paths. */
  [[nodiscard]] std::uint64_t identity() const noexcept { return node_; }

 private:
  const ValueStore* store_;
  std::uint64_t node_;
};

/**
 * @brief The plain data of a pickle or JSON file: none, booleans, numbers, strings, lists, tuples
 *        and dicts.
 *
 * A container may be reached along several paths, because a pickle shares objects. It never
 * contains itself, and nesting is bounded, so code that walks the tree needs no check of the depth.
 * In addition to the bytes of the file, a value takes 8 bytes, and a container 17 more.
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

  /** @brief An upper bound of the number of dicts in the file. A reader that expands shared dicts
   *         into records can use it as a limit that no valid file reaches. */
  [[nodiscard]] std::size_t record_bound() const noexcept;
  /** @brief Bytes of memory that the reader may use in addition to the file and the tree. */
  [[nodiscard]] std::uint64_t memory_left() const noexcept;

 private:
  std::unique_ptr<const ValueStore> store_;
};

/**
 * @brief Reads JSON.
 *
 * Numbers that do not fit into 64-bit integers or doubles become big integers and infinities, and
 * text that is not UTF-8 is kept unchanged: the code that uses a value decides whether it is valid.
 * @param text    the whole file
 * @param source  name of the file, for messages
 * @throws ParseError with line and column, also if a limit is exceeded
 */
[[nodiscard]] ValueTree read_json(std::string text, const std::string& source,
                                  const TraceLimits& limits = {});

}  // namespace millrace::trace
