#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "explain/explained.hpp"

namespace millrace::cli {

/** @brief Bytes with a unit that suits them: "6.74 GiB", "20.00 MiB", "512 B". */
[[nodiscard]] std::string size_in_words(std::uint64_t bytes);

/** @brief Numbers of a table in one unit: that of its largest number. */
class SizeUnit {
 public:
  explicit SizeUnit(std::uint64_t largest);

  [[nodiscard]] const char* name() const noexcept { return name_; }
  [[nodiscard]] std::string plain(std::uint64_t bytes) const;
  [[nodiscard]] std::string change(std::int64_t bytes) const;  ///< "+1.20", "−0.30"

 private:
  double divisor_;
  const char* name_;
};

/** @brief Shortens text in the middle to a number of columns. */
[[nodiscard]] std::string shortened(const std::string& text, std::size_t columns);

/** @brief What a part of memory is, in a few words. */
[[nodiscard]] const char* meaning(MemoryPart part) noexcept;

/** @brief "event 12" for PyTorch, "line 12" for a CSV file; "the beginning" for none. */
[[nodiscard]] std::string event_name(const trace::AllocationLog& log,
                                     std::optional<std::size_t> event);

/** @brief A part of a whole, in percent. */
[[nodiscard]] std::string share_of(std::uint64_t part, std::uint64_t all);

/** @brief When a share is usable for the asker. */
[[nodiscard]] std::string usable(const trace::AllocationLog& log, const MemoryShare& share);

}  // namespace millrace::cli
