#include "memory/runs.hpp"

namespace millrace {
namespace {

bool is_free(const Block* block) {
  return block != nullptr && block->state == BlockState::free && block->waits != Waits::unlisted;
}

struct Extent {
  std::size_t count = 0, bytes = 0;
};

// Of the run that begins with `head`.
Extent extent_of(const Block* head) {
  if (head->free.run == nullptr) return {1, head->bytes};
  return {head->free.run->count, head->free.run->bytes};
}

}  // namespace

void Runs::freed(Block* block) {
  Block* head = block;
  Extent all{1, block->bytes};
  if (is_free(block->previous)) {
    Block* left = block->previous;
    while (!left->begins_run) left = left->previous;
    const Extent more = extent_of(left);
    if (more.count < kMost) {
      remove(left);
      head = left;
      all = {all.count + more.count, all.bytes + more.bytes};
    }
  }
  block->begins_run = head == block;
  if (Block* const right = block->next; is_free(right)) {
    const Extent more = extent_of(right);
    if (all.count + more.count <= kMost) {
      remove(right);
      right->begins_run = false;
      all = {all.count + more.count, all.bytes + more.bytes};
    }
  }
  make(head, all.count, all.bytes);
}

void Runs::claimed(Block* block) {
  Block* head = block;
  std::size_t before = 0, bytes_before = 0;
  while (!head->begins_run) {
    head = head->previous;
    bytes_before += head->bytes;
    ++before;
  }
  block->begins_run = false;
  if (head->free.run == nullptr) return;
  const Extent all = extent_of(head);
  remove(head);
  make(head, before, bytes_before);
  const std::size_t behind = all.count - before - 1;
  if (behind == 0) return;
  block->next->begins_run = true;
  make(block->next, behind, all.bytes - bytes_before - block->bytes);
}

void Runs::make(Block* first, std::size_t count, std::size_t bytes) {
  if (count < 2) return;
  Run* run = nullptr;
  if (spare_.empty()) {
    run = &runs_.emplace_back();
  } else {
    run = spare_.back();
    spare_.pop_back();
  }
  *run = Run{.first = first, .count = count, .bytes = bytes};
  first->free.run = run;
  Pool& pool = pools_[first->segment->small ? 1 : 0];
  Run*& bin = pool.bins[bin_of(bytes)];
  run->next = bin;
  if (bin != nullptr) bin->previous = run;
  bin = run;
  pool.in_use |= std::uint64_t{1} << bin_of(bytes);
}

void Runs::remove(Block* first) {
  Run* const run = first->free.run;
  if (run == nullptr) return;
  first->free.run = nullptr;
  Pool& pool = pools_[first->segment->small ? 1 : 0];
  Run*& bin = pool.bins[bin_of(run->bytes)];
  if (run->next != nullptr) run->next->previous = run->previous;
  (run->previous != nullptr ? run->previous->next : bin) = run->next;
  if (bin == nullptr) pool.in_use &= ~(std::uint64_t{1} << bin_of(run->bytes));
  spare_.push_back(run);
}

void Runs::visit(bool small, std::size_t bytes,
                 const std::function<bool(const Run&)>& visit) const {
  const Pool& pool = pools_[small ? 1 : 0];
  std::uint64_t bins = pool.in_use >> bin_of(bytes) << bin_of(bytes);
  for (; bins != 0; bins &= bins - 1) {
    for (const Run* run = pool.bins[static_cast<unsigned>(std::countr_zero(bins))]; run != nullptr;
         run = run->next) {
      if (run->bytes >= bytes && !visit(*run)) return;
    }
  }
}

}  // namespace millrace
