#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace::trace {

/** @brief Builds an AllocationLog and keeps the live blocks. It checks nothing itself. */
class LogBuilder {
 public:
  explicit LogBuilder(AllocationLog& log) : log_{log} {}

  [[nodiscard]] std::uint32_t stream(const LoggedStream& stream);

  /** @brief Adds a block that is live from now on, and its event if it was not live at the start.
   */
  std::uint32_t allocate(const LoggedBlock& block, const LogEvent& event);
  /** @brief Adds free_requested or free_completed. The block stays live until `forget`. */
  void free(std::uint32_t block, const LogEvent& event);
  void add(const LogEvent& event) { log_.events.push_back(event); }

  /** @brief Returns the live block that begins at an address. */
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint32_t device,
                                                  std::uint64_t address) const;
  /** @brief Returns a live block that overlaps a range; any one of several. */
  [[nodiscard]] std::optional<std::uint32_t> find_overlap(std::uint32_t device,
                                                          std::uint64_t address,
                                                          std::uint64_t bytes) const;
  /** @brief Returns the live blocks of a device, by address. */
  [[nodiscard]] std::vector<std::uint32_t> live_on(std::uint32_t device) const;
  void forget(std::uint32_t block);

 private:
  using Place = std::pair<std::uint32_t, std::uint64_t>;  // device, address

  AllocationLog& log_;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, std::uint32_t> streams_;
  std::map<Place, std::uint32_t> live_;
};

}  // namespace millrace::trace
