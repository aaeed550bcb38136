#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "millrace/ordering/race_checker.hpp"

namespace millrace::virtual_cuda {

/** @brief Names races on standard error as they are found, each pair of places once. */
class RaceLog {
 public:
  /** @brief Pairs of places that are named; more are only counted. */
  static constexpr std::size_t kMostNamed = 50;

  struct Entry {
    std::string kind;  ///< as the checker names it: "early reuse"
    std::string message;
  };

  /** @param memory  where the bytes lie, for the message; may be empty */
  void add(const RaceChecker::Race& race, const std::string& memory);
  /** @param first, second  calls and places, which tell one race from another */
  void add(const std::string& kind, const std::string& first, const std::string& second,
           const std::string& message);

  [[nodiscard]] std::uint64_t races() const noexcept { return races_; }
  /** @brief Races that were named, in the order in which they were found. */
  [[nodiscard]] const std::vector<Entry>& named() const noexcept { return named_; }
  void write_summary(std::FILE* file) const;

 private:
  std::uint64_t races_ = 0;
  std::set<std::string> pairs_;  // kinds and places of those that are named
  std::vector<Entry> named_;
};

}  // namespace millrace::virtual_cuda
