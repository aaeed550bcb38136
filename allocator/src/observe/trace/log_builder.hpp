#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace::trace {

/** @brief Grows an AllocationLog, and knows which blocks are live. Refuses nothing itself. */
class LogBuilder {
 public:
  explicit LogBuilder(AllocationLog& log) : log_{log} {}

  [[nodiscard]] std::uint32_t stream(const LoggedStream& stream);

  /** @brief Adds a block that is live from now on, and its event unless it was live at the start.
   */
  std::uint32_t allocate(const LoggedBlock& block, const LogEvent& event);
  /** @brief Adds free_requested or free_completed. The block is live until it is `forget`ed. */
  void free(std::uint32_t block, const LogEvent& event);
  void add(const LogEvent& event) { log_.events.push_back(event); }

  /** @brief The live block that begins at an address. */
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint32_t device,
                                                  std::uint64_t address) const;
  /** @brief A live block that shares memory with a range; of several, any. */
  [[nodiscard]] std::optional<std::uint32_t> find_overlap(std::uint32_t device,
                                                          std::uint64_t address,
                                                          std::uint64_t bytes) const;
  /** @brief The live blocks of a device, by address. */
  [[nodiscard]] std::vector<std::uint32_t> live_on(std::uint32_t device) const;
  void forget(std::uint32_t block);

 private:
  using Place = std::pair<std::uint32_t, std::uint64_t>;  // device, address

  AllocationLog& log_;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, std::uint32_t> streams_;
  std::map<Place, std::uint32_t> live_;
};

}  // namespace millrace::trace
