#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "check/site.hpp"
#include "millrace/ordering/race_checker.hpp"

namespace millrace::virtual_cuda {

/**
 * @brief Prints races and accesses out of bounds on standard error when they are found. Each pair
 *        of stacks is printed once, with its functions.
 */
class RaceLog {
 public:
  /** @brief Number of pairs that are printed. Others are only counted. */
  static constexpr std::size_t kMostNamed = 50;

  struct Entry {
    std::string kind;     ///< for example "early reuse", "out of bounds"
    std::string message;  ///< with the stacks that it refers to
  };

  explicit RaceLog(Sites& sites) : sites_{&sites} {}

  /** @param memory  describes the bytes' allocation, for the message; may be empty */
  void add(const RaceChecker::Race& race, const std::string& memory);
  /** @param first, second  calls and places, which identify a race */
  void add(const std::string& kind, const std::string& first, const std::string& second,
           const std::string& message);
  /** @param access, allocation  calls and places */
  void add_out_of_bounds(const std::string& access, const std::string& allocation,
                         const std::string& message);

  /** @brief Number of races and accesses out of bounds. */
  [[nodiscard]] std::uint64_t found() const noexcept { return races_.found + bounds_.found; }
  /** @brief The printed races and accesses, in the order in which they were found. */
  [[nodiscard]] const std::vector<Entry>& named() const noexcept { return named_; }
  void write_summary(std::FILE* file) const;

 private:
  struct Count {
    std::uint64_t found = 0;
    std::size_t named = 0;
  };

  void name(Count& count, const char* heading, Entry entry, const std::string& first,
            const std::string& second);
  void write(std::FILE* file, const char* what, const char* places, const Count& count) const;

  Sites* sites_;
  Count races_;
  Count bounds_;
  std::set<std::string> pairs_;  // kinds and places of printed entries
  std::vector<Entry> named_;
};

}  // namespace millrace::virtual_cuda
