#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/record.hpp"

namespace millrace {

/**
 * @brief The steps that a table consists of: for each epoch (one start of a trainer) the last step.
 *
 * A checkpoint keeps the lineage of its tables, and a trainer that resumes extends it. A row in a
 * sink whose version is not in the lineage comes from a step that was made and then discarded, when
 * the trainer went back to a checkpoint.
 */
class Lineage {
 public:
  /** @brief Adds all steps of an epoch up to `version`.
   *  @throws std::invalid_argument if `version` is before `last()` */
  void extend(Version version);
  /** @return true if the update of this version is part of the table */
  [[nodiscard]] bool contains(Version version) const noexcept;
  /** @return the newest version; {} if the lineage is empty */
  [[nodiscard]] Version last() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return ends_.empty(); }
  /** @return for each epoch its last step; ascending */
  [[nodiscard]] const std::vector<Version>& ends() const noexcept { return ends_; }

  friend bool operator==(const Lineage&, const Lineage&) = default;

 private:
  std::vector<Version> ends_;
};

/** @return EPOCH:STEP pairs, "1763750000:120 1763760000:200"; "" for an empty lineage */
[[nodiscard]] std::string to_string(const Lineage& lineage);
/** @throws std::invalid_argument if `text` is not a list of EPOCH:STEP pairs in ascending order */
[[nodiscard]] Lineage parse_lineage(std::string_view text);

}  // namespace millrace
