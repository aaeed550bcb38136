#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/text.hpp"
#include "explain/explained.hpp"

namespace millrace::cli {

/** @brief Bytes of one stream that the asking stream cannot use. */
struct StreamBytes {
  std::uint32_t stream = 0;
  std::uint64_t bytes = 0;
  bool was_used = false;             ///< whether blocks used them since their acquisition
  std::optional<std::size_t> freed;  ///< the last free; if never used, the last acquisition
};

/** @brief The bytes of every stream, in descending order. */
[[nodiscard]] std::vector<StreamBytes> bytes_by_stream(const ExplainedFile& file,
                                                       const MemoryMoment& moment);

/** @brief "last freed at event 12", "not used since it was acquired at event 3". */
[[nodiscard]] std::string last_use(const trace::AllocationLog& log, const StreamBytes& bytes);

/** @brief Text about the memory at one moment: its parts, and the sites that hold it. */
class MomentText {
 public:
  /** @param wide  show all rows and an additional column */
  MomentText(const ExplainedFile& file, bool wide, std::size_t width, const Painter& paint);

  /** @brief A line for each part, and for the streams and pools of free memory; "" if the reserved
   *         bytes are unknown. */
  [[nodiscard]] std::string parts(const MemoryMoment& moment) const;
  /** @brief The sites that hold most live bytes, and those that hold most other bytes. */
  [[nodiscard]] std::string holders(const MemoryMoment& moment) const;

 private:
  [[nodiscard]] std::string by_stream(const MemoryMoment& moment) const;
  [[nodiscard]] std::string by_pool(const MemoryMoment& moment) const;
  [[nodiscard]] static std::string and_more(std::size_t count, const char* where, const char* what);
  [[nodiscard]] static std::string detail(const MemoryMoment& moment, MemoryPart part);
  [[nodiscard]] std::string list(const std::string& title, const MemoryMoment& moment,
                                 bool (*counts)(MemoryPart)) const;
  [[nodiscard]] std::string since(const MemoryShare& row) const;

  const ExplainedFile& file_;
  const std::vector<std::string> streams_;
  const bool wide_;
  const std::size_t width_;
  const Painter& paint_;
};

}  // namespace millrace::cli
