#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explain/explained.hpp"

namespace millrace::cli {

/// Name of the row for a layout found in n log n steps. `replay` searches longer: "packed offline".
inline constexpr const char* kPackedName = "packed quickly";

/** @brief A difference of bytes in a suitable unit: "+1.20 GiB", "−300 B". */
[[nodiscard]] std::string change_in_words(std::int64_t bytes);

/** @brief A difference of numbers: "+12", "−3". */
[[nodiscard]] std::string signed_number(std::int64_t number);

/** @brief "once", "29 times". */
[[nodiscard]] std::string how_often(std::uint64_t count);

/** @brief Formats the numbers of a table in the unit of its largest number. */
class SizeUnit {
 public:
  explicit SizeUnit(std::uint64_t largest);

  [[nodiscard]] const char* name() const noexcept { return name_; }
  [[nodiscard]] std::string plain(std::uint64_t bytes) const;

 private:
  double divisor_;
  const char* name_;
};

/** @brief Shortens text to a number of columns by cutting its middle. */
[[nodiscard]] std::string shortened(const std::string& text, std::size_t columns);

/** @brief A short description of a part of memory. */
[[nodiscard]] const char* meaning(MemoryPart part) noexcept;

/**
 * @brief The stream of a request or of memory: "on the stream copy", "by cudaMalloc".
 * @param names  from `stream_names`, without devices
 */
[[nodiscard]] std::string on_stream(const Explanation& explanation,
                                    const std::vector<std::string>& names, std::uint32_t stream);

/** @brief "the pool (0, 1)", with PyTorch's numbers; "the default pool". */
[[nodiscard]] std::string pool_name(const trace::TorchPool& pool);

/** @brief The name of a stream for a column: "copy", "stream 3", "default", "0x7f12a0". */
[[nodiscard]] std::string short_stream(const std::string& name);

/** @brief "event 12", "line 12" for a CSV file; "the beginning" without an event. */
[[nodiscard]] std::string event_name(const trace::AllocationLog& log,
                                     std::optional<std::size_t> event);

/** @brief A part of a whole in percent. */
[[nodiscard]] std::string share_of(std::uint64_t part, std::uint64_t all);

/** @brief When the asking stream can use the memory of a share. */
[[nodiscard]] std::string usable(const ExplainedFile& file, const MemoryShare& share);

}  // namespace millrace::cli
