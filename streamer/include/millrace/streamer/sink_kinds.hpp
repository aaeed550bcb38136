#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "millrace/streamer/sink.hpp"

namespace millrace {

/**
 * @brief A kind of sink that users can name by an address.
 *
 * One row of the table in streamer/src/sink/kinds.cpp. Everything that lists or describes sinks
 * (`open_sink`, messages, help texts, `millrace doctor`) reads that table. How to add a row:
 * docs/sinks.md, "Adding a sink".
 */
struct SinkKind {
  std::string_view name;                     ///< "redis"
  std::array<std::string_view, 3> prefixes;  ///< an address begins with one of them; "": unused
  std::string_view address;                  ///< the usual form of an address: "redis://HOST:PORT"
  std::string_view summary;                  ///< what keeps the rows, in a few words
  std::string_view package = "";             ///< Debian package of the client library; "": none

  bool is_folder = false;    ///< the rest of an address is a folder, which the sink owns
  bool has_settings = true;  ///< an address may end with `?SETTING=VALUE&...`
  bool one_process = false;  ///< only one process at a time can write to it

  /** Opens an address; null: not in this build. Throws std::invalid_argument. */
  std::unique_ptr<Sink> (*open_sink)(std::string_view address) = nullptr;
  /** Opens an address to read in order; null: not in this build, or without order. */
  std::unique_ptr<RecordSource> (*open_source)(std::string_view address) = nullptr;
  bool keeps_order = false;  ///< batches can be read in the order in which they were written

  [[nodiscard]] constexpr bool built() const noexcept { return open_sink != nullptr; }
  /** @brief Returns whether `address` begins with a prefix of this kind. */
  [[nodiscard]] constexpr bool owns(std::string_view address) const noexcept {
    return !prefix_of(address).empty();
  }
  /**
   * @brief Returns the prefix of this kind with which `address` begins; "" if it begins with none.
   */
  [[nodiscard]] constexpr std::string_view prefix_of(std::string_view address) const noexcept {
    for (const std::string_view prefix : prefixes) {
      if (address.starts_with(prefix) && !prefix.empty()) return prefix;
    }
    return "";
  }
};

/** @brief All kinds of sinks, also those that are not in this build. */
[[nodiscard]] std::span<const SinkKind> sink_kinds();

/**
 * @brief Finds the kind that `address` names; null for an unknown kind. It may not be in this
 * build.
 */
[[nodiscard]] const SinkKind* find_sink_kind(std::string_view address);

/** @brief "file:DIR, rocksdb:DIR, ...": what users can write as a sink, for help and messages. */
[[nodiscard]] std::string sink_addresses();
/**
 * @brief Like sink_addresses, for the kinds that can be read in order: what `open_source` takes.
 */
[[nodiscard]] std::string source_addresses();

/** @brief Returns how to get a kind that is not in this build; "" for a kind that is in it. */
[[nodiscard]] std::string sink_remedy(const SinkKind& kind);

}  // namespace millrace
