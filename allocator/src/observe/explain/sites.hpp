#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "millrace/observe/explain.hpp"

namespace millrace {

/** @brief The sites of a log, each once, with their names. A site is the code that allocates. */
class Sites {
 public:
  explicit Sites(const trace::AllocationLog& log) : log_(log) {}

  /** @brief Returns the site that allocated a block of the log. */
  [[nodiscard]] std::uint32_t of_block(std::uint32_t block);
  [[nodiscard]] std::uint32_t of_kind(SiteKind kind);

  [[nodiscard]] std::vector<ExplainedSite> take() { return std::move(sites_); }

 private:
  using Key = std::tuple<SiteKind, trace::StackTable::Id, trace::LabelTable::Id, std::uint64_t>;

  [[nodiscard]] std::uint32_t find(const ExplainedSite& site);
  [[nodiscard]] std::string name_of(const ExplainedSite& site, bool with_line) const;

  const trace::AllocationLog& log_;
  std::vector<ExplainedSite> sites_;
  std::map<Key, std::uint32_t> known_;
};

/**
 * @brief Returns the frame of a stack that helps its reader most: the innermost frame of the
 *        program's own code, otherwise the innermost frame.
 *
 * Frames of PyTorch, of other installed packages, of Python itself and of C++ are not the program's
 * own.
 */
[[nodiscard]] const trace::StackFrame& own_frame(const trace::StackTable& stacks,
                                                 trace::StackTable::Id stack);

}  // namespace millrace
