#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/observe/trace/limits.hpp"

namespace millrace::trace {

enum class ValueKind : std::uint8_t {
  none,
  boolean,
  integer,
  real,
  string,
  bytes,
  list,
  tuple,
  dict,
};

/** @brief "a dict", "an integer", ...: for messages. */
[[nodiscard]] const char* to_string(ValueKind kind) noexcept;

/** @brief How a ValueTree stores one value, in 16 bytes. */
struct ValueNode {
  ValueKind kind = ValueKind::none;
  std::uint32_t length = 0;  ///< of a string, in bytes
  std::uint64_t bits = 0;    ///< number, or where a string starts in the text, or which container

  [[nodiscard]] static ValueNode boolean(bool value) { return {ValueKind::boolean, 0, value}; }
  [[nodiscard]] static ValueNode integer(std::int64_t value) {
    return {ValueKind::integer, 0, std::bit_cast<std::uint64_t>(value)};
  }
  [[nodiscard]] static ValueNode real(double value) {
    return {ValueKind::real, 0, std::bit_cast<std::uint64_t>(value)};
  }
  [[nodiscard]] static ValueNode text(ValueKind kind, std::uint64_t at, std::uint64_t length) {
    return {kind, static_cast<std::uint32_t>(length), at};
  }
  [[nodiscard]] static ValueNode container(ValueKind kind, std::uint64_t index) {
    return {kind, 0, index};
  }
};

class ValueTree;

/** @brief One value of a ValueTree; borrows the tree, which must stay where it is. Cheap to copy.
 */
class Value {
 public:
  Value(const ValueTree& tree, ValueNode node) : tree_{&tree}, node_{node} {}

  [[nodiscard]] ValueKind kind() const noexcept { return node_.kind; }
  [[nodiscard]] bool is(ValueKind kind) const noexcept { return node_.kind == kind; }

  /// @name What the value holds; the caller has looked at kind().
  /// @{
  [[nodiscard]] bool boolean() const noexcept { return node_.bits != 0; }
  [[nodiscard]] std::int64_t integer() const noexcept {
    return std::bit_cast<std::int64_t>(node_.bits);
  }
  [[nodiscard]] double real() const noexcept { return std::bit_cast<double>(node_.bits); }
  [[nodiscard]] std::string_view text() const;  ///< of a string or bytes
  [[nodiscard]] std::size_t size() const;       ///< items of a list or tuple, entries of a dict
  [[nodiscard]] Value item(std::size_t index) const;  ///< of a list or tuple
  [[nodiscard]] std::pair<Value, Value> entry(
      std::size_t index) const;  ///< key and value of a dict
  /// @}

  /** @brief The entry of a dict under this string; the last one, if there are several. O(entries).
   */
  [[nodiscard]] std::optional<Value> find(std::string_view key) const;

 private:
  [[nodiscard]] const std::vector<ValueNode>& items() const;

  const ValueTree* tree_;
  ValueNode node_;
};

/**
 * @brief The plain data of a pickle or JSON file: none, booleans, numbers, strings, lists, tuples
 * and dicts. A container may be reached along several paths (a pickle shares objects) but never
 * contains itself, and nesting is bounded, so whoever walks the tree needs no guard of his own
 * against depth.
 */
class ValueTree {
 public:
  using Containers =
      std::vector<std::vector<ValueNode>>;  ///< dicts hold key, value, key, value, ...

  /**
   * @param text        strings are stretches of this
   * @param containers  what lists, tuples and dicts hold
   * @throws std::invalid_argument, with the reason, if a container holds itself or nesting is
   * deeper than `max_depth`
   */
  ValueTree(std::string text, Containers containers, ValueNode root, std::size_t max_depth);
  ValueTree(ValueTree&&) = default;
  ValueTree& operator=(ValueTree&&) = default;
  ValueTree(const ValueTree&) = delete;
  ValueTree& operator=(const ValueTree&) = delete;
  ~ValueTree() = default;

  [[nodiscard]] Value root() const noexcept { return {*this, root_}; }

  /** @brief No fewer than the dicts of the file, however often it refers to each. Who unfolds
   * shared dicts into records can take this as a bound that no honest file reaches. */
  [[nodiscard]] std::size_t record_bound() const noexcept;

 private:
  friend class Value;
  std::string text_;
  Containers containers_;
  ValueNode root_;
};

/**
 * @brief Reads JSON.
 * @param text    the whole file
 * @param source  its name, for messages
 * @throws ParseError with the byte, also for what TraceLimits refuses and for numbers that fit
 * neither 64-bit integers nor doubles
 */
[[nodiscard]] ValueTree read_json(std::string_view text, const std::string& source,
                                  const TraceLimits& limits = {});

}  // namespace millrace::trace
