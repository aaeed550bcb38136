#include "capture/dirty_protocol.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

namespace millrace::capture {
namespace {

/** A list up to this length is kept, even if the source has few rows. */
constexpr std::size_t kFewRows = 4096;

}  // namespace

std::uint64_t DirtyProtocol::request(std::span<const std::uint64_t> ids) {
  if (ids.empty()) return 0;
  const std::lock_guard lock{mutex_};
  if (!pending_.all) pending_.rows.insert(pending_.rows.end(), ids.begin(), ids.end());
  // Marking all rows is one range, and takes no memory. It only delivers more rows than requested.
  if (pending_.rows.size() > std::max(kFewRows, rows_ / 4)) {
    pending_.all = true;
    pending_.rows = {};
  }
  return pending_.request = ++requests_;
}

std::uint64_t DirtyProtocol::request_all() {
  if (rows_ == 0) return 0;  // a rank may have no table
  const std::lock_guard lock{mutex_};
  pending_.all = true;
  return pending_.request = ++requests_;
}

bool DirtyProtocol::maybe_dirty() const {
  const std::lock_guard lock{mutex_};
  return !pending_.empty() || applying_ || marked_at_ > clean_at_;
}

PendingRows DirtyProtocol::take_pending() {
  const std::lock_guard lock{mutex_};
  // The rows are neither pending nor marked yet, but `maybe_dirty` must return true.
  applying_ = !pending_.empty();
  return std::exchange(pending_, {});
}

void DirtyProtocol::applied(const PendingRows& rows) {
  const std::lock_guard lock{mutex_};
  applying_ = false;
  requests_applied_ = std::max(requests_applied_, rows.request);
  returned_applied_ += rows.returned;
  assert(consistent());
}

void DirtyProtocol::put_back(const PendingRows& rows) {
  const std::lock_guard lock{mutex_};
  applying_ = false;
  pending_.all = pending_.all || rows.all;
  pending_.request = std::max(pending_.request, rows.request);
  pending_.returned += rows.returned;
  try {
    if (!pending_.all) {
      pending_.rows.insert(pending_.rows.end(), rows.rows.begin(), rows.rows.end());
    }
  } catch (const std::bad_alloc&) {  // all rows include these, and need no memory
    pending_.all = true;
  }
  if (pending_.all) pending_.rows = {};
  assert(consistent());
}

void DirtyProtocol::marked(std::uint64_t rows) {
  const std::lock_guard lock{mutex_};
  marked_at_ = ++sequence_;
  marked_ += rows;
  assert(consistent());
}

void DirtyProtocol::marked_returned(std::uint64_t rows) {
  const std::lock_guard lock{mutex_};
  returned_applied_ += rows;
  assert(consistent());
}

std::uint64_t DirtyProtocol::gathered() {
  const std::lock_guard lock{mutex_};
  return ++sequence_;
}

DirtyPoint DirtyProtocol::point() const {
  const std::lock_guard lock{mutex_};
  return {.requests = requests_applied_, .marked = marked_, .returned = returned_applied_};
}

std::uint64_t DirtyProtocol::missing_at_header() const {
  const std::lock_guard lock{mutex_};
  return missing_;
}

std::uint64_t DirtyProtocol::missing_now() const {
  const std::lock_guard lock{mutex_};
  return missing_ + (marked_ - marked_at_header_);
}

void DirtyProtocol::header_came(std::uint64_t sequence, std::uint64_t missing,
                                const DirtyPoint& point) {
  const std::lock_guard lock{mutex_};
  // The training thread may have marked rows since that gather. A number never decreases.
  std::uint64_t& at = missing == 0 ? clean_at_ : marked_at_;
  at = std::max(at, sequence);
  missing_ = missing;
  marked_at_header_ = point.marked;
  assert(consistent());
}

void DirtyProtocol::header_lost(std::uint64_t sequence) {
  const std::lock_guard lock{mutex_};
  // Its number of missing rows is unknown, so bits may be set until a later header says otherwise.
  marked_at_ = std::max(marked_at_, sequence);
  assert(consistent());
}

std::uint64_t DirtyProtocol::missing(const DirtyPoint& point, std::uint64_t header) const {
  const std::lock_guard lock{mutex_};
  return bounded(header + (returned_ - point.returned));
}

std::uint64_t DirtyProtocol::missing(const DirtyPoint& point) const {
  const std::lock_guard lock{mutex_};
  return bounded(missing_ + (point.marked - marked_at_header_) + (returned_ - point.returned));
}

bool DirtyProtocol::return_ids(std::span<const std::uint32_t> short_ids,
                               std::span<const std::uint64_t> long_ids) {
  const std::uint64_t count = short_ids.size() + long_ids.size();
  const std::lock_guard lock{mutex_};
  returned_ += count;
  pending_.returned += count;
  try {
    // Reserves before the first insertion, so that nothing after this throws.
    pending_.rows.reserve(pending_.rows.size() + count);
  } catch (const std::bad_alloc&) {
    pending_.all = true;
    return false;
  }
  pending_.rows.insert(pending_.rows.end(), short_ids.begin(), short_ids.end());
  pending_.rows.insert(pending_.rows.end(), long_ids.begin(), long_ids.end());
  return true;
}

void DirtyProtocol::returned(std::uint64_t rows) {
  const std::lock_guard lock{mutex_};
  returned_ += rows;
}

void DirtyProtocol::return_all() {
  const std::lock_guard lock{mutex_};
  pending_.all = rows_ > 0;
  pending_.returned += rows_;
  returned_ += rows_;
  assert(consistent());
}

bool DirtyProtocol::holds() const {
  const std::lock_guard lock{mutex_};
  return consistent();
}

bool DirtyProtocol::consistent() const noexcept {
  return clean_at_ <= sequence_ && marked_at_ <= sequence_ && requests_applied_ <= requests_ &&
         pending_.request <= requests_ && returned_applied_ + pending_.returned <= returned_ &&
         marked_at_header_ <= marked_;
}

std::uint64_t DirtyProtocol::bounded(std::uint64_t missing) const noexcept {
  // The count is an upper bound in which a row may be counted twice.
  return std::min<std::uint64_t>(missing, rows_);
}

}  // namespace millrace::capture
