#include "memory/runs.hpp"

#include <limits>
#include <utility>

#include "ordering/steps.hpp"

namespace millrace {
namespace {

bool is_free(const Block* block) {
  return block != nullptr && block->state == BlockState::free &&
         block->waits != BlockWaits::unlisted;
}

}  // namespace

// Returns the extent of the run that begins with `head`, or of `head` alone if there is no run.
Runs::Extent Runs::extent_of(const Block* head) const {
  if (head->run == 0) return {1, head->bytes, head->bytes};
  const Run& run = runs_[head->run - 1];
  return {run.count, run.bytes, run.at_least};
}

// Joins the block with the runs on its left and on its right, as far as the result has at most
// `kMost` blocks. A block finds its run by going left to the block with `begins_run`.
std::size_t Runs::freed(Block* block) {
  Block* head = block;
  bool& parted = pools_[block->segment->small ? 1 : 0].parted;
  Extent all{1, block->bytes, block->bytes};
  if (is_free(block->previous)) {
    Block* left = block->previous;
    for (; !left->begins_run; left = left->previous) ordering::count_steps(1);
    const Extent more = extent_of(left);
    parted = parted || more.count >= kMost;
    if (more.count < kMost) {
      remove(left);
      head = left;
      all = all + more;
    }
  }
  block->begins_run = head == block;
  if (Block* const right = block->next; is_free(right)) {
    const Extent more = extent_of(right);
    parted = parted || all.count + more.count > kMost;
    if (all.count + more.count <= kMost) {
      remove(right);
      right->begins_run = false;
      all = all + more;
    }
  }
  make(head, all);
  return parted ? std::numeric_limits<std::size_t>::max() : all.bytes;
}

// Splits the run into the blocks before and after the block. `at_least` of the whole run stays a
// lower bound for both parts, so the other blocks need not be visited.
void Runs::claimed(Block* block) {
  Block* head = block;
  std::size_t before = 0, bytes_before = 0;
  while (!head->begins_run) {
    ordering::count_steps(1);
    head = head->previous;
    bytes_before += head->bytes;
    ++before;
  }
  block->begins_run = false;
  if (head->run == 0) return;
  const Extent all = extent_of(head);
  remove(head);
  make(head, {before, bytes_before, all.at_least});
  const std::size_t behind = all.count - before - 1;
  if (behind == 0) return;
  block->next->begins_run = true;
  make(block->next, {behind, all.bytes - bytes_before - block->bytes, all.at_least});
}

void Runs::make(Block* first, const Extent& blocks) {
  if (blocks.count < 2) return;
  if (spare_.empty()) {
    if (spare_.capacity() <= runs_.size()) spare_.reserve(2 * runs_.size() + 1);  // for `remove`
    runs_.emplace_back();
    first->run = static_cast<std::uint32_t>(runs_.size());
  } else {
    first->run = spare_.back();
    spare_.pop_back();
  }
  Run* const run = &runs_[first->run - 1];
  *run = Run{
      .first = first, .count = blocks.count, .bytes = blocks.bytes, .at_least = blocks.at_least};
  Pool& pool = pools_[first->segment->small ? 1 : 0];
  const SizeBin bin = SizeBin::of(blocks.bytes);
  Row& row = pool.rows[bin.row];
  Run*& newest = row.bins[bin.column];
  run->next = newest;
  if (newest != nullptr) newest->previous = run;
  newest = run;
  row.in_use |= std::uint32_t{1} << bin.column;
  pool.in_use |= std::uint64_t{1} << bin.row;
}

void Runs::remove(Block* first) {
  if (first->run == 0) return;
  Run* const run = &runs_[first->run - 1];
  Pool& pool = pools_[first->segment->small ? 1 : 0];
  const SizeBin bin = SizeBin::of(run->bytes);
  Row& row = pool.rows[bin.row];
  Run*& newest = row.bins[bin.column];
  spare_.push_back(std::exchange(first->run, 0));
  if (run->next != nullptr) run->next->previous = run->previous;
  (run->previous != nullptr ? run->previous->next : newest) = run->next;
  if (newest != nullptr) return;
  row.in_use &= ~(std::uint32_t{1} << bin.column);
  if (row.in_use == 0) pool.in_use &= ~(std::uint64_t{1} << bin.row);
}

void Runs::visit(bool small, std::size_t bytes,
                 const std::function<bool(const Run&)>& visit) const {
  const Pool& pool = pools_[small ? 1 : 0];
  const SizeBin least = SizeBin::of(bytes);
  std::size_t too_small = 0;
  const auto visit_bin = [&](const Run* run) {
    for (; run != nullptr && too_small < kMostTooSmall; run = run->next) {
      ordering::count_steps(1);
      if (run->bytes < bytes) {
        ++too_small;
      } else if (!visit(*run)) {
        return false;
      }
    }
    too_small = 0;
    return true;
  };
  std::uint64_t rows = pool.in_use >> least.row << least.row;
  for (; rows != 0; rows &= rows - 1) {
    const auto number = static_cast<unsigned>(std::countr_zero(rows));
    const Row& row = pool.rows[number];
    std::uint32_t bins = row.in_use;
    if (number == least.row) bins = bins >> least.column << least.column;
    for (; bins != 0; bins &= bins - 1) {
      if (!visit_bin(row.bins[static_cast<unsigned>(std::countr_zero(bins))])) return;
    }
  }
}

void Runs::visit_largest(bool small, const std::function<bool(const Run&)>& visit) const {
  const Pool& pool = pools_[small ? 1 : 0];
  for (std::uint64_t rows = pool.in_use; rows != 0; rows &= ~std::bit_floor(rows)) {
    const Row& row = pool.rows[static_cast<unsigned>(std::bit_width(rows)) - 1];
    for (std::uint32_t bins = row.in_use; bins != 0; bins &= ~std::bit_floor(bins)) {
      const Run* run = row.bins[static_cast<unsigned>(std::bit_width(bins)) - 1];
      for (; run != nullptr; run = run->next) {
        ordering::count_steps(1);
        if (!visit(*run)) return;
      }
    }
  }
}

}  // namespace millrace
