#pragma once

#include <cstdint>
#include <string>

#include "observe/trace/value/growing_array.hpp"

namespace millrace::trace {

/** @brief How a value is stored in 8 bytes: its tag, and 60 bits that depend on it. */
struct ValueNode {
  enum class Tag : std::uint8_t {
    none,
    boolean,       // 0 or 1
    integer,       // of 60 bits
    wide_integer,  // an index into `wide`
    big_integer,
    real,         // an index into `wide`
    string,       // 40 bits where it begins in `text`, 20 bits its length
    bytes,        // as `string`
    long_string,  // an index into `wide`: where it begins, then its length
    long_bytes,   // as `long_string`
    list,         // an index into `containers`; so are the next two
    tuple,
    dict,
    other,
    absent,  // no value at all: a hole in a memo
  };

  static constexpr unsigned kTagBits = 4;

  std::uint64_t bits = 0;

  [[nodiscard]] static ValueNode of(Tag tag, std::uint64_t payload = 0) {
    return {payload << kTagBits | static_cast<std::uint64_t>(tag)};
  }
  [[nodiscard]] Tag tag() const noexcept { return static_cast<Tag>(bits & 15); }
  [[nodiscard]] std::uint64_t payload() const noexcept { return bits >> kTagBits; }
  [[nodiscard]] bool is_container() const noexcept {
    return tag() == Tag::list || tag() == Tag::tuple || tag() == Tag::dict;
  }
};

/** @brief What a ValueTree holds. */
struct ValueStore {
  /** A stretch of `items`; a dict's are key, value, key, value, ... */
  struct Container {
    std::uint64_t first = 0;
    std::uint32_t size = 0;
    std::uint32_t capacity = 0;
  };

  std::string text;  ///< of the file; strings are stretches of it
  GrowingArray<ValueNode> items;
  GrowingArray<Container> containers;
  GrowingArray<std::uint64_t> wide;
  ValueNode root;
  std::uint64_t memory_left = 0;

  [[nodiscard]] std::size_t bytes() const noexcept {
    return items.bytes() + containers.bytes() + wide.bytes();
  }
};

}  // namespace millrace::trace
