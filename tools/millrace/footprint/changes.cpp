#include "footprint/changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "cli/wording.hpp"

namespace millrace::cli {
namespace {

/** The row that reserves least among the rows that `accept` takes; nullptr if it takes none. */
template <typename Accept>
const FootprintRow* least(const FootprintTable& table, Accept accept) {
  const FootprintRow* best = nullptr;
  for (const FootprintRow& row : table.rows) {
    if (!row.ok() || !accept(row)) continue;
    if (best == nullptr || row.figures.reserved < best->figures.reserved) best = &row;
  }
  return best;
}

/** Collects changes from the usual row, each row once. */
class Changes {
 public:
  explicit Changes(const FootprintTable& table) : table_(table), from_(*table.usual()) {}

  void other_copies(std::string title) {
    add(std::move(title), least(table_, [&](const FootprintRow& row) {
          return row.allocator == from_.allocator && same_speed(row);
        }));
  }
  void another_allocator(std::string title) {
    add(std::move(title), table_.find("millrace", from_.method));
  }
  void least_at_this_speed(std::string title) {
    add(std::move(title), least(table_, [&](const FootprintRow& row) { return same_speed(row); }));
  }
  void least_of_all(std::string title) {
    add(std::move(title), least(table_, [](const FootprintRow&) { return true; }));
  }

  [[nodiscard]] std::vector<Change> take() { return std::move(changes_); }
  [[nodiscard]] std::size_t size() const noexcept { return changes_.size(); }

 private:
  [[nodiscard]] bool same_speed(const FootprintRow& row) const {
    return costs_no_time(from_.figures, row.figures);
  }
  void add(std::string title, const FootprintRow* to) {
    if (to == nullptr || to == &from_) return;
    if (std::ranges::find(changes_, to, &Change::to) != changes_.end()) return;
    changes_.push_back({std::move(title), to});
  }

  const FootprintTable& table_;
  const FootprintRow& from_;
  std::vector<Change> changes_;
};

}  // namespace

std::string full_name(const FootprintRow& row) {
  return fmt::format("{}, {}", row.allocator, millrace::to_string(row.method));
}

std::vector<Change> all_changes(const FootprintTable& table) {
  Changes changes{table};
  changes.other_copies("Other copies");
  changes.another_allocator("Another allocator");
  changes.least_at_this_speed(
      fmt::format("Least memory within {} of the step", percent(kSameStep)));
  changes.least_of_all("Least memory");
  return changes.take();
}

std::vector<Change> first_changes(const FootprintTable& table) {
  Changes changes{table};
  changes.another_allocator("Another allocator");
  changes.least_at_this_speed("Least at this speed");
  if (changes.size() < 2) changes.other_copies("Other copies");
  return changes.take();
}

bool costs_no_time(const FootprintFigures& from, const FootprintFigures& to) {
  return to.step_p50 <= (1 + kSameStep) * from.step_p50 && to.hidden >= from.hidden - kSameHidden;
}

}  // namespace millrace::cli
